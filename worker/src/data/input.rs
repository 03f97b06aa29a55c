//! Which files the config's globs name, and fingerprints by which workers compare them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use sha2::{Digest, Sha256};
use windlass_common::config::{DataConfig, Format};
use windlass_common::key::Key;
use windlass_common::split::{InputFile, Split, cut};

use super::labels::LabelRule;
use super::lines::io_error;
use super::split_reader::{ReadPlan, ShuffleSeed, SplitReader};
use crate::error::{Error, Result};

/// Files up to this size are hashed whole.
const WHOLE: u64 = 64 << 20;
/// Of larger ones, so much of the beginning and of the end is hashed,
const ENDS: u64 = 1 << 20;
/// and so many blocks between,
const BLOCKS: u64 = 62;
/// each of this size.
const BLOCK: u64 = 64 << 10;

/// The files of an input, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// What every worker must see of them.
    pub files: Vec<InputFile>,
    /// Where they lie on this machine.
    pub paths: Vec<PathBuf>,
}

impl Input {
    /// Finds the files that the patterns name, relative to the config's folder, and hashes them.
    ///
    /// A file that two patterns name is listed once. A name that ends in `.gz` is a gzip file,
    /// which cannot be cut into splits.
    ///
    /// The digest is the SHA-256 of the content of a file of up to 64 MiB; of a larger one that of
    /// its length (8 bytes, little-endian), its first MiB, 62 blocks of 64 KiB that are spread
    /// evenly between, and its last MiB. Times never count, so that copies are the same input.
    ///
    /// # Errors
    /// A pattern that is none, or that no file matches, or a file that cannot be read.
    pub fn discover(patterns: &[String], folder: &Path) -> Result<Self> {
        let mut paths = Vec::new();
        for pattern in patterns {
            let before = paths.len();
            find(pattern, folder, &mut paths)?;
            if paths.len() == before {
                return Err(Error::NoMatch {
                    pattern: pattern.clone(),
                    folder: Path::new(".").join(folder),
                });
            }
        }
        paths.sort();
        paths.dedup();
        let files: Result<Vec<_>> = paths.par_iter().map(|path| list(path, folder)).collect();
        Ok(Self {
            files: files?,
            paths,
        })
    }
}

impl Input {
    /// Opens a split of these files, to be shuffled with this seed or read in the file's order.
    ///
    /// # Errors
    /// As for [`SplitReader::open`], and [`Error::NoSuchFile`] for a split of a file that is not
    /// listed.
    pub fn open(
        &self,
        plan: &Arc<ReadPlan>,
        split: Split,
        shuffle: Option<ShuffleSeed>,
    ) -> Result<SplitReader> {
        let at = split.file as usize;
        let (Some(path), Some(file)) = (self.paths.get(at), self.files.get(at)) else {
            return Err(Error::NoSuchFile {
                file: split.file,
                files: self.files.len(),
            });
        };
        SplitReader::open(plan, path, file, split, shuffle)
    }

    /// Hands the name of every feature of all files to `visit`, each time that it occurs.
    ///
    /// # Errors
    /// As for [`SplitReader::describe`].
    pub fn describe(&self, plan: &Arc<ReadPlan>, visit: &mut dyn FnMut(Key, &str)) -> Result<()> {
        for split in cut(&self.files, u64::MAX) {
            self.open(plan, split, None)?.describe(visit)?;
        }
        Ok(())
    }
}

/// Fingerprints the settings that turn a line into an example, for `Recipe::reading`.
///
/// It is the SHA-256 of the label rule and of the settings as JSON, without those that say which
/// files are read and in which order, and without those of other formats.
#[must_use]
pub fn reading_digest(config: &DataConfig, labels: LabelRule) -> [u8; 32] {
    let rest = DataConfig::default();
    let mut reading = DataConfig {
        train: rest.train.clone(),
        validation: rest.validation.clone(),
        test: rest.test.clone(),
        shuffle: rest.shuffle,
        split_size: rest.split_size,
        ..config.clone()
    };
    if config.format != Format::Criteo {
        reading.criteo_numbers = rest.criteo_numbers;
    }
    if config.format != Format::Csv {
        reading = DataConfig {
            format: config.format,
            criteo_numbers: reading.criteo_numbers,
            on_bad_row: config.on_bad_row,
            max_line: config.max_line,
            ..rest
        };
    }
    let mut hash = Sha256::new();
    hash.update(format!("{labels:?}\n"));
    hash.update(json(&reading));
    hash.finalize().into()
}

#[expect(
    clippy::expect_used,
    reason = "names, numbers and lists of them always have a JSON form"
)]
fn json(config: &DataConfig) -> Vec<u8> {
    serde_json::to_vec(config).expect("settings have a JSON form")
}

