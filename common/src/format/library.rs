//! The checkpoints of a job in the store that all servers of its cluster reach.
//!
//! | name | what |
//! |---|---|
//! | `JOB/checkpoint-000012` | the job's twelfth checkpoint |
//! | `JOB/checkpoint-000012/0007-5d41402abc4b2a76.shard` | a copy of shard 7, named by its content |
//! | `JOB/checkpoint-000012/manifest.bin` | put last; without it nobody reads the folder |
//!
//! Each server puts its own shards' files, whenever it likes; whoever orders the checkpoint then
//! publishes it. Nothing is ever changed in place but a manifest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::failpoint;
use crate::id::CheckpointId;
use crate::runtime::{Objects, is_plain};

use super::writer::MANIFEST;
use super::{Checkpoint, FormatError, Manifest, ManifestFile, Newest, ShardSummary, inspect_shard};

const PREFIX: &str = "checkpoint-";

/// A job's checkpoints. Its calls block: they are made on the pool.
#[derive(Clone)]
pub struct Library {
    pub(super) objects: Arc<dyn Objects>,
    job: String,
}

/// A folder of a library.
pub struct Entry {
    /// The checkpoint's number.
    pub number: CheckpointId,
    /// The checkpoint, of which the manifest alone was read; else why there is none:
    /// [`FormatError::Unpublished`] while it is under way, or when it was given up.
    pub checkpoint: Result<Checkpoint, Error>,
}

/// Names the folder of a checkpoint by its number.
#[must_use]
pub fn checkpoint_folder(number: CheckpointId) -> String {
    format!("{PREFIX}{:06}", number.0)
}

/// Tells which checkpoint's folder has this name.
#[must_use]
pub fn number_of(folder: &str) -> Option<CheckpointId> {
    let number = CheckpointId(folder.strip_prefix(PREFIX)?.parse().ok()?);
    (checkpoint_folder(number) == folder).then_some(number)
}

impl Library {
    /// Takes a store and a job's name, which is that of the job's folder.
    ///
    /// # Errors
    /// [`FormatError::Name`] for a job whose name is no plain folder.
    pub fn new(objects: Arc<dyn Objects>, job: &str) -> Result<Self, Error> {
        if !is_plain(job) {
            return Err(FormatError::Name { name: job.into() }.into());
        }
        Ok(Self {
            objects,
            job: job.into(),
        })
    }

    /// The job's name.
    #[must_use]
    pub fn job(&self) -> &str {
        &self.job
    }

    /// Lists the jobs that have folders of checkpoints in a store, sorted.
    ///
    /// # Errors
    /// What the store says.
    pub fn jobs(objects: &dyn Objects) -> Result<Vec<String>, Error> {
        let mut jobs = Vec::new();
        for name in objects.list("")? {
            let names = objects.list(&name)?;
            if names.iter().any(|name| number_of(name).is_some()) {
                jobs.push(name);
            }
        }
        Ok(jobs)
    }

    /// Lists what there is, newest first, and reads the manifests.
    ///
    /// # Errors
    /// What the store says when it cannot be listed; a job without checkpoints has none.
    pub fn list(&self) -> Result<Vec<Entry>, Error> {
        let numbers = self.numbers()?.into_iter();
        let entry = |number| Entry {
            number,
            checkpoint: self.open(number),
        };
        Ok(numbers.map(entry).collect())
    }

    /// Finds the highest number that a folder has; 0 without any.
    ///
    /// # Errors
    /// What the store says.
    pub fn highest(&self) -> Result<CheckpointId, Error> {
        Ok(self.numbers()?.first().copied().unwrap_or_default())
    }

    /// Opens a checkpoint by its number.
    ///
    /// # Errors
    /// As [`Checkpoint::open`]; [`FormatError::Misfit`] for a manifest of another job or number.
    pub fn open(&self, number: CheckpointId) -> Result<Checkpoint, Error> {
        let opened = Checkpoint::open(Arc::clone(&self.objects), &self.folder(number))?;
        let manifest = opened.manifest();
        if manifest.number != number || manifest.job != self.job {
            let rule = format!(
                "is of checkpoint {} of job `{}`",
                manifest.number, manifest.job
            );
            let path = opened.folder().join(MANIFEST);
            return Err(FormatError::Misfit { path, rule }.into());
        }
        Ok(opened)
    }

