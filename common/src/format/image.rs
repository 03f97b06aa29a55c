//! A shard at one moment: what a file of a checkpoint, a snapshot on the move, and a restore carry.

use crate::id::{Boot, CheckpointId, Clock, Lineage, Lsn, ShardId};
use crate::key::Key;
use crate::windows::Windows;

/// A copy of a shard: rows and windows of the same moment (rule A6).
///
/// A full one has all rows. A delta has the rows that differ from an earlier copy, which it names;
/// its windows, clock and mark are those of the whole shard at its own moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardImage {
    /// The shard.
    pub shard: ShardId,
    /// The life of the state.
    pub lineage: Lineage,
    /// Where in its owner's life it was taken.
    pub mark: Mark,
    /// What a delta builds on; a full image builds on nothing.
    pub base: Option<Base>,
    /// Pushes applied.
    pub clock: Clock,
    /// Which pushes those are.
    pub windows: Windows,
    /// The tables, in the schema's order.
    pub tables: Vec<TableImage>,
}

/// A moment of a server's life (rule S6): the log up to it is in the copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The server's life; 0 in a copy that a worker asked for.
    pub boot: Boot,
    /// The log's place at the copy; 0 without a log.
    pub lsn: Lsn,
}

/// The copy that a delta builds on. A checkpoint that was saved twice has two copies of a shard, so
/// its number alone does not tell which; life, place and clock do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// The checkpoint that it is a file of, from 1.
    pub checkpoint: CheckpointId,
    /// Its mark.
    pub mark: Mark,
    /// Its clock.
    pub clock: Clock,
}

/// One table's rows in a shard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableImage {
    /// Weights a row.
    pub dim: usize,
    /// Floats of optimizer state a row.
    pub slots: usize,
    /// The rows' keys, distinct: `[rows]`.
    pub keys: Vec<Key>,
    /// Weights, then slots, of each row: `[rows, dim + slots]`.
    pub rows: Vec<f32>,
    /// Keys that are in a delta's base and not in the shard any more, distinct and none of `keys`;
    /// empty in a full image.
    pub deleted: Vec<Key>,
}
