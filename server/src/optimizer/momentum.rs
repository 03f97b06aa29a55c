//! Gradient descent with heavy-ball momentum (Polyak 1964).

use windlass_common::optimizer::Momentum;

/// Takes one step: `v = μ·v + g; w -= lr·v`, the form without dampening in which the learning rate
/// is outside of the velocity (as `torch.optim.SGD` has it).
///
/// A row's velocity decays only when the row is touched. Shapes: all are `[dim]`.
pub(super) fn step(s: &Momentum, weights: &mut [f32], velocity: &mut [f32], gradient: &[f32]) {
    for ((w, v), &g) in weights.iter_mut().zip(velocity).zip(gradient) {
        let g = g + s.l2 * *w;
        *v = s.momentum * *v + g;
        *w -= s.learning_rate * *v;
    }
}
