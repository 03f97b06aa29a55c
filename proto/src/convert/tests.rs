//! Round trips of random values, and hostile messages.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use prost::Message;
use windlass_common::coordination::{
    Assigned, Assignment, EpochMetrics, Health, HeldOut, History, JobReport, Outcome, Plan,
    Progress, Purpose, Recipe, Register, Registered, Report, ScoreLease, ShardMap, ShardReport,
    StorageLease, Task, TrainLease,
};
use windlass_common::exchange::{Answer, Pull, Pulled, Push, Pushed, TableGradients};
use windlass_common::format::ManifestFile;
use windlass_common::id::*;
use windlass_common::init::Init;
use windlass_common::interval_set::IntervalSet;
use windlass_common::key::Key;
use windlass_common::optimizer::{Adagrad, Adam, Ftrl, Momentum, OptimizerSpec, Sgd};
use windlass_common::residency::{Admission, Eviction, Occupancy};
use windlass_common::saving::{SaveOrder, Saved};
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::{ShardCount, ShardedKeys};
use windlass_common::split::{InputFile, Split};
use windlass_common::status::{ClusterStatus, JobStatus, ServerStatus};
use windlass_common::tally::{self, Metric, Tally};

use crate::error::{ErrorKind, WireError};
use crate::v1;

/// Sends a value through bytes.
fn trip<T, M>(value: &T) -> Result<T, WireError>
where
    T: Clone + TryFrom<M, Error = WireError>,
    M: From<T> + Message + Default,
{
    let bytes = M::from(value.clone()).encode_to_vec();
    T::try_from(M::decode(&bytes[..]).unwrap())
}

fn check<T, M>(value: T) -> Result<(), TestCaseError>
where
    T: Clone + Debug + PartialEq + TryFrom<M, Error = WireError>,
    M: From<T> + Message + Default,
{
    prop_assert_eq!(trip::<T, M>(&value), Ok(value));
    Ok(())
}

const NUMBER: std::ops::Range<u64> = 0..1 << 63;

prop_compose! {
    fn set()(keys in prop::collection::btree_set(any::<u64>(), 0..40), bits in 0u32..=12)
        -> Arc<ShardedKeys>
    {
        let keys: Vec<_> = keys.into_iter().map(Key).collect();
        Arc::new(ShardedKeys::group(&keys, ShardCount::new(1 << bits).unwrap()).0)
    }
}

prop_compose! {
    fn pull()(
        sets in vec(set(), 1..4),
        job: u64,
        tables in vec((any::<u16>(), any::<prop::sample::Index>()), 0..5),
        exactly_below in option::of(NUMBER),
    ) -> Pull {
        let tables = tables.iter().map(|(t, i)| (TableId(*t), i.index(sets.len()))).collect();
        Pull { job: JobId(job), sets, tables, exactly_below: exactly_below.map(SourceId) }
    }
}

prop_compose! {
    fn push()(
        pull in pull(), lineage: u64, source in NUMBER, seq in NUMBER, end: bool, dim in 1usize..4,
        extra in vec(0u16..4096, 0..4),
    ) -> Push {
        let mut cover: Vec<_> = pull.sets.iter().flat_map(|s| s.shards().to_vec()).collect();
        cover.extend(extra.into_iter().map(ShardId));
        cover.sort_unstable();
        cover.dedup();
        let tables: BTreeMap<_, _> = pull.tables.iter().copied().collect();
        let tables = tables.into_iter().map(|(table, set)| TableGradients {
            table,
            set,
            gradients: (0..pull.sets[set].len() * dim).map(|i| i as f32 - 1.5).collect(),
        });
        Push {
            job: pull.job,
            lineage: Lineage(lineage),
            id: PushId { source: SourceId(source), seq: Seq(seq) },
            end,
            cover,
            tables: if end { vec![] } else { tables.collect() },
            sets: if end { vec![] } else { pull.sets },
        }
    }
}

