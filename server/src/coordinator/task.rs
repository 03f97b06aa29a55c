//! What a worker is told to do next.

use std::time::Duration;

use windlass_client::transport::Next;
use windlass_common::coordination::{Outcome, Progress, Purpose, ScoreLease, Task, TrainLease};
use windlass_common::failpoint;
use windlass_common::id::{LeaseId, Seq, ServerId, ShardId, SourceId, WorkerId};
use windlass_proto::{ErrorKind, WireError};

use super::checkpoints::Checkpoints;
use super::cluster::Cluster;
use super::job::Job;
use super::leases::Work;
use super::phase::Phase;
use super::sources::Pick;
use super::storage::Kind;

/// How long a question for which there is no task is held at most. There is an answer at once when
/// there is something to do (`held`), so this is only how often a worker is heard of and learns anew
/// what it waits for: far below the least deadline of a request, 1 s, and the silence after which a
/// worker has gone.
const RETRY: Duration = Duration::from_millis(200);

impl Job {
    /// Takes what a worker gives back and answers what is next.
    ///
    /// # Errors
    /// Why the job has failed; `TooLarge` for more workers than a job may have.
    pub(super) fn next(
        &mut self,
        next: Next,
        cluster: &mut Cluster,
        now: Duration,
    ) -> Result<(Task, Progress), WireError> {
        // In this order, so that who asks after a keeper has gone silent is the keeper at once.
        self.pass_time(cluster, now);
        self.workers.hear(next.worker, now)?;
        if let Some((lease, outcome)) = next.done {
            self.settle(next.worker, lease, outcome, cluster);
        }
        if next.leaving {
            for work in self.leases.end_all_of(next.worker) {
                self.lapse(work, cluster);
            }
            self.workers.forget(next.worker);
            self.require_creator();
            self.advance(cluster);
            if let Phase::Failed(error) = &self.phase {
                return Err(error.clone());
            }
            return Ok((wait("left the job".into(), false), self.progress(cluster)));
        }
        self.advance(cluster);
        let task = self.task(next.worker, cluster, now)?;
        Ok((task, self.progress(cluster)))
    }