    /// Finds the newest checkpoint of which every byte is good; reads all of it.
    ///
    /// # Errors
    /// What the store says: one that cannot be reached is not one without checkpoints, and an older
    /// checkpoint is not taken because a newer one could not be read this time.
    pub fn newest(&self) -> Result<Newest, Error> {
        let mut damaged = Vec::new();
        for number in self.numbers()? {
            let opened = self.open(number);
            match opened.and_then(|found| found.verify().map(|()| found)) {
                Ok(found) => {
                    return Ok(Newest {
                        checkpoint: Some(found),
                        damaged,
                    });
                }
                Err(error) if error.is_unpublished() => {}
                Err(Error::Format(error)) => {
                    damaged.push((self.place(&self.folder(number)), error.into()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Newest {
            checkpoint: None,
            damaged,
        })
    }

    /// Checks a shard file's bytes and puts them into a checkpoint's folder, published or not; with
    /// what the file says about itself.
    ///
    /// The file is named by its content, so another copy is another file, and the same one put again
    /// is the same file. Several threads may call it at once, and about 8 should (see
    /// [`CheckpointWriter::put_shard`](super::CheckpointWriter::put_shard)).
    ///
    /// # Errors
    /// [`FormatError`] for bytes that are damaged, what the store says.
    pub fn put_shard(
        &self,
        checkpoint: CheckpointId,
        bytes: &[u8],
    ) -> Result<(ManifestFile, ShardSummary), Error> {
        let folder = self.folder(checkpoint);
        let summary = inspect_shard(bytes, &self.place(&folder))?;
        let sha256: [u8; 32] = Sha256::digest(bytes).into();
        let (nonce, _) = sha256.split_first_chunk().unwrap_or((&[0; 8], &[]));
        let nonce = u64::from_be_bytes(*nonce);
        let name = format!("{:04}-{nonce:016x}.shard", summary.shard.0);
        failpoint::reached("shard-file-before");
        self.objects.put(&format!("{folder}/{name}"), bytes)?;
        failpoint::reached("shard-file-after");
        let file = ManifestFile {
            folder: String::new(),
            name,
            bytes: bytes.len() as u64,
            sha256,
            rows: summary.rows,
        };
        Ok((file, summary))
    }

    /// Publishes a checkpoint: all its files are there, and then its manifest is.
    ///
    /// An object is whole or not there, so that its name is there says that all of it is; the bytes
    /// are not read again. Publishing the same again is harmless.
    ///
    /// # Errors
    /// [`FormatError::NotInStore`] for the first file that is not there, [`FormatError::Misfit`] for
    /// a manifest of another job or without a number, [`FormatError`] for one that could not be
    /// opened, what the store says. The checkpoint is not published then.
    pub fn publish(&self, manifest: &Manifest) -> Result<Checkpoint, Error> {
        let folder = self.folder(manifest.number);
        let path = self.place(&folder).join(MANIFEST);
        if manifest.job != self.job || manifest.number == CheckpointId(0) {
            let (number, job) = (manifest.number, &manifest.job);
            let rule = format!("is of checkpoint {number} of job `{job}`");
            return Err(FormatError::Misfit { path, rule }.into());
        }
        let bytes = manifest.encode(&path)?;
        self.must_have_files(manifest)?;
        failpoint::reached("manifest-before");
        self.objects.put(&format!("{folder}/{MANIFEST}"), &bytes)?;
        failpoint::reached("manifest-after");
        self.open(manifest.number)
    }

    /// Pins a published checkpoint, or lets it go again: a pinned one is never removed.
    ///
    /// # Errors
    /// As [`open`](Self::open); what the store says.
    pub fn pin(&self, number: CheckpointId, pinned: bool) -> Result<(), Error> {
        let mut checkpoint = self.open(number)?;
        let manifest = Manifest {
            pinned,
            ..checkpoint.manifest().clone()
        };
        checkpoint.replace(manifest)
    }

    /// Checks that the files that a manifest lists are there, by their names.
    ///
    /// # Errors
    /// [`FormatError::NotInStore`] for the first that is not, what the store says.
    pub fn must_have_files(&self, manifest: &Manifest) -> Result<(), Error> {
        let own = checkpoint_folder(manifest.number);
        let mut folders: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (shard, file) in manifest.files() {
            let folder = if file.folder.is_empty() {
                own.as_str()
            } else {
                file.folder.as_str()
            };
            if !folders.contains_key(folder) {
                let names = self.objects.list(&format!("{}/{folder}", self.job))?;
                folders.insert(folder, names.into_iter().collect());
            }
            if !folders[folder].contains(&file.name) {
                let path = self.place(&self.job).join(folder).join(&file.name);
                return Err(FormatError::NotInStore { path, shard }.into());
            }
        }
        Ok(())
    }

    /// All folders' numbers, newest first.
    fn numbers(&self) -> Result<Vec<CheckpointId>, Error> {
        let names = self.objects.list(&self.job)?;
        let mut numbers: Vec<_> = names.iter().filter_map(|name| number_of(name)).collect();
        numbers.sort_unstable_by_key(|&number| Reverse(number));
        Ok(numbers)
    }

    pub(super) fn folder(&self, number: CheckpointId) -> String {
        format!("{}/{}", self.job, checkpoint_folder(number))
    }

    /// Where an object lies, for people.
    fn place(&self, object: &str) -> PathBuf {
        Path::new(&self.objects.to_string()).join(object)
    }
}

#[cfg(test)]
mod tests;
