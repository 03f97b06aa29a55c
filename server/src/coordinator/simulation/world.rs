//! Servers and workers around a coordinator, without network and threads: each turn of the world
//! takes 100 ms, in which servers report and workers take one step.
//!
//! Rows are counts by batch, so that a state can be compared with "each batch once".

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use windlass_client::transport::Next;
use windlass_common::coordination::{
    Assigned, Health, History, JobReport, Outcome, Plan, Purpose, Recipe, Register, Report,
    ScoreLease, ShardReport, StorageLease, Task, TrainLease,
};
use windlass_common::format::ClusterState;
use windlass_common::human::{Every, Span};
use windlass_common::id::{
    Boot, Clock, Epoch, Incarnation, JobId, LeaseId, Lineage, MapEpoch, PushId, Seq, ServerId,
    ShardId, SourceId, WorkerId,
};
use windlass_common::init::Init;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::saving::{self, SaveOrder};
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::ShardCount;
use windlass_common::split::{Draw, InputFile};
use windlass_common::tally::{Metric, Tally};
use windlass_common::windows::{Verdict, Windows};
use windlass_proto::{ErrorKind, WireError};

use crate::coordinator::record::Stamp;
use crate::coordinator::{Coordinator, Saving, Settings, Stored};

use super::store::Store;

/// How long a lease lasts here.
pub(super) const TTL: Duration = Duration::from_secs(2);

const TURN: Duration = Duration::from_millis(100);

/// Counts by epoch, split and batch.
pub(super) type Rows = BTreeMap<(Epoch, u32, Seq), u32>;

/// One shard's state: the rows and the windows that tell what is in them.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    pub(super) rows: Rows,
    pub(super) windows: Windows,
    pub(super) lineage: Lineage,
    pub(super) incarnation: Incarnation,
}

pub(super) struct Server {
    pub(super) id: Option<ServerId>,
    pub(super) up: bool,
    pub(super) jobs: BTreeMap<JobId, BTreeMap<ShardId, Shard>>,
    /// What it is to save, and what it has saved for that.
    save: Option<(JobId, SaveOrder)>,
    saved: BTreeMap<ShardId, saving::Saved>,
    address: String,
    boot: Boot,
    number: u64,
    seen: MapEpoch,
}

enum Doing {
    Nothing,
    Training(TrainLease, Seq, Tally),
    Scoring(ScoreLease),
    Saving(StorageLease),
    Restoring(StorageLease),
    Sealing(StorageLease),
}

impl Doing {
    fn needs_all_shards(&self) -> Option<LeaseId> {
        match self {
            Self::Scoring(lease) => Some(lease.lease),
            Self::Saving(lease) | Self::Restoring(lease) => Some(lease.lease),
            _ => None,
        }
    }
}

pub(super) struct Worker {
    pub(super) id: WorkerId,
    pub(super) job: Option<JobId>,
    /// Turns that it sleeps through, without renewing anything.
    pub(super) asleep: u32,
    /// The end it has seen.
    pub(super) end: Option<Result<History, WireError>>,
    /// The last reason to wait.
    pub(super) reason: String,
    /// Whether what it waited for was not there.
    pub(super) missing: bool,
    /// Whether it gives each outcome back twice.
    pub(super) stutters: bool,
    pub(super) fresh: bool,
    doing: Doing,
    done: Option<(LeaseId, Outcome)>,
}

/// A saved checkpoint.
#[derive(Clone)]
pub(super) struct Saved {
    shards: BTreeMap<ShardId, (Rows, Windows)>,
    pub(super) history: History,
}

