//! Stochastic gradient descent (Robbins and Monro 1951).

use windlass_common::optimizer::Sgd;

/// Takes one step: `w -= lr·g`.
///
/// Shapes: weights and gradient are `[dim]`; there are no slots.
pub(super) fn step(s: &Sgd, weights: &mut [f32], gradient: &[f32]) {
    for (w, &g) in weights.iter_mut().zip(gradient) {
        *w -= s.learning_rate * (g + s.l2 * *w);
    }
}
