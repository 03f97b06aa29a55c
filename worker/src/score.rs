//! From scores to predictions and metrics, on the scale of the data before negatives were left out.

use ndarray::{ArrayView1, ArrayView2, ArrayViewMut2};
use windlass_common::batch::Batch;
use windlass_common::tally::{Tally, Task};

use crate::loss::{Loss, class, log_sum_exp, narrow, sigmoid};

/// Reads scores as predictions; the same for progressive validation and for held-out files.
///
/// Where the data has only a share r of the negatives, a model learns odds that are 1/r times too
/// high. He et al. 2014 ("Practical Lessons from Predicting Clicks on Ads at Facebook", section
/// 6.3) put a probability p back by `q = p / (p + (1 - p) / r)`; of log odds that is `s + ln r`.
/// Each negative that is left stands for 1/r of them, so it weighs that much in metrics. Gradients
/// know nothing of this: training is on the data as it is.
#[derive(Clone, Copy, Debug)]
pub struct Scorer {
    task: Task,
    shift: f32,
    negative_weight: f32,
}

impl Scorer {
    /// Takes the loss that was trained for, and the share of the negatives that the data has, above
    /// 0 and at most 1, which matters to binary labels alone.
    #[must_use]
    pub fn new(loss: Loss, negative_sampling_rate: f64) -> Self {
        Self {
            task: loss.task(),
            shift: narrow(negative_sampling_rate.ln()),
            negative_weight: narrow(negative_sampling_rate.recip()),
        }
    }

    /// Starts an empty tally of its task.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally::new(self.task)
    }

    /// Adds a scored batch to a tally. Shape: `scores` is `[examples, outputs]`.
    pub fn add(&self, scores: &ArrayView2<'_, f32>, batch: &Batch, tally: &mut Tally) {
        let examples = batch.labels.iter().zip(&batch.weights);
        for (scores, (&label, &weight)) in scores.outer_iter().zip(examples) {
            match self.task {
                Task::Binary => {
                    let score = scores[0] + self.shift;
                    let probability = narrow(sigmoid(score.into()));
                    let stands_for = if label > 0.5 {
                        1.0
                    } else {
                        self.negative_weight
                    };
                    tally.add_binary(score, probability, label, weight * stands_for);
                }
                Task::Real => tally.add_real(scores[0], label, weight),
                Task::Unscored => tally.add_unscored(weight),
                Task::Classes => {
                    let class = class(label);
                    let log_loss = log_sum_exp(&scores) - f64::from(scores[class]);
                    let right = likeliest(&scores) == class;
                    tally.add_class(narrow(log_loss), right, weight);
                }
            }
        }
    }

    /// Writes predictions: a probability, a real value, or a probability a class.
    ///
    /// Shapes: both `[examples, outputs]`.
    pub fn predict(&self, scores: &ArrayView2<'_, f32>, predictions: &mut ArrayViewMut2<'_, f32>) {
        let examples = scores.outer_iter().zip(predictions.outer_iter_mut());
        for (scores, mut predictions) in examples {
            match self.task {
                Task::Binary => {
                    predictions[0] = narrow(sigmoid((scores[0] + self.shift).into()));
                }
                Task::Real | Task::Unscored => predictions[0] = scores[0],
                Task::Classes => {
                    let log_sum = log_sum_exp(&scores);
                    predictions
                        .zip_mut_with(&scores, |p, &s| *p = narrow((f64::from(s) - log_sum).exp()));
                }
            }
        }
    }
}

