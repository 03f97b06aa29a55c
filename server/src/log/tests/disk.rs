//! A disk in memory that loses what was not synced, fills up, and fails when it is told to.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use windlass_common::key::mix64;
use windlass_common::runtime::{Change, Disk, File};

/// Random numbers of a seed (SplitMix64).
pub(super) struct Rng(pub u64);

impl Rng {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix64(self.0) % limit.max(1) as u64) as usize
    }
}

#[derive(Clone, Default)]
pub(super) struct MemDisk(Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    nodes: Vec<Node>,
    names: BTreeMap<PathBuf, usize>,
    /// The names as a crash leaves them.
    kept: BTreeMap<PathBuf, usize>,
    /// How many syncs of files and folders there were.
    pub syncs: usize,
    /// Bytes that fit on it, if that is bounded.
    pub capacity: Option<usize>,
    /// Changes that still succeed; after that none does.
    pub steps: Option<usize>,
    /// The next sync of a file fails, and throws away what it should have kept.
    pub failing_sync: bool,
}

#[derive(Clone, Default)]
struct Node {
    now: Vec<u8>,
    kept: Vec<u8>,
}

impl MemDisk {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// Puts a file there, synced.
    pub(super) fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let mut state = self.state();
        let node = Node {
            now: bytes.into(),
            kept: bytes.into(),
        };
        state.nodes.push(node);
        let number = state.nodes.len() - 1;
        state.names.insert(path.as_ref().into(), number);
        state.kept.insert(path.as_ref().into(), number);
    }

    pub(super) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        let file =
            |(path, &node): (&PathBuf, &usize)| (path.clone(), state.nodes[node].now.clone());
        state.names.iter().map(file).collect()
    }

    /// The same files, all synced.
    pub(super) fn copy(&self) -> Self {
        let copy = Self::default();
        for (path, bytes) in self.files() {
            copy.put(path, &bytes);
        }
        copy
    }

    /// What is there after the power went: of what was not synced any part may be.
    pub(super) fn crash(&self, rng: &mut Rng) -> Self {
        let state = self.state();
        let after = Self::default();
        let mut paths: Vec<_> = state.names.keys().chain(state.kept.keys()).collect();
        paths.sort();
        paths.dedup();
        for path in paths {
            let either = [state.kept.get(path), state.names.get(path)];
            if let Some(&node) = either[rng.below(2)] {
                after.put(path, &state.nodes[node].after_crash(rng));
            }
        }
        after
    }
}

impl Node {
    fn after_crash(&self, rng: &mut Rng) -> Vec<u8> {
        let Some(unsynced) = self.now.strip_prefix(&self.kept[..]) else {
            // It was emptied and written anew.
            return match rng.below(2) {
                0 => self.kept.clone(),
                _ => self.now[..rng.below(self.now.len() + 1)].to_vec(),
            };
        };
        let mut bytes = self.now[..self.kept.len() + rng.below(unsynced.len() + 1)].to_vec();
        // The length may be on the disk before a block in the middle is.
        if rng.below(2) == 0 && bytes.len() > self.kept.len() {
            let from = self.kept.len() + rng.below(bytes.len() - self.kept.len());
            let to = from + rng.below(bytes.len() - from + 1);
            bytes[from..to].fill(0);
        }
        bytes
    }
}

impl State {
    fn step(&mut self) -> io::Result<()> {
        match &mut self.steps {
            Some(0) => Err(io::Error::other("the power is off")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn room(&self) -> usize {
        let used: usize = self.names.values().map(|&n| self.nodes[n].now.len()).sum();
        self.capacity.map_or(usize::MAX, |c| c.saturating_sub(used))
    }
}

struct MemFile {
    disk: MemDisk,
    node: usize,
    at: usize,
}

impl Read for MemFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.state();
        let mut rest = &state.nodes[self.node].now[self.at..];
        let read = rest.read(buffer)?;
        self.at += read;
        Ok(read)
    }
}

impl Write for MemFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.step()?;
        let written = bytes.len().min(state.room());
        if written == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.nodes[self.node].now.extend(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl File for MemFile {
    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.step()?;
        state.syncs += 1;
        let failing = std::mem::take(&mut state.failing_sync);
        let node = &mut state.nodes[self.node];
        if failing {
            // As Linux does: the dirty pages are dropped, and the next sync would succeed.
            node.now = node.kept.clone();
            return Err(io::Error::other("input/output error"));
        }
        node.kept = node.now.clone();
        Ok(())
    }
}

impl Disk for MemDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let node = self.state().names.get(path).copied();
        Ok(Box::new(MemFile {
            disk: self.clone(),
            node: node.ok_or(io::ErrorKind::NotFound)?,
            at: 0,
        }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        state.step()?;
        let node = match state.names.get(path) {
            Some(&node) => {
                state.nodes[node].now.clear();
                node
            }
            None => {
                state.nodes.push(Node::default());
                let node = state.nodes.len() - 1;
                state.names.insert(path.into(), node);
                node
            }
        };
        Ok(Box::new(MemFile {
            disk: self.clone(),
            node,
            at: 0,
        }))
    }

    fn change(&self, change: Change<'_>) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        match change {
            Change::Rename(from, to) => {
                let node = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
                state.names.insert(to.into(), node);
            }
            Change::RemoveFile(path) => {
                state.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
            }
            Change::SyncFolder(folder) => {
                state.syncs += 1;
                let inside = |path: &PathBuf| path.parent() == Some(folder);
                let names: Vec<_> = state.names.clone().into_iter().collect();
                state.kept.retain(|path, _| !inside(path));
                state
                    .kept
                    .extend(names.into_iter().filter(|(p, _)| inside(p)));
            }
            // Folders are as good as always there.
            Change::CreateFolder(_) => {}
            Change::RemoveFolder(_) => return Err(io::ErrorKind::Unsupported.into()),
        }
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.state();
        let inside = state.names.keys().filter(|p| p.parent() == Some(folder));
        Ok(inside.cloned().collect())
    }
}
