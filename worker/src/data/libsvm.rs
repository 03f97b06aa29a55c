//! `label index:value index:value ...`, separated by blanks; `#` begins a comment.

use windlass_common::batch::Batch;
use windlass_common::key::Key;

use super::labels::Labels;
use super::number::{small_float, whole};
use super::parser::{BadField, Parsed, RowParser, shown};

/// Reads LIBSVM lines: an index is the key as it is, and the field is 0.
#[derive(Debug)]
pub(super) struct LibsvmParser {
    labels: Labels,
}

impl LibsvmParser {
    /// Reads lines whose labels follow a rule.
    pub(super) fn new(labels: Labels) -> Self {
        Self { labels }
    }
}

impl RowParser for LibsvmParser {
    fn parse(&mut self, line: &[u8], out: &mut Batch) -> Result<Parsed, BadField> {
        let mut tokens = Tokens::of(line);
        let Some((at, text)) = tokens.next() else {
            return Ok(Parsed::Nothing);
        };
        let label = self
            .labels
            .read(text)
            .map_err(|what| BadField::at(at, what))?;
        for (at, token) in tokens {
            let (key, value) = feature(at, token)?;
            out.push_feature(0, key, value);
        }
        out.finish_example(label, 1.0);
        Ok(Parsed::Example)
    }

    fn describe(&mut self, line: &[u8], visit: &mut dyn FnMut(Key, &str)) -> Result<(), BadField> {
        for (at, token) in Tokens::of(line).skip(1) {
            let (key, _) = feature(at, token)?;
            visit(key, &key.0.to_string());
        }
        Ok(())
    }
}

fn feature(at: usize, token: &[u8]) -> Result<(Key, f32), BadField> {
    let Some(colon) = token.iter().position(|&byte| byte == b':') else {
        return Err(BadField::at(
            at,
            format!("{} is not INDEX:VALUE", shown(token)),
        ));
    };
    let key = index(at, &token[..colon])?;
    let value = value(at + colon + 1, &token[colon + 1..])?;
    Ok((key, value))
}

/// Reads an integer index, which is the key as it is.
pub(super) fn index(at: usize, text: &[u8]) -> Result<Key, BadField> {
    match whole(text).map(Key) {
        Some(key) if key != Key::BIAS => Ok(key),
        _ => Err(BadField::at(
            at,
            format!(
                "index {} is not a whole number from 0 to {}",
                shown(text),
                Key::BIAS.0 - 1
            ),
        )),
    }
}

/// Reads a feature's value.
pub(super) fn value(at: usize, text: &[u8]) -> Result<f32, BadField> {
    small_float(text).ok_or_else(|| {
        BadField::at(
            at,
            format!("value {} is not a finite 32-bit number", shown(text)),
        )
    })
}

/// The words of a line up to a comment, each with the byte at which it begins.
pub(super) struct Tokens<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    /// The words of this line.
    pub(super) fn of(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        // A plain loop: words are short, and a search by vectors costs more than it skips.
        let is_blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
        let rest = &self.line[self.at..];
        let begin = rest.iter().position(|byte| !is_blank(byte))?;
        let rest = &rest[begin..];
        if rest[0] == b'#' {
            self.at = self.line.len();
            return None;
        }
        let length = rest.iter().position(is_blank).unwrap_or(rest.len());
        let at = self.at + begin;
        self.at = at + length;
        Some((at, &rest[..length]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{describe, parse};
    use super::super::labels::LabelRule;
    use super::*;

    fn parser() -> LibsvmParser {
        LibsvmParser::new(Labels::numbers(LabelRule::Binary))
    }

    #[test]
    fn a_line_of_a9a_is_its_indices() {
        let batch = parse(&mut parser(), b"-1 3:1 11:0.5\t14:-2e1 # comment 5:1 ").unwrap();
        assert_eq!(batch.labels, [0.0]);
        assert_eq!(batch.weights, [1.0]);
        assert_eq!(batch.keys, [Key(3), Key(11), Key(14)]);
        assert_eq!(batch.values, [1.0, 0.5, -20.0]);
        assert_eq!(batch.fields, [0, 0, 0]);
        assert_eq!(
            describe(&mut parser(), b"1 3:1 11:1 ").unwrap(),
            [(Key(3), "3".to_owned()), (Key(11), "11".to_owned()),]
        );
    }

    #[test]
    fn blank_lines_and_comments_are_no_examples() {
        for line in [&b""[..], b"  \t", b"# a comment", b"  #1 2:3"] {
            let mut batch = Batch::default();
            assert_eq!(parser().parse(line, &mut batch), Ok(Parsed::Nothing));
            assert!(batch.is_empty());
        }
        assert_eq!(parse(&mut parser(), b"1").unwrap().keys, []);
    }

    #[test]
    fn bad_fields_are_named_with_their_place() {
        for (line, column, what) in [
            ("1 3:1 abc", 7, "`abc` is not INDEX:VALUE"),
            (
                "1 x:1",
                3,
                "index `x` is not a whole number from 0 to 18446744073709551614",
            ),
            (
                "1 18446744073709551615:1",
                3,
                "index `18446744073709551615` is not a whole number from 0 to \
                 18446744073709551614",
            ),
            ("1 3:x", 5, "value `x` is not a finite 32-bit number"),
            ("1 3:inf", 5, "value `inf` is not a finite 32-bit number"),
            ("1 3:1e39", 5, "value `1e39` is not a finite 32-bit number"),
            (
                " 7 3:1",
                2,
                "label `7` is out of range; the loss takes 0 and 1, or -1 and +1",
            ),
        ] {
            let bad = parse(&mut parser(), line.as_bytes()).unwrap_err();
            assert_eq!((bad.column, bad.what.as_str()), (column, what), "{line}");
        }
    }
}
