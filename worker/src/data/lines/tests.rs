use std::io::Write as _;

use proptest::prelude::*;

use super::super::fixture::{TempFile, gzip};
use super::*;

const LONG: Size = Size::from_mib(1);

fn all(mut lines: Lines) -> Result<Vec<String>> {
    let mut found = Vec::new();
    while let Some(line) = lines.next_line()? {
        found.push(match line {
            Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
            Line::TooLong(what) => format!("! {what}"),
        });
    }
    Ok(found)
}

fn read(name: &str, bytes: &[u8], max_line: Size) -> Result<Vec<String>> {
    let file = TempFile::new(name, bytes);
    all(Lines::open(
        &file.path,
        &file.input,
        file.whole(),
        max_line,
    )?)
}

/// Checks a text as it is and compressed.
fn check(text: &str, max_line: Size, expected: &[&str]) {
    assert_eq!(read("a", text.as_bytes(), max_line).unwrap(), expected);
    assert_eq!(
        read("a.gz", &gzip(text.as_bytes()), max_line).unwrap(),
        expected
    );
}

#[test]
fn lines_end_as_on_any_system() {
    check("", LONG, &[]);
    check("a\nb\r\n\nc", LONG, &["a", "b", "", "c"]);
    check("a\n", LONG, &["a"]);
    check("\n", LONG, &[""]);
    check("\u{feff}a\n\u{feff}b", LONG, &["a", "\u{feff}b"]);
}

#[test]
fn a_line_longer_than_allowed_is_told_and_left_out() {
    let what = "! the line is longer than 3B (data.max_line)";
    check("abc\r\nabcd\nx\n", Size::from_bytes(3), &["abc", what, "x"]);
    let huge = "x".repeat(3 * CHUNK);
    check(
        &format!("{huge}\ny\n{huge}"),
        Size::from_bytes(3),
        &[what, "y", what],
    );
    check(&format!("{huge}\ny"), LONG, &[&huge, "y"]);
}

#[test]
fn members_of_a_gzip_file_are_one_text() {
    let bytes = [gzip(b"a\nb"), gzip(b"c\nd\n")].concat();
    assert_eq!(read("a.gz", &bytes, LONG).unwrap(), ["a", "bc", "d"]);
}

#[test]
fn every_cut_of_a_gzip_file_is_told() {
    let text: String = (0..400).map(|i| format!("{i} {}\n", i * i)).collect();
    let whole = gzip(text.as_bytes());
    for length in 0..whole.len() {
        let error = read("a.gz", &whole[..length], LONG).unwrap_err();
        assert!(matches!(error, Error::CutShort { .. }), "{length}: {error}");
    }
    let error = read("a.gz", &whole[..10], LONG).unwrap_err().to_string();
    assert!(error.ends_with(
        "a.gz: the gzip stream is cut short after 0 bytes of text; copy the file again"
    ));
}

#[test]
fn damage_in_a_gzip_file_is_told() {
    let whole = gzip(b"some text\nand more\n");
    let mut sum = whole.clone();
    let at = sum.len() - 6;
    sum[at] ^= 1;
    let error = read("a.gz", &sum, LONG).unwrap_err();
    assert!(
        matches!(error, Error::Damaged { text_bytes: 19, .. }),
        "{error}"
    );
    let error = read("a.gz", b"plain text, wrongly named", LONG).unwrap_err();
    assert!(
        matches!(error, Error::Damaged { text_bytes: 0, .. }),
        "{error}"
    );
    let tail = [whole, b"more".to_vec()].concat();
    assert!(read("a.gz", &tail, LONG).is_err());
}

#[test]
fn a_file_that_changed_is_told() {
    for name in ["a", "a.gz"] {
        let file = TempFile::new(name, &gzip(b"a\nb\n"));
        let mut listed = file.input.clone();
        listed.bytes += 1;
        let error = Lines::open(&file.path, &listed, file.whole(), LONG)
            .err()
            .unwrap();
        let length = file.input.bytes;
        assert!(error.to_string().ends_with(&format!(
            "{name}: it has {length} bytes, but had {} when the input was listed; train on files \
             that nothing writes to",
            length + 1
        )));

        let mut lines = Lines::open(&file.path, &file.input, file.whole(), LONG).unwrap();
        let mut writer = File::options().append(true).open(&file.path).unwrap();
        writer.write_all(b"late\n").unwrap();
        let end = loop {
            match lines.next_line() {
                Ok(Some(_)) => {}
                end => break end.map(|_| ()),
            }
        };
        assert!(end.is_err(), "{name} grew under the reader");
    }
}

#[test]
fn lines_of_a_split_know_their_number_in_the_file() {
    let file = TempFile::new("a", b"1\n22\n333\n4444\n");
    let mut lines = Lines::open(&file.path, &file.input, file.split(3, 14), LONG).unwrap();
    assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"333")));
    assert_eq!(lines.line_number().unwrap(), 3);
    assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"4444")));
    assert_eq!(lines.line_number().unwrap(), 4);
    assert_eq!(lines.bytes_read(), 11);
}

proptest! {
    /// The rule of ownership, by its definition: a line belongs to the split in which it begins.
    #[test]
    fn a_split_has_the_lines_that_begin_in_it(
        lines in prop::collection::vec("[ab]{0,5}\r?", 0..20),
        ends_with_break: bool,
        pieces in 1u64..12,
    ) {
        let mut text = lines.join("\n");
        if ends_with_break {
            text.push('\n');
        }
        let file = TempFile::new("a", text.as_bytes());
        let bytes = file.input.bytes;
        for piece in 0..pieces {
            let split = file.split(bytes * piece / pieces, bytes * (piece + 1) / pieces);
            let mut begin = 0;
            let mut expected = Vec::new();
            for line in text.split_inclusive('\n') {
                if (split.start..split.end).contains(&begin) {
                    let line = line.strip_suffix('\n').unwrap_or(line);
                    expected.push(line.strip_suffix('\r').unwrap_or(line).to_owned());
                }
                begin += line.len() as u64;
            }
            let opened = Lines::open(&file.path, &file.input, split, LONG).unwrap();
            prop_assert_eq!(all(opened).unwrap(), expected);
        }
    }
}
