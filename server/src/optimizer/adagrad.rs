//! AdaGrad with one accumulator a weight (Duchi, Hazan and Singer 2011).

use windlass_common::optimizer::Adagrad;

/// Takes one step of the diagonal form: `a += g²; w -= lr·g/√(a + ε)`.
///
/// ε is under the root, unlike in `torch.optim.Adagrad`: one root and one division, and no
/// difference where a is far above ε. Shapes: all are `[dim]`.
pub(super) fn step(s: &Adagrad, weights: &mut [f32], accumulator: &mut [f32], gradient: &[f32]) {
    for ((w, a), &g) in weights.iter_mut().zip(accumulator).zip(gradient) {
        let g = g + s.l2 * *w;
        *a += g * g;
        *w -= s.learning_rate * g / (*a + s.epsilon).sqrt();
    }
}
