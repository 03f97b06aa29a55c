//! A disk in memory that fills up and fails when it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use windlass_common::runtime::{Change, Disk, File};

type Content = Arc<Mutex<Vec<u8>>>;

#[derive(Clone, Default)]
pub(crate) struct MemDisk(Arc<Mutex<State>>);

#[derive(Default)]
pub(crate) struct State {
    files: BTreeMap<PathBuf, Content>,
    folders: BTreeSet<PathBuf>,
    /// Bytes that still fit.
    pub(crate) room: Option<usize>,
    /// The next sync of a file fails.
    pub(crate) failing_sync: bool,
    /// Below this folder so many changes still succeed; after that none does.
    pub(crate) left: Option<(PathBuf, usize)>,
}

impl MemDisk {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// The files below a folder.
    pub(crate) fn files(&self, below: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        let files = state
            .files
            .iter()
            .filter(|(path, _)| path.starts_with(below));
        let file =
            |(path, content): (&PathBuf, &Content)| (path.clone(), content.lock().unwrap().clone());
        files.map(file).collect()
    }

    /// The same files, on a disk of which nothing fails.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::default();
        for (path, bytes) in self.files("") {
            copy.put(&path, bytes);
        }
        copy.state().folders.clone_from(&self.state().folders);
        copy
    }

    /// Puts a file there, behind everybody's back.
    pub(crate) fn put(&self, path: &Path, bytes: Vec<u8>) {
        let content = Arc::new(Mutex::new(bytes));
        self.state().files.insert(path.into(), content);
    }

    /// Removes all files below a folder: a disk that was lost.
    pub(crate) fn lose(&self, below: &str) {
        let mut state = self.state();
        state.files.retain(|path, _| !path.starts_with(below));
        state.folders.retain(|path| !path.starts_with(below));
    }
}

impl State {
    fn step(&mut self, path: &Path) -> io::Result<()> {
        match &mut self.left {
            Some((below, 0)) if path.starts_with(&*below) => Err(io::Error::other("it is gone")),
            Some((below, left)) if path.starts_with(&*below) => {
                *left -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

struct MemFile {
    disk: MemDisk,
    path: PathBuf,
    content: Content,
    at: usize,
}

impl Read for MemFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = (&self.content.lock().unwrap()[self.at..]).read(buffer)?;
        self.at += read;
        Ok(read)
    }
}

impl Write for MemFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.step(&self.path)?;
        let written = bytes.len().min(state.room.unwrap_or(usize::MAX));
        if written == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.room = state.room.map(|room| room - written);
        self.content.lock().unwrap().extend(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl File for MemFile {
    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.step(&self.path)?;
        if std::mem::take(&mut state.failing_sync) {
            return Err(io::Error::other("input/output error"));
        }
        Ok(())
    }
}

impl Disk for MemDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let content = self.state().files.get(path).cloned();
        Ok(Box::new(MemFile {
            disk: self.clone(),
            path: path.into(),
            content: content.ok_or(io::ErrorKind::NotFound)?,
            at: 0,
        }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        state.step(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        if !folder.as_os_str().is_empty() && !state.folders.contains(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let content = Content::default();
        state.files.insert(path.into(), Arc::clone(&content));
        Ok(Box::new(MemFile {
            disk: self.clone(),
            path: path.into(),
            content,
            at: 0,
        }))
    }

    fn change(&self, change: Change<'_>) -> io::Result<()> {
        let mut state = self.state();
        match change {
            Change::CreateFolder(folder) => {
                state.step(folder)?;
                state.folders.extend(folder.ancestors().map(PathBuf::from));
            }
            Change::Rename(from, to) => {
                state.step(to)?;
                let content = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
                state.files.insert(to.into(), content);
            }
            Change::RemoveFile(path) => {
                state.step(path)?;
                state.files.remove(path).ok_or(io::ErrorKind::NotFound)?;
            }
            Change::RemoveFolder(folder) => {
                state.step(folder)?;
                state.files.retain(|path, _| !path.starts_with(folder));
                state.folders.retain(|path| !path.starts_with(folder));
            }
            Change::SyncFolder(folder) => state.step(folder)?,
        }
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.state();
        if state.files.contains_key(folder) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if !state.folders.contains(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let all = state.files.keys().chain(&state.folders);
        let inside: BTreeSet<_> = all.filter(|path| path.parent() == Some(folder)).collect();
        Ok(inside.into_iter().cloned().collect())
    }
}
