use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use proptest::prelude::*;
use windlass_client::transport::Shards;
use windlass_common::exchange::{Answer, Pull, Push, TableGradients};
use windlass_common::format::Base;
use windlass_common::format::log::Record;
use windlass_common::id::{Clock, MapEpoch, PushId, Seq, SourceId, TableId};
use windlass_common::init::Init;
use windlass_common::key::Key;
use windlass_common::optimizer::{OptimizerSpec, Sgd};
use windlass_common::runtime::{BoxFuture, Job as Work};
use windlass_common::schema::TableSchema;
use windlass_common::shard::{ShardCount, ShardedKeys};
use windlass_proto::{ErrorKind, WireError};

use super::*;

const JOB: JobId = JobId(9);

/// Runs at once, as in simulation, and counts.
#[derive(Default)]
struct Inline(AtomicUsize);

impl Pool for Inline {
    fn run(&self, job: Work) -> BoxFuture<'static, ()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        job();
        Box::pin(async {})
    }
}

fn schema() -> JobSchema {
    let table = |name: &str, dim| {
        TableSchema::new(
            name,
            dim,
            Init::Normal { std: 1.0 },
            OptimizerSpec::Sgd(Sgd {
                learning_rate: 1.0,
                l2: 0.0,
            }),
        )
    };
    JobSchema {
        shards: ShardCount::new(4).unwrap(),
        seed: 1,
        tables: vec![
            TableSchema {
                init: Init::Zeros,
                ..table("count", 1)
            },
            table("factors", 2),
        ],
    }
}

fn incarnation(epoch: u64) -> Incarnation {
    Incarnation {
        epoch: MapEpoch(epoch),
        nonce: 5,
    }
}

fn assignment(epoch: u64, shards: &[u16]) -> Assignment {
    Assignment {
        job: JOB,
        name: "clicks".into(),
        lineage: Lineage(1),
        schema: schema(),
        shards: shards
            .iter()
            .map(|&s| (ShardId(s), incarnation(epoch)))
            .collect(),
        origin: None,
        save: None,
        settled: None,
    }
}

fn store(shards: &[u16]) -> Store {
    let store = Store::new(Arc::new(Inline::default()));
    store.assign(&[assignment(1, shards)]).unwrap();
    store
}

/// The first `count` keys of each shard in `of`.
fn keys(of: &[u16], count: usize) -> Vec<Key> {
    let of_shard = |&s: &u16| {
        let keys = (0..).map(Key);
        keys.filter(move |&k| schema().shards.shard_of(k) == ShardId(s))
            .take(count)
    };
    of.iter().flat_map(of_shard).collect()
}

fn id(seq: u64) -> PushId {
    PushId {
        source: SourceId(0),
        seq: Seq(seq),
    }
}

/// Adds 1 to each key's count.
fn push(seq: u64, keys: &[Key], cover: &[u16]) -> Push {
    let (set, _) = ShardedKeys::group(keys, schema().shards);
    Push {
        job: JOB,
        lineage: Lineage(1),
        id: id(seq),
        end: false,
        cover: cover.iter().copied().map(ShardId).collect(),
        tables: vec![TableGradients {
            table: TableId(0),
            set: 0,
            gradients: vec![-1.0; keys.len()],
        }],
        sets: vec![Arc::new(set)],
    }
}

fn end(seq: u64, cover: &[u16]) -> Push {
    Push {
        end: true,
        sets: Vec::new(),
        tables: Vec::new(),
        ..push(seq, &[], cover)
    }
}

fn pull(keys: &[Key], tables: &[u16]) -> Pull {
    let (set, _) = ShardedKeys::group(keys, schema().shards);
    Pull {
        job: JOB,
        sets: vec![Arc::new(set)],
        tables: tables.iter().map(|&t| (TableId(t), 0)).collect(),
        exactly_below: None,
    }
}

/// The inline pool never waits, so neither does any answer.
fn now<T>(answer: BoxFuture<'_, Result<T, WireError>>) -> Result<T, WireError> {
    answer.now_or_never().expect("an inline answer is ready")
}

fn answers(store: &Store, push: Push) -> Vec<Answer> {
    let pushed = now(store.push(push)).unwrap();
    pushed
        .answers
        .into_iter()
        .map(|(_, answer)| answer)
        .collect()
}

fn kind<T: std::fmt::Debug>(answer: Result<T, WireError>) -> ErrorKind {
    answer.unwrap_err().kind
}

fn counts(store: &Store, keys: &[Key]) -> Vec<f32> {
    now(store.pull(pull(keys, &[0]))).unwrap().tables.remove(0)
}

