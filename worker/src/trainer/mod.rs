//! The worker's loop: ask the coordinator what is next, do it, give it back.
//!
//! Reading order: this file, `learn.rs` (a training split), `open.rs` (its pushes that are not
//! acknowledged), `score.rs` (a held-out split), `step.rs` (one batch), `batches.rs` (reading ahead),
//! `storage.rs` (checkpoints), `live.rs` (what is shown).

mod batches;
mod learn;
mod live;
mod open;
mod score;
mod staleness;
mod step;
mod storage;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use windlass_client::Client;
use windlass_common::coordination::{History, Outcome, Task};
use windlass_common::id::LeaseId;
use windlass_common::runtime::{Clock, Pool};
use windlass_proto::ErrorKind;

pub use live::{Live, State};
pub use staleness::Staleness;
pub use step::Step;
pub use storage::Storage;

use self::open::OpenPushes;
use crate::data::{Input, ReadPlan};
use crate::error::Error;

/// The files of a job.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// What is learnt.
    pub train: Arc<Input>,
    /// What is scored after each epoch.
    pub validation: Arc<Input>,
    /// What is scored at the end.
    pub test: Arc<Input>,
}

/// How the loop runs.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Examples a batch.
    pub batch_size: usize,
    /// Batches that may be pulled before earlier ones are pushed.
    pub prefetch: usize,
    /// Pushes that may wait for their acknowledgement, at least 1.
    pub open_pushes: usize,
    /// Prepared batches that may wait for the loop.
    pub read_ahead: usize,
    /// Seeds the shuffle inside splits.
    pub seed: u64,
    /// How long to wait for servers and workers that are not there.
    pub patience: Duration,
}

/// A worker of one job. It keeps nothing that is needed after it is gone.
pub struct Trainer {
    /// The way to the servers.
    pub client: Arc<Client>,
    /// The model.
    pub step: Step,
    /// How lines become examples.
    pub plan: Arc<ReadPlan>,
    /// The files.
    pub inputs: Inputs,
    /// How the loop runs.
    pub pace: Pace,
    /// Where checkpoints lie.
    pub storage: Storage,
    /// What is shown.
    pub live: Arc<Live>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where reading and computing run.
    pub pool: Arc<dyn Pool>,
    /// Becomes true when the worker is asked to stop.
    pub stop: watch::Receiver<bool>,
}

impl Trainer {
    /// Works until the job is done, or until it is asked to stop; then the answer is `None`.
    ///
    /// # Errors
    /// Bad input, a refusal by the servers, or servers that stay away longer than the config's
    /// patience. The lease of what was begun is given back first, where that is still possible.
    pub async fn run(&self) -> Result<Option<History>, Error> {
        let mut pushes = OpenPushes::new(&self.client, &self.live, self.pace.open_pushes);
        let mut missing: Option<Duration> = None;
        loop {
            let done = pushes.outcome();
            if self.stopping() {
                self.leave(done).await;
                return Ok(None);
            }
            let next = tokio::select! {
                // In this order, here and below, so that a simulation repeats.
                biased;
                next = pushes.during(self.client.next(done, false)) => next,
                () = self.stopped_for(GRACE) => return Ok(None),
            };
            let (task, progress) = match next {
                Ok(answer) => answer?,
                Err(error) => {
                    self.leave(None).await;
                    return Err(error);
                }
            };
            self.live.advance(progress);
            match self.work(task, &mut pushes).await {
                Ok(Worked::Done(history)) => {
                    self.leave(None).await;
                    return Ok(Some(history));
                }
                Ok(Worked::Finished(lease, outcome)) => {
                    pushes.give_back(lease, outcome);
                    missing = None;
                }
                Ok(Worked::Sent | Worked::Waited) => missing = None,
                Ok(Worked::Missed(reason)) => {
                    let since = *missing.get_or_insert(self.clock.now());
                    let waited = self.clock.now().saturating_sub(since);
                    if waited > self.pace.patience {
                        self.leave(None).await;
                        return Err(Error::WaitedInVain { reason, waited });
                    }
                }
                Err((lease, error)) => {
                    if !error.is_of_input() {
                        let abandoned = |lease| (lease, Outcome::Abandoned(error.to_string()));
                        self.leave(lease.map(abandoned)).await;
                        return Err(error);
                    }
                    // C8: where that ends the job, the refusal says why, and what was needed.
                    let unreadable = |lease| (lease, Outcome::Unreadable(error.to_string()));
                    let refused = self.leave(lease.map(unreadable)).await;
                    return Err(refused.unwrap_or(error));
                }
            }
        }
    }

