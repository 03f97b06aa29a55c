//! Connections: made lazily over the network seam, kept alive, found dead, and made again.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use windlass_common::runtime::Clock;
use windlass_proto::{ErrorKind, Limits, WireError};

use super::{GrpcAdmin, GrpcControl, GrpcMembership, GrpcShards};
use crate::connect::Connect;
use crate::runtime::Network;
use crate::transport::{Admin, Control, Membership, Shards};

/// How connections behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long one request may take, its way there and back included. 30 s: a large pull on a busy
    /// box takes a tenth of it.
    pub deadline: Duration,
    /// How long connecting may take. 5 s.
    pub connect_timeout: Duration,
    /// After so much silence the peer is asked for a sign of life. 5 s. Without it a client would
    /// never learn that a connection did not survive a partition of the network.
    pub keepalive_interval: Duration,
    /// How long the sign of life may take before the connection is given up. 5 s.
    pub keepalive_timeout: Duration,
    /// Requests of one stream that are sent and not answered, at least 1; further ones wait. 256:
    /// 16 open pushes of 8 messages each, and what is pulled beside them. The server takes less at
    /// once if it wants to, and what is not answered costs no memory here.
    pub in_flight: usize,
    /// How long messages may be.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            keepalive_interval: Duration::from_secs(5),
            keepalive_timeout: Duration::from_secs(5),
            in_flight: 256,
            limits: Limits::default(),
        }
    }
}

/// Frames of HTTP/2 carry up to this much. The default of 16 KiB costs a third of the throughput of
/// messages of 1 MiB.
const FRAME: u32 = 1 << 20;

/// What a peer may send on one stream before it is read: a few messages.
const STREAM_WINDOW: u32 = 4 << 20;

/// What a peer may send on all streams of a connection before it is read.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Makes clients of servers, over any network and by any clock.
#[derive(Clone)]
pub struct Connector {
    network: Arc<dyn Network>,
    clock: Arc<dyn Clock>,
    options: Options,
}

impl Connector {
    /// Takes the seam and the options of all connections.
    #[must_use]
    pub fn new(network: Arc<dyn Network>, clock: Arc<dyn Clock>, options: Options) -> Self {
        Self {
            network,
            clock,
            options,
        }
    }

    /// Gives the shards of the server at `http://HOST:PORT`. It connects when it is first asked.
    #[must_use]
    pub fn shards(&self, address: &str) -> Arc<dyn Shards> {
        Arc::new(GrpcShards::new(self.peer(address)))
    }

    /// Gives the coordinator at `http://HOST:PORT`, as a worker sees it.
    #[must_use]
    pub fn control(&self, address: &str) -> Arc<dyn Control> {
        Arc::new(GrpcControl::new(self.peer(address)))
    }

    /// Gives the coordinator at `http://HOST:PORT`, as a server sees it.
    #[must_use]
    pub fn membership(&self, address: &str) -> Arc<dyn Membership> {
        Arc::new(GrpcMembership::new(self.peer(address)))
    }

    /// Gives the coordinator at `http://HOST:PORT`, as people see it.
    #[must_use]
    pub fn admin(&self, address: &str) -> Arc<dyn Admin> {
        Arc::new(GrpcAdmin::new(self.peer(address)))
    }

    fn peer(&self, address: &str) -> Peer {
        Peer {
            channel: self.channel(address),
            clock: Arc::clone(&self.clock),
            options: self.options,
        }
    }

    fn channel(&self, address: &str) -> Result<Channel, WireError> {
        let wrong = || {
            WireError::new(
                ErrorKind::Invalid,
                "no address of the form http://HOST:PORT",
            )
        };
        let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|_| wrong())?;
        let uri = endpoint.uri();
        if uri.scheme_str() != Some("http") || uri.host().is_none() || uri.port().is_none() {
            return Err(wrong());
        }
        let network = Arc::clone(&self.network);
        let connector = service_fn(move |uri: Uri| {
            let network = Arc::clone(&network);
            async move {
                let host_and_port = uri.authority().map_or("", |a| a.as_str());
                let io = network.connect(host_and_port).await?;
                Ok::<_, io::Error>(TokioIo::new(io))
            }
        });
        let options = &self.options;
        Ok(endpoint
            .connect_timeout(options.connect_timeout)
            .http2_keep_alive_interval(options.keepalive_interval)
            .keep_alive_timeout(options.keepalive_timeout)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME)
            .connect_with_connector_lazy(connector))
    }
}

/// One server, as all clients of it need it.
///
/// Its errors do not name it: whoever asks knows whom, and says so once.
pub(super) struct Peer {
    pub(super) options: Options,
    channel: Result<Channel, WireError>,
    clock: Arc<dyn Clock>,
}

impl Peer {
    /// The channel; an address that is none is an error each time.
    pub(super) fn channel(&self) -> Result<Channel, WireError> {
        self.channel.clone()
    }

    /// Waits for an answer, at most for the deadline of a request, and says what was asked.
    pub(super) async fn within<T>(
        &self,
        asked: &str,
        answer: impl Future<Output = Result<T, WireError>>,
    ) -> Result<T, WireError> {
        self.within_and(Duration::ZERO, asked, answer).await
    }

    /// Waits for an answer, at most for the deadline and so much longer.
    pub(super) async fn within_and<T>(
        &self,
        longer: Duration,
        asked: &str,
        answer: impl Future<Output = Result<T, WireError>>,
    ) -> Result<T, WireError> {
        let deadline = self.options.deadline + longer;
        match select(pin!(answer), self.clock.sleep(deadline)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(((), _)) => Err(WireError::new(
                ErrorKind::Deadline,
                format!("no answer to {asked} in {deadline:?}"),
            )),
        }
    }
}

impl Connect for Connector {
    fn shards(&self, address: &str) -> Arc<dyn Shards> {
        Connector::shards(self, address)
    }
}
