//! Servers and workers around a coordinator, without network and threads: each turn of the world
//! takes 100 ms, in which servers report and workers take one step.
//!
//! Here is what they share and what dies; `server` and `worker` say what each does in its turn.
//! Rows are counts by batch, so that a state can be compared with "each batch once".

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use windlass_client::transport::Next;
use windlass_common::coordination::{History, Plan, Purpose, Recipe, Register, Report};
use windlass_common::format::ClusterState;
use windlass_common::human::{Every, Span};
use windlass_common::id::{
    Boot, Epoch, JobId, MapEpoch, Seq, ServerId, ShardId, SourceId, WorkerId,
};
use windlass_common::init::Init;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::ShardCount;
use windlass_common::split::{Draw, InputFile};
use windlass_common::tally::Metric;
use windlass_common::windows::Windows;

use crate::coordinator::admin::Published;
use crate::coordinator::record::Stamp;
use crate::coordinator::{Coordinator, Saving, Settings};

use super::server::{Server, Shard};
use super::store::Store;
use super::worker::{Doing, Worker};

/// How long a lease lasts here.
pub(super) const TTL: Duration = Duration::from_secs(2);

const TURN: Duration = Duration::from_millis(100);

/// Counts by epoch, split and batch.
pub(super) type Rows = BTreeMap<(Epoch, u32, Seq), u32>;

/// A saved checkpoint.
#[derive(Clone)]
pub(super) struct Saved {
    pub(super) shards: BTreeMap<ShardId, (Rows, Windows)>,
    pub(super) history: History,
}

/// What job the world's workers want.
#[derive(Clone)]
pub(in crate::coordinator) struct Setup {
    pub(super) shards: u32,
    pub(super) splits: u32,
    pub(super) plan: Plan,
    /// The log loss on validation after each epoch.
    pub(super) losses: Vec<f64>,
}

pub(super) fn file(name: &str, bytes: u64) -> InputFile {
    InputFile {
        name: name.into(),
        bytes,
        digest: [1; 32],
        divisible: true,
    }
}

impl Setup {
    /// `servers` servers, `workers` workers, `epochs` epochs of 6 splits, 4 shards, no held-out
    /// files.
    pub(in crate::coordinator) fn new(servers: u32, workers: u32, epochs: u32) -> Self {
        Self {
            shards: 4,
            splits: 6,
            plan: Plan {
                epochs,
                validation: Vec::new(),
                test: Vec::new(),
                metric: Metric::LogLoss,
                patience: None,
                servers,
                workers,
                purpose: Purpose::Train,
            },
            losses: Vec::new(),
        }
    }

    /// The same with three splits to validate on and two to test on.
    pub(super) fn with_held_out(mut self, losses: &[f64], patience: Option<u32>) -> Self {
        self.plan.validation = vec![file("validation", 30)];
        self.plan.test = vec![file("test", 20)];
        self.plan.patience = patience;
        self.losses = losses.to_vec();
        self
    }

    pub(in crate::coordinator) fn register(&self, worker: WorkerId) -> Register {
        Register {
            job: "flights".into(),
            worker,
            schema: JobSchema {
                shards: ShardCount::new(self.shards).unwrap(),
                seed: 1,
                tables: vec![TableSchema::new(
                    "linear",
                    1,
                    Init::default(),
                    OptimizerSpec::default(),
                )],
            },
            recipe: Recipe {
                files: vec![file("train", 10 * u64::from(self.splits))],
                split_bytes: 10,
                batch_size: 512,
                shuffle: 0,
                seed: 3,
                reading: [0; 32],
            },
            plan: self.plan.clone(),
            fresh: false,
            checkpoint: None,
            config: String::new(),
        }
    }
}

/// Batches of a split.
pub(super) fn length(index: u32) -> u64 {
    [3, 0, 5, 1][index as usize % 4]
}

/// The training loss that workers report of an epoch: the mean over its batches of their split's
/// index, plus 100 times the epoch.
pub(super) fn train_loss(epoch: u32, splits: u32) -> f64 {
    let batches: u64 = (0..splits).map(length).sum();
    let of = |i: u32| u64::from(i + 100 * epoch) * length(i);
    (0..splits).map(of).sum::<u64>() as f64 / batches as f64
}

