//! What can go wrong between a worker and its cluster.

use std::time::Duration;

use windlass_common::id::{PushId, Seq, ShardId, TableId};
use windlass_proto::{ErrorKind, WireError};

/// Errors of the client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster did not answer for as long as the caller was ready to wait.
    #[error("gave up on {what} after waiting {waited:.1?} for {place}: {source}")]
    GaveUp {
        /// What was asked.
        what: String,
        /// Where it was asked last: a server or the coordinator, with its address.
        place: String,
        /// How long it was tried.
        waited: Duration,
        /// What was said, or noticed, the last time.
        source: WireError,
    },
    /// Nobody answered where the coordinator should be.
    #[error(
        "no {place} within {waited:.1?} (cluster.connect_timeout): {source}; start the server, or \
         mend cluster.coordinator"
    )]
    NoCoordinator {
        /// The coordinator, with its address.
        place: String,
        /// How long it was looked for.
        waited: Duration,
        /// What was noticed the last time.
        source: WireError,
    },
    /// The cluster said no, and would say so again.
    #[error("{what} failed at {place}: {source}")]
    Refused {
        /// What was asked.
        what: String,
        /// Who refused: a server or the coordinator, with its address.
        place: String,
        /// Why.
        source: WireError,
    },
    /// A shard lacks earlier pushes of the same source: the lease is to be given back (rule W3).
    #[error("push {id}: shard {shard} lacks pushes from {next} on; the split is to be leased anew")]
    Gap {
        /// The push that was refused.
        id: PushId,
        /// The shard that lacks most.
        shard: ShardId,
        /// The first push that it lacks.
        next: Seq,
    },
    /// A table that the registered schema has not.
    #[error("table {table} is not one of the job's {tables}")]
    UnknownTable {
        /// The table.
        table: TableId,
        /// How many there are.
        tables: usize,
    },
    /// A table refers to a set of keys that the request has not.
    #[error("table {table} wants key set {set} of {sets}")]
    UnknownSet {
        /// The table.
        table: TableId,
        /// The set's place.
        set: usize,
        /// How many there are.
        sets: usize,
    },
    /// Keys that were grouped for another count of shards.
    #[error("shard {shard} is not one of the job's {shards}; group the keys by the job's count")]
    UnknownShard {
        /// The shard.
        shard: ShardId,
        /// How many there are.
        shards: usize,
    },
    /// Gradients that do not fit their keys.
    #[error("table {table}: {got} floats of gradients, keys x dim says {want}")]
    Gradients {
        /// The table.
        table: TableId,
        /// How many came.
        got: usize,
        /// How many the keys and the schema ask for.
        want: usize,
    },
}

impl Error {
    /// Tells of a coordinator that was never there, not of a wait that ended.
    pub(crate) fn while_joining(self) -> Self {
        match self {
            Self::GaveUp {
                place,
                waited,
                source,
                ..
            } => Self::NoCoordinator {
                place,
                waited,
                source,
            },
            other => other,
        }
    }

    /// Tells what kind of refusal lies under it, if one does.
    #[must_use]
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::GaveUp { source, .. }
            | Self::NoCoordinator { source, .. }
            | Self::Refused { source, .. } => Some(source.kind),
            _ => None,
        }
    }
}
