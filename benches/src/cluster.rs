//! A job and servers that hold nothing, to measure a coordinator with.

use std::sync::{Arc, Mutex, PoisonError};

use windlass_common::coordination::{
    Assigned, Health, JobReport, Plan, Purpose, Recipe, Register, Report, ShardReport,
};
use windlass_common::id::{Boot, Clock, MapEpoch, SourceId, WorkerId};
use windlass_common::init::Init;
use windlass_common::interval_set::IntervalSet;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::ShardCount;
use windlass_common::split::InputFile;
use windlass_common::tally::{Metric, Tally, Task};

/// The job's name.
pub const NAME: &str = "bench";

/// Bytes of a split.
const SPLIT_BYTES: u64 = 1 << 20;

/// The sources that workers have finished, shared with the servers that will say so.
#[derive(Clone, Debug, Default)]
pub struct Finished(Arc<Mutex<IntervalSet>>);

impl Finished {
    /// Adds a source.
    pub fn add(&self, source: SourceId) {
        self.set(|set| set.insert(source.0));
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.set(|set| set.len())
    }

    fn set<T>(&self, with: impl FnOnce(&mut IntervalSet) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A server without rows: it tells that whatever was finished is complete in all of its shards.
#[derive(Debug)]
pub struct FakeServer {
    report: Report,
    finished: Finished,
    assigned: Vec<JobReport>,
}

impl FakeServer {
    /// Starts a server that no coordinator knows yet.
    #[must_use]
    pub fn new(number: u32, finished: Finished) -> Self {
        Self {
            report: Report {
                address: format!("http://server-{number}"),
                boot: Boot(1 + u64::from(number)),
                number: 0,
                seen: MapEpoch(0),
                health: Health::default(),
                jobs: Vec::new(),
            },
            finished,
            assigned: Vec::new(),
        }
    }

    /// What it tells next.
    pub fn report(&mut self) -> Report {
        self.report.number += 1;
        let complete = self.finished.set(|set| set.clone());
        let mut report = self.report.clone();
        report.jobs.clone_from(&self.assigned);
        for shard in report.jobs.iter_mut().flat_map(|job| &mut job.shards) {
            shard.clock = Clock(complete.len());
            shard.complete.clone_from(&complete);
        }
        report
    }

    /// Takes the shards that it is to hold.
    pub fn obey(&mut self, assigned: Assigned) {
        self.report.seen = assigned.epoch;
        let jobs = assigned.jobs.into_iter().map(|job| JobReport {
            job: job.job,
            shards: job
                .shards
                .into_iter()
                .map(|(shard, incarnation)| ShardReport {
                    shard,
                    incarnation,
                    lineage: job.lineage,
                    complete: IntervalSet::default(),
                    open: Vec::new(),
                    rows: 1_000_000,
                    clock: Clock(0),
                })
                .collect(),
            saved: Vec::new(),
            tables: Vec::new(),
        });
        self.assigned = jobs.collect();
    }
}

/// A registration for one epoch of a file of so many splits, by 256 shards on `servers` servers.
#[must_use]
pub fn register(worker: WorkerId, splits: u32, servers: u32, workers: u32) -> Register {
    Register {
        job: NAME.into(),
        worker,
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
                bytes: SPLIT_BYTES * u64::from(splits),
                digest: [1; 32],
                divisible: true,
            }],
            split_bytes: SPLIT_BYTES,
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
            servers,
            workers,
            purpose: Purpose::Train,
        },
        fresh: false,
        checkpoint: None,
        config: String::new(),
    }
}

/// What a worker measures on a split: binary labels, scores in a hundred bins.
#[must_use]
pub fn tally() -> Tally {
    let mut tally = Tally::new(Task::Binary);
    for i in 0..100u8 {
        let score = f32::from(i) / 10.0 - 5.0;
        let probability = 1.0 / (1.0 + (-score).exp());
        tally.add_binary(score, probability, f32::from(i % 2), 1.0);
    }
    tally
}
