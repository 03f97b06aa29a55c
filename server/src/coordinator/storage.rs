//! Checkpoints: which one the keeper is to write or read, and what follows.

use std::time::Duration;

use tracing::info;
use windlass_common::coordination::{Purpose, StorageLease, Task};
use windlass_common::id::{LeaseId, WorkerId};
use windlass_common::interval_set::IntervalSet;
use windlass_proto::ErrorKind;

use super::admin::Published;
use super::checkpoints::{Cause, Checkpoints, Ready};
use super::cluster::Cluster;
use super::job::Job;
use super::leases::Work;
use super::phase::Phase;

/// How often writing a checkpoint may be given up and is offered again.
const RETRIES: u32 = 3;

/// What is to be done with a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The job begins from it.
    RestoreFirst,
    /// The rows are the best so far.
    Save,
    /// A former epoch was the best.
    RestoreBest,
    /// The job is finished.
    Seal,
}

/// A storage task under way.
#[derive(Debug)]
pub(super) struct Storing {
    /// What is to be done.
    pub(super) kind: Kind,
    lease: Option<LeaseId>,
    abandoned: u32,
}

impl Storing {
    /// Whether nobody is at it.
    pub(super) fn is_free(&self) -> bool {
        self.lease.is_none()
    }
}

impl Job {
    /// Begins a storage task.
    pub(super) fn store(&mut self, kind: Kind) {
        self.phase = Phase::Storing(Storing {
            kind,
            lease: None,
            abandoned: 0,
        });
    }

    /// What the keeper is to do now; `None` for anybody else and while somebody is at it.
    ///
    /// A keeper that asks again without giving back has not got the answer, and gets it again.
    pub(super) fn offer(
        &mut self,
        worker: WorkerId,
        cluster: &mut Cluster,
        now: Duration,
    ) -> Option<Task> {
        let Phase::Storing(storing) = &mut self.phase else {
            return None;
        };
        let until = now + cluster.ttl;
        let lease = match storing.lease {
            Some(lease) if self.leases.renew(lease, worker, until) => lease,
            None if self.workers.keeper() == Some(worker) => {
                let lease = cluster.lease();
                self.leases.grant(lease, worker, Work::Storage, until);
                storing.lease = Some(lease);
                lease
            }
            _ => return None,
        };
        let lease = StorageLease {
            lease,
            ttl: cluster.ttl,
            epochs: self.history.epochs,
            lineage: self.lineage,
            exactly_below: self.sources.limit(),
            history: self.history.clone(),
        };
        Some(match storing.kind {
            Kind::RestoreFirst | Kind::RestoreBest => Task::Restore(lease),
            Kind::Save => Task::Save(lease),
            Kind::Seal => Task::Seal(lease),
        })
    }

    /// What everybody else waits for.
    pub(super) fn storing_reason(&self, kind: Kind) -> String {
        let what = match kind {
            Kind::RestoreFirst | Kind::RestoreBest => "restored the checkpoint",
            Kind::Save => "written the checkpoint",
            Kind::Seal => "written the final metrics",
        };
        match self.workers.keeper() {
            Some(keeper) => format!("waiting until worker {keeper} has {what}"),
            None => format!("waiting until a worker has {what}"),
        }
    }

    /// Goes on after a storage task is done.
    pub(super) fn stored(&mut self, cluster: &mut Cluster) {
        let Phase::Storing(storing) = &self.phase else {
            return;
        };
        match storing.kind {
            Kind::RestoreFirst => {
                self.reassign_all(cluster);
                if let Some(checkpoints) = &mut self.checkpoints {
                    // What was installed is nowhere but in memory.
                    checkpoints.ask();
                }
                match self.plan.purpose {
                    Purpose::Train => self.begin_epoch(cluster),
                    Purpose::Evaluate => self.evaluate(),
                }
            }
            Kind::Save => self.after_border(cluster),
            Kind::RestoreBest => {
                self.reassign_all(cluster);
                self.test();
            }
            Kind::Seal if self.checkpoints.is_some() => self.phase = Phase::Closing,
            Kind::Seal => self.end(),
        }
    }

    /// Ends a job that has nothing more to do.
    pub(super) fn end(&mut self) {
        info!(job = self.name, epochs = self.history.epochs, "job is done");
        self.phase = Phase::Done;
    }

    /// Orders a checkpoint in the cluster's store for this cause, unless it is under way.
    pub(super) fn require(&mut self, cause: Cause) {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.require(cause);
        }
    }

    /// I4: whether all that is wanted is complete by its owners' word and closed (rule C7).
    pub(super) fn is_closed(&self) -> bool {
        let wanted = IntervalSet::below(self.sources.limit().0);
        let held = self.checkpoints.as_ref().map(Checkpoints::held_by_both);
        self.sources.all_complete() && held.is_none_or(|held| held.intersection(&wanted) == wanted)
    }

    /// Takes note that a checkpoint is in the cluster's store, and goes on if it was waited for.
    pub(super) fn published(
        &mut self,
        ready: &Ready,
        published: &Published,
        cluster: &mut Cluster,
    ) {
        let Some(checkpoints) = &mut self.checkpoints else {
            return;
        };
        checkpoints.forget(&published.lost);
        let cause = checkpoints.published_now(ready, published.taken_ms);
        if cause == Some(Cause::Best) && matches!(self.phase, Phase::Pinning) {
            self.store(Kind::Save);
        }
        self.advance(cluster);
    }

    /// A report that was on its way while the shards were put back would tell of the state before.
    /// Only one that names the new assignment was surely made after it.
    pub(super) fn reassign_all(&mut self, cluster: &mut Cluster) {
        self.owners.renew_all(cluster.incarnation());
        self.sources.forget_all();
    }

    /// Takes note that the keeper could not do it.
    pub(super) fn storage_abandoned(&mut self, why: &str) {
        let Phase::Storing(storing) = &mut self.phase else {
            return;
        };
        storing.lease = None;
        storing.abandoned += 1;
        let abandoned = storing.abandoned;
        match storing.kind {
            Kind::RestoreFirst | Kind::RestoreBest => {
                let why = format!("the checkpoint could not be restored: {why}");
                self.fail(ErrorKind::Mismatch, &why);
            }
            Kind::Save | Kind::Seal if abandoned > RETRIES => {
                let why = format!("no checkpoint could be written in {abandoned} attempts: {why}");
                self.fail(ErrorKind::Mismatch, &why);
            }
            Kind::Save | Kind::Seal => {}
        }
    }

    /// Forgets attempts that were given up, because a shard has lost rows: that is why they were.
    pub(super) fn forgive_storing(&mut self) {
        if let Phase::Storing(storing) = &mut self.phase {
            storing.abandoned = 0;
        }
    }

    /// Takes note that the keeper has vanished over it.
    pub(super) fn storage_lapsed(&mut self, cluster: &mut Cluster) {
        let Phase::Storing(storing) = &mut self.phase else {
            return;
        };
        storing.lease = None;
        match storing.kind {
            Kind::RestoreFirst => self.lose_restorer(),
            // N4: if the former keeper wakes up, what it still installs is refused.
            Kind::RestoreBest => self.begin_lineage(cluster),
            Kind::Save | Kind::Seal => {}
        }
    }

    /// Ends a job that was to begin from a checkpoint which only a lost worker has.
    pub(super) fn lose_restorer(&mut self) {
        let why = "the worker that was to restore its checkpoint is gone; start again";
        self.fail(ErrorKind::UnknownJob, why);
    }
}
