use std::fmt::{self, Display, Formatter};
use std::future::ready;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join;
use windlass_common::coordination::{Assignment, Health, JobReport, ShardReport};
use windlass_common::format::{Library, ShardImage, TableImage, encode_shard};
use windlass_common::human::{Every, Span};
use windlass_common::id::{Boot, Clock as Pushes, MapEpoch, ShardId};
use windlass_common::interval_set::IntervalSet;
use windlass_common::runtime::{BoxFuture, FolderObjects, Job, Objects, StdDisk, StdWallClock};
use windlass_common::saving::{SaveOrder, Saved};

use super::*;
use crate::coordinator::simulation::Setup;
use crate::coordinator::{Saving, Settings};

/// A store that counts how often it is asked what it holds.
struct Watched {
    objects: FolderObjects,
    looks: AtomicUsize,
}

impl Display for Watched {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.objects.fmt(f)
    }
}

impl Objects for Watched {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), windlass_common::Error> {
        self.objects.put(name, bytes)
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, windlass_common::Error> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.objects.read(name, limit)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, windlass_common::Error> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.objects.list(folder)
    }

    fn remove(&self, name: &str) -> Result<(), windlass_common::Error> {
        self.objects.remove(name)
    }
}

/// Does its work at once and ends a moment later, so that others come in between.
struct Slow;

impl Pool for Slow {
    fn run(&self, job: Job) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            job();
            tokio::task::yield_now().await;
        })
    }
}

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(ready(()))
    }
}

/// A coordinator with a store, and a server that saves what is ordered.
struct Led {
    handle: CoordinatorHandle,
    store: Arc<Watched>,
    library: Library,
    report: Report,
}

impl Led {
    async fn new(folder: &Path) -> Self {
        let saving = Saving {
            every: Every::Time(Span::from_secs(3600)),
            full_every: 1,
        };
        let settings = Settings {
            saving: Some(saving),
            ..Settings::default()
        };
        let store = Arc::new(Watched {
            objects: FolderObjects::new(Arc::new(StdDisk), folder.join("store"), Boot(1)),
            looks: AtomicUsize::new(0),
        });
        let objects = Arc::clone(&store) as Arc<dyn Objects>;
        let library = Library::new(Arc::clone(&objects), "flights").unwrap();
        let file = StateFile::new(Arc::new(StdDisk), folder);
        let catalog = Catalog::new(objects, Arc::new(StdWallClock), 2);
        let durable = Durable::new(file, catalog, Arc::new(Slow));
        let coordinator = Coordinator::new(settings, 1);
        let handle = CoordinatorHandle::durable(coordinator, Arc::new(Stopped), durable).await;
        let report = Report {
            address: "http://server".into(),
            boot: Boot(1),
            number: 0,
            seen: MapEpoch(0),
            health: Health::default(),
            jobs: Vec::new(),
        };
        let mut led = Self {
            handle: handle.unwrap(),
            store,
            library,
            report,
        };
        led.turn().await;
        led
    }

    /// The server reports, and does what it is told.
    async fn turn(&mut self) {
        self.report.number += 1;
        let assigned = self.handle.report(self.report.clone()).await.unwrap();
        self.report.seen = assigned.epoch;
        self.report.jobs = assigned.jobs.iter().map(|job| self.obey(job)).collect();
    }

    /// A checkpoint is asked for and saved, so that it is ready to be published.
    async fn make_ready(&mut self, number: CheckpointId) {
        assert_eq!(self.publish().await, None);
        let asked = self.handle.save("flights".into()).await.unwrap();
        assert_eq!(asked, number);
        self.turn().await;
        self.turn().await;
    }

    fn obey(&self, job: &Assignment) -> JobReport {
        let shards = || job.shards.iter().copied();
        let hold = |(shard, incarnation)| ShardReport {
            shard,
            incarnation,
            lineage: job.lineage,
            complete: IntervalSet::default(),
            open: Vec::new(),
            rows: 0,
            clock: Pushes(0),
        };
        let save = |order| shards().map(move |(shard, _)| self.save(order, job.lineage, shard));
        JobReport {
            job: job.job,
            shards: shards().map(hold).collect(),
            saved: job.save.into_iter().flat_map(save).collect(),
            tables: Vec::new(),
        }
    }

    fn save(&self, order: SaveOrder, lineage: Lineage, shard: ShardId) -> Saved {
        let image = ShardImage {
            shard,
            lineage,
            tables: vec![TableImage {
                dim: 1,
                ..TableImage::default()
            }],
            ..ShardImage::default()
        };
        let put = self
            .library
            .put_shard(order.checkpoint, &encode_shard(&image));
        Saved {
            checkpoint: order.checkpoint,
            shard,
            lineage,
            clock: Pushes(0),
            complete: IntervalSet::default(),
            open: 0,
            chain: vec![put.unwrap().0],
        }
    }

