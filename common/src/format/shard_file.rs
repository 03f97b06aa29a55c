//! A shard file: one shard of a checkpoint, and a shard on its way between machines.
//!
//! | part | bytes |
//! |---|---|
//! | header, framed with magic `WL-SHARD` and version 1 | 18 + its payload |
//! | windows | 32 an open source, 16 a range of complete ones; CRC-32 |
//! | keys of table 0, `u64`, strictly ascending | 8 a row; CRC-32 |
//! | weights of table 0, `f32` `[rows, dim]` | 4 x dim a row; CRC-32 |
//! | slots of table 0, `f32` `[rows, slots]` | 4 x slots a row; CRC-32 |
//! | the same for table 1, 2, ... | |
//!
//! Everything is little-endian, without padding. The header's payload:
//!
//! | at | field | type |
//! |---|---|---|
//! | 0 | shard | `u16` |
//! | 2 | lineage | `u64` |
//! | 10 | clock | `u64` |
//! | 18 | bytes after the header, checksums included | `u64` |
//! | 26 | open sources | `u64` |
//! | 34 | ranges of complete sources | `u64` |
//! | 42 | tables | `u64` count, then each: |
//! | +0 | dim | `u32` |
//! | +4 | slots | `u32` |
//! | +8 | rows | `u64` |
//! | +16 | columns, in the order in which they follow | `u64` count, then each: |
//! | +0 | kind: 1 keys, 2 weights, 3 slots | `u16` |
//! | +2 | bytes a row | `u64` |
//!
//! Rows are sorted by key, so the bytes depend on the content alone. A later column (counts, times
//! of last use) gets a new kind; readers that do not know it refuse it by its number. Each CRC-32
//! follows its section, not the header: a writer may then stream a shard without knowing a
//! checksum before it has seen the last row, and a reader checks a section as it comes.

use std::path::Path;

use bincode::{Decode, Encode};

use crate::id::{Clock, Lineage, ShardId};
use crate::key::Key;
use crate::windows::Windows;

use super::header::Format;
use super::reader::{Reader, floats, put_floats, put_section, words};
use super::{FormatError, ShardImage, TableImage, windows};

/// Shard files may come from the network, so the limit is what 1,024 tables need, not more.
const FORMAT: Format<{ 1 << 20 }> = Format {
    magic: *b"WL-SHARD",
    version: 1,
    other: "this is not a shard file",
};

const KEYS: u16 = 1;
const WEIGHTS: u16 = 2;
const SLOTS: u16 = 3;

/// Bytes of a section's checksum.
const CRC_BYTES: u64 = 4;

#[derive(Debug, Encode, Decode)]
struct Header {
    shard: u16,
    lineage: u64,
    clock: u64,
    body_bytes: u64,
    open: u64,
    ranges: u64,
    tables: Vec<TableHeader>,
}

#[derive(Debug, Encode, Decode)]
struct TableHeader {
    dim: u32,
    slots: u32,
    rows: u64,
    columns: Vec<Column>,
}

#[derive(Debug, PartialEq, Encode, Decode)]
struct Column {
    kind: u16,
    row_bytes: u64,
}

/// What a shard file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSummary {
    /// The shard.
    pub shard: ShardId,
    /// The life of the state.
    pub lineage: Lineage,
    /// Pushes applied.
    pub clock: Clock,
    /// Which pushes those are.
    pub windows: Windows,
    /// Rows, over all tables.
    pub rows: u64,
}

