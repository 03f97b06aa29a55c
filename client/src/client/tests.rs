use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use windlass_common::coordination::{Plan, Purpose, Recipe};
use windlass_common::exchange::{Answer, Push, Pushed, TableGradients};
use windlass_common::id::{Clock as ShardClock, PushId, Seq, SourceId, TableId};
use windlass_common::init::Init;
use windlass_common::key::Key;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::ShardedKeys;
use windlass_common::tally::Metric;
use windlass_common::windows::WIDTH;

use super::*;
use crate::fake::{self, COORDINATOR, Cluster, DIMS, FakeClock, Fault, JOB, LINEAGE, Wires};

const TIMEOUT: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(test)
}

fn question(shards: usize) -> Register {
    let table = |(name, dim): (&str, usize)| {
        TableSchema::new(
            name,
            u32::try_from(dim).unwrap(),
            Init::Zeros,
            OptimizerSpec::default(),
        )
    };
    Register {
        job: "flights".into(),
        worker: WorkerId(9),
        schema: JobSchema {
            shards: ShardCount::new(u32::try_from(shards).unwrap()).unwrap(),
            seed: 0,
            tables: ["linear", "factors"]
                .into_iter()
                .zip(DIMS)
                .map(table)
                .collect(),
        },
        recipe: Recipe {
            files: Vec::new(),
            split_bytes: 1,
            batch_size: 1,
            shuffle: 0,
            seed: 0,
            reading: [0; 32],
        },
        plan: Plan {
            epochs: 1,
            validation: Vec::new(),
            test: Vec::new(),
            metric: Metric::Auc,
            patience: None,
            servers: 1,
            workers: 1,
            purpose: Purpose::Train,
        },
        fresh: false,
        checkpoint: None,
        config: String::new(),
    }
}

async fn try_join(
    cluster: &Arc<Cluster>,
    clock: &FakeClock,
    shards: usize,
) -> Result<Client, Error> {
    let settings = ClientSettings {
        coordinator: "http://127.0.0.1:7070".into(),
        connect_timeout: PATIENCE,
        request_timeout: TIMEOUT,
        patience: PATIENCE,
        waiting: clock.waiting.clone(),
    };
    let wires = Arc::new(Wires(Arc::clone(cluster)));
    let control: Arc<dyn Control> = Arc::<Cluster>::clone(cluster);
    Client::register(
        control,
        wires,
        Arc::new(clock.clone()),
        question(shards),
        settings,
    )
    .await
}

async fn join(cluster: &Arc<Cluster>, clock: &FakeClock) -> Client {
    let shards = cluster.0.lock().unwrap().map.owners.len();
    try_join(cluster, clock, shards).await.unwrap()
}

fn id(source: u64, seq: u64) -> PushId {
    PushId {
        source: SourceId(source),
        seq: Seq(seq),
    }
}

fn grouped(keys: impl IntoIterator<Item = u64>, shards: ShardCount) -> Arc<ShardedKeys> {
    let keys: Vec<Key> = keys.into_iter().map(Key).collect();
    Arc::new(ShardedKeys::group(&keys, shards).0)
}

/// Pushes `amount` to both tables' rows of the keys.
async fn add(
    client: &Client,
    id: PushId,
    keys: &BTreeSet<u64>,
    amount: f32,
) -> Result<Pushed, Error> {
    let set = grouped(keys.iter().copied(), client.shards);
    let table = |(table, dim): (u16, usize)| TableGradients {
        table: TableId(table),
        set: 0,
        gradients: vec![amount; set.len() * dim],
    };
    let tables = (0..).zip(DIMS).map(table).collect();
    client.push(LINEAGE, id, false, vec![set], tables).await
}

async fn end(client: &Client, id: PushId) -> Result<Pushed, Error> {
    client.push(LINEAGE, id, true, Vec::new(), Vec::new()).await
}

/// What reached a server with each push: which server, and which shards it was told to cover.
fn covers(cluster: &Cluster) -> Vec<(u32, Vec<u16>)> {
    let state = cluster.0.lock().unwrap();
    let cover = |push: &Push| push.cover.iter().map(|s| s.0).collect();
    state
        .pushes
        .iter()
        .map(|(s, push)| (*s, cover(push)))
        .collect()
}

