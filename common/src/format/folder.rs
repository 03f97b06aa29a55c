//! The folder of a job's checkpoints: what lies in it, and which is the newest.
//!
//! | name | what |
//! |---|---|
//! | `epoch-000003` | the checkpoint after three complete epochs |
//! | `.NAME.partial` | one under way, or one being removed; never read |
//! | `.NAME.replaced` | the one that `NAME` replaces: whole until `NAME` is there |

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::runtime::{Change, Disk, at, is_plain};

use super::{Checkpoint, FormatError};

const PARTIAL: &str = ".partial";
const REPLACED: &str = ".replaced";

/// What [`newest`] found.
pub struct Newest {
    /// The newest checkpoint that is whole.
    pub checkpoint: Option<Checkpoint>,
    /// Newer ones that are not, and why: to be told to the user.
    pub damaged: Vec<(PathBuf, Error)>,
}

/// Names the folder of a checkpoint by its complete epochs.
#[must_use]
pub fn folder_name(epochs: u32) -> String {
    format!("epoch-{epochs:06}")
}

/// Finds the checkpoint with the most epochs of which every file is whole. Changes nothing.
///
/// # Errors
/// [`Error::Io`] when the root cannot be listed; one that does not exist has no checkpoints.
pub fn newest(disk: &Arc<dyn Disk>, root: &Path) -> Result<Newest, Error> {
    let paths = match disk.list(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(at(root))?,
    };
    let mut candidates: Vec<_> = paths.iter().filter_map(|path| candidate(path)).collect();
    candidates.sort_unstable();
    let mut damaged = Vec::new();
    for (_, _, folder) in candidates {
        let opened = Checkpoint::open_folder(disk, folder);
        match opened.and_then(|checkpoint| checkpoint.verify().map(|()| checkpoint)) {
            Ok(checkpoint) => {
                return Ok(Newest {
                    checkpoint: Some(checkpoint),
                    damaged,
                });
            }
            Err(error) => damaged.push((folder.into(), error)),
        }
    }
    Ok(Newest {
        checkpoint: None,
        damaged,
    })
}

/// Removes a checkpoint: at once from sight, then from the disk.
///
/// # Errors
/// [`FormatError::Name`] for a name that is no plain folder, [`Error::Io`] from the disk.
pub fn remove(disk: &dyn Disk, root: &Path, name: &str) -> Result<(), Error> {
    if !is_plain(name) {
        return Err(FormatError::Name { name: name.into() }.into());
    }
    let Names { place, partial, .. } = Names::new(root, name);
    clear(disk, root)?;
    for change in [
        Change::Rename(&place, &partial),
        Change::SyncFolder(root),
        Change::RemoveFolder(&partial),
    ] {
        disk.change(change).map_err(at(&place))?;
    }
    Ok(())
}

/// Where a checkpoint lies in the course of its life.
pub(super) struct Names {
    /// Whole.
    pub place: PathBuf,
    /// Under way, or being removed.
    pub partial: PathBuf,
    /// Being replaced.
    pub replaced: PathBuf,
}

impl Names {
    pub(super) fn new(root: &Path, name: &str) -> Self {
        Self {
            place: root.join(name),
            partial: root.join(format!(".{name}{PARTIAL}")),
            replaced: root.join(format!(".{name}{REPLACED}")),
        }
    }
}

/// Removes what a writer left that did not finish, and puts back what it was about to replace.
pub(super) fn clear(disk: &dyn Disk, root: &Path) -> Result<(), Error> {
    let paths = disk.list(root).map_err(at(root))?;
    for path in &paths {
        let change = if hidden(path, PARTIAL).is_some() {
            Change::RemoveFolder(path)
        } else if let Some(name) = hidden(path, REPLACED) {
            let place = root.join(name);
            if paths.contains(&place) {
                Change::RemoveFolder(path)
            } else {
                disk.change(Change::Rename(path, &place))
                    .map_err(at(path))?;
                Change::SyncFolder(root)
            }
        } else {
            continue;
        };
        disk.change(change).map_err(at(path))?;
    }
    Ok(())
}

/// Sorts folders that may be checkpoints: most epochs first, and before one the one it replaces.
fn candidate(path: &Path) -> Option<(Reverse<u32>, bool, &Path)> {
    let replaced = hidden(path, REPLACED);
    let name = replaced.or_else(|| path.file_name()?.to_str())?;
    let epochs = name.strip_prefix("epoch-")?.parse().ok()?;
    (folder_name(epochs) == name).then_some((Reverse(epochs), replaced.is_some(), path))
}

/// The name that a hidden folder belongs to.
fn hidden<'a>(path: &'a Path, suffix: &str) -> Option<&'a str> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix('.')?.strip_suffix(suffix)
}

#[cfg(test)]
mod tests;
