//! What coordinator and servers say to each other about the checkpoints of a running job.
//!
//! The coordinator orders (rule C6), each server saves the shards that it owns one after the other
//! (rules A6 and S6) and tells which files it wrote; when every shard has one, the coordinator
//! writes the manifest.

use crate::format::ManifestFile;
use crate::id::{CheckpointId, Clock, Lineage, ShardId};
use crate::interval_set::IntervalSet;

/// What a server is to save: all shards that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveOrder {
    /// The checkpoint that the files are for.
    pub checkpoint: CheckpointId,
    /// A published checkpoint that a shard's file may build on; without it files are full.
    pub base: Option<CheckpointId>,
    /// Whether training goes on meanwhile, so that saving is to leave it the machine.
    pub gentle: bool,
}

/// A shard that a server has saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// The shard.
    pub shard: ShardId,
    /// The life of the state.
    pub lineage: Lineage,
    /// Pushes in it.
    pub clock: Clock,
    /// Sources of which every push is in it, as its windows tell.
    pub complete: IntervalSet,
    /// How many more sources are begun in it.
    pub open: u32,
    /// A full file, then those that build on it, oldest first. The last was written for this
    /// checkpoint.
    pub chain: Vec<ManifestFile>,
}
