//! The lines of a split: without allocation, within bounds, and never silently fewer than there
//! are.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use memchr::{memchr, memchr_iter};
use windlass_common::human::Size;
use windlass_common::split::{InputFile, Split};

use crate::error::{Error, Result};

/// Bytes asked of the system at once. 256 KiB: a tenth of a millisecond of parsing.
const CHUNK: usize = 256 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// It is longer than it may be, as this message says, and was not kept.
    TooLong(String),
}

/// Reads the lines that begin in a split of a file.
///
/// Lines end with `\n` or `\r\n`; the file's last one may do without. A byte order mark at the
/// file's beginning is not part of its first line. `None` is answered only at a checked end: after
/// an error the lines must not be read on.
pub(super) struct Lines {
    path: PathBuf,
    source: Source,
    /// The file's length when it was listed.
    listed: u64,
    split: Split,
    max_line: usize,
    buffer: Vec<u8>,
    /// The bytes of `buffer` that are read and not yet handed out.
    unread: Range<usize>,
    /// Where in the text `unread` begins.
    offset: u64,
    /// Where in the text the last line began.
    line_start: u64,
    /// How many lines were handed out.
    number: u64,
}

enum Source {
    Plain(File),
    Gzip(Box<MultiGzDecoder<BufReader<Counted>>>),
}

/// A file that counts what is read of it.
struct Counted {
    file: File,
    bytes: u64,
}

impl Lines {
    /// Opens a split of a file. Of a file that is not divisible that is all of it, as gzip.
    ///
    /// # Errors
    /// A file that cannot be read, or whose length is not what was listed.
    pub(super) fn open(
        path: &Path,
        input: &InputFile,
        split: Split,
        max_line: Size,
    ) -> Result<Self> {
        let file = File::open(path).map_err(|source| io_error(path, source))?;
        let source = if input.divisible {
            Source::Plain(file)
        } else {
            let counted = Counted { file, bytes: 0 };
            let reader = BufReader::with_capacity(CHUNK, counted);
            // The decoder reads the first header at once, and tells what is wrong later.
            Source::Gzip(Box::new(MultiGzDecoder::new(reader)))
        };
        let mut lines = Self {
            path: path.to_owned(),
            source,
            listed: input.bytes,
            split,
            max_line: usize::try_from(max_line.bytes()).unwrap_or(usize::MAX),
            buffer: vec![0; CHUNK],
            unread: 0..0,
            offset: 0,
            line_start: 0,
            number: 0,
        };
        lines.check_length()?;
        if input.divisible && split.start > 0 {
            lines.skip_to(split.start)?;
        }
        Ok(lines)
    }

    /// Reads the next line.
    ///
    /// # Errors
    /// A file that cannot be read, is cut short, damaged, or changed since it was listed.
    pub(super) fn next_line(&mut self) -> Result<Option<Line<'_>>> {
        if matches!(self.source, Source::Plain(_)) && self.offset >= self.split.end {
            self.check_length()?;
            return Ok(None);
        }
        let Some((line, whole)) = self.advance()? else {
            self.check_length()?;
            return Ok(None);
        };
        self.number += 1;
        if whole {
            return Ok(Some(Line::Whole(&self.buffer[line])));
        }
        let longest = Size::from_bytes(self.max_line as u64);
        let what = format!("the line is longer than {longest} (data.max_line)");
        Ok(Some(Line::TooLong(what)))
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How many of the split's bytes are read: of the file's own, compressed or not.
    pub(super) fn bytes_read(&self) -> u64 {
        match &self.source {
            Source::Plain(_) => {
                self.offset.clamp(self.split.start, self.split.end) - self.split.start
            }
            Source::Gzip(decoder) => decoder.get_ref().get_ref().bytes,
        }
    }

    /// The number of the last line in its file, from 1.
    ///
    /// For a split inside a file the line breaks before it are counted now, since only messages
    /// want the number.
    ///
    /// # Errors
    /// A file that cannot be read again.
    pub(super) fn line_number(&self) -> Result<u64> {
        if self.split.start == 0 || matches!(self.source, Source::Gzip(_)) {
            return Ok(self.number);
        }
        let file = File::open(&self.path).map_err(|source| io_error(&self.path, source))?;
        let mut before = file.take(self.line_start);
        let mut chunk = vec![0; CHUNK];
        let mut breaks = 0;
        loop {
            let read = before.read(&mut chunk);
            match read.map_err(|source| io_error(&self.path, source))? {
                0 => return Ok(breaks + 1),
                read => breaks += memchr_iter(b'\n', &chunk[..read]).count() as u64,
            }
        }
    }

