//! Reading a segment group by group, with one group in memory, and looking behind damage.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::format::FormatError;
use crate::id::Lsn;
use crate::runtime::at;

use super::group::{Group, HEAD_BYTES, Head, MAGIC};
use super::record::HEAD_BYTES as RECORD_BYTES;
use super::segment::SegmentHeader;

/// A segment that is being read.
#[derive(Debug)]
pub struct Scan<R> {
    read: BufReader<R>,
    path: PathBuf,
    header: SegmentHeader,
    /// Where the last whole group ended.
    end: u64,
    /// The lsn that follows it.
    next: Lsn,
}

impl<R: Read> Scan<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`FormatError::Damaged`], [`FormatError::Version`], [`Error::Io`].
    pub fn begin(read: R, path: &Path) -> Result<Self, Error> {
        let mut read = BufReader::new(read);
        let mut bytes = take(&mut read, 18).map_err(at(path))?;
        if let Some(frame) = bytes.first_chunk() {
            let left = SegmentHeader::left_of(frame);
            bytes.extend(take(&mut read, left).map_err(at(path))?);
        }
        let header = SegmentHeader::decode(&bytes, path)?;
        Ok(Self {
            read,
            path: path.into(),
            header,
            end: bytes.len() as u64,
            next: header.first,
        })
    }

    /// The segment's header.
    #[must_use]
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Where the last whole group ended, or the header.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The lsn that follows the last whole group.
    #[must_use]
    pub fn next(&self) -> Lsn {
        self.next
    }

    /// Reads the next group. `until` is where the segment is known to end; without it the file's
    /// end is that, and may be in the middle of a group.
    ///
    /// Memory is taken as bytes come, so a length that lies takes none.
    ///
    /// # Errors
    /// [`FormatError::Damaged`] with the place where the group begins that is not whole (nothing
    /// more can be read then), [`Error::Io`].
    pub fn group(&mut self, until: Option<u64>) -> Result<Option<Group>, Error> {
        if until == Some(self.end) {
            return Ok(None);
        }
        let damaged = |what| FormatError::Damaged {
            path: self.path.clone(),
            offset: self.end,
            what,
        };
        let head = take(&mut self.read, HEAD_BYTES).map_err(at(&self.path))?;
        if head.is_empty() && until.is_none() {
            return Ok(None);
        }
        let Some(&head) = head.first_chunk() else {
            return Err(damaged("the file ends too early").into());
        };
        let head = Head::read(head).map_err(damaged)?;
        if head.first != self.next {
            return Err(damaged("a group does not go on where the one before it ended").into());
        }
        let start = self.end + HEAD_BYTES as u64;
        let end = start + head.payload as u64;
        if until.is_some_and(|until| end > until) {
            return Err(damaged("a group is longer than the segment was").into());
        }
        let payload = take(&mut self.read, head.payload).map_err(at(&self.path))?;
        if payload.len() < head.payload {
            return Err(damaged("the file ends too early").into());
        }
        if !head.fits(&payload) {
            return Err(damaged("the group's checksum differs").into());
        }
        let group = Group::new(&self.path, &head, payload, start);
        (self.end, self.next) = (end, group.next());
        Ok(Some(group))
    }
}

/// What lies behind the last whole group that can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Bytes of the file.
    pub bytes: u64,
    /// The lsn that follows the last whole group, if there is one further on.
    pub next: Option<Lsn>,
}

/// Looks for whole groups behind `from`, where the last one ended that `next` follows.
///
/// One tells damage from a write that a crash cut short: a group is begun only when the one before
/// it is on the disk. Reads the whole file into memory.
///
/// # Errors
/// What the system says.
pub fn sweep(mut read: impl Read, from: u64, next: Lsn) -> std::io::Result<Sweep> {
    let mut bytes = Vec::new();
    read.read_to_end(&mut bytes)?;
    let mut found = None;
    let mut place = usize::try_from(from).unwrap_or(usize::MAX);
    while let Some(rest) = bytes.get(place..)
        && let Some(skipped) = rest.windows(MAGIC.len()).position(|w| w == MAGIC)
    {
        place += skipped;
        let possible = next.0..=next.0.saturating_add((place / RECORD_BYTES) as u64);
        match whole(&bytes[place..]) {
            Some((head, bytes)) if possible.contains(&head.first.0) => {
                found = Some(Lsn(head.first.0 + u64::from(head.records)));
                place += bytes;
            }
            _ => place += 1,
        }
    }
    Ok(Sweep {
        bytes: bytes.len() as u64,
        next: found,
    })
}

/// Gives the head and the length of a whole group.
fn whole(bytes: &[u8]) -> Option<(Head, usize)> {
    let (&head, rest) = bytes.split_first_chunk()?;
    let head = Head::read(head).ok()?;
    let payload = rest.get(..head.payload)?;
    head.fits(payload)
        .then_some((head, HEAD_BYTES + head.payload))
}

/// Reads so many bytes, or fewer when there are no more.
fn take(read: &mut impl Read, bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut taken = Vec::with_capacity(bytes.min(1 << 16));
    read.take(bytes as u64).read_to_end(&mut taken)?;
    Ok(taken)
}
