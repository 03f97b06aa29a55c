//! What is said to the coordinator: the control plane's requests and answers, free of any transport.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::id::{
    Boot, CheckpointId, Clock, Epoch, Incarnation, JobId, LeaseId, Lineage, MapEpoch, Seq,
    ServerId, ShardId, SourceId, WorkerId,
};
use crate::interval_set::IntervalSet;
pub use crate::recipe::Recipe;
use crate::residency::Occupancy;
use crate::saving::{SaveOrder, Saved};
use crate::schema::JobSchema;
use crate::split::{InputFile, Split};
use crate::tally::{Metric, Tally};

/// How the coordinator steers a job; not part of its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Passes over the input.
    pub epochs: u32,
    /// Files scored after each epoch.
    pub validation: Vec<InputFile>,
    /// Files scored once, at the end.
    pub test: Vec<InputFile>,
    /// Which metric on validation says what is best.
    pub metric: Metric,
    /// Stop after this many epochs in a row that were not better.
    pub patience: Option<u32>,
    /// How many servers to wait for before shards are assigned.
    pub servers: u32,
    /// How many workers to wait for before the first lease.
    pub workers: u32,
    /// What the job is for.
    pub purpose: Purpose,
}

/// What a job is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To learn, and to keep the best epoch.
    #[default]
    Train,
    /// To score the held-out files with what its checkpoint holds. Nothing is learnt or written, and
    /// the job is dropped when its last worker leaves.
    Evaluate,
}

/// A worker asks to work on a job; the first to do so creates it.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    /// The job's name.
    pub job: String,
    /// Who asks.
    pub worker: WorkerId,
    /// The tables.
    pub schema: JobSchema,
    /// The input.
    pub recipe: Recipe,
    /// The steering; the creator's holds.
    pub plan: Plan,
    /// Replace a job of this name instead of joining it.
    pub fresh: bool,
    /// What the worker's newest checkpoint of this job says, to be restored if the job is new.
    pub checkpoint: Option<History>,
    /// The worker's effective config, TOML: checkpoints tell it to those who use the model.
    pub config: String,
}

/// What has happened in a job at the borders of its epochs; kept in its checkpoints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Epochs that the rows contain, complete.
    pub epochs: u32,
    /// Metrics by name, an entry an epoch that was begun and ended, kept or not.
    pub progress: Vec<EpochMetrics>,
    /// Metrics on the test files, once the job is finished.
    pub test: BTreeMap<String, f64>,
    /// Nothing more is to be done, unless more epochs are asked for.
    pub finished: bool,
    /// Stopped before the last epoch because validation got no better.
    pub stopped_early: bool,
}

impl History {
    /// Whether nothing is left to be done for `epochs` epochs: the job is finished, and stopped
    /// because more would not help, or was not asked for more than it has tried.
    #[must_use]
    pub fn is_settled(&self, epochs: u32) -> bool {
        let last = self.progress.last();
        let tried = last.map_or(0, |m| m.epoch.0.saturating_add(1));
        self.finished && (self.stopped_early || epochs <= tried.max(self.epochs))
    }

    /// Finds the metrics of the last epoch that the rows contain; `None` if none were noted.
    #[must_use]
    pub fn kept(&self) -> Option<&EpochMetrics> {
        let last = self.epochs.checked_sub(1)?;
        self.progress.iter().rev().find(|m| m.epoch.0 == last)
    }
}

/// One epoch's metrics by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EpochMetrics {
    /// The epoch, from 0.
    pub epoch: Epoch,
    /// Progressive: each batch scored before it was learnt.
    pub train: BTreeMap<String, f64>,
    /// On the validation files, after the epoch.
    pub validation: BTreeMap<String, f64>,
}

/// The answer to [`Register`].
#[derive(Clone, Debug, PartialEq)]
pub struct Registered {
    /// The job's number in this cluster.
    pub job: JobId,
    /// Where its shards are now.
    pub map: ShardMap,
}

/// Which server owns which shard of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardMap {
    /// The map's version.
    pub epoch: MapEpoch,
    /// The life of the job's state.
    pub lineage: Lineage,
    /// By shard: the owner. Empty until enough servers have joined.
    pub owners: Vec<(ServerId, Incarnation)>,
    /// The servers' addresses (`http://HOST:PORT`).
    pub addresses: BTreeMap<ServerId, String>,
}

