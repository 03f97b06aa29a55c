//! All that a server holds in memory: the shards of its jobs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tracing::info;
use windlass_common::coordination::{Assignment, Health, JobReport};
use windlass_common::format::{Mark, ShardImage};
use windlass_common::id::{Incarnation, JobId, Lineage, ShardId};
use windlass_common::residency::Occupancy;
use windlass_common::runtime::Pool;
use windlass_common::saving::{SaveOrder, Saved};
use windlass_common::schema::JobSchema;

use crate::activity::{Activity, Counts};
use crate::backing::Backing;
use crate::error::Error;
use crate::log::Log;
use crate::savings::Copy;
use crate::shard::Shard;

/// The shards of many jobs, as the coordinator's newest map gives them to this server.
///
/// It answers requests as a [`Shards`](windlass_client::transport::Shards), see `local`.
pub struct Store {
    /// Held for a look-up or an exchange of pointers, never while rows are touched.
    jobs: RwLock<BTreeMap<JobId, Arc<Job>>>,
    pub(crate) pool: Arc<dyn Pool>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) backing: Backing,
}

/// One job's shards here, as of one map. A new map makes a new `Job` around the same shards.
///
/// A request that is under way while a shard is taken away still works on it. Its acknowledgement
/// is then about a copy that nobody reports any more, which is why acknowledgements prove nothing
/// (rule I2).
pub struct Job {
    id: JobId,
    name: String,
    schema: Arc<JobSchema>,
    backing: Backing,
    /// By shard, for all shards of the job.
    shards: Vec<Option<Owned>>,
}

/// A shard, and as which assignment it is served.
#[derive(Clone)]
struct Owned {
    incarnation: Incarnation,
    /// std's: held for one request's rows in this shard, never across an await.
    shard: Arc<Mutex<Shard>>,
}

impl Store {
    /// Starts without jobs, in memory only. Work of more than about 500 microseconds goes to the
    /// pool.
    #[must_use]
    pub fn new(pool: Arc<dyn Pool>) -> Self {
        Self::backed(pool, Backing::default())
    }

    /// Starts without jobs; what is assigned comes back from what stands behind.
    #[must_use]
    pub fn backed(pool: Arc<dyn Pool>, backing: Backing) -> Self {
        Self {
            jobs: RwLock::default(),
            pool,
            activity: Arc::default(),
            backing,
        }
    }

    /// Makes the shards here those of a map (rules S0 and S3), which is not older than any seen.
    ///
    /// A shard in memory is kept and adopts its new incarnation. If the map's lineage is newer, it is
    /// kept until a worker's restore begins that, or replaced at once by the checkpoint that the
    /// lineage begins with. A missing one is restored. What is not listed is dropped, jobs too.
    ///
    /// Blocks while shards are restored; requests to others go on meanwhile. One call at a time.
    ///
    /// # Errors
    /// A schema that cannot be or is not the one held, [`Error::NoSuchShard`], and those of
    /// [`Backing::restore`]; then nothing changes.
    pub fn assign(&self, jobs: &[Assignment]) -> Result<(), Error> {
        let held = self.jobs().clone();
        let new = jobs
            .iter()
            .map(|a| {
                let job = Job::assigned(a, held.get(&a.job), &self.backing)?;
                Ok((a.job, Arc::new(job)))
            })
            .collect::<Result<BTreeMap<_, _>, Error>>()?;
        let is_gone = |job: &&Arc<Job>| !new.contains_key(&job.id);
        for job in held.values().filter(is_gone) {
            info!(job = %job.id, name = job.name, "job dropped");
        }
        *self.jobs.write().unwrap_or_else(PoisonError::into_inner) = new;
        // The rows of dropped shards are freed here, and when no request waits for them any more.
        drop(held);
        Ok(())
    }