#[test]
fn s0_what_no_map_gives_is_not_served() {
    let store = store(&[0, 1]);
    assert_eq!(
        kind(now(store.pull(pull(&keys(&[1, 2], 1), &[0])))),
        ErrorKind::Moved
    );
    let other = Pull {
        job: JobId(8),
        ..pull(&[], &[])
    };
    assert_eq!(kind(now(store.pull(other))), ErrorKind::Moved);
    assert_eq!(kind(now(store.snapshot(JOB, ShardId(2)))), ErrorKind::Moved);
    assert_eq!(
        kind(now(store.snapshot(JOB, ShardId(4)))),
        ErrorKind::Invalid
    );
}

#[test]
fn s1_only_listed_and_owned_shards_are_touched() {
    let store = store(&[0, 1, 3]);
    let moved = Answer::Moved;
    let applied = Answer::Applied { before: Clock(0) };
    assert_eq!(
        answers(&store, push(0, &keys(&[0, 2], 1), &[0, 1, 2])),
        [applied, applied, moved]
    );
    let clock = |shard| store.image(JOB, ShardId(shard)).unwrap().clock;
    assert_eq!(
        [clock(0), clock(1), clock(3)],
        [Clock(1), Clock(1), Clock(0)]
    );
    assert_eq!(store.counts().applied, 2);
}

#[test]
fn s3_a_new_map_keeps_adopts_creates_and_drops() {
    let store = store(&[0, 1]);
    answers(&store, push(0, &keys(&[0, 1], 1), &[0, 1]));
    store
        .assign(&[Assignment {
            lineage: Lineage(7),
            ..assignment(2, &[1, 2])
        }])
        .unwrap();
    let reports = store.report();
    assert_eq!(reports.len(), 1);
    let [kept, new] = &reports[0].shards[..] else {
        panic!("two shards, not {:?}", reports[0].shards);
    };
    // Only a restore begins a lineage in a shard that is in memory.
    assert_eq!(
        (kept.shard, kept.lineage, kept.clock),
        (ShardId(1), Lineage(1), Clock(1))
    );
    assert_eq!((kept.incarnation, kept.rows), (incarnation(2), 1));
    assert_eq!(kept.open, [(SourceId(0), Seq(1))]);
    assert_eq!(
        (new.shard, new.lineage, new.clock),
        (ShardId(2), Lineage(7), Clock(0))
    );
    // A shard that comes back begins with nothing.
    store.assign(&[assignment(3, &[0])]).unwrap();
    assert_eq!(counts(&store, &keys(&[0], 1)), [0.0]);
    store.assign(&[]).unwrap();
    assert!(store.report().is_empty());
}

#[test]
fn a_map_that_contradicts_what_is_held_changes_nothing() {
    let store = store(&[0]);
    let mut other = assignment(2, &[0, 1]);
    other.schema.tables[1].dim = 3;
    let error = store.assign(&[other]).unwrap_err().to_string();
    assert!(error.contains("dim of table `factors`"), "{error}");
    assert!(store.assign(&[assignment(2, &[1, 4])]).is_err());
    let shards = &store.report()[0].shards;
    assert_eq!((shards.len(), shards[0].incarnation), (1, incarnation(1)));
}

#[test]
fn a_push_with_a_nan_is_refused_whole_and_counted() {
    let store = store(&[0, 1, 2, 3]);
    let keys = keys(&[0, 3], 2);
    let mut bad = push(0, &keys, &[0, 1, 2, 3]);
    bad.tables[0].gradients[3] = f32::NAN;
    assert_eq!(kind(now(store.push(bad))), ErrorKind::Invalid);
    assert!(
        store.report()[0]
            .shards
            .iter()
            .all(|s| s.clock == Clock(0) && s.rows == 0)
    );
    assert_eq!((store.counts().not_finite, store.counts().applied), (1, 0));
    let good = answers(&store, push(0, &keys, &[0, 1, 2, 3]));
    assert_eq!(good, [Answer::Applied { before: Clock(0) }; 4]);
}

#[test]
fn a1_a_retry_after_a_move_is_applied_where_it_was_not() {
    let store = store(&[0, 1]);
    answers(&store, push(0, &keys(&[0], 1), &[0, 1]));
    store.assign(&[assignment(2, &[0, 2])]).unwrap();
    let applied = Answer::Applied { before: Clock(0) };
    assert_eq!(
        answers(&store, push(0, &keys(&[0, 2], 1), &[0, 2])),
        [Answer::Duplicate, applied]
    );
    assert_eq!(counts(&store, &keys(&[0, 2], 1)), [1.0, 1.0]);
    assert_eq!(store.counts().duplicates, 1);
}