/// What a worker is to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// Learn a split.
    Train(TrainLease),
    /// Score a split of the validation or test files.
    Score(ScoreLease),
    /// Write all shards to a checkpoint on the worker's side.
    Save(StorageLease),
    /// Put all shards back to a checkpoint on the worker's side.
    Restore(StorageLease),
    /// Write the job's final history into the manifest of a saved checkpoint.
    Seal(StorageLease),
    /// Nothing now.
    Wait {
        /// What for, in words for the user.
        reason: String,
        /// When to ask again: at once where the coordinator has held the question.
        retry: Duration,
        /// What is waited for is not there: servers or workers that have not come, or a server that
        /// is silent. A worker gives up when that lasts longer than its patience; without it, what
        /// is waited for is at work.
        missing: bool,
    },
    /// The job is finished; the history has all metrics.
    Done(History),
}

/// A lease on a training split. It saves work; it never decides what counts.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainLease {
    /// Its name.
    pub lease: LeaseId,
    /// How long it lasts without a renewal.
    pub ttl: Duration,
    /// The source's number, for [`crate::id::PushId`].
    pub source: SourceId,
    /// The epoch, which seeds the shuffle.
    pub epoch: Epoch,
    /// The split's place in the recipe's cut, which seeds the shuffle.
    pub index: u32,
    /// The input.
    pub split: Split,
    /// The first batch that some shard lacks (rule C4).
    pub start: Seq,
    /// The life of the job's state that pushes must name.
    pub lineage: Lineage,
}

/// Which held-out files a split is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldOut {
    /// `data.validation`.
    Validation,
    /// `data.test`.
    Test,
}

/// A lease on a split to be scored.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreLease {
    /// Its name.
    pub lease: LeaseId,
    /// How long it lasts without a renewal.
    pub ttl: Duration,
    /// Which files.
    pub of: HeldOut,
    /// The input.
    pub split: Split,
    /// The shards must hold exactly the sources below this (rule C12).
    pub exactly_below: SourceId,
}

/// A lease on saving, restoring or sealing a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageLease {
    /// Its name.
    pub lease: LeaseId,
    /// How long it lasts without a renewal.
    pub ttl: Duration,
    /// How many complete epochs the checkpoint holds: its name in the output folder.
    pub epochs: u32,
    /// The life of the job's state: for a restore the new one (rule N4).
    pub lineage: Lineage,
    /// The shards hold exactly the sources below this when a checkpoint is saved.
    pub exactly_below: SourceId,
    /// What the manifest is to tell.
    pub history: History,
}

/// What became of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A split was learnt to its end, acknowledged by every shard. A hint (rule W4).
    Trained(Tally),
    /// A split was scored.
    Scored(Tally),
    /// A storage task is done.
    Stored,
    /// Given back undone, and why.
    Abandoned(String),
    /// Given back undone, because its input could not be read, and why (rule C8).
    Unreadable(String),
}

/// How far a job is, for the user's eyes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The epoch that is being learnt or scored, from 0.
    pub epoch: Epoch,
    /// Epochs in all.
    pub epochs: u32,
    /// Sources of this epoch that are complete.
    pub done: u32,
    /// Sources of an epoch.
    pub splits: u32,
    /// Workers that are alive.
    pub workers: u32,
    /// Rows that each server holds of this job, by address, as of its last report.
    pub rows: BTreeMap<String, u64>,
    /// How full each table is, by name, as of the servers' last reports.
    pub tables: BTreeMap<String, Occupancy>,
    /// Metrics of epochs that have ended, oldest first.
    pub history: Vec<EpochMetrics>,
}

/// What a server tells of itself, for the user's eyes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Pushes that shards applied: a push to three shards counts three times.
    pub applied: u64,
    /// Pushes that shards had applied before, counted in the same way.
    pub duplicates: u64,
    /// Pushes refused for a NaN or an infinity.
    pub not_finite: u64,
    /// The length of the log in bytes; `None` without one.
    pub log_bytes: Option<u64>,
    /// What keeps it from its work, in words.
    pub trouble: Option<String>,
}

