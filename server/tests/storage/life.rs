//! One life of a server that counts: two shards with one row each, to which every push adds 1.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;
use tracing_subscriber::fmt::MakeWriter;
use windlass_client::runtime::{InlinePool, TokioClock};
use windlass_client::transport::Shards;
use windlass_common::coordination::{Assignment, History, Recipe};
use windlass_common::exchange::{Pull, Push, TableGradients};
use windlass_common::format::{Library, Manifest, ManifestFile, ShardImage};
use windlass_common::id::{
    Boot, CheckpointId, Incarnation, JobId, Lineage, MapEpoch, PushId, Seq, ShardId, SourceId,
    TableId,
};
use windlass_common::init::Init;
use windlass_common::interval_set::IntervalSet;
use windlass_common::key::Key;
use windlass_common::optimizer::{OptimizerSpec, Sgd};
use windlass_common::runtime::{FolderObjects, Objects};
use windlass_common::saving::SaveOrder;
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::{ShardCount, ShardedKeys};
use windlass_common::windows::Verdict;
use windlass_proto::WireError;
use windlass_server::backing::{Backing, OwnDisk};
use windlass_server::saver::Saver;
use windlass_server::store::Store;

use crate::disk::MemDisk;

pub(crate) const JOB: JobId = JobId(9);
pub(crate) const NAME: &str = "clicks";
pub(crate) const SHARDS: [ShardId; 2] = [ShardId(0), ShardId(1)];

/// Pushes of a whole run: 0 to 5.
pub(crate) const PUSHES: u64 = 6;

pub(crate) fn schema() -> JobSchema {
    JobSchema {
        shards: ShardCount::new(2).unwrap(),
        seed: 1,
        tables: vec![TableSchema::new(
            "count",
            1,
            Init::Zeros,
            OptimizerSpec::Sgd(Sgd {
                learning_rate: 1.0,
                l2: 0.0,
            }),
        )],
    }
}

pub(crate) fn assignment(save: Option<u64>) -> Assignment {
    let incarnation = Incarnation {
        epoch: MapEpoch(1),
        nonce: 5,
    };
    Assignment {
        job: JOB,
        name: NAME.into(),
        lineage: Lineage(1),
        schema: schema(),
        shards: SHARDS.map(|shard| (shard, incarnation)).into(),
        origin: None,
        save: save.map(|number| SaveOrder {
            checkpoint: CheckpointId(number),
            base: None,
            gentle: false,
        }),
        settled: None,
    }
}

fn keys() -> Arc<ShardedKeys> {
    let first = |shard| {
        (0..)
            .map(Key)
            .find(|&k| schema().shards.shard_of(k) == shard)
    };
    let keys = SHARDS.map(|shard| first(shard).unwrap());
    Arc::new(ShardedKeys::group(&keys, schema().shards).0)
}

fn id(seq: u64) -> PushId {
    PushId {
        source: SourceId(0),
        seq: Seq(seq),
    }
}

/// The store of checkpoints on a disk.
pub(crate) fn objects(disk: &MemDisk, boot: u64) -> Arc<dyn Objects> {
    Arc::new(FolderObjects::new(
        disk.shared(),
        "store".into(),
        Boot(boot),
    ))
}

pub(crate) fn library(disk: &MemDisk) -> Library {
    Library::new(objects(disk, 99), NAME).unwrap()
}

/// Publishes a checkpoint of these files.
pub(crate) fn publish(disk: &MemDisk, number: u64, chains: Vec<Vec<ManifestFile>>) {
    let manifest = Manifest {
        job: NAME.into(),
        job_id: JOB,
        number: CheckpointId(number),
        lineage: Lineage(1),
        taken_ms: number,
        pinned: false,
        windlass: "0.1.0".into(),
        config: String::new(),
        schema: schema(),
        recipe: Recipe {
            files: Vec::new(),
            split_bytes: 10,
            batch_size: 1,
            shuffle: 0,
            seed: 3,
            reading: [0; 32],
        },
        target: 1,
        history: History::default(),
        complete: IntervalSet::default(),
        chains,
    };
    library(disk).publish(&manifest).unwrap();
}