proptest! {
    /// Batches come in any order and again, and shards are lost with all they had; when every
    /// batch has been offered once more, each counts once in each shard.
    #[test]
    fn every_batch_counts_once_whatever_is_lost(steps in prop::collection::vec(0u64..24, 0..80)) {
        let store = store(&[0, 1]);
        let keys = keys(&[0, 1], 2);
        for step in steps {
            match step {
                20 | 21 => store.assign(&[assignment(1, &[0])]).unwrap(),
                22 | 23 => store.assign(&[assignment(1, &[1])]).unwrap(),
                seq => drop(answers(&store, push(seq, &keys, &[0, 1]))),
            }
            store.assign(&[assignment(1, &[0, 1])]).unwrap();
        }
        for seq in 0..20 {
            answers(&store, push(seq, &keys, &[0, 1]));
        }
        answers(&store, end(20, &[0, 1]));
        prop_assert_eq!(counts(&store, &keys), [20.0; 4]);
        prop_assert!(store.report()[0].shards.iter().all(|s| s.complete.contains(0)));
    }
}

#[test]
fn a_pull_answers_in_the_order_of_its_keys_with_all_clocks() {
    let store = store(&[0, 1, 2, 3]);
    let known = keys(&[1, 2], 3);
    answers(&store, push(0, &known, &[1, 2, 3]));
    let empty = ShardedKeys::from_parts(vec![ShardId(3)], vec![0, 0], vec![], schema().shards);
    let mut pull = pull(&keys(&[0, 1, 2], 4), &[0, 1]);
    pull.sets.push(Arc::new(empty.unwrap()));
    let set = Arc::clone(&pull.sets[0]);
    let pulled = now(store.pull(pull)).unwrap();
    let clocks = [(0, 0), (1, 1), (2, 1), (3, 1)].map(|(s, c)| (ShardId(s), Clock(c)));
    assert_eq!(pulled.clocks, clocks);
    let count = |key| f32::from(u8::from(known.contains(key)));
    assert_eq!(
        pulled.tables[0],
        set.keys().iter().map(count).collect::<Vec<_>>()
    );
    let initializer =
        windlass_common::init::Initializer::new(Init::Normal { std: 1.0 }, 1, "factors");
    for (&key, row) in set.keys().iter().zip(pulled.tables[1].chunks(2)) {
        let mut initial = [0.0; 2];
        initializer.fill(key, &mut initial);
        assert_eq!(row, initial);
    }
    assert_eq!(store.counts().pulls, 1);
}

#[test]
fn a_pull_beyond_the_limit_is_refused_before_memory_is_taken() {
    let store = store(&[0, 1, 2, 3]);
    let keys: Vec<Key> = (0..1 << 20).map(Key).collect();
    // 1 Mi rows of 2 floats are 8 MiB: eight such tables are the limit, a ninth is too many.
    let too_large = pull(&keys, &[1; 9]);
    assert_eq!(kind(now(store.pull(too_large))), ErrorKind::TooLarge);
    assert_eq!(
        kind(now(store.pull(pull(&keys[..1], &[2])))),
        ErrorKind::Invalid
    );
}

#[test]
fn c12_an_evaluation_reads_only_what_it_asked_for() {
    let store = store(&[0, 1, 2, 3]);
    let keys = keys(&[0], 1);
    let exact = || {
        let exact = Pull {
            exactly_below: Some(SourceId(1)),
            ..pull(&keys, &[0])
        };
        now(store.pull(exact))
    };
    answers(&store, push(0, &keys, &[0, 1, 2, 3]));
    assert_eq!(kind(exact()), ErrorKind::NotExact);
    answers(&store, end(1, &[0, 1, 2, 3]));
    assert_eq!(exact().unwrap().tables, [[1.0]]);
    let next = Push {
        id: PushId {
            source: SourceId(1),
            seq: Seq(0),
        },
        ..push(0, &keys, &[0, 1, 2, 3])
    };
    answers(&store, next);
    assert_eq!(kind(exact()), ErrorKind::NotExact);
}

/// One thread pushes, this one copies: every copy must be true of itself (rule I1).
#[test]
fn a6_a_copy_holds_exactly_the_pushes_that_its_windows_name() {
    let store = store(&[0]);
    let keys = keys(&[0], 50);
    std::thread::scope(|scope| {
        let pusher = scope.spawn(|| {
            for seq in 0..2000 {
                answers(&store, push(seq, &keys, &[0]));
            }
        });
        loop {
            let last = pusher.is_finished();
            let image = store.image(JOB, ShardId(0)).unwrap();
            let next = image
                .windows
                .open()
                .get(&SourceId(0))
                .map_or(0, |w| w.next.0);
            assert_eq!(image.clock, Clock(next));
            assert!(
                image.tables[0]
                    .rows
                    .iter()
                    .all(|&count| count == next as f32)
            );
            if last {
                assert_eq!(next, 2000);
                break;
            }
        }
    });
}