/// What a server tells the coordinator, every second and whenever a source is completed.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Where clients reach it: its name over restarts.
    pub address: String,
    /// The life of its process.
    pub boot: Boot,
    /// Rises with each report of a boot (rule C2).
    pub number: u64,
    /// The highest map epoch that it has seen (rule C3).
    pub seen: MapEpoch,
    /// How it is.
    pub health: Health,
    /// What it holds of each job.
    pub jobs: Vec<JobReport>,
}

/// What a server holds of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobReport {
    /// The job.
    pub job: JobId,
    /// Its shards here.
    pub shards: Vec<ShardReport>,
    /// What was saved for the checkpoint that is ordered.
    pub saved: Vec<Saved>,
    /// How full the tables are here, in the schema's order.
    pub tables: Vec<Occupancy>,
}

/// The owner's word about one shard (rule I2).
#[derive(Clone, Debug, PartialEq)]
pub struct ShardReport {
    /// The shard.
    pub shard: ShardId,
    /// As which assignment it is served.
    pub incarnation: Incarnation,
    /// The life of the state.
    pub lineage: Lineage,
    /// Complete sources.
    pub complete: IntervalSet,
    /// Begun sources: the first push that is missing.
    pub open: Vec<(SourceId, Seq)>,
    /// Rows, over all tables.
    pub rows: u64,
    /// Pushes applied.
    pub clock: Clock,
}

/// The coordinator's answer to a [`Report`].
#[derive(Clone, Debug, PartialEq)]
pub struct Assigned {
    /// The server's number.
    pub server: ServerId,
    /// The map's version.
    pub epoch: MapEpoch,
    /// Every job that has shards assigned; a job that is missing here has been dropped.
    pub jobs: Vec<Assignment>,
}

/// What a server is to hold of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The job.
    pub job: JobId,
    /// Its name, for messages.
    pub name: String,
    /// The life of its state.
    pub lineage: Lineage,
    /// Its tables.
    pub schema: JobSchema,
    /// The shards that are this server's.
    pub shards: Vec<(ShardId, Incarnation)>,
    /// The checkpoint that the lineage begins with (rule N4); without it, a lineage after the first
    /// begins with what workers install.
    pub origin: Option<CheckpointId>,
    /// What is to be saved now.
    pub save: Option<SaveOrder>,
    /// The older of the last two published checkpoints of this lineage: what it covers of the log
    /// may go (rule S7).
    pub settled: Option<CheckpointId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A history with an entry for each of `tried`, and `epochs` in the rows.
    fn history(tried: &[u32], epochs: u32) -> History {
        let entry = |&epoch: &u32| EpochMetrics {
            epoch: Epoch(epoch),
            ..EpochMetrics::default()
        };
        History {
            epochs,
            progress: tried.iter().map(entry).collect(),
            finished: true,
            ..History::default()
        }
    }

    #[test]
    fn a_finished_history_is_settled_for_what_was_tried_and_no_more() {
        let check = |history: &History, most: u32| {
            assert!((0..=most).all(|epochs| history.is_settled(epochs)));
            assert!(!history.is_settled(most + 1), "{history:?}");
        };
        check(&history(&[], 0), 0);
        check(&history(&[0, 1, 2], 3), 3);
        check(&history(&[0, 1, 2], 1), 3);
        // Metrics that were not written down do not undo the epochs in the rows.
        check(&history(&[], 3), 3);
        check(&history(&[4], 2), 5);
        assert!(history(&[u32::MAX], 1).is_settled(u32::MAX));
    }

    #[test]
    fn a_history_that_stopped_early_is_settled_for_any_number() {
        let mut stopped = history(&[0, 1], 1);
        stopped.stopped_early = true;
        assert!(stopped.is_settled(u32::MAX));
        stopped.finished = false;
        assert!(!stopped.is_settled(1));
        assert!(!History::default().is_settled(0));
    }

    #[test]
    fn the_kept_epoch_is_the_last_in_the_rows() {
        let kept = |history: History| history.kept().map(|m| m.epoch.0);
        assert_eq!(kept(history(&[0, 1, 2], 2)), Some(1));
        assert_eq!(kept(history(&[0, 1, 2], 0)), None);
        assert_eq!(kept(history(&[0, 1, 2], 4)), None);
        let mut twice = history(&[0, 1, 0], 1);
        twice.progress[2].train.insert("auc".into(), 0.5);
        assert_eq!(twice.kept(), twice.progress.last());
    }
}
