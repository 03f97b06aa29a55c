//! The header of a shard file: which sections follow it, and how long they are.

use std::path::Path;

use bincode::{Decode, Encode};

use crate::id::{Boot, CheckpointId, Clock, Lsn};

use super::header::Format;
use super::reader::Reader;
use super::{Base, FormatError, Mark, TableImage, Turnover, windows};

/// Shard files may come from the network, so the limit is what 1,024 tables need, not more.
pub(super) const FORMAT: Format<{ 1 << 20 }> = Format {
    magic: *b"WL-SHARD",
    version: 1,
    other: "this is not a shard file",
};

const KEYS: u16 = 1;
const WEIGHTS: u16 = 2;
const SLOTS: u16 = 3;
pub(super) const DELETED: u16 = 4;
pub(super) const USED: u16 = 5;
pub(super) const SKETCH: u16 = 6;

/// Bytes of a section's checksum.
const CRC_BYTES: u64 = 4;

#[derive(Debug, Encode, Decode)]
pub(super) struct Header {
    pub(super) shard: u16,
    pub(super) lineage: u64,
    pub(super) mark: MarkRecord,
    pub(super) clock: u64,
    pub(super) base: u64,
    pub(super) base_mark: MarkRecord,
    pub(super) base_clock: u64,
    pub(super) body_bytes: u64,
    pub(super) open: u64,
    pub(super) ranges: u64,
    pub(super) tables: Vec<TableHeader>,
}

#[derive(Debug, Default, PartialEq, Encode, Decode)]
pub(super) struct MarkRecord {
    pub(super) boot: u64,
    pub(super) lsn: u64,
}

#[derive(Debug, Encode, Decode)]
pub(super) struct TableHeader {
    pub(super) dim: u32,
    pub(super) slots: u32,
    pub(super) rows: u64,
    pub(super) deleted: u64,
    pub(super) sketch: u64,
    pub(super) sighted: u64,
    pub(super) refused: u64,
    pub(super) evicted: u64,
    pub(super) columns: Vec<Column>,
}

#[derive(Debug, PartialEq, Encode, Decode)]
pub(super) struct Column {
    pub(super) kind: u16,
    pub(super) row_bytes: u64,
}

impl MarkRecord {
    pub(super) fn of(mark: Mark) -> Self {
        Self {
            boot: mark.boot.0,
            lsn: mark.lsn.0,
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            boot: Boot(self.boot),
            lsn: Lsn(self.lsn),
        }
    }
}

impl Header {
    pub(super) fn base(&self) -> Option<Base> {
        (self.base > 0).then(|| Base {
            checkpoint: CheckpointId(self.base),
            mark: self.base_mark.mark(),
            clock: Clock(self.base_clock),
        })
    }

    /// Whether it names a base fully, or not at all.
    pub(super) fn base_is_whole(&self) -> bool {
        self.base > 0 || (self.base_mark == MarkRecord::default() && self.base_clock == 0)
    }

    pub(super) fn windows_bytes(&self) -> Option<u64> {
        windows::section_bytes(self.open, self.ranges)
    }

    /// Sums all sections with their checksums; `None` when that is beyond any file.
    pub(super) fn sections_bytes(&self) -> Option<u64> {
        let columns = self.tables.iter().flat_map(TableHeader::column_bytes);
        std::iter::once(self.windows_bytes())
            .chain(columns)
            .try_fold(0u64, |sum, section| {
                sum.checked_add(section?)?.checked_add(CRC_BYTES)
            })
    }
}

impl TableHeader {
    pub(super) fn of(table: &TableImage, delta: bool) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a dim is at most 65536, and an optimizer has at most two floats a weight"
        )]
        let (dim, slots) = (table.dim as u32, table.slots as u32);
        let Turnover {
            sighted,
            refused,
            evicted,
        } = table.turnover;
        let mut header = Self {
            dim,
            slots,
            rows: table.keys.len() as u64,
            deleted: table.deleted.len() as u64,
            sketch: table.sketch.len() as u64,
            sighted,
            refused,
            evicted,
            columns: Vec::new(),
        };
        header.columns = header.expected(delta, !table.used.is_empty());
        header
    }

    /// The columns of version 1.
    pub(super) fn expected(&self, delta: bool, used: bool) -> Vec<Column> {
        let column = |kind, row_bytes| Column { kind, row_bytes };
        let always = [
            column(KEYS, 8),
            column(WEIGHTS, 4 * u64::from(self.dim)),
            column(SLOTS, 4 * u64::from(self.slots)),
        ];
        always
            .into_iter()
            .chain(delta.then(|| column(DELETED, 8)))
            .chain(used.then(|| column(USED, 4)))
            .chain((self.sketch > 0).then(|| column(SKETCH, 1)))
            .collect()
    }

    /// Whether it has a column of this kind.
    pub(super) fn has(&self, kind: u16) -> bool {
        self.columns.iter().any(|column| column.kind == kind)
    }

    pub(super) fn turnover(&self) -> Turnover {
        Turnover {
            sighted: self.sighted,
            refused: self.refused,
            evicted: self.evicted,
        }
    }

    pub(super) fn column_bytes(&self) -> impl Iterator<Item = Option<u64>> {
        self.columns.iter().map(|column| {
            let rows = match column.kind {
                DELETED => self.deleted,
                SKETCH => self.sketch,
                _ => self.rows,
            };
            rows.checked_mul(column.row_bytes)
        })
    }
}

/// Takes the header and checks that exactly the sections that it lists follow.
pub(super) fn take_header<'a>(
    bytes: &'a [u8],
    name: &'a Path,
) -> Result<(Header, Reader<'a>), FormatError> {
    let mut reader = Reader::new(bytes, name);
    let header: Header = FORMAT.decode(&mut reader)?;
    for (i, table) in header.tables.iter().enumerate() {
        let unknown = |column: &&Column| !(KEYS..=SKETCH).contains(&column.kind);
        if let Some(column) = table.columns.iter().find(unknown) {
            return Err(FormatError::UnknownColumn {
                path: name.into(),
                table: i,
                kind: column.kind,
            });
        }
        let delta = header.base > 0;
        if table.columns != table.expected(delta, table.rows > 0 && table.has(USED)) {
            let what = "a table's columns are not those of version 1, or in another order";
            return Err(reader.damaged(0, what));
        }
        if !delta && table.deleted > 0 {
            return Err(reader.damaged(0, "a table has deleted keys in a file without a base"));
        }
    }
    if !header.base_is_whole() {
        return Err(reader.damaged(0, "a base has a mark and no checkpoint"));
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
pub(super) fn length(length: u64, file: &[u8]) -> usize {
    debug_assert!(length <= file.len() as u64);
    usize::try_from(length).map_or(file.len(), |length| length.min(file.len()))
}
