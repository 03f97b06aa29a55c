//! Saving the shards of this server to the store of checkpoints, as the coordinator orders it.
//!
//! One shard after the other while training goes on: its lock is held for one copy in memory (rule
//! A6), and everything else happens on the pool. What was saved is told with the next reports (rule S6).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tracing::{info, warn};
use windlass_common::coordination::{Assignment, JobReport};
use windlass_common::format::{Library, ManifestFile, checkpoint_folder, encode_shard};
use windlass_common::id::{CheckpointId, JobId, Lsn, ShardId};
use windlass_common::runtime::{Clock, Objects, offload};
use windlass_common::saving::{SaveOrder, Saved};

use crate::error::Error;
use crate::log::Coverage;
use crate::savings::Copy;
use crate::store::{Job, Store};

/// While training goes on, a shard's copy is followed by so many times the length of its work of
/// rest: copying takes a twentieth of one core. Hashing and writing the files take about twice as
/// much again, and with all of it training on two cores is 5 to 10 percent slower.
const REST: u32 = 19;

/// Shards that are saved at once while nothing is learnt: syncs that wait together are done
/// together.
const AT_ONCE: usize = 8;

/// No rest is longer, so that a large checkpoint ends in time.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// When it is looked again what is to be saved, after a shard has moved.
const LOOK: Duration = Duration::from_millis(50);

/// When a save that failed is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// Checkpoints of this life whose marks are remembered: the coordinator settles one of the last few.
const REMEMBERED: usize = 64;

/// Saves what is ordered.
pub struct Saver {
    store: Arc<Store>,
    objects: Arc<dyn Objects>,
    clock: Arc<dyn Clock>,
    // std's: held for look-ups, never across an await.
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<JobId, JobState>,
    trouble: Option<String>,
}

#[derive(Default)]
struct JobState {
    order: Option<SaveOrder>,
    /// For the order.
    saved: BTreeMap<ShardId, Saved>,
    /// S6, S7: the files that this life has written, and how far the log is in each.
    marks: BTreeMap<CheckpointId, BTreeMap<ShardId, Written>>,
    settled: Option<CheckpointId>,
}

/// A file that this life has written. A repeated save is another file with its own mark (rule S6).
#[derive(Clone)]
struct Written {
    name: String,
    mark: Lsn,
}

/// The next shard to be saved.
struct Next {
    job: Arc<Job>,
    shard: ShardId,
    order: SaveOrder,
}

