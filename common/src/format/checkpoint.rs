//! Reading a checkpoint.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::coordination::History;
use crate::error::Error;
use crate::id::ShardId;
use crate::runtime::{Change, Disk};

use super::folder::at;
use super::manifest::MAX_FILE_BYTES;
use super::writer::{MANIFEST, write_synced};
use super::{FormatError, Manifest};

/// A folder that has a good manifest; its files are checked as they are read.
#[derive(Clone)]
pub struct Checkpoint {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    manifest: Manifest,
}

impl Checkpoint {
    /// Reads a folder's manifest.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Format`], with the file's name.
    pub fn open(disk: Arc<dyn Disk>, folder: &Path) -> Result<Self, Error> {
        let path = folder.join(MANIFEST);
        let bytes = read(&*disk, &path, MAX_FILE_BYTES)?;
        let manifest = Manifest::decode(&bytes, &path)?;
        Ok(Self::new(disk, folder.into(), manifest))
    }

    pub(super) fn new(disk: Arc<dyn Disk>, folder: PathBuf, manifest: Manifest) -> Self {
        Self {
            disk,
            folder,
            manifest,
        }
    }

    /// What it says about itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Where it lies.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads a shard's file, for [`decode_shard`](super::decode_shard): its length and SHA-256 are
    /// those of the manifest.
    ///
    /// # Errors
    /// [`FormatError::NoShard`], [`FormatError::Damaged`] or [`Error::Io`], with the file's name.
    pub fn shard(&self, shard: ShardId) -> Result<Vec<u8>, Error> {
        let Some(listed) = self.manifest.files.get(usize::from(shard.0)) else {
            return Err(FormatError::NoShard {
                path: self.folder.join(MANIFEST),
                shard,
                shards: self.manifest.files.len(),
            }
            .into());
        };
        let path = self.folder.join(&listed.name);
        let bytes = read(&*self.disk, &path, listed.bytes)?;
        let damaged = |offset, what| FormatError::Damaged { path, offset, what };
        let found = bytes.len() as u64;
        if found < listed.bytes {
            return Err(damaged(found, "the file ends before the manifest's length").into());
        }
        if found > listed.bytes {
            return Err(damaged(listed.bytes, "bytes follow after the manifest's length").into());
        }
        if Sha256::digest(&bytes)[..] != listed.sha256 {
            return Err(damaged(0, "its SHA-256 is not the manifest's").into());
        }
        Ok(bytes)
    }

    /// Checks every file, one after the other.
    ///
    /// # Errors
    /// What is wrong with the first that is not whole.
    pub fn verify(&self) -> Result<(), Error> {
        let shards = self.manifest.schema.shards.all();
        shards
            .into_iter()
            .try_for_each(|shard| self.shard(shard).map(drop))
    }

    /// Replaces the history in the manifest, at once; the rest is kept.
    ///
    /// # Errors
    /// [`Error::Io`] from the disk; the old manifest is in place then.
    pub fn reseal(&mut self, history: History) -> Result<(), Error> {
        let manifest = Manifest {
            history,
            ..self.manifest.clone()
        };
        let (path, new) = (
            self.folder.join(MANIFEST),
            self.folder.join(".manifest.new"),
        );
        write_synced(&*self.disk, &new, &manifest.encode(&path)?)?;
        for change in [
            Change::Rename(&new, &path),
            Change::SyncFolder(&self.folder),
        ] {
            self.disk.change(change).map_err(at(&path))?;
        }
        self.manifest = manifest;
        Ok(())
    }
}

/// Reads at most `limit` bytes and one more, by which a longer file is known. Memory grows with
/// the bytes that come, not with the limit.
fn read(disk: &dyn Disk, path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let file = disk.open(path).map_err(at(path))?;
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(at(path))?;
    Ok(bytes)
}
