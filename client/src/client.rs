//! The client that a worker holds for one job: every request of it finds its way to the right
//! servers, survives their deaths and moves, and counts once.
//!
//! Pulls and pushes are in `data`; here are registration, the control plane, whole shards, and how
//! a server is found and asked.

mod data;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tracing::debug;
use windlass_common::coordination::{Outcome, Progress, Register, ShardMap, Task};
use windlass_common::id::{JobId, LeaseId, Lineage, MapEpoch, ServerId, ShardId, WorkerId};
use windlass_common::runtime::Clock;
use windlass_common::shard::ShardCount;
use windlass_proto::ErrorKind;

use crate::connect::{Connect, Directory};
use crate::error::Error;
use crate::retry::{Failure, Retrier, Waiting};
use crate::transport::{Answered, Control, Next, Shards};

/// How a client asks.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Where the coordinator is, for messages: "http://HOST:PORT", or "in this process".
    pub coordinator: String,
    /// How long the coordinator is looked for at the start.
    pub connect_timeout: Duration,
    /// How long one try of a request may take.
    pub request_timeout: Duration,
    /// How long a request is tried before the client gives up.
    pub patience: Duration,
    /// Where the client shows what it is waiting for, from its registration on.
    pub waiting: Waiting,
}

/// A worker's connection to one job.
///
/// All requests may be made at once and from any task; a dropped request is abandoned, and making
/// it again under the same name is safe. At each server they take their turn when they are first
/// polled, so a pull sees the pushes that were begun before it; only what is retried comes later.
/// Every error that time can cure is retried with backoff, each time by the newest map, until
/// `patience` ends.
pub struct Client {
    control: Arc<dyn Control>,
    directory: Directory,
    retrier: Retrier,
    /// The coordinator, as messages call it.
    coordinator: String,
    worker: WorkerId,
    job: JobId,
    shards: ShardCount,
    /// Weights a row, by table.
    dims: Vec<usize>,
}

impl Client {
    /// Joins a job, or creates it.
    ///
    /// Waits for a coordinator that is not there yet, as any request does. Servers may still be
    /// joining when it returns; requests to them wait.
    ///
    /// # Errors
    /// [`Error::Refused`] when the cluster holds another job of this name, or speaks another version;
    /// [`Error::NoCoordinator`] when there is none within `connect_timeout`.
    pub async fn register(
        control: Arc<dyn Control>,
        connect: Arc<dyn Connect>,
        clock: Arc<dyn Clock>,
        register: Register,
        settings: ClientSettings,
    ) -> Result<Self, Error> {
        let shards = register.schema.shards;
        let coordinator = format!("coordinator {}", settings.coordinator);
        let mut retrier = Retrier {
            clock,
            request_timeout: settings.request_timeout,
            patience: settings.connect_timeout,
            waiting: settings.waiting,
            seed: register.worker.0,
            begun: AtomicU64::new(0),
        };
        let what = format!("joining job `{}`", register.job);
        let ask = || control.register(register.clone());
        let answer = retrier.until_answered(&what, &coordinator, ask).await;
        let registered = answer.map_err(Error::while_joining)?;
        retrier.patience = settings.patience;
        let directory = Directory::new(connect, shards);
        if let Err(rule) = directory.adopt(registered.map) {
            let failure = Failure::new(&coordinator, ErrorKind::Internal, rule);
            retrier.begin(what).pause(failure).await?;
        }
        Ok(Self {
            control,
            directory,
            retrier,
            coordinator,
            worker: register.worker,
            job: registered.job,
            shards,
            dims: register.schema.tables.iter().map(|t| t.dim()).collect(),
        })
    }

    /// The job's number in its cluster.
    #[must_use]
    pub fn job(&self) -> JobId {
        self.job
    }

    /// How many shards the job has.
    #[must_use]
    pub fn shards(&self) -> ShardCount {
        self.shards
    }

    /// Says what the oldest request that does not come through is waiting for.
    #[must_use]
    pub fn waiting(&self) -> Option<String> {
        self.retrier.waiting.text()
    }

    /// Gives back what was done, if anything, and asks what is next.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::GaveUp`].
    pub async fn next(
        &self,
        done: Option<(LeaseId, Outcome)>,
        leaving: bool,
    ) -> Result<(Task, Progress), Error> {
        let next = Next {
            job: self.job,
            worker: self.worker,
            done,
            leaving,
        };
        let ask = || self.control.next(next.clone());
        self.retrier
            .until_answered("asking for work", &self.coordinator, ask)
            .await
    }

    /// Keeps a lease alive. `false`: it had run out; going on is right, and so is stopping.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::GaveUp`].
    pub async fn renew(&self, lease: LeaseId) -> Result<(bool, Progress), Error> {
        let ask = || self.control.renew(self.job, self.worker, lease);
        self.retrier
            .until_answered("renewing a lease", &self.coordinator, ask)
            .await
    }

