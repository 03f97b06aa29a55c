//! The server's side of the wire: gRPC services over the traits of
//! [`transport`](windlass_client::transport).
//!
//! Reading order: this file (what is served, and until when), `data`, `control`, `admin`, `peer`.

mod admin;
mod control;
mod data;
mod peer;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt, stream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tonic::transport::Server;
use tracing::warn;
use windlass_client::runtime::Io;
use windlass_client::transport::{Admin, Control, Membership};
use windlass_proto::Limits;
use windlass_proto::v1::admin_server::AdminServer;
use windlass_proto::v1::control_server::ControlServer;
use windlass_proto::v1::data_server::DataServer;
use windlass_proto::v1::membership_server::MembershipServer;

use admin::AdminService;
use control::{ControlService, MembershipService};
use data::DataService;
use peer::Peer;

use crate::durable::Durable;

/// Frames of HTTP/2 carry up to this much. The default of 16 KiB costs a third of the throughput of
/// messages of 1 MiB.
const FRAME: u32 = 1 << 20;

/// What a client may send on one stream before it is read: a few messages.
const STREAM_WINDOW: u32 = 4 << 20;

/// What a client may send on all streams of a connection before it is read.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// After so much silence a client is asked for a sign of life, and how long that may take.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(10));

/// How long to wait when a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How many answers of a stream may wait for the log, for each request that may wait for the shards.
/// 8: with 16 requests, the answers to 16 open pushes that are cut in 8 messages each.
pub const ANSWERS: usize = 8;

/// The coordinator's faces, on the server that has the role.
#[derive(Clone)]
pub struct Faces {
    /// As workers see it.
    pub control: Arc<dyn Control>,
    /// As servers see it.
    pub membership: Arc<dyn Membership>,
    /// As people see it.
    pub admin: Arc<dyn Admin>,
}

impl Faces {
    /// Takes the faces of one coordinator.
    #[must_use]
    pub fn of<T: Control + Membership + Admin + 'static>(coordinator: Arc<T>) -> Self {
        Self {
            control: Arc::clone(&coordinator) as _,
            membership: Arc::clone(&coordinator) as _,
            admin: coordinator,
        }
    }
}

/// What a server answers to the network.
pub struct Router {
    shards: Arc<dyn Durable>,
    coordinator: Option<Faces>,
    limits: Limits,
    max_in_flight: usize,
}

/// Puts together what a server answers to the network.
///
/// Of each stream at most `max_in_flight` requests (at least 1) are decoded and wait for the shards,
/// and [`ANSWERS`] times as many answers to pushes, which have no rows, wait for the log; further
/// requests wait in the connection, and so does a client that does not read its answers.
#[must_use]
pub fn router(
    shards: Arc<dyn Durable>,
    coordinator: Option<Faces>,
    limits: Limits,
    max_in_flight: usize,
) -> Router {
    Router {
        shards,
        coordinator,
        limits,
        max_in_flight: max_in_flight.max(1),
    }
}

/// Accepts TCP connections for [`Router::serve`].
///
/// They send at once (`TCP_NODELAY`): otherwise an answer in several pieces waits 40 ms for the
/// acknowledgement of the piece before. When accepting fails (the process has too many open files,
/// say) it is tried again after a pause, for the connections that there are must go on.
pub fn accept(listener: TcpListener) -> impl Stream<Item = io::Result<TcpStream>> {
    stream::unfold(listener, async |listener| {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // It fails for a connection that is gone already, which reading will tell.
                    let _ = stream.set_nodelay(true);
                    return Some((Ok(stream), listener));
                }
                Err(error) => {
                    warn!(%error, "connection not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    })
}

impl Router {
    /// Serves connections until `shutdown` ends; then streams finish the requests that they have
    /// taken, and their clients are told that the server stops.
    ///
    /// # Errors
    /// What ended the listener.
    pub async fn serve<C: Io + 'static>(
        self,
        incoming: impl Stream<Item = io::Result<C>>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), tonic::transport::Error> {
        let (stop, stopping) = watch::channel(false);
        let limit = self.limits.message;
        let data = DataService {
            shards: self.shards,
            limits: self.limits,
            max_in_flight: self.max_in_flight,
            stopping,
        };
        let faces = self.coordinator;
        let admin = faces.clone().map(|f| AdminService { admin: f.admin });
        let membership = faces.clone().map(|f| MembershipService {
            membership: f.membership,
        });
        let control = faces.map(|f| ControlService { control: f.control });
        let (interval, timeout) = KEEPALIVE;
        Server::builder()
            .http2_keepalive_interval(Some(interval))
            .http2_keepalive_timeout(Some(timeout))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME)
            .add_service(DataServer::new(data).max_decoding_message_size(limit))
            .add_optional_service(
                control.map(|c| ControlServer::new(c).max_decoding_message_size(limit)),
            )
            .add_optional_service(
                membership.map(|m| MembershipServer::new(m).max_decoding_message_size(limit)),
            )
            .add_optional_service(
                admin.map(|a| AdminServer::new(a).max_decoding_message_size(limit)),
            )
            .serve_with_incoming_shutdown(incoming.map_ok(Peer), async {
                shutdown.await;
                // Streams live as long as their clients; without a word they would hold the server.
                stop.send_replace(true);
            })
            .await
    }
}
