//! Sums from which metrics are read: small, mergeable, and the same, but for f64's rounding, in
//! whatever order and by whomever they are added up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What can be measured of a set of scored examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Area under the ROC curve, from score counts.
    Auc,
    /// Mean logistic or cross-entropy loss in nats.
    LogLoss,
    /// Share of examples whose likeliest class is the label.
    Accuracy,
    /// Root of the mean squared error.
    Rmse,
    /// Sum of predictions over sum of labels: 1 is calibrated.
    Calibration,
    /// Log loss over the entropy of the base rate (He et al. 2014): below 1 beats the base rate.
    NormalizedEntropy,
}

impl Metric {
    /// All of them, in the order in which tables show them.
    pub const ALL: [Metric; 6] = [
        Metric::Auc,
        Metric::LogLoss,
        Metric::Accuracy,
        Metric::Rmse,
        Metric::Calibration,
        Metric::NormalizedEntropy,
    ];

    /// The name in configs and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auc => "auc",
            Self::LogLoss => "log_loss",
            Self::Accuracy => "accuracy",
            Self::Rmse => "rmse",
            Self::Calibration => "calibration",
            Self::NormalizedEntropy => "normalized_entropy",
        }
    }

    /// Whether `a` is a better value than `b`. Calibration is better the nearer it is to 1.
    #[must_use]
    pub fn better(self, a: f64, b: f64) -> bool {
        match self {
            Self::Auc | Self::Accuracy => a > b,
            Self::LogLoss | Self::Rmse | Self::NormalizedEntropy => a < b,
            Self::Calibration => (a - 1.0).abs() < (b - 1.0).abs(),
        }
    }
}

/// What kind of examples were scored; it says which metrics there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Labels 0 and 1, predictions are probabilities.
    #[default]
    Binary,
    /// Labels `0..classes`.
    Classes,
    /// Real labels.
    Real,
    /// Nothing is predicted: examples are counted, and there are no metrics.
    Unscored,
}

/// Sums over scored examples, each counted with its weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// What was scored.
    pub task: Task,
    /// How many examples, unweighted.
    pub examples: u64,
    /// Sum of weights.
    pub weight: f64,
    /// Sum of log losses in nats; 0 for real labels.
    pub log_loss: f64,
    /// Sum of labels.
    pub labels: f64,
    /// Sum of predictions.
    pub predictions: f64,
    /// Sum of squared errors; for binary labels of the probability.
    pub squared_error: f64,
    /// Sum of the weights of examples that were classified rightly.
    pub correct: f64,
    /// Binary only: for each bin of scores the weights of negatives and positives.
    pub scores: BTreeMap<u16, [f64; 2]>,
}

impl Tally {
    /// Starts from nothing.
    #[must_use]
    pub fn new(task: Task) -> Self {
        Self {
            task,
            ..Self::default()
        }
    }

    /// Adds a binary example: its score (log odds), probability, label and weight.
    pub fn add_binary(&mut self, score: f32, probability: f32, label: f32, weight: f32) {
        let (p, y, w) = (f64::from(probability), f64::from(label), f64::from(weight));
        self.add(p, y, w);
        // max(s, 0) - s y + ln(1 + e^-|s|): never the logarithm of a rounded 0.
        let s = f64::from(score);
        self.log_loss += w * (s.max(0.0) - s * y + (-s.abs()).exp().ln_1p());
        let positive = label > 0.5;
        self.correct += if (score > 0.0) == positive { w } else { 0.0 };
        self.scores.entry(bin(score)).or_default()[usize::from(positive)] += w;
    }

    /// Adds a real-valued example.
    pub fn add_real(&mut self, prediction: f32, label: f32, weight: f32) {
        self.add(f64::from(prediction), f64::from(label), f64::from(weight));
    }

    /// Adds an example of one of several classes: its log loss and whether the likeliest was right.
    pub fn add_class(&mut self, log_loss: f32, right: bool, weight: f32) {
        let w = f64::from(weight);
        self.examples += 1;
        self.weight += w;
        self.log_loss += w * f64::from(log_loss);
        self.correct += if right { w } else { 0.0 };
    }

    /// Adds an example of which nothing is predicted.
    pub fn add_unscored(&mut self, weight: f32) {
        self.examples += 1;
        self.weight += f64::from(weight);
    }

    fn add(&mut self, prediction: f64, label: f64, weight: f64) {
        self.examples += 1;
        self.weight += weight;
        self.labels += weight * label;
        self.predictions += weight * prediction;
        self.squared_error += weight * (prediction - label).powi(2);
    }

    /// Adds what another tally has counted. An empty tally takes the other's task; else the tasks
    /// must be the same.
    pub fn merge(&mut self, other: &Self) {
        if other.examples == 0 {
            return;
        }
        if self.examples == 0 {
            self.task = other.task;
        }
        debug_assert_eq!(self.task, other.task, "tallies of one job");
        self.examples += other.examples;
        self.weight += other.weight;
        self.log_loss += other.log_loss;
        self.labels += other.labels;
        self.predictions += other.predictions;
        self.squared_error += other.squared_error;
        self.correct += other.correct;
        for (&bin, counts) in &other.scores {
            let mine = self.scores.entry(bin).or_default();
            mine[0] += counts[0];
            mine[1] += counts[1];
        }
    }

