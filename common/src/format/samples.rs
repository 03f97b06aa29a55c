//! Shards and manifests for the tests of this folder.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::coordination::{EpochMetrics, History, Recipe};
use crate::id::{Clock, Epoch, Lineage, PushId, Seq, ShardId, SourceId};
use crate::init::Init;
use crate::key::Key;
use crate::optimizer::{Adagrad, OptimizerSpec};
use crate::schema::{JobSchema, TableSchema};
use crate::shard::ShardCount;
use crate::split::InputFile;
use crate::windows::{Verdict, Windows};

use super::{Manifest, ManifestFile, ShardImage, TableImage};

/// A small shard with every kind of content.
pub(super) fn image() -> ShardImage {
    ShardImage {
        shard: ShardId(7),
        lineage: Lineage(3),
        clock: Clock(11),
        windows: windows(&[(4, 2, true), (2, 0, true), (4, 0, false), (9, 5, false)]),
        tables: vec![
            TableImage {
                dim: 2,
                slots: 1,
                keys: vec![Key(30), Key(10), Key(20)],
                rows: (0..9u8).map(f32::from).collect(),
            },
            TableImage {
                dim: 1,
                slots: 0,
                keys: vec![Key::BIAS],
                rows: vec![0.5],
            },
        ],
    }
}

/// Windows that these pushes (source, number, END) lead to; those that are refused do nothing.
pub(super) fn windows(pushes: &[(u64, u64, bool)]) -> Windows {
    let mut windows = Windows::default();
    for &(source, seq, end) in pushes {
        let id = PushId {
            source: SourceId(source),
            seq: Seq(seq),
        };
        if windows.judge(id, end) == Verdict::Apply {
            windows.mark(id, end);
        }
    }
    windows
}

/// Any shard that a server can hold, rows in any order.
pub(super) fn images() -> impl Strategy<Value = ShardImage> {
    let pushes = prop::collection::vec((0u64..12, 0u64..70, prop::bool::weighted(0.2)), 0..60);
    let tables = prop::collection::vec(tables(), 0..4);
    (any::<(u16, u64, u64)>(), pushes, tables).prop_map(
        |((shard, lineage, clock), pushes, tables)| ShardImage {
            shard: ShardId(shard),
            lineage: Lineage(lineage),
            clock: Clock(clock),
            windows: windows(&pushes),
            tables,
        },
    )
}

fn tables() -> impl Strategy<Value = TableImage> {
    let keys = prop::collection::btree_set(any::<u64>(), 0..12)
        .prop_map(|keys: BTreeSet<u64>| keys.into_iter().map(Key).collect::<Vec<_>>())
        .prop_shuffle();
    (1usize..4, 0usize..5, keys).prop_flat_map(|(dim, slots, keys)| {
        prop::collection::vec(-1e6f32..1e6, keys.len() * (dim + slots)).prop_map(move |rows| {
            TableImage {
                dim,
                slots,
                keys: keys.clone(),
                rows,
            }
        })
    })
}

/// The same shard with its rows sorted by key, row by row.
pub(super) fn sorted(image: &ShardImage) -> ShardImage {
    let mut image = image.clone();
    for table in &mut image.tables {
        let width = table.dim + table.slots;
        let by_key: BTreeMap<Key, &[f32]> = table
            .keys
            .iter()
            .copied()
            .zip(table.rows.chunks(width))
            .collect();
        table.keys = by_key.keys().copied().collect();
        table.rows = by_key.into_values().flatten().copied().collect();
    }
    image
}

/// The manifest of a job with two shards and one table, `[weights; accumulator]`.
pub(super) fn manifest(files: Vec<ManifestFile>) -> Manifest {
    let metrics = |auc| BTreeMap::from([("auc".to_owned(), auc)]);
    Manifest {
        job: "flights".into(),
        lineage: Lineage(3),
        windlass: "0.1.0".into(),
        config: "[job]\nname = \"flights\"\n".into(),
        schema: JobSchema {
            shards: ShardCount::new(2).unwrap(),
            seed: 1,
            tables: vec![TableSchema {
                name: "linear".into(),
                dim: 1,
                init: Init::Normal { std: 0.01 },
                optimizer: OptimizerSpec::Adagrad(Adagrad::default()),
            }],
        },
        recipe: Recipe {
            files: vec![InputFile {
                name: "a.csv".into(),
                bytes: 10,
                digest: [1; 32],
                divisible: true,
            }],
            split_bytes: 4,
            batch_size: 2,
            shuffle: 3,
            seed: 1,
            reading: [2; 32],
        },
        history: History {
            epochs: 1,
            progress: vec![EpochMetrics {
                epoch: Epoch(0),
                train: metrics(0.625),
                validation: metrics(0.75),
            }],
            test: BTreeMap::new(),
            finished: false,
            stopped_early: false,
        },
        files,
    }
}
