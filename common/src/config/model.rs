//! `[model]`: what is learnt.

use serde::{Deserialize, Serialize};

use crate::tally::Task;

/// `[model]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Which model.
    pub kind: ModelKind,
    /// Factors a feature has in `fm` and `mf`, `1..=1024`.
    pub factors: u32,
    /// Standard deviation of new factors, 0 or more. 0.01: products start near 0.
    pub init_std: f32,
    /// Classes of `softmax`, `2..=65536`.
    pub classes: u32,
    /// What `fm` minimises: `logistic` (labels 0 and 1) or `squared` (real labels).
    pub loss: LossKind,
    /// `mf`: the categorical column of users. The first one where it is not named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// `mf`: the categorical column of items. The second one where it is not named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
}

/// `model.kind`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Linear regression, squared loss.
    Linear,
    /// Logistic regression.
    #[default]
    Logistic,
    /// Softmax regression over `classes`.
    Softmax,
    /// Factorization machine of degree 2.
    Fm,
    /// Matrix factorization with biases, squared loss.
    Mf,
    /// Counts how often each key occurs, exactly; learns nothing, so it has no optimizer, no loss
    /// and no metrics. See `docs/models.md`.
    Count,
}

/// `model.loss`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// ln(1 + e^-s) for label 1, ln(1 + e^s) for label 0.
    #[default]
    Logistic,
    /// (s - y)^2 / 2.
    Squared,
}

impl ModelConfig {
    /// What labels the model learns, which says what metrics there are.
    #[must_use]
    pub fn task(&self) -> Task {
        match (self.kind, self.loss) {
            (ModelKind::Logistic, _) | (ModelKind::Fm, LossKind::Logistic) => Task::Binary,
            (ModelKind::Softmax, _) => Task::Classes,
            (ModelKind::Linear | ModelKind::Mf, _) | (ModelKind::Fm, LossKind::Squared) => {
                Task::Real
            }
            (ModelKind::Count, _) => Task::Unscored,
        }
    }
}

impl ModelKind {
    /// The name in a config.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Logistic => "logistic",
            Self::Softmax => "softmax",
            Self::Fm => "fm",
            Self::Mf => "mf",
            Self::Count => "count",
        }
    }
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            kind: ModelKind::default(),
            factors: 8,
            init_std: 0.01,
            classes: 2,
            loss: LossKind::default(),
            user: None,
            item: None,
        }
    }
}