    /// Reads a metric; `None` where this kind of examples has no such metric, or too few examples.
    #[must_use]
    pub fn value(&self, metric: Metric) -> Option<f64> {
        if self.weight <= 0.0 {
            return None;
        }
        let mean = |sum: f64| Some(sum / self.weight);
        match (metric, self.task) {
            (_, Task::Unscored) => None,
            (Metric::Auc, Task::Binary) => self.auc(),
            (Metric::LogLoss | Metric::Accuracy, Task::Real) => None,
            (Metric::LogLoss, _) => mean(self.log_loss),
            (Metric::Accuracy, _) => mean(self.correct),
            (Metric::Rmse, Task::Real) => mean(self.squared_error).map(f64::sqrt),
            (Metric::Calibration, Task::Binary | Task::Real) if self.labels != 0.0 => {
                Some(self.predictions / self.labels)
            }
            (Metric::NormalizedEntropy, Task::Binary) => {
                let base = self.labels / self.weight;
                let entropy = -base * base.ln() - (1.0 - base) * (-base).ln_1p();
                (entropy > 0.0).then(|| self.log_loss / self.weight / entropy)
            }
            _ => None,
        }
    }

    /// All metrics that there are, by name.
    #[must_use]
    pub fn values(&self) -> BTreeMap<&'static str, f64> {
        Metric::ALL
            .into_iter()
            .filter_map(|m| Some((m.name(), self.value(m)?)))
            .collect()
    }

    /// The probability that a positive scores above a negative; equal bins count one half
    /// (Mann-Whitney). Differs from the exact one by at most half the share of pairs in one bin.
    fn auc(&self) -> Option<f64> {
        let (mut below, mut won, mut positives) = (0.0, 0.0, 0.0);
        for [negative, positive] in self.scores.values() {
            won += positive * (below + 0.5 * negative);
            below += negative;
            positives += positive;
        }
        (below > 0.0 && positives > 0.0).then(|| won / (below * positives))
    }
}