    /// How often the store is asked while a worker joins.
    async fn looks_of(&self, register: Register) -> usize {
        let before = self.store.looks.load(Ordering::Relaxed);
        self.handle.register(register).await.unwrap();
        self.store.looks.load(Ordering::Relaxed) - before
    }

    /// Begins the job and lets it train.
    async fn train(&mut self) {
        let job = self.handle.register(worker(1)).await.unwrap().job;
        self.turn().await;
        self.turn().await;
        let next = Next {
            job,
            worker: WorkerId(1),
            done: None,
            leaving: false,
        };
        let (task, _) = self.handle.next(next).await.unwrap();
        assert!(matches!(task, Task::Train(_)), "{task:?}");
    }

    async fn publish(&self) -> Option<bool> {
        let durable = self.handle.durable.as_ref().unwrap();
        self.handle.publish_next(durable).await
    }
}

fn worker(id: u64) -> Register {
    Setup::new(1, 1, 9).register(WorkerId(id))
}

#[tokio::test]
async fn only_a_job_that_begins_is_looked_for_in_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let led = Led::new(folder.path()).await;
    assert!(led.looks_of(worker(1)).await > 0);
    assert_eq!(led.looks_of(worker(2)).await, 0);
    let fresh = Register {
        fresh: true,
        ..worker(3)
    };
    assert!(led.looks_of(fresh.clone()).await > 0, "it begins anew");
    assert_eq!(led.looks_of(fresh).await, 0);
}

#[tokio::test]
async fn two_workers_that_begin_a_job_at_once_are_in_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let led = Led::new(folder.path()).await;
    let both = join(
        led.handle.register(worker(1)),
        led.handle.register(worker(2)),
    );
    let (one, two) = both.await;
    assert_eq!(one.unwrap().job, two.unwrap().job);
    let status = led.handle.status().await.unwrap();
    assert_eq!(status.jobs[0].progress.workers, 2);
}

#[tokio::test]
async fn a_job_that_is_replaced_leaves_the_numbers_of_its_checkpoints_taken() {
    let folder = tempfile::tempdir().unwrap();
    let mut led = Led::new(folder.path()).await;
    led.train().await;
    led.handle.save("flights".into()).await.unwrap();
    led.report.number += 1;
    let assigned = led.handle.report(led.report.clone()).await.unwrap();
    let ordered = assigned.jobs[0].save.unwrap().checkpoint;
    let fresh = Register {
        fresh: true,
        ..worker(2)
    };
    led.handle.register(fresh).await.unwrap();
    let record = led.handle.lock().coordinator.record();
    assert_eq!(record.jobs[0].last_checkpoint, ordered);
    assert_eq!(led.library.highest().unwrap(), CheckpointId(0));
}

#[tokio::test]
async fn n4_a_checkpoint_that_a_job_is_put_back_to_does_not_go_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let mut led = Led::new(folder.path()).await;
    led.train().await;
    for number in 1..=4 {
        led.make_ready(CheckpointId(number)).await;
        if number < 4 {
            assert_eq!(led.publish().await, Some(true));
        }
    }
    // The fourth is ready; what it leaves of the others does not include the first.
    let first = CheckpointId(1);
    let restored = led.handle.restore("flights".into(), first);
    let (restored, _) = join(restored, led.publish()).await;
    restored.unwrap();
    led.library.open(first).unwrap();
}

#[tokio::test]
async fn c6_a_checkpoint_that_is_found_damaged_is_not_counted_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut led = Led::new(folder.path()).await;
    led.train().await;
    for number in 1..=3 {
        led.make_ready(CheckpointId(number)).await;
        if number == 3 {
            let second = led.library.open(CheckpointId(2)).unwrap();
            let manifest = folder.path().join(second.folder()).join("manifest.bin");
            let mut bytes = std::fs::read(&manifest).unwrap();
            bytes[20] ^= 1;
            std::fs::write(&manifest, bytes).unwrap();
        }
        assert_eq!(led.publish().await, Some(true));
    }
    let record = led.handle.lock().coordinator.record();
    let published = record.jobs[0].published.iter();
    let numbers: Vec<u64> = published.map(|p| p.checkpoint.0).collect();
    assert!(numbers.contains(&3) && !numbers.contains(&2), "{numbers:?}");
}
