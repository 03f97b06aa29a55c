#![allow(
    clippy::cast_possible_truncation,
    reason = "lengths in these tests are small"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use windlass_client::runtime::{InlinePool, TokioClock};
use windlass_common::exchange::{Answer, Push, TableGradients};
use windlass_common::format::FormatError;
use windlass_common::format::log::{
    GroupBuilder, Record, Sealed, SegmentHeader, SegmentNumber, TableRecord,
};
use windlass_common::id::{Boot, JobId, Lineage, Lsn, PushId, Seq, ShardId, SourceId, TableId};
use windlass_common::init::Init;
use windlass_common::key::Key;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::runtime::Pool;
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::{ShardCount, ShardedKeys};
use windlass_proto::{ErrorKind, WireError};

use super::*;
use crate::apply::{apply, replay};
use crate::error::Error;
use crate::shard::Shard;
use disk::{MemDisk, Rng};

mod crash;
mod disk;
mod measure;
mod trouble;

const FOLDER: &str = "data/log";
const BOOT: Boot = Boot(5);

/// A push to one shard of job 1; its number tells it from others.
fn record(shard: u16, number: u64) -> Record<'static> {
    Record {
        job: JobId(1),
        shard: ShardId(shard),
        lineage: Lineage(1),
        id: PushId {
            source: SourceId(3),
            seq: Seq(number),
        },
        end: false,
        tables: vec![TableRecord {
            table: TableId(0),
            keys: vec![Key(number)].into(),
            gradients: vec![number as f32, 0.5].into(),
        }],
    }
}

/// Bytes of a [`record`], and of a group of one.
const RECORD: u64 = 46 + 10 + 8 + 8;
const GROUP: u64 = 24 + RECORD;

/// Two groups of one record each fit into a segment.
fn small() -> Settings {
    Settings {
        segment_bytes: SegmentHeader::BYTES + 2 * GROUP,
        ..Settings::default()
    }
}

/// A log with its writer.
struct Life {
    log: Arc<Log>,
    recovered: Recovered,
    writer: JoinHandle<()>,
}

impl Life {
    fn begin(disk: &MemDisk, settings: Settings) -> Self {
        Self::with(disk, settings, InlinePool)
    }

    fn with(disk: &MemDisk, settings: Settings, pool: impl Pool + 'static) -> Self {
        let (log, recovered) = Log::open(disk.shared(), Path::new(FOLDER), BOOT, settings).unwrap();
        let running = Arc::clone(&log);
        let writer = tokio::spawn(async move { running.run(&pool, &TokioClock::new()).await });
        Self {
            log,
            recovered,
            writer,
        }
    }

    /// Appends a record and waits until it is on the disk.
    async fn push(&self, shard: u16, number: u64) -> Lsn {
        let lsn = self.log.append(&record(shard, number)).unwrap();
        self.log.synced(lsn).await.unwrap();
        lsn
    }