/// Appends the files that a pattern names.
fn find(pattern: &str, folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    // The folder's own brackets and stars are no pattern; an absolute pattern replaces the folder.
    let escaped = PathBuf::from(glob::Pattern::escape(&folder.to_string_lossy()));
    let full = escaped.join(pattern);
    let matches = glob::glob(&full.to_string_lossy()).map_err(|source| Error::Pattern {
        pattern: pattern.to_owned(),
        source,
    })?;
    for path in matches {
        let path = path.map_err(|error| Error::Io {
            path: error.path().to_owned(),
            source: error.into(),
        })?;
        if path.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

fn list(path: &Path, folder: &Path) -> Result<InputFile> {
    let (bytes, digest) = fingerprint(path).map_err(|source| io_error(path, source))?;
    let name = path.strip_prefix(folder).unwrap_or(path);
    Ok(InputFile {
        name: name.to_string_lossy().into_owned(),
        bytes,
        digest,
        divisible: path.extension().is_none_or(|extension| extension != "gz"),
    })
}

fn fingerprint(path: &Path) -> io::Result<(u64, [u8; 32])> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut hash = Sha256::new();
    if bytes <= WHOLE {
        update(&mut hash, &mut file, 0, bytes)?;
    } else {
        hash.update(bytes.to_le_bytes());
        update(&mut hash, &mut file, 0, ENDS)?;
        for start in block_starts(bytes) {
            update(&mut hash, &mut file, start, BLOCK)?;
        }
        update(&mut hash, &mut file, bytes - ENDS, ENDS)?;
    }
    Ok((bytes, hash.finalize().into()))
}

/// Where the blocks of a large file begin: the first behind its first MiB, the last up against its
/// last one.
fn block_starts(bytes: u64) -> impl Iterator<Item = u64> {
    let room = bytes - 2 * ENDS - BLOCK;
    (0..BLOCKS).map(move |i| ENDS + room / (BLOCKS - 1) * i)
}

fn update(hash: &mut Sha256, file: &mut File, start: u64, length: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(start))?;
    let mut chunk = [0; 16 << 10];
    let mut left = length;
    while left > 0 {
        let most = left.min(chunk.len() as u64);
        let piece = &mut chunk[..usize::try_from(most).unwrap_or(usize::MAX)];
        file.read_exact(piece)?;
        hash.update(&piece);
        left -= most;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use windlass_common::config::{Column, OnBadRow};

    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a[1]")).unwrap();
        for name in files {
            std::fs::write(folder.path().join("a[1]").join(name), name).unwrap();
        }
        folder
    }

    #[test]
    fn globs_are_relative_to_the_config_and_sorted() {
        let root = folder(&["c.csv", "a.csv", "b.csv.gz", "d.txt"]);
        let folder = root.path().join("a[1]");
        let patterns = ["[bc].*".to_owned(), "*.csv".to_owned(), "*.gz".to_owned()];
        let input = Input::discover(&patterns, &folder).unwrap();
        let names: Vec<_> = input.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["a.csv", "b.csv.gz", "c.csv"]);
        let divisible: Vec<_> = input.files.iter().map(|file| file.divisible).collect();
        assert_eq!(divisible, [true, false, true]);
        assert_eq!(input.paths[0], folder.join("a.csv"));
        assert_eq!(input.files[0].bytes, 5);
        let expected: [u8; 32] = Sha256::digest(b"a.csv").into();
        assert_eq!(input.files[0].digest, expected);
    }

    #[test]
    fn a_pattern_that_names_nothing_is_an_error() {
        let root = folder(&["a.csv"]);
        let folder = root.path().join("a[1]");
        let error = Input::discover(&["a.csv".into(), "x*".into()], &folder).unwrap_err();
        let expected = format!("no file matches `x*` in {}", folder.display());
        assert_eq!(error.to_string(), expected);
        let error = Input::discover(&["a**".into()], &folder)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("`a**` is not a pattern of file names: "),
            "{error}"
        );
    }

    #[test]
    fn a_huge_file_is_hashed_in_samples() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(WHOLE + 1).unwrap();
        let mut expected = Sha256::new();
        expected.update((WHOLE + 1).to_le_bytes());
        expected.update(vec![0; (2 << 20) + (62 << 16)]);
        let (bytes, digest) = fingerprint(file.path()).unwrap();
        assert_eq!(bytes, WHOLE + 1);
        assert_eq!(digest, <[u8; 32]>::from(expected.finalize()));
        let starts: Vec<_> = block_starts(WHOLE + 1).collect();
        assert_eq!(starts.len(), 62);
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= BLOCK));
        assert!(starts[0] == ENDS && starts[61] + BLOCK <= WHOLE + 1 - ENDS);
    }

    #[test]
    fn the_reading_digest_changes_with_what_changes_examples() {
        let config = DataConfig {
            format: Format::Csv,
            ..DataConfig::default()
        };
        let of = |change: &dyn Fn(&mut DataConfig)| {
            let mut changed = config.clone();
            change(&mut changed);
            reading_digest(&changed, LabelRule::Binary)
        };
        let same = of(&|_| ());
        assert_eq!(same, of(&|c| c.train = vec!["x".into()]));
        assert_eq!(same, of(&|c| c.shuffle = 0));
        assert_ne!(same, of(&|c| c.trim = true));
        assert_ne!(same, of(&|c| c.on_bad_row = OnBadRow::Skip));
        assert_ne!(same, of(&|c| c.numeric = vec![Column::Plain("x".into())]));
        assert_ne!(same, reading_digest(&config, LabelRule::Real));
        let libsvm = |trim| DataConfig {
            trim,
            ..DataConfig::default()
        };
        let digest = |trim| reading_digest(&libsvm(trim), LabelRule::Binary);
        assert_eq!(digest(true), digest(false));
    }
}