/// Writes a shard; the bytes depend on its content alone, not on the order of its rows.
///
/// # Panics
/// With more than about 19,000 tables; a schema has at most 1,024.
#[must_use]
pub fn encode_shard(image: &ShardImage) -> Vec<u8> {
    let mut header = Header {
        shard: image.shard.0,
        lineage: image.lineage.0,
        clock: image.clock.0,
        body_bytes: 0,
        open: image.windows.open().len() as u64,
        ranges: image.windows.complete().ranges().len() as u64,
        tables: image.tables.iter().map(TableHeader::of).collect(),
    };
    let body_bytes = header.sections_bytes().unwrap_or_default();
    header.body_bytes = body_bytes;
    #[expect(
        clippy::expect_used,
        reason = "a job has at most 1024 tables, of 54 bytes each"
    )]
    let mut out = FORMAT
        .encode(&header)
        .expect("the header is below its limit");
    out.reserve_exact(usize::try_from(body_bytes).unwrap_or_default());
    put_section(&mut out, |out| windows::put(&image.windows, out));
    for table in &image.tables {
        put_table(table, &mut out);
    }
    out
}

/// Reads a shard and checks all of it; `name` is the file's, for errors. Rows come sorted by key.
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
        clock: Clock(header.clock),
        windows,
        rows: header.tables.iter().map(|table| table.rows).sum(),
    })
}

impl Header {
    fn windows_bytes(&self) -> Option<u64> {
        windows::section_bytes(self.open, self.ranges)
    }

    /// Sums all sections with their checksums; `None` when that is beyond any file.
    fn sections_bytes(&self) -> Option<u64> {
        let columns = self.tables.iter().flat_map(TableHeader::column_bytes);
        std::iter::once(self.windows_bytes())
            .chain(columns)
            .try_fold(0u64, |sum, section| {
                sum.checked_add(section?)?.checked_add(CRC_BYTES)
            })
    }
}

impl TableHeader {
    fn of(table: &TableImage) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a dim is at most 65536, and an optimizer has at most two floats a weight"
        )]
        let (dim, slots) = (table.dim as u32, table.slots as u32);
        Self {
            dim,
            slots,
            rows: table.keys.len() as u64,
            columns: Column::all(dim, slots).into(),
        }
    }

    fn column_bytes(&self) -> impl Iterator<Item = Option<u64>> {
        self.columns
            .iter()
            .map(|column| self.rows.checked_mul(column.row_bytes))
    }
}

impl Column {
    /// The columns of version 1.
    fn all(dim: u32, slots: u32) -> [Self; 3] {
        let column = |kind, row_bytes| Self { kind, row_bytes };
        [
            column(KEYS, 8),
            column(WEIGHTS, 4 * u64::from(dim)),
            column(SLOTS, 4 * u64::from(slots)),
        ]
    }
}

/// Takes the header and checks that exactly the sections that it lists follow.
fn take_header<'a>(bytes: &'a [u8], name: &'a Path) -> Result<(Header, Reader<'a>), FormatError> {
    let mut reader = Reader::new(bytes, name);
    let header: Header = FORMAT.decode(&mut reader)?;
    for (i, table) in header.tables.iter().enumerate() {
        let unknown = |column: &&Column| !(KEYS..=SLOTS).contains(&column.kind);
        if let Some(column) = table.columns.iter().find(unknown) {
            return Err(FormatError::UnknownColumn {
                path: name.into(),
                table: i,
                kind: column.kind,
            });
        }
        if table.columns != Column::all(table.dim, table.slots) {
            let what = "a table's columns are not keys, weights and slots of its shape";
            return Err(reader.damaged(0, what));
        }
    }
    if header.sections_bytes() != Some(header.body_bytes) {
        return Err(reader.damaged(0, "the header's counts and length contradict each other"));
    }
    // From here on every length in the header is at most that of the file.
    match (reader.left() as u64).cmp(&header.body_bytes) {
        std::cmp::Ordering::Less => Err(reader.damaged(bytes.len(), "the file ends too early")),
        std::cmp::Ordering::Equal => Ok((header, reader)),
        std::cmp::Ordering::Greater => {
            let end = bytes.len() - reader.left() + length(header.body_bytes, bytes);
            Err(reader.damaged(end, "bytes follow the end of the file"))
        }
    }
}

