//! A server from its config to its end: `main` builds, this runs.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tracing::{info, warn};
use windlass_client::grpc::{Connector, Options};
use windlass_client::runtime::Network;
use windlass_client::transport::{Control, Membership};
use windlass_common::config::ServerConfig;
use windlass_common::id::Boot;
use windlass_common::runtime::{Clock, Pool};
use windlass_proto::Limits;

use crate::coordinator::{Coordinator, CoordinatorHandle, Settings};
use crate::error::Error;
use crate::membership::Member;
use crate::service::{accept, router};
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
}

/// Serves until `shutdown` ends.
///
/// # Errors
/// No coordinator within `connect_timeout`, one that refuses this server, or a listener that fails.
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
    let advertised = config
        .advertise
        .clone()
        .unwrap_or_else(|| format!("http://{address}"));
    let seed = random()?;
    let store = Arc::new(Store::new(Arc::clone(&runtime.pool)));
    let own = (config.coordinator == "self").then(|| {
        let coordinator = Coordinator::new(
            Settings {
                lease: config.lease_ttl.duration(),
            },
            seed,
        );
        Arc::new(CoordinatorHandle::new(
            coordinator,
            Arc::clone(&runtime.clock),
        ))
    });
    let coordinator: Arc<dyn Membership> = match &own {
        Some(own) => Arc::clone(own) as Arc<dyn Membership>,
        None => {
            let Runtime { clock, network, .. } = runtime.clone();
            Connector::new(network, clock, Options::default()).membership(&config.coordinator)
        }
    };
    let roles = own.map(|own| {
        let membership: Arc<dyn Membership> = Arc::clone(&own) as _;
        (own as Arc<dyn Control>, membership)
    });
    let router = router(
        Arc::clone(&store) as _,
        roles,
        Limits::default(),
        config.max_in_flight as usize,
    );
    let member = Member {
        store,
        coordinator,
        coordinator_address: named(config, &address),
        clock: Arc::clone(&runtime.clock),
        address: advertised.clone(),
        boot: Boot(random()?),
        connect_timeout: config.connect_timeout.duration(),
    };
    info!(address = %advertised, coordinator = %config.coordinator, "listening");
    tokio::select! {
        served = router.serve(accept(listener), shutdown) => {
            served.map_err(|source| Error::Serve { source })
        }
        refused = member.run() => Err(Error::Left { source: refused }),
    }
}

fn random() -> Result<u64, Error> {
    getrandom::u64().map_err(|source| Error::Random { source })
}

fn named(config: &ServerConfig, address: &SocketAddr) -> String {
    if config.coordinator == "self" {
        format!("http://{address}")
    } else {
        config.coordinator.clone()
    }
}
