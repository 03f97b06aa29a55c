//! A server from its config to its end: `main` builds, this runs.

use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::Stream;
use tokio::net::TcpListener;
use tracing::{info, warn};
use windlass_client::grpc::{Connector, Options};
use windlass_client::runtime::{Io, Network, TokioClock, TokioNetwork, TokioPool};
use windlass_client::transport::Membership;
use windlass_common::config::{Durability, ServerConfig};
use windlass_common::id::Boot;
use windlass_common::runtime::{
    Clock, Disk, Objects, Pool, StdDisk, StdWallClock, WallClock, offload,
};
use windlass_proto::Limits;

use crate::backing::{Backing, OwnDisk};
use crate::coordinator::{
    Catalog, Coordinator, CoordinatorHandle, Durable, Saving, Settings, StateFile,
};
use crate::error::Error;
use crate::log::Log;
use crate::membership::Member;
use crate::objects::open_store;
use crate::saver::Saver;
use crate::service::{Faces, accept, router};
use crate::store::Store;

/// The machine as a server sees it (see `windlass_common::runtime`).
#[derive(Clone)]
pub struct Runtime {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where long work goes.
    pub pool: Arc<dyn Pool>,
    /// The way to other processes.
    pub network: Arc<dyn Network>,
    /// The own disk.
    pub disk: Arc<dyn Disk>,
    /// The calendar.
    pub wall: Arc<dyn WallClock>,
    /// How a store of checkpoints is opened: its place in the config, and the life that writes.
    pub objects: OpenStore,
    /// Where random names come from.
    pub random: Random,
}

impl Runtime {
    /// The machine that this process runs on. Needs tokio's runtime.
    #[must_use]
    pub fn of_machine() -> Self {
        Self {
            clock: Arc::new(TokioClock::new()),
            pool: Arc::new(TokioPool),
            network: Arc::new(TokioNetwork),
            disk: Arc::new(StdDisk),
            wall: Arc::new(StdWallClock),
            objects: Arc::new(|place, life| open_store(Arc::new(StdDisk), place, life)),
            random: Arc::new(machine_random),
        }
    }
}

/// See [`Runtime::objects`].
pub type OpenStore = Arc<dyn Fn(&str, Boot) -> Result<Arc<dyn Objects>, Error> + Send + Sync>;

/// Draws numbers that no other life of any server draws. A simulation has them from its seed.
pub type Random = Arc<dyn Fn() -> Result<u64, Error> + Send + Sync>;

/// Serves until `shutdown` ends.
///
/// # Errors
/// No coordinator within `connect_timeout`, one that refuses this server, a listener that fails, or
/// a data folder or store that cannot be used.
pub async fn serve(
    config: &ServerConfig,
    runtime: Runtime,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let address = listener.local_addr().map_err(|source| Error::Listen {
        address: config.listen.clone(),
        source,
    })?;
    if !address.ip().is_loopback() {
        // The config has said `insecure = true`, or it would have been refused.
        warn!(%address, "INSECURE: listening beyond loopback without TLS or tokens");
    }
    serve_on(config, runtime, address, accept(listener), shutdown).await
}

/// Serves connections of any network, as [`serve`] does. `address` is where they come in.
///
/// # Errors
/// As [`serve`].
pub async fn serve_on<C: Io + 'static>(
    config: &ServerConfig,
    runtime: Runtime,
    address: SocketAddr,
    incoming: impl Stream<Item = io::Result<C>>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let advertised = config
        .advertise
        .clone()
        .unwrap_or_else(|| format!("http://{address}"));
    let boot = Boot(random(&runtime)?);
    let backing = backing(config, &runtime, boot).await?;
    let objects = backing.objects.clone();
    let log = backing.disk.as_ref().map(|disk| Arc::clone(&disk.log));
    let store = Arc::new(Store::backed(Arc::clone(&runtime.pool), backing));
    let saver = objects.clone().map(|objects| {
        Arc::new(Saver::new(
            Arc::clone(&store),
            objects,
            Arc::clone(&runtime.clock),
        ))
    });
    let own = if config.coordinator == "self" {
        Some(Arc::new(lead(config, &runtime, objects).await?))
    } else {
        None
    };
    let coordinator: Arc<dyn Membership> = match &own {
        Some(own) => Arc::clone(own) as Arc<dyn Membership>,
        None => {
            let Runtime { clock, network, .. } = runtime.clone();
            Connector::new(network, clock, Options::default()).membership(&config.coordinator)
        }
    };
    let router = router(
        Arc::clone(&store) as _,
        own.clone().map(Faces::of),
        Limits::default(),
        config.max_in_flight as usize,
    );
    let member = Member {
        store,
        saver: saver.clone(),
        coordinator,
        coordinator_address: named(config, &address),
        clock: Arc::clone(&runtime.clock),
        address: advertised.clone(),
        boot,
        connect_timeout: config.connect_timeout.duration(),
    };
    info!(address = %advertised, coordinator = %config.coordinator,
        durability = ?config.durability(), "listening");
    tokio::select! {
        // In this order, so that a simulation repeats.
        biased;
        served = router.serve(incoming, shutdown) => {
            served.map_err(|source| Error::Serve { source })
        }
        refused = member.run() => Err(Error::Left { source: refused }),
        () = write(log.as_deref(), &runtime) => Err(Error::WorkDropped),
        () = save(saver.as_deref()) => Err(Error::WorkDropped),
        () = publish(own.as_deref()) => Err(Error::WorkDropped),
    }
}

