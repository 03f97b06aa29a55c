use std::sync::Mutex;

use windlass_client::runtime::{InlinePool, TokioClock};
use windlass_client::transport::Answered;
use windlass_common::coordination::Assigned;
use windlass_common::id::{Incarnation, JobId, Lineage, ShardId};
use windlass_common::init::Init;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::ShardCount;

use super::*;

const BOOT: Boot = Boot(77);

const INCARNATION: Incarnation = Incarnation {
    epoch: MapEpoch(5),
    nonce: 3,
};

/// A coordinator that gives two of four shards once so many reports have come, and keeps all.
struct Listening {
    clock: TokioClock,
    assigns_after: usize,
    heard: Mutex<Vec<(Duration, Report)>>,
}

impl Membership for Listening {
    fn report(&self, report: Report) -> Answered<'_, Assigned> {
        let mut heard = self.heard.lock().unwrap();
        heard.push((self.clock.now(), report));
        let assigned = heard.len() > self.assigns_after;
        let assignment = Assignment {
            job: JobId(9),
            name: "clicks".into(),
            lineage: Lineage(1),
            schema: JobSchema {
                shards: ShardCount::new(4).unwrap(),
                seed: 1,
                tables: vec![TableSchema::new(
                    "count",
                    1,
                    Init::Zeros,
                    OptimizerSpec::default(),
                )],
            },
            shards: [0, 2].map(|shard| (ShardId(shard), INCARNATION)).into(),
            origin: None,
            save: None,
            settled: None,
        };
        let answer = Assigned {
            server: ServerId(0),
            epoch: MapEpoch(if assigned { 5 } else { 4 }),
            jobs: assigned.then_some(assignment).into_iter().collect(),
        };
        Box::pin(async move { Ok(answer) })
    }
}

/// What a server tells in so many seconds.
async fn told(assigns_after: usize, seconds: u64) -> Vec<(Duration, Report)> {
    let clock = TokioClock::new();
    let coordinator = Arc::new(Listening {
        clock,
        assigns_after,
        heard: Mutex::default(),
    });
    let member = Member {
        store: Arc::new(Store::new(Arc::new(InlinePool))),
        saver: None,
        coordinator: Arc::<Listening>::clone(&coordinator),
        coordinator_address: "http://coordinator".into(),
        clock: Arc::new(clock),
        address: "http://here".into(),
        boot: BOOT,
        connect_timeout: Duration::from_secs(1),
    };
    tokio::select! {
        refused = member.run() => panic!("{refused}"),
        () = clock.sleep(Duration::from_secs(seconds)) => {}
    }
    let heard = coordinator.heard.lock().unwrap();
    heard.clone()
}

#[tokio::test(start_paused = true)]
async fn s8_a_server_tells_every_second_who_it_is_in_this_life() {
    let told = told(usize::MAX, 10).await;
    // It registers with nothing, as of no map.
    let (_, first) = &told[0];
    assert_eq!((first.seen, first.jobs.len()), (MapEpoch(0), 0));
    for ((before, earlier), (at, report)) in told.iter().zip(&told[1..]) {
        assert!(*at - *before <= Duration::from_secs(1), "{at:?}");
        assert!(report.number > earlier.number, "reports are numbered");
        assert_eq!(report.seen, MapEpoch(4));
    }
    for (_, report) in &told {
        assert_eq!((report.boot, &*report.address), (BOOT, "http://here"));
    }
    assert!(told.len() >= 10);
}

#[tokio::test(start_paused = true)]
async fn s8_a_server_tells_of_each_shard_what_it_holds_as_of_which_assignment() {
    let told = told(3, 2).await;
    assert!(told[..4].iter().all(|(_, report)| report.jobs.is_empty()));
    // What a new map has given is told at once.
    let (given, _) = told[3];
    let (at, report) = &told[4];
    assert!(*at - given <= 2 * PAUSE, "{at:?}");
    for (_, report) in &told[4..] {
        let [job] = &report.jobs[..] else {
            panic!("{report:?}");
        };
        let shards: Vec<_> = job
            .shards
            .iter()
            .map(|s| (s.shard, s.incarnation))
            .collect();
        assert_eq!(shards, [0, 2].map(|s| (ShardId(s), INCARNATION)));
        assert!(job.shards.iter().all(|s| s.complete.ranges().is_empty()));
    }
    assert_eq!(report.seen, MapEpoch(5));
}