/// What the rows must be after so many epochs: each batch of each split of each epoch, once.
pub(super) fn exact(epochs: u32, splits: u32) -> Rows {
    (0..epochs)
        .flat_map(|e| (0..splits).map(move |i| (Epoch(e), i)))
        .flat_map(|(e, i)| (0..length(i)).map(move |b| ((e, i, Seq(b)), 1)))
        .collect()
}

pub(super) struct World {
    pub(super) coordinator: Coordinator,
    pub(super) now: Duration,
    pub(super) setup: Setup,
    pub(super) servers: Vec<Server>,
    pub(super) workers: Vec<Worker>,
    /// Checkpoints by epochs, on a disk that all workers share.
    pub(super) disk: BTreeMap<u32, Saved>,
    /// Reports that were sent, to be delivered again.
    pub(super) sent: Vec<Report>,
    /// Whether checkpoints cannot be written.
    pub(super) disk_full: bool,
    /// Batches computed, also those that were applied already.
    pub(super) computed: u64,
    pub(super) draw: Draw,
    /// The store of checkpoints, if the cluster has one.
    pub(super) store: Option<Store>,
    settings: Settings,
    stamp: Stamp,
    /// What of the coordinator is durable.
    written: ClusterState,
}

impl World {
    pub(super) fn new(setup: Setup, servers: u32, workers: u32, seed: u64) -> Self {
        Self::with(setup, servers, workers, seed, None)
    }

    /// A cluster whose coordinator and checkpoints survive; a checkpoint is due every second.
    pub(super) fn durable(setup: Setup, servers: u32, workers: u32, seed: u64) -> Self {
        let saving = Saving {
            every: Every::Time(Span::from_secs(1)),
            full_every: 1,
        };
        Self::with(setup, servers, workers, seed, Some(saving))
    }

    fn with(setup: Setup, servers: u32, workers: u32, seed: u64, saving: Option<Saving>) -> Self {
        let settings = Settings { lease: TTL, saving };
        let coordinator = Coordinator::new(settings, seed);
        let mut world = Self {
            stamp: coordinator.stamp(),
            written: coordinator.record(),
            coordinator,
            settings,
            store: saving.map(|_| Store::default()),
            now: Duration::ZERO,
            setup,
            servers: Vec::new(),
            workers: Vec::new(),
            disk: BTreeMap::new(),
            sent: Vec::new(),
            disk_full: false,
            computed: 0,
            draw: Draw::new(seed, &[1]),
        };
        (0..servers).for_each(|_| world.add_server());
        (0..workers).for_each(|_| world.add_worker());
        world
    }

    pub(super) fn add_server(&mut self) {
        self.servers.push(Server {
            id: None,
            up: true,
            jobs: BTreeMap::new(),
            save: None,
            saved: BTreeMap::new(),
            address: format!("http://server-{}", self.servers.len()),
            boot: Boot(self.draw.bits()),
            number: 0,
            seen: MapEpoch(0),
        });
    }

    pub(super) fn add_worker(&mut self) {
        let id = WorkerId(self.draw.bits());
        self.workers.push(Worker {
            id,
            job: None,
            asleep: 0,
            end: None,
            reason: String::new(),
            missing: false,
            stutters: false,
            fresh: false,
            blind: false,
            doing: Doing::Nothing,
            done: None,
        });
    }

    /// Writes down what must survive, when the coordinator's stamp says so; called after each of its
    /// answers.
    pub(super) fn write_down(&mut self) {
        let (stamp, record) = (self.coordinator.stamp(), self.coordinator.record());
        if stamp != self.stamp {
            (self.stamp, self.written) = (stamp, record);
        } else {
            assert_eq!(record, self.written, "a change that no stamp tells of");
        }
    }

    /// The coordinator's process dies; another goes on from what was written.
    pub(super) fn restart_coordinator(&mut self) {
        let bytes = self.written.encode().unwrap();
        let state = ClusterState::decode(&bytes, Path::new("coordinator.state")).unwrap();
        assert_eq!(state, self.written);
        let seed = self.draw.bits();
        self.coordinator = Coordinator::resume(self.settings, seed, state, self.now);
        (self.stamp, self.written) = (self.coordinator.stamp(), self.coordinator.record());
    }