impl Saver {
    /// Saves shards of a store to a store of checkpoints.
    #[must_use]
    pub fn new(store: Arc<Store>, objects: Arc<dyn Objects>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            objects,
            clock,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Takes the orders of a new map. A new order takes the place of one that is not done.
    pub fn order(&self, jobs: &[Assignment]) {
        let mut state = self.lock();
        state
            .jobs
            .retain(|&job, _| jobs.iter().any(|a| a.job == job));
        for assignment in jobs {
            let job = state.jobs.entry(assignment.job).or_default();
            job.settled = assignment.settled;
            let checkpoint = |order: Option<SaveOrder>| order.map(|o| o.checkpoint);
            if checkpoint(job.order) != checkpoint(assignment.save) {
                job.saved.clear();
                job.order = assignment.save;
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Adds what was saved to what is told of jobs.
    pub fn report(&self, jobs: &mut [JobReport]) {
        let state = self.lock();
        for report in jobs {
            if let Some(job) = state.jobs.get(&report.job) {
                report.saved = job.saved.values().cloned().collect();
            }
        }
    }

    /// What keeps shards from being saved, in words.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// Saves what is ordered, and cuts the log where checkpoints cover it. Never ends.
    pub async fn run(&self) {
        let mut cut: BTreeMap<JobId, Option<CheckpointId>> = BTreeMap::new();
        loop {
            let settled = self.settled();
            if settled != cut {
                self.cut().await;
                cut = settled;
            }
            let batch = self.batch();
            let Some(Next { order, .. }) = batch.first() else {
                self.changed.notified().await;
                continue;
            };
            let order = *order;
            let saved = join_all(batch.into_iter().map(|next| self.save(next))).await;
            match saved.into_iter().collect::<Result<Vec<_>, _>>() {
                Ok(worked) => {
                    self.lock().trouble = None;
                    if order.gentle {
                        let worked: Duration = worked.into_iter().sum();
                        self.clock.sleep((worked * REST).min(LONGEST_REST)).await;
                    }
                }
                // It is another server's now; the next look does not find it any more.
                Err(Error::Moved { .. }) => self.clock.sleep(LOOK).await,
                Err(error) => {
                    let checkpoint = order.checkpoint;
                    warn!(%checkpoint, %error, "a shard could not be saved, trying again");
                    let why = format!("checkpoint {checkpoint} cannot be saved: {error}");
                    self.lock().trouble = Some(why);
                    self.clock.sleep(RETRY).await;
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next shards here of an ordered checkpoint that are not saved: one while training goes on,
    /// else as many as make good use of the disk's syncs.
    fn batch(&self) -> Vec<Next> {
        let jobs = self.store.all();
        let state = self.lock();
        let of_job = |job: Arc<Job>| {
            let of = state.jobs.get(&job.id())?;
            let order = of.order?;
            let open = job.owned_shards().into_iter();
            let open = open.filter(|shard| !of.saved.contains_key(shard));
            let next = |shard| Next {
                job: Arc::clone(&job),
                shard,
                order,
            };
            let batch: Vec<_> = open
                .take(if order.gentle { 1 } else { AT_ONCE })
                .map(next)
                .collect();
            (!batch.is_empty()).then_some(batch)
        };
        jobs.into_iter().find_map(of_job).unwrap_or_default()
    }

    /// Saves a shard, and tells how long the work took.
    async fn save(&self, next: Next) -> Result<Duration, Error> {
        let Next { job, shard, order } = next;
        let id = job.id();
        let (objects, clock) = (Arc::clone(&self.objects), Arc::clone(&self.clock));
        let work = move || {
            let began = clock.now();
            let Copy { image, below } = job.copy(shard, order)?;
            let bytes = encode_shard(&image);
            let worked = clock.now().saturating_sub(began);
            let library = Library::new(objects, job.name())?;
            // S6: when this returns, the file is durable; only then is it told of.
            let (file, summary) = library.put_shard(order.checkpoint, &bytes)?;
            let written = Written {
                name: file.name.clone(),
                mark: summary.mark.lsn,
            };
            let mut chain = below;
            chain.push(ManifestFile {
                folder: checkpoint_folder(order.checkpoint),
                ..file
            });
            let saved = Saved {
                checkpoint: order.checkpoint,
                shard,
                lineage: summary.lineage,
                clock: summary.clock,
                complete: summary.windows.complete().clone(),
                open: u32::try_from(summary.windows.open().len()).unwrap_or(u32::MAX),
                chain,
            };
            job.copied(&saved, summary.mark)?;
            Ok::<_, Error>((saved, written, worked))
        };
        let done = offload(&*self.store.pool, work).await;
        let (saved, written, worked) = done.ok_or(Error::WorkDropped)??;
        let owned = self.store.job(id).map(|job| job.owned_shards().len());
        let mut state = self.lock();
        let Some(of) = state.jobs.get_mut(&id) else {
            return Ok(worked);
        };
        let marks = of.marks.entry(order.checkpoint).or_default();
        marks.insert(shard, written);
        if of.marks.len() > REMEMBERED {
            of.marks.pop_first();
        }
        if of.order.map(|o| o.checkpoint) == Some(order.checkpoint) {
            of.saved.insert(shard, saved);
            if owned.is_ok_and(|owned| of.saved.len() >= owned) {
                info!(job = %id, checkpoint = %order.checkpoint, shards = of.saved.len(),
                    "shards saved");
                // The checkpoint may be waited for.
                self.store.activity.ring();
            }
        }
        Ok(worked)
    }

    fn names(&self) -> BTreeMap<JobId, String> {
        let jobs = self.store.all().into_iter();
        jobs.map(|job| (job.id(), job.name().to_owned())).collect()
    }

    /// The settled checkpoints of all jobs: when they change, the log may be cut.
    fn settled(&self) -> BTreeMap<JobId, Option<CheckpointId>> {
        let state = self.lock();
        let jobs = state.jobs.iter();
        jobs.map(|(&id, job)| (id, job.settled)).collect()
    }

    /// S7: removes what the older of the last two checkpoints covers by marks of this life.
    async fn cut(&self) {
        let Some(disk) = self.store.backing.disk.clone() else {
            return;
        };
        let settled: BTreeMap<JobId, Option<Settled>> = {
            let state = self.lock();
            let jobs = state.jobs.iter();
            jobs.map(|(&id, job)| (id, job.written())).collect()
        };
        let names: BTreeMap<JobId, String> = self.names();
        let objects = Arc::clone(&self.objects);
        let work = move || {
            let mut covered: BTreeMap<JobId, BTreeMap<ShardId, Lsn>> = BTreeMap::new();
            for (job, settled) in settled {
                let marks = match (settled, names.get(&job)) {
                    (Some(settled), Some(name)) => settled.marks(&objects, name)?,
                    _ => BTreeMap::new(),
                };
                covered.insert(job, marks);
            }
            let is_here = |job: JobId| covered.contains_key(&job);
            for (&job, shards) in &covered {
                for &shard in shards.keys() {
                    disk.copies.remove(job, shard)?;
                }
            }
            disk.copies.keep_jobs(is_here)?;
            disk.log.cut(|job, shard| match covered.get(&job) {
                None => Coverage::Gone,
                Some(shards) => match shards.get(&shard) {
                    Some(&mark) => Coverage::UpTo(mark),
                    None => Coverage::Nothing,
                },
            })
        };
        let cut = offload(&*self.store.pool, work).await;
        if let Some(Err(error)) = cut {
            warn!(%error, "the log could not be cut; it is tried again after the next checkpoint");
        }
    }
}

impl JobState {
    fn written(&self) -> Option<Settled> {
        let checkpoint = self.settled?;
        let written = self.marks.get(&checkpoint)?.clone();
        Some(Settled {
            checkpoint,
            written,
        })
    }
}

/// The older of the last two checkpoints, and what this life has written for it.
struct Settled {
    checkpoint: CheckpointId,
    written: BTreeMap<ShardId, Written>,
}

impl Settled {
    /// S7 `mark_life`: the marks of the files of this life that are in the checkpoint. Of a shard
    /// that was saved twice it has the other one, maybe.
    fn marks(
        &self,
        objects: &Arc<dyn Objects>,
        job: &str,
    ) -> Result<BTreeMap<ShardId, Lsn>, Error> {
        let library = Library::new(Arc::clone(objects), job)?;
        let checkpoint = library.open(self.checkpoint)?;
        let manifest = checkpoint.manifest();
        let shards = manifest.schema.shards.all().zip(&manifest.chains);
        let mark = |(shard, chain): (ShardId, &Vec<ManifestFile>)| {
            let written = self.written.get(&shard)?;
            (chain.last()?.name == written.name).then_some((shard, written.mark))
        };
        Ok(shards.filter_map(mark).collect())
    }
}
