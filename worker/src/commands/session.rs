//! A worker at work: connected to its servers, shown to its user, stopped by its signals.

use std::sync::Arc;

use tokio::sync::watch;
use windlass_client::grpc::{Connector, Options};
use windlass_client::runtime::Network;
use windlass_client::transport::Control;
use windlass_client::{Client, ClientSettings, Connect};
use windlass_common::config::TrainConfig;
use windlass_common::coordination::{History, Plan, Register};
use windlass_common::format::{Checkpoint, folder_name};
use windlass_common::id::WorkerId;
use windlass_common::runtime::{Clock, Disk, Pool, offload};

use crate::counted::Counted;
use crate::embedded::{Direct, Embedded};
use crate::error::Error;
use crate::job::Job;
use crate::progress::View;
use crate::trainer::{Live, State, Storage, Trainer};

/// The machine as a command sees it (see `windlass_common::runtime`), and the wish to stop.
#[derive(Clone)]
pub struct Machine {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where reading and computing run.
    pub pool: Arc<dyn Pool>,
    /// The way to other processes.
    pub network: Arc<dyn Network>,
    /// Where checkpoints lie.
    pub disk: Arc<dyn Disk>,
    /// Becomes true when the command is asked to stop.
    pub stop: watch::Receiver<bool>,
}

/// What a session is to do beside what its job says.
pub(super) struct Order {
    /// The job's name in the cluster.
    pub name: String,
    /// The steering.
    pub plan: Plan,
    /// Replace a job of this name.
    pub fresh: bool,
    /// The checkpoint to begin from, if the cluster does not have the job.
    pub checkpoint: Option<History>,
    /// Where checkpoints lie.
    pub storage: Storage,
}

/// How a session ended.
pub(super) struct Ended {
    /// The job's history; `None` when the worker was asked to stop.
    pub history: Option<History>,
    /// This worker's counts.
    pub state: State,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// What a finished job has counted, if it counts.
    pub counted: Option<Counted>,
}

/// Registers a job and works on it until it is done.
///
/// # Errors
/// As [`Trainer::run`], and when no coordinator answers.
pub(super) async fn work(machine: &Machine, job: &Job, order: Order) -> Result<Ended, Error> {
    let (control, connect) = reach(machine, &job.config);
    let cluster = job.config.cluster.clone().unwrap_or_default();
    let worker = WorkerId(random()?);
    let metric = order.plan.metric;
    let register = Register {
        job: order.name,
        worker,
        schema: job.schema.clone(),
        recipe: job.recipe.clone(),
        plan: order.plan,
        fresh: order.fresh,
        checkpoint: order.checkpoint,
        config: job.config.to_toml(),
    };
    let live = Arc::new(Live::new(job.step.tally()));
    let settings = ClientSettings {
        coordinator: job
            .config
            .cluster
            .as_ref()
            .map_or("in this process".into(), |c| c.coordinator.clone()),
        connect_timeout: cluster.connect_timeout.duration(),
        request_timeout: cluster.request_timeout.duration(),
        patience: cluster.patience.duration(),
        waiting: live.waiting.clone(),
    };
    let began = machine.clock.now();
    let view = View::start(Arc::clone(&live), metric, Arc::clone(&machine.clock));
    let clock = Arc::clone(&machine.clock);
    let mut stop = machine.stop.clone();
    let registered = tokio::select! {
        client = Client::register(control, connect, clock, register, settings) => Some(client?),
        Ok(_) = stop.wait_for(|stop| *stop) => None,
    };
    let Some(client) = registered else {
        let state = live.lock().clone();
        return Ok(Ended {
            history: None,
            state,
            seconds: 0.0,
            counted: None,
        });
    };
    let trainer = Trainer {
        client: Arc::new(client),
        step: job.step.clone(),
        plan: Arc::clone(&job.plan),
        inputs: job.inputs.clone(),
        pace: job.pace(),
        storage: order.storage,
        live: Arc::clone(&live),
        clock: Arc::clone(&machine.clock),
        pool: Arc::clone(&machine.pool),
        stop: machine.stop.clone(),
    };
    let history = trainer.run().await;
    let seconds = machine.clock.now().saturating_sub(began).as_secs_f64();
    let counted = match &history {
        Ok(Some(history)) if job.counts() => tokio::select! {
            counted = count(job, history, &trainer) => Some(counted),
            Ok(_) = stop.wait_for(|stop| *stop) => None,
        },
        _ => None,
    };
    drop(view);
    let state = live.lock().clone();
    // One that was stopped before it could add up has no total to tell: it is no finished run.
    let history = history?.filter(|_| counted.is_some() || !job.counts());
    Ok(Ended {
        history,
        state,
        seconds,
        counted: counted.transpose()?,
    })
}

/// Adds up what a finished job has counted, as its servers hold it; if one of them has lost its rows
/// since, as this worker's checkpoint does.
async fn count(job: &Job, history: &History, trainer: &Trainer) -> Result<Counted, Error> {
    trainer.live.doing("adding up the counts");
    let end = job.sources_end(history.epochs);
    match Counted::of_servers(&trainer.client, &*trainer.pool, end).await {
        Err(Error::Lost { shard }) => {
            let kept = kept(job, history.epochs, trainer).await?;
            kept.ok_or(Error::Lost { shard })
        }
        counted => counted,
    }
}

/// Adds up the checkpoint of so many epochs of the job, if this worker has it. The same input counted
/// as often gives the same counts, whoever saved them.
async fn kept(job: &Job, epochs: u32, trainer: &Trainer) -> Result<Option<Counted>, Error> {
    let Storage { disk, folder, .. } = &trainer.storage;
    let (disk, place) = (Arc::clone(disk), folder.join(folder_name(epochs)));
    let (schema, recipe) = (job.schema.clone(), job.recipe.clone());
    let read = move || {
        let Ok(checkpoint) = Checkpoint::open_folder(&disk, &place) else {
            return Ok(None);
        };
        let manifest = checkpoint.manifest();
        if manifest.schema != schema || manifest.recipe != recipe {
            return Ok(None);
        }
        Counted::of_checkpoint(&checkpoint).map(Some)
    };
    let what = "adding up the counts";
    offload(&*trainer.pool, read)
        .await
        .ok_or(Error::Panicked { what })?
}

/// Servers in this process, or those of the config's cluster.
fn reach(machine: &Machine, config: &TrainConfig) -> (Arc<dyn Control>, Arc<dyn Connect>) {
    match &config.cluster {
        None => {
            let embedded = Embedded::new(Arc::clone(&machine.clock), Arc::clone(&machine.pool));
            let control: Arc<dyn Control> = Arc::clone(&embedded) as Arc<dyn Control>;
            (control, Arc::new(Direct(embedded)))
        }
        Some(cluster) => {
            let options = Options {
                deadline: cluster.request_timeout.duration(),
                connect_timeout: cluster.connect_timeout.duration(),
                ..Options::default()
            };
            let clock = Arc::clone(&machine.clock);
            let connector = Connector::new(Arc::clone(&machine.network), clock, options);
            (connector.control(&cluster.coordinator), Arc::new(connector))
        }
    }
}

pub(super) fn random() -> Result<u64, Error> {
    getrandom::u64().map_err(|source| Error::Random { source })
}