fn by_shard<T: Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<(ShardId, T)>> {
    btree_map((0u16..4096).prop_map(ShardId), value, 0..9).prop_map(|m| m.into_iter().collect())
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        any::<u64>().prop_map(|c| Answer::Applied { before: Clock(c) }),
        Just(Answer::Duplicate),
        NUMBER.prop_map(|n| Answer::Gap { next: Seq(n) }),
        Just(Answer::Moved),
    ]
}

fn metrics() -> impl Strategy<Value = BTreeMap<String, f64>> {
    btree_map("[a-z_]{1,9}", -1e9..1e9, 0..4)
}

prop_compose! {
    fn epoch()(epoch: u32, train in metrics(), validation in metrics()) -> EpochMetrics {
        EpochMetrics { epoch: Epoch(epoch), train, validation }
    }
}

prop_compose! {
    fn history()(
        epochs: u32, progress in vec(epoch(), 0..3), test in metrics(), finished: bool,
        stopped_early: bool,
    ) -> History {
        History { epochs, progress, test, finished, stopped_early }
    }
}

fn optimizer() -> impl Strategy<Value = OptimizerSpec> {
    let (rate, decay, penalty) = (1e-6f32..1.0, 0.0f32..0.99, 0.0f32..1.0);
    let adagrad = (rate.clone(), penalty.clone()).prop_map(|(learning_rate, l2)| Adagrad {
        learning_rate,
        l2,
        ..Adagrad::default()
    });
    prop_oneof![
        (rate.clone(), penalty.clone())
            .prop_map(|(learning_rate, l2)| OptimizerSpec::Sgd(Sgd { learning_rate, l2 })),
        (rate.clone(), decay.clone(), penalty.clone()).prop_map(|(learning_rate, momentum, l2)| {
            OptimizerSpec::Momentum(Momentum {
                learning_rate,
                momentum,
                l2,
            })
        }),
        adagrad.clone().prop_map(OptimizerSpec::Adagrad),
        adagrad.prop_map(OptimizerSpec::RowwiseAdagrad),
        (rate.clone(), decay.clone(), decay).prop_map(|(learning_rate, beta1, beta2)| {
            OptimizerSpec::Adam(Adam {
                learning_rate,
                beta1,
                beta2,
                ..Adam::default()
            })
        }),
        (rate, penalty.clone(), penalty).prop_map(|(alpha, l1, l2)| {
            OptimizerSpec::Ftrl(Ftrl {
                alpha,
                l1,
                l2,
                ..Ftrl::default()
            })
        }),
        Just(OptimizerSpec::Count),
    ]
}

fn init() -> impl Strategy<Value = Init> {
    prop_oneof![
        Just(Init::Zeros),
        (0.0f32..9.0).prop_map(|std| Init::Normal { std }),
        (0.0f32..9.0).prop_map(|scale| Init::Uniform { scale }),
    ]
}

prop_compose! {
    fn schema()(
        bits in 0u32..=12, seed: u64,
        tables in btree_map("[a-z]{1,9}", (1u32..=65_536, init(), optimizer()), 1..4),
        residency in (option::of((2u32..=255, 1u64..1 << 30)), option::of(1u64..)),
        max_bytes in option::of(1u64 << 50..),
    ) -> JobSchema {
        let admission = residency.0.map(|(sightings, sketch_bytes)| Admission {
            sightings,
            sketch_bytes,
        });
        let eviction = Eviction {
            ttl: residency.1,
            max_bytes,
        };
        JobSchema {
            shards: ShardCount::new(1 << bits).unwrap(),
            seed,
            tables: tables
                .into_iter()
                .map(|(name, (dim, init, optimizer))| match optimizer {
                    OptimizerSpec::Count => (name, 3, Init::Zeros, optimizer),
                    _ => (name, dim, init, optimizer),
                })
                .map(|(name, dim, init, optimizer)| TableSchema {
                    admission,
                    eviction,
                    ..TableSchema::new(name, dim, init, optimizer)
                })
                .collect(),
        }
    }
}

