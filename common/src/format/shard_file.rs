//! A shard file: one shard of a checkpoint, and a shard on its way between machines.
//!
//! | part | bytes |
//! |---|---|
//! | header, framed with magic `WL-SHARD` and version 1 | 18 + its payload |
//! | windows | 32 an open source, 16 a range of complete ones; CRC-32 |
//! | keys of table 0, `u64`, strictly ascending | 8 a row; CRC-32 |
//! | weights of table 0, `f32` `[rows, dim]` | 4 x dim a row; CRC-32 |
//! | slots of table 0, `f32` `[rows, slots]` | 4 x slots a row; CRC-32 |
//! | in a delta: deleted keys of table 0, `u64`, strictly ascending | 8 a key; CRC-32 |
//! | where rows may go: their last use, `u32` | 4 a row; CRC-32 |
//! | where keys are admitted: the sketch | its bytes; CRC-32 |
//! | the same for table 1, 2, ... | |
//!
//! Everything is little-endian, without padding. The header's payload:
//!
//! | at | field | type |
//! |---|---|---|
//! | 0 | shard | `u16` |
//! | 2 | lineage | `u64` |
//! | 10 | mark: the server's life, the log's place | 2 `u64` |
//! | 26 | clock | `u64` |
//! | 34 | base: the checkpoint that a delta builds on, else 0 | `u64` |
//! | 42 | the base's mark and clock, else 0 | 3 `u64` |
//! | 66 | bytes after the header, checksums included | `u64` |
//! | 74 | open sources | `u64` |
//! | 82 | ranges of complete sources | `u64` |
//! | 90 | tables | `u64` count, then each: |
//! | +0 | dim | `u32` |
//! | +4 | slots | `u32` |
//! | +8 | rows | `u64` |
//! | +16 | deleted keys | `u64` |
//! | +24 | bytes of the sketch | `u64` |
//! | +32 | turnover: sighted, refused, evicted | 3 `u64` |
//! | +56 | columns, in the order in which they follow | `u64` count, then each: |
//! | +0 | kind: 1 keys, 2 weights, 3 slots, 4 deleted keys, 5 last use, 6 sketch | `u16` |
//! | +2 | bytes a row, or a deleted key; of the sketch 1 | `u64` |
//!
//! Rows are sorted by key, so the bytes depend on the content alone. A later column gets a new
//! kind; readers that do not know it refuse it by its number. Each CRC-32
//! follows its section, not the header: a writer may then stream a shard without knowing a
//! checksum before it has seen the last row, and a reader checks a section as it comes.

use std::path::Path;

use crate::id::{Clock, Lineage, ShardId};
use crate::key::Key;
use crate::windows::Windows;

use super::reader::{Reader, floats, numbers, put_floats, put_section, words};
use super::shard_header::{
    DELETED, FORMAT, Header, MarkRecord, TableHeader, USED, length, take_header,
};
use super::{Base, FormatError, Mark, ShardImage, TableImage, windows};

/// What a shard file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSummary {
    /// The shard.
    pub shard: ShardId,
    /// The life of the state.
    pub lineage: Lineage,
    /// Where in its owner's life it was taken.
    pub mark: Mark,
    /// What a delta builds on.
    pub base: Option<Base>,
    /// Pushes applied.
    pub clock: Clock,
    /// Which pushes those are.
    pub windows: Windows,
    /// Rows in the file, over all tables.
    pub rows: u64,
}

impl ShardSummary {
    /// Sums up what a file of this image would say.
    pub(super) fn of(image: &ShardImage) -> Self {
        Self {
            shard: image.shard,
            lineage: image.lineage,
            mark: image.mark,
            base: image.base,
            clock: image.clock,
            windows: image.windows.clone(),
            rows: image.tables.iter().map(|t| t.keys.len() as u64).sum(),
        }
    }
}

/// Writes a shard, or a delta of one; the bytes depend on its content alone, not on the order of its
/// rows.
///
/// # Panics
/// With more than about 14,000 tables; a schema has at most 1,024.
#[must_use]
pub fn encode_shard(image: &ShardImage) -> Vec<u8> {
    let base = image.base.unwrap_or_default();
    debug_assert_eq!(image.base.is_some(), base.checkpoint.0 > 0);
    let mut header = Header {
        shard: image.shard.0,
        lineage: image.lineage.0,
        mark: MarkRecord::of(image.mark),
        clock: image.clock.0,
        base: base.checkpoint.0,
        base_mark: MarkRecord::of(base.mark),
        base_clock: base.clock.0,
        body_bytes: 0,
        open: image.windows.open().len() as u64,
        ranges: image.windows.complete().ranges().len() as u64,
        tables: (image.tables.iter())
            .map(|table| TableHeader::of(table, image.base.is_some()))
            .collect(),
    };
    let body_bytes = header.sections_bytes().unwrap_or_default();
    header.body_bytes = body_bytes;
    #[expect(
        clippy::expect_used,
        reason = "a job has at most 1024 tables, of 72 bytes each"
    )]
    let mut out = FORMAT
        .encode(&header)
        .expect("the header is below its limit");
    out.reserve_exact(usize::try_from(body_bytes).unwrap_or_default());
    put_section(&mut out, |out| windows::put(&image.windows, out));
    for table in &image.tables {
        put_table(table, image.base.is_some(), &mut out);
    }
    out
}

