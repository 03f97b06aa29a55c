//! What the readers' tests share: small files, and parsers tried on one line.

use std::io::Write as _;
use std::path::PathBuf;

use windlass_common::batch::Batch;
use windlass_common::config::DataConfig;
use windlass_common::key::Key;
use windlass_common::split::{InputFile, Split};

use super::parser::{BadField, Parsed, RowParser};

/// A file in a folder of its own.
pub(super) struct TempFile {
    pub(super) path: PathBuf,
    pub(super) input: InputFile,
    _folder: tempfile::TempDir,
}

impl TempFile {
    /// Writes a file; a name in `.gz` says that the bytes are compressed.
    pub(super) fn new(name: &str, bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let input = InputFile {
            name: name.into(),
            bytes: bytes.len() as u64,
            digest: [0; 32],
            divisible: !name.ends_with(".gz"),
        };
        Self {
            path,
            input,
            _folder: folder,
        }
    }

    /// The split that is the whole file.
    pub(super) fn whole(&self) -> Split {
        self.split(0, self.input.bytes)
    }

    /// A split of the file.
    pub(super) fn split(&self, start: u64, end: u64) -> Split {
        Split {
            file: 0,
            start,
            end,
        }
    }
}

/// Compresses as gzip does.
pub(super) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// CSV with a header and the label in `late`.
pub(super) fn csv_config() -> DataConfig {
    DataConfig {
        format: windlass_common::config::Format::Csv,
        label: Some("late".into()),
        ..DataConfig::default()
    }
}

/// Parses one line that is an example.
pub(super) fn parse(parser: &mut dyn RowParser, line: &[u8]) -> Result<Batch, BadField> {
    let mut batch = Batch::default();
    assert_eq!(parser.parse(line, &mut batch)?, Parsed::Example);
    assert_eq!(batch.len(), 1);
    Ok(batch)
}

/// Names the features of one line.
pub(super) fn describe(
    parser: &mut dyn RowParser,
    line: &[u8],
) -> Result<Vec<(Key, String)>, BadField> {
    let mut names = Vec::new();
    parser.describe(line, &mut |key, name| names.push((key, name.to_owned())))?;
    Ok(names)
}
