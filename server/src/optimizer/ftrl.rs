//! FTRL-proximal per coordinate (McMahan et al. 2013, "Ad click prediction: a view from the
//! trenches", algorithm 1).

use windlass_common::optimizer::Ftrl;

/// Gives a new row the `z` whose proximal solution is its initial weights, so that the first step
/// starts from them; the paper starts all weights at 0, and so does `z = 0`.
///
/// Solved for z at n = 0: `z = -w·(β/α + λ₂) - sgn(w)·λ₁`. Shapes: weights `[dim]`, slots as in
/// [`step`].
pub(super) fn born(s: &Ftrl, weights: &[f32], slots: &mut [f32]) {
    for (z, &w) in slots.iter_mut().zip(weights) {
        *z = if w == 0.0 {
            0.0
        } else {
            -w * (s.beta / s.alpha + s.l2) - s.l1.copysign(w)
        };
    }
}

/// Takes one step: `σ = (√(n + g²) - √n)/α; z += g - σ·w; n += g²`, then the proximal solution
/// `w = 0 if |z| <= λ₁, else -(z - sgn(z)·λ₁)/((β + √n)/α + λ₂)`.
///
/// The paper computes w when it is read; here it is stored, since reads are more frequent. λ₂ is
/// the proximal penalty, so nothing is added to the gradient. Shapes: weights and gradient are
/// `[dim]`, slots are `z [dim]`, then `n [dim]`.
pub(super) fn step(s: &Ftrl, weights: &mut [f32], slots: &mut [f32], gradient: &[f32]) {
    let (zs, ns) = slots.split_at_mut(weights.len());
    for (((w, z), n), &g) in weights.iter_mut().zip(zs).zip(ns).zip(gradient) {
        let root = n.sqrt();
        *n += g * g;
        let new_root = n.sqrt();
        *z += g - (new_root - root) / s.alpha * *w;
        let strength = (s.beta + new_root) / s.alpha + s.l2;
        let solution = if z.abs() <= s.l1 {
            0.0
        } else {
            -(*z - s.l1.copysign(*z)) / strength
        };
        // Without β and λ₂ nothing holds a weight before its first gradient: 0/0.
        *w = if strength > 0.0 { solution } else { *w };
    }
}
