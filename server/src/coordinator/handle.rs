//! The coordinator as transports see it: behind a lock, with the time, and durable.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_client::transport::{Admin, Answered, Control, Membership, Next};
use windlass_common::coordination::{
    Assigned, Progress, Register, Registered, Report, ShardMap, Task,
};
use windlass_common::failpoint;
use windlass_common::id::{CheckpointId, JobId, LeaseId, Lineage, WorkerId};
use windlass_common::runtime::{Clock, Pool, offload};
use windlass_common::status::ClusterStatus;
use windlass_proto::{ErrorKind, WireError};

use super::admin::Publication;
use super::catalog::Catalog;
use super::held::{Held, asked};
use super::record::Stamp;
use super::role::Coordinator;
use super::state_file::StateFile;
use crate::error::Error;

/// A coordinator behind a lock, with the time.
///
/// What an answer rests on is on the disk before the answer leaves: each question that changed what
/// a later life must know waits until that is written, and so does one that was asked meanwhile.
pub struct CoordinatorHandle {
    // std Mutex: no question takes longer than one pass over a report, and none awaits.
    place: Mutex<Place>,
    pub(super) clock: Arc<dyn Clock>,
    durable: Option<Durable>,
    /// Rung when a checkpoint is ready to be published.
    ready: Notify,
}

pub(super) struct Place {
    pub(super) coordinator: Coordinator,
    /// Those who wait for something to do.
    pub(super) held: Held,
    stamp: Stamp,
    /// Rises with each change that must be written.
    version: u64,
}

/// Where the state and the checkpoints are.
pub struct Durable {
    /// The state.
    pub file: StateFile,
    /// The checkpoints of all jobs.
    pub catalog: Catalog,
    /// Where blocking work goes.
    pub pool: Arc<dyn Pool>,
    /// The version that is on the disk. tokio's: held while it is written.
    written: tokio::sync::Mutex<u64>,
    /// Whose turn it is with the checkpoints: who publishes one and removes old ones, or who puts a
    /// job back to one. tokio's: held while the store works.
    turn: tokio::sync::Mutex<()>,
}

impl Durable {
    /// Puts together where everything lies.
    #[must_use]
    pub fn new(file: StateFile, catalog: Catalog, pool: Arc<dyn Pool>) -> Self {
        Self {
            file,
            catalog,
            pool,
            written: tokio::sync::Mutex::new(0),
            turn: tokio::sync::Mutex::new(()),
        }
    }
}

impl CoordinatorHandle {
    /// Puts a coordinator behind a lock, memory only.
    #[must_use]
    pub fn new(coordinator: Coordinator, clock: Arc<dyn Clock>) -> Self {
        Self::with(coordinator, clock, None)
    }

    /// Puts a coordinator behind a lock and makes its state durable, before it is asked anything
    /// (rule C0).
    ///
    /// # Errors
    /// A state or a store that cannot be written or read.
    pub async fn durable(
        coordinator: Coordinator,
        clock: Arc<dyn Clock>,
        durable: Durable,
    ) -> Result<Self, WireError> {
        let handle = Self::with(coordinator, clock, Some(durable));
        let names = handle.lock().coordinator.job_names();
        for name in names {
            // An old copy of the state may not know of the newest numbers.
            let taken = handle.stored(&name, false).await?.last;
            handle.lock().coordinator.rise_above(&name, taken);
        }
        let version = handle.lock().version;
        handle.written(version).await?;
        Ok(handle)
    }

