use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::watch;
use windlass_client::runtime::{TokioClock, TokioPool};
use windlass_client::transport::{Answered, Shards};
use windlass_client::{ClientSettings, Connect, Waiting};
use windlass_common::coordination::{Plan, Purpose, Recipe, Register};
use windlass_common::exchange::{Pull, Pulled, Push};
use windlass_common::id::{Epoch, JobId, Seq, SourceId, TableId, WorkerId};
use windlass_common::init::Init;
use windlass_common::key::Key;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::ShardCount;
use windlass_common::split::{InputFile, Split};
use windlass_common::tally::{Metric, Task};

use super::*;
use crate::embedded::{Direct, Embedded};

/// Servers in this process that acknowledge a push when the test says so.
#[derive(Clone)]
struct Slow {
    direct: Arc<Direct>,
    acknowledged: Arc<watch::Sender<BTreeSet<u64>>>,
}

struct SlowShards {
    shards: Arc<dyn Shards>,
    acknowledged: Arc<watch::Sender<BTreeSet<u64>>>,
}

impl Connect for Slow {
    fn shards(&self, address: &str) -> Arc<dyn Shards> {
        Arc::new(SlowShards {
            shards: self.direct.shards(address),
            acknowledged: Arc::clone(&self.acknowledged),
        })
    }
}

impl Shards for SlowShards {
    fn pull(&self, pull: Pull) -> Answered<'_, Pulled> {
        self.shards.pull(pull)
    }

    fn push(&self, push: Push) -> Answered<'_, Pushed> {
        Box::pin(async move {
            let (seq, mut acknowledged) = (push.id.seq.0, self.acknowledged.subscribe());
            let pushed = self.shards.push(push).await?;
            acknowledged.wait_for(|a| a.contains(&seq)).await.unwrap();
            Ok(pushed)
        })
    }

    fn snapshot(&self, job: JobId, shard: ShardId) -> Answered<'_, Vec<u8>> {
        self.shards.snapshot(job, shard)
    }

    fn install(&self, job: JobId, shard: ShardId, l: Lineage, of: Vec<u8>) -> Answered<'_, ()> {
        self.shards.install(job, shard, l, of)
    }
}