/// 10,000 rows are shared among threads; shards worked one after the other say what is right.
#[test]
fn a_long_request_goes_to_the_pool_and_gives_the_same_bits() {
    let pool = Arc::new(Inline::default());
    let store = Store::new(Arc::clone(&pool) as Arc<dyn Pool>);
    store.assign(&[assignment(1, &[0, 1, 2, 3])]).unwrap();
    let keys = keys(&[0, 1, 2, 3], 2500);
    let mut long = push(0, &keys, &[0, 1, 2, 3]);
    long.tables.push(TableGradients {
        table: TableId(1),
        set: 0,
        gradients: (0..20_000u16).map(|i| f32::from(i) / 7.0).collect(),
    });
    let mut twins: Vec<Shard> = (0..4)
        .map(|s| Shard::new(ShardId(s), Lineage(1), &schema()))
        .collect();
    for twin in &mut twins {
        let part = Record::of(&long, twin.id);
        crate::apply::apply(twin, &part, None).unwrap();
    }
    answers(&store, long);
    for twin in &twins {
        assert_eq!(store.image(JOB, twin.id).unwrap(), twin.image());
    }
    let pulled = now(store.pull(pull(&keys, &[0, 1]))).unwrap();
    assert_eq!(pool.0.load(Ordering::Relaxed), 2);
    for (i, (_, of_shard)) in schema().shards.all().zip(&twins).enumerate() {
        let range = i * 2500..(i + 1) * 2500;
        let mut expected = vec![0.0; 5000];
        of_shard.tables[1].read(&keys[range.clone()], &mut expected);
        assert_eq!(pulled.tables[1][2 * range.start..2 * range.end], expected);
    }
    answers(&store, push(1, &keys[..10], &[0, 1, 2, 3]));
    assert_eq!(pool.0.load(Ordering::Relaxed), 2, "short work stays");
}

#[test]
fn n4_an_image_replaces_a_shard_in_a_new_lineage() {
    let store = store(&[0, 1]);
    let keys = keys(&[0], 1);
    answers(&store, push(0, &keys, &[0]));
    let image = store.image(JOB, ShardId(0)).unwrap();
    answers(&store, push(1, &keys, &[0]));
    store.replace(JOB, Lineage(2), image.clone()).unwrap();
    assert_eq!(counts(&store, &keys), [1.0]);
    assert!(store.changed().now_or_never().is_some());
    assert_eq!(
        kind(now(store.push(push(2, &keys, &[0])))),
        ErrorKind::StaleLineage
    );
    let delta = ShardImage {
        base: Some(Base::default()),
        ..image.clone()
    };
    assert!(matches!(
        store.replace(JOB, Lineage(2), delta),
        Err(Error::ImageIsDelta {
            shard: ShardId(0),
            ..
        })
    ));
    let elsewhere = ShardImage {
        shard: ShardId(2),
        ..image
    };
    let moved = store.replace(JOB, Lineage(2), elsewhere);
    assert!(matches!(
        moved,
        Err(Error::Moved {
            shard: ShardId(2),
            ..
        })
    ));
}

#[test]
fn a_complete_source_rings_the_bell_once() {
    let store = store(&[0]);
    answers(&store, push(0, &keys(&[0], 1), &[0]));
    assert!(store.changed().now_or_never().is_none());
    answers(&store, end(1, &[0]));
    assert!(store.changed().now_or_never().is_some());
    answers(&store, end(1, &[0]));
    assert!(store.changed().now_or_never().is_none());
}

#[test]
fn i1_a_shard_that_broke_half_way_says_nothing_any_more() {
    let store = store(&[0, 1]);
    let job = store.job(JOB).unwrap();
    let broken = std::thread::spawn(move || {
        let _held = job.lock(ShardId(0)).unwrap();
        panic!("a fault under the lock, for the test");
    });
    assert!(broken.join().is_err());
    let keys = keys(&[0], 1);
    assert_eq!(
        kind(now(store.push(push(0, &keys, &[0])))),
        ErrorKind::Internal
    );
    let shards: Vec<_> = store.report()[0].shards.iter().map(|s| s.shard).collect();
    assert_eq!(shards, [ShardId(1)]);
}
