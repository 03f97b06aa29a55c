//! A record: the part of one push that one shard applied.
//!
//! | at | field | type |
//! |---|---|---|
//! | 0 | bytes that follow this field | `u32` |
//! | 4 | kind: 1 a push | `u16` |
//! | 6 | flags: bit 0 END | `u16` |
//! | 8 | shard | `u16` |
//! | 10 | job | `u64` |
//! | 18 | lineage | `u64` |
//! | 26 | source | `u64` |
//! | 34 | seq | `u64` |
//! | 42 | tables | `u32` count, then each: |
//! | +0 | table | `u16` |
//! | +2 | keys | `u32` |
//! | +6 | floats: a multiple of the keys | `u32` |
//! | +10 | the keys, then their gradients in the same order | `u64` each, `f32` each |
//!
//! Raw little-endian, without padding: a record is a copy of what the shard was given.

use std::borrow::Cow;
use std::path::Path;

use crate::exchange::{Push, TableGradients};
use crate::format::FormatError;
use crate::format::reader::{Reader, floats, put_floats, words};
use crate::id::{JobId, Lineage, Lsn, PushId, Seq, ShardId, SourceId, TableId};
use crate::key::Key;

/// The most bytes of a record; sixty times a message of the wire.
pub const MAX_RECORD_BYTES: usize = 256 << 20;

/// Bytes of a record without tables.
pub(super) const HEAD_BYTES: usize = 46;
/// Bytes of a table without keys.
const TABLE_BYTES: usize = 10;

const PUSH: u16 = 1;
const END: u16 = 1;

/// The part of one push that one shard applied. What is written borrows, what is read owns.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<'a> {
    /// Whose rows.
    pub job: JobId,
    /// The shard.
    pub shard: ShardId,
    /// The life of the job's state that the push was applied in (rule N4).
    pub lineage: Lineage,
    /// The push's name.
    pub id: PushId,
    /// Whether it ends its source (rule N3).
    pub end: bool,
    /// The tables that it has keys of in this shard.
    pub tables: Vec<TableRecord<'a>>,
}

/// One table's part of a [`Record`].
#[derive(Clone, Debug, PartialEq)]
pub struct TableRecord<'a> {
    /// The table.
    pub table: TableId,
    /// Its keys in this shard.
    pub keys: Cow<'a, [Key]>,
    /// Their gradients, in the same order. Shape: `[keys, dim]`.
    pub gradients: Cow<'a, [f32]>,
}

impl<'a> Record<'a> {
    /// Borrows a shard's part of a push, which was checked to be consistent in itself.
    #[must_use]
    pub fn of(push: &'a Push, shard: ShardId) -> Self {
        let part = |part: &'a TableGradients| {
            let set = push.sets.get(part.set)?;
            let keys = set.range(set.shards().binary_search(&shard).ok()?);
            let dim = part.gradients.len().checked_div(set.len())?;
            let gradients = part.gradients.get(keys.start * dim..keys.end * dim)?;
            let keys = &set.keys()[keys];
            (!keys.is_empty()).then_some(TableRecord {
                table: part.table,
                keys: keys.into(),
                gradients: gradients.into(),
            })
        };
        Self {
            job: push.job,
            shard,
            lineage: push.lineage,
            id: push.id,
            end: push.end,
            tables: push.tables.iter().filter_map(part).collect(),
        }
    }

    /// How long the record is on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let table = |t: &TableRecord<'_>| {
            TABLE_BYTES as u64 + 8 * t.keys.len() as u64 + 4 * t.gradients.len() as u64
        };
        HEAD_BYTES as u64 + self.tables.iter().map(table).sum::<u64>()
    }

    /// Appends the record to `out`.
    ///
    /// # Errors
    /// [`FormatError::RecordTooLong`] above [`MAX_RECORD_BYTES`]; then nothing is appended.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let too_long = FormatError::RecordTooLong {
            bytes: self.bytes(),
            limit: MAX_RECORD_BYTES as u64,
        };
        let bytes = match usize::try_from(self.bytes()) {
            Ok(bytes) if bytes <= MAX_RECORD_BYTES => bytes,
            _ => return Err(too_long),
        };
        out.reserve(bytes);
        put_count(out, bytes - 4);
        for half in [PUSH, if self.end { END } else { 0 }, self.shard.0] {
            out.extend_from_slice(&half.to_le_bytes());
        }
        let PushId { source, seq } = self.id;
        for word in [self.job.0, self.lineage.0, source.0, seq.0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        put_count(out, self.tables.len());
        for part in &self.tables {
            debug_assert!(fits(part.keys.len(), part.gradients.len()));
            out.extend_from_slice(&part.table.0.to_le_bytes());
            put_count(out, part.keys.len());
            put_count(out, part.gradients.len());
            // Like floats, keys lie on disk as in memory; `put_floats` refuses other machines.
            out.extend_from_slice(bytemuck::cast_slice(&part.keys));
            put_floats(&part.gradients, out);
        }
        Ok(())
    }
}