    fn with(coordinator: Coordinator, clock: Arc<dyn Clock>, durable: Option<Durable>) -> Self {
        Self {
            place: Mutex::new(Place {
                stamp: coordinator.stamp(),
                coordinator,
                held: Held::default(),
                version: 1,
            }),
            clock,
            durable,
            ready: Notify::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the coordinator, and answers when what the answer rests on is durable. The time is read
    /// under the lock, so that it never goes back for the coordinator.
    async fn ask<T>(
        &self,
        question: impl FnOnce(&mut Coordinator, Duration) -> T,
    ) -> Result<T, WireError> {
        self.ask_at(|place, now| question(&mut place.coordinator, now))
            .await
    }

    /// Asks as [`ask`](Self::ask) does, with a look at who is held.
    pub(super) async fn ask_at<T>(
        &self,
        question: impl FnOnce(&mut Place, Duration) -> T,
    ) -> Result<T, WireError> {
        let (answer, version) = {
            let place = &mut *self.lock();
            let answer = question(place, self.clock.now());
            place.held.ring(&place.coordinator);
            let stamp = place.coordinator.stamp();
            if stamp != place.stamp {
                place.stamp = stamp;
                place.version += 1;
            }
            (answer, place.version)
        };
        self.written(version).await?;
        Ok(answer)
    }

    /// Ends when the state of this version, or of a later one, is on the disk.
    async fn written(&self, version: u64) -> Result<(), WireError> {
        let Some(durable) = &self.durable else {
            return Ok(());
        };
        let mut written = durable.written.lock().await;
        if *written >= version {
            return Ok(());
        }
        let (state, newest) = {
            let place = self.lock();
            (place.coordinator.record(), place.version)
        };
        let file = durable.file.clone();
        let save = move || file.save(&state);
        let saved = offload(&*durable.pool, save).await;
        saved.ok_or(Error::WorkDropped)?.map_err(|error| {
            // It may be cured: space may return.
            let why = format!("the coordinator cannot write its state: {error}");
            WireError::new(ErrorKind::Unavailable, why)
        })?;
        *written = newest;
        Ok(())
    }

    /// Looks up what the store holds of a job; nothing but numbers if it begins anew.
    async fn stored(&self, job: &str, fresh: bool) -> Result<super::Stored, WireError> {
        let Some(durable) = &self.durable else {
            return Ok(super::Stored::default());
        };
        let (catalog, job) = (durable.catalog.clone(), job.to_owned());
        let look = move || catalog.stored(&job, fresh);
        let stored = offload(&*durable.pool, look).await;
        stored.ok_or(Error::WorkDropped)?.map_err(unreachable)
    }

    /// Writes manifests of checkpoints that are ready, and removes those beyond the ones to keep.
    /// Never ends.
    pub async fn publish(&self) {
        loop {
            let published = match &self.durable {
                Some(durable) => self.publish_next(durable).await,
                None => None,
            };
            match published {
                Some(true) => {}
                Some(false) => {
                    self.clock.sleep(RETRY).await;
                    self.ready.notify_one();
                }
                None => self.ready.notified().await,
            }
        }
    }

    /// Writes one manifest and says whether it is done; `None` if none is ready.
    async fn publish_next(&self, durable: &Durable) -> Option<bool> {
        // Taken in turn: what it may remove is what no job has been put back to.
        let _turn = durable.turn.lock().await;
        let publication = self.lock().coordinator.take_publication()?;
        let (
            catalog,
            Publication {
                manifest, needed, ..
            },
        ) = (durable.catalog.clone(), publication.clone());
        let work = move || catalog.publish(manifest, &needed);
        let taken = offload(&*durable.pool, work).await;
        let taken = taken.unwrap_or(Err(Error::WorkDropped));
        let failed = taken.as_ref().err().map(ToString::to_string);
        if let Some(error) = &failed {
            let number = publication.manifest.number;
            tracing::warn!(checkpoint = %number, error, "checkpoint not published, trying again");
        }
        let taken = taken.map_err(|error| error.to_string());
        // An error is about the state's file: the next question meets it too.
        let noted = self
            .ask(|coordinator, _| coordinator.published(&publication, taken))
            .await;
        Some(failed.is_none() && noted.is_ok())
    }
}

/// When a manifest that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// A store that does not answer now may do so later.
fn unreachable(error: Error) -> WireError {
    let why = format!("the store of checkpoints: {error}");
    WireError::new(ErrorKind::Unavailable, why)
}

impl Control for CoordinatorHandle {
    fn register(&self, register: Register) -> Answered<'_, Registered> {
        Box::pin(async move {
            loop {
                let join = |coordinator: &mut Coordinator, now| {
                    (coordinator.join(&register, now), coordinator.last_job())
                };
                let (joined, last_job) = self.ask(join).await?;
                if let Some(registered) = joined? {
                    return Ok(registered);
                }
                // Outside of the lock. A job that begins meanwhile may be this one, and save more.
                let stored = self.stored(&register.job, register.fresh).await?;
                let begin = |coordinator: &mut Coordinator, now| {
                    let none_began = coordinator.last_job() == last_job;
                    none_began.then(|| coordinator.register_with(register.clone(), stored, now))
                };
                if let Some(begun) = self.ask(begin).await? {
                    return begun;
                }
            }
        })
    }

    fn next(&self, next: Next) -> Answered<'_, (Task, Progress)> {
        Box::pin(async move {
            let gives_back = next.done.is_some();
            if gives_back {
                failpoint::reached("lease-return-before");
            }
            let (again, leaving) = (asked(next.job, next.worker), next.leaving);
            let (job, worker) = (next.job, next.worker);
            let ((mut answer, news), is_training) = self
                .ask_at(|place, now| {
                    // Who asks anew does not listen to an earlier answer.
                    place.held.release(job, worker);
                    let answer = place.next(next, now);
                    (answer, place.coordinator.is_training(job, worker))
                })
                .await?;
            if gives_back {
                failpoint::reached("lease-return-after");
            }
            // From here on what was given back is settled and durable, whatever becomes of the
            // worker's connection. What a worker has not given back may be what it is to wait for.
            if !leaving && !is_training {
                answer = self.hold(again, news, answer).await?;
            }
            if let Ok((Task::Train(_), _)) = &answer {
                failpoint::reached("lease-grant-after");
            }
            answer
        })
    }

