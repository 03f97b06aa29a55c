//! The files of the log that are part of it, in order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_common::format::log::{SegmentHeader, SegmentNumber};
use windlass_common::id::{JobId, Lsn, ShardId};

/// A file of the log.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub header: SegmentHeader,
    /// Where the last group ends that is on the disk, or the header.
    pub bytes: u64,
    /// The last record of each shard: what a cut asks for.
    pub last: BTreeMap<(JobId, ShardId), Lsn>,
}

/// The segments from the oldest to the one that is being written.
#[derive(Debug)]
pub(super) struct Chain {
    folder: PathBuf,
    /// std's: held for a look or a change of a few entries.
    segments: Mutex<Vec<Segment>>,
}

impl Segment {
    pub(super) fn new(header: SegmentHeader) -> Self {
        Self {
            header,
            bytes: SegmentHeader::BYTES,
            last: BTreeMap::new(),
        }
    }

    /// Whether no group is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }
}

impl Chain {
    pub(super) fn new(folder: &Path, segments: Vec<Segment>) -> Self {
        Self {
            folder: folder.into(),
            segments: Mutex::new(segments),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn path(&self, segment: SegmentNumber) -> PathBuf {
        self.folder.join(segment.file_name())
    }

    pub(super) fn segments(&self) -> MutexGuard<'_, Vec<Segment>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the segments that hold records, and all bytes.
    pub(super) fn size(&self) -> (usize, u64) {
        let segments = self.segments();
        (
            segments.iter().filter(|s| !s.is_empty()).count(),
            segments.iter().map(|s| s.bytes).sum(),
        )
    }
}