prop_compose! {
    fn file()(name in ".{0,20}", bytes: u64, digest: [u8; 32], divisible: bool) -> InputFile {
        InputFile { name, bytes, digest, divisible }
    }
}

prop_compose! {
    fn register()(
        job in ".{0,20}", worker: u64, schema in schema(), files in vec(file(), 0..3),
        numbers: (u64, u32, u32, u64, [u8; 32], u32, u32, u32),
        held_out in (vec(file(), 0..2), vec(file(), 0..2)),
        metric in prop::sample::select(&Metric::ALL[..]),
        patience: Option<u32>, fresh: bool, checkpoint in option::of(history()),
        purpose in prop::sample::select(&[Purpose::Train, Purpose::Evaluate][..]), config in ".{0,20}",
    ) -> Register {
        let (split_bytes, batch_size, shuffle, seed, reading, epochs, servers, workers) = numbers;
        let (validation, test) = held_out;
        Register {
            job, worker: WorkerId(worker), schema, fresh, checkpoint,
            recipe: Recipe { files, split_bytes, batch_size, shuffle, seed, reading },
            plan: Plan { epochs, validation, test, metric, patience, servers, workers, purpose }, config,
        }
    }
}

prop_compose! {
    fn incarnation()(epoch: u64, nonce: u64) -> Incarnation {
        Incarnation { epoch: MapEpoch(epoch), nonce }
    }
}

prop_compose! {
    fn map()(
        epoch: u64, lineage: u64, owners in vec((any::<u32>(), incarnation()), 0..9),
        addresses in btree_map(any::<u32>().prop_map(ServerId), ".{0,20}", 0..4),
    ) -> ShardMap {
        ShardMap {
            epoch: MapEpoch(epoch),
            lineage: Lineage(lineage),
            owners: owners.into_iter().map(|(s, i)| (ServerId(s), i)).collect(),
            addresses,
        }
    }
}

prop_compose! {
    fn split()(file: u32, a: u64, b: u64) -> Split {
        Split { file, start: a.min(b), end: a.max(b) }
    }
}

prop_compose! {
    fn ttl()(ms in 0u64..1 << 40) -> Duration { Duration::from_millis(ms) }
}

prop_compose! {
    fn storage()(lease: u64, ttl in ttl(), epochs: u32, lineage: u64, below in NUMBER,
        history in history()) -> StorageLease
    {
        StorageLease {
            lease: LeaseId(lease), ttl, epochs, lineage: Lineage(lineage),
            exactly_below: SourceId(below), history,
        }
    }
}

fn task() -> impl Strategy<Value = Task> {
    let train = (
        any::<(u64, u32, u32, u64)>(),
        ttl(),
        NUMBER,
        NUMBER,
        split(),
    )
        .prop_map(
            |((lease, epoch, index, lineage), ttl, source, start, split)| {
                Task::Train(TrainLease {
                    lease: LeaseId(lease),
                    ttl,
                    source: SourceId(source),
                    epoch: Epoch(epoch),
                    index,
                    split,
                    start: Seq(start),
                    lineage: Lineage(lineage),
                })
            },
        );
    let score = (any::<(u64, bool)>(), ttl(), NUMBER, split()).prop_map(
        |((lease, test), ttl, below, split)| {
            Task::Score(ScoreLease {
                lease: LeaseId(lease),
                ttl,
                of: if test {
                    HeldOut::Test
                } else {
                    HeldOut::Validation
                },
                split,
                exactly_below: SourceId(below),
            })
        },
    );
    prop_oneof![
        train,
        score,
        storage().prop_map(Task::Save),
        storage().prop_map(Task::Restore),
        storage().prop_map(Task::Seal),
        (".{0,20}", ttl(), any::<bool>()).prop_map(|(reason, retry, missing)| Task::Wait {
            reason,
            retry,
            missing
        }),
        history().prop_map(Task::Done),
    ]
}

