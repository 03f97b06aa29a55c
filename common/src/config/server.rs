//! `server.toml`: one server.

use serde::{Deserialize, Serialize};

use crate::human::Span;

/// A server of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Where it listens, `HOST:PORT`; port 0 takes a free one and prints it.
    pub listen: String,
    /// Where others reach it, `http://HOST:PORT`. Without it the address it listens at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
    /// `self`: this server has the coordinator role. Else `http://HOST:PORT` of the one that has.
    pub coordinator: String,
    /// Allows to listen beyond loopback without TLS. Said loudly at every start.
    pub insecure: bool,
    /// How long a lease lasts without a heartbeat; a dead worker's split is handed out again after
    /// it.
    pub lease_ttl: Span,
    /// How long to look for the coordinator before giving up.
    pub connect_timeout: Span,
    /// Requests of one stream that may wait for the shards, `1..=1024`; further ones wait in the
    /// connection. 16: with 1 MiB each a stream holds 16 MiB at most.
    pub max_in_flight: u32,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7070".into(),
            advertise: None,
            coordinator: "self".into(),
            insecure: false,
            lease_ttl: Span::from_secs(10),
            connect_timeout: Span::from_secs(10),
            max_in_flight: 16,
        }
    }
}