/// Reads a shard and checks all of it; `name` is the file's, for errors. Rows come sorted by key,
/// and so do deleted keys.
///
/// # Errors
/// [`FormatError`] with the file's name and the place, for any byte that is not as it was written.
pub fn decode_shard(bytes: &[u8], name: &Path) -> Result<ShardImage, FormatError> {
    let (header, mut reader) = take_header(bytes, name)?;
    let windows = windows::take(
        &mut reader,
        length(header.open, bytes),
        length(header.windows_bytes().unwrap_or(u64::MAX), bytes),
    )?;
    let tables = header
        .tables
        .iter()
        .map(|table| take_table(table, &mut reader))
        .collect::<Result<_, _>>()?;
    Ok(ShardImage {
        shard: ShardId(header.shard),
        lineage: Lineage(header.lineage),
        mark: header.mark.mark(),
        base: header.base(),
        clock: Clock(header.clock),
        windows,
        tables,
    })
}

/// Checks lengths and checksums, and builds no rows: at the speed of memory.
///
/// # Errors
/// As [`decode_shard`], which also checks what the sections say.
pub fn inspect_shard(bytes: &[u8], name: &Path) -> Result<ShardSummary, FormatError> {
    let (header, mut reader) = take_header(bytes, name)?;
    let windows = windows::take(
        &mut reader,
        length(header.open, bytes),
        length(header.windows_bytes().unwrap_or(u64::MAX), bytes),
    )?;
    for section in header.tables.iter().flat_map(TableHeader::column_bytes) {
        let section = length(section.unwrap_or(u64::MAX), bytes);
        reader.section(section, "a section's checksum differs")?;
    }
    Ok(ShardSummary {
        shard: ShardId(header.shard),
        lineage: Lineage(header.lineage),
        mark: header.mark.mark(),
        base: header.base(),
        clock: Clock(header.clock),
        windows,
        rows: header.tables.iter().map(|table| table.rows).sum(),
    })
}

fn put_table(table: &TableImage, delta: bool, out: &mut Vec<u8>) {
    let TableImage { dim, slots, .. } = *table;
    let width = dim + slots;
    debug_assert_eq!(table.rows.len(), table.keys.len() * width);
    let order = table.by_key();

    put_section(out, |out| {
        for &row in &order {
            out.extend_from_slice(&table.keys[row].0.to_le_bytes());
        }
    });
    for part in [0..dim, dim..width] {
        put_section(out, |out| {
            for &row in &order {
                put_floats(&table.rows[row * width..][part.clone()], out);
            }
        });
    }
    if delta {
        put_deleted(table, out);
    }
    if !table.used.is_empty() {
        debug_assert_eq!(table.used.len(), table.keys.len());
        put_section(out, |out| {
            for &row in &order {
                out.extend_from_slice(&table.used[row].to_le_bytes());
            }
        });
    }
    if !table.sketch.is_empty() {
        put_section(out, |out| out.extend_from_slice(&table.sketch));
    }
}

fn put_deleted(table: &TableImage, out: &mut Vec<u8>) {
    let mut keys = table.deleted.clone();
    keys.sort_unstable();
    put_section(out, |out| {
        for key in keys {
            out.extend_from_slice(&key.0.to_le_bytes());
        }
    });
}

/// Takes a column of keys; `wrong` says what is wrong with its checksum.
fn take_keys(
    count: u64,
    reader: &mut Reader<'_>,
    wrong: &'static str,
) -> Result<Vec<Key>, FormatError> {
    let start = reader.at();
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let keys = reader.section(count.saturating_mul(8), wrong)?;
    let keys: Vec<Key> = words(keys).map(Key).collect();
    if let Some(i) = keys.windows(2).position(|pair| pair[0] >= pair[1]) {
        return Err(reader.damaged(start + 8 * (i + 1), "keys do not ascend"));
    }
    Ok(keys)
}

fn take_table(header: &TableHeader, reader: &mut Reader<'_>) -> Result<TableImage, FormatError> {
    let (dim, slots) = (header.dim as usize, header.slots as usize);
    let keys = take_keys(header.rows, reader, "the keys' checksum differs")?;
    let rows = keys.len();
    let mut part = |width: usize, wrong| reader.section(rows.saturating_mul(4 * width), wrong);
    let weights = part(dim, "the weights' checksum differs")?;
    let states = part(slots, "the slots' checksum differs")?;
    let mut values = Vec::with_capacity(rows * (dim + slots));
    for row in 0..rows {
        values.extend(floats(&weights[row * 4 * dim..][..4 * dim]));
        values.extend(floats(&states[row * 4 * slots..][..4 * slots]));
    }
    let deleted_at = reader.at();
    let deleted = match header.has(DELETED) {
        true => take_keys(header.deleted, reader, "the deleted keys' checksum differs")?,
        false => Vec::new(),
    };
    if let Some(i) = (deleted.iter()).position(|key| keys.binary_search(key).is_ok()) {
        let what = "a deleted key has a row too";
        return Err(reader.damaged(deleted_at + 8 * i, what));
    }
    let mut used = Vec::new();
    if header.has(USED) {
        let ticks = reader.section(rows.saturating_mul(4), "the last uses' checksum differs")?;
        used.extend(numbers(ticks));
    }
    let sketch = match usize::try_from(header.sketch) {
        Ok(0) => Vec::new(),
        bytes => {
            let bytes = bytes.unwrap_or(usize::MAX);
            reader
                .section(bytes, "the sketch's checksum differs")?
                .to_vec()
        }
    };
    Ok(TableImage {
        dim,
        slots,
        keys,
        rows: values,
        used,
        deleted,
        sketch,
        turnover: header.turnover(),
    })
}

#[cfg(test)]
mod tests;
