//! AdaGrad with one accumulator a row, so that an embedding of `dim` weights carries one float of
//! state (the row-wise form of Mudigere et al. 2022, "Software-hardware co-design for fast and
//! scalable training of deep learning recommendation models").

use windlass_common::optimizer::Adagrad;

/// How many partial sums run side by side: one 256-bit register.
const LANES: usize = 8;

/// Takes one step: `a += mean(g²); w -= lr·g/√(a + ε)`.
///
/// ε is under the root as in `adagrad`, so both are the same at dim 1. Shapes: weights and gradient
/// are `[dim]`, the accumulator is `[1]`.
pub(super) fn step(s: &Adagrad, weights: &mut [f32], accumulator: &mut [f32], gradient: &[f32]) {
    let accumulated = &mut accumulator[0];
    *accumulated += mean_square(s.l2, weights, gradient);
    let rate = s.learning_rate / (*accumulated + s.epsilon).sqrt();
    for (w, &g) in weights.iter_mut().zip(gradient) {
        *w -= rate * (g + s.l2 * *w);
    }
}

/// The mean of g². Lane `i` sums elements `i, i + 8, ...`: a fixed order which vectorises, where a
/// single running sum of floats may not be reordered and would wait for each addition.
fn mean_square(l2: f32, weights: &[f32], gradient: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    for (ws, gs) in weights.chunks(LANES).zip(gradient.chunks(LANES)) {
        for ((sum, &w), &g) in lanes.iter_mut().zip(ws).zip(gs) {
            let g = g + l2 * w;
            *sum += g * g;
        }
    }
    lanes.iter().sum::<f32>() / weights.len() as f32
}
