//! From files to batches: streaming, bounded in memory, exact about what is wrong and where.
//!
//! Reading order: `input` (files and their fingerprints), `lines` (a split's lines), `parser` (a
//! line to an example: `libsvm`, `libffm`, `csv`, `criteo`, on top of `labels`, `number`,
//! `features`, `fields`, `header`), `rows` (lines to rows, and what a bad one does), `split_reader`
//! (rows to shuffled batches), `statistics`, `prepare` (a batch to the keys that it pulls).

mod criteo;
mod csv;
mod features;
mod fields;
#[cfg(test)]
mod fixture;
mod header;
mod input;
mod labels;
mod libffm;
mod libsvm;
mod lines;
mod number;
mod parser;
mod prepare;
mod rows;
mod split_reader;
mod statistics;

pub use header::Header;
pub use input::{Input, reading_digest};
pub use labels::LabelRule;
pub use parser::{BadField, Parsed, RowParser, parser_for};
pub use prepare::{Prepared, Preparer};
pub use split_reader::{ReadPlan, ShuffleSeed, SplitReader};
pub use statistics::with_statistics;
