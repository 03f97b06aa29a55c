//! What has happened in a job: metrics of its epochs.

use std::collections::BTreeMap;

use windlass_common::coordination::{EpochMetrics, History};
use windlass_common::id::Epoch;

use crate::error::WireError;
use crate::limits::{self, at_most};
use crate::v1;

impl From<History> for v1::History {
    fn from(history: History) -> Self {
        Self {
            epochs: history.epochs,
            progress: history.progress.into_iter().map(Into::into).collect(),
            test: history.test,
            finished: history.finished,
            stopped_early: history.stopped_early,
        }
    }
}

impl TryFrom<v1::History> for History {
    type Error = WireError;

    fn try_from(message: v1::History) -> Result<Self, WireError> {
        Ok(Self {
            epochs: message.epochs,
            progress: epochs("history.progress", message.progress)?,
            test: metrics("history.test", message.test)?,
            finished: message.finished,
            stopped_early: message.stopped_early,
        })
    }
}

impl From<EpochMetrics> for v1::EpochMetrics {
    fn from(epoch: EpochMetrics) -> Self {
        Self {
            epoch: epoch.epoch.0,
            train: epoch.train,
            validation: epoch.validation,
        }
    }
}

/// Takes the metrics of epochs.
pub(super) fn epochs(
    field: &str,
    epochs: Vec<v1::EpochMetrics>,
) -> Result<Vec<EpochMetrics>, WireError> {
    at_most(field, epochs.len(), limits::EPOCHS)?;
    epochs
        .into_iter()
        .map(|message| {
            Ok(EpochMetrics {
                epoch: Epoch(message.epoch),
                train: metrics("history.progress.train", message.train)?,
                validation: metrics("history.progress.validation", message.validation)?,
            })
        })
        .collect()
}

fn metrics(
    field: &str,
    metrics: BTreeMap<String, f64>,
) -> Result<BTreeMap<String, f64>, WireError> {
    at_most(field, metrics.len(), limits::METRICS)?;
    metrics
        .keys()
        .try_for_each(|name| at_most(field, name.len(), limits::NAME))?;
    Ok(metrics)
}