#[test]
fn a_push_covers_every_shard_with_or_without_keys() {
    run(async {
        let cluster = Cluster::new(2, &[0, 1, 0, 1]);
        let client = join(&cluster, &FakeClock::default()).await;
        let pushed = add(&client, id(0, 0), &BTreeSet::from([1]), 1.0)
            .await
            .unwrap();
        let shards: Vec<_> = pushed.answers.iter().map(|(s, _)| s.0).collect();
        assert_eq!(shards, [0, 1, 2, 3]);
        end(&client, id(0, 1)).await.unwrap();
        let both = [(0, vec![0, 2]), (1, vec![1, 3])];
        assert_eq!(covers(&cluster), [both.clone(), both].concat());
        let state = cluster.0.lock().unwrap();
        let done = |s: &fake::Shard| s.windows.exactly_below(SourceId(1)) && s.clock == 2;
        assert!(state.shards.len() == 4 && state.shards.values().all(done));
    });
}

#[test]
fn w2_only_shards_that_moved_are_sent_again_under_the_same_name_and_at_once() {
    run(async {
        let (cluster, clock) = (Cluster::new(3, &[0, 0, 1, 1]), FakeClock::default());
        let client = join(&cluster, &clock).await;
        cluster.order(1, [Fault::Move(ShardId(3), 2)]);
        end(&client, id(0, 0)).await.unwrap();
        let sent = [(0, vec![0, 1]), (1, vec![2, 3]), (2, vec![3])];
        assert_eq!(covers(&cluster), sent);
        let state = cluster.0.lock().unwrap();
        assert!(state.pushes.iter().all(|(_, push)| push.id == id(0, 0)));
        assert_eq!(clock.now(), Duration::ZERO);
    });
}

#[test]
fn only_the_server_that_was_silent_is_asked_again() {
    run(async {
        let (cluster, clock) = (Cluster::new(2, &[0, 1, 0, 1]), FakeClock::default());
        let client = join(&cluster, &clock).await;
        cluster.order(1, [Fault::LoseAnswer, Fault::Hang]);
        let pushed = end(&client, id(0, 0)).await.unwrap();
        let sent = [
            (0, vec![0, 2]),
            (1, vec![1, 3]),
            (1, vec![1, 3]),
            (1, vec![1, 3]),
        ];
        assert_eq!(covers(&cluster), sent);
        // It was applied with the first try, whose answer was lost.
        let applied = Answer::Applied {
            before: ShardClock(0),
        };
        let answers = [applied, Answer::Duplicate, applied, Answer::Duplicate];
        assert!(pushed.answers.iter().map(|&(_, a)| a).eq(answers));
        assert!(
            clock.now() > TIMEOUT,
            "the silent try lasts as long as it may"
        );
    });
}

#[test]
fn w3_a_gap_is_handed_back_with_the_lowest_push_that_lacks() {
    run(async {
        let (cluster, clock) = (Cluster::new(2, &[0, 1]), FakeClock::default());
        let client = join(&cluster, &clock).await;
        for seq in 0..3 {
            add(&client, id(4, seq), &BTreeSet::new(), 0.0)
                .await
                .unwrap();
        }
        // Server 1 died and came back with less than server 0 holds.
        cluster.0.lock().unwrap().shards.remove(&ShardId(1));
        let refused = add(&client, id(4, WIDTH + 3), &BTreeSet::new(), 0.0).await;
        let Err(Error::Gap {
            id: of,
            shard,
            next,
        }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!((of, shard, next), (id(4, WIDTH + 3), ShardId(1), Seq(0)));
        assert_eq!(clock.now(), Duration::ZERO);
    });
}

#[test]
fn patience_ends_with_what_where_and_how_long() {
    run(async {
        let (cluster, clock) = (Cluster::new(2, &[0, 1]), FakeClock::default());
        let client = join(&cluster, &clock).await;
        cluster.order(1, vec![Fault::Refuse(ErrorKind::Unavailable); 1000]);
        let error = end(&client, id(3, 17)).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "gave up on push 3/17 after waiting 60.0s for server http://127.0.0.1:7071: as ordered"
        );
        assert_eq!(error.kind(), Some(ErrorKind::Unavailable));
        assert_eq!(clock.now(), PATIENCE);
        // Five delays double up to 2 s, the rest are 1 to 2 s each: 5 + 29 at the longest, 5 + 59
        // at the shortest; and the first try.
        let tries = 1000 - cluster.0.lock().unwrap().faults[&1].len();
        assert!((35..=65).contains(&tries), "{tries}");
    });
}

