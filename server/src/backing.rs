//! What stands behind the rows in memory: the log, the store of checkpoints, and copies of shards
//! on the own disk; and how a shard comes back from them (rules S4 and S5).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tracing::{info, warn};
use windlass_common::Error as CommonError;
use windlass_common::coordination::Assignment;
use windlass_common::format::{Checkpoint, FormatError, Library, ShardImage};
use windlass_common::id::{Boot, JobId, ShardId};
use windlass_common::runtime::{Disk, Objects};
use windlass_common::schema::JobSchema;

use crate::apply::replay;
use crate::copies::Copies;
use crate::error::Error;
use crate::log::Log;
use crate::shard::Shard;

/// What outlives a server's memory; each part may be missing.
#[derive(Clone, Default)]
pub struct Backing {
    /// The life of this server.
    pub boot: Boot,
    /// The store of checkpoints, which all servers reach.
    pub objects: Option<Arc<dyn Objects>>,
    /// The own disk, in `log` mode.
    pub disk: Option<OwnDisk>,
}

/// What is on the own disk.
#[derive(Clone)]
pub struct OwnDisk {
    /// Every push that was acknowledged.
    pub log: Arc<Log>,
    /// Shards that came from elsewhere, and since when the log is about which ones.
    pub copies: Arc<Copies>,
}

impl Backing {
    /// The log, if there is one.
    #[must_use]
    pub fn log(&self) -> Option<&Log> {
        self.disk.as_ref().map(|disk| &*disk.log)
    }

    /// Brings back shards that are assigned and not in memory. Blocks.
    ///
    /// S4: the copy of each that holds most, its log on top. Shards may fall back apart: a damaged
    /// file is named, and the shard begins with an older one, or with nothing; what it lacks is
    /// learnt again.
    ///
    /// # Errors
    /// A store or a disk that cannot be read: going on without it might mean to learn all again.
    /// [`Error::Replay`] for a log of another job.
    pub fn restore(
        &self,
        assignment: &Assignment,
        schema: &JobSchema,
        shards: &[ShardId],
    ) -> Result<Vec<Shard>, Error> {
        let stored = match &self.objects {
            Some(objects) => Stored::look(objects, assignment)?,
            None => Stored::default(),
        };
        let held = match &self.disk {
            Some(disk) => disk.copies.held(assignment.job)?,
            None => BTreeMap::new(),
        };
        let lineage = assignment.lineage;
        let mut restored = BTreeMap::new();
        for &id in shards {
            let own = match &self.disk {
                Some(disk) => disk.copies.read(assignment.job, id)?,
                None => None,
            };
            let own = own.filter(|image| image.lineage == lineage);
            let found = stored.newest(id)?.into_iter().chain(own);
            // By pushes: all of them are truthful, so this only saves work.
            let shard = match found.max_by_key(|image| image.clock) {
                Some(image) => Shard::from_image(&image, lineage, schema)?,
                None => Shard::new(id, lineage, schema),
            };
            restored.insert(id, shard);
        }
        if let Some(disk) = &self.disk {
            self.replay(disk, assignment.job, schema, &mut restored)?;
            let is_new = |id: &ShardId| held.get(id) != Some(&lineage);
            let new = restored.values().filter(|shard| is_new(&shard.id));
            disk.install(assignment.job, new)?;
        }
        let rows = restored.values().map(Shard::rows).sum::<u64>();
        info!(
            job = assignment.name,
            shards = shards.len(),
            rows,
            "shards restored"
        );
        Ok(restored.into_values().collect())
    }

    /// Takes note that shards are another server's from now on. Blocks.
    ///
    /// # Errors
    /// What the disk says.
    pub(crate) fn release(&self, job: JobId, shards: &[ShardId]) -> Result<(), Error> {
        match &self.disk {
            Some(disk) if !shards.is_empty() => Ok(disk.copies.release(job, shards)?),
            _ => Ok(()),
        }
    }

