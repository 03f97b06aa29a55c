//! The disk, as little of it as checkpoints and logs need.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// An open file.
pub trait File: Read + Write + Send {
    /// Returns when all that was written is on the disk.
    ///
    /// # Errors
    /// What the system says. Nothing written since the last good sync can be trusted then.
    fn sync(&mut self) -> io::Result<()>;
}

/// Where files lie. Paths are as for [`std::fs`].
pub trait Disk: Send + Sync {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Creates a file for writing; one that exists is emptied.
    ///
    /// # Errors
    /// What the system says.
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Changes the tree of names.
    ///
    /// # Errors
    /// What the system says.
    fn change(&self, change: Change<'_>) -> io::Result<()>;

    /// Lists a folder, sorted by name.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
}

/// A change to the tree of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Makes a folder and those above it; one that exists is left as it is.
    CreateFolder(&'a Path),
    /// Moves a file or folder to another name on the same disk, at once.
    Rename(&'a Path, &'a Path),
    /// Removes a file.
    RemoveFile(&'a Path),
    /// Removes a folder and all that is in it.
    RemoveFolder(&'a Path),
    /// Returns when the names in a folder are on the disk.
    SyncFolder(&'a Path),
}

/// The real disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdDisk;

impl File for std::fs::File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

impl Disk for StdDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(std::fs::File::open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(std::fs::File::create(path)?))
    }

    fn change(&self, change: Change<'_>) -> io::Result<()> {
        match change {
            Change::CreateFolder(path) => std::fs::create_dir_all(path),
            Change::Rename(from, to) => std::fs::rename(from, to),
            Change::RemoveFile(path) => std::fs::remove_file(path),
            Change::RemoveFolder(path) => std::fs::remove_dir_all(path),
            // A folder is opened for reading and synced like a file; that is how POSIX has it.
            Change::SyncFolder(path) => std::fs::File::open(path)?.sync_all(),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut paths = std::fs::read_dir(folder)?
            .map(|e| Ok(e?.path()))
            .collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }
}