    /// Finds the next line in the buffer, and whether it is whole; `None` at the end of the input.
    fn advance(&mut self) -> Result<Option<(Range<usize>, bool)>> {
        self.line_start = self.offset;
        let mut whole = true;
        let mut searched = 0;
        loop {
            let from = self.unread.start + searched;
            if let Some(length) = memchr(b'\n', &self.buffer[from..self.unread.end]) {
                let end = from + length;
                return Ok(Some(self.take_line(end, end + 1, whole)));
            }
            // One byte more than a line may have: the `\r` of its end.
            if self.unread.len() > self.max_line.saturating_add(1) {
                whole = false;
                self.consume(self.unread.end);
            }
            searched = self.unread.len();
            if !self.fill()? {
                if self.unread.is_empty() && whole {
                    return Ok(None);
                }
                let end = self.unread.end;
                return Ok(Some(self.take_line(end, end, whole)));
            }
        }
    }

    /// Consumes what is unread up to `next`; the line is what lies before `end`.
    fn take_line(&mut self, end: usize, next: usize, whole: bool) -> (Range<usize>, bool) {
        let mut line = self.unread.start..end;
        self.consume(next);
        if self.line_start == 0 && self.buffer[line.clone()].starts_with(BYTE_ORDER_MARK) {
            line.start += BYTE_ORDER_MARK.len();
        }
        if self.buffer[line.clone()].ends_with(b"\r") {
            line.end -= 1;
        }
        let whole = whole && line.len() <= self.max_line;
        (line, whole)
    }

    fn consume(&mut self, next: usize) {
        self.offset += (next - self.unread.start) as u64;
        self.unread.start = next;
    }

    /// Reads more behind what is unread, for which the buffer grows as far as a line may; false at
    /// the end of the input.
    fn fill(&mut self) -> Result<bool> {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.unread.end == self.buffer.len() {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        let free = &mut self.buffer[self.unread.end..];
        let read = loop {
            let read = match &mut self.source {
                Source::Plain(file) => file.read(free),
                Source::Gzip(decoder) => decoder.read(free),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let read = read.map_err(|source| self.read_error(source))?;
        self.unread.end += read;
        let read_to = self.offset + self.unread.len() as u64;
        let ended = read == 0;
        if matches!(self.source, Source::Plain(_))
            && (read_to > self.listed || ended && read_to != self.listed)
        {
            return Err(self.changed(read_to));
        }
        Ok(!ended)
    }

    /// Goes to the first line that begins at `start` or later.
    fn skip_to(&mut self, start: u64) -> Result<()> {
        // The byte before decides: after a line break, `start` begins a line.
        self.offset = start - 1;
        if let Source::Plain(file) = &mut self.source {
            file.seek(SeekFrom::Start(self.offset))
                .map_err(|source| io_error(&self.path, source))?;
        }
        self.advance().map(|_| ())
    }

    fn check_length(&self) -> Result<()> {
        let file = match &self.source {
            Source::Plain(file) => file,
            Source::Gzip(decoder) => &decoder.get_ref().get_ref().file,
        };
        let metadata = file
            .metadata()
            .map_err(|source| io_error(&self.path, source))?;
        if metadata.len() == self.listed {
            Ok(())
        } else {
            Err(self.changed(metadata.len()))
        }
    }

    fn changed(&self, found: u64) -> Error {
        Error::Changed {
            path: self.path.clone(),
            listed: self.listed,
            found,
        }
    }

    fn read_error(&self, source: io::Error) -> Error {
        let path = self.path.clone();
        let text_bytes = self.offset + self.unread.len() as u64;
        let compressed = matches!(self.source, Source::Gzip(_));
        match source.kind() {
            io::ErrorKind::UnexpectedEof if compressed => Error::CutShort { path, text_bytes },
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if compressed => {
                Error::Damaged {
                    path,
                    text_bytes,
                    source,
                }
            }
            _ => Error::Io { path, source },
        }
    }
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(into)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

pub(super) fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