prop_compose! {
    fn tally()(
        task in prop::sample::select(&[
            tally::Task::Binary, tally::Task::Classes, tally::Task::Real, tally::Task::Unscored,
        ][..]),
        examples: u64, sums in prop::array::uniform6(-1e9..1e9),
        scores in btree_map(any::<u16>(), prop::array::uniform2(0.0..1e9), 0..9),
    ) -> Tally {
        let [weight, log_loss, labels, predictions, squared_error, correct] = sums;
        Tally {
            task, examples, weight, log_loss, labels, predictions, squared_error, correct, scores,
        }
    }
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        tally().prop_map(Outcome::Trained),
        tally().prop_map(Outcome::Scored),
        Just(Outcome::Stored),
        ".{0,20}".prop_map(Outcome::Abandoned),
        ".{0,20}".prop_map(Outcome::Unreadable),
    ]
}

prop_compose! {
    fn occupancy()(n: [u64; 4]) -> Occupancy {
        let [rows, bytes, refused, evicted] = n;
        Occupancy { rows, bytes, refused, evicted }
    }
}

prop_compose! {
    fn progress()(
        n: [u32; 5], history in vec(epoch(), 0..3), rows in btree_map("[a-z:]{1,9}", any::<u64>(), 0..4),
        tables in btree_map("[a-z]{1,9}", occupancy(), 0..3),
    ) -> Progress {
        let [epoch, epochs, done, splits, workers] = n;
        Progress { epoch: Epoch(epoch), epochs, done, splits, workers, rows, tables, history }
    }
}

prop_compose! {
    fn shard_report()(
        shard in 0u16..4096, incarnation in incarnation(), n: [u64; 3],
        sources in vec(0u64..60, 0..30), open in vec((NUMBER, NUMBER), 0..4),
    ) -> ShardReport {
        let mut complete = IntervalSet::default();
        sources.into_iter().for_each(|s| complete.insert(s));
        ShardReport {
            shard: ShardId(shard), incarnation, lineage: Lineage(n[0]), complete,
            open: open.into_iter().map(|(s, q)| (SourceId(s), Seq(q))).collect(),
            rows: n[1], clock: Clock(n[2]),
        }
    }
}

prop_compose! {
    fn health()(n: [u64; 3], log_bytes: Option<u64>, trouble in option::of(".{0,20}")) -> Health {
        Health { applied: n[0], duplicates: n[1], not_finite: n[2], log_bytes, trouble }
    }
}

prop_compose! {
    fn saved_file()(
        folder in ".{0,20}", name in ".{0,20}", bytes: u64, sha256: [u8; 32], rows: u64,
    ) -> ManifestFile {
        ManifestFile { folder, name, bytes, sha256, rows }
    }
}

prop_compose! {
    fn saved()(
        of in shard_report(), checkpoint: u64, open: u32, chain in vec(saved_file(), 1..4),
    ) -> Saved {
        Saved {
            checkpoint: CheckpointId(checkpoint), shard: of.shard, lineage: of.lineage,
            clock: of.clock, complete: of.complete, open, chain,
        }
    }
}

prop_compose! {
    fn report()(
        address in ".{0,20}", n: [u64; 3], health in health(),
        jobs in vec((any::<u64>(), vec(shard_report(), 0..3), vec(saved(), 0..3), vec(occupancy(), 0..3)), 0..3),
    ) -> Report {
        let job = |(job, shards, saved, tables)| JobReport { job: JobId(job), shards, saved, tables };
        Report {
            address, boot: Boot(n[0]), number: n[1], seen: MapEpoch(n[2]), health,
            jobs: jobs.into_iter().map(job).collect(),
        }
    }
}