/// Finds the class with the highest score; of equals the first. Shape: `[classes]`.
#[must_use]
pub fn likeliest(scores: &ArrayView1<'_, f32>) -> usize {
    let mut best = 0;
    for (class, &score) in scores.iter().enumerate() {
        if score > scores[best] {
            best = class;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, arr2};
    use windlass_common::key::mix64;
    use windlass_common::tally::Metric;

    use super::*;

    fn assert_close(a: f64, b: f64, tolerance: f64) {
        assert!(
            (a - b).abs() <= tolerance,
            "{a} is not {b} within {tolerance}"
        );
    }

    /// p = 1/2 with one negative in ten left: q = 0.5 / (0.5 + 0.5 / 0.1) = 1/11.
    #[test]
    fn predictions_are_put_back_on_the_true_scale() {
        let mut predictions = arr2(&[[f32::NAN]]);
        Scorer::new(Loss::Logistic, 0.1)
            .predict(&arr2(&[[0.0]]).view(), &mut predictions.view_mut());
        // ln 0.1 and the prediction are rounded to f32.
        assert_close(predictions[[0, 0]].into(), 1.0 / 11.0, 2e-8);
    }

    #[test]
    fn real_values_are_predictions_as_they_are() {
        let scores = arr2(&[[2.5], [-1.0]]);
        let mut predictions = Array2::zeros((2, 1));
        let scorer = Scorer::new(Loss::Squared, 1.0);
        scorer.predict(&scores.view(), &mut predictions.view_mut());
        assert_eq!(predictions, scores);

        let mut batch = Batch::default();
        batch.finish_example(0.5, 3.0);
        batch.finish_example(-1.0, 1.0);
        let mut tally = scorer.tally();
        scorer.add(&scores.view(), &batch, &mut tally);
        // Errors 2 and 0, of which the first counts three times: the mean square is 12 / 4.
        assert_eq!(tally.value(Metric::Rmse), Some(3f64.sqrt()));
    }

    /// Scores ln 1, ln 2, ln 5 are probabilities 1/8, 2/8, 5/8.
    #[test]
    fn classes_have_probabilities_log_loss_and_accuracy() {
        let scores = arr2(&[[0.0, 2f32.ln(), 5f32.ln()], [0.0, 2f32.ln(), 5f32.ln()]]);
        let scorer = Scorer::new(Loss::SoftmaxCrossEntropy, 1.0);
        let mut predictions = Array2::zeros((2, 3));
        scorer.predict(&scores.view(), &mut predictions.view_mut());
        for (&p, expected) in predictions.iter().zip([0.125, 0.25, 0.625]) {
            assert_close(p.into(), expected, 1e-7);
        }

        let mut batch = Batch::default();
        batch.finish_example(2.0, 1.0);
        batch.finish_example(1.0, 3.0);
        let mut tally = scorer.tally();
        scorer.add(&scores.view(), &batch, &mut tally);
        let expected = ((8f64 / 5.0).ln() + 3.0 * 4f64.ln()) / 4.0;
        assert_close(tally.value(Metric::LogLoss).unwrap(), expected, 2e-7);
        assert_eq!(tally.value(Metric::Accuracy), Some(0.25));
        assert_eq!(likeliest(&arr2(&[[1.0, 3.0, 3.0]]).row(0)), 1);
    }

    /// A known law, q = σ(x - 3) with x uniform on [-2, 2), of which one negative in ten is kept; a
    /// perfect model of what is kept has log odds x - 3 + ln 10.
    ///
    /// With w the weight of a kept example (1 or 1/r), the sum of w (q - y) has mean 0, and a
    /// variance of q (1 - q)² + (1 - q) q² / r an example, which gives the standard error. The same
    /// goes for the log loss, whose terms -ln q and -ln(1 - q) have a known mean.
    #[test]
    fn sampled_negatives_leave_calibration_and_log_loss_true() {
        let rate = 0.1f64;
        let uniform = |n: u64| (mix64(n) >> 11) as f64 / (1u64 << 53) as f64;
        let mut batch = Batch::default();
        let mut scores = Vec::new();
        let (mut positives, mut bias_variance) = (0.0, 0.0);
        let (mut total, mut loss_mean, mut loss_variance) = (0.0, 0.0, 0.0);
        for n in 0..200_000u64 {
            let x = 4.0 * uniform(3 * n) - 2.0;
            let q = sigmoid(x - 3.0);
            let positive = uniform(3 * n + 1) < q;
            let mean = -q * q.ln() - (1.0 - q) * (-q).ln_1p();
            let square = q * q.ln().powi(2) + (1.0 - q) * (-q).ln_1p().powi(2) / rate;
            positives += q;
            bias_variance += q * (1.0 - q).powi(2) + (1.0 - q) * q * q / rate;
            total += 1.0;
            loss_mean += mean;
            loss_variance += square - mean * mean;
            if positive || uniform(3 * n + 2) < rate {
                batch.finish_example(f32::from(u8::from(positive)), 1.0);
                scores.push(narrow(x - 3.0 - rate.ln()));
            }
        }
        let scores = Array2::from_shape_vec((scores.len(), 1), scores).unwrap();
        let values = |rate| {
            let scorer = Scorer::new(Loss::Logistic, rate);
            let mut tally = scorer.tally();
            scorer.add(&scores.view(), &batch, &mut tally);
            let calibration = tally.value(Metric::Calibration).unwrap();
            (calibration, tally.log_loss)
        };
        let error = bias_variance.sqrt() / positives;
        let (calibration, log_loss) = values(rate);
        assert_close(calibration, 1.0, 3.0 * error);
        assert_close(
            log_loss / total,
            loss_mean / total,
            3.0 * loss_variance.sqrt() / total,
        );
        // A correction for another rate is seen: by the loss, for in the calibration the error of
        // the weights and that of the predictions nearly cancel.
        for wrong in [0.15, 1.0] {
            let (_, log_loss) = values(wrong);
            let error = (log_loss - loss_mean).abs();
            assert!(error > 10.0 * loss_variance.sqrt(), "{wrong}: {error}");
        }
    }
}
