//! One CSV line cut into its fields.

use std::ops::Range;

use csv_core::{ReadFieldResult, Reader, ReaderBuilder, Terminator};
use memchr::{memchr, memchr_iter};

use super::parser::BadField;

/// Cuts lines at a delimiter, with quotes as RFC 4180 has them.
///
/// A line without quotes is cut where it lies. One with quotes is unquoted into a buffer, which is
/// reused.
pub(super) struct Fields {
    delimiter: u8,
    trim: bool,
    quotes: Reader,
    unquoted: Vec<u8>,
    in_unquoted: bool,
    ranges: Vec<Range<usize>>,
    starts: Vec<usize>,
}

impl Fields {
    /// Cuts at `delimiter`; with `trim`, drops blanks around fields.
    pub(super) fn new(delimiter: u8, trim: bool) -> Self {
        Self {
            delimiter,
            trim,
            quotes: quotes(delimiter),
            unquoted: Vec::new(),
            in_unquoted: false,
            ranges: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Cuts a line.
    ///
    /// # Errors
    /// A quote that is not closed: a field may not contain a line break.
    pub(super) fn cut(&mut self, line: &[u8]) -> Result<(), BadField> {
        self.ranges.clear();
        self.starts.clear();
        self.in_unquoted = memchr(b'"', line).is_some();
        if self.in_unquoted {
            return self.unquote(line);
        }
        let mut start = 0;
        for end in memchr_iter(self.delimiter, line).chain([line.len()]) {
            self.ranges.push(start..end);
            self.starts.push(start);
            start = end + 1;
        }
        Ok(())
    }

    /// How many fields the line has.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The text of a field of `line`, which is the line that was cut last.
    pub(super) fn text<'a>(&'a self, line: &'a [u8], field: usize) -> &'a [u8] {
        let source = if self.in_unquoted {
            &self.unquoted
        } else {
            line
        };
        let text = &source[self.ranges[field].clone()];
        if self.trim { text.trim_ascii() } else { text }
    }

    /// Blames a field of the line that was cut last.
    pub(super) fn blame(&self, field: usize, what: String) -> BadField {
        BadField::at(self.starts.get(field).copied().unwrap_or(0), what)
    }

    fn unquote(&mut self, line: &[u8]) -> Result<(), BadField> {
        // Fields are never longer than the line; csv-core wants a byte of room at its end too.
        self.unquoted.clear();
        self.unquoted.resize(line.len() + 1, 0);
        let (mut at, mut written) = (0, 0);
        loop {
            let (start, from) = (at, written);
            if at < line.len() {
                let (result, read, wrote) = self
                    .quotes
                    .read_field(&line[at..], &mut self.unquoted[written..]);
                at += read;
                written += wrote;
                if matches!(result, ReadFieldResult::Field { .. }) {
                    self.ranges.push(from..written);
                    self.starts.push(start);
                    continue;
                }
            }
            // The line is over inside its last field. A break ends the field, unless it is quoted.
            let (result, _, wrote) = self.quotes.read_field(b"\n", &mut self.unquoted[written..]);
            if !matches!(result, ReadFieldResult::Field { record_end: true }) {
                self.quotes = quotes(self.delimiter);
                let what = "the quote is not closed on this line; a field may not contain a line \
                            break";
                return Err(BadField::at(start, what.to_owned()));
            }
            self.ranges.push(from..written + wrote);
            self.starts.push(start);
            return Ok(());
        }
    }
}

fn quotes(delimiter: u8) -> Reader {
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .terminator(Terminator::Any(b'\n'))
        .build();
    // The first read of a reader drops a byte order mark, and `Lines` has seen to that already: a
    // row must not depend on which rows were read before it.
    reader.read_field(b"\n", &mut [0]);
    reader
}

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fields")
            .field("delimiter", &char::from(self.delimiter))
            .field("trim", &self.trim)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(fields: &mut Fields, line: &str) -> Result<Vec<String>, BadField> {
        fields.cut(line.as_bytes())?;
        Ok((0..fields.len())
            .map(|i| String::from_utf8(fields.text(line.as_bytes(), i).to_vec()).unwrap())
            .collect())
    }

    fn check(line: &str, expected: &[&str]) {
        assert_eq!(
            cut(&mut Fields::new(b',', false), line).unwrap(),
            expected,
            "{line:?}"
        );
    }

    #[test]
    fn lines_are_cut_as_rfc_4180_says() {
        check("a,b,c", &["a", "b", "c"]);
        check("", &[""]);
        check(",", &["", ""]);
        check("a,,", &["a", "", ""]);
        check(r#""a,b",c"#, &["a,b", "c"]);
        check(r#""say ""hi""",c,"#, &[r#"say "hi""#, "c", ""]);
        check(r#"a,"""#, &["a", ""]);
        check(r#","b""#, &["", "b"]);
        check(r#"5" pipe,b"#, &[r#"5" pipe"#, "b"]);
        check("\u{feff}\"a\",b", &["\u{feff}\"a\"", "b"]);
    }

    #[test]
    fn blanks_are_kept_or_trimmed_as_asked() {
        check(" a, b ", &[" a", " b "]);
        assert_eq!(
            cut(&mut Fields::new(b',', true), " a, b ").unwrap(),
            ["a", "b"]
        );
        assert_eq!(
            cut(&mut Fields::new(b'\t', true), "a b\t c").unwrap(),
            ["a b", "c"]
        );
    }

    #[test]
    fn an_open_quote_is_refused_and_forgotten() {
        let mut fields = Fields::new(b',', false);
        let bad = cut(&mut fields, r#"a,"b,c"#).unwrap_err();
        assert_eq!(bad.column, 3);
        assert_eq!(
            bad.what,
            "the quote is not closed on this line; a field may not contain a line break"
        );
        assert_eq!(cut(&mut fields, r#""d",e"#).unwrap(), ["d", "e"]);
    }

    #[test]
    fn fields_know_where_they_begin() {
        let mut fields = Fields::new(b',', false);
        for line in ["aa,bb,cc", r#""a","b",cc"#] {
            fields.cut(line.as_bytes()).unwrap();
            let at = line.rfind(',').unwrap() + 2;
            assert_eq!(fields.blame(2, String::new()).column, at);
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_read_back(
            values in prop::collection::vec("[a-c,\" ;]{0,6}", 1..6),
        ) {
            let quoted: Vec<_> = values
                .iter()
                .map(|value| format!("\"{}\"", value.replace('"', "\"\"")))
                .collect();
            let found = cut(&mut Fields::new(b',', false), &quoted.join(",")).unwrap();
            prop_assert_eq!(found, values);
        }
    }
}