#[test]
fn the_user_is_told_what_is_waited_for_and_only_while_it_is() {
    run(async {
        let (cluster, clock) = (Cluster::new(2, &[0, 1]), FakeClock::default());
        let client = join(&cluster, &clock).await;
        cluster.order(1, [Fault::Refuse(ErrorKind::Busy), Fault::LoseAnswer]);
        end(&client, id(0, 0)).await.unwrap();
        let told: Vec<_> = clock
            .told
            .lock()
            .unwrap()
            .iter()
            .flatten()
            .cloned()
            .collect();
        assert_eq!(
            told,
            [
                "waiting for server http://127.0.0.1:7071: as ordered",
                "waiting for server http://127.0.0.1:7071: connection reset",
            ]
        );
        assert_eq!(client.waiting(), None);
    });
}

#[test]
fn a_refusal_is_final() {
    run(async {
        let (cluster, clock) = (Cluster::new(1, &[0]), FakeClock::default());
        let client = join(&cluster, &clock).await;
        let stale = Lineage(LINEAGE.0 - 1);
        let refused = client
            .push(stale, id(0, 0), true, Vec::new(), Vec::new())
            .await;
        let error = refused.unwrap_err();
        assert_eq!(
            error.to_string(),
            "push 0/0 failed at server http://127.0.0.1:7070: restored since"
        );
        assert_eq!(error.kind(), Some(ErrorKind::StaleLineage));
        for kind in [
            ErrorKind::Invalid,
            ErrorKind::Mismatch,
            ErrorKind::UnknownJob,
        ] {
            cluster.order(COORDINATOR, [Fault::Refuse(kind)]);
            let refused = client.renew(LeaseId(1)).await.unwrap_err();
            assert!(matches!(refused, Error::Refused { source, .. } if source.kind == kind));
        }
        assert_eq!(clock.now(), Duration::ZERO);
        assert_eq!(covers(&cluster).len(), 1);
    });
}

#[test]
fn requests_wait_until_servers_have_joined() {
    run(async {
        let (cluster, clock) = (Cluster::new(1, &[]), FakeClock::default());
        let client = try_join(&cluster, &clock, 2).await.unwrap();
        let whole = fake::map(MapEpoch(2), &[0, 0]);
        cluster.0.lock().unwrap().later = Some((3, whole));
        end(&client, id(0, 0)).await.unwrap();
        let expected = "waiting for coordinator http://127.0.0.1:7070: \
                        too few servers have joined yet (1 so far)";
        let told: Vec<_> = clock
            .told
            .lock()
            .unwrap()
            .iter()
            .flatten()
            .cloned()
            .collect();
        assert_eq!(told, [expected; 3]);
    });
}

#[test]
fn registration_waits_for_the_coordinator_and_is_refused_a_foreign_map() {
    run(async {
        let (cluster, clock) = (Cluster::new(1, &[0, 0]), FakeClock::default());
        cluster.order(COORDINATOR, vec![Fault::Refuse(ErrorKind::Unavailable); 3]);
        let client = try_join(&cluster, &clock, 2).await.unwrap();
        assert_eq!(client.job(), JOB);
        assert!(clock.now() > Duration::ZERO);
        let error = try_join(&cluster, &clock, 4).await.err().unwrap();
        assert_eq!(
            error.to_string(),
            "joining job `flights` failed at coordinator http://127.0.0.1:7070: \
             its map has 2 shards, the job has 4"
        );
    });
}

#[test]
fn servers_are_asked_again_though_the_coordinator_is_away() {
    run(async {
        let (cluster, clock) = (Cluster::new(1, &[0]), FakeClock::default());
        let client = join(&cluster, &clock).await;
        cluster.order(
            COORDINATOR,
            vec![Fault::Refuse(ErrorKind::Unavailable); 100],
        );
        cluster.order(0, [Fault::Refuse(ErrorKind::Busy)]);
        end(&client, id(0, 0)).await.unwrap();
    });
}