/// What job the world's workers want.
#[derive(Clone)]
pub(super) struct Setup {
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
    pub(super) fn new(servers: u32, workers: u32, epochs: u32) -> Self {
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

    pub(super) fn register(&self, worker: WorkerId) -> Register {
        Register {
            job: "flights".into(),
            worker,
            schema: JobSchema {
                shards: ShardCount::new(self.shards).unwrap(),
                seed: 1,
                tables: vec![TableSchema {
                    name: "linear".into(),
                    dim: 1,
                    init: Init::default(),
                    optimizer: OptimizerSpec::default(),
                }],
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
            doing: Doing::Nothing,
            done: None,
        });
    }

    /// Writes down what must survive, when the coordinator's stamp says so; called after each of its
    /// answers.
    fn write_down(&mut self) {
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
    fn publish(&mut self) {
        let now = u64::try_from(self.now.as_millis()).unwrap();
        while let Some(publication) = self.coordinator.take_publication() {
            let store = self
                .store
                .as_mut()
                .expect("nothing is saved without a store");
            store.publish(publication.manifest.clone());
            self.coordinator.published(&publication, Ok(now));
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

    /// A server reports and obeys the answer (rule S3).
    pub(super) fn speak(&mut self, s: usize) {
        if let Some(store) = &mut self.store {
            self.servers[s].save_one(store, &mut self.draw);
        }
        let server = &mut self.servers[s];
        server.number += 1;
        let saved_of = |job: JobId| match server.save {
            Some((of, _)) if of == job => server.saved.values().cloned().collect(),
            _ => Vec::new(),
        };
        let tell = |(&shard, held): (&ShardId, &Shard)| ShardReport {
            shard,
            incarnation: held.incarnation,
            lineage: held.lineage,
            complete: held.windows.complete().clone(),
            open: held
                .windows
                .open()
                .iter()
                .map(|(&s, w)| (s, w.next))
                .collect(),
            rows: held.rows.len() as u64,
            clock: Clock(0),
        };
        let jobs = server.jobs.iter().map(|(&job, shards)| JobReport {
            job,
            shards: shards.iter().map(tell).collect(),
            saved: saved_of(job),
        });
        let report = Report {
            address: server.address.clone(),
            boot: server.boot,
            number: server.number,
            seen: server.seen,
            health: Health::default(),
            jobs: jobs.collect(),
        };
        self.sent.push(report.clone());
        let assigned = self.coordinator.report(report, self.now).unwrap();
        self.write_down();
        self.servers[s].obey(assigned, self.store.as_ref());
        self.publish();
    }

    /// Lets a worker take one step.
    pub(super) fn step(&mut self, w: usize) {
        if self.workers[w].end.is_some() {
            return;
        }
        if self.workers[w].asleep > 0 {
            self.workers[w].asleep -= 1;
            return;
        }
        let Some(job) = self.workers[w].job else {
            self.join(w);
            return;
        };
        let doing = std::mem::replace(&mut self.workers[w].doing, Doing::Nothing);
        if let Some(lease) = doing.needs_all_shards()
            && !self.all_reachable(job)
        {
            // A worker tries again for long before it gives up.
            self.hold(w, lease, job);
            self.workers[w].doing = doing;
            return;
        }
        let (lease, outcome) = match doing {
            Doing::Nothing => return self.ask(w, job),
            Doing::Training(lease, next, tally) => {
                let id = lease.lease;
                match self.train(&lease, job, next, tally) {
                    Ok((next, tally)) if next.0 <= length(lease.index) => {
                        self.hold(w, id, job);
                        self.workers[w].doing = Doing::Training(lease, next, tally);
                        return;
                    }
                    Ok((_, tally)) => (id, Outcome::Trained(tally)),
                    Err(why) => (id, Outcome::Abandoned(why)),
                }
            }
            Doing::Scoring(lease) => (lease.lease, self.score(&lease, job)),
            Doing::Saving(lease) => (lease.lease, self.save(&lease, job)),
            Doing::Restoring(lease) => (lease.lease, self.restore(&lease, job)),
            Doing::Sealing(lease) => {
                let saved = self
                    .disk
                    .get_mut(&lease.epochs)
                    .expect("it was saved before");
                saved.history = lease.history.clone();
                (lease.lease, Outcome::Stored)
            }
        };
        self.workers[w].done = Some((lease, outcome));
    }

    fn join(&mut self, w: usize) {
        let worker = &mut self.workers[w];
        let mut register = self.setup.register(worker.id);
        register.fresh = worker.fresh;
        register.checkpoint = self.disk.last_key_value().map(|(_, s)| s.history.clone());
        let stored = match &self.store {
            Some(store) => store.stored(register.fresh),
            None => Stored::default(),
        };
        let registered = self.coordinator.register_with(register, stored, self.now);
        self.write_down();
        let worker = &mut self.workers[w];
        match registered {
            Ok(registered) => worker.job = Some(registered.job),
            Err(error) => worker.end = Some(Err(error)),
        }
    }

    pub(super) fn is_restoring(&self, w: usize) -> bool {
        matches!(self.workers[w].doing, Doing::Restoring(_))
    }

    pub(super) fn is_scoring(&self, w: usize) -> bool {
        matches!(self.workers[w].doing, Doing::Scoring(_))
    }

    /// Whether every shard answers, whatever is in it.
    fn all_reachable(&mut self, job: JobId) -> bool {
        let Ok(map) = self.coordinator.map(job, self.now) else {
            // It is gone, which the worker learns when it asks.
            return true;
        };
        let mut shards = (0u16..).map(ShardId).zip(&map.owners);
        shards.all(|(shard, owner)| {
            let up = self.servers.iter().any(|s| s.id == Some(owner.0) && s.up);
            up && self.shard(job, owner.0, shard).is_some()
        })
    }

    fn hold(&mut self, w: usize, lease: LeaseId, job: JobId) {
        let worker = self.workers[w].id;
        // A job that is gone is noticed when the worker asks next.
        drop(self.coordinator.renew(job, worker, lease, self.now));
    }

    fn ask(&mut self, w: usize, job: JobId) {
        let worker = &mut self.workers[w];
        let next = Next {
            job,
            worker: worker.id,
            done: worker.done.take(),
            leaving: false,
        };
        if worker.stutters && next.done.is_some() {
            let again = next.clone();
            let answer = self.coordinator.next(again, self.now);
            // The answer was lost with whatever it gave.
            drop(answer);
        }
        let answer = self.coordinator.next(next, self.now);
        self.write_down();
        let worker = &mut self.workers[w];
        match answer {
            Ok((task, _)) => match task {
                Task::Train(lease) => {
                    let start = lease.start;
                    worker.doing = Doing::Training(lease, start, Tally::default());
                }
                Task::Score(lease) => worker.doing = Doing::Scoring(lease),
                Task::Save(lease) => worker.doing = Doing::Saving(lease),
                Task::Restore(lease) => worker.doing = Doing::Restoring(lease),
                Task::Seal(lease) => worker.doing = Doing::Sealing(lease),
                Task::Wait {
                    reason, missing, ..
                } => (worker.reason, worker.missing) = (reason, missing),
                Task::Done(history) => worker.end = Some(Ok(history)),
            },
            // What a launcher does: the process starts again.
            Err(error) if error.kind == ErrorKind::UnknownJob => self.restart_worker(w),
            Err(error) => worker.end = Some(Err(error)),
        }
    }

    /// Pushes one batch to every shard; goes on when all have acknowledged it.
    fn train(
        &mut self,
        lease: &TrainLease,
        job: JobId,
        next: Seq,
        mut tally: Tally,
    ) -> Result<(Seq, Tally), String> {
        let end = next.0 == length(lease.index);
        let id = PushId {
            source: lease.source,
            seq: next,
        };
        let map = match self.coordinator.map(job, self.now) {
            Ok(map) => map,
            Err(error) => return Err(error.message),
        };
        let mut acknowledged = true;
        for (shard, owner) in (0u16..).map(ShardId).zip(&map.owners) {
            let server = self
                .servers
                .iter_mut()
                .find(|s| s.id == Some(owner.0) && s.up);
            let held = server.and_then(|s| s.jobs.get_mut(&job)?.get_mut(&shard));
            let Some(held) = held else {
                acknowledged = false;
                continue;
            };
            if held.lineage != lease.lineage {
                return Err("stale lineage".into());
            }
            match held.windows.judge(id, end) {
                Verdict::Apply => {
                    held.windows.mark(id, end);
                    if !end {
                        *held
                            .rows
                            .entry((lease.epoch, lease.index, next))
                            .or_default() += 1;
                    }
                }
                Verdict::Duplicate => {}
                verdict => return Err(format!("{verdict:?}")),
            }
        }
        self.computed += 1;
        if !acknowledged {
            return Ok((next, tally));
        }
        if !end {
            tally.examples += 1;
            tally.weight += 1.0;
            tally.log_loss += f64::from(lease.index + 100 * lease.epoch.0);
        }
        Ok((Seq(next.0 + 1), tally))
    }

    /// All shards, if each holds exactly the sources below `limit`.
    fn exactly(&mut self, job: JobId, limit: SourceId) -> Option<BTreeMap<ShardId, Shard>> {
        let map = self.coordinator.map(job, self.now).ok()?;
        let mut shards = BTreeMap::new();
        for (shard, owner) in (0u16..).map(ShardId).zip(&map.owners) {
            let held = self.shard(job, owner.0, shard)?;
            if !held.windows.exactly_below(limit) {
                return None;
            }
            shards.insert(shard, held.clone());
        }
        Some(shards)
    }

    fn score(&mut self, lease: &ScoreLease, job: JobId) -> Outcome {
        let Some(shards) = self.exactly(job, lease.exactly_below) else {
            return Outcome::Abandoned("not exact".into());
        };
        let epochs = u32::try_from(lease.exactly_below.0).unwrap() / self.setup.splits;
        let rows = exact(epochs, self.setup.splits);
        assert!(
            shards.values().all(|s| s.rows == rows),
            "scored a wrong state"
        );
        Outcome::Scored(Tally {
            examples: 1,
            weight: 1.0,
            log_loss: self.setup.losses[epochs as usize - 1],
            ..Tally::default()
        })
    }

    fn save(&mut self, lease: &StorageLease, job: JobId) -> Outcome {
        if self.disk_full {
            return Outcome::Abandoned("the disk is full".into());
        }
        let Some(shards) = self.exactly(job, lease.exactly_below) else {
            return Outcome::Abandoned("not exact".into());
        };
        let parts = |(shard, held): (ShardId, Shard)| (shard, (held.rows, held.windows));
        let saved = Saved {
            shards: shards.into_iter().map(parts).collect(),
            history: lease.history.clone(),
        };
        self.disk.insert(lease.epochs, saved);
        Outcome::Stored
    }

    fn restore(&mut self, lease: &StorageLease, job: JobId) -> Outcome {
        let Some(saved) = self.disk.get(&lease.epochs).cloned() else {
            return Outcome::Abandoned("no such checkpoint here".into());
        };
        let Ok(map) = self.coordinator.map(job, self.now) else {
            return Outcome::Abandoned("no map".into());
        };
        if lease.lineage != map.lineage {
            return Outcome::Abandoned("stale lineage".into());
        }
        for (shard, owner) in (0u16..).map(ShardId).zip(&map.owners) {
            let server = self
                .servers
                .iter_mut()
                .find(|s| s.id == Some(owner.0) && s.up);
            if let Some(held) = server.and_then(|s| s.jobs.get_mut(&job)?.get_mut(&shard)) {
                let (rows, windows) = saved.shards[&shard].clone();
                (held.rows, held.windows) = (rows, windows);
                held.lineage = lease.lineage;
            }
        }
        Outcome::Stored
    }
}

impl Server {
    /// Saves one more shard of what is ordered (rule S6).
    fn save_one(&mut self, store: &mut Store, draw: &mut Draw) {
        let Some((job, order)) = self.save else {
            return;
        };
        let shards = self.jobs.get(&job).into_iter().flatten();
        let open = shards.filter(|(shard, _)| !self.saved.contains_key(shard));
        if let Some((&shard, held)) = open.into_iter().next() {
            let saved = store.save(order, shard, held, draw.bits());
            self.saved.insert(shard, saved);
        }
    }

    /// S3: keeps a shard that is in memory and adopts its incarnation, makes a missing one, drops
    /// one that is not its own.
    fn obey(&mut self, assigned: Assigned, store: Option<&Store>) {
        self.id = Some(assigned.server);
        if assigned.epoch < self.seen {
            return;
        }
        self.seen = assigned.epoch;
        let mut jobs = BTreeMap::new();
        for assignment in assigned.jobs {
            let mut before = self.jobs.remove(&assignment.job).unwrap_or_default();
            if let Some(save) = assignment.save {
                if self.save != Some((assignment.job, save)) {
                    self.saved.clear();
                }
                self.save = Some((assignment.job, save));
            } else if self.save.is_some_and(|s| s.0 == assignment.job) {
                self.save = None;
                self.saved.clear();
            }
            let (job, lineage, origin) = (assignment.job, assignment.lineage, assignment.origin);
            let stays = |held: &Shard| held.lineage >= lineage || origin.is_none();
            let shards = assignment.shards.into_iter().map(|(shard, incarnation)| {
                let held = before.remove(&shard).filter(stays);
                let stored = || store?.newest(job, lineage, origin, shard);
                let held = held.or_else(stored).unwrap_or(Shard {
                    rows: Rows::new(),
                    windows: Windows::default(),
                    lineage,
                    incarnation,
                });
                // A stored one comes into the lineage that it is for.
                let adopted = Shard {
                    incarnation,
                    lineage: held.lineage.max(if origin.is_some() {
                        lineage
                    } else {
                        held.lineage
                    }),
                    ..held
                };
                (shard, adopted)
            });
            jobs.insert(assignment.job, shards.collect());
        }
        self.jobs = jobs;
    }
}
