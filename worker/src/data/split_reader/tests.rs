use proptest::prelude::*;
use windlass_common::config::{Format, OnBadRow};
use windlass_common::split::cut;

use super::super::fixture::{TempFile, csv_config, gzip};
use super::*;

const SEED: ShuffleSeed = ShuffleSeed {
    seed: 7,
    epoch: Epoch(1),
    split: 3,
};

/// Rows `0 0:1`, `0 1:1`, ...: the key says which row it is.
fn numbered(rows: usize) -> String {
    (0..rows).map(|i| format!("{} {i}:1\n", i % 2)).collect()
}

fn plan(data: DataConfig) -> Arc<ReadPlan> {
    Arc::new(ReadPlan {
        data,
        labels: LabelRule::Binary,
    })
}

fn shuffled(shuffle: u32) -> Arc<ReadPlan> {
    plan(DataConfig {
        shuffle,
        ..DataConfig::default()
    })
}

fn open(
    plan: &Arc<ReadPlan>,
    file: &TempFile,
    split: Split,
    shuffle: Option<ShuffleSeed>,
) -> Result<SplitReader> {
    SplitReader::open(plan, &file.path, &file.input, split, shuffle)
}

fn batches(reader: &mut SplitReader, size: usize) -> Result<Vec<Batch>> {
    std::iter::from_fn(|| reader.next_batch(size).transpose()).collect()
}

/// The keys of all rows in the order in which they come.
fn keys(reader: &mut SplitReader, size: usize) -> Vec<u64> {
    let batches = batches(reader, size).unwrap();
    batches
        .iter()
        .flat_map(|batch| batch.keys.iter().map(|key| key.0))
        .collect()
}