    fn replayed(&self) -> Vec<(Lsn, u64)> {
        replayed(&self.log)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

/// All records that are on the disk, each checked to be as it was written.
fn replayed(log: &Log) -> Vec<(Lsn, u64)> {
    let mut records = Vec::new();
    let count = log.replay(
        |_, _| true,
        |lsn, read| {
            let number = read.id.seq.0;
            assert_eq!(read, record(read.shard.0, number));
            records.push((lsn, number));
            Ok(())
        },
    );
    assert_eq!(count.unwrap(), records.len() as u64);
    records
}

fn names(disk: &MemDisk) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    disk.files().keys().map(name).collect()
}

/// Ends when a future would wait for ever: time goes on only when nothing else does.
async fn waits<T>(future: impl Future<Output = T>) -> bool {
    timeout(Duration::from_secs(3600), future).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn s2_an_acknowledgement_waits_for_the_disk() {
    let disk = MemDisk::default();
    let (log, _) = Log::open(disk.shared(), Path::new(FOLDER), BOOT, small()).unwrap();
    let lsn = log.append(&record(0, 7)).unwrap();
    assert_eq!((lsn, log.appended()), (Lsn(1), Lsn(1)));
    assert!(waits(log.synced(lsn)).await);
    log.synced(Lsn(0)).await.unwrap();

    let running = Arc::clone(&log);
    let writer = tokio::spawn(async move { running.run(&InlinePool, &TokioClock::new()).await });
    log.synced(log.appended()).await.unwrap();
    assert_eq!(log.state().synced, lsn);
    // The power goes now: what was acknowledged is there.
    let after = Life::begin(&disk.crash(&mut Rng(1)), small());
    assert_eq!(after.replayed(), [(lsn, 7)]);
    writer.abort();
}

/// Lets one job through for each permit.
struct Gate(Arc<tokio::sync::Semaphore>);

impl Pool for Gate {
    fn run(
        &self,
        job: windlass_common::runtime::Job,
    ) -> windlass_common::runtime::BoxFuture<'static, ()> {
        let permits = Arc::clone(&self.0);
        Box::pin(async move {
            permits.acquire().await.unwrap().forget();
            job();
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_is_what_arrived_while_the_last_one_was_synced() {
    let disk = MemDisk::default();
    let gate = Arc::new(tokio::sync::Semaphore::new(1));
    let life = Life::with(&disk, Settings::default(), Gate(Arc::clone(&gate)));
    life.push(0, 0).await;
    let before = disk.state().syncs;

    life.log.append(&record(0, 1)).unwrap();
    assert!(
        waits(life.log.synced(Lsn(2))).await,
        "the writer has taken it and is held up"
    );
    for number in 2..100 {
        life.log.append(&record(0, number)).unwrap();
    }
    gate.add_permits(100);
    life.log.synced(life.log.appended()).await.unwrap();
    assert_eq!(
        disk.state().syncs - before,
        2,
        "one for the first, one for the 98 others"
    );
    assert_eq!(life.replayed().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_push_is_admitted_when_few_bytes_wait_for_the_disk() {
    let disk = MemDisk::default();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let settings = Settings {
        buffer_bytes: 2 * GROUP,
        ..Settings::default()
    };
    let life = Life::with(&disk, settings, Gate(Arc::clone(&gate)));
    for number in 0..3 {
        life.log.admit().await.unwrap();
        life.log.append(&record(0, number)).unwrap();
    }
    assert!(life.log.state().waiting > 2 * GROUP);
    assert!(waits(life.log.admit()).await);
    gate.add_permits(10);
    life.log.admit().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_restart_goes_on_in_a_new_segment_with_the_next_lsn() {
    let disk = MemDisk::default();
    let first = Life::begin(&disk, small());
    for number in 0..3 {
        first.push(0, number).await;
    }
    let state = first.log.state();
    assert_eq!(
        (state.segments, state.appended, state.synced),
        (2, Lsn(3), Lsn(3))
    );
    assert_eq!(state.bytes, 2 * SegmentHeader::BYTES + 3 * GROUP);
    drop(first);

    let second = Life::begin(&disk, small());
    let Recovered {
        last,
        segments,
        bytes,
        damage,
        torn,
    } = &second.recovered;
    assert_eq!((*last, *segments, *bytes), (Lsn(3), 2, state.bytes));
    assert!(damage.is_none() && torn.is_none());
    assert_eq!(second.push(0, 3).await, Lsn(4));
    assert_eq!(
        second.replayed(),
        [(Lsn(1), 0), (Lsn(2), 1), (Lsn(3), 2), (Lsn(4), 3)]
    );
    // S7 `mark_life`: there was room in the second segment.
    assert_eq!(
        names(&disk),
        ["0000000001.log", "0000000002.log", "0000000003.log"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_replay_reads_the_wanted_shards_and_no_other_segment() {
    let disk = MemDisk::default();
    let life = Life::begin(&disk, small());
    for number in 0..6 {
        life.push(u16::from(number >= 4), number).await;
    }
    // Segments 1 and 2 have shard 0 alone, segment 3 has shard 1 alone.
    disk.put(format!("{FOLDER}/0000000001.log"), b"nobody reads this");
    let mut seen = Vec::new();
    let wanted = |job, shard| (job, shard) == (JobId(1), ShardId(1));
    let keep = |lsn, _: Record<'static>| {
        seen.push(lsn);
        Ok(())
    };
    assert_eq!(life.log.replay(wanted, keep).unwrap(), 2);
    assert_eq!(seen, [Lsn(5), Lsn(6)]);
    let stop = |_, _: Record<'static>| Err(Error::WorkDropped);
    assert!(matches!(
        life.log.replay(wanted, stop),
        Err(Error::WorkDropped)
    ));
    let damaged = life.log.replay(|_, _| true, |_, _| Ok(())).unwrap_err();
    assert!(
        damaged
            .to_string()
            .contains("0000000001.log is damaged at byte"),
        "{damaged}"
    );
}

#[tokio::test(start_paused = true)]
async fn s7_a_cut_removes_exactly_the_covered_segments() {
    let disk = MemDisk::default();
    let life = Life::begin(&disk, small());
    // Two records a segment; shard of each: 0 0 | 1 0 | 0 0 | 2 0 | 0 0 | 0
    for (number, shard) in [0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0].into_iter().enumerate() {
        life.push(shard, number as u64).await;
    }
    let numbers = |life: &Life| life.replayed().iter().map(|r| r.1).collect::<Vec<_>>();
    let marks = |marks: BTreeMap<u16, Coverage>| {
        move |_, shard: ShardId| *marks.get(&shard.0).unwrap_or(&Coverage::Nothing)
    };
    let up_to = |lsn| Coverage::UpTo(Lsn(lsn));
    assert_eq!(life.log.cut(|_, _| Coverage::Nothing).unwrap(), 0);
    assert_eq!(life.log.cut(marks([(0, up_to(1))].into())).unwrap(), 0);

    // The first at its front, the third and the fifth in the middle.
    assert_eq!(life.log.cut(marks([(0, up_to(10))].into())).unwrap(), 3);
    assert_eq!(numbers(&life), [2, 3, 6, 7, 10]);
    assert_eq!(names(&disk).len(), 5);
    let sizes: Vec<_> = disk
        .files()
        .values()
        .map(|bytes| bytes.len() as u64)
        .collect();
    let (stub, full) = (SegmentHeader::BYTES, SegmentHeader::BYTES + 2 * GROUP);
    assert_eq!(sizes, [full, stub, full, stub, stub + GROUP]);
    assert_eq!(life.log.state().bytes, sizes.iter().sum::<u64>());
    // Nothing twice.
    assert_eq!(life.log.cut(marks([(0, up_to(10))].into())).unwrap(), 0);

    let again = Life::begin(&disk.copy(), small());
    assert_eq!(numbers(&again), [2, 3, 6, 7, 10]);
    assert!(again.recovered.damage.is_none() && again.recovered.torn.is_none());

    // Job 1 is gone: all but the segment that is being written.
    assert_eq!(life.log.cut(|_, _| Coverage::Gone).unwrap(), 4);
    assert_eq!(names(&disk), ["0000000006.log"]);
    life.push(0, 11).await;
    assert_eq!(numbers(&life), [10, 11]);
    let again = Life::begin(&disk.copy(), small());
    assert_eq!(numbers(&again), [10, 11]);
    assert_eq!(again.push(0, 12).await, Lsn(13));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_no_reader_would_accept_is_refused_and_leaves_no_trace() {
    let disk = MemDisk::default();
    let life = Life::begin(&disk, small());
    let mut huge = record(0, 0);
    huge.tables[0].keys = vec![Key(0); 1 << 25].into();
    huge.tables[0].gradients = vec![].into();
    let refused = WireError::from(life.log.append(&huge).unwrap_err());
    assert_eq!(refused.kind, ErrorKind::TooLarge);
    assert_eq!((life.log.appended(), life.log.state().waiting), (Lsn(0), 0));
    assert_eq!(life.push(0, 1).await, Lsn(1));
    // Beyond a group, but not beyond a record.
    huge.tables[0].keys = vec![Key(0); 1 << 22].into();
    life.log.append(&huge).unwrap();
    assert_eq!(life.push(0, 2).await, Lsn(3));
    let mut lsns = Vec::new();
    let keep = |lsn: Lsn, _: Record<'static>| {
        lsns.push(lsn.0);
        Ok(())
    };
    life.log.replay(|_, _| true, keep).unwrap();
    assert_eq!(lsns, [1, 2, 3]);
}

/// A push of eight keys over four shards, to both tables, and the END of its source.
fn pushes() -> (JobSchema, [Push; 2]) {
    let shards = ShardCount::new(4).unwrap();
    let table = |name: &str, dim| {
        TableSchema::new(
            name,
            dim,
            Init::Normal { std: 0.1 },
            OptimizerSpec::default(),
        )
    };
    let schema = JobSchema {
        shards,
        seed: 1,
        tables: vec![table("linear", 1), table("factors", 3)],
    };
    let set = Arc::new(ShardedKeys::group(&(0..8).map(Key).collect::<Vec<_>>(), shards).0);
    let part = |table, floats: usize| TableGradients {
        table: TableId(table),
        set: 0,
        gradients: (0..floats).map(|i| i as f32 + 0.5).collect(),
    };
    let batch = Push {
        job: JobId(1),
        lineage: Lineage(2),
        id: PushId {
            source: SourceId(3),
            seq: Seq(0),
        },
        end: false,
        cover: shards.all().collect(),
        sets: vec![set],
        tables: vec![part(1, 24), part(0, 8)],
    };
    let end = Push {
        id: PushId {
            seq: Seq(1),
            ..batch.id
        },
        end: true,
        sets: vec![],
        tables: vec![],
        ..batch.clone()
    };
    (schema, [batch, end])
}

#[tokio::test(start_paused = true)]
async fn a5_a_replay_makes_the_same_shard_and_counts_nothing_twice() {
    let (schema, pushes) = pushes();
    let disk = MemDisk::default();
    let life = Life::begin(&disk, small());
    let new = |id| Shard::new(id, Lineage(2), &schema);
    let mut shards: Vec<_> = schema.shards.all().map(new).collect();
    for push in &pushes {
        for shard in &mut shards {
            let part = Record::of(push, shard.id);
            let answer = apply(shard, &part, Some(&life.log)).unwrap();
            assert!(matches!(answer, Answer::Applied { .. }));
        }
    }
    life.log.synced(life.log.appended()).await.unwrap();

    let mut again: Vec<_> = schema.shards.all().map(new).collect();
    for _ in 0..2 {
        let apply = |_, record: Record<'static>| {
            replay(&mut again[usize::from(record.shard.0)], &record, &schema)
        };
        assert_eq!(life.log.replay(|_, _| true, apply).unwrap(), 8);
        for (shard, again) in shards.iter().zip(&again) {
            let content = |shard: &Shard| {
                let image = shard.image();
                (image.clock, image.windows, image.tables)
            };
            assert_eq!(content(shard), content(again));
        }
    }
    // A job of another number of shards is not this one.
    let mut schema = schema;
    schema.shards = ShardCount::new(8).unwrap();
    let stray = Record::of(&pushes[0], ShardId(3));
    let refused = replay(&mut again[3], &stray, &schema);
    assert!(matches!(refused, Err(Error::Replay { .. })), "{refused:?}");
}
