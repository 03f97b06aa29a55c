//! What a format must do: turn a line into an example, and say what its features are called.

use windlass_common::batch::Batch;
use windlass_common::config::{DataConfig, Format};
use windlass_common::key::Key;

use super::criteo::CriteoParser;
use super::csv::CsvParser;
use super::header::Header;
use super::labels::{LabelRule, Labels};
use super::libffm::LibffmParser;
use super::libsvm::LibsvmParser;
use crate::error::Result;

/// What a line was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// An example; it is the batch's last now.
    Example,
    /// Blank, or a comment.
    Nothing,
}

/// A field of a line that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadField {
    /// Where it begins: a byte of the line, from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}

/// A format of examples, one a line.
pub trait RowParser: Send {
    /// Appends the line's example to `out`.
    ///
    /// # Errors
    /// The first field that is bad; features of the example that were pushed already stay in `out`
    /// until [`Batch::abandon_example`].
    fn parse(&mut self, line: &[u8], out: &mut Batch) -> Result<Parsed, BadField>;

    /// Names each feature of the line's example, as people read it: `carrier=UA`, `distance`,
    /// `origin=EWR,dest=IAH`, `dest=(missing)`, or an integer index in digits.
    ///
    /// # Errors
    /// The first feature that is bad. The label is not read.
    fn describe(&mut self, line: &[u8], visit: &mut dyn FnMut(Key, &str)) -> Result<(), BadField>;
}

/// Builds the parser of the config's format. CSV needs the names of the file's columns.
///
/// # Errors
/// A column that the file does not have, or settings that no parser can follow.
pub fn parser_for(
    config: &DataConfig,
    labels: LabelRule,
    header: Option<&Header>,
) -> Result<Box<dyn RowParser>> {
    Ok(match config.format {
        Format::Libsvm => Box::new(LibsvmParser::new(Labels::numbers(labels))),
        Format::Libffm => Box::new(LibffmParser::new(Labels::numbers(labels))),
        Format::Criteo => Box::new(CriteoParser::new(
            Labels::numbers(labels),
            config.criteo_numbers,
        )),
        Format::Csv => Box::new(CsvParser::new(config, labels, header)?),
    })
}

impl BadField {
    /// Blames what begins at a byte of the line, counted from 0.
    pub(super) fn at(offset: usize, what: String) -> Self {
        Self {
            column: offset + 1,
            what,
        }
    }
}

/// Quotes a piece of a line for a message, shortened where it is long.
pub(super) fn shown(text: &[u8]) -> String {
    const LONGEST: usize = 40;
    if text.len() <= LONGEST {
        return format!("`{}`", String::from_utf8_lossy(text));
    }
    format!("`{}...`", String::from_utf8_lossy(&text[..LONGEST]))
}