    fn renew(
        &self,
        job: JobId,
        worker: WorkerId,
        lease: LeaseId,
    ) -> Answered<'_, (bool, Progress)> {
        Box::pin(async move {
            self.ask(|coordinator, now| coordinator.renew(job, worker, lease, now))
                .await?
        })
    }

    fn map(&self, job: JobId) -> Answered<'_, ShardMap> {
        Box::pin(async move {
            self.ask(|coordinator, now| coordinator.map(job, now))
                .await?
        })
    }
}

impl Membership for CoordinatorHandle {
    fn report(&self, report: Report) -> Answered<'_, Assigned> {
        Box::pin(async move {
            let saves = report.jobs.iter().any(|job| !job.saved.is_empty());
            let answer = self
                .ask(|coordinator, now| coordinator.report(report, now))
                .await?;
            if saves {
                self.ready.notify_one();
            }
            answer
        })
    }
}

impl Admin for CoordinatorHandle {
    fn status(&self) -> Answered<'_, ClusterStatus> {
        Box::pin(async move {
            let now_ms = self.durable.as_ref().map_or(0, |d| d.catalog.now_ms());
            self.ask(|coordinator, now| coordinator.status(now, now_ms))
                .await
        })
    }

    fn save(&self, job: String) -> Answered<'_, CheckpointId> {
        Box::pin(async move { self.ask(|coordinator, _| coordinator.save(&job)).await? })
    }

    fn restore(&self, job: String, checkpoint: CheckpointId) -> Answered<'_, Lineage> {
        Box::pin(async move {
            let Some(durable) = &self.durable else {
                let why =
                    "this cluster writes no checkpoints: set data_dir in the servers' configs";
                return Err(WireError::new(ErrorKind::Invalid, why));
            };
            self.ask(|coordinator, _| coordinator.must_lead(&job))
                .await??;
            // What is read here is needed from then on: it must not go in between.
            let _turn = durable.turn.lock().await;
            let catalog = durable.catalog.clone();
            let read = move || catalog.read(&job, checkpoint);
            let manifest = offload(&*durable.pool, read).await;
            let manifest = manifest.ok_or(Error::WorkDropped)??;
            self.ask(|coordinator, _| coordinator.restore(manifest))
                .await?
        })
    }
}

#[cfg(test)]
mod tests;