    /// Writes the manifests of checkpoints that are ready.
    pub(super) fn publish(&mut self) {
        let now = u64::try_from(self.now.as_millis()).unwrap();
        while let Some(publication) = self.coordinator.take_publication() {
            let store = self
                .store
                .as_mut()
                .expect("nothing is saved without a store");
            store.publish(publication.manifest.clone());
            let published = Published {
                taken_ms: now,
                lost: store.lost_of(&publication.needed),
            };
            self.coordinator.published(&publication, Ok(published));
            self.write_down();
        }
    }

    /// The process dies and starts again at its address, without memory.
    pub(super) fn restart_server(&mut self, s: usize) {
        let boot = Boot(self.draw.bits());
        let server = &mut self.servers[s];
        server.jobs.clear();
        server.save = None;
        server.saved.clear();
        (server.boot, server.number, server.seen) = (boot, 0, MapEpoch(0));
    }

    /// The process dies and another takes its place.
    pub(super) fn restart_worker(&mut self, w: usize) {
        self.add_worker();
        self.workers.swap_remove(w);
    }

    /// A worker says good-bye.
    pub(super) fn leave(&mut self, w: usize) {
        let left = self.workers.remove(w);
        let next = Next {
            job: left.job.expect("it has joined"),
            worker: left.id,
            done: None,
            leaving: true,
        };
        self.coordinator.next(next, self.now).unwrap();
    }

    /// A turn in which all servers and workers that live do one thing each.
    pub(super) fn turn(&mut self) {
        self.now += TURN;
        for s in 0..self.servers.len() {
            if self.servers[s].up {
                self.speak(s);
            }
        }
        for w in 0..self.workers.len() {
            self.step(w);
        }
    }

    /// Turns until `reached`.
    pub(super) fn turn_until(&mut self, what: &str, reached: impl Fn(&Self) -> bool) {
        for _ in 0..5000 {
            if reached(self) {
                return;
            }
            self.turn();
        }
        let reasons: Vec<_> = self.workers.iter().map(|w| (&w.reason, &w.end)).collect();
        panic!(
            "after {:?} still not: {what}; workers wait: {reasons:?}",
            self.now
        );
    }

    /// Turns until every worker has seen the end, and returns the first's history.
    pub(super) fn run(&mut self) -> History {
        self.turn_until("done", |w| w.workers.iter().all(|w| w.end.is_some()));
        self.workers[0].end.clone().unwrap().unwrap()
    }

    /// Checks that every shard is with its owner and holds the epochs of the history, once each.
    pub(super) fn check_exact(&mut self, history: &History) {
        let job = self.workers[0].job.unwrap();
        let map = self.coordinator.map(job, self.now).unwrap();
        let limit = SourceId(u64::from(history.epochs) * u64::from(self.setup.splits));
        assert_eq!(map.owners.len(), self.setup.shards as usize);
        for (shard, owner) in (0u16..).map(ShardId).zip(&map.owners) {
            let held = self.shard(job, owner.0, shard).expect("the owner holds it");
            assert_eq!(
                held.rows,
                exact(history.epochs, self.setup.splits),
                "{shard}"
            );
            assert!(held.windows.exactly_below(limit), "shard {shard}");
            assert_eq!(held.lineage, map.lineage);
        }
    }

    /// Checks that the checkpoint of the history holds its epochs, once each. This is what "done"
    /// promises, whatever dies afterwards.
    pub(super) fn check_saved(&self, history: &History) {
        let saved = &self.disk[&history.epochs];
        assert_eq!(&saved.history, history);
        assert_eq!(saved.shards.len(), self.setup.shards as usize);
        let rows = exact(history.epochs, self.setup.splits);
        assert!(saved.shards.values().all(|(held, _)| *held == rows));
    }

    pub(super) fn shard(&self, job: JobId, server: ServerId, shard: ShardId) -> Option<&Shard> {
        let server = self.servers.iter().find(|s| s.id == Some(server))?;
        server.jobs.get(&job)?.get(&shard)
    }
}
