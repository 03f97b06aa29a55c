//! Checkpoints of every released version open, and say what they said.
//!
//! The fixtures are written by `fixtures/v1/make.py`, which follows `docs/formats.md` and shares no
//! code with Windlass.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute only"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_common::coordination::{EpochMetrics, History, Recipe};
use windlass_common::format::{
    Checkpoint, Manifest, ShardImage, TableImage, decode_shard, encode_shard,
};
use windlass_common::id::{Clock, Epoch, Lineage, Seq, ShardId, SourceId};
use windlass_common::init::Init;
use windlass_common::interval_set::IntervalSet;
use windlass_common::key::Key;
use windlass_common::optimizer::{Adagrad, Ftrl, OptimizerSpec};
use windlass_common::runtime::StdDisk;
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::ShardCount;
use windlass_common::split::InputFile;
use windlass_common::windows::{Window, Windows};

fn v1(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/v1")
        .join(name)
}

fn empty(dim: usize, slots: usize) -> TableImage {
    TableImage {
        dim,
        slots,
        ..TableImage::default()
    }
}

fn shards() -> [ShardImage; 2] {
    let window = |next, above, end: Option<u64>| Window {
        next: Seq(next),
        above,
        end: end.map(Seq),
    };
    let open = BTreeMap::from([
        (SourceId(4), window(1, 0b10, Some(2))),
        (SourceId(6), window(5, 0, None)),
    ]);
    let complete = IntervalSet::from_ranges(vec![0..4, 5..6]).unwrap();
    [
        ShardImage {
            shard: ShardId(0),
            lineage: Lineage(3),
            clock: Clock(11),
            windows: Windows::from_parts(BTreeMap::new(), IntervalSet::below(4)),
            tables: vec![empty(2, 1), empty(1, 2)],
        },
        ShardImage {
            shard: ShardId(1),
            lineage: Lineage(3),
            clock: Clock(12),
            windows: Windows::from_parts(open, complete),
            tables: vec![
                TableImage {
                    keys: vec![Key(10), Key::BIAS],
                    rows: vec![1.0, -2.0, 0.5, 0.25, 3.0, 8.0],
                    ..empty(2, 1)
                },
                TableImage {
                    keys: vec![Key(7)],
                    rows: vec![-0.75, 1.5, 2.5],
                    ..empty(1, 2)
                },
            ],
        },
    ]
}

fn schema() -> JobSchema {
    JobSchema {
        shards: ShardCount::new(2).unwrap(),
        seed: 42,
        tables: vec![
            TableSchema {
                name: "linear".into(),
                dim: 2,
                init: Init::Zeros,
                optimizer: OptimizerSpec::RowwiseAdagrad(Adagrad {
                    learning_rate: 0.05,
                    initial_accumulator: 0.5,
                    epsilon: 1e-8,
                    l2: 0.25,
                }),
            },
            TableSchema {
                name: "factors".into(),
                dim: 1,
                init: Init::Normal { std: 0.01 },
                optimizer: OptimizerSpec::Ftrl(Ftrl {
                    alpha: 0.1,
                    beta: 1.0,
                    l1: 2.0,
                    l2: 3.0,
                }),
            },
        ],
    }
}

fn recipe() -> Recipe {
    Recipe {
        files: vec![InputFile {
            name: "2013-01.csv.gz".into(),
            bytes: 422_015,
            digest: [5; 32],
            divisible: false,
        }],
        split_bytes: 65_536,
        batch_size: 512,
        shuffle: 100_000,
        seed: 9,
        reading: [6; 32],
    }
}

fn history() -> History {
    let auc = |auc| ("auc".to_owned(), auc);
    History {
        epochs: 1,
        progress: vec![EpochMetrics {
            epoch: Epoch(0),
            train: BTreeMap::from([auc(0.625), ("log_loss".to_owned(), 0.5)]),
            validation: BTreeMap::from([auc(0.75)]),
        }],
        test: BTreeMap::from([auc(0.875)]),
        finished: true,
        stopped_early: false,
    }
}

#[test]
fn shard_files_of_version_1_are_read_and_written_to_the_byte() {
    for (name, expected) in ["0000.shard", "0001.shard"].into_iter().zip(shards()) {
        let path = v1(name);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(decode_shard(&bytes, &path).unwrap(), expected);
        assert_eq!(encode_shard(&expected), bytes, "{name}");
    }
}

#[test]
fn a_manifest_of_version_1_is_read_and_written_to_the_byte() {
    let path = v1("manifest.bin");
    let bytes = fs::read(&path).unwrap();
    let manifest = Manifest::decode(&bytes, &path).unwrap();
    assert_eq!(manifest.job, "flights");
    assert_eq!(manifest.lineage, Lineage(3));
    assert_eq!(manifest.windlass, "0.1.0");
    assert_eq!(manifest.config, "[job]\nname = \"flights\"\n");
    assert_eq!(manifest.schema, schema());
    assert_eq!(manifest.recipe, recipe());
    assert_eq!(manifest.history, history());
    let files: Vec<_> = manifest
        .files
        .iter()
        .map(|f| (f.name.as_str(), f.rows))
        .collect();
    assert_eq!(files, [("0000.shard", 0), ("0001.shard", 3)]);
    assert_eq!(manifest.encode(&path).unwrap(), bytes);
}

#[test]
fn a_checkpoint_of_version_1_is_whole() {
    let checkpoint = Checkpoint::open(Arc::new(StdDisk), &v1("")).unwrap();
    checkpoint.verify().unwrap();
}