#[test]
fn a_job_that_is_gone_ends_the_wait_for_its_servers() {
    run(async {
        let (cluster, clock) = (Cluster::new(1, &[0]), FakeClock::default());
        let client = join(&cluster, &clock).await;
        cluster.order(COORDINATOR, [Fault::Refuse(ErrorKind::UnknownJob)]);
        cluster.order(0, vec![Fault::Refuse(ErrorKind::Unavailable); 100]);
        let error = end(&client, id(0, 0)).await.unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::UnknownJob));
    });
}

#[test]
fn an_evaluation_waits_until_its_shards_are_exact() {
    run(async {
        let (cluster, clock) = (Cluster::new(2, &[0, 1, 0, 1]), FakeClock::default());
        let client = join(&cluster, &clock).await;
        let keys = BTreeSet::from_iter(0..20);
        add(&client, id(0, 0), &keys, 2.0).await.unwrap();
        let pull = |below| {
            let set = grouped(keys.iter().copied(), client.shards);
            client.pull(vec![set], &[(TableId(0), 0)], Some(SourceId(below)))
        };
        let error = pull(1).await.unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::NotExact));
        end(&client, id(0, 1)).await.unwrap();
        cluster.order(1, [Fault::Refuse(ErrorKind::NotExact)]);
        let pulled = pull(1).await.unwrap();
        assert_eq!(pulled.tables, [vec![2.0; 20]]);
        let clocks: Vec<_> = pulled.clocks.iter().map(|(s, c)| (s.0, c.0)).collect();
        assert_eq!(clocks, [(0, 2), (1, 2), (2, 2), (3, 2)]);
    });
}

#[test]
fn snapshots_and_restores_follow_their_shard() {
    run(async {
        let (cluster, clock) = (Cluster::new(2, &[0, 0, 0, 0]), FakeClock::default());
        let client = join(&cluster, &clock).await;
        cluster.order(0, [Fault::LoseAnswer, Fault::Move(ShardId(3), 1)]);
        assert_eq!(client.snapshot(ShardId(3)).await.unwrap(), [3, 0]);
        cluster.order(1, [Fault::LoseAnswer]);
        client
            .install(ShardId(3), Lineage(8), vec![7])
            .await
            .unwrap();
        let installed = cluster.0.lock().unwrap().shards[&ShardId(3)]
            .installed
            .clone();
        assert_eq!(installed, Some((Lineage(8), vec![7])));
        let error = client.snapshot(ShardId(4)).await.unwrap_err();
        assert!(matches!(error, Error::UnknownShard { shards: 4, .. }));
    });
}

#[test]
fn questions_to_the_coordinator_are_asked_until_answered() {
    run(async {
        let (cluster, clock) = (Cluster::new(1, &[0]), FakeClock::default());
        let client = join(&cluster, &clock).await;
        let faults = || {
            [
                Fault::Hang,
                Fault::Refuse(ErrorKind::Busy),
                Fault::LoseAnswer,
            ]
        };
        cluster.order(COORDINATOR, faults());
        let (task, _) = client.next(None, false).await.unwrap();
        assert!(matches!(task, Task::Wait { reason, .. } if reason == "9 of job 5"));
        cluster.order(COORDINATOR, faults());
        assert!(client.renew(LeaseId(1)).await.unwrap().0);
        assert!(!client.renew(LeaseId(2)).await.unwrap().0);
        cluster.order(COORDINATOR, faults());
        assert_eq!(*client.map().await.unwrap(), fake::map(MapEpoch(1), &[0]));
    });
}

#[test]
fn requests_that_do_not_fit_the_schema_go_nowhere() {
    run(async {
        let (cluster, clock) = (Cluster::new(1, &[0, 0]), FakeClock::default());
        let client = join(&cluster, &clock).await;
        let set = || vec![grouped(0..3, client.shards)];
        let push = |table, set_at, gradients| {
            let tables = vec![TableGradients {
                table: TableId(table),
                set: set_at,
                gradients,
            }];
            client.push(LINEAGE, id(0, 0), false, set(), tables)
        };
        assert!(matches!(
            push(1, 0, vec![0.0; 8]).await,
            Err(Error::Gradients {
                got: 8,
                want: 9,
                ..
            })
        ));
        assert!(matches!(
            push(1, 1, vec![0.0; 9]).await,
            Err(Error::UnknownSet {
                set: 1,
                sets: 1,
                ..
            })
        ));
        assert!(matches!(
            client.pull(set(), &[(TableId(2), 0)], None).await,
            Err(Error::UnknownTable { tables: 2, .. })
        ));
        let foreign = vec![grouped(0..100, ShardCount::new(4).unwrap())];
        assert!(matches!(
            client.pull(foreign, &[], None).await,
            Err(Error::UnknownShard { shards: 2, .. })
        ));
        assert!(covers(&cluster).is_empty());
    });
}