    async fn work(
        &self,
        task: Task,
        pushes: &mut OpenPushes<'_>,
    ) -> Result<Worked, (Option<LeaseId>, Error)> {
        let (lease, ttl) = match &task {
            Task::Train(l) => (l.lease, l.ttl),
            Task::Score(l) => (l.lease, l.ttl),
            Task::Save(l) | Task::Restore(l) | Task::Seal(l) => (l.lease, l.ttl),
            Task::Wait {
                reason,
                retry,
                missing,
            } => {
                if pushes.is_owing() {
                    // Others may wait for the same: for what this worker has not given back.
                    return self.settle(pushes).await;
                }
                self.live.doing(reason.as_str());
                self.pause(*retry).await;
                return Ok(if *missing {
                    Worked::Missed(reason.clone())
                } else {
                    Worked::Waited
                });
            }
            Task::Done(history) => return Ok(Worked::Done(history.clone())),
        };
        let (client, pool) = (&self.client, &*self.pool);
        let work = async {
            let outcome = match task {
                Task::Train(lease) => return self.learn(lease, pushes).await,
                Task::Score(lease) => self.score(lease).await?,
                Task::Save(lease) => self.storage.save(client, pool, lease).await?,
                Task::Restore(lease) => self.storage.restore(client, pool, lease).await?,
                Task::Seal(lease) => self.storage.seal(client, pool, lease).await?,
                Task::Wait { .. } | Task::Done(_) => Outcome::Stored,
            };
            Ok(Some(outcome))
        };
        let outcome = tokio::select! {
            biased;
            outcome = work => outcome,
            error = self.keep_alive(lease, ttl) => Err(error),
            // A request that is being retried does not hear that the worker is to stop.
            () = self.stopped_for(GRACE) => Ok(Some(Outcome::Abandoned(STOPPED.into()))),
        };
        match outcome {
            Ok(Some(outcome)) => Ok(Worked::Finished(lease, outcome)),
            Ok(None) => Ok(Worked::Sent),
            Err(Error::Client(error)) if is_lost(&error) => Ok(Worked::Finished(
                lease,
                Outcome::Abandoned(error.to_string()),
            )),
            Err(error) => Err((Some(lease), error)),
        }
    }

    /// Waits until all that was sent is acknowledged, so that it can be given back.
    async fn settle(
        &self,
        pushes: &mut OpenPushes<'_>,
    ) -> Result<Worked, (Option<LeaseId>, Error)> {
        tokio::select! {
            biased;
            finished = pushes.finish() => finished.map_err(|error| (None, error))?,
            () = self.stopped_for(GRACE) => {}
        }
        Ok(Worked::Waited)
    }

    /// Renews a lease three times in its life; ends only when the servers refuse the job itself.
    async fn keep_alive(&self, lease: LeaseId, ttl: Duration) -> Error {
        loop {
            self.clock.sleep(ttl / 3).await;
            match self.client.renew(lease).await {
                // A lease that ran out is no reason to stop: names decide what counts.
                Ok((_, progress)) => self.live.advance(progress),
                Err(error) => return error.into(),
            }
        }
    }

    /// Says good-bye, and returns the refusal if the job has failed. The servers find out by
    /// themselves if they do not hear it.
    async fn leave(&self, done: Option<(LeaseId, Outcome)>) -> Option<Error> {
        tokio::select! {
            biased;
            answer = self.client.next(done, true) => match answer {
                Err(refused @ windlass_client::Error::Refused { .. }) => Some(refused.into()),
                _ => None,
            },
            () = self.clock.sleep(GRACE) => None,
        }
    }

    /// Ends when the worker was asked to stop and so much time has passed since.
    async fn stopped_for(&self, time: Duration) {
        let mut stop = self.stop.clone();
        match stop.wait_for(|stop| *stop).await {
            Ok(_) => self.clock.sleep(time).await,
            // Nobody is left who could ask it to stop.
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits, or less when the worker is asked to stop.
    async fn pause(&self, time: Duration) {
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            () = self.clock.sleep(time) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    fn stopping(&self) -> bool {
        *self.stop.borrow()
    }
}

/// Why a worker gives back what it has not finished.
const STOPPED: &str = "the worker was asked to stop";

/// How long a worker that is to stop may go on with a request, and how long it says good-bye.
const GRACE: Duration = Duration::from_secs(5);

/// Whether the lease, not the job, is lost: a shard went back to before its start (rule W3), the
/// state was restored to another moment since (rule N4), or it is not the one to be scored (C12).
fn is_lost(error: &windlass_client::Error) -> bool {
    let kind = error.kind();
    matches!(error, windlass_client::Error::Gap { .. })
        || matches!(kind, Some(ErrorKind::StaleLineage | ErrorKind::NotExact))
}

/// What became of a task.
enum Worked {
    /// It is to be given back.
    Finished(LeaseId, Outcome),
    /// It is to be given back when all of it is acknowledged (rule W4).
    Sent,
    /// It was a pause.
    Waited,
    /// It was a pause for servers or workers that are not there.
    Missed(String),
    /// There is nothing more to do.
    Done(History),
}

#[cfg(test)]
mod tests;
