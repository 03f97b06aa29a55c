//! Named blobs in a place that all servers reach: a folder, or an object store of a cloud.

use std::fmt::Display;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::durable::{at, create_folders, write_synced};
use super::{Change, Disk};
use crate::error::Error;
use crate::failpoint;
use crate::id::Boot;

/// Where blobs lie under names; it displays as its place, such as `/mnt/checkpoints`.
///
/// A name is one or more plain parts separated by `/`: not empty, no dot in front, neither `\` nor
/// NUL. All but the last part are folders, which are there while an object is in them; no object has
/// the name of a folder, so a name's shape is what tells its user which of the two it is.
///
/// Calls block, so they are made on the [`Pool`](super::Pool); several may be under way at once.
pub trait Objects: Display + Send + Sync {
    /// Writes an object in place of any of that name. When it returns the object is durable and
    /// whole; never, not even after a crash, is a part of it there.
    ///
    /// # Errors
    /// [`Error::ObjectName`]; what the store says, with the full name. What was there before is
    /// still there, or the new object is.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error>;

    /// Reads an object, or its first `limit` bytes if it has more; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::ObjectName`]; what the store says, with the full name. A store that cannot be
    /// reached is an error, never "none".
    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Error>;

    /// Lists the names of objects and folders directly in a folder, sorted; the root is `""`. A
    /// folder that is not there has none.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn list(&self, folder: &str) -> Result<Vec<String>, Error>;

    /// Removes an object, or a folder with all that is in it. One that is not there is removed
    /// already.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn remove(&self, name: &str) -> Result<(), Error>;
}

/// Objects in a folder of a disk, which may be one that several machines share.
///
/// An object is written as the hidden file `.NAME.LIFE-NUMBER.partial` beside its place and then
/// renamed; one that a crash left goes with its folder. Hidden files are not listed.
pub struct FolderObjects {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    life: Boot,
    puts: AtomicU64,
}

impl FolderObjects {
    /// Takes the root, which the first object makes. No two writers of a folder have the same
    /// `life`: they might write the same object at the same time.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, root: PathBuf, life: Boot) -> Self {
        Self {
            disk,
            root,
            life,
            puts: AtomicU64::new(0),
        }
    }

    fn path(&self, name: &str) -> Result<PathBuf, Error> {
        require_name(name)?;
        Ok(self.root.join(name))
    }

    /// Removes `path` and returns whether there was anything.
    fn remove_path(&self, path: &Path) -> io::Result<bool> {
        // What can be listed is a folder: the disk does not say otherwise which one is.
        let change = match self.disk.list(path) {
            Ok(_) => Change::RemoveFolder(path),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Change::RemoveFile(path),
            Err(error) => return is_there(Err(error)),
        };
        is_there(self.disk.change(change))
    }
}

impl Display for FolderObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.root.display().fmt(f)
    }
}

impl Objects for FolderObjects {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(name)?;
        let (folder, last) = match name.rsplit_once('/') {
            Some((folder, last)) => (self.root.join(folder), last),
            None => (self.root.clone(), name),
        };
        let number = self.puts.fetch_add(1, Ordering::Relaxed);
        let partial = folder.join(format!(".{last}.{:016x}-{number}.partial", self.life.0));
        let written = match write_synced(&*self.disk, &partial, bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_folders(&*self.disk, &folder)?;
                write_synced(&*self.disk, &partial, bytes)
            }
            written => written,
        };
        failpoint::reached("object-rename-before");
        let put = written
            .and_then(|()| self.disk.change(Change::Rename(&partial, &path)))
            .inspect(|()| failpoint::reached("object-rename-after"))
            .and_then(|()| self.disk.change(Change::SyncFolder(&folder)));
        if put.is_err() {
            // The error that is told is the first one.
            let _ = self.disk.change(Change::RemoveFile(&partial));
        }
        put.map_err(at(&path))
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(name)?;
        let file = match self.disk.open(&path) {
            Err(error) if is_none(&error) => return Ok(None),
            opened => opened.map_err(at(&path))?,
        };
        // Memory grows with the bytes that come, not with the limit.
        let mut bytes = Vec::new();
        file.take(limit)
            .read_to_end(&mut bytes)
            .map_err(at(&path))?;
        Ok(Some(bytes))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        let path = if folder.is_empty() {
            self.root.clone()
        } else {
            self.path(folder)?
        };
        let paths = match self.disk.list(&path) {
            Err(error) if is_none(&error) => Vec::new(),
            listed => listed.map_err(at(&path))?,
        };
        let mut names: Vec<String> = paths
            .iter()
            .filter_map(|path| path.file_name()?.to_str())
            .filter(|name| is_plain(name))
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name)?;
        if self.remove_path(&path).map_err(at(&path))? {
            let folder = path.parent().unwrap_or(&self.root);
            self.disk
                .change(Change::SyncFolder(folder))
                .map_err(at(folder))?;
        }
        Ok(())
    }
}

/// Whether a name stays in its folder and is not hidden there.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

/// Refuses names of objects that are not plain parts separated by `/`.
///
/// # Errors
/// [`Error::ObjectName`].
pub fn require_name(name: &str) -> Result<(), Error> {
    if name.split('/').all(is_plain) {
        Ok(())
    } else {
        Err(Error::ObjectName { name: name.into() })
    }
}

/// Whether an error of the disk says that there is nothing under a name.
fn is_none(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn is_there(removed: io::Result<()>) -> io::Result<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(error) if is_none(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
