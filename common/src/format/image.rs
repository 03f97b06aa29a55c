//! A shard at one moment: what a file of a checkpoint, a snapshot on the move, and a restore carry.

use crate::id::{Clock, Lineage, ShardId};
use crate::key::Key;
use crate::windows::Windows;

/// A copy of a shard: rows and windows of the same moment (rule A6).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardImage {
    /// The shard.
    pub shard: ShardId,
    /// The life of the state.
    pub lineage: Lineage,
    /// Pushes applied.
    pub clock: Clock,
    /// Which pushes those are.
    pub windows: Windows,
    /// The tables, in the schema's order.
    pub tables: Vec<TableImage>,
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
}
