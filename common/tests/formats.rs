//! Checkpoints and logs of every released version open, and say what they said.
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
use windlass_common::format::log::{
    GroupBuilder, Record, Scan, Sealed, SegmentHeader, SegmentNumber, TableRecord,
};
use windlass_common::format::{
    Base, Checkpoint, Manifest, Mark, ShardImage, TableImage, Turnover, decode_shard, encode_shard,
};
use windlass_common::id::{
    Boot, CheckpointId, Clock, Epoch, JobId, Lineage, Lsn, PushId, Seq, ShardId, SourceId, TableId,
};
use windlass_common::init::Init;
use windlass_common::interval_set::IntervalSet;
use windlass_common::key::Key;
use windlass_common::optimizer::{Adagrad, Ftrl, OptimizerSpec};
use windlass_common::residency::{Admission, Eviction};
use windlass_common::runtime::{Disk, StdDisk};
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

fn turnover(sighted: u64, refused: u64, evicted: u64) -> Turnover {
    Turnover {
        sighted,
        refused,
        evicted,
    }
}

fn mark(lsn: u64) -> Mark {
    Mark {
        boot: Boot(77),
        lsn: Lsn(lsn),
    }
}

/// Shard 0, shard 1, and what changed in shard 1 until the next checkpoint.
fn shards() -> [ShardImage; 3] {
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
    let still_open = BTreeMap::from([(SourceId(6), window(5, 0, None))]);
    [
        ShardImage {
            shard: ShardId(0),
            lineage: Lineage(3),
            mark: mark(40),
            base: None,
            clock: Clock(11),
            windows: Windows::from_parts(BTreeMap::new(), IntervalSet::below(4)),
            tables: vec![empty(2, 1), empty(1, 2)],
        },
        ShardImage {
            shard: ShardId(1),
            lineage: Lineage(3),
            mark: mark(41),
            base: None,
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
                    used: vec![6],
                    sketch: (0..64).collect(),
                    turnover: turnover(5, 4, 0),
                    ..empty(1, 2)
                },
            ],
        },
        ShardImage {
            shard: ShardId(1),
            lineage: Lineage(3),
            mark: mark(50),
            base: Some(Base {
                checkpoint: CheckpointId(11),
                mark: mark(41),
                clock: Clock(12),
            }),
            clock: Clock(14),
            windows: Windows::from_parts(still_open, IntervalSet::below(6)),
            tables: vec![
                TableImage {
                    keys: vec![Key(10), Key(11)],
                    rows: vec![5.0, 6.0, 7.0, 8.0, 9.0, 10.0],
                    ..empty(2, 1)
                },
                TableImage {
                    deleted: vec![Key(7), Key(9)],
                    sketch: (0..64).rev().collect(),
                    turnover: turnover(8, 6, 2),
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
            TableSchema::new(
                "linear",
                2,
                Init::Zeros,
                OptimizerSpec::RowwiseAdagrad(Adagrad {
                    learning_rate: 0.05,
                    initial_accumulator: 0.5,
                    epsilon: 1e-8,
                    l2: 0.25,
                }),
            ),
            TableSchema {
                admission: Some(Admission {
                    sightings: 2,
                    sketch_bytes: 128,
                }),
                eviction: Eviction {
                    ttl: Some(100),
                    max_bytes: Some(1 << 20),
                },
                ..TableSchema::new(
                    "factors",
                    1,
                    Init::Normal { std: 0.01 },
                    OptimizerSpec::Ftrl(Ftrl {
                        alpha: 0.1,
                        beta: 1.0,
                        l1: 2.0,
                        l2: 3.0,
                    }),
                )
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
    let names = [
        "checkpoint-000012/0000-full.shard",
        "checkpoint-000011/0001-full.shard",
        "checkpoint-000012/0001-delta.shard",
    ];
    for (name, expected) in names.into_iter().zip(shards()) {
        let path = v1(name);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(decode_shard(&bytes, &path).unwrap(), expected);
        assert_eq!(encode_shard(&expected), bytes, "{name}");
    }
}

#[test]
fn a_manifest_of_version_1_is_read_and_written_to_the_byte() {
    let path = v1("checkpoint-000012/manifest.bin");
    let bytes = fs::read(&path).unwrap();
    let manifest = Manifest::decode(&bytes, &path).unwrap();
    assert_eq!(manifest.job, "flights");
    assert_eq!(manifest.job_id, JobId(8));
    assert_eq!(manifest.number, CheckpointId(12));
    assert_eq!(manifest.lineage, Lineage(3));
    assert_eq!(manifest.taken_ms, 1_790_000_000_000);
    assert!(manifest.pinned);
    assert_eq!(manifest.windlass, "0.1.0");
    assert_eq!(manifest.config, "[job]\nname = \"flights\"\n");
    assert_eq!(manifest.schema, schema());
    assert_eq!(manifest.recipe, recipe());
    assert_eq!(manifest.target, 5);
    assert_eq!(manifest.history, history());
    assert_eq!(manifest.complete, IntervalSet::below(4));
    let files: Vec<_> = manifest
        .files()
        .map(|(shard, f)| (shard.0, f.folder.as_str(), f.name.as_str(), f.rows))
        .collect();
    assert_eq!(
        files,
        [
            (0, "", "0000-full.shard", 0),
            (1, "checkpoint-000011", "0001-full.shard", 3),
            (1, "", "0001-delta.shard", 2)
        ]
    );
    assert_eq!(manifest.encode(&path).unwrap(), bytes);
}

#[test]
fn a_checkpoint_of_version_1_is_whole_and_its_delta_is_merged() {
    let disk: Arc<dyn Disk> = Arc::new(StdDisk);
    let checkpoint = Checkpoint::open_folder(&disk, &v1("checkpoint-000012")).unwrap();
    checkpoint.verify().unwrap();
    let merged = checkpoint.image(ShardId(1)).unwrap();
    assert_eq!(
        merged.tables[0],
        TableImage {
            keys: vec![Key(10), Key(11), Key::BIAS],
            rows: vec![5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 0.25, 3.0, 8.0],
            ..empty(2, 1)
        }
    );
    assert_eq!(
        merged.tables[1],
        TableImage {
            sketch: (0..64).rev().collect(),
            turnover: turnover(8, 6, 2),
            ..empty(1, 2)
        }
    );
    assert_eq!((merged.mark, merged.clock), (mark(50), Clock(14)));
    assert_eq!(merged.windows, shards()[2].windows);
}

fn pushed(
    (job, shard, lineage): (u64, u16, u64),
    (source, seq, end): (u64, u64, bool),
    tables: &[(u16, &[u64], &[f32])],
) -> Record<'static> {
    let table = |&(table, keys, gradients): &(u16, &[u64], &[f32])| TableRecord {
        table: TableId(table),
        keys: keys.iter().copied().map(Key).collect(),
        gradients: gradients.to_vec().into(),
    };
    Record {
        job: JobId(job),
        shard: ShardId(shard),
        lineage: Lineage(lineage),
        id: PushId {
            source: SourceId(source),
            seq: Seq(seq),
        },
        end,
        tables: tables.iter().map(table).collect(),
    }
}

/// The segments' headers, and their groups' records.
fn segments() -> [(SegmentHeader, Vec<Vec<Record<'static>>>); 3] {
    let header = |segment, boot, first, previous: Option<(u64, u64)>, cut| SegmentHeader {
        segment: SegmentNumber(segment),
        boot: Boot(boot),
        first: Lsn(first),
        previous: previous.map(|(segment, bytes)| Sealed {
            segment: SegmentNumber(segment),
            bytes,
        }),
        cut,
    };
    let rows: &[(u16, &[u64], &[f32])] = &[
        (0, &[10, u64::MAX], &[1.0, -2.0, 0.25, 3.0]),
        (1, &[7], &[-0.75]),
    ];
    [
        (
            header(1, 77, 1, None, false),
            vec![
                vec![
                    pushed((5, 0, 3), (4, 0, false), rows),
                    pushed((5, 1, 3), (4, 0, false), &[]),
                ],
                vec![pushed((5, 0, 3), (4, 1, true), &[])],
            ],
        ),
        (header(2, 77, 4, Some((1, 309)), true), vec![]),
        (
            header(3, 78, 9, Some((2, 0)), false),
            vec![vec![pushed(
                (6, 300, 1),
                (0, 2, false),
                &[(2, &[8], &[0.5])],
            )]],
        ),
    ]
}

#[test]
fn a_log_of_version_1_is_read_and_written_to_the_byte() {
    for (header, groups) in segments() {
        let path = v1("log").join(header.segment.file_name());
        let bytes = fs::read(&path).unwrap();
        let mut scan = Scan::begin(&bytes[..], &path).unwrap();
        assert_eq!(*scan.header(), header);
        let mut written = header.encode().unwrap();
        for records in groups {
            let mut again = GroupBuilder::new(scan.next(), Vec::new());
            let group = scan.group(None).unwrap().unwrap();
            let read = group
                .entries()
                .map(|entry| entry.unwrap().decode().unwrap());
            assert_eq!(read.collect::<Vec<_>>(), records);
            for record in &records {
                again.push(record).unwrap();
            }
            written.extend_from_slice(again.finish());
        }
        let end = scan.end();
        assert_eq!(written, bytes[..written.len()], "{}", path.display());
        assert_eq!(written.len() as u64, end);
        // What follows in 1 and 3 is no group.
        assert_eq!(bytes.len() as u64 > end, header.segment != SegmentNumber(2));
        assert_eq!(scan.group(None).is_err(), bytes.len() as u64 > end);
    }
}
