//! The workers of the simulated cluster: each takes one step a turn.

use std::collections::BTreeMap;

use windlass_client::transport::Next;
use windlass_common::coordination::{History, Outcome, ScoreLease, StorageLease, Task, TrainLease};
use windlass_common::id::{JobId, LeaseId, PushId, Seq, ShardId, SourceId, WorkerId};
use windlass_common::tally::Tally;
use windlass_common::windows::Verdict;
use windlass_proto::{ErrorKind, WireError};

use super::server::Shard;
use super::world::{Saved, World, exact, length};
use crate::coordinator::Stored;

pub(super) enum Doing {
    Nothing,
    Training(TrainLease, Seq, Tally),
    Scoring(ScoreLease),
    Saving(StorageLease),
    Restoring(StorageLease),
    Sealing(StorageLease),
}

impl Doing {
    fn needs_all_shards(&self) -> Option<LeaseId> {
        match self {
            Self::Scoring(lease) => Some(lease.lease),
            Self::Saving(lease) | Self::Restoring(lease) => Some(lease.lease),
            _ => None,
        }
    }
}

pub(super) struct Worker {
    pub(super) id: WorkerId,
    pub(super) job: Option<JobId>,
    /// Turns that it sleeps through, without renewing anything.
    pub(super) asleep: u32,
    /// The end it has seen.
    pub(super) end: Option<Result<History, WireError>>,
    /// The last reason to wait.
    pub(super) reason: String,
    /// Whether what it waited for was not there.
    pub(super) missing: bool,
    /// Whether it gives each outcome back twice.
    pub(super) stutters: bool,
    pub(super) fresh: bool,
    /// Whether it cannot read the input; it leaves over it.
    pub(super) blind: bool,
    pub(super) doing: Doing,
    pub(super) done: Option<(LeaseId, Outcome)>,
}

impl World {
    /// Lets a worker take one step.
    pub(super) fn step(&mut self, w: usize) {
        if self.workers[w].end.is_some() {
            return;
        }
        if self.workers[w].asleep > 0 {
            self.workers[w].asleep -= 1;
            return;
        }
        let Some(job) = self.workers[w].job else {
            self.join(w);
            return;
        };
        let doing = std::mem::replace(&mut self.workers[w].doing, Doing::Nothing);
        if let Some(lease) = doing.needs_all_shards()
            && !self.all_reachable(job)
        {
            // A worker tries again for long before it gives up.
            self.hold(w, lease, job);
            self.workers[w].doing = doing;
            return;
        }
        let (lease, outcome) = match doing {
            Doing::Nothing => return self.ask(w, job),
            Doing::Training(lease, ..) if self.workers[w].blind => (
                lease.lease,
                Outcome::Unreadable("train: no such file".into()),
            ),
            Doing::Training(lease, next, tally) => {
                let id = lease.lease;
                match self.train(&lease, job, next, tally) {
                    Ok((next, tally)) if next.0 <= length(lease.index) => {
                        self.hold(w, id, job);
                        self.workers[w].doing = Doing::Training(lease, next, tally);
                        return;
                    }
                    Ok((_, tally)) => (id, Outcome::Trained(tally)),
                    Err(why) => (id, Outcome::Abandoned(why)),
                }
            }
            Doing::Scoring(lease) => (lease.lease, self.score(&lease, job)),
            Doing::Saving(lease) => (lease.lease, self.save(&lease, job)),
            Doing::Restoring(lease) => (lease.lease, self.restore(&lease, job)),
            Doing::Sealing(lease) => {
                let saved = self
                    .disk
                    .get_mut(&lease.epochs)
                    .expect("it was saved before");
                saved.history = lease.history.clone();
                (lease.lease, Outcome::Stored)
            }
        };
        self.workers[w].done = Some((lease, outcome));
    }

