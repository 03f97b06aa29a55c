//! A simulated worker: the real client and the real loop, from joining the job to its end.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::watch;
use windlass_client::grpc::{Connector, Options};
use windlass_client::runtime::TokioClock;
use windlass_client::transport::Control;
use windlass_client::{Client, ClientSettings, Connect};
use windlass_common::coordination::{History, Register};
use windlass_common::format::newest;
use windlass_common::id::WorkerId;
use windlass_common::runtime::{Clock, Disk};
use windlass_worker::trainer::{Live, Storage, Trainer};

use super::blobs::Blobs;
use super::judge::Judge;
use super::machine::{SimulatedNetwork, SlowPool, url};
use super::memory::MemoryDisk;
use super::plan::{JOB, Mode, Plan};
use super::watched::Watched;
use super::world::World;

/// How long a piece of a worker's work takes at most, mostly.
const LONGEST: Duration = Duration::from_millis(4);

/// Where the model is kept on a worker's disk.
const OUTPUT: &str = "/runs";

/// Runs one life of a worker's process. When it ends by itself, somebody has to start it again.
pub(super) async fn work(
    world: Arc<World>,
    host: String,
    plan: Arc<Plan>,
    blobs: Blobs,
    disk: MemoryDisk,
) -> turmoil::Result {
    let (life, wiped) = world.begin(&host);
    if wiped {
        disk.wipe();
    }
    world.note(&host, format_args!("life {life}, empty disk: {wiped}"));
    match attempt(&world, &host, &plan, blobs, Arc::new(disk)).await {
        Ok(()) => world.done(&host),
        Err(error) => {
            world.note(&host, format_args!("ended: {error:#}"));
            world.end(&host);
        }
    }
    pending().await
}

async fn attempt(
    world: &Arc<World>,
    host: &str,
    plan: &Plan,
    blobs: Blobs,
    disk: Arc<dyn Disk>,
) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::new());
    let options = Options {
        deadline: Duration::from_secs(4),
        connect_timeout: Duration::from_secs(1),
        keepalive_interval: Duration::from_secs(1),
        keepalive_timeout: Duration::from_secs(1),
        ..Options::default()
    };
    let connector = Connector::new(Arc::new(SimulatedNetwork), Arc::clone(&clock), options);
    let coordinator = url("server-0");
    let admin = connector.admin(&coordinator);
    let control: Arc<dyn Control> = Arc::new(Watched {
        inner: connector.control(&coordinator),
        world: Arc::clone(world),
        host: host.into(),
        logs: plan.mode == Mode::Log,
    });
    let connect: Arc<dyn Connect> = Arc::new(Watched {
        inner: Arc::new(connector) as Arc<dyn Connect>,
        world: Arc::clone(world),
        host: host.into(),
        logs: plan.mode == Mode::Log,
    });
    let job = &plan.job;
    let register = Register {
        job: JOB.into(),
        worker: WorkerId(world.name()),
        schema: job.schema.clone(),
        recipe: job.recipe.clone(),
        plan: job.steering(),
        fresh: false,
        checkpoint: kept(&disk, plan),
        config: job.config.to_toml(),
    };
    let live = Arc::new(Live::new(job.step.tally()));
    let cluster = job.config.cluster.clone().unwrap_or_default();
    let settings = ClientSettings {
        coordinator,
        connect_timeout: cluster.connect_timeout.duration(),
        request_timeout: cluster.request_timeout.duration(),
        patience: cluster.patience.duration(),
        waiting: live.waiting.clone(),
    };
    let client = Client::register(control, connect, Arc::clone(&clock), register, settings).await?;
    // Nobody asks it to stop, but somebody could.
    let (_asks, stop) = watch::channel(false);
    let trainer = Trainer {
        client: Arc::new(client),
        step: job.step.clone(),
        plan: Arc::clone(&job.plan),
        inputs: job.inputs.clone(),
        pace: job.pace(),
        storage: Storage {
            disk,
            folder: PathBuf::from(OUTPUT),
            pinned: None,
            job: JOB.into(),
            schema: job.schema.clone(),
            recipe: job.recipe.clone(),
            config: job.config.to_toml(),
            target: job.config.train.epochs,
        },
        live,
        clock: Arc::clone(&clock),
        pool: Arc::new(SlowPool {
            world: Arc::clone(world),
            longest: LONGEST,
        }),
        stop,
    };
    trainer.run().await?;
    let judge = Judge {
        world,
        host,
        plan,
        objects: blobs.open(),
    };
    judge.done_is_durable();
    while !world.is_calm() {
        clock.sleep(Duration::from_millis(100)).await;
    }
    judge
        .servers_are_right(&trainer.client, &*admin, &*clock)
        .await
}

/// What the worker's own newest checkpoint tells, as `windlass-worker train` offers it.
fn kept(disk: &Arc<dyn Disk>, plan: &Plan) -> Option<History> {
    let checkpoint = newest(disk, Path::new(OUTPUT)).ok()?.checkpoint?;
    let manifest = checkpoint.manifest();
    let same = manifest.schema == plan.job.schema && manifest.recipe == plan.job.recipe;
    same.then(|| manifest.history.clone())
}
