//! A group: the records that are written and synced together, there whole or not at all.
//!
//! | at | field | type |
//! |---|---|---|
//! | 0 | magic: `WLGR` | 4 bytes |
//! | 4 | bytes of the payload | `u32` |
//! | 8 | records | `u32` |
//! | 12 | lsn of the first record | `u64` |
//! | 20 | CRC-32 of bytes 0..20 and the payload | `u32` |
//! | 24 | the payload: the records | |

use std::path::{Path, PathBuf};

use crate::format::FormatError;
use crate::format::reader::Reader;
use crate::id::Lsn;

use super::record::{Entry, HEAD_BYTES as RECORD_BYTES, MAX_RECORD_BYTES, Record};

/// The most bytes of a group's payload, unless it is a single record.
pub const MAX_GROUP_BYTES: usize = 16 << 20;

/// The first bytes of a group.
pub(super) const MAGIC: [u8; 4] = *b"WLGR";
/// Bytes of a group before its payload.
pub(super) const HEAD_BYTES: usize = 24;
/// Where the checksum stands.
const CRC_AT: usize = 20;

/// A group that is being filled.
#[derive(Debug)]
pub struct GroupBuilder {
    first: Lsn,
    records: u32,
    /// The head, filled in at the end, and the payload.
    bytes: Vec<u8>,
}

impl GroupBuilder {
    /// Begins a group with the lsn that its first record gets, in memory that may be used again.
    #[must_use]
    pub fn new(first: Lsn, mut memory: Vec<u8>) -> Self {
        memory.clear();
        memory.resize(HEAD_BYTES, 0);
        Self {
            first,
            records: 0,
            bytes: memory,
        }
    }

    /// Whether a record may still go into this group.
    #[must_use]
    pub fn has_room(&self, record: &Record<'_>) -> bool {
        let payload = (self.bytes.len() - HEAD_BYTES) as u64;
        self.records == 0 || payload + record.bytes() <= MAX_GROUP_BYTES as u64
    }

    /// Appends a record and returns its lsn.
    ///
    /// # Errors
    /// [`FormatError::RecordTooLong`]; then nothing changes.
    pub fn push(&mut self, record: &Record<'_>) -> Result<Lsn, FormatError> {
        record.encode(&mut self.bytes)?;
        let lsn = self.next();
        self.records += 1;
        Ok(lsn)
    }

    /// The lsn of the first record.
    #[must_use]
    pub fn first(&self) -> Lsn {
        self.first
    }

    /// The lsn of a record that would come now.
    #[must_use]
    pub fn next(&self) -> Lsn {
        Lsn(self.first.0 + u64::from(self.records))
    }

    /// How long the group is on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Fills in the head and gives the group's bytes. Costs a checksum of all of them.
    pub fn finish(&mut self) -> &[u8] {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a payload has at most 256 MiB: 16 MiB, or one record"
        )]
        let payload = (self.bytes.len() - HEAD_BYTES) as u32;
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&MAGIC);
        head[4..8].copy_from_slice(&payload.to_le_bytes());
        head[8..12].copy_from_slice(&self.records.to_le_bytes());
        head[12..CRC_AT].copy_from_slice(&self.first.0.to_le_bytes());
        let crc = checksum(&head, &self.bytes[HEAD_BYTES..]);
        head[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        self.bytes[..HEAD_BYTES].copy_from_slice(&head);
        &self.bytes
    }

    /// Gives the memory back, to be used again.
    #[must_use]
    pub fn into_memory(self) -> Vec<u8> {
        self.bytes
    }
}

/// The fields of a group's head, of which nothing is proven before the payload is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    bytes: [u8; HEAD_BYTES],
    /// Bytes of the payload.
    pub payload: usize,
    /// Records in it.
    pub records: u32,
    /// The first one's lsn.
    pub first: Lsn,
}

impl Head {
    /// Reads a head and says what is impossible about it.
    pub(super) fn read(bytes: [u8; HEAD_BYTES]) -> Result<Self, &'static str> {
        let [
            m0,
            m1,
            m2,
            m3,
            p0,
            p1,
            p2,
            p3,
            r0,
            r1,
            r2,
            r3,
            first @ ..,
            _,
            _,
            _,
            _,
        ] = bytes;
        let head = Self {
            bytes,
            payload: u32::from_le_bytes([p0, p1, p2, p3]) as usize,
            records: u32::from_le_bytes([r0, r1, r2, r3]),
            first: Lsn(u64::from_le_bytes(first)),
        };
        if [m0, m1, m2, m3] != MAGIC {
            return Err("no group begins here");
        }
        if head.payload > MAX_RECORD_BYTES {
            return Err("a group is longer than any");
        }
        if head.records == 0 || head.records as usize > head.payload / RECORD_BYTES {
            return Err("a group's length and count of records contradict each other");
        }
        if head.first.0.checked_add(head.records.into()).is_none() {
            return Err("a group's lsn is beyond any");
        }
        Ok(head)
    }

    /// Whether this is the payload that the head was written for.
    pub(super) fn fits(&self, payload: &[u8]) -> bool {
        self.bytes[CRC_AT..] == checksum(&self.bytes, payload).to_le_bytes()
    }
}

/// A group whose checksum was right.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    first: Lsn,
    records: u32,
    payload: Vec<u8>,
    /// Where the payload begins in the file.
    start: u64,
}

impl Group {
    pub(super) fn new(path: &Path, head: &Head, payload: Vec<u8>, start: u64) -> Self {
        Self {
            path: path.into(),
            first: head.first,
            records: head.records,
            payload,
            start,
        }
    }

    /// The lsn of the record that follows this group.
    #[must_use]
    pub fn next(&self) -> Lsn {
        Lsn(self.first.0 + u64::from(self.records))
    }

    /// Gives the records in order.
    ///
    /// After an error there are no more.
    ///
    /// # Errors
    /// [`FormatError::UnknownRecord`] and [`FormatError::Damaged`], with the place.
    pub fn entries(&self) -> impl Iterator<Item = Result<Entry<'_>, FormatError>> {
        let mut reader = Reader::new(&self.payload, &self.path);
        let lsns = (self.first.0..self.next().0).map(Lsn);
        let mut over = false;
        lsns.map_while(move |lsn| {
            if over {
                return None;
            }
            let mut taken = Entry::take(&mut reader, lsn, self.start);
            if lsn.0 + 1 == self.next().0 && taken.is_ok() && reader.left() > 0 {
                taken = Err(FormatError::Damaged {
                    path: self.path.clone(),
                    offset: self.start + reader.at() as u64,
                    what: "bytes follow a group's last record",
                });
            }
            over = taken.is_err();
            Some(taken)
        })
    }
}

/// Covers the head but for its last field, and the payload.
fn checksum(head: &[u8; HEAD_BYTES], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head[..CRC_AT]);
    hasher.update(payload);
    hasher.finalize()
}
