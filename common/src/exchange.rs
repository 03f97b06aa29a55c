//! What is asked of the shards: the data plane's requests and answers, free of any transport.

use std::sync::Arc;

use crate::id::{Clock, JobId, Lineage, PushId, Seq, ShardId, SourceId, TableId};
use crate::shard::ShardedKeys;

/// Asks for the weights of keys.
///
/// Tables that need the same keys share one set, so that keys travel once.
#[derive(Clone, Debug, PartialEq)]
pub struct Pull {
    /// Whose rows.
    pub job: JobId,
    /// The sets of keys; their shards together are those that the answer gives clocks of.
    pub sets: Vec<Arc<ShardedKeys>>,
    /// For each wanted table, which of `sets` it needs.
    pub tables: Vec<(TableId, usize)>,
    /// Answer only if each shard holds exactly the sources below this one, all complete (rule C12).
    pub exactly_below: Option<SourceId>,
}

/// The weights that a [`Pull`] asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Pulled {
    /// For each shard that was asked, ascending: the pushes it had applied when it was read.
    pub clocks: Vec<(ShardId, Clock)>,
    /// For each entry of `tables`: the rows in the order of its keys. Shape: `[keys, dim]`.
    pub tables: Vec<Vec<f32>>,
}

/// The gradients of one batch, or the END of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct Push {
    /// Whose rows.
    pub job: JobId,
    /// The life of the job's state that the sender knows (rule N4).
    pub lineage: Lineage,
    /// The batch's name.
    pub id: PushId,
    /// Whether this ends the source; then there are no rows (rule N3).
    pub end: bool,
    /// The shards that it is for, ascending, those without keys too (rule S1).
    pub cover: Vec<ShardId>,
    /// The sets of keys; each set's shards are among `cover`.
    pub sets: Vec<Arc<ShardedKeys>>,
    /// Gradients, at most one entry a table.
    pub tables: Vec<TableGradients>,
}

/// One table's part of a push. Keys are distinct: the worker has summed duplicates.
#[derive(Clone, Debug, PartialEq)]
pub struct TableGradients {
    /// The table.
    pub table: TableId,
    /// Which of the push's `sets` the rows belong to.
    pub set: usize,
    /// The gradients in the order of the set's keys. Shape: `[keys, dim]`.
    pub gradients: Vec<f32>,
}

/// What the shards said to a [`Push`], one answer for each covered shard, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// The answers.
    pub answers: Vec<(ShardId, Answer)>,
}

/// One shard's answer to a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Applied now.
    Applied {
        /// The shard's clock before it: less the clock at the pull, that is the staleness.
        before: Clock,
    },
    /// Applied earlier, under the same name.
    Duplicate,
    /// Refused: pushes below it are missing (rule A2).
    Gap {
        /// The push to continue from.
        next: Seq,
    },
    /// Not this server's shard (any more).
    Moved,
}

impl Answer {
    /// Whether the shard had applied the push before.
    #[must_use]
    pub fn is_duplicate(self) -> bool {
        self == Self::Duplicate
    }
}
