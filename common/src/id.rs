//! Newtypes for everything that has a number: a bare integer never crosses a border.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
            Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A table's place in its job's schema.
    TableId, u16
}
id! {
    /// A fixed slice of a job's key space, `0..shards`.
    ShardId, u16
}
id! {
    /// A server of the cluster, numbered by the coordinator in order of joining.
    ServerId, u32
}
id! {
    /// A worker process, named by a random number that it draws when it starts.
    WorkerId, u64
}
id! {
    /// A job of the cluster, numbered by the coordinator.
    JobId, u64
}
id! {
    /// How many pushes a shard has applied; it never goes back while the shard is in memory.
    Clock, u64
}
id! {
    /// The number of a source of pushes: base(generation) + epoch x splits + index (rule N1).
    SourceId, u64
}
id! {
    /// A push's place in its source, from 0 without holes.
    Seq, u64
}
id! {
    /// One pass over the input, from 0.
    Epoch, u32
}
id! {
    /// The version of the shard map; it only rises.
    MapEpoch, u64
}
id! {
    /// The life of a job's state: restoring to a checkpoint by choice begins a new one (rule N4).
    Lineage, u64
}
id! {
    /// A lease on a task, drawn at random.
    LeaseId, u64
}
id! {
    /// The life of a server process, drawn at random when it starts.
    Boot, u64
}
id! {
    /// A checkpoint of a job, numbered by the coordinator; later ones are higher.
    CheckpointId, u64
}
id! {
    /// A record's place in the log of one server; it rises by one with each, over restarts too.
    Lsn, u64
}

/// The name of a push: retried under the same name it counts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PushId {
    /// Where the push comes from: one split in one epoch.
    pub source: SourceId,
    /// Its place there.
    pub seq: Seq,
}

impl std::fmt::Display for PushId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.source, self.seq)
    }
}

/// Which assignment of a shard to a server is meant; compared for equality only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Incarnation {
    /// The map's epoch when the shard was assigned.
    pub epoch: MapEpoch,
    /// A number drawn by the coordinator in this life of its process.
    pub nonce: u64,
}
