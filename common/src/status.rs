//! How a cluster is: what the coordinator knows, for the eyes of people.

use std::time::Duration;

use crate::coordination::{Health, Progress};
use crate::id::{CheckpointId, JobId, Lineage, MapEpoch, ServerId};

/// A cluster at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterStatus {
    /// The map's version.
    pub epoch: MapEpoch,
    /// In order of joining.
    pub servers: Vec<ServerStatus>,
    /// In order of beginning.
    pub jobs: Vec<JobStatus>,
}

/// One server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerStatus {
    /// Its number.
    pub server: ServerId,
    /// Where it is reached.
    pub address: String,
    /// How long it has been silent, if that is too long.
    pub silent: Option<Duration>,
    /// What it told of itself last.
    pub health: Health,
}

/// One job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStatus {
    /// Its number.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Where it is on its way, in words.
    pub phase: String,
    /// The life of its state.
    pub lineage: Lineage,
    /// How many shards each server owns.
    pub owners: Vec<(ServerId, u32)>,
    /// Shards of which no owner has told what it holds.
    pub unreported: u32,
    /// Splits that workers hold.
    pub leased: u32,
    /// How far it is.
    pub progress: Progress,
    /// Sources that are closed: their input need not be read again (rule C7).
    pub closed: u64,
    /// Its newest checkpoint in the store, and how old that is.
    pub saved: Option<(CheckpointId, Duration)>,
    /// The checkpoint under way, and how many of its shards are saved.
    pub saving: Option<(CheckpointId, u32)>,
}