/// Writes the log, where there is one. Never ends but with the log's writer.
async fn write(log: Option<&Log>, runtime: &Runtime) {
    match log {
        Some(log) => log.run(&*runtime.pool, &*runtime.clock).await,
        None => pending().await,
    }
}

async fn save(saver: Option<&Saver>) {
    match saver {
        Some(saver) => saver.run().await,
        None => pending().await,
    }
}

async fn publish(own: Option<&CoordinatorHandle>) {
    match own {
        Some(own) => own.publish().await,
        None => pending().await,
    }
}

/// What stands behind the rows, as the config says.
async fn backing(config: &ServerConfig, runtime: &Runtime, boot: Boot) -> Result<Backing, Error> {
    let objects = match config.checkpoint_store() {
        Some(place) => Some((runtime.objects)(&place, boot)?),
        None => None,
    };
    let disk = match &config.data_dir {
        Some(data_dir) if config.durability() == Durability::Log => {
            let (disk, data_dir) = (Arc::clone(&runtime.disk), data_dir.clone());
            let open = move || OwnDisk::open(disk, &data_dir, boot);
            let opened = offload(&*runtime.pool, open).await;
            Some(opened.ok_or(Error::WorkDropped)??)
        }
        _ => None,
    };
    Ok(Backing {
        boot,
        objects,
        disk,
    })
}

/// Takes the coordinator role: goes on from its state if there is one.
async fn lead(
    config: &ServerConfig,
    runtime: &Runtime,
    objects: Option<Arc<dyn Objects>>,
) -> Result<CoordinatorHandle, Error> {
    let settings = Settings {
        lease: config.lease_ttl.duration(),
        saving: objects.is_some().then_some(Saving {
            every: config.checkpoint.every,
            full_every: config.checkpoint.full_every,
        }),
    };
    let (seed, clock) = (random(runtime)?, Arc::clone(&runtime.clock));
    let (Some(objects), Some(data_dir)) = (objects, &config.data_dir) else {
        let coordinator = Coordinator::new(settings, seed);
        return Ok(CoordinatorHandle::new(coordinator, clock));
    };
    let file = StateFile::new(Arc::clone(&runtime.disk), data_dir);
    let state = {
        let file = file.clone();
        let loaded = offload(&*runtime.pool, move || file.load()).await;
        loaded.ok_or(Error::WorkDropped)??
    };
    let coordinator = match state {
        Some(state) => Coordinator::resume(settings, seed, state, clock.now()),
        None => Coordinator::new(settings, seed),
    };
    let keep = config.checkpoint.keep as usize;
    let catalog = Catalog::new(objects, Arc::clone(&runtime.wall), keep);
    let durable = Durable::new(file, catalog, Arc::clone(&runtime.pool));
    let handle = CoordinatorHandle::durable(coordinator, clock, durable).await;
    handle.map_err(|source| Error::Left { source })
}

fn random(runtime: &Runtime) -> Result<u64, Error> {
    (runtime.random)()
}

/// A random number of the machine.
///
/// # Errors
/// [`Error::Random`].
fn machine_random() -> Result<u64, Error> {
    getrandom::u64().map_err(|source| Error::Random { source })
}

fn named(config: &ServerConfig, address: &SocketAddr) -> String {
    if config.coordinator == "self" {
        format!("http://{address}")
    } else {
        config.coordinator.clone()
    }
}
