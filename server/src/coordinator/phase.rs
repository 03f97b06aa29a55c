//! The way of a job: gathering, restoring, then epoch by epoch training, validation and saving, at
//! the end back to the best epoch, testing, sealing, done.

use std::collections::BTreeMap;

use tracing::{info, warn};
use windlass_common::coordination::{EpochMetrics, HeldOut, Purpose};
use windlass_common::format::PublishedState;
use windlass_common::id::{CheckpointId, Epoch};
use windlass_common::interval_set::IntervalSet;
use windlass_common::split::cut;
use windlass_common::tally::Tally;
use windlass_proto::{ErrorKind, WireError};

use super::board::Board;
use super::checkpoints::{Cause, Checkpoints};
use super::cluster::Cluster;
use super::job::{Job, Learnt};
use super::storage::{Kind, Storing};

/// Where a job is on its way.
#[derive(Debug)]
pub(super) enum Phase {
    /// Servers or workers are missing; then a checkpoint is to be restored first, or not.
    Gathering {
        /// Whether the job begins from a checkpoint.
        restore: bool,
    },
    /// The wanted sources are learnt.
    Training,
    /// The epoch is complete, and the validation files are scored.
    Validating(Board),
    /// C5: the epoch is the best so far, and its checkpoint in the cluster's store is under way.
    Pinning,
    /// The keeper is to write or read a checkpoint.
    Storing(Storing),
    /// A former epoch was the best, and the servers are to put its checkpoint back.
    Returning,
    /// The best epoch is in the rows, and the test files are scored.
    Testing(Board),
    /// C9: nothing is left to be learnt, and checkpoints are taken until all of it is closed.
    Closing,
    /// Nothing is left to be done.
    Done,
    /// It cannot go on; every worker is told why.
    Failed(WireError),
}

impl Phase {
    /// The board of this number, if it is the one that is being scored.
    pub(super) fn board(&mut self, number: u32) -> Option<&mut Board> {
        match self {
            Self::Validating(board) | Self::Testing(board) if board.number == number => Some(board),
            _ => None,
        }
    }

    /// Names it for people.
    pub(super) fn in_words(&self) -> &'static str {
        match self {
            Self::Gathering { .. } => "waiting for servers and workers",
            Self::Training => "training",
            Self::Validating(_) => "validating",
            Self::Pinning => "saving the best epoch",
            Self::Storing(_) => "a worker is at its checkpoint",
            Self::Returning => "going back to the best epoch",
            Self::Testing(_) => "testing",
            Self::Closing => "making the end durable",
            Self::Done => "done",
            Self::Failed(_) => "failed",
        }
    }

    /// Whether the job is done or failed.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Done | Self::Failed(_))
    }
}

impl Job {
    /// Goes as far on the way as what is known allows.
    pub(super) fn advance(&mut self, cluster: &mut Cluster) {
        loop {
            match &self.phase {
                Phase::Gathering { restore } => {
                    let workers = self.workers.count() >= self.plan.workers;
                    if self.owners.is_empty() || !workers {
                        return;
                    }
                    if *restore {
                        self.store(Kind::RestoreFirst);
                        return;
                    }
                    if self.is_within_epoch() {
                        self.phase = Phase::Training;
                        continue;
                    }
                    self.begin_epoch(cluster);
                }
                Phase::Training if self.sources.all_complete() => {
                    if self.plan.validation.is_empty() {
                        if !self.metrics_are_in() {
                            return;
                        }
                        self.border(&Tally::default(), cluster);
                    } else {
                        self.phase = Phase::Validating(self.board(HeldOut::Validation));
                    }
                }
                Phase::Validating(board) if board.left() == 0 && self.metrics_are_in() => {
                    let tally = board.tally().clone();
                    match self.plan.purpose {
                        Purpose::Train => self.border(&tally, cluster),
                        Purpose::Evaluate => self.judge(&tally),
                    }
                }
                // Shards that lost rows learn them again first.
                Phase::Pinning if self.sources.all_complete() => {
                    self.require(Cause::Best);
                    return;
                }
                Phase::Returning if self.sources.all_complete() => self.test(),
                Phase::Closing if self.sources.all_complete() => {
                    if !self.is_closed() {
                        self.require(Cause::End);
                        return;
                    }
                    self.end();
                }
                Phase::Testing(board) if board.left() == 0 => {
                    self.history.test = values(board.tally());
                    self.seal();
                }
                _ => return,
            }
        }
    }

    /// Whether nobody is left who could still bring metrics of this epoch. Its sources are complete
    /// by their owners' word before the workers that finished them have come back to say so.
    fn metrics_are_in(&self) -> bool {
        self.leases.training() == 0
    }

    /// Whether the last epoch that is wanted has not come to its border: the job begins from a
    /// checkpoint that was taken while it was learnt.
    fn is_within_epoch(&self) -> bool {
        let ended = |m: &EpochMetrics| m.epoch.0.saturating_add(1) == self.target;
        self.target > 0 && !self.history.progress.iter().any(ended)
    }

    /// C5: opens the next epoch if one is left to be learnt. The rows hold `target` epochs.
    pub(super) fn begin_epoch(&mut self, cluster: &mut Cluster) {
        if self.target >= self.plan.epochs {
            self.finish(cluster);
            return;
        }
        info!(job = self.name, epoch = self.target, "epoch begins");
        self.learnt = Learnt::default();
        // What was tried of it, or after it, in an earlier run has been undone and is done again.
        let target = self.target;
        self.history.progress.retain(|m| m.epoch.0 < target);
        self.target += 1;
        self.sources.want(self.target);
        self.phase = Phase::Training;
    }

