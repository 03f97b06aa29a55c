//! `label field:index:value ...`, separated by blanks; `#` begins a comment.

use windlass_common::batch::Batch;
use windlass_common::key::Key;

use super::labels::Labels;
use super::libsvm::{Tokens, index, value};
use super::number::whole;
use super::parser::{BadField, Parsed, RowParser, shown};

/// Reads LIBFFM lines: an index is the key as it is, and the field is the line's own.
#[derive(Debug)]
pub(super) struct LibffmParser {
    labels: Labels,
}

impl LibffmParser {
    /// Reads lines whose labels follow a rule.
    pub(super) fn new(labels: Labels) -> Self {
        Self { labels }
    }
}

impl RowParser for LibffmParser {
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
            let (field, key, value) = feature(at, token)?;
            out.push_feature(field, key, value);
        }
        out.finish_example(label, 1.0);
        Ok(Parsed::Example)
    }

    fn describe(&mut self, line: &[u8], visit: &mut dyn FnMut(Key, &str)) -> Result<(), BadField> {
        for (at, token) in Tokens::of(line).skip(1) {
            let (_, key, _) = feature(at, token)?;
            visit(key, &key.0.to_string());
        }
        Ok(())
    }
}

fn feature(at: usize, token: &[u8]) -> Result<(u16, Key, f32), BadField> {
    let mut parts = token.splitn(3, |&byte| byte == b':');
    let (Some(field), Some(key), Some(number)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(BadField::at(
            at,
            format!("{} is not FIELD:INDEX:VALUE", shown(token)),
        ));
    };
    let key_at = at + field.len() + 1;
    let value_at = key_at + key.len() + 1;
    let Some(field) = whole(field).and_then(|field| u16::try_from(field).ok()) else {
        let what = format!(
            "field {} is not a whole number from 0 to 65535",
            shown(field)
        );
        return Err(BadField::at(at, what));
    };
    Ok((field, index(key_at, key)?, value(value_at, number)?))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{describe, parse};
    use super::super::labels::LabelRule;
    use super::*;

    fn parser() -> LibffmParser {
        LibffmParser::new(Labels::numbers(LabelRule::Binary))
    }

    #[test]
    fn a_line_is_fields_indices_and_values() {
        let batch = parse(&mut parser(), b"1 0:7:1 65535:7:0.25").unwrap();
        assert_eq!(batch.labels, [1.0]);
        assert_eq!(batch.fields, [0, 65535]);
        assert_eq!(batch.keys, [Key(7), Key(7)]);
        assert_eq!(batch.values, [1.0, 0.25]);
        assert_eq!(
            describe(&mut parser(), b"0 2:9:1").unwrap(),
            [(Key(9), "9".to_owned())]
        );
    }

    #[test]
    fn bad_fields_are_named_with_their_place() {
        for (line, column, what) in [
            ("1 3:1", 3, "`3:1` is not FIELD:INDEX:VALUE"),
            (
                "1 65536:1:1",
                3,
                "field `65536` is not a whole number from 0 to 65535",
            ),
            (
                "1 3:-1:1",
                5,
                "index `-1` is not a whole number from 0 to 18446744073709551614",
            ),
            ("1 3:1:1:1", 7, "value `1:1` is not a finite 32-bit number"),
        ] {
            let bad = parse(&mut parser(), line.as_bytes()).unwrap_err();
            assert_eq!((bad.column, bad.what.as_str()), (column, what), "{line}");
        }
    }
}