prop_compose! {
    fn job_status()(
        n: [u64; 4], counts: [u32; 3], name in ".{0,20}", phase in ".{0,20}",
        owners in btree_map(any::<u32>(), any::<u32>(), 0..3), progress in progress(),
        saved: Option<(u64, u32)>, saving: Option<(u64, u32)>,
    ) -> JobStatus {
        JobStatus {
            job: JobId(n[0]), name, phase, lineage: Lineage(n[1]), progress, closed: n[2],
            owners: owners.into_iter().map(|(s, shards)| (ServerId(s), shards)).collect(),
            unreported: counts[0], leased: counts[1],
            saved: saved.map(|(c, ms)| (CheckpointId(c), Duration::from_millis(ms.into()))),
            saving: saving.map(|(c, shards)| (CheckpointId(c), shards)),
        }
    }
}

prop_compose! {
    fn cluster_status()(
        epoch: u64,
        servers in vec((any::<u32>(), ".{0,20}", option::of(any::<u32>()), health()), 0..3),
        jobs in vec(job_status(), 0..3),
    ) -> ClusterStatus {
        let server = |(server, address, silent, health): (_, _, Option<u32>, _)| ServerStatus {
            server: ServerId(server), address, health,
            silent: silent.map(|ms| Duration::from_millis(ms.into())),
        };
        ClusterStatus {
            epoch: MapEpoch(epoch), servers: servers.into_iter().map(server).collect(), jobs,
        }
    }
}

