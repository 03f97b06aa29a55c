//! Shards and manifests for the tests of this folder.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::coordination::{EpochMetrics, History, Recipe};
use crate::id::{
    Boot, CheckpointId, Clock, Epoch, JobId, Lineage, Lsn, PushId, Seq, ShardId, SourceId,
};
use crate::init::Init;
use crate::key::Key;
use crate::optimizer::{Adagrad, OptimizerSpec};
use crate::schema::{JobSchema, TableSchema};
use crate::shard::ShardCount;
use crate::split::InputFile;
use crate::windows::{Verdict, Windows};

use super::{Base, Manifest, ManifestFile, Mark, ShardImage, TableImage, Turnover};

/// A small shard with every kind of content.
pub(super) fn image() -> ShardImage {
    ShardImage {
        shard: ShardId(7),
        lineage: Lineage(3),
        mark: mark(40),
        base: None,
        clock: Clock(11),
        windows: windows_of_image(),
        tables: vec![
            TableImage {
                dim: 2,
                slots: 1,
                keys: vec![Key(30), Key(10), Key(20)],
                rows: (0..9u8).map(f32::from).collect(),
                used: vec![1, 2, 3],
                sketch: vec![1, 0, 255, 7],
                turnover: turnover(20, 30, 40),
                ..TableImage::default()
            },
            TableImage {
                dim: 1,
                keys: vec![Key::BIAS],
                rows: vec![0.5],
                ..TableImage::default()
            },
        ],
    }
}

fn windows_of_image() -> Windows {
    windows(&[(4, 2, true), (2, 0, true), (4, 0, false), (9, 5, false)])
}

/// A moment of the life of the server that took [`image`].
pub(super) fn mark(lsn: u64) -> Mark {
    Mark {
        boot: Boot(77),
        lsn: Lsn(lsn),
    }
}

fn turnover(sighted: u64, refused: u64, evicted: u64) -> Turnover {
    Turnover {
        sighted,
        refused,
        evicted,
    }
}

/// A delta on [`image`] as a file of checkpoint 1.
pub(super) fn delta() -> ShardImage {
    let keys = |keys: &[u64]| keys.iter().copied().map(Key).collect();
    ShardImage {
        mark: mark(50),
        base: Some(base(1, &image())),
        clock: Clock(13),
        windows: windows(&[(4, 2, true), (2, 0, true), (4, 0, false), (4, 1, false)]),
        tables: vec![
            TableImage {
                dim: 2,
                slots: 1,
                keys: keys(&[25, 20]),
                rows: vec![7.0; 6],
                used: vec![5, 6],
                deleted: keys(&[10, 5]),
                sketch: vec![0, 1, 2, 3],
                turnover: turnover(21, 31, 42),
            },
            TableImage {
                dim: 1,
                ..TableImage::default()
            },
        ],
        ..image()
    }
}

/// Names a copy as a file of a checkpoint.
pub(super) fn base(checkpoint: u64, image: &ShardImage) -> Base {
    Base {
        checkpoint: CheckpointId(checkpoint),
        mark: image.mark,
        clock: image.clock,
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
    let base = prop::option::of((1..9u64, any::<u64>(), any::<u64>()));
    (any::<(u16, u64, u64, u64)>(), base, pushes, tables).prop_map(
        |((shard, lineage, lsn, clock), base, pushes, mut tables)| {
            let base = base.map(|(checkpoint, lsn, clock)| Base {
                checkpoint: CheckpointId(checkpoint),
                mark: mark(lsn),
                clock: Clock(clock),
            });
            for table in tables.iter_mut().filter(|_| base.is_some()) {
                let twins = table.keys.iter().map(|key| Key(key.0 ^ 1));
                table.deleted = twins.filter(|key| !table.keys.contains(key)).collect();
            }
            ShardImage {
                shard: ShardId(shard),
                lineage: Lineage(lineage),
                mark: mark(lsn),
                base,
                clock: Clock(clock),
                windows: windows(&pushes),
                tables,
            }
        },
    )
}

fn tables() -> impl Strategy<Value = TableImage> {
    let keys = prop::collection::btree_set(any::<u64>(), 0..12)
        .prop_map(|keys: BTreeSet<u64>| keys.into_iter().map(Key).collect::<Vec<_>>())
        .prop_shuffle();
    let sketch = prop::collection::vec(any::<u8>(), 0..9);
    let came_and_went = any::<(u64, u64, u64)>();
    let kept = (any::<bool>(), sketch, came_and_went);
    (1usize..4, 0usize..5, keys, kept).prop_flat_map(|(dim, slots, keys, kept)| {
        let (ages, sketch, (sighted, refused, evicted)) = kept;
        let used = prop::collection::vec(any::<u32>(), if ages { keys.len() } else { 0 });
        let rows = prop::collection::vec(-1e6f32..1e6, keys.len() * (dim + slots));
        (rows, used).prop_map(move |(rows, used)| TableImage {
            dim,
            slots,
            keys: keys.clone(),
            rows,
            used,
            deleted: Vec::new(),
            sketch: sketch.clone(),
            turnover: turnover(sighted, refused, evicted),
        })
    })
}

/// The same shard with its rows sorted by key, row by row.
pub(super) fn sorted(image: &ShardImage) -> ShardImage {
    let mut image = image.clone();
    for table in &mut image.tables {
        let width = table.dim + table.slots;
        let order: BTreeMap<Key, usize> = table.keys.iter().copied().zip(0..).collect();
        let rows = order
            .values()
            .map(|&row| &table.rows[row * width..][..width]);
        table.rows = rows.flatten().copied().collect();
        if !table.used.is_empty() {
            table.used = order.values().map(|&row| table.used[row]).collect();
        }
        table.keys = order.into_keys().collect();
        table.deleted.sort_unstable();
    }
    image
}

/// The manifest of a job with two shards and one table, `[weights; accumulator]`.
pub(super) fn manifest(files: Vec<ManifestFile>) -> Manifest {
    let metrics = |auc| BTreeMap::from([("auc".to_owned(), auc)]);
    Manifest {
        job: "flights".into(),
        job_id: JobId(0),
        number: CheckpointId(0),
        lineage: Lineage(3),
        taken_ms: 0,
        pinned: false,
        windlass: "0.1.0".into(),
        config: "[job]\nname = \"flights\"\n".into(),
        schema: JobSchema {
            shards: ShardCount::new(2).unwrap(),
            seed: 1,
            tables: vec![TableSchema::new(
                "linear",
                1,
                Init::Normal { std: 0.01 },
                OptimizerSpec::Adagrad(Adagrad::default()),
            )],
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
        target: 2,
        complete: windows_of_image().complete().clone(),
        chains: files.into_iter().map(|file| vec![file]).collect(),
    }
}
