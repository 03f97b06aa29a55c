//! Removing what checkpoints hold (rule S7).

use std::io::Write as _;
use std::path::Path;
use std::sync::PoisonError;

use tracing::info;
use windlass_common::Error as CommonError;
use windlass_common::format::log::{SegmentHeader, SegmentNumber};
use windlass_common::id::{JobId, Lsn, ShardId};
use windlass_common::runtime::{Change, at};

use crate::error::Error;

use super::append::Log;
use super::chain::Segment;

/// Which of a shard's records the log need not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// None: no two checkpoints have a mark of this life.
    Nothing,
    /// Those up to this one: the mark in the older of the last two published checkpoints, and of
    /// this life of the server.
    UpTo(Lsn),
    /// All: the job is gone, or the shard is another server's that has reported it.
    Gone,
}

impl Log {
    /// Gives back the space of all segments whose records are covered, and returns how many that
    /// were. Blocks. The newest segment stays: it says which numbers are used.
    ///
    /// A segment with older ones that are needed becomes a stub, its header alone: a file that is
    /// missing between others is damage. `coverage` must not call the log.
    ///
    /// # Errors
    /// What the disk says; the segments that are not cut yet are then as they were.
    pub fn cut(&self, coverage: impl Fn(JobId, ShardId) -> Coverage) -> Result<usize, Error> {
        let _cutting = self.files.write().unwrap_or_else(PoisonError::into_inner);
        let covered = |segment: &Segment| {
            segment
                .last
                .iter()
                .all(|(&(job, shard), &last)| match coverage(job, shard) {
                    Coverage::Nothing => false,
                    // S7: marks of earlier lives are not given, so this lsn is of this life, and
                    // above all those of earlier ones.
                    Coverage::UpTo(mark) => last <= mark,
                    Coverage::Gone => true,
                })
        };
        let (oldest, stubs) = {
            let segments = self.chain.segments();
            let Some((newest, old)) = segments.split_last() else {
                return Ok(0);
            };
            let front = old.iter().take_while(|s| covered(s)).count();
            let stubs = old[front..].iter().filter(|s| !s.header.cut && covered(s));
            let oldest = old.get(front).unwrap_or(newest).header.segment;
            (
                (front > 0).then_some(oldest),
                stubs.map(|s| s.header).collect::<Vec<_>>(),
            )
        };
        let mut cut = 0;
        if let Some(oldest) = oldest {
            cut += self.remove_below(oldest)?;
        }
        for header in stubs {
            self.leave_stub(header)?;
            cut += 1;
        }
        if cut > 0 {
            info!(segments = cut, "log cut");
        }
        Ok(cut)
    }

    /// Removes the files below a segment, those too that damage has cut off from the log.
    ///
    /// From the oldest on, and each one's name is off the disk before the next one's: a crash must
    /// not leave an older file beside a gap.
    fn remove_below(&self, oldest: SegmentNumber) -> Result<usize, Error> {
        let folder = self.chain.folder();
        let paths = self.disk.list(folder).map_err(at(folder))?;
        let numbered = paths.iter().filter_map(|path| SegmentNumber::of(path));
        let mut numbers: Vec<_> = numbered.filter(|&number| number < oldest).collect();
        numbers.sort_unstable();
        let mut removed = 0;
        for number in numbers {
            let path = self.chain.path(number);
            let change = |change, path: &Path| self.disk.change(change).map_err(at(path));
            change(Change::RemoveFile(&path), &path)?;
            self.chain.segments().retain(|s| s.header.segment != number);
            change(Change::SyncFolder(folder), folder)?;
            removed += 1;
        }
        Ok(removed)
    }

    fn leave_stub(&self, header: SegmentHeader) -> Result<(), Error> {
        let folder = self.chain.folder();
        let path = self.chain.path(header.segment);
        let partial = partial(folder, header.segment);
        let stub = SegmentHeader {
            cut: true,
            ..header
        };
        let bytes = stub.encode().map_err(CommonError::from)?;
        let write = || {
            let mut file = self.disk.create(&partial)?;
            file.write_all(&bytes)?;
            file.sync()?;
            self.disk.change(Change::Rename(&partial, &path))?;
            self.disk.change(Change::SyncFolder(folder))
        };
        write().map_err(at(&path))?;
        let mut segments = self.chain.segments();
        let same = |s: &&mut Segment| s.header.segment == header.segment;
        if let Some(segment) = segments.iter_mut().find(same) {
            *segment = Segment::new(stub);
        }
        Ok(())
    }
}

/// Names the file of a stub that is being written; see also `recover`, which removes it.
pub(super) fn partial(folder: &Path, segment: SegmentNumber) -> std::path::PathBuf {
    folder.join(format!(".{}{PARTIAL}", segment.file_name()))
}

/// How names of files end that nothing reads.
pub(super) const PARTIAL: &str = ".partial";
