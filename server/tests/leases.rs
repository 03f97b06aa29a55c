//! What a lease costs the coordinator does not depend on how many splits a job has.
#![allow(clippy::unwrap_used, reason = "a test panics when something is wrong")]

use std::time::{Duration, Instant};

use windlass_client::transport::Next;
use windlass_common::coordination::{
    Assigned, Health, JobReport, Outcome, Plan, Purpose, Recipe, Register, Report, ShardReport,
    Task,
};
use windlass_common::id::{Boot, Clock, JobId, LeaseId, MapEpoch, WorkerId};
use windlass_common::init::Init;
use windlass_common::interval_set::IntervalSet;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::ShardCount;
use windlass_common::split::InputFile;
use windlass_common::tally::{Metric, Tally};
use windlass_server::coordinator::{Coordinator, Settings};

const NOW: Duration = Duration::from_secs(1);
const WORKERS: usize = 16;

/// A job of so many splits.
struct Led {
    coordinator: Coordinator,
    job: JobId,
    report: Report,
    /// What each worker gives back next.
    done: Vec<Option<(LeaseId, Outcome)>>,
}

fn register(worker: u64, splits: u64) -> Register {
    Register {
        job: "leases".into(),
        worker: WorkerId(worker),
        schema: JobSchema {
            shards: ShardCount::default(),
            seed: 1,
            tables: vec![TableSchema::new(
                "rows",
                1,
                Init::Zeros,
                OptimizerSpec::default(),
            )],
        },
        recipe: Recipe {
            files: vec![InputFile {
                name: "train".into(),
                bytes: splits,
                digest: [1; 32],
                divisible: true,
            }],
            split_bytes: 1,
            batch_size: 512,
            shuffle: 0,
            seed: 3,
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

impl Led {
    fn new(splits: u64) -> Self {
        let mut coordinator = Coordinator::new(Settings::default(), 1);
        let mut report = Report {
            address: "http://server".into(),
            boot: Boot(1),
            number: 1,
            seen: MapEpoch(0),
            health: Health::default(),
            jobs: Vec::new(),
        };
        coordinator.report(report.clone(), NOW).unwrap();
        let job = coordinator.register(register(0, splits), NOW).unwrap().job;
        let assigned = coordinator.report(report.clone(), NOW).unwrap();
        report.jobs = vec![told(assigned)];
        let mut led = Self {
            coordinator,
            job,
            report,
            done: vec![None; WORKERS],
        };
        led.tell();
        // The order of an epoch is drawn once, with its first lease.
        led.ask(0);
        led
    }

    /// One question of one worker, which gives back what it was given before.
    fn ask(&mut self, worker: usize) {
        let next = Next {
            job: self.job,
            worker: WorkerId(worker as u64),
            done: self.done[worker].take(),
            leaving: false,
        };
        let (task, _) = self.coordinator.next(next, NOW).unwrap();
        let Task::Train(lease) = task else {
            panic!("no lease, but {task:?}");
        };
        let complete = &mut self.report.jobs[0].shards[0].complete;
        complete.insert(lease.source.0);
        self.done[worker] = Some((lease.lease, Outcome::Trained(Tally::default())));
    }

    /// The owner's word: what was leased so far is complete.
    fn tell(&mut self) {
        self.report.number += 1;
        let complete = self.report.jobs[0].shards[0].complete.clone();
        for shard in &mut self.report.jobs[0].shards {
            shard.complete = complete.clone();
        }
        self.coordinator.report(self.report.clone(), NOW).unwrap();
    }

    /// How long it takes when each worker asks a few times, and the owner reports.
    fn round(&mut self) -> Duration {
        let began = Instant::now();
        for ask in 0..4 * WORKERS {
            self.ask(ask % WORKERS);
        }
        self.tell();
        began.elapsed()
    }
}

fn told(assigned: Assigned) -> JobReport {
    let assignment = assigned.jobs.into_iter().next().unwrap();
    let shard = |&(shard, incarnation): &_| ShardReport {
        shard,
        incarnation,
        lineage: assignment.lineage,
        complete: IntervalSet::default(),
        open: Vec::new(),
        rows: 0,
        clock: Clock(0),
    };
    JobReport {
        job: assignment.job,
        shards: assignment.shards.iter().map(shard).collect(),
        saved: Vec::new(),
        tables: Vec::new(),
    }
}

#[test]
fn a_lease_costs_the_same_for_ten_times_the_splits() {
    let (mut few, mut many) = (Led::new(50_000), Led::new(500_000));
    // The quickest of many rounds, in turns: what else the machine does can only make one slower.
    // Rounds are few enough that neither job comes to its end.
    let mut quickest = [Duration::MAX; 2];
    for round in 0..500 {
        quickest[0] = quickest[0].min(few.round());
        quickest[1] = quickest[1].min(many.round());
        if round > 50 && quickest[1] < 2 * quickest[0] {
            return;
        }
    }
    panic!("a round of leases takes {quickest:?} for 50,000 and 500,000 splits");
}
