//! Copies of shards on the own disk (rule S5), and since when the log is about which shards.
//!
//! | name in `DATA_DIR/shards` | what |
//! |---|---|
//! | `JOB/0007.shard` | what shard 7 of the job began with here, if that came from elsewhere |
//! | `JOB/held` | the shards that the log is about without a gap, and their lineages |

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_common::Error as CommonError;
use windlass_common::format::{
    FormatError, HeldShards, MAX_HELD_BYTES, ShardImage, decode_shard, encode_shard,
};
use windlass_common::id::{Boot, JobId, Lineage, ShardId};
use windlass_common::runtime::{Disk, FolderObjects, Objects};

/// The longest copy: that of a snapshot on the wire.
const MAX_COPY_BYTES: u64 = 4 << 30;

/// The folder of copies. Its calls block.
pub struct Copies {
    objects: FolderObjects,
    root: PathBuf,
}

impl Copies {
    /// Takes the folder, which the first copy makes.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, data_dir: &Path, boot: Boot) -> Self {
        let root = data_dir.join("shards");
        Self {
            objects: FolderObjects::new(disk, root.clone(), boot),
            root,
        }
    }

    /// Tells which shards the log is about without a gap, and in which lineage. A damaged file tells
    /// of none: they are installed anew, which is dear and right.
    ///
    /// # Errors
    /// What the disk says.
    pub(crate) fn held(&self, job: JobId) -> Result<BTreeMap<ShardId, Lineage>, CommonError> {
        let name = held_name(job);
        let Some(bytes) = self.objects.read(&name, MAX_HELD_BYTES)? else {
            return Ok(BTreeMap::new());
        };
        match HeldShards::decode(&bytes, &self.root.join(&name)) {
            Ok(held) => Ok(held.0),
            Err(error) => {
                tracing::warn!(%error, "shards of this job are installed anew");
                Ok(BTreeMap::new())
            }
        }
    }

    /// Adds shards to those that the log is about.
    pub(crate) fn hold(
        &self,
        job: JobId,
        shards: &[(ShardId, Lineage)],
    ) -> Result<(), CommonError> {
        if shards.is_empty() {
            return Ok(());
        }
        let mut held = self.held(job)?;
        held.extend(shards.iter().copied());
        let bytes = HeldShards(held).encode()?;
        self.objects.put(&held_name(job), &bytes)
    }

    /// Forgets shards that are another server's now: the log does not go on about them.
    pub(crate) fn release(&self, job: JobId, shards: &[ShardId]) -> Result<(), CommonError> {
        let mut held = self.held(job)?;
        let before = held.len();
        held.retain(|shard, _| !shards.contains(shard));
        if held.len() == before {
            return Ok(());
        }
        self.objects
            .put(&held_name(job), &HeldShards(held).encode()?)
    }

    /// Forgets that the log is about any shard: it has lost records.
    ///
    /// # Errors
    /// What the disk says.
    pub fn forget_held(&self) -> Result<(), CommonError> {
        for job in self.objects.list("")? {
            self.objects.remove(&format!("{job}/held"))?;
        }
        Ok(())
    }

    /// Writes what a shard begins with here.
    pub(crate) fn write(&self, job: JobId, image: &ShardImage) -> Result<(), CommonError> {
        let bytes = encode_shard(image);
        self.objects.put(&name(job, image.shard), &bytes)
    }

    /// Reads what a shard began with here; a damaged copy is named and left out.
    pub(crate) fn read(
        &self,
        job: JobId,
        shard: ShardId,
    ) -> Result<Option<ShardImage>, CommonError> {
        let name = name(job, shard);
        let Some(bytes) = self.objects.read(&name, MAX_COPY_BYTES)? else {
            return Ok(None);
        };
        let path = self.root.join(&name);
        let read = decode_shard(&bytes, &path).and_then(|image| {
            if image.shard == shard {
                return Ok(image);
            }
            Err(FormatError::WrongShard {
                path: path.clone(),
                found: image.shard,
                expected: shard,
            })
        });
        match read {
            Ok(image) => Ok(Some(image)),
            Err(error) => {
                tracing::warn!(%shard, %error, "copy of a shard is left out");
                Ok(None)
            }
        }
    }

    /// Removes a copy that is not needed any more.
    pub(crate) fn remove(&self, job: JobId, shard: ShardId) -> Result<(), CommonError> {
        self.objects.remove(&name(job, shard))
    }

    /// Removes everything of jobs that are gone.
    pub(crate) fn keep_jobs(&self, is_here: impl Fn(JobId) -> bool) -> Result<(), CommonError> {
        for folder in self.objects.list("")? {
            let job = u64::from_str_radix(&folder, 16).map(JobId);
            if job.is_ok_and(|job| !is_here(job)) {
                self.objects.remove(&folder)?;
            }
        }
        Ok(())
    }
}

fn name(job: JobId, shard: ShardId) -> String {
    format!("{:016x}/{:04}.shard", job.0, shard.0)
}

fn held_name(job: JobId) -> String {
    format!("{:016x}/held", job.0)
}