/// A server from its start to its end.
pub(crate) struct Life {
    pub(crate) store: Arc<Store>,
    pub(crate) saver: Arc<Saver>,
    tasks: Vec<JoinHandle<()>>,
}

impl Life {
    /// Starts with a store of checkpoints, and with a log if it has its own disk too; the shards
    /// are assigned.
    pub(crate) fn begin(disk: &MemDisk, boot: u64, logs: bool) -> Self {
        let own =
            logs.then(|| OwnDisk::open(disk.shared(), Path::new("data"), Boot(boot)).unwrap());
        let objects = objects(disk, boot);
        let mut tasks = Vec::new();
        if let Some(own) = &own {
            let log = Arc::clone(&own.log);
            let run = async move { log.run(&InlinePool, &TokioClock::new()).await };
            tasks.push(tokio::spawn(run));
        }
        let backing = Backing {
            boot: Boot(boot),
            objects: Some(Arc::clone(&objects)),
            disk: own,
        };
        let store = Arc::new(Store::backed(Arc::new(InlinePool), backing));
        store.assign(&[assignment(None)]).unwrap();
        let clock = Arc::new(TokioClock::new());
        let saver = Arc::new(Saver::new(Arc::clone(&store), objects, clock));
        let saving = Arc::clone(&saver);
        tasks.push(tokio::spawn(async move { saving.run().await }));
        Self {
            store,
            saver,
            tasks,
        }
    }

    pub(crate) async fn push(&self, seq: u64) -> Result<(), WireError> {
        let set = keys();
        let push = Push {
            job: JOB,
            lineage: Lineage(1),
            id: id(seq),
            end: false,
            cover: SHARDS.into(),
            sets: vec![Arc::clone(&set)],
            tables: vec![TableGradients {
                table: TableId(0),
                set: 0,
                gradients: vec![-1.0; set.len()],
            }],
        };
        self.store.push(push).await.map(drop)
    }

    /// What the rows say, in the order of the shards.
    pub(crate) async fn counts(&self) -> [f32; 2] {
        let pull = Pull {
            job: JOB,
            sets: vec![keys()],
            tables: vec![(TableId(0), 0)],
            exactly_below: None,
        };
        let pulled = self.store.pull(pull).await.unwrap();
        pulled.tables[0].as_slice().try_into().unwrap()
    }

    pub(crate) fn image(&self, shard: ShardId) -> ShardImage {
        self.store.image(JOB, shard).unwrap()
    }

    /// I1: how many pushes each shard holds, by its windows, its clock and its rows.
    pub(crate) async fn held(&self) -> [u64; 2] {
        let counts = self.counts().await;
        SHARDS.map(|shard| {
            let image = self.image(shard);
            let is_in = |&seq: &u64| image.windows.judge(id(seq), false) == Verdict::Duplicate;
            let held = (0..PUSHES).filter(is_in).count() as u64;
            assert_eq!(image.clock.0, held, "{shard}: clock and windows");
            assert_eq!(counts[usize::from(shard.0)], held as f32, "{shard}: rows");
            held
        })
    }

    /// The files of a checkpoint that the saver has written, once it has written all.
    pub(crate) async fn saved(&self, number: u64) -> Vec<Vec<ManifestFile>> {
        self.saver.order(&[assignment(Some(number))]);
        loop {
            let mut jobs = self.store.report();
            self.saver.report(&mut jobs);
            let saved: BTreeMap<_, _> = jobs[0]
                .saved
                .iter()
                .filter(|saved| saved.checkpoint == CheckpointId(number))
                .map(|saved| (saved.shard, saved.chain.clone()))
                .collect();
            if saved.len() == SHARDS.len() {
                return saved.into_values().collect();
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// What is told in the tracing log while something is done.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<u8>>>);

impl Told {
    pub(crate) fn during<T>(work: impl FnOnce() -> T) -> (T, String) {
        let told = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(told.clone())
            .with_ansi(false)
            .with_max_level(tracing::Level::WARN)
            .finish();
        let done = tracing::subscriber::with_default(subscriber, work);
        let text = String::from_utf8(told.0.lock().unwrap().clone()).unwrap();
        (done, text)
    }
}

impl std::io::Write for Told {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Told {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
