//! How a table's rows are updated: the settings, which travel in schemas and checkpoints.
//!
//! The arithmetic of each optimizer lives on the server, one file each.

use serde::{Deserialize, Serialize};

/// An optimizer and its settings.
///
/// In a config: `kind = "adagrad"` and the fields of that kind. Learning rates are per unit of the
/// gradient of the (mean or summed, see `train.reduction`) loss. `l2` is the coupled form: it adds
/// `l2 * w` to the gradient of rows that a push touches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum OptimizerSpec {
    /// Stochastic gradient descent.
    Sgd(Sgd),
    /// Stochastic gradient descent with heavy-ball momentum.
    Momentum(Momentum),
    /// AdaGrad, one accumulator a weight.
    Adagrad(Adagrad),
    /// AdaGrad, one accumulator a row.
    RowwiseAdagrad(Adagrad),
    /// Adam on touched rows only; its step count is the shard's clock.
    Adam(Adam),
    /// FTRL-proximal with L1 and L2.
    Ftrl(Ftrl),
    /// Adds counts, exactly; see [`crate::count`]. It belongs to the model that counts, and a config
    /// cannot choose it.
    Count,
}

/// Settings of plain gradient descent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sgd {
    /// Step size, above 0. 0.01: safe for a mean loss with features of order 1.
    pub learning_rate: f32,
    /// Coupled L2 penalty, 0 or more.
    pub l2: f32,
}

/// Settings of gradient descent with momentum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Momentum {
    /// Step size, above 0. 0.01 as for `sgd`.
    pub learning_rate: f32,
    /// Share of the last step that is kept, 0 <= momentum < 1. 0.9: the usual value.
    pub momentum: f32,
    /// Coupled L2 penalty, 0 or more.
    pub l2: f32,
}

/// Settings of AdaGrad, both forms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adagrad {
    /// Step size, above 0. 0.05: good for clicks over a wide range of sizes.
    pub learning_rate: f32,
    /// What the accumulators start at, 0 or more. 0: the first step of a row is `learning_rate`.
    pub initial_accumulator: f32,
    /// Added under the root, above 0, so that a zero gradient divides by no zero.
    pub epsilon: f32,
    /// Coupled L2 penalty, 0 or more.
    pub l2: f32,
}

/// Settings of lazy Adam.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adam {
    /// Step size, above 0. 0.001: the paper's.
    pub learning_rate: f32,
    /// Decay of the first moment, 0 <= beta1 < 1. 0.9: the paper's.
    pub beta1: f32,
    /// Decay of the second moment, 0 <= beta2 < 1. 0.999: the paper's.
    pub beta2: f32,
    /// Added to the root, above 0. 1e-8: the paper's.
    pub epsilon: f32,
    /// Coupled L2 penalty, 0 or more.
    pub l2: f32,
}

/// Settings of FTRL-proximal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ftrl {
    /// Step size, above 0. 0.1: near the paper's optimum for clicks.
    pub alpha: f32,
    /// Smooths the first steps, 0 or more. 1: the paper's.
    pub beta: f32,
    /// L1 penalty: weights whose evidence stays below it are exactly 0. 0 or more.
    pub l1: f32,
    /// L2 penalty, 0 or more. 1: as `beta`, on the scale of summed gradients.
    pub l2: f32,
}

impl OptimizerSpec {
    /// The name in a config.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sgd(_) => "sgd",
            Self::Momentum(_) => "momentum",
            Self::Adagrad(_) => "adagrad",
            Self::RowwiseAdagrad(_) => "rowwise_adagrad",
            Self::Adam(_) => "adam",
            Self::Ftrl(_) => "ftrl",
            Self::Count => "count",
        }
    }

    /// How many floats of optimizer state a row of `dim` weights carries.
    #[must_use]
    pub fn slots(&self, dim: usize) -> usize {
        match self {
            Self::Sgd(_) | Self::Count => 0,
            Self::Momentum(_) | Self::Adagrad(_) => dim,
            Self::RowwiseAdagrad(_) => 1,
            Self::Adam(_) | Self::Ftrl(_) => 2 * dim,
        }
    }

    /// The names of the slots in the order of a row: each is `dim` floats, a row-wise one is 1.
    #[must_use]
    pub fn slot_names(&self) -> &'static [&'static str] {
        match self {
            Self::Sgd(_) | Self::Count => &[],
            Self::Momentum(_) => &["velocity"],
            Self::Adagrad(_) | Self::RowwiseAdagrad(_) => &["accumulator"],
            Self::Adam(_) => &["m", "v"],
            Self::Ftrl(_) => &["z", "n"],
        }
    }

    /// Checks every setting's range; an error names the field and the rule.
    ///
    /// # Errors
    /// The field's name and what it must be.
    pub fn validate(&self) -> Result<(), (&'static str, &'static str)> {
        let rate = |v: f32| (v.is_finite() && v > 0.0, "must be above 0");
        let penalty = |v: f32| (v.is_finite() && v >= 0.0, "must be 0 or more");
        let decay = |v: f32| ((0.0..1.0).contains(&v), "must be at least 0 and below 1");
        let fields: Vec<(&'static str, (bool, &'static str))> = match self {
            Self::Sgd(s) => vec![
                ("learning_rate", rate(s.learning_rate)),
                ("l2", penalty(s.l2)),
            ],
            Self::Momentum(s) => vec![
                ("learning_rate", rate(s.learning_rate)),
                ("momentum", decay(s.momentum)),
                ("l2", penalty(s.l2)),
            ],
            Self::Adagrad(s) | Self::RowwiseAdagrad(s) => vec![
                ("learning_rate", rate(s.learning_rate)),
                ("initial_accumulator", penalty(s.initial_accumulator)),
                ("epsilon", rate(s.epsilon)),
                ("l2", penalty(s.l2)),
            ],
            Self::Adam(s) => vec![
                ("learning_rate", rate(s.learning_rate)),
                ("beta1", decay(s.beta1)),
                ("beta2", decay(s.beta2)),
                ("epsilon", rate(s.epsilon)),
                ("l2", penalty(s.l2)),
            ],
            Self::Ftrl(s) => vec![
                ("alpha", rate(s.alpha)),
                ("beta", penalty(s.beta)),
                ("l1", penalty(s.l1)),
                ("l2", penalty(s.l2)),
            ],
            Self::Count => Vec::new(),
        };
        match fields.into_iter().find(|(_, (ok, _))| !ok) {
            Some((field, (_, rule))) => Err((field, rule)),
            None => Ok(()),
        }
    }
}

impl Default for OptimizerSpec {
    fn default() -> Self {
        Self::Adagrad(Adagrad::default())
    }
}

impl Default for Sgd {
    fn default() -> Self {
        Self {
            learning_rate: 0.01,
            l2: 0.0,
        }
    }
}

impl Default for Momentum {
    fn default() -> Self {
        Self {
            learning_rate: 0.01,
            momentum: 0.9,
            l2: 0.0,
        }
    }
}

impl Default for Adagrad {
    fn default() -> Self {
        Self {
            learning_rate: 0.05,
            initial_accumulator: 0.0,
            epsilon: 1e-8,
            l2: 0.0,
        }
    }
}

impl Default for Adam {
    fn default() -> Self {
        Self {
            learning_rate: 0.001,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            l2: 0.0,
        }
    }
}

impl Default for Ftrl {
    fn default() -> Self {
        Self {
            alpha: 0.1,
            beta: 1.0,
            l1: 0.0,
            l2: 1.0,
        }
    }
}