    fn join(&mut self, w: usize) {
        let worker = &mut self.workers[w];
        let mut register = self.setup.register(worker.id);
        register.fresh = worker.fresh;
        register.checkpoint = self.disk.last_key_value().map(|(_, s)| s.history.clone());
        let stored = match &self.store {
            Some(store) => store.stored(register.fresh),
            None => Stored::default(),
        };
        let registered = self.coordinator.register_with(register, stored, self.now);
        self.write_down();
        let worker = &mut self.workers[w];
        match registered {
            Ok(registered) => worker.job = Some(registered.job),
            Err(error) => worker.end = Some(Err(error)),
        }
    }

    pub(super) fn is_restoring(&self, w: usize) -> bool {
        matches!(self.workers[w].doing, Doing::Restoring(_))
    }

    pub(super) fn is_scoring(&self, w: usize) -> bool {
        matches!(self.workers[w].doing, Doing::Scoring(_))
    }

    /// Whether every shard answers, whatever is in it.
    fn all_reachable(&mut self, job: JobId) -> bool {
        let Ok(map) = self.coordinator.map(job, self.now) else {
            // It is gone, which the worker learns when it asks.
            return true;
        };
        let mut shards = (0u16..).map(ShardId).zip(&map.owners);
        shards.all(|(shard, owner)| {
            let up = self.servers.iter().any(|s| s.id == Some(owner.0) && s.up);
            up && self.shard(job, owner.0, shard).is_some()
        })
    }

    fn hold(&mut self, w: usize, lease: LeaseId, job: JobId) {
        let worker = self.workers[w].id;
        // A job that is gone is noticed when the worker asks next.
        drop(self.coordinator.renew(job, worker, lease, self.now));
    }

    fn ask(&mut self, w: usize, job: JobId) {
        let worker = &mut self.workers[w];
        let next = Next {
            job,
            worker: worker.id,
            leaving: matches!(worker.done, Some((_, Outcome::Unreadable(_)))),
            done: worker.done.take(),
        };
        let leaving = next.leaving;
        if worker.stutters && next.done.is_some() {
            let again = next.clone();
            let answer = self.coordinator.next(again, self.now);
            // The answer was lost with whatever it gave.
            drop(answer);
        }
        let answer = self.coordinator.next(next, self.now);
        self.write_down();
        let worker = &mut self.workers[w];
        match answer {
            Ok(_) if leaving => {
                let why = "left without an end";
                worker.end = Some(Err(WireError::new(ErrorKind::Unavailable, why)));
            }
            Ok((task, _)) => match task {
                Task::Train(lease) => {
                    let start = lease.start;
                    worker.doing = Doing::Training(lease, start, Tally::default());
                }
                Task::Score(lease) => worker.doing = Doing::Scoring(lease),
                Task::Save(lease) => worker.doing = Doing::Saving(lease),
                Task::Restore(lease) => worker.doing = Doing::Restoring(lease),
                Task::Seal(lease) => worker.doing = Doing::Sealing(lease),
                Task::Wait {
                    reason, missing, ..
                } => (worker.reason, worker.missing) = (reason, missing),
                Task::Done(history) => worker.end = Some(Ok(history)),
            },
            // What a launcher does: the process starts again.
            Err(error) if error.kind == ErrorKind::UnknownJob => self.restart_worker(w),
            Err(error) => worker.end = Some(Err(error)),
        }
    }

