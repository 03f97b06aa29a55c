//! What workers do: tasks, leases, outcomes and progress.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_common::coordination::{
    HeldOut, Outcome, Progress, ScoreLease, StorageLease, Task, TrainLease,
};
use windlass_common::id::{Epoch, LeaseId, Lineage};
use windlass_common::residency::Occupancy;
use windlass_common::schema::MAX_TABLES;
use windlass_common::split::Split;
use windlass_common::tally::{self, Tally};

use super::{history, milliseconds, required};
use crate::error::WireError;
use crate::limits::{self, at_most, invalid};
use crate::v1;

impl From<Task> for v1::Task {
    fn from(task: Task) -> Self {
        use v1::task::Kind;
        Self {
            kind: Some(match task {
                Task::Train(lease) => Kind::Train(lease.into()),
                Task::Score(lease) => Kind::Score(lease.into()),
                Task::Save(lease) => Kind::Save(lease.into()),
                Task::Restore(lease) => Kind::Restore(lease.into()),
                Task::Seal(lease) => Kind::Seal(lease.into()),
                Task::Wait {
                    reason,
                    retry,
                    missing,
                } => Kind::Wait(v1::Wait {
                    reason: limits::text(reason),
                    retry_ms: milliseconds(retry),
                    missing,
                }),
                Task::Done(history) => Kind::Done(history.into()),
            }),
        }
    }
}

impl TryFrom<v1::Task> for Task {
    type Error = WireError;

    fn try_from(message: v1::Task) -> Result<Self, WireError> {
        use v1::task::Kind;
        Ok(match required("task.kind", message.kind)? {
            Kind::Train(lease) => Self::Train(lease.try_into()?),
            Kind::Score(lease) => Self::Score(lease.try_into()?),
            Kind::Save(lease) => Self::Save(lease.try_into()?),
            Kind::Restore(lease) => Self::Restore(lease.try_into()?),
            Kind::Seal(lease) => Self::Seal(lease.try_into()?),
            Kind::Wait(wait) => Self::Wait {
                reason: limits::text(wait.reason),
                retry: Duration::from_millis(wait.retry_ms),
                missing: wait.missing,
            },
            Kind::Done(history) => Self::Done(history.try_into()?),
        })
    }
}

impl From<TrainLease> for v1::TrainLease {
    fn from(lease: TrainLease) -> Self {
        Self {
            lease: lease.lease.0,
            ttl_ms: milliseconds(lease.ttl),
            source: lease.source.0,
            epoch: lease.epoch.0,
            index: lease.index,
            split: Some(lease.split.into()),
            start: lease.start.0,
            lineage: lease.lineage.0,
        }
    }
}

impl TryFrom<v1::TrainLease> for TrainLease {
    type Error = WireError;

    fn try_from(message: v1::TrainLease) -> Result<Self, WireError> {
        Ok(Self {
            lease: LeaseId(message.lease),
            ttl: Duration::from_millis(message.ttl_ms),
            source: limits::source("train.source", message.source)?,
            epoch: Epoch(message.epoch),
            index: message.index,
            split: required("train.split", message.split)?.try_into()?,
            start: limits::seq("train.start", message.start)?,
            lineage: Lineage(message.lineage),
        })
    }
}

impl From<ScoreLease> for v1::ScoreLease {
    fn from(lease: ScoreLease) -> Self {
        Self {
            lease: lease.lease.0,
            ttl_ms: milliseconds(lease.ttl),
            of: match lease.of {
                HeldOut::Validation => v1::HeldOut::Validation.into(),
                HeldOut::Test => v1::HeldOut::Test.into(),
            },
            split: Some(lease.split.into()),
            exactly_below: lease.exactly_below.0,
        }
    }
}

impl TryFrom<v1::ScoreLease> for ScoreLease {
    type Error = WireError;

    fn try_from(message: v1::ScoreLease) -> Result<Self, WireError> {
        Ok(Self {
            lease: LeaseId(message.lease),
            ttl: Duration::from_millis(message.ttl_ms),
            of: match v1::HeldOut::try_from(message.of) {
                Ok(v1::HeldOut::Validation) => HeldOut::Validation,
                Ok(v1::HeldOut::Test) => HeldOut::Test,
                Ok(v1::HeldOut::Unspecified) | Err(_) => {
                    return Err(invalid("score.of", format_args!("{} is none", message.of)));
                }
            },
            split: required("score.split", message.split)?.try_into()?,
            exactly_below: limits::source("score.exactly_below", message.exactly_below)?,
        })
    }
}

