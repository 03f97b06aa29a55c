//! Data files.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use tempfile::TempDir;
use windlass_common::config::{DataConfig, Format, OnBadRow};
use windlass_common::id::Epoch;
use windlass_common::split::{InputFile, Split};
use windlass_worker::data::{LabelRule, ReadPlan, ShuffleSeed, SplitReader};

use crate::feed::Target;

/// Where the files lie that are read.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

const LIBSVM: &str = "1 3:0.5 7:1e-3 # the first\n-1 1:2\n+1 12345678901:1 2:-0.25\n";
const LIBFFM: &str = "1 0:3:0.5 2:7:1\n0 1:1:2 0:9:1\n";
const CSV: &str = "late,carrier,distance\n1,\"A, B\",100\n0,,2.5\n1,\"with \"\"quotes\"\"\",-1e3\n";

fn criteo() -> String {
    let numbers = "3\t".repeat(12);
    let categories = vec!["68fd1e64"; 26].join("\t");
    format!("1\t{numbers}5\t{categories}\n0\t\t{numbers}{categories}\n")
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn targets() -> Vec<Target> {
    let target = |name, read, samples| Target {
        name,
        read,
        samples,
        repair: |_| {},
    };
    // The last two are small and become large: one line, and many.
    let compressed = [
        LIBSVM.as_bytes().to_vec(),
        b"1 1:1\n".repeat(20_000),
        [b"1 1:1".to_vec(), b" ".repeat(900_000), b"\n".to_vec()].concat(),
    ];
    let compressed = compressed.iter().map(|text| gzip(text)).collect();
    vec![
        target(
            "libsvm",
            |b| read(Format::Libsvm, "a", b),
            vec![LIBSVM.into()],
        ),
        target(
            "libffm",
            |b| read(Format::Libffm, "b", b),
            vec![LIBFFM.into()],
        ),
        target("csv", |b| read(Format::Csv, "c", b), vec![CSV.into()]),
        target(
            "criteo",
            |b| read(Format::Criteo, "d", b),
            vec![criteo().into()],
        ),
        target("gz", |b| read(Format::Libsvm, "e.gz", b), compressed),
    ]
}

/// Reads a file to its end twice: a bad row ends it, and is left out.
fn read(format: Format, name: &str, bytes: &[u8]) -> Result<(), String> {
    let path: PathBuf = FOLDER.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let [ended, left_out] = [OnBadRow::Error, OnBadRow::Skip].map(|on_bad_row| {
        let data = DataConfig {
            format,
            on_bad_row,
            label: (format == Format::Csv).then(|| "late".into()),
            shuffle: 100,
            ..DataConfig::default()
        };
        let plan = Arc::new(ReadPlan {
            data,
            labels: LabelRule::Binary,
        });
        batches(&plan, &path, bytes.len() as u64)
    });
    // Writing over a file would wait for the disk.
    std::fs::remove_file(&path).unwrap();
    if let (Ok(all), Ok(rest)) = (&ended, &left_out) {
        assert_eq!(all, rest, "without bad rows none is left out");
    }
    ended.map(drop)
}

/// How many examples there are.
fn batches(plan: &Arc<ReadPlan>, path: &Path, bytes: u64) -> Result<usize, String> {
    let input = InputFile {
        name: path.display().to_string(),
        bytes,
        digest: [0; 32],
        divisible: path.extension().is_none(),
    };
    let whole = Split {
        file: 0,
        start: 0,
        end: bytes,
    };
    let seed = ShuffleSeed {
        seed: 1,
        epoch: Epoch(0),
        split: 0,
    };
    let said = |error: windlass_worker::Error| error.to_string();
    let mut reader = SplitReader::open(plan, path, &input, whole, Some(seed)).map_err(said)?;
    let mut examples = 0;
    while let Some(batch) = reader.next_batch(64).map_err(said)? {
        examples += batch.len();
    }
    Ok(examples)
}