    /// Pushes one batch to every shard; goes on when all have acknowledged it.
    fn train(
        &mut self,
        lease: &TrainLease,
        job: JobId,
        next: Seq,
        mut tally: Tally,
    ) -> Result<(Seq, Tally), String> {
        let end = next.0 == length(lease.index);
        let id = PushId {
            source: lease.source,
            seq: next,
        };
        let map = match self.coordinator.map(job, self.now) {
            Ok(map) => map,
            Err(error) => return Err(error.message),
        };
        let mut acknowledged = true;
        for (shard, owner) in (0u16..).map(ShardId).zip(&map.owners) {
            let server = self
                .servers
                .iter_mut()
                .find(|s| s.id == Some(owner.0) && s.up);
            let held = server.and_then(|s| s.jobs.get_mut(&job)?.get_mut(&shard));
            let Some(held) = held else {
                acknowledged = false;
                continue;
            };
            if held.lineage != lease.lineage {
                return Err("stale lineage".into());
            }
            match held.windows.judge(id, end) {
                Verdict::Apply => {
                    held.windows.mark(id, end);
                    if !end {
                        *held
                            .rows
                            .entry((lease.epoch, lease.index, next))
                            .or_default() += 1;
                    }
                }
                Verdict::Duplicate => {}
                verdict => return Err(format!("{verdict:?}")),
            }
        }
        self.computed += 1;
        if !acknowledged {
            return Ok((next, tally));
        }
        if !end {
            tally.examples += 1;
            tally.weight += 1.0;
            tally.log_loss += f64::from(lease.index + 100 * lease.epoch.0);
        }
        Ok((Seq(next.0 + 1), tally))
    }

    /// All shards, if each holds exactly the sources below `limit`.
    fn exactly(&mut self, job: JobId, limit: SourceId) -> Option<BTreeMap<ShardId, Shard>> {
        let map = self.coordinator.map(job, self.now).ok()?;
        let mut shards = BTreeMap::new();
        for (shard, owner) in (0u16..).map(ShardId).zip(&map.owners) {
            let held = self.shard(job, owner.0, shard)?;
            if !held.windows.exactly_below(limit) {
                return None;
            }
            shards.insert(shard, held.clone());
        }
        Some(shards)
    }

    fn score(&mut self, lease: &ScoreLease, job: JobId) -> Outcome {
        let Some(shards) = self.exactly(job, lease.exactly_below) else {
            return Outcome::Abandoned("not exact".into());
        };
        let epochs = u32::try_from(lease.exactly_below.0).unwrap() / self.setup.splits;
        let rows = exact(epochs, self.setup.splits);
        assert!(
            shards.values().all(|s| s.rows == rows),
            "scored a wrong state"
        );
        Outcome::Scored(Tally {
            examples: 1,
            weight: 1.0,
            log_loss: self.setup.losses[epochs as usize - 1],
            ..Tally::default()
        })
    }

    fn save(&mut self, lease: &StorageLease, job: JobId) -> Outcome {
        if self.disk_full {
            return Outcome::Abandoned("the disk is full".into());
        }
        let Some(shards) = self.exactly(job, lease.exactly_below) else {
            return Outcome::Abandoned("not exact".into());
        };
        let parts = |(shard, held): (ShardId, Shard)| (shard, (held.rows, held.windows));
        let saved = Saved {
            shards: shards.into_iter().map(parts).collect(),
            history: lease.history.clone(),
        };
        self.disk.insert(lease.epochs, saved);
        Outcome::Stored
    }

    fn restore(&mut self, lease: &StorageLease, job: JobId) -> Outcome {
        let Some(saved) = self.disk.get(&lease.epochs).cloned() else {
            return Outcome::Abandoned("no such checkpoint here".into());
        };
        let Ok(map) = self.coordinator.map(job, self.now) else {
            return Outcome::Abandoned("no map".into());
        };
        if lease.lineage != map.lineage {
            return Outcome::Abandoned("stale lineage".into());
        }
        for (shard, owner) in (0u16..).map(ShardId).zip(&map.owners) {
            let server = self
                .servers
                .iter_mut()
                .find(|s| s.id == Some(owner.0) && s.up);
            if let Some(held) = server.and_then(|s| s.jobs.get_mut(&job)?.get_mut(&shard)) {
                let (rows, windows) = saved.shards[&shard].clone();
                (held.rows, held.windows) = (rows, windows);
                held.lineage = lease.lineage;
            }
        }
        Outcome::Stored
    }
}