impl From<StorageLease> for v1::StorageLease {
    fn from(lease: StorageLease) -> Self {
        Self {
            lease: lease.lease.0,
            ttl_ms: milliseconds(lease.ttl),
            epochs: lease.epochs,
            lineage: lease.lineage.0,
            exactly_below: lease.exactly_below.0,
            history: Some(lease.history.into()),
        }
    }
}

impl TryFrom<v1::StorageLease> for StorageLease {
    type Error = WireError;

    fn try_from(message: v1::StorageLease) -> Result<Self, WireError> {
        Ok(Self {
            lease: LeaseId(message.lease),
            ttl: Duration::from_millis(message.ttl_ms),
            epochs: message.epochs,
            lineage: Lineage(message.lineage),
            exactly_below: limits::source("storage.exactly_below", message.exactly_below)?,
            history: required("storage.history", message.history)?.try_into()?,
        })
    }
}

impl From<Split> for v1::Split {
    fn from(split: Split) -> Self {
        Self {
            file: split.file,
            start: split.start,
            end: split.end,
        }
    }
}

impl TryFrom<v1::Split> for Split {
    type Error = WireError;

    fn try_from(message: v1::Split) -> Result<Self, WireError> {
        if message.start > message.end {
            return Err(invalid(
                "split",
                format_args!("{}..{} is no range", message.start, message.end),
            ));
        }
        Ok(Self {
            file: message.file,
            start: message.start,
            end: message.end,
        })
    }
}

impl From<Outcome> for v1::Outcome {
    fn from(outcome: Outcome) -> Self {
        use v1::outcome::{Kind, Stored};
        Self {
            kind: Some(match outcome {
                Outcome::Trained(tally) => Kind::Trained(tally.into()),
                Outcome::Scored(tally) => Kind::Scored(tally.into()),
                Outcome::Stored => Kind::Stored(Stored {}),
                Outcome::Abandoned(why) => Kind::Abandoned(limits::text(why)),
                Outcome::Unreadable(why) => Kind::Unreadable(limits::text(why)),
            }),
        }
    }
}

impl TryFrom<v1::Outcome> for Outcome {
    type Error = WireError;

    fn try_from(message: v1::Outcome) -> Result<Self, WireError> {
        use v1::outcome::Kind;
        Ok(match required("outcome.kind", message.kind)? {
            Kind::Trained(tally) => Self::Trained(tally.try_into()?),
            Kind::Scored(tally) => Self::Scored(tally.try_into()?),
            Kind::Stored(_) => Self::Stored,
            Kind::Abandoned(why) => Self::Abandoned(limits::text(why)),
            Kind::Unreadable(why) => Self::Unreadable(limits::text(why)),
        })
    }
}

impl From<(LeaseId, Outcome)> for v1::Done {
    fn from((lease, outcome): (LeaseId, Outcome)) -> Self {
        Self {
            lease: lease.0,
            outcome: Some(outcome.into()),
        }
    }
}

impl TryFrom<v1::Done> for (LeaseId, Outcome) {
    type Error = WireError;

    fn try_from(message: v1::Done) -> Result<Self, WireError> {
        let outcome = required("done.outcome", message.outcome)?.try_into()?;
        Ok((LeaseId(message.lease), outcome))
    }
}

impl From<Tally> for v1::Tally {
    fn from(tally: Tally) -> Self {
        Self {
            kind: match tally.task {
                tally::Task::Binary => v1::ExampleKind::Binary.into(),
                tally::Task::Classes => v1::ExampleKind::Classes.into(),
                tally::Task::Real => v1::ExampleKind::Real.into(),
                tally::Task::Unscored => v1::ExampleKind::Unscored.into(),
            },
            examples: tally.examples,
            weight: tally.weight,
            log_loss: tally.log_loss,
            labels: tally.labels,
            predictions: tally.predictions,
            squared_error: tally.squared_error,
            correct: tally.correct,
            bins: tally.scores.keys().map(|&bin| bin.into()).collect(),
            bin_weights: tally.scores.into_values().flatten().collect(),
        }
    }
}

impl TryFrom<v1::Tally> for Tally {
    type Error = WireError;