#[test]
fn a_pull_of_nothing_asks_nobody() {
    run(async {
        let (cluster, clock) = (Cluster::new(1, &[]), FakeClock::default());
        let client = try_join(&cluster, &clock, 2).await.unwrap();
        let sets = vec![Arc::new(ShardedKeys::default())];
        let pulled = client.pull(sets, &[(TableId(0), 0)], None).await.unwrap();
        assert_eq!((pulled.clocks, pulled.tables), (vec![], vec![vec![]]));
    });
}

#[test]
fn requests_may_run_on_any_thread() {
    fn check<T: Send>(_: T) {}
    run(async {
        let client = join(&Cluster::new(1, &[0]), &FakeClock::default()).await;
        check(client.pull(Vec::new(), &[], None));
        check(client.push(LINEAGE, id(0, 0), true, Vec::new(), Vec::new()));
        check(client.next(None, true));
        check(client.renew(LeaseId(1)));
        check(client.map());
        check(client.snapshot(ShardId(0)));
        check(client.install(ShardId(0), LINEAGE, Vec::new()));
    });
}

const SHARDS: u16 = 8;
const SERVERS: u32 = 3;

fn faults() -> impl Strategy<Value = Vec<(u32, Fault)>> {
    let fault = prop_oneof![
        Just(Fault::LoseAnswer),
        Just(Fault::Hang),
        Just(Fault::Refuse(ErrorKind::Busy)),
        Just(Fault::Refuse(ErrorKind::Unavailable)),
        (0..SHARDS, 0..SERVERS).prop_map(|(shard, to)| Fault::Move(ShardId(shard), to)),
    ];
    prop::collection::vec((0..SERVERS, fault), 0..25)
}

fn batches() -> impl Strategy<Value = Vec<BTreeSet<u64>>> {
    prop::collection::vec(prop::collection::btree_set(0u64..40, 0..20), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The plain twin: a map from key to sum. Sums of small whole numbers are exact.
    #[test]
    fn every_batch_counts_once_whatever_fails(
        owners in prop::collection::vec(0..SERVERS, usize::from(SHARDS)),
        batches in batches(),
        faults in faults(),
    ) {
        run(async {
            let (cluster, clock) = (Cluster::new(SERVERS, &owners), FakeClock::default());
            let client = join(&cluster, &clock).await;
            for (server, fault) in faults {
                cluster.order(server, [fault]);
            }
            let mut sums: BTreeMap<u64, f32> = BTreeMap::new();
            for (seq, keys) in (0..).zip(&batches) {
                let amount = (1 << seq) as f32;
                add(&client, id(0, seq), keys, amount).await.unwrap();
                for &key in keys {
                    *sums.entry(key).or_default() += amount;
                }
            }
            end(&client, id(0, batches.len() as u64)).await.unwrap();

            // Two sets in an order of their own; both tables read the second.
            let sets = vec![grouped(0..10, client.shards), grouped((0..40).rev(), client.shards)];
            let tables = [(TableId(0), 1), (TableId(1), 1), (TableId(1), 0)];
            let pulled = client.pull(sets.clone(), &tables, Some(SourceId(1))).await.unwrap();
            for (&(table, set), rows) in tables.iter().zip(&pulled.tables) {
                let dim = DIMS[usize::from(table.0)];
                let row = |key: &Key| vec![sums.get(&key.0).copied().unwrap_or(0.0); dim];
                let expected: Vec<f32> = sets[set].keys().iter().flat_map(row).collect();
                prop_assert_eq!(rows, &expected);
            }
            let pushes = batches.len() as u64 + 1;
            prop_assert!(pulled.clocks.iter().all(|(_, clock)| clock.0 == pushes));
            prop_assert!(pulled.clocks.is_sorted());
            Ok(())
        })?;
    }
}
