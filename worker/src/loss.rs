//! Losses: what training minimises, with the gradient by each score.

use ndarray::{ArrayView1, ArrayView2, ArrayViewMut2, Zip};
use windlass_common::batch::Batch;
use windlass_common::config::Reduction;
use windlass_common::tally::Task;

/// A function of scores and labels.
///
/// With s an example's score, y its label, w its weight. Losses are in nats and are summed in f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// `w (ln(1 + e^s) - s y)`, y in {0, 1}; by score `w (σ(s) - y)` with σ(s) = 1 / (1 + e^-s).
    ///
    /// The negative log likelihood of y under log odds s (Bishop 2006, section 4.3.2), computed as
    /// `max(s, 0) - s y + ln(1 + e^-|s|)`, which neither overflows nor takes the logarithm of 0.
    Logistic,
    /// `w (s - y)² / 2`; by score `w (s - y)`.
    Squared,
    /// `w (ln Σ_c e^(s_c) - s_y)`, y in 0..classes; by score `w (e^(s_c) / Σ_d e^(s_d) - [c = y])`
    /// (Bishop 2006, section 4.3.4). The largest score is taken out of the sum, so none overflows.
    SoftmaxCrossEntropy,
    /// 0, of any score: there is nothing to learn.
    Nothing,
}

impl Loss {
    /// Says what kind of labels it is about; metrics follow from that.
    #[must_use]
    pub fn task(self) -> Task {
        match self {
            Self::Logistic => Task::Binary,
            Self::Squared => Task::Real,
            Self::SoftmaxCrossEntropy => Task::Classes,
            Self::Nothing => Task::Unscored,
        }
    }

    /// Tells whether a label can be learnt from, where an example has `outputs` scores.
    #[must_use]
    pub fn admits(self, label: f32, outputs: usize) -> bool {
        match self {
            Self::Logistic => label == 0.0 || label == 1.0,
            Self::Squared | Self::Nothing => label.is_finite(),
            Self::SoftmaxCrossEntropy => {
                label >= 0.0 && label.fract() == 0.0 && label < outputs as f32
            }
        }
    }

    /// Describes the labels that it admits, for messages: "0 or 1".
    #[must_use]
    pub fn label_rule(self, outputs: usize) -> String {
        match self {
            Self::Logistic => "0 or 1".into(),
            Self::Squared | Self::Nothing => "a finite number".into(),
            Self::SoftmaxCrossEntropy => format!("a whole number in 0..{outputs}"),
        }
    }

    /// Returns the loss of a batch and writes its gradient by each score.
    ///
    /// Shapes: `scores` and `by_score` are `[examples, outputs]`. The mean divides by the sum of
    /// the batch's weights; where that is 0, so are loss and gradient.
    ///
    /// # Panics
    /// If a class is not below `outputs`; [`Loss::admits`] guards against it.
    pub fn value_and_gradient(
        self,
        scores: &ArrayView2<'_, f32>,
        batch: &Batch,
        reduction: Reduction,
        by_score: &mut ArrayViewMut2<'_, f32>,
    ) -> f64 {
        let weight: f64 = batch.weights.iter().map(|&w| f64::from(w)).sum();
        let scale = match reduction {
            Reduction::Sum => 1.0,
            Reduction::Mean if weight > 0.0 => weight.recip(),
            Reduction::Mean => 0.0,
        };
        let mut value = 0.0;
        let examples = scores.outer_iter().zip(by_score.outer_iter_mut());
        for ((scores, mut by_score), (&label, &weight)) in
            examples.zip(batch.labels.iter().zip(&batch.weights))
        {
            let weight = scale * f64::from(weight);
            let residual = |p: f64, y: f64| narrow(weight * (p - y));
            let (s, y) = (f64::from(scores[0]), f64::from(label));
            value += weight
                * match self {
                    Self::Logistic => {
                        by_score[0] = residual(sigmoid(s), y);
                        s.max(0.0) - s * y + (-s.abs()).exp().ln_1p()
                    }
                    Self::Squared => {
                        by_score[0] = residual(s, y);
                        (s - y).powi(2) / 2.0
                    }
                    Self::SoftmaxCrossEntropy => {
                        let log_sum = log_sum_exp(&scores);
                        Zip::from(&mut by_score).and(&scores).for_each(|g, &s| {
                            *g = residual((f64::from(s) - log_sum).exp(), 0.0);
                        });
                        let class = class(label);
                        let s = f64::from(scores[class]);
                        by_score[class] = residual((s - log_sum).exp(), 1.0);
                        log_sum - s
                    }
                    Self::Nothing => {
                        by_score.fill(0.0);
                        0.0
                    }
                };
        }
        value
    }
}

