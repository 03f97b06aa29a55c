//! Changes to the disk that survive a crash once they have returned.

use std::io::{self, Write as _};
use std::path::Path;

use super::{Change, Disk};
use crate::error::Error;

/// Writes a file and returns when it is on the disk; its name is only after
/// [`Change::SyncFolder`].
pub(crate) fn write_synced(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = disk.create(path)?;
    file.write_all(bytes)?;
    file.sync()
}

/// Makes a folder and those above it, so that their names are on the disk too.
///
/// # Errors
/// [`Error::Io`] with the folder's name.
pub fn create_folders(disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
    let missing = |path: &&Path| {
        let not_found = |e: io::Error| e.kind() == io::ErrorKind::NotFound;
        !path.as_os_str().is_empty() && disk.list(path).is_err_and(not_found)
    };
    let new: Vec<&Path> = folder.ancestors().take_while(missing).collect();
    disk.change(Change::CreateFolder(folder))
        .map_err(at(folder))?;
    for folder in new {
        let parent = match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        disk.change(Change::SyncFolder(parent))
            .map_err(at(parent))?;
    }
    Ok(())
}

/// Makes what the system says an error that names the path.
pub fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    |source| Error::Io {
        path: path.into(),
        source,
    }
}