    /// Lets a lease last longer; `false` if it has run out.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub(super) fn renew(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        cluster: &mut Cluster,
        now: Duration,
    ) -> Result<(bool, Progress), WireError> {
        self.pass_time(cluster, now);
        self.workers.hear(worker, now)?;
        if let Phase::Failed(error) = &self.phase {
            return Err(error.clone());
        }
        let alive = self.leases.renew(lease, worker, now + cluster.ttl);
        Ok((alive, self.progress(cluster)))
    }

    /// Ends a lease and takes its outcome, if that is the first for its work.
    fn settle(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        outcome: Outcome,
        cluster: &mut Cluster,
    ) {
        let Some(returned) = self.leases.give_back(lease, worker) else {
            return;
        };
        match (returned.work, outcome) {
            (Work::Train(source), Outcome::Trained(tally)) => {
                if self.sources.is_of_last_epoch(source) {
                    self.learnt.count(source, &tally);
                }
                if let Some(checkpoints) = &mut self.checkpoints {
                    checkpoints.learnt(tally.examples);
                }
                self.sources.finish(source, returned.in_time);
            }
            (Work::Score { board, index }, Outcome::Scored(tally)) => {
                if let Some(board) = self.phase.board(board) {
                    board.count(index, &tally);
                }
            }
            // Too late for anything but metrics.
            _ if !returned.in_time => {}
            (Work::Train(source), Outcome::Abandoned(_)) => self.sources.rest(source),
            (Work::Train(source), Outcome::Unreadable(why)) => {
                self.unreadable(source, &why, cluster);
            }
            (Work::Storage, Outcome::Stored) => self.stored(cluster),
            (Work::Storage, Outcome::Abandoned(why) | Outcome::Unreadable(why)) => {
                self.storage_abandoned(&why);
            }
            (work, _) => self.lapse(work, cluster),
        }
    }

    fn task(
        &mut self,
        worker: WorkerId,
        cluster: &mut Cluster,
        now: Duration,
    ) -> Result<Task, WireError> {
        match &self.phase {
            Phase::Failed(error) => return Err(error.clone()),
            Phase::Done => return Ok(Task::Done(self.history.clone())),
            Phase::Gathering { .. } => {
                let reason = self.gathering_reason(cluster, now);
                return Ok(wait(reason, true));
            }
            // The rows are about to be replaced: what they lack is of no interest.
            Phase::Storing(s) if matches!(s.kind, Kind::RestoreFirst | Kind::RestoreBest) => {
                return Ok(self.storage(worker, cluster, now));
            }
            _ => {}
        }
        // C4: whatever the phase, what a shard has lost is learnt again first.
        let pick = self.sources.take();
        if pick != Pick::Complete {
            self.forgive_storing();
        }
        if let (Pick::Source(..), Purpose::Evaluate) = (pick, self.plan.purpose) {
            // C4 is for what is learnt; an evaluation changes no rows, so it can only begin again.
            self.fail(
                ErrorKind::UnknownJob,
                "a server lost the rows; run evaluate again",
            );
            return self.task(worker, cluster, now);
        }
        Ok(match pick {
            Pick::Source(source, start) => self.train(worker, source, start, cluster, now),
            Pick::Unreported(shard) => {
                let reason = self.unreported_reason(shard, cluster);
                self.wait_for_servers(reason, cluster, now)
            }
            Pick::Leased(count) => self.wait_for_others(count, cluster, now),
            Pick::Finished(count) => {
                let reason = format!("waiting until the servers confirm {}", splits(count));
                self.wait_for_servers(reason, cluster, now)
            }
            Pick::Resting(count) => {
                let count = splits(count);
                let reason = format!("waiting until the servers tell what they hold of {count}");
                self.wait_for_servers(reason, cluster, now)
            }
            Pick::Complete => match &self.phase {
                Phase::Storing(_) => self.storage(worker, cluster, now),
                Phase::Training => self.wait_for_others(self.leases.training(), cluster, now),
                Phase::Pinning | Phase::Closing => {
                    let reason = self.saving_reason();
                    self.wait_for_servers(reason, cluster, now)
                }
                _ => self.score(worker, cluster, now),
            },
        })
    }

    fn train(
        &mut self,
        worker: WorkerId,
        source: SourceId,
        start: Seq,
        cluster: &mut Cluster,
        now: Duration,
    ) -> Task {
        failpoint::reached("lease-grant-before");
        self.tell_if_closed(source);
        let (epoch, index) = self.orders.split_of(source);
        let lease = cluster.lease();
        let until = now + cluster.ttl;
        self.leases.grant(lease, worker, Work::Train(source), until);
        Task::Train(TrainLease {
            lease,
            ttl: cluster.ttl,
            source,
            epoch,
            index,
            split: self.splits[index as usize],
            start,
            lineage: self.lineage,
        })
    }

    /// C12: a split is scored against rows that hold exactly the complete epochs; each shard checks
    /// that itself, so nothing has to be fenced.
    fn score(&mut self, worker: WorkerId, cluster: &mut Cluster, now: Duration) -> Task {
        let (Phase::Validating(board) | Phase::Testing(board)) = &mut self.phase else {
            return wait("waiting for the job to go on".into(), false);
        };
        let left = board.left().max(self.leases.training());
        let Some((index, split)) = board.take() else {
            return self.wait_for_others(left, cluster, now);
        };
        let (of, board) = (board.of, board.number);
        let lease = cluster.lease();
        let until = now + cluster.ttl;
        let work = Work::Score { board, index };
        self.leases.grant(lease, worker, work, until);
        Task::Score(ScoreLease {
            lease,
            ttl: cluster.ttl,
            of,
            split,
            exactly_below: self.sources.limit(),
        })
    }

    fn storage(&mut self, worker: WorkerId, cluster: &mut Cluster, now: Duration) -> Task {
        if let Some(task) = self.offer(worker, cluster, now) {
            return task;
        }
        let reason = match &self.phase {
            Phase::Storing(storing) => self.storing_reason(storing.kind),
            _ => "waiting for the job to go on".into(),
        };
        wait(reason, false)
    }

    fn wait_for_others(&self, count: usize, cluster: &Cluster, now: Duration) -> Task {
        let reason = format!("waiting for {} that other workers hold", splits(count));
        self.wait_for_servers(reason, cluster, now)
    }

    /// Lets a worker wait for what needs the owners; one that is silent is the reason, and missing.
    fn wait_for_servers(&self, reason: String, cluster: &Cluster, now: Duration) -> Task {
        match self.silence(cluster, now) {
            Some(silence) => wait(silence, true),
            None => wait(reason, false),
        }
    }

    fn gathering_reason(&self, cluster: &Cluster, now: Duration) -> String {
        let here = |what: &str, joined: u32, wanted: u32| {
            let next = joined.saturating_add(1).min(wanted);
            format!("waiting for {what} {next} of {wanted} ({joined} joined)")
        };
        if self.owners.is_empty() {
            let joined = cluster.servers.alive(now).len();
            let joined = u32::try_from(joined).unwrap_or(u32::MAX);
            return here("server", joined, self.plan.servers.max(1));
        }
        here("worker", self.workers.count(), self.plan.workers)
    }

    fn unreported_reason(&self, shard: ShardId, cluster: &Cluster) -> String {
        match self.owners.of(shard) {
            Some((server, _)) => {
                let address = cluster.servers.address(server);
                format!("waiting until server {address} tells what it holds of shard {shard}")
            }
            None => format!("waiting for an owner of shard {shard}"),
        }
    }

    fn saving_reason(&self) -> String {
        let shards = self.schema.shards.len();
        match self.checkpoints.as_ref().and_then(Checkpoints::under_way) {
            Some((checkpoint, saved)) => {
                format!("waiting for checkpoint {checkpoint} ({saved} of {shards} shards saved)")
            }
            None => "waiting for a checkpoint".into(),
        }
    }

    /// The first owner that has been silent for too long, in words.
    fn silence(&self, cluster: &Cluster, now: Duration) -> Option<String> {
        let mut last: Option<ServerId> = None;
        for &(server, _) in self.owners.as_slice() {
            // Owners come in blocks: each is looked at once.
            if last.replace(server) == Some(server) {
                continue;
            }
            if let Some(silent) = cluster.servers.silence(server, now) {
                let address = cluster.servers.address(server);
                let seconds = silent.as_secs();
                return Some(format!(
                    "waiting for server {address} silent for {seconds}s"
                ));
            }
        }
        None
    }
}

fn wait(reason: String, missing: bool) -> Task {
    Task::Wait {
        reason,
        retry: RETRY,
        missing,
    }
}

fn splits(count: usize) -> String {
    match count {
        1 => "1 split".into(),
        n => format!("{n} splits"),
    }
}