#[test]
fn every_batch_but_the_last_is_full_and_held_out_rows_keep_their_order() {
    let file = TempFile::new("a", numbered(10).as_bytes());
    for shuffle in [None, Some(SEED)] {
        // Blocks of 3 rows, batches of 4: the batches are cut across the blocks.
        let mut reader = open(&shuffled(3), &file, file.whole(), shuffle).unwrap();
        let found = batches(&mut reader, 4).unwrap();
        assert_eq!(found.iter().map(Batch::len).collect::<Vec<_>>(), [4, 4, 2]);
        assert_eq!(reader.bytes_read(), file.input.bytes);
        assert!(reader.next_batch(4).unwrap().is_none());
    }
    let mut reader = open(&shuffled(3), &file, file.whole(), None).unwrap();
    assert_eq!(keys(&mut reader, 4), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_shuffle_is_a_permutation_of_each_block_and_depends_on_its_seed() {
    let file = TempFile::new("a.gz", &gzip(numbered(200).as_bytes()));
    let order = |shuffle, seed| {
        keys(
            &mut open(&shuffled(shuffle), &file, file.whole(), Some(seed)).unwrap(),
            7,
        )
    };
    let first = order(100, SEED);
    for (block, range) in first.chunks(100).zip([0..100, 100..200]) {
        let mut sorted = block.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, range.clone().collect::<Vec<u64>>());
        assert_ne!(block, range.collect::<Vec<u64>>());
    }
    let moved: Vec<_> = first[100..].iter().map(|key| key - 100).collect();
    assert_ne!(first[..100], moved, "blocks are drawn apart");
    assert_eq!(first, order(100, SEED));
    for other in [
        ShuffleSeed { seed: 8, ..SEED },
        ShuffleSeed {
            epoch: Epoch(2),
            ..SEED
        },
        ShuffleSeed { split: 4, ..SEED },
    ] {
        assert_ne!(first, order(100, other), "{other:?}");
    }
    for none in [0, 1] {
        assert_eq!(order(none, SEED), (0..200).collect::<Vec<_>>());
    }
}

proptest! {
    #[test]
    fn splits_of_any_size_have_the_rows_of_the_file(
        rows in 0usize..60,
        split_bytes in 1u64..200,
        shuffle in 0u32..20,
        size in 1usize..20,
    ) {
        let file = TempFile::new("a", numbered(rows).as_bytes());
        let mut found = Vec::new();
        for split in cut(std::slice::from_ref(&file.input), split_bytes) {
            let mut reader = open(&shuffled(shuffle), &file, split, Some(SEED)).unwrap();
            found.extend(keys(&mut reader, size));
            prop_assert_eq!(reader.bytes_read(), split.end - split.start);
        }
        found.sort_unstable();
        prop_assert_eq!(found, (0..rows as u64).collect::<Vec<_>>());
    }

    #[test]
    fn a_read_that_skips_batches_goes_on_with_the_same_ones(
        rows in 0usize..60,
        shuffle in 0u32..20,
        size in 1usize..12,
        skip in 0u64..8,
        held_out: bool,
    ) {
        let file = TempFile::new("a", numbered(rows).as_bytes());
        let seed = (!held_out).then_some(SEED);
        let plan = shuffled(shuffle);
        let all = batches(&mut open(&plan, &file, file.whole(), seed).unwrap(), size).unwrap();
        let mut reader = open(&plan, &file, file.whole(), seed).unwrap();
        reader.skip_batches(skip, size).unwrap();
        let rest = batches(&mut reader, size).unwrap();
        let skip = usize::try_from(skip).unwrap().min(all.len());
        prop_assert_eq!(&rest, &all[skip..]);
    }
}

#[test]
fn a_bad_row_ends_the_read_with_its_place() {
    let file = TempFile::new("a.svm", b"1 3:1\n0 4:1\n1 x:1\n0 5:1\n");
    let bad = "a.svm:3:3: index `x` is not a whole number from 0 to 18446744073709551614";
    // The whole file, and a split that begins inside it.
    for start in [0, 6] {
        let split = file.split(start, file.input.bytes);
        let mut reader = open(&shuffled(0), &file, split, None).unwrap();
        let error = reader.next_batch(10).unwrap_err().to_string();
        assert!(error.ends_with(bad), "{error}");
        let error = reader.next_batch(10).unwrap_err().to_string();
        assert!(error.ends_with("a.svm: this read has failed before; open the split again"));
    }
}

#[test]
fn a_bad_row_is_dropped_whole_where_the_config_says_so() {
    let file = TempFile::new("a.svm", b"1 3:1\n0 4:1 x:1\n2 3:1\n0 5:1\nvery long line\n");
    let plan = plan(DataConfig {
        on_bad_row: OnBadRow::Skip,
        max_line: windlass_common::human::Size::from_bytes(12),
        ..DataConfig::default()
    });
    let mut reader = open(&plan, &file, file.whole(), None).unwrap();
    let batch = reader.next_batch(10).unwrap().unwrap();
    assert_eq!(batch.keys, [Key(3), Key(5)]);
    assert_eq!(batch.offsets, [0, 1, 2]);
    assert!(reader.next_batch(10).unwrap().is_none());
    assert_eq!(reader.skipped(), 3);
}

fn csv() -> Arc<ReadPlan> {
    plan(DataConfig {
        categorical: vec!["carrier".into()],
        ..csv_config()
    })
}

#[test]
fn every_split_of_a_csv_file_knows_its_columns() {
    let file = TempFile::new("a.csv", b"carrier,late\r\nUA,1\r\nAA,0\r\nDL,1\r\n");
    for pieces in 1..20 {
        let splits = cut(
            std::slice::from_ref(&file.input),
            file.input.bytes.div_ceil(pieces),
        );
        let labels: Vec<f32> = splits
            .into_iter()
            .flat_map(|split| batches(&mut open(&csv(), &file, split, None).unwrap(), 2).unwrap())
            .flat_map(|batch| batch.labels)
            .collect();
        assert_eq!(labels, [1.0, 0.0, 1.0], "{pieces}");
    }
}

fn check_error(name: &str, bytes: &[u8], message: &str) {
    let file = TempFile::new(name, bytes);
    let error = open(&csv(), &file, file.whole(), None)
        .and_then(|mut reader| batches(&mut reader, 2))
        .unwrap_err()
        .to_string();
    let folder = file.path.parent().unwrap().display().to_string();
    assert_eq!(
        error.strip_prefix(&format!("{folder}/")),
        Some(message),
        "{error}"
    );
}

#[test]
fn bad_files_are_told_as_they_are() {
    check_error(
        "a.csv",
        b"late,carier\n1,UA\n",
        "a.csv: there is no column `carrier` (data.categorical); its columns are carier, late",
    );
    check_error(
        "a.csv",
        b"late,carrier\n1,UA\n1\n",
        "a.csv:3:2: the row has 1 fields, the file has 2 columns",
    );
    check_error(
        "a.csv",
        b"late,carrier\n1,\"UA\n\",x\n",
        "a.csv:2:3: the quote is not closed on this line; a field may not contain a line break",
    );
    let long = [b"late,carrier\n1,".to_vec(), vec![b'x'; 1 << 20]].concat();
    check_error(
        "a.csv",
        &long,
        "a.csv:2:1: the line is longer than 1MiB (data.max_line)",
    );
    let whole = gzip(b"late,carrier\n1,UA\n0,AA\n");
    check_error(
        "a.csv.gz",
        &whole[..whole.len() - 1],
        "a.csv.gz: the gzip stream is cut short after 23 bytes of text; copy the file again",
    );
}

#[test]
fn features_are_described_row_by_row() {
    let file = TempFile::new("a.csv", b"late,carrier\n1,UA\n0,\n");
    let mut names = Vec::new();
    let reader = open(&csv(), &file, file.whole(), None).unwrap();
    reader
        .describe(&mut |_, name| names.push(name.to_owned()))
        .unwrap();
    assert_eq!(names, ["carrier=UA", "carrier=(missing)"]);
}

/// Reads real files where `WINDLASS_TEST_DATA` says that they lie; their rows are those that
/// `wc -l` counts.
#[test]
fn real_files_are_read_to_their_end() {
    let Some(folder) = std::env::var_os("WINDLASS_TEST_DATA") else {
        eprintln!("skipped: WINDLASS_TEST_DATA is not set");
        return;
    };
    let check = |pattern: &str, data: DataConfig, labels, rows, features| {
        let plan = Arc::new(ReadPlan { data, labels });
        let input = super::super::Input::discover(&[pattern.into()], Path::new(&folder)).unwrap();
        let (mut found, mut last) = (0, 0);
        for (split, file) in cut(&input.files, 100_000)
            .into_iter()
            .map(|split| (split, split.file as usize))
        {
            let (path, input) = (&input.paths[file], &input.files[file]);
            let mut reader = SplitReader::open(&plan, path, input, split, Some(SEED)).unwrap();
            for batch in batches(&mut reader, 512).unwrap() {
                found += batch.len();
                last = batch.keys.len() / batch.len();
            }
        }
        assert_eq!((found, last), (rows, features), "{pattern}");
    };
    let format = |format| DataConfig {
        format,
        ..DataConfig::default()
    };
    let csv = |label: &str, delimiter, columns: &str| DataConfig {
        format: Format::Csv,
        label: Some(label.into()),
        categorical: vec!["user".into(), "item".into()],
        delimiter,
        header: false,
        columns: columns.split(' ').map(String::from).collect(),
        ..DataConfig::default()
    };
    let flights = DataConfig {
        categorical: ["carrier", "origin", "dest"].map(String::from).into(),
        crosses: vec![vec!["origin".into(), "dest".into()]],
        ..csv_config()
    };
    check(
        "a9a/a9a",
        format(Format::Libsvm),
        LabelRule::Binary,
        32_560,
        13,
    );
    check(
        "criteo8k/*.tsv",
        format(Format::Criteo),
        LabelRule::Binary,
        8_000,
        39,
    );
    check("flights/*.csv.gz", flights, LabelRule::Binary, 327_346, 4);
    let movielens = csv("rating", '\t', "user item rating time");
    check(
        "movielens100k/u.data",
        movielens,
        LabelRule::Real,
        100_000,
        2,
    );
}