/// A record that has not been decoded: enough to tell whether it is wanted.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Its place in the log.
    pub lsn: Lsn,
    /// Whose rows.
    pub job: JobId,
    /// The shard.
    pub shard: ShardId,
    end: bool,
    /// What follows the shard.
    rest: Reader<'a>,
    /// Where the record begins in the file, after its length.
    start: u64,
}

impl<'a> Entry<'a> {
    /// Takes the next record; `start` is where the reader's bytes begin in the file.
    pub(super) fn take(reader: &mut Reader<'a>, lsn: Lsn, start: u64) -> Result<Self, FormatError> {
        take_entry(reader, lsn, start).map_err(|error| in_file(error, start))
    }

    /// Copies the record out, all of it checked.
    ///
    /// # Errors
    /// [`FormatError::Damaged`] with the place.
    pub fn decode(self) -> Result<Record<'static>, FormatError> {
        let (mut rest, start) = (self.rest.clone(), self.start);
        self.take_record(&mut rest)
            .map_err(|error| in_file(error, start))
    }

    fn take_record(self, rest: &mut Reader<'a>) -> Result<Record<'static>, FormatError> {
        let mut word = || rest.array().map(u64::from_le_bytes);
        let lineage = Lineage(word()?);
        let id = PushId {
            source: SourceId(word()?),
            seq: Seq(word()?),
        };
        let count = take_count(rest)?;
        if count > rest.left() / TABLE_BYTES {
            return Err(rest.damaged(rest.at() - 4, "a record has fewer tables than it counts"));
        }
        let mut tables = Vec::with_capacity(count);
        for _ in 0..count {
            tables.push(take_table(rest)?);
        }
        if rest.left() > 0 {
            return Err(rest.damaged(rest.at(), "bytes follow a record's last table"));
        }
        Ok(Record {
            job: self.job,
            shard: self.shard,
            lineage,
            id,
            end: self.end,
            tables,
        })
    }
}

fn take_entry<'a>(reader: &mut Reader<'a>, lsn: Lsn, start: u64) -> Result<Entry<'a>, FormatError> {
    let at = reader.at();
    let bytes = take_count(reader)?;
    if bytes < HEAD_BYTES - 4 || bytes > reader.left() {
        return Err(reader.damaged(at, "a record is shorter than any, or longer than its group"));
    }
    let path: &'a Path = reader.path();
    let mut rest = Reader::new(reader.take(bytes)?, path);
    let mut half = || rest.array().map(u16::from_le_bytes);
    let (kind, flags, shard) = (half()?, half()?, half()?);
    if kind != PUSH || flags & !END != 0 {
        return Err(FormatError::UnknownRecord {
            path: path.into(),
            offset: at as u64,
            kind,
            flags,
        });
    }
    Ok(Entry {
        lsn,
        job: JobId(u64::from_le_bytes(rest.array()?)),
        shard: ShardId(shard),
        end: flags == END,
        rest,
        start: start + at as u64 + 4,
    })
}

fn take_table(rest: &mut Reader<'_>) -> Result<TableRecord<'static>, FormatError> {
    let at = rest.at();
    let table = TableId(u16::from_le_bytes(rest.array()?));
    let (keys, gradients) = (take_count(rest)?, take_count(rest)?);
    if !fits(keys, gradients) {
        return Err(rest.damaged(at, "a table's floats are not a multiple of its keys"));
    }
    // `take` finds what is too long before memory is taken for it.
    let keys = rest.take(keys.saturating_mul(8))?;
    let gradients = rest.take(gradients.saturating_mul(4))?;
    Ok(TableRecord {
        table,
        keys: words(keys).map(Key).collect(),
        gradients: floats(gradients).collect(),
    })
}

/// Whether so many floats are rows for so many keys.
fn fits(keys: usize, floats: usize) -> bool {
    floats
        .checked_rem(keys)
        .map_or(floats == 0, |rest| rest == 0)
}

fn take_count(reader: &mut Reader<'_>) -> Result<usize, FormatError> {
    Ok(u32::from_le_bytes(reader.array()?) as usize)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a record is at most 256 MiB, so is what is counted in it"
)]
fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_le_bytes());
}

/// Turns a place in a piece of a file, which begins at `start`, into the place in the file.
fn in_file(error: FormatError, start: u64) -> FormatError {
    match error {
        FormatError::Damaged { path, offset, what } => FormatError::Damaged {
            path,
            offset: start + offset,
            what,
        },
        FormatError::UnknownRecord {
            path,
            offset,
            kind,
            flags,
        } => FormatError::UnknownRecord {
            path,
            offset: start + offset,
            kind,
            flags,
        },
        other => other,
    }
}