    fn try_from(message: v1::Tally) -> Result<Self, WireError> {
        at_most("tally.bins", message.bins.len(), limits::BINS)?;
        let (pairs, rest) = message.bin_weights.as_chunks::<2>();
        if pairs.len() != message.bins.len() || !rest.is_empty() {
            return Err(invalid("tally.bin_weights", "two for each of `bins`"));
        }
        if message.bins.windows(2).any(|w| w[0] >= w[1]) {
            return Err(invalid("tally.bins", "must ascend strictly"));
        }
        let scores = message
            .bins
            .iter()
            .zip(pairs)
            .map(|(&bin, &weights)| {
                let bin = u16::try_from(bin)
                    .map_err(|_| invalid("tally.bins", format_args!("{bin} is not below 65536")))?;
                Ok((bin, weights))
            })
            .collect::<Result<_, WireError>>()?;
        Ok(Self {
            task: match v1::ExampleKind::try_from(message.kind) {
                Ok(v1::ExampleKind::Binary) => tally::Task::Binary,
                Ok(v1::ExampleKind::Classes) => tally::Task::Classes,
                Ok(v1::ExampleKind::Real) => tally::Task::Real,
                Ok(v1::ExampleKind::Unscored) => tally::Task::Unscored,
                Ok(v1::ExampleKind::Unspecified) | Err(_) => {
                    return Err(invalid(
                        "tally.kind",
                        format_args!("{} is none", message.kind),
                    ));
                }
            },
            examples: message.examples,
            weight: message.weight,
            log_loss: message.log_loss,
            labels: message.labels,
            predictions: message.predictions,
            squared_error: message.squared_error,
            correct: message.correct,
            scores,
        })
    }
}

impl From<Progress> for v1::Progress {
    fn from(progress: Progress) -> Self {
        Self {
            epoch: progress.epoch.0,
            epochs: progress.epochs,
            done: progress.done,
            splits: progress.splits,
            workers: progress.workers,
            history: progress.history.into_iter().map(Into::into).collect(),
            rows: progress.rows.into_iter().collect(),
            tables: (progress.tables.into_iter())
                .map(|(name, table)| (name, table.into()))
                .collect(),
        }
    }
}

impl TryFrom<v1::Progress> for Progress {
    type Error = WireError;

    fn try_from(message: v1::Progress) -> Result<Self, WireError> {
        Ok(Self {
            epoch: Epoch(message.epoch),
            epochs: message.epochs,
            done: message.done,
            splits: message.splits,
            workers: message.workers,
            history: history::epochs("progress.history", message.history)?,
            rows: rows_by_server(message.rows)?,
            tables: tables(message.tables)?,
        })
    }
}

/// Takes how full the tables are.
fn tables(
    tables: BTreeMap<String, v1::Occupancy>,
) -> Result<BTreeMap<String, Occupancy>, WireError> {
    at_most("progress.tables", tables.len(), MAX_TABLES)?;
    tables
        .into_iter()
        .map(|(name, table)| Ok((limits::name("progress.tables", name)?, table.into())))
        .collect()
}

/// Takes the rows that each server holds.
fn rows_by_server(rows: BTreeMap<String, u64>) -> Result<BTreeMap<String, u64>, WireError> {
    at_most("progress.rows", rows.len(), limits::SERVERS)?;
    rows.keys()
        .try_for_each(|address| at_most("progress.rows", address.len(), limits::NAME))?;
    Ok(rows)
}

impl From<(Task, Progress)> for v1::NextResponse {
    fn from((task, progress): (Task, Progress)) -> Self {
        Self {
            task: Some(task.into()),
            progress: Some(progress.into()),
        }
    }
}

impl TryFrom<v1::NextResponse> for (Task, Progress) {
    type Error = WireError;

    fn try_from(message: v1::NextResponse) -> Result<Self, WireError> {
        Ok((
            required("task", message.task)?.try_into()?,
            required("progress", message.progress)?.try_into()?,
        ))
    }
}

impl From<(bool, Progress)> for v1::RenewResponse {
    fn from((alive, progress): (bool, Progress)) -> Self {
        Self {
            alive,
            progress: Some(progress.into()),
        }
    }
}

impl TryFrom<v1::RenewResponse> for (bool, Progress) {
    type Error = WireError;

    fn try_from(message: v1::RenewResponse) -> Result<Self, WireError> {
        let progress = required("progress", message.progress)?.try_into()?;
        Ok((message.alive, progress))
    }
}
