//! A simulated server: the real one, from its config to its end.

use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use turmoil::net::TcpListener;
use windlass_client::runtime::TokioClock;
use windlass_common::runtime::Objects;
use windlass_server::Error;
use windlass_server::serve::{Runtime, serve_on};

use super::blobs::Blobs;
use super::machine::{
    FixedWall, PORT, SimulatedDisk, SimulatedNetwork, SlowPool, incoming, keep_or_put_back, wipe,
};
use super::plan::{DATA, Plan};
use super::world::World;

/// How long a piece of a server's work takes at most, mostly: longer than a turn of its host, or no
/// crash would come between a push and the sync of the log.
const LONGEST: Duration = Duration::from_millis(30);

/// Runs one life of a server's process. When it ends by itself, somebody has to start it again.
pub(super) async fn serve(
    world: Arc<World>,
    host: String,
    plan: Arc<Plan>,
    blobs: Blobs,
) -> turmoil::Result {
    let (life, wiped) = world.begin(&host);
    if wiped {
        wipe(Path::new(DATA))?;
    }
    let old = world.take_old(&host);
    if old || life % 3 == 0 {
        keep_or_put_back(&Path::new(DATA).join("coordinator.state"), old)?;
    }
    world.note(
        &host,
        format_args!("life {life}, empty disk: {wiped}, old state: {old}"),
    );
    let config = plan.config_of(&host)?;
    let names = Arc::clone(&world);
    let runtime = Runtime {
        clock: Arc::new(TokioClock::new()),
        pool: Arc::new(SlowPool {
            world: Arc::clone(&world),
            longest: LONGEST,
        }),
        network: Arc::new(SimulatedNetwork),
        disk: Arc::new(SimulatedDisk {
            world: Arc::clone(&world),
            host: host.clone(),
        }),
        wall: Arc::new(FixedWall),
        objects: Arc::new(move |_, _| Ok::<_, Error>(Arc::new(blobs.clone()) as Arc<dyn Objects>)),
        random: Arc::new(move || Ok(names.name())),
    };
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    let address = listener.local_addr()?;
    let served = serve_on(&config, runtime, address, incoming(listener), pending()).await;
    match served {
        Ok(()) => world.violated(&host, "a server ended that was not told to"),
        Err(error) => world.note(&host, format_args!("ended: {error}")),
    }
    world.end(&host);
    pending().await
}