/// A length that [`take_header`] found to be at most the file's, as an index.
fn length(length: u64, file: &[u8]) -> usize {
    debug_assert!(length <= file.len() as u64);
    usize::try_from(length).map_or(file.len(), |length| length.min(file.len()))
}

fn put_table(table: &TableImage, out: &mut Vec<u8>) {
    let TableImage { dim, slots, .. } = *table;
    let width = dim + slots;
    debug_assert_eq!(table.rows.len(), table.keys.len() * width);
    let mut order: Vec<usize> = (0..table.keys.len()).collect();
    order.sort_unstable_by_key(|&row| table.keys[row]);

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
}

fn take_table(header: &TableHeader, reader: &mut Reader<'_>) -> Result<TableImage, FormatError> {
    let (dim, slots) = (header.dim as usize, header.slots as usize);
    let start = reader.at();
    let rows = usize::try_from(header.rows).unwrap_or(usize::MAX);
    let keys = reader.section(rows.saturating_mul(8), "the keys' checksum differs")?;
    let keys: Vec<Key> = words(keys).map(Key).collect();
    if let Some(i) = keys.windows(2).position(|pair| pair[0] >= pair[1]) {
        return Err(reader.damaged(start + 8 * (i + 1), "keys do not ascend"));
    }
    let mut part = |width: usize, wrong| reader.section(rows.saturating_mul(4 * width), wrong);
    let weights = part(dim, "the weights' checksum differs")?;
    let states = part(slots, "the slots' checksum differs")?;
    let mut values = Vec::with_capacity(rows * (dim + slots));
    for row in 0..rows {
        values.extend(floats(&weights[row * 4 * dim..][..4 * dim]));
        values.extend(floats(&states[row * 4 * slots..][..4 * slots]));
    }
    Ok(TableImage {
        dim,
        slots,
        keys,
        rows: values,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::samples::{image, images, sorted};

    fn decode(bytes: &[u8]) -> Result<ShardImage, FormatError> {
        decode_shard(bytes, Path::new("ckpt/0007.shard"))
    }

    /// Where the error says that the damage is; the name must be there too.
    #[track_caller]
    fn place<T: std::fmt::Debug>(result: Result<T, FormatError>) -> usize {
        match result {
            Err(FormatError::Damaged { path, offset, .. }) => {
                assert_eq!(path, Path::new("ckpt/0007.shard"));
                usize::try_from(offset).unwrap()
            }
            other => panic!("not found to be damaged: {other:?}"),
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_sorted(image in images()) {
            let bytes = encode_shard(&image);
            prop_assert_eq!(decode(&bytes).unwrap(), sorted(&image));
            let summary = inspect_shard(&bytes, Path::new("x")).unwrap();
            prop_assert_eq!(summary.shard, image.shard);
            prop_assert_eq!(summary.lineage, image.lineage);
            prop_assert_eq!(summary.clock, image.clock);
            let rows: usize = image.tables.iter().map(|t| t.keys.len()).sum();
            prop_assert_eq!(summary.rows, rows as u64);
        }

        #[test]
        fn equal_content_gives_equal_bytes(image in images()) {
            prop_assert_eq!(encode_shard(&image), encode_shard(&sorted(&image)));
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode(&bytes).is_err());
        }

        /// Headers with good checksums that say anything, in front of anything.
        #[test]
        fn hostile_headers_are_refused_without_a_panic(
            numbers in prop::array::uniform8(prop_oneof![0u64..4, any::<u64>()]),
            (dim, slots) in (any::<u32>(), 0u32..4),
            honest in any::<bool>(),
            body in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let [open, ranges, rows, body_bytes, ..] = numbers;
            let columns = Column::all(dim, slots).into();
            let tables = vec![TableHeader { dim, slots, rows, columns }];
            let mut header = Header {
                shard: 0, lineage: 0, clock: 0, body_bytes, open, ranges, tables,
            };
            if honest {
                header.body_bytes = header.sections_bytes().unwrap_or(body_bytes);
            }
            let mut bytes = FORMAT.encode(&header).unwrap();
            bytes.extend_from_slice(&body);
            prop_assert!(decode(&bytes).is_err());
            prop_assert!(inspect_shard(&bytes, Path::new("x")).is_err());
        }

        #[test]
        fn many_changed_bytes_are_found(
            image in images(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            let whole = encode_shard(&image);
            let mut bytes = whole.clone();
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            prop_assume!(bytes != whole);
            prop_assert!(decode(&bytes).is_err());
        }
    }

    #[test]
    fn every_flipped_bit_is_found_at_or_before_its_place() {
        let whole = encode_shard(&image());
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                assert!(place(decode(&bytes)) <= at, "bit {bit} of byte {at}");
                assert!(place(inspect_shard(&bytes, Path::new("ckpt/0007.shard"))) <= at);
            }
        }
    }

    #[test]
    fn every_cut_is_found_at_or_before_its_place() {
        let whole = encode_shard(&image());
        for cut in 0..whole.len() {
            assert!(place(decode(&whole[..cut])) <= cut, "cut at {cut}");
        }
    }

    #[test]
    fn bytes_after_the_end_are_found_there() {
        let mut bytes = encode_shard(&image());
        let end = bytes.len();
        bytes.push(0);
        assert_eq!(place(decode(&bytes)), end);
    }

    #[test]
    fn damage_in_a_section_is_told_at_its_start() {
        let image = ShardImage {
            tables: vec![image().tables.swap_remove(0)],
            ..ShardImage::default()
        };
        let mut bytes = encode_shard(&image);
        let TableImage {
            slots, ref keys, ..
        } = image.tables[0];
        let slots_at = bytes.len() - (4 * slots * keys.len() + 4);
        bytes[slots_at + 5] ^= 1;
        assert_eq!(place(decode(&bytes)), slots_at);
    }

    #[test]
    fn the_bits_of_a_nan_survive() {
        let bits = 0x7fa0_1234;
        let mut image = image();
        image.tables[0].rows[0] = f32::from_bits(bits);
        let read = decode(&encode_shard(&image)).unwrap();
        assert!(read.tables[0].rows.iter().any(|v| v.to_bits() == bits));
    }

    #[test]
    fn a_column_of_a_later_time_is_refused_by_its_number() {
        let mut table = TableHeader::of(&image().tables[0]);
        table.columns.push(Column {
            kind: 9,
            row_bytes: 4,
        });
        let header = Header {
            shard: 0,
            lineage: 0,
            clock: 0,
            body_bytes: 0,
            open: 0,
            ranges: 0,
            tables: vec![table],
        };
        let error = decode(&FORMAT.encode(&header).unwrap()).unwrap_err();
        assert!(matches!(
            error,
            FormatError::UnknownColumn {
                table: 0,
                kind: 9,
                ..
            }
        ));
        assert!(
            error
                .to_string()
                .starts_with("ckpt/0007.shard: table 0 has a column of kind 9")
        );
    }

    #[test]
    fn keys_that_do_not_ascend_are_refused_at_their_place() {
        let table = TableImage {
            dim: 0,
            slots: 0,
            keys: vec![Key(1), Key(2)],
            rows: Vec::new(),
        };
        let mut bytes = encode_shard(&ShardImage {
            tables: vec![table],
            ..ShardImage::default()
        });
        // From the end: three checksums, of which two are of empty columns, and two keys.
        let keys_at = bytes.len() - 12 - 16;
        bytes.copy_within(keys_at..keys_at + 8, keys_at + 8);
        let crc = crc32fast::hash(&bytes[keys_at..keys_at + 16]);
        bytes[keys_at + 16..keys_at + 20].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(place(decode(&bytes)), keys_at + 8);
    }
}