    /// The jobs that are here.
    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        self.jobs().values().cloned().collect()
    }

    /// Tells what is here: the owner's word (rule I2). A shard that [broke](Error::Broken) has
    /// none.
    #[must_use]
    pub fn report(&self) -> Vec<JobReport> {
        let jobs: Vec<_> = self.jobs().values().cloned().collect();
        jobs.iter().map(|job| job.report()).collect()
    }

    /// Finds a job.
    ///
    /// # Errors
    /// [`Error::UnknownJob`].
    pub fn job(&self, job: JobId) -> Result<Arc<Job>, Error> {
        let found = self.jobs().get(&job).cloned();
        found.ok_or(Error::UnknownJob { job })
    }

    /// Copies a shard at one moment. Costs a copy of its rows under its lock.
    ///
    /// # Errors
    /// [`Error::UnknownJob`], [`Error::Moved`], [`Error::Broken`].
    pub fn image(&self, job: JobId, shard: ShardId) -> Result<ShardImage, Error> {
        self.job(job)?.image(shard)
    }

    /// Puts an image in the place of a shard and begins a lineage with it (rule N4).
    ///
    /// # Errors
    /// [`Error::UnknownJob`], [`Error::Moved`], those of [`Shard::from_image`] and of
    /// [`Shard::restore`]; then the shard is as it was.
    pub fn replace(&self, job: JobId, lineage: Lineage, image: ShardImage) -> Result<(), Error> {
        self.job(job)?.replace(lineage, &image)?;
        self.activity.ring();
        Ok(())
    }

    /// Ends when a source became complete or a shard was restored since the last time; that is
    /// worth a report at once. For one waiter.
    pub async fn changed(&self) {
        self.activity.rung().await;
    }

    /// Tells how this server is, for the user's eyes.
    #[must_use]
    pub fn health(&self) -> Health {
        let counts = self.activity.counts();
        let log = self.backing.log().map(Log::state);
        Health {
            applied: counts.applied,
            duplicates: counts.duplicates,
            not_finite: counts.not_finite,
            log_bytes: log.as_ref().map(|log| log.bytes),
            trouble: log.and_then(|log| log.trouble),
        }
    }

    /// Tells what happened since the store began.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.activity.counts()
    }

    fn jobs(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<JobId, Arc<Job>>> {
        // Nothing that panics runs between changes of the map, so a poisoned one is whole.
        self.jobs.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owned {
    /// Whether a shard in memory is what an assignment asks for. One that broke is not, and one of
    /// an older lineage only while a worker is to bring the new one.
    fn stays(&self, assignment: &Assignment) -> bool {
        let Ok(shard) = self.shard.lock() else {
            return false;
        };
        shard.lineage >= assignment.lineage || assignment.origin.is_none()
    }
}

impl Job {
    fn assigned(
        assignment: &Assignment,
        held: Option<&Arc<Self>>,
        backing: &Backing,
    ) -> Result<Self, Error> {
        let schema = match held {
            Some(job) => {
                assignment.schema.must_equal(&job.schema)?;
                Arc::clone(&job.schema)
            }
            None => {
                assignment.schema.validate()?;
                Arc::new(assignment.schema.clone())
            }
        };
        let mut shards = vec![None; schema.shards.len()];
        let mut missing = Vec::new();
        for &(shard, incarnation) in &assignment.shards {
            let place = shards.get_mut(usize::from(shard.0));
            let place = place.ok_or(Error::NoSuchShard {
                shard,
                shards: schema.shards,
            })?;
            // S3: keep what is in memory and adopt its incarnation; else restore.
            let kept = held.and_then(|job| job.shards[usize::from(shard.0)].as_ref());
            let kept = kept.filter(|owned| owned.stays(assignment));
            match kept.map(|owned| Arc::clone(&owned.shard)) {
                Some(shard) => *place = Some(Owned { incarnation, shard }),
                None => missing.push((shard, incarnation)),
            }
        }
        let ids: Vec<ShardId> = missing.iter().map(|m| m.0).collect();
        if !ids.is_empty() {
            let restored = backing.restore(assignment, &schema, &ids)?;
            // In the order of their numbers, as the missing ones are.
            missing.sort_unstable_by_key(|m| m.0);
            for ((id, incarnation), shard) in missing.into_iter().zip(restored) {
                let shard = Arc::new(Mutex::new(shard));
                shards[usize::from(id.0)] = Some(Owned { incarnation, shard });
            }
        }
        let of_others = |shard: &ShardId| shards[usize::from(shard.0)].is_none();
        let held = held.map_or(Vec::new(), |job| job.owned_shards());
        let dropped: Vec<ShardId> = held.into_iter().filter(of_others).collect();
        backing.release(assignment.job, &dropped)?;
        if !ids.is_empty() || !dropped.is_empty() {
            let now = shards.iter().flatten().count();
            info!(job = %assignment.job, name = assignment.name, shards = now, restored = ids.len(),
                dropped = dropped.len(), "shards assigned");
        }
        Ok(Self {
            id: assignment.job,
            name: assignment.name.clone(),
            schema,
            backing: backing.clone(),
            shards,
        })
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The shards that are here.
    pub(crate) fn owned_shards(&self) -> Vec<ShardId> {
        let shards = self.schema.shards.all().zip(&self.shards);
        shards
            .filter_map(|(id, owned)| owned.as_ref().map(|_| id))
            .collect()
    }

    /// The log that its pushes go to.
    pub(crate) fn log(&self) -> Option<&Log> {
        self.backing.log()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its tables and its number of shards.
    #[must_use]
    pub fn schema(&self) -> &JobSchema {
        &self.schema
    }

    /// Checks that a shard is here (rule S0).
    ///
    /// # Errors
    /// [`Error::NoSuchShard`], [`Error::Moved`].
    pub(crate) fn must_own(&self, shard: ShardId) -> Result<(), Error> {
        self.owned(shard).map(|_| ())
    }

    /// Waits until the shard is nobody else's.
    ///
    /// # Errors
    /// [`Error::NoSuchShard`], [`Error::Moved`], [`Error::Broken`].
    pub(crate) fn lock(&self, shard: ShardId) -> Result<MutexGuard<'_, Shard>, Error> {
        let job = self.id;
        // I1: after a panic under the lock rows and windows may disagree; such a copy is no start.
        let held = self.owned(shard)?.shard.lock();
        held.map_err(|_| Error::Broken { job, shard })
    }

    /// See [`Store::image`].
    pub(crate) fn image(&self, shard: ShardId) -> Result<ShardImage, Error> {
        // A6: rows, windows and clock under one hold of the lock.
        Ok(self.lock(shard)?.image())
    }

    /// Copies a shard for a checkpoint; see [`Shard::copy`].
    pub(crate) fn copy(&self, shard: ShardId, order: SaveOrder) -> Result<Copy, Error> {
        Ok(self.lock(shard)?.copy(order, self.backing.boot))
    }

    /// Takes note that a copy is in the store; see [`Shard::copied`].
    pub(crate) fn copied(&self, saved: &Saved, mark: Mark) -> Result<(), Error> {
        let mut shard = self.lock(saved.shard)?;
        shard.copied(saved.checkpoint, mark, &saved.chain);
        Ok(())
    }

    /// See [`Store::replace`].
    pub(crate) fn replace(&self, lineage: Lineage, image: &ShardImage) -> Result<(), Error> {
        self.must_own(image.shard)?;
        // Both ends outside of the lock: building the new rows, and (bound to a name for that)
        // freeing the old ones.
        let new = Shard::from_image(image, lineage, &self.schema)?;
        // S5: before it is answered for.
        self.backing.install(self.id, &new)?;
        let old = self.lock(image.shard)?.restore(new)?;
        info!(job = %self.id, shard = %image.shard, from = %old.lineage, to = %lineage,
            "shard restored");
        Ok(())
    }

    fn report(&self) -> JobReport {
        let mut tables = vec![Occupancy::default(); self.schema.tables.len()];
        let mut report = |owned: &Owned| {
            let shard = owned.shard.lock().ok()?;
            for (sum, table) in tables.iter_mut().zip(&shard.tables) {
                sum.add(table.occupancy());
            }
            Some(shard.report(owned.incarnation))
        };
        let owned = self.shards.iter().flatten();
        let shards = owned.filter_map(&mut report).collect();
        JobReport {
            job: self.id,
            shards,
            saved: Vec::new(),
            tables,
        }
    }

    fn owned(&self, shard: ShardId) -> Result<&Owned, Error> {
        let (job, shards) = (self.id, self.schema.shards);
        match self.shards.get(usize::from(shard.0)) {
            Some(Some(owned)) => Ok(owned),
            Some(None) => Err(Error::Moved { job, shard }),
            None => Err(Error::NoSuchShard { shard, shards }),
        }
    }
}

#[cfg(test)]
mod tests;