    /// Asks where the job's shards are now; later requests go by this map or a newer one.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::GaveUp`].
    pub async fn map(&self) -> Result<Arc<ShardMap>, Error> {
        let mut trial = self.retrier.begin("asking for the map");
        loop {
            match self.fetch().await {
                Ok(map) => return Ok(map),
                Err(failure) => trial.pause(failure).await?,
            }
        }
    }

    /// Copies a shard at one moment as the bytes of a checkpoint's shard file.
    ///
    /// # Errors
    /// [`Error::UnknownShard`], [`Error::Refused`] and [`Error::GaveUp`].
    pub async fn snapshot(&self, shard: ShardId) -> Result<Vec<u8>, Error> {
        let what = format!("snapshot of shard {shard}");
        self.of_owner(&what, shard, |shards| shards.snapshot(self.job, shard))
            .await
    }

    /// Replaces a shard by a snapshot, in a new life of the job's state (rule N4).
    ///
    /// # Errors
    /// [`Error::UnknownShard`], [`Error::Refused`] and [`Error::GaveUp`].
    pub async fn install(
        &self,
        shard: ShardId,
        lineage: Lineage,
        snapshot: Vec<u8>,
    ) -> Result<(), Error> {
        let what = format!("restoring shard {shard}");
        self.of_owner(&what, shard, |shards| {
            shards.install(self.job, shard, lineage, snapshot.clone())
        })
        .await
    }

    /// Asks a shard's owner until it answers, wherever the shard goes meanwhile.
    async fn of_owner<T>(
        &self,
        what: &str,
        shard: ShardId,
        ask: impl for<'a> Fn(&'a dyn Shards) -> Answered<'a, T>,
    ) -> Result<T, Error> {
        self.check_shard(shard)?;
        let mut trial = self.retrier.begin(what);
        let mut used = None;
        loop {
            let failure = match self.locate(&mut used).await {
                Err(failure) => failure,
                Ok(map) => {
                    let (owner, _) = map.owners[usize::from(shard.0)];
                    // No limit but the transport's: a whole shard may be gigabytes.
                    let shards = self.directory.at(&map.addresses[&owner]);
                    match ask(&*shards).await {
                        Ok(answer) => return Ok(answer),
                        Err(error) => Failure {
                            place: place_of(&map, owner),
                            error,
                        },
                    }
                }
            };
            trial.pause(failure).await?;
        }
    }

    /// Asks one server once.
    async fn ask<T>(
        &self,
        map: &ShardMap,
        server: ServerId,
        ask: impl for<'a> FnOnce(&'a dyn Shards) -> Answered<'a, T>,
    ) -> Result<T, Failure> {
        let shards = self.directory.at(&map.addresses[&server]);
        self.retrier
            .within(&place_of(map, server), ask(&*shards))
            .await
    }

    /// Returns the map to go by: at first the one that is held, after a failure a newer one if
    /// there is one. `used` is the version that was returned before.
    async fn locate(&self, used: &mut Option<MapEpoch>) -> Result<Arc<ShardMap>, Failure> {
        let mut map = self.directory.map();
        if map.owners.is_empty() || *used >= Some(map.epoch) {
            match self.fetch().await {
                Ok(fetched) => map = fetched,
                // The servers may answer although the coordinator does not.
                Err(failure) if failure.may_retry() && !map.owners.is_empty() => {
                    debug!(place = failure.place, error = %failure.error, "no newer map");
                }
                Err(failure) => return Err(failure),
            }
        }
        *used = Some(map.epoch);
        if map.owners.is_empty() {
            let joined = map.addresses.len();
            let why = format!("too few servers have joined yet ({joined} so far)");
            return Err(Failure::new(&self.coordinator, ErrorKind::Busy, why));
        }
        Ok(map)
    }

    /// Asks the coordinator for the map once.
    async fn fetch(&self) -> Result<Arc<ShardMap>, Failure> {
        let answer = self.control.map(self.job);
        let map = self.retrier.within(&self.coordinator, answer).await?;
        self.directory
            .adopt(map)
            .map_err(|rule| Failure::new(&self.coordinator, ErrorKind::Internal, rule))
    }

    fn check_shard(&self, shard: ShardId) -> Result<(), Error> {
        let shards = self.shards.len();
        if usize::from(shard.0) < shards {
            Ok(())
        } else {
            Err(Error::UnknownShard { shard, shards })
        }
    }
}

/// Names a server in messages.
fn place_of(map: &ShardMap, server: ServerId) -> String {
    format!("server {}", map.addresses[&server])
}

#[cfg(test)]
mod tests;
