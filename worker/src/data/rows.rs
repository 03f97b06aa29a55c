//! The rows of a split, one after the other, and what a bad one does.

use std::path::Path;

use tracing::warn;
use windlass_common::batch::Batch;
use windlass_common::config::OnBadRow;
use windlass_common::key::Key;
use windlass_common::split::{InputFile, Split};

use super::header::Header;
use super::lines::{Line, Lines};
use super::parser::{BadField, RowParser, parser_for};
use super::split_reader::ReadPlan;
use crate::error::{Error, Result};

/// Reads the rows of a split in the file's order.
pub(super) struct Rows {
    lines: Lines,
    parser: Box<dyn RowParser>,
    on_bad_row: OnBadRow,
    skipped: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    Ended,
    /// An error was told. The read never ends properly after it.
    Failed,
}

impl Rows {
    /// Opens a split of a file.
    ///
    /// # Errors
    /// A file that cannot be read, or without the columns that the config names.
    pub(super) fn open(
        plan: &ReadPlan,
        path: &Path,
        input: &InputFile,
        split: Split,
    ) -> Result<Self> {
        let header = Header::read(&plan.data, path, input)?;
        let parser = parser_for(&plan.data, plan.labels, header.as_ref())?;
        let mut lines = Lines::open(path, input, split, plan.data.max_line)?;
        if header.is_some() && plan.data.header && split.start == 0 {
            lines.next_line()?;
        }
        Ok(Self {
            lines,
            parser,
            on_bad_row: plan.data.on_bad_row,
            skipped: 0,
            state: State::Reading,
        })
    }

    /// Appends rows to `out` until it has so many rows or features, or the split ends. A row is
    /// never cut, so there may be more features than asked for.
    ///
    /// # Errors
    /// A file that cannot be read on, or a bad row that may not be skipped; ever after, that this
    /// read has failed.
    pub(super) fn read(&mut self, rows: usize, features: usize, out: &mut Batch) -> Result<()> {
        while out.len() < rows && out.keys.len() < features {
            let more = self.step(|parser, line| match parser.parse(line, out) {
                Ok(_) => Ok(()),
                Err(bad) => {
                    out.abandon_example();
                    Err(bad)
                }
            })?;
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// Hands the name of every feature of the rows that are left to `visit`.
    ///
    /// # Errors
    /// As for [`Rows::read`].
    pub(super) fn describe(&mut self, visit: &mut dyn FnMut(Key, &str)) -> Result<()> {
        while self.step(|parser, line| parser.describe(line, visit))? {}
        Ok(())
    }

    /// How many bad rows were dropped.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// How many of the split's bytes are read.
    pub(super) fn bytes_read(&self) -> u64 {
        self.lines.bytes_read()
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        self.lines.path()
    }

    /// Works on the next line; false at the checked end of the split.
    fn step(
        &mut self,
        work: impl FnOnce(&mut dyn RowParser, &[u8]) -> Result<(), BadField>,
    ) -> Result<bool> {
        match self.state {
            State::Ended => return Ok(false),
            State::Failed => {
                return Err(Error::ReadFailed {
                    path: self.path().to_owned(),
                });
            }
            State::Reading => {}
        }
        // Only what goes well to its end takes this mark back.
        self.state = State::Failed;
        let bad = match self.lines.next_line()? {
            None => {
                self.state = State::Ended;
                self.report_skipped();
                return Ok(false);
            }
            Some(Line::Whole(line)) => work(self.parser.as_mut(), line).err(),
            Some(Line::TooLong(what)) => Some(BadField::at(0, what)),
        };
        if let Some(bad) = bad {
            self.judge(bad)?;
        }
        self.state = State::Reading;
        Ok(true)
    }

    fn judge(&mut self, bad: BadField) -> Result<()> {
        match self.on_bad_row {
            OnBadRow::Skip => {
                self.skipped += 1;
                Ok(())
            }
            OnBadRow::Error => Err(Error::BadRow {
                path: self.path().to_owned(),
                line: self.lines.line_number()?,
                column: bad.column,
                what: bad.what,
            }),
        }
    }

    fn report_skipped(&self) {
        if self.skipped > 0 {
            warn!(file = %self.path().display(), rows = self.skipped, "bad rows skipped");
        }
    }
}