    fn replay(
        &self,
        disk: &OwnDisk,
        job: JobId,
        schema: &JobSchema,
        shards: &mut BTreeMap<ShardId, Shard>,
    ) -> Result<(), Error> {
        let wanted: Vec<ShardId> = shards.keys().copied().collect();
        let is_wanted =
            |of: JobId, shard: ShardId| of == job && wanted.binary_search(&shard).is_ok();
        disk.log.replay(is_wanted, |lsn, record| {
            if let Some(shard) = shards.get_mut(&record.shard) {
                replay(shard, &record, schema)?;
                shard.logged = lsn;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// S5: makes a shard that came from elsewhere durable here, before it is answered for. Blocks.
    ///
    /// # Errors
    /// What the disk says.
    pub(crate) fn install(&self, job: JobId, shard: &Shard) -> Result<(), Error> {
        match &self.disk {
            Some(disk) => disk.install(job, std::iter::once(shard)),
            None => Ok(()),
        }
    }
}

impl OwnDisk {
    /// Opens what is on the disk, and checks the log. Blocks.
    ///
    /// # Errors
    /// A disk that cannot be read or written.
    pub fn open(disk: Arc<dyn Disk>, data_dir: &Path, boot: Boot) -> Result<Self, Error> {
        let folder = data_dir.join("log");
        let settings = crate::log::Settings::default();
        let (log, found) = Log::open(Arc::clone(&disk), &folder, boot, settings)?;
        let copies = Copies::new(disk, data_dir, boot);
        if found.damage.is_some() {
            copies.forget_held()?;
        }
        Ok(Self {
            log,
            copies: Arc::new(copies),
        })
    }

    /// S5: from now on the log on this disk is about these shards without a gap, and what they
    /// begin with lies beside it. A shard without pushes begins with nothing.
    fn install<'a>(
        &self,
        job: JobId,
        shards: impl Iterator<Item = &'a Shard>,
    ) -> Result<(), Error> {
        let mut installed = Vec::new();
        for shard in shards {
            if shard.is_untouched() {
                self.copies.remove(job, shard.id)?;
            } else {
                self.copies.write(job, &shard.image())?;
            }
            installed.push((shard.id, shard.lineage));
        }
        Ok(self.copies.hold(job, &installed)?)
    }
}

/// The checkpoints that shards of an assignment may come from, newest first.
#[derive(Default)]
struct Stored(Vec<Checkpoint>);

impl Stored {
    /// Looks for checkpoints of the lineage, and for the one that it began with; older ones of the
    /// life that this one is of stand in for it.
    fn look(objects: &Arc<dyn Objects>, assignment: &Assignment) -> Result<Self, Error> {
        let library = Library::new(Arc::clone(objects), &assignment.name)?;
        let mut all = Vec::new();
        for entry in library.list()? {
            match entry.checkpoint {
                Ok(checkpoint) => all.push(checkpoint),
                Err(CommonError::Format(FormatError::Unpublished { .. })) => {}
                Err(CommonError::Format(error)) => {
                    let (job, number) = (&assignment.name, entry.number);
                    warn!(job, checkpoint = %number, %error, "checkpoint is left out");
                }
                Err(error) => return Err(error.into()),
            }
        }
        let origin = assignment.origin.and_then(|number| {
            let of = all
                .iter()
                .find(|c| c.manifest().number == number)?
                .manifest();
            Some((number, of.job_id, of.lineage))
        });
        let fits = |checkpoint: &Checkpoint| {
            let m = checkpoint.manifest();
            let own = m.job_id == assignment.job && m.lineage == assignment.lineage;
            let begun = origin.is_some_and(|(number, job, lineage)| {
                m.number <= number && m.job_id == job && m.lineage == lineage
            });
            own || begun
        };
        all.retain(fits);
        Ok(Self(all))
    }

    /// Reads the newest whole file of a shard.
    fn newest(&self, shard: ShardId) -> Result<Option<ShardImage>, Error> {
        for checkpoint in &self.0 {
            match checkpoint.image(shard) {
                Ok(image) => return Ok(Some(image)),
                Err(CommonError::Format(error)) => {
                    let number = checkpoint.manifest().number;
                    warn!(checkpoint = %number, %shard, %error, "shard falls back to an older copy");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}
