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
    /// When each row was pushed to last, in ticks of the shard's clock: `[rows]`, or nothing where
    /// rows stay for good.
    pub used: Vec<u32>,
    /// Keys that are in a delta's base and not in the shard any more, distinct and none of `keys`;
    /// empty in a full image.
    pub deleted: Vec<Key>,
    /// Counters of keys that have no row yet; nothing where every key has one.
    pub sketch: Vec<u8>,
    /// What came to pass until now, a delta's base included.
    pub turnover: Turnover,
}

impl TableImage {
    /// The places of the rows, in the order of their keys.
    pub(super) fn by_key(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        order.sort_unstable_by_key(|&row| self.keys[row]);
        order
    }
}

/// How the keys of one table in a shard came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turnover {
    /// Sightings that the sketch has taken in since it last halved its counts.
    pub sighted: u64,
    /// Gradients that were dropped, since their keys had not been seen often enough.
    pub refused: u64,
    /// Rows that went.
    pub evicted: u64,
}
