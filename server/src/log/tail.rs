//! The file that the log is written to. Everything here blocks.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_common::failpoint;
use windlass_common::format::log::{Sealed, SegmentHeader, SegmentNumber};
use windlass_common::id::{Boot, Lsn};
use windlass_common::runtime::{Change, Disk, File};

use super::buffer::Pending;
use super::chain::{Chain, Segment};

/// The end of the log.
pub(super) struct Tail {
    disk: Arc<dyn Disk>,
    chain: Arc<Chain>,
    boot: Boot,
    segment_bytes: u64,
    /// The number that a new segment gets.
    number: SegmentNumber,
    /// The last segment of the chain. None when that must not be written to (any more): at the
    /// start, since a life writes into segments of its own (rule S7), and after a write failed.
    file: Option<Box<dyn File>>,
}

/// Why a group is not on the disk.
#[derive(Debug)]
pub(super) enum Unwritten {
    /// The disk took none of it, or a part that will never be read: it may be written again.
    Refused {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A sync failed. What the system has thrown away then is not known, so nothing written to
    /// this file since can be trusted, and a second sync that succeeds would prove nothing.
    Unsynced {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl Tail {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        chain: Arc<Chain>,
        boot: Boot,
        segment_bytes: u64,
        number: SegmentNumber,
    ) -> Self {
        Self {
            disk,
            chain,
            boot,
            segment_bytes,
            number,
            file: None,
        }
    }

    /// Writes a group and returns when it is on the disk.
    pub(super) fn write(&mut self, pending: &mut Pending) -> Result<(), Unwritten> {
        if self.is_full(pending.group.bytes()) {
            self.file = None;
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.begin(pending.group.first())?,
        };
        let path = self.chain.path(SegmentNumber(self.number.0 - 1));
        failpoint::reached("log-write-before");
        if let Err(source) = file.write_all(pending.group.finish()) {
            drop(file);
            self.forget_if_empty(&path);
            return Err(Unwritten::Refused { path, source });
        }
        failpoint::reached("log-sync-before");
        file.sync()
            .map_err(|source| Unwritten::Unsynced { path, source })?;
        failpoint::reached("log-sync-after");
        self.file = Some(file);
        if let Some(segment) = self.chain.segments().last_mut() {
            segment.bytes += pending.group.bytes();
            let lsns = (pending.group.first().0..).map(Lsn);
            segment
                .last
                .extend(pending.shards.iter().copied().zip(lsns));
        }
        Ok(())
    }

    fn is_full(&self, group: u64) -> bool {
        let segments = self.chain.segments();
        let last = segments.last().filter(|s| !s.is_empty());
        last.is_some_and(|s| s.bytes.saturating_add(group) > self.segment_bytes)
    }

    /// Begins a segment, which says where the one before it ended: what a failed write left behind
    /// that place is never read.
    fn begin(&mut self, first: Lsn) -> Result<Box<dyn File>, Unwritten> {
        let previous = self.chain.segments().last().map(|s| Sealed {
            segment: s.header.segment,
            bytes: s.bytes,
        });
        let header = SegmentHeader {
            segment: self.number,
            boot: self.boot,
            first,
            previous,
            cut: false,
        };
        let path = self.chain.path(self.number);
        let created = self.create(&header, &path);
        let mut file = created.map_err(|source| {
            // Best effort: the next try empties what is there.
            let _ = self.disk.change(Change::RemoveFile(&path));
            Unwritten::Refused {
                path: path.clone(),
                source,
            }
        })?;
        failpoint::reached("segment-sync-before");
        // On the disk before the first group is written: a header that is not whole in a file that
        // is longer is then damage, and never a crash.
        file.sync()
            .map_err(|source| Unwritten::Unsynced { path, source })?;
        let folder = self.chain.folder();
        self.disk
            .change(Change::SyncFolder(folder))
            .map_err(|source| Unwritten::Unsynced {
                path: folder.into(),
                source,
            })?;
        self.chain.segments().push(Segment::new(header));
        self.number = SegmentNumber(self.number.0 + 1);
        Ok(file)
    }

    fn create(&self, header: &SegmentHeader, path: &Path) -> io::Result<Box<dyn File>> {
        let header = header.encode().map_err(io::Error::other)?;
        let mut file = self.disk.create(path)?;
        file.write_all(&header)?;
        Ok(file)
    }

    /// Gives back the space of a segment whose first group was refused, so that a full disk is not
    /// filled with pieces of one group, try after try.
    fn forget_if_empty(&mut self, path: &Path) {
        let mut segments = self.chain.segments();
        if let Some(empty) = segments.pop_if(|s| s.is_empty()) {
            // Nothing was ever read or acknowledged of it, so its number is free again.
            self.number = empty.header.segment;
            let _ = self.disk.change(Change::RemoveFile(path));
        }
    }
}
