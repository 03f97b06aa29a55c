//! Writing a checkpoint: hidden until it is whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::id::ShardId;
use crate::runtime::{Change, Disk, at, create_folders, is_plain, write_synced};

use super::folder::{Names, clear};
use super::{Checkpoint, FormatError, Manifest, ManifestFile, ShardSummary, inspect_shard};

/// The manifest's name in a checkpoint's folder.
pub(super) const MANIFEST: &str = "manifest.bin";

/// A checkpoint under way, in the hidden folder `.NAME.partial` beside its place.
///
/// A root has one writer at a time. Dropping the writer leaves the hidden folder, which the next
/// [`begin`](Self::begin) removes; nothing else ever reads it.
pub struct CheckpointWriter {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    names: Names,
}

impl CheckpointWriter {
    /// Makes the root if there is none, removes what earlier writers left, and begins.
    ///
    /// # Errors
    /// [`FormatError::Name`] for a name that is no plain folder, [`Error::Io`] from the disk.
    pub fn begin(disk: Arc<dyn Disk>, root: &Path, name: &str) -> Result<Self, Error> {
        if !is_plain(name) {
            return Err(FormatError::Name { name: name.into() }.into());
        }
        create_folders(&*disk, root)?;
        clear(&*disk, root)?;
        let names = Names::new(root, name);
        let partial = &names.partial;
        disk.change(Change::CreateFolder(partial))
            .map_err(at(partial))?;
        Ok(Self {
            disk,
            root: root.into(),
            names,
        })
    }

    /// Checks a shard file's bytes, writes them, and returns when they are on the disk; with what
    /// the file says about itself, for the caller to compare with what it wanted.
    ///
    /// Several threads may call it at once, and about 8 should: each call waits for the disk, and
    /// syncs that wait together are done together (256 files of 64 KiB with fdatasync on ext4, two
    /// cores: 1.0 s from one thread, 0.12 to 0.16 s from 8, no less from 32). There are no threads
    /// here, so that a simulated disk sees the caller's own.
    ///
    /// # Errors
    /// [`FormatError`] for bytes that are damaged, another shard's or a delta's, [`Error::Io`] from the disk.
    pub fn put_shard(
        &self,
        shard: ShardId,
        bytes: &[u8],
    ) -> Result<(ManifestFile, ShardSummary), Error> {
        let name = format!("{:04}.shard", shard.0);
        let path = self.names.partial.join(&name);
        let summary = inspect_shard(bytes, &path)?;
        if summary.shard != shard {
            return Err(FormatError::WrongShard {
                path,
                found: summary.shard,
                expected: shard,
            }
            .into());
        }
        if let Some(base) = summary.base {
            let rule = format!("is a delta on checkpoint {}, not a shard", base.checkpoint);
            return Err(FormatError::Misfit { path, rule }.into());
        }
        write_synced(&*self.disk, &path, bytes).map_err(at(&path))?;
        let file = ManifestFile {
            folder: String::new(),
            name,
            bytes: bytes.len() as u64,
            sha256: Sha256::digest(bytes).into(),
            rows: summary.rows,
        };
        Ok((file, summary))
    }

    /// Writes the manifest last, and puts the whole checkpoint in its place at once; one that is
    /// there under the same name gives way only then, and is removed.
    ///
    /// # Errors
    /// [`FormatError`] for a manifest that could not be opened, [`Error::Io`] from the disk. What
    /// was at the place before can still be opened then.
    pub fn finish(self, manifest: &Manifest) -> Result<Checkpoint, Error> {
        let Self { disk, root, names } = self;
        let change = |change, path: &Path| disk.change(change).map_err(at(path));
        let path = names.partial.join(MANIFEST);
        let bytes = manifest.encode(&path)?;
        write_synced(&*disk, &path, &bytes).map_err(at(&path))?;
        change(Change::SyncFolder(&names.partial), &names.partial)?;

        let target = &names.place;
        let replaces = disk.list(&root).map_err(at(&root))?.contains(target);
        if replaces {
            // A folder cannot be renamed over a full one. Between these two renames the old one
            // is found under its hidden name.
            change(Change::Rename(target, &names.replaced), target)?;
        }
        change(Change::Rename(&names.partial, target), target)?;
        change(Change::SyncFolder(&root), &root)?;
        if replaces {
            change(Change::RemoveFolder(&names.replaced), &names.replaced)?;
        }
        Ok(Checkpoint::written(&disk, target, manifest.clone()))
    }
}