/// Turns log odds into a probability, without overflow on either side.
#[must_use]
pub fn sigmoid(score: f64) -> f64 {
    let e = (-score.abs()).exp();
    if score >= 0.0 {
        1.0 / (1.0 + e)
    } else {
        e / (1.0 + e)
    }
}

/// Computes `ln Σ e^s`. Shape: `[classes]`, 1 or more.
pub(crate) fn log_sum_exp(scores: &ArrayView1<'_, f32>) -> f64 {
    let largest = f64::from(scores.fold(f32::NEG_INFINITY, |a, &b| a.max(b)));
    let sum: f64 = scores.iter().map(|&s| (f64::from(s) - largest).exp()).sum();
    largest + sum.ln()
}

/// Reads a label as a class.
#[expect(
    clippy::cast_possible_truncation,
    reason = "admitted labels are whole numbers below the count of classes"
)]
pub(crate) fn class(label: f32) -> usize {
    label as usize
}

/// Rounds to the precision in which scores, predictions and gradients are kept.
#[expect(
    clippy::cast_possible_truncation,
    reason = "weights and gradients are f32 everywhere"
)]
pub(crate) fn narrow(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, arr2};

    use super::*;

    fn batch(labels: &[f32], weights: &[f32]) -> Batch {
        let mut batch = Batch::default();
        for (&label, &weight) in labels.iter().zip(weights) {
            batch.finish_example(label, weight);
        }
        batch
    }

    fn evaluate(
        loss: Loss,
        scores: &Array2<f32>,
        batch: &Batch,
        reduction: Reduction,
    ) -> (f64, Array2<f32>) {
        let mut by_score = Array2::from_elem(scores.dim(), f32::NAN);
        let value =
            loss.value_and_gradient(&scores.view(), batch, reduction, &mut by_score.view_mut());
        (value, by_score)
    }

    fn assert_close(a: f64, b: f64) {
        // A gradient is rounded to f32 once: half of 2^-23 of its size.
        assert!((a - b).abs() <= 6e-8 * b.abs().max(1e-3), "{a} is not {b}");
    }

    /// σ(ln 3) = 3/4, so the losses are ln 4/3 for label 1 and ln 4 for label 0.
    #[test]
    fn logistic_loss_of_odds_three_to_one() {
        let scores = arr2(&[[3f32.ln()], [3f32.ln()]]);
        let batch = batch(&[1.0, 0.0], &[1.0, 3.0]);
        let (value, by_score) = evaluate(Loss::Logistic, &scores, &batch, Reduction::Sum);
        // ln 3 was rounded to f32, an error of 4e-8 at most.
        assert!((value - ((4.0f64 / 3.0).ln() + 3.0 * 4f64.ln())).abs() < 2e-7);
        assert_close(by_score[[0, 0]].into(), -0.25);
        assert_close(by_score[[1, 0]].into(), 2.25);
    }

    #[test]
    fn extreme_log_odds_stay_finite() {
        let scores = arr2(&[[1e30], [-1e30], [200.0], [-200.0]]);
        let batch = batch(&[1.0, 0.0, 0.0, 1.0], &[1.0; 4]);
        let (value, by_score) = evaluate(Loss::Logistic, &scores, &batch, Reduction::Sum);
        assert_eq!(value, 400.0);
        assert_eq!(by_score, arr2(&[[0.0], [0.0], [1.0], [-1.0]]));
        assert_eq!(sigmoid(-1e300), 0.0);
    }

    #[test]
    fn squared_loss_is_half_the_square() {
        let scores = arr2(&[[3.0], [-1.0]]);
        let batch = batch(&[1.0, 0.5], &[1.0, 2.0]);
        let (value, by_score) = evaluate(Loss::Squared, &scores, &batch, Reduction::Sum);
        assert_eq!(value, 2.0 + 2.0 * 1.125);
        assert_eq!(by_score, arr2(&[[2.0], [-3.0]]));
    }

    /// Scores ln 1, ln 2, ln 5 are probabilities 1/8, 2/8, 5/8; adding 1000 to all changes nothing.
    #[test]
    fn softmax_of_one_two_five() {
        let batch = batch(&[1.0], &[2.0]);
        for shift in [0.0, 1000.0] {
            let scores = arr2(&[[shift, 2f32.ln() + shift, 5f32.ln() + shift]]);
            let (value, by_score) =
                evaluate(Loss::SoftmaxCrossEntropy, &scores, &batch, Reduction::Sum);
            // Scores near 1000 are rounded by up to 2^-15.
            let tolerance = if shift == 0.0 { 2e-7 } else { 2e-4 };
            assert!((value - 2.0 * 4f64.ln()).abs() < tolerance);
            for (&got, expected) in by_score.iter().zip([0.25f64, -1.5, 1.25]) {
                assert!((f64::from(got) - expected).abs() < tolerance, "{got}");
            }
        }
    }

    /// Central differences in f64 err by h² |f'''| / 6 < 3e-7, for h = 2⁻⁸ and |f'''| ≤ 0.1; the
    /// gradient is rounded by 2⁻²⁴.
    #[test]
    fn gradients_are_finite_differences() {
        let h = 1.0 / 256.0;
        for (loss, outputs) in [(Loss::Logistic, 1), (Loss::SoftmaxCrossEntropy, 3)] {
            // Class 1 is the label; the other scores move together.
            let at = |s: f32| {
                let scores = Array2::from_shape_fn((1, outputs), |(_, c)| [s, 0.5, s][c]);
                evaluate(loss, &scores, &batch(&[1.0], &[1.0]), Reduction::Sum)
            };
            for eighths in -40i8..=40 {
                let s = f32::from(eighths) / 8.0;
                let (_, by_score) = at(s);
                let by_s: f32 = by_score.iter().step_by(2).sum();
                let difference = (at(s + h).0 - at(s - h).0) / f64::from(2.0 * h);
                assert!(
                    (f64::from(by_s) - difference).abs() < 1e-6,
                    "{loss:?} at {s}: {by_s} is not {difference}"
                );
            }
        }
    }

    #[test]
    fn the_mean_divides_by_the_sum_of_weights() {
        let scores = arr2(&[[3.0], [-1.0]]);
        let weighted = batch(&[1.0, 1.0], &[0.5, 1.5]);
        let (value, by_score) = evaluate(Loss::Squared, &scores, &weighted, Reduction::Mean);
        assert_eq!(value, (0.5 * 2.0 + 1.5 * 2.0) / 2.0);
        assert_eq!(by_score, arr2(&[[0.5], [-1.5]]));
        let weightless = batch(&[1.0, 1.0], &[0.0, 0.0]);
        let (value, by_score) = evaluate(Loss::Squared, &scores, &weightless, Reduction::Mean);
        assert_eq!((value, by_score), (0.0, arr2(&[[0.0], [0.0]])));
    }

    #[test]
    fn labels_that_cannot_be_learnt_from_are_told_apart() {
        let check = |loss: Loss, good: &[f32], bad: &[f32]| {
            assert!(good.iter().all(|&y| loss.admits(y, 3)), "{loss:?}");
            assert!(bad.iter().all(|&y| !loss.admits(y, 3)), "{loss:?}");
        };
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        check(Loss::Logistic, &[0.0, 1.0], &[-1.0, 0.5, 2.0, nan]);
        check(Loss::Squared, &[0.0, -3.5], &[nan, inf]);
        check(
            Loss::SoftmaxCrossEntropy,
            &[0.0, 2.0],
            &[3.0, -1.0, 0.5, nan, inf],
        );
    }
}