/// The bin of a score: the top 16 bits of its float made monotone (sign, exponent, 7 bits of
/// mantissa), so a bin is at most 1/128 of its score wide at any scale.
fn bin(score: f32) -> u16 {
    // Adding 0 makes -0 the 0 that it equals.
    let bits = (score + 0.0).to_bits();
    let monotone = if bits >> 31 == 1 {
        !bits
    } else {
        bits | 1 << 31
    };
    (monotone >> 16) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Log odds, label, weight.
    type Example = (f32, f32, f32);

    fn tally(examples: &[Example]) -> Tally {
        let mut tally = Tally::new(Task::Binary);
        for &(score, label, weight) in examples {
            tally.add_binary(score, 1.0 / (1.0 + (-score).exp()), label, weight);
        }
        tally
    }

    fn assert_close(got: Option<f64>, expected: f64, tolerance: f64) {
        let got = got.unwrap();
        assert!(
            (got - expected).abs() <= tolerance * expected.abs(),
            "{got} is not {expected}"
        );
    }

    /// The examples of tests/golden/metrics.py.
    fn golden(n: u16) -> Example {
        let score = (f32::from(37 * n % 101) - 50.0) / 16.0;
        let label = if (7 * n * n + n) % 5 < 2 { 1.0 } else { 0.0 };
        (score, label, f32::from(1 + n % 3))
    }

    /// Expected values: tests/golden/metrics.py. Only predictions, which are f32, are rounded.
    #[test]
    fn binary_metrics_are_those_of_scikit_learn() {
        let tally = tally(&(0..40).map(golden).collect::<Vec<_>>());
        assert_close(tally.value(Metric::Auc), 0.6489583333333333, 1e-12);
        assert_close(tally.value(Metric::LogLoss), 0.8525194405380534, 1e-12);
        assert_close(tally.value(Metric::Accuracy), 0.5569620253164557, 1e-12);
        assert_close(tally.value(Metric::Calibration), 0.6451490322329042, 1e-7);
        assert_close(
            tally.value(Metric::NormalizedEntropy),
            1.7540131487547754,
            1e-12,
        );
        assert_eq!(tally.value(Metric::Rmse), None);
        assert_eq!(tally.values().len(), 5);
    }

    /// Expected values: tests/golden/metrics.py.
    #[test]
    fn metrics_of_real_labels_are_those_of_scikit_learn() {
        let mut tally = Tally::new(Task::Real);
        for n in 0..40 {
            let (score, _, weight) = golden(n);
            tally.add_real(score, f32::from(11 * n % 13) / 4.0, weight);
        }
        assert_close(tally.value(Metric::Rmse), 2.5423139782340125, 1e-12);
        assert_close(tally.value(Metric::Calibration), 0.08707264957264957, 1e-12);
        assert_eq!(tally.values().len(), 2);
    }

    #[test]
    fn classes_have_log_loss_and_accuracy() {
        let mut tally = Tally::new(Task::Classes);
        tally.add_class(0.5, true, 3.0);
        tally.add_class(2.5, false, 1.0);
        let expected = BTreeMap::from([("log_loss", 1.0), ("accuracy", 0.75)]);
        assert_eq!(tally.values(), expected);
    }

    /// The share of pairs of a positive and a negative that are in order, a tie counting one half.
    fn pairwise_auc(examples: &[Example]) -> f64 {
        let (mut won, mut pairs) = (0.0, 0.0);
        for &(s, _, w) in examples.iter().filter(|e| e.1 == 1.0) {
            for &(s0, _, w0) in examples.iter().filter(|e| e.1 == 0.0) {
                let pair = f64::from(w) * f64::from(w0);
                won += pair * (f64::from(u8::from(s > s0)) + f64::from(u8::from(s >= s0))) / 2.0;
                pairs += pair;
            }
        }
        won / pairs
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// A bin is at most 1/64 wide at scores up to 4: about one pair in 500 shares one, and of
        /// those as many are in order as not, but for chance and the slope of the densities.
        #[test]
        fn auc_of_random_scores_is_the_pairwise_one(
            examples in prop::collection::vec((-4f32..4.0, 0u8..2, 0.5f32..2.0), 1000..1200),
            lift in 0f32..2.0,
        ) {
            let examples: Vec<_> = examples
                .into_iter()
                .map(|(s, y, w)| (s + lift * f32::from(y), f32::from(y), w))
                .collect();
            let got = tally(&examples).value(Metric::Auc).unwrap();
            let expected = pairwise_auc(&examples);
            prop_assert!((got - expected).abs() < 1e-3, "{} is not {}", got, expected);
        }

        /// Weights and scores are such that no sum rounds but those of the losses and predictions.
        #[test]
        fn merging_is_adding_all(
            examples in prop::collection::vec((-8i8..8, 0u8..2, 1u8..4), 0..40),
            cut in 0usize..40,
        ) {
            let examples: Vec<_> = examples
                .into_iter()
                .map(|(s, y, w)| (f32::from(s) / 4.0, f32::from(y), f32::from(w)))
                .collect();
            let (left, right) = examples.split_at(cut.min(examples.len()));
            let mut merged = tally(left);
            merged.merge(&tally(right));
            let whole = tally(&examples);
            prop_assert_eq!(&merged.scores, &whole.scores);
            prop_assert_eq!(merged.examples, whole.examples);
            prop_assert_eq!(merged.values().len(), whole.values().len());
            for (name, value) in whole.values() {
                let other = merged.values()[name];
                prop_assert!((other - value).abs() <= 1e-12 * value, "{}", name);
            }
        }
    }

    #[test]
    fn auc_of_separable_scores_is_exact() {
        let apart = |sign: f32| {
            let of = |i: u16| (sign * (f32::from(i) - 49.5) / 7.0, f32::from(i / 50), 1.5);
            tally(&(0..100).map(of).collect::<Vec<_>>()).value(Metric::Auc)
        };
        assert_eq!(apart(1.0), Some(1.0));
        assert_eq!(apart(-1.0), Some(0.0));
        // Both zeros are the same score: a tie.
        let tied = tally(&[(0.0, 0.0, 1.0), (-0.0, 1.0, 1.0)]);
        assert_eq!(tied.value(Metric::Auc), Some(0.5));
    }

    #[test]
    fn bins_are_in_the_order_of_scores() {
        let tiny = f32::MIN_POSITIVE;
        let scores = [
            -1e30,
            -2.0,
            -1.0,
            -tiny,
            0.0,
            tiny,
            1.0,
            1.0 + 1.0 / 128.0,
            1e30,
        ];
        assert!(scores.windows(2).all(|pair| bin(pair[0]) < bin(pair[1])));
    }

    #[test]
    fn too_few_examples_have_no_value() {
        assert_eq!(Tally::new(Task::Binary).values(), BTreeMap::new());
        let positives = tally(&[(0.5, 1.0, 1.0), (-0.5, 1.0, 1.0)]);
        assert_eq!(positives.value(Metric::Auc), None);
        assert_eq!(positives.value(Metric::NormalizedEntropy), None);
        let negatives = tally(&[(0.5, 0.0, 1.0)]);
        assert_eq!(negatives.value(Metric::Calibration), None);
    }

    #[test]
    fn an_empty_tally_takes_a_task_and_gives_none() {
        let mut real = Tally::new(Task::Real);
        real.add_real(1.0, 2.0, 1.0);
        let mut merged = Tally::default();
        merged.merge(&real);
        merged.merge(&Tally::default());
        assert_eq!(merged, real);
    }

    #[test]
    fn calibration_is_better_the_nearer_it_is_to_one() {
        assert!(Metric::Calibration.better(1.1, 0.8));
        assert!(Metric::Auc.better(0.8, 0.7));
        assert!(Metric::LogLoss.better(0.4, 0.5));
        for metric in Metric::ALL {
            assert!(!metric.better(f64::NAN, 0.5), "{}", metric.name());
        }
    }
}