    /// Scores what the checkpoint holds: the validation files first, if there are any.
    pub(super) fn evaluate(&mut self) {
        if self.plan.validation.is_empty() {
            self.test();
        } else {
            self.phase = Phase::Validating(self.board(HeldOut::Validation));
        }
    }

    /// Takes an evaluation's metrics on the validation files.
    fn judge(&mut self, validation: &Tally) {
        self.told += 1;
        self.history.progress.push(EpochMetrics {
            epoch: Epoch(self.target.saturating_sub(1)),
            train: BTreeMap::new(),
            validation: values(validation),
        });
        self.test();
    }

    /// Ends an epoch: writes its metrics into the history and decides whether to keep it.
    fn border(&mut self, validation: &Tally, cluster: &mut Cluster) {
        let epoch = Epoch(self.target - 1);
        let mut entry = EpochMetrics {
            epoch,
            train: values(&self.learnt.tally),
            validation: values(validation),
        };
        // After a restart of the role a border is met again, and nothing was learnt since.
        let before = self
            .history
            .progress
            .iter()
            .rev()
            .find(|m| m.epoch == epoch);
        if let Some(before) = before.filter(|_| self.learnt.tally.examples == 0) {
            entry.train.clone_from(&before.train);
        }
        self.told += 1;
        info!(job = self.name, epoch = %entry.epoch, "epoch ends");
        // A border that was met before is met again when rows were lost at it.
        self.history.progress.retain(|m| m.epoch < entry.epoch);
        let keep = if self.plan.validation.is_empty() {
            self.target >= self.plan.epochs
        } else {
            self.is_best(&entry)
        };
        self.history.progress.push(entry);
        if keep {
            self.history.epochs = self.target;
            if self.checkpoints.is_some() {
                self.phase = Phase::Pinning;
            } else {
                self.store(Kind::Save);
            }
            return;
        }
        let worse = self.target - self.history.epochs;
        let impatient = !self.plan.validation.is_empty()
            && self.plan.patience.is_some_and(|patience| worse >= patience);
        self.history.stopped_early = impatient && self.target < self.plan.epochs;
        self.after_border(cluster);
    }

    /// Whether an epoch is better than the one that is kept. Without a value to compare by, the
    /// later one is.
    fn is_best(&self, entry: &EpochMetrics) -> bool {
        let metric = self.plan.metric;
        let value = |m: &EpochMetrics| {
            let value = m.validation.get(metric.name()).copied();
            value.filter(|v| v.is_finite())
        };
        match (value(entry), self.history.kept().and_then(value)) {
            (Some(new), Some(old)) => metric.better(new, old),
            (new, old) => new.is_some() || old.is_none(),
        }
    }

    /// Goes to the next epoch, or to the end.
    pub(super) fn after_border(&mut self, cluster: &mut Cluster) {
        if self.history.stopped_early {
            self.finish(cluster);
        } else {
            self.begin_epoch(cluster);
        }
    }

    /// Puts the best epoch into the rows, if it is not there, and tests it.
    fn finish(&mut self, cluster: &mut Cluster) {
        if self.history.epochs == self.target {
            self.test();
            return;
        }
        // N4: the rows go back by choice, so their life ends, and what is wanted is what the
        // checkpoint holds; else the undone epochs would be opened again.
        self.target = self.history.epochs;
        self.sources.want(self.target);
        let best = self.checkpoints.as_ref().and_then(Checkpoints::best);
        if let Some(best) = best {
            let complete = IntervalSet::below(self.sources.limit().0);
            self.begin_lineage_with(best, complete, cluster);
            self.phase = Phase::Returning;
        } else {
            self.begin_lineage(cluster);
            self.store(Kind::RestoreBest);
        }
    }

    /// Scores the test files, if there are any.
    pub(super) fn test(&mut self) {
        if self.plan.test.is_empty() {
            self.seal();
        } else {
            self.phase = Phase::Testing(self.board(HeldOut::Test));
        }
    }

    fn seal(&mut self) {
        self.history.finished = true;
        match self.plan.purpose {
            Purpose::Train => self.store(Kind::Seal),
            Purpose::Evaluate => self.phase = Phase::Done,
        }
    }

    /// N4: begins a new life of the job's state; what was said of the former one counts no more.
    pub(super) fn begin_lineage(&mut self, cluster: &mut Cluster) {
        self.lineage.0 += 1;
        self.origin = None;
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.begin_lineage(None);
        }
        cluster.raise();
        self.sources.forget_all();
    }

    /// N4: begins a new life of the job's state with a checkpoint of the store: its servers put it
    /// back, and only what they report as of the new assignment counts.
    pub(super) fn begin_lineage_with(
        &mut self,
        origin: CheckpointId,
        complete: IntervalSet,
        cluster: &mut Cluster,
    ) {
        self.begin_lineage(cluster);
        self.origin = Some(origin);
        self.reassign_all(cluster);
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.begin_lineage(Some(PublishedState {
                checkpoint: origin,
                root: origin,
                taken: 0,
                complete,
            }));
        }
    }

    /// Ends the job with an error that every worker is told.
    pub(super) fn fail(&mut self, kind: ErrorKind, why: &str) {
        let message = format!("job `{}`: {why}", self.name);
        warn!(job = self.name, reason = why, "job fails");
        self.phase = Phase::Failed(WireError::new(kind, message));
    }

    fn board(&mut self, of: HeldOut) -> Board {
        self.boards += 1;
        let files = match of {
            HeldOut::Validation => &self.plan.validation,
            HeldOut::Test => &self.plan.test,
        };
        Board::new(self.boards, of, cut(files, self.recipe.split_bytes))
    }
}

/// A tally's metrics by name.
fn values(tally: &Tally) -> BTreeMap<String, f64> {
    let values = tally.values().into_iter();
    values
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
