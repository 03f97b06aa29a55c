//! A segment: a file of the log. Its name, and the header that ties it to the one before it.
//!
//! The header's payload (framed with magic `WL-LOGSG` and version 1):
//!
//! | at | field | type |
//! |---|---|---|
//! | 0 | number of the segment | `u64` |
//! | 8 | boot: the life of the server that wrote it | `u64` |
//! | 16 | lsn of its first record, whether it is there or not | `u64` |
//! | 24 | number of the segment before it; 0: none | `u64` |
//! | 32 | bytes at which that one ended | `u64` |
//! | 40 | cut: all its records are in checkpoints, and only this header is left | `bool` |

use std::path::Path;

use bincode::{Decode, Encode};

use crate::format::FormatError;
use crate::format::header::Format;
use crate::format::reader::Reader;
use crate::id::{Boot, Lsn};

/// The limit leaves room for fields of later versions, so that these are told by their number.
const FORMAT: Format<1024> = Format {
    magic: *b"WL-LOGSG",
    version: 1,
    other: "this is not a segment of a log",
};

/// Bytes of a frame before its payload, and where the payload's length stands in them.
const FRAME_BYTES: usize = 18;
const LENGTH_AT: usize = 10;

/// The number of a segment, from 1; it only rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentNumber(pub u64);

impl SegmentNumber {
    /// Names the segment's file.
    #[must_use]
    pub fn file_name(self) -> String {
        format!("{:010}.log", self.0)
    }

    /// Tells whose file a path is; `None` for other files.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let number = Self(name.strip_suffix(".log")?.parse().ok()?);
        (number.0 > 0 && number.file_name() == name).then_some(number)
    }
}

impl std::fmt::Display for SegmentNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A segment that is not written any more, and where it ended.
///
/// What lies behind that place is left of a write that failed, and was never in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The segment.
    pub segment: SegmentNumber,
    /// Its length, header included.
    pub bytes: u64,
}

/// What a segment says about itself and about the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Its number.
    pub segment: SegmentNumber,
    /// The life of the server that wrote it.
    pub boot: Boot,
    /// The lsn of its first record, whether it is there or not.
    pub first: Lsn,
    /// The segment before it, if there was one: the log goes on from that place.
    pub previous: Option<Sealed>,
    /// Whether all its records are in checkpoints, so that only this header is left.
    pub cut: bool,
}

#[derive(Debug, Encode, Decode)]
struct Fields {
    segment: u64,
    boot: u64,
    first: u64,
    previous: u64,
    previous_bytes: u64,
    cut: bool,
}

impl SegmentHeader {
    /// How long the header is on disk.
    pub const BYTES: u64 = 59;

    /// Writes the header.
    ///
    /// # Errors
    /// None in this version, whose fields are always within the limit of a header.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        FORMAT.encode(&Fields {
            segment: self.segment.0,
            boot: self.boot.0,
            first: self.first.0,
            previous: self.previous.map_or(0, |sealed| sealed.segment.0),
            previous_bytes: self.previous.map_or(0, |sealed| sealed.bytes),
            cut: self.cut,
        })
    }

    /// Tells from a frame's first bytes how many follow, at most what a header may have.
    pub(super) fn left_of(frame: &[u8; FRAME_BYTES]) -> usize {
        let mut length = [0; 4];
        length.copy_from_slice(&frame[LENGTH_AT..LENGTH_AT + 4]);
        (u32::from_le_bytes(length) as usize).min(1024)
    }

    /// Reads a header, all of these bytes.
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Self, FormatError> {
        let mut reader = Reader::new(bytes, path);
        let fields: Fields = FORMAT.decode(&mut reader)?;
        let segment = SegmentNumber(fields.segment);
        if SegmentNumber::of(path) != Some(segment) {
            return Err(reader.damaged(FRAME_BYTES, "the file's name is another segment's"));
        }
        if fields.previous >= fields.segment || (fields.previous == 0 && fields.previous_bytes > 0)
        {
            let what = "a segment follows one with a lower number, or none";
            return Err(reader.damaged(FRAME_BYTES + 24, what));
        }
        let previous = (fields.previous > 0).then_some(Sealed {
            segment: SegmentNumber(fields.previous),
            bytes: fields.previous_bytes,
        });
        Ok(Self {
            segment,
            boot: Boot(fields.boot),
            first: Lsn(fields.first),
            previous,
            cut: fields.cut,
        })
    }
}