/// One table of one weight a row, by plain subtraction of gradients.
fn question() -> Register {
    Register {
        job: "open".into(),
        worker: WorkerId(1),
        schema: JobSchema {
            shards: ShardCount::new(4).unwrap(),
            seed: 0,
            tables: vec![TableSchema::new(
                "linear",
                1,
                Init::Zeros,
                OptimizerSpec::default(),
            )],
        },
        recipe: Recipe {
            files: vec![InputFile {
                name: "nothing is read".into(),
                bytes: 1,
                digest: [0; 32],
                divisible: false,
            }],
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
            metric: Metric::LogLoss,
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

struct Fixture {
    client: Client,
    live: Live,
    slow: Slow,
    keys: Arc<ShardedKeys>,
    lineage: Lineage,
}

impl Fixture {
    async fn start() -> Self {
        let clock = Arc::new(TokioClock::new());
        let embedded = Embedded::new(Arc::clone(&clock) as _, Arc::new(TokioPool));
        let slow = Slow {
            direct: Arc::new(Direct(Arc::clone(&embedded))),
            acknowledged: Arc::default(),
        };
        let settings = ClientSettings {
            coordinator: "in this process".into(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            patience: Duration::from_secs(30),
            waiting: Waiting::default(),
        };
        let connect = Arc::new(slow.clone());
        let client = Client::register(embedded, connect, clock, question(), settings).await;
        let client = client.unwrap();
        let lineage = client.map().await.unwrap().lineage;
        let keys: Vec<_> = (0..100).map(Key).collect();
        Self {
            live: Live::new(Tally::new(Task::Binary)),
            keys: Arc::new(ShardedKeys::group(&keys, client.shards()).0),
            client,
            slow,
            lineage,
        }
    }

    /// With a split begun, that of source 0.
    fn pushes(&self, limit: usize) -> OpenPushes<'_> {
        let mut pushes = OpenPushes::new(&self.client, &self.live, limit);
        self.split(&mut pushes, 0, self.lineage);
        pushes
    }

    /// Begins the split of a source, under a lease of the same number.
    fn split(&self, pushes: &mut OpenPushes<'_>, source: u64, lineage: Lineage) {
        let lease = TrainLease {
            lease: LeaseId(source),
            ttl: Duration::from_secs(10),
            source: SourceId(source),
            epoch: Epoch(0),
            index: 0,
            split: Split {
                file: 0,
                start: 0,
                end: 1,
            },
            start: Seq(0),
            lineage,
        };
        pushes.split(&lease, Tally::new(Task::Binary));
    }

    fn end(&self, source: u64, seq: u64) -> Gradients {
        Gradients {
            end: true,
            keys: Vec::new(),
            tables: Vec::new(),
            learnt: Learnt::End { skipped: 0 },
            ..self.of_source(source, seq)
        }
    }

    fn gradients(&self, seq: u64) -> Gradients {
        self.of_source(0, seq)
    }

    fn of_source(&self, source: u64, seq: u64) -> Gradients {
        Gradients {
            id: PushId {
                source: SourceId(source),
                seq: Seq(seq),
            },
            end: false,
            keys: vec![Arc::clone(&self.keys)],
            tables: vec![TableGradients {
                table: TableId(0),
                set: 0,
                gradients: vec![1.0; self.keys.len()],
            }],
            learnt: Learnt::Batch {
                tally: Tally::new(Task::Binary),
                clocks: Vec::new(),
            },
        }
    }

    /// How many pushes the shards have seen, as a pull tells.
    async fn seen(&self) -> u64 {
        let keys = vec![Arc::clone(&self.keys)];
        let pulled = self.client.pull(keys, &[(TableId(0), 0)], None).await;
        pulled.unwrap().clocks[0].1.0
    }

    fn acknowledge(&self, seq: u64) {
        self.slow.acknowledged.send_modify(|all| {
            all.insert(seq);
        });
    }

    fn acked(&self) -> u64 {
        self.live.lock().acked
    }
}

#[tokio::test]
async fn w1_a_pull_sees_the_pushes_before_it_while_they_are_open() {
    let fixture = Fixture::start().await;
    let mut pushes = fixture.pushes(16);
    for seq in 0..16 {
        pushes.begin(fixture.gradients(seq)).await.unwrap();
        assert_eq!(pushes.during(fixture.seen()).await.unwrap(), seq + 1);
    }
    assert_eq!(fixture.acked(), 0);
    (0..16).for_each(|seq| fixture.acknowledge(seq));
    pushes.finish().await.unwrap();
    assert_eq!(fixture.acked(), 16);
}

#[tokio::test]
async fn w1_no_push_is_further_ahead_of_the_oldest_open_one_than_the_limit() {
    let fixture = Fixture::start().await;
    let mut pushes = fixture.pushes(2);
    for seq in 0..2 {
        pushes.begin(fixture.gradients(seq)).await.unwrap();
    }
    // The younger one is acknowledged; the older one decides.
    fixture.acknowledge(1);
    let seen = async {
        for _ in 0..100 {
            assert_eq!(fixture.seen().await, 2);
        }
    };
    tokio::select! {
        biased;
        begun = pushes.begin(fixture.gradients(2)) => panic!("no room for it: {begun:?}"),
        () = seen => {}
    }
    assert_eq!(fixture.acked(), 0, "settled in order");
    fixture.acknowledge(0);
    pushes.begin(fixture.gradients(2)).await.unwrap();
    assert_eq!(fixture.seen().await, 3);
    fixture.acknowledge(2);
    pushes.finish().await.unwrap();
    assert_eq!(fixture.acked(), 3);
}

#[tokio::test]
async fn a_push_that_is_refused_ends_the_work_beside_it() {
    let fixture = Fixture::start().await;
    let mut pushes = OpenPushes::new(&fixture.client, &fixture.live, 16);
    fixture.split(&mut pushes, 0, Lineage(fixture.lineage.0 + 1));
    pushes.begin(fixture.gradients(0)).await.unwrap();
    let ended = pushes.during(std::future::pending::<()>()).await;
    let error = ended.unwrap_err().to_string();
    assert!(error.starts_with("push 0/0 failed"), "{error}");
}

/// An epoch of two splits, of one batch each.
#[tokio::test]
async fn w4_a_split_is_given_back_when_its_end_is_acknowledged_and_the_next_has_begun() {
    let fixture = Fixture::start().await;
    let mut pushes = fixture.pushes(16);
    pushes.begin(fixture.gradients(0)).await.unwrap();
    pushes.begin(fixture.end(0, 1)).await.unwrap();
    fixture.acknowledge(0);
    fixture.split(&mut pushes, 1, fixture.lineage);
    pushes.begin(fixture.of_source(1, 7)).await.unwrap();
    assert!(pushes.outcome().is_none(), "its END is not acknowledged");
    fixture.acknowledge(1);
    fixture.acknowledge(7);
    pushes.finish().await.unwrap();
    let given_back = pushes.outcome().unwrap();
    assert!(matches!(given_back, (LeaseId(0), Outcome::Trained(_))));
    assert!(pushes.outcome().is_none(), "the next is still learnt");
    assert!(pushes.is_owing());
}

#[tokio::test]
async fn w3_a_split_that_is_lost_leaves_the_next_one_alone() {
    let fixture = Fixture::start().await;
    let mut pushes = OpenPushes::new(&fixture.client, &fixture.live, 16);
    fixture.split(&mut pushes, 0, Lineage(fixture.lineage.0 + 1));
    pushes.begin(fixture.end(0, 0)).await.unwrap();
    fixture.split(&mut pushes, 1, fixture.lineage);
    pushes.begin(fixture.of_source(1, 0)).await.unwrap();
    fixture.acknowledge(0);
    pushes.finish().await.unwrap();
    let given_back = pushes.outcome().unwrap();
    assert!(matches!(given_back, (LeaseId(0), Outcome::Abandoned(_))));
    assert_eq!(fixture.acked(), 1);
}
