//! Segments of a server's log, version 1: their bytes alone. `docs/formats.md` tells the layout.
//!
//! Reading order: `record` (one push in one shard), `group` (what is there whole or not at all),
//! `segment` (a file's name and header), `scan` (a file, group by group).

mod group;
mod record;
mod scan;
mod segment;
#[cfg(test)]
mod tests;

pub use group::{Group, GroupBuilder, MAX_GROUP_BYTES};
pub use record::{Entry, MAX_RECORD_BYTES, Record, TableRecord};
pub use scan::{Scan, Sweep, sweep};
pub use segment::{Sealed, SegmentHeader, SegmentNumber};
