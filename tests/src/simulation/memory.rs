//! A disk in memory that loses nothing in a crash: a worker keeps its model on it. Turmoil's cannot
//! rename folders that have files in them.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_common::runtime::{Change, Disk, File};

/// Files and folders by their paths. A clone is the same disk.
#[derive(Clone, Default)]
pub(super) struct MemoryDisk(Arc<Mutex<Tree>>);

type Tree = BTreeMap<PathBuf, Node>;

enum Node {
    Folder,
    File(Arc<Mutex<Vec<u8>>>),
}

struct MemoryFile {
    bytes: Arc<Mutex<Vec<u8>>>,
    at: usize,
}

impl MemoryDisk {
    /// Empties it.
    pub(super) fn wipe(&self) {
        self.tree().clear();
    }

    // std's: held for a moment, never across an await.
    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn missing(path: &Path) -> io::Error {
    io::Error::new(ErrorKind::NotFound, format!("no {}", path.display()))
}

impl Read for MemoryFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let read = (&bytes[self.at.min(bytes.len())..]).read(buffer)?;
        self.at += read;
        Ok(read)
    }
}

impl Write for MemoryFile {
    fn write(&mut self, new: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend_from_slice(new);
        Ok(new.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl File for MemoryFile {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        match self.tree().get(path) {
            Some(Node::File(bytes)) => Ok(Box::new(MemoryFile {
                bytes: Arc::clone(bytes),
                at: 0,
            })),
            Some(Node::Folder) => Err(ErrorKind::IsADirectory.into()),
            None => Err(missing(path)),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut tree = self.tree();
        let parent = path.parent().unwrap_or(path);
        if !matches!(tree.get(parent), Some(Node::Folder)) {
            return Err(missing(parent));
        }
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        tree.insert(path.into(), Node::File(Arc::clone(&bytes)));
        Ok(Box::new(MemoryFile { bytes, at: 0 }))
    }

    fn change(&self, change: Change<'_>) -> io::Result<()> {
        let mut tree = self.tree();
        match change {
            Change::CreateFolder(path) => {
                for folder in path.ancestors() {
                    tree.entry(folder.into()).or_insert(Node::Folder);
                }
            }
            Change::Rename(from, to) => {
                if !tree.contains_key(from) {
                    return Err(missing(from));
                }
                let moved: Vec<PathBuf> = tree
                    .keys()
                    .filter(|p| p.starts_with(from))
                    .cloned()
                    .collect();
                for path in moved {
                    let inside = path.strip_prefix(from).map_err(io::Error::other)?;
                    let place = to.components().chain(inside.components()).collect();
                    if let Some(node) = tree.remove(&path) {
                        tree.insert(place, node);
                    }
                }
            }
            Change::RemoveFile(path) | Change::RemoveFolder(path) => {
                if !tree.contains_key(path) {
                    return Err(missing(path));
                }
                tree.retain(|other, _| !other.starts_with(path));
            }
            Change::SyncFolder(path) => {
                if !tree.contains_key(path) {
                    return Err(missing(path));
                }
            }
        }
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let tree = self.tree();
        match tree.get(folder) {
            Some(Node::Folder) => {}
            Some(Node::File(_)) => return Err(ErrorKind::NotADirectory.into()),
            None => return Err(missing(folder)),
        }
        let inside = tree.keys().filter(|path| path.parent() == Some(folder));
        Ok(inside.cloned().collect())
    }
}