prop_compose! {
    fn assigned()(
        server: u32, epoch: u64,
        jobs in vec((any::<(u64, u64)>(), ".{0,20}", schema(), by_shard(incarnation())), 0..3),
        (checkpoint, base, settled, gentle) in any::<(u64, Option<u64>, Option<u64>, bool)>(),
    ) -> Assigned {
        let save = SaveOrder {
            checkpoint: CheckpointId(checkpoint), base: base.map(CheckpointId), gentle,
        };
        let jobs = jobs.into_iter().map(|((job, lineage), name, schema, shards)| Assignment {
            job: JobId(job), name, lineage: Lineage(lineage), schema, shards,
            origin: base.map(CheckpointId), save: gentle.then_some(save),
            settled: settled.map(CheckpointId),
        });
        Assigned { server: ServerId(server), epoch: MapEpoch(epoch), jobs: jobs.collect() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_data_plane_survives_the_wire(
        pull in pull(),
        push in push(),
        clocks in by_shard(any::<u64>().prop_map(Clock)),
        tables in vec(vec(-1e9f32..1e9, 0..30), 0..4),
        answers in by_shard(answer()),
    ) {
        check::<Pull, v1::Pull>(pull)?;
        check::<Push, v1::Push>(push)?;
        check::<Pulled, v1::Pulled>(Pulled { clocks, tables })?;
        check::<Pushed, v1::Pushed>(Pushed { answers })?;
    }

    #[test]
    fn the_control_plane_survives_the_wire(
        register in register(),
        registered in (any::<u64>(), map()),
        next in (task(), progress()),
        done in (any::<u64>().prop_map(LeaseId), outcome()),
        renewed in (any::<bool>(), progress()),
        report in report(),
        assigned in assigned(),
        status in cluster_status(),
    ) {
        let (job, map) = registered;
        check::<Register, v1::RegisterRequest>(register)?;
        check::<ShardMap, v1::ShardMap>(map.clone())?;
        check::<Registered, v1::RegisterResponse>(Registered { job: JobId(job), map })?;
        check::<(Task, Progress), v1::NextResponse>(next)?;
        check::<(LeaseId, Outcome), v1::Done>(done)?;
        check::<(bool, Progress), v1::RenewResponse>(renewed)?;
        check::<Report, v1::ReportRequest>(report)?;
        check::<Assigned, v1::ReportResponse>(assigned)?;
        check::<ClusterStatus, v1::StatusResponse>(status)?;
    }

    /// A byte of a valid message is changed, so that decoding often gets past the framing.
    #[test]
    fn bytes_from_outside_never_panic(
        push in push(), register in register(), report in report(), next in (task(), progress()),
        at: prop::sample::Index, byte: u8, random in vec(any::<u8>(), 0..200),
    ) {
        fn hostile<T: TryFrom<M>, M: Message + Default>(bytes: &[u8]) {
            if let Ok(message) = M::decode(bytes) {
                let _ = T::try_from(message);
            }
        }
        fn damaged(message: impl Message, at: prop::sample::Index, byte: u8) -> Vec<u8> {
            let mut bytes = message.encode_to_vec();
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        }
        hostile::<Push, v1::Push>(&damaged(v1::Push::from(push), at, byte));
        hostile::<Register, v1::RegisterRequest>(&damaged(v1::RegisterRequest::from(register), at, byte));
        hostile::<Report, v1::ReportRequest>(&damaged(v1::ReportRequest::from(report), at, byte));
        hostile::<(Task, Progress), v1::NextResponse>(&damaged(v1::NextResponse::from(next), at, byte));
        hostile::<Pull, v1::Pull>(&random);
        hostile::<Pulled, v1::Pulled>(&random);
        hostile::<Pushed, v1::Pushed>(&random);
        hostile::<Push, v1::Push>(&random);
        hostile::<Assigned, v1::ReportResponse>(&random);
    }
}

/// One key, in the shard that is its own.
fn small_push() -> v1::Push {
    let (keys, _) = ShardedKeys::group(&[Key(1)], ShardCount::new(1).unwrap());
    v1::Push {
        cover: vec![0],
        sets: vec![(&Arc::new(keys)).into()],
        tables: vec![v1::TableGradients {
            table: 0,
            set: 0,
            gradients: vec![0; 8].into(),
        }],
        ..v1::Push::default()
    }
}

fn refused(change: impl FnOnce(&mut v1::Push)) -> String {
    let mut push = small_push();
    change(&mut push);
    let error = Push::try_from(push).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    error.message
}

#[test]
fn a_bad_push_is_refused_and_its_field_is_named() {
    assert!(Push::try_from(small_push()).is_ok());
    let cases: [(&str, String); 12] = [
        ("push.source", refused(|p| p.source = 1 << 63)),
        ("push.seq", refused(|p| p.seq = u64::MAX)),
        ("push.end", refused(|p| p.end = true)),
        ("push.cover", refused(|p| p.cover = vec![1])),
        ("push.cover", refused(|p| p.cover = vec![0, 0])),
        ("push.cover", refused(|p| p.cover = vec![0, 4096])),
        ("push.tables.set", refused(|p| p.tables[0].set = 1)),
        ("push.tables.table", refused(|p| p.tables[0].table = 65_536)),
        (
            "push.tables.table",
            refused(|p| p.tables.push(p.tables[0].clone())),
        ),
        (
            "push.tables.gradients",
            refused(|p| p.tables[0].gradients = vec![0; 7].into()),
        ),
        ("sets.counts", refused(|p| p.sets[0].counts = vec![])),
        ("sets", refused(|p| p.sets[0].counts = vec![2])),
    ];
    for (field, message) in cases {
        assert!(
            message.starts_with(&format!("{field}: ")),
            "{field}: {message}"
        );
    }
}

#[test]
fn a_key_under_a_wrong_shard_is_refused() {
    let message = refused(|p| {
        p.sets[0].shard_count = 2;
        let own = ShardCount::new(2).unwrap().shard_of(Key(1)).0;
        p.sets[0].shards = vec![u32::from(1 - own)];
        p.cover = vec![0, 1];
    });
    assert!(message.contains("its own shard"), "{message}");
}

#[test]
fn counts_that_overflow_are_refused() {
    let message = refused(|p| {
        p.sets[0].shards = vec![0, 1];
        p.sets[0].counts = vec![u32::MAX, 2];
    });
    assert!(message.contains("2^32"), "{message}");
}

#[test]
fn another_version_is_named_before_anything_else_is_read() {
    let message = v1::RegisterRequest {
        protocol: Some(v1::ProtocolRange { min: 8, max: 9 }),
        ..v1::RegisterRequest::default()
    };
    let error = Register::try_from(message).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Version);
    assert!(error.message.contains("8-9"), "{}", error.message);
}
