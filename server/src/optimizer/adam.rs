//! Adam on touched rows only (Kingma and Ba 2015, algorithm 1).

use windlass_common::id::Clock;
use windlass_common::optimizer::Adam;

/// Adam at one push, its bias corrections computed.
///
/// `t` is the shard's count of pushes, not the row's: a row carries no count. Where every row is
/// touched by every push (dense blocks) this is Adam; a row that is rare keeps its moments between
/// its touches, and its first step comes with corrections near 1, as in other lazy Adams.
#[derive(Clone, Copy, Debug)]
pub struct Corrected {
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    l2: f32,
    /// `lr / (1 - β₁ᵗ)`.
    rate: f32,
    /// `1 / √(1 - β₂ᵗ)`.
    root: f32,
}

impl Corrected {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounds to the precision of the weights, once"
    )]
    pub(super) fn new(s: &Adam, step: Clock) -> Self {
        debug_assert!(step.0 > 0, "the first push is step 1");
        // In f64: 1 - β₂ᵗ loses most digits of an f32 while t is small.
        let correction = |beta: f32| 1.0 - f64::from(beta).powf(step.0 as f64);
        Self {
            beta1: s.beta1,
            beta2: s.beta2,
            epsilon: s.epsilon,
            l2: s.l2,
            rate: (f64::from(s.learning_rate) / correction(s.beta1)) as f32,
            root: correction(s.beta2).sqrt().recip() as f32,
        }
    }

    /// Takes one step: `m = β₁·m + (1 - β₁)·g; v = β₂·v + (1 - β₂)·g²; w -= lr·m̂/(√v̂ + ε)` with
    /// `m̂ = m/(1 - β₁ᵗ)` and `v̂ = v/(1 - β₂ᵗ)`.
    ///
    /// Shapes: weights and gradient are `[dim]`, slots are `m [dim]`, then `v [dim]`.
    pub(super) fn step(&self, weights: &mut [f32], slots: &mut [f32], gradient: &[f32]) {
        let (ms, vs) = slots.split_at_mut(weights.len());
        for (((w, m), v), &g) in weights.iter_mut().zip(ms).zip(vs).zip(gradient) {
            let g = g + self.l2 * *w;
            *m = self.beta1 * *m + (1.0 - self.beta1) * g;
            *v = self.beta2 * *v + (1.0 - self.beta2) * g * g;
            *w -= self.rate * *m / (v.sqrt() * self.root + self.epsilon);
        }
    }
}
