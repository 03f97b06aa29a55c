//! `server.toml`: one server.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::human::{Every, Span};

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
    /// The folder for what must survive this process: the log, and on the server that has the
    /// coordinator role the state of the jobs. One server a folder, and it stays that server's.
    /// Without it rows live in memory only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<PathBuf>,
    /// What survives a crash of a server. Without it `log` where there is a `data_dir`, else `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// The checkpoints of running jobs.
    pub checkpoint: CheckpointConfig,
    /// Allows to listen beyond loopback without TLS. Said loudly at every start.
    pub insecure: bool,
    /// How long a lease lasts without a heartbeat; a dead worker's split is handed out again after
    /// it.
    pub lease_ttl: Span,
    /// How long to look for the coordinator before giving up.
    pub connect_timeout: Span,
    /// Requests of one stream that may wait for the shards, `1..=1024`; further ones wait in the
    /// connection. Eight times as many acknowledgements, which are small, may wait for a disk.
    /// 16: with 1 MiB each a stream holds 16 MiB at most.
    pub max_in_flight: u32,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7070".into(),
            advertise: None,
            coordinator: "self".into(),
            data_dir: None,
            durability: None,
            checkpoint: CheckpointConfig::default(),
            insecure: false,
            lease_ttl: Span::from_secs(10),
            connect_timeout: Span::from_secs(10),
            max_in_flight: 16,
        }
    }
}

/// What survives a crash of a server. Every batch counts once in each mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Nothing: its shards are learnt again from the job's start.
    #[default]
    None,
    /// The newest checkpoint: what came after it is learnt again.
    Checkpoint,
    /// Every acknowledged push: nothing acknowledged is learnt again.
    Log,
}

/// `[checkpoint]` of `server.toml`. The coordinator's schedule holds for the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointConfig {
    /// How often a running job is saved: a time such as `"10m"`, or what was learnt since, such as
    /// `"5000000 examples"`.
    pub every: Every,
    /// How many checkpoints of a job are kept, 2 or more. Two are needed: if the newest is damaged,
    /// the one before it is the way back.
    pub keep: u32,
    /// Where they lie: a folder, or `s3://BUCKET/PREFIX`. All servers must reach the same. Without
    /// it the folder `checkpoints` beside `data_dir`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Every so many checkpoints of a shard one is full; those between hold only the rows that
    /// changed since the one before. 1: all are full.
    pub full_every: u32,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self {
            every: Every::Time(Span::from_secs(600)),
            keep: 3,
            store: None,
            full_every: 8,
        }
    }
}

impl ServerConfig {
    /// The durability in effect.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability.unwrap_or(match self.data_dir {
            Some(_) => Durability::Log,
            None => Durability::None,
        })
    }

    /// Where checkpoints lie; `None` if none are written.
    #[must_use]
    pub fn checkpoint_store(&self) -> Option<String> {
        if self.durability() == Durability::None {
            return None;
        }
        self.checkpoint.store.clone().or_else(|| {
            let beside = self.data_dir.as_ref()?.parent()?.join("checkpoints");
            Some(beside.to_str()?.to_owned())
        })
    }
}
