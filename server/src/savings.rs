//! What was saved of a shard last, so that the next file may hold only what changed since.

use windlass_common::format::{Base, ManifestFile, Mark, ShardImage};
use windlass_common::id::{Boot, CheckpointId, Clock};
use windlass_common::saving::SaveOrder;

use crate::shard::Shard;
use crate::table::{Since, Table};

/// The last two copies of a shard that were taken for checkpoints. Copies, not published ones: a
/// checkpoint may be given up, and then the next one builds on the one before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Savings {
    last: Option<Copied>,
    before_last: Option<Copied>,
}

/// A copy that was taken, and once it is in the store the files that it needs.
#[derive(Clone, Debug)]
struct Copied {
    checkpoint: CheckpointId,
    mark: Mark,
    clock: Clock,
    chain: Vec<ManifestFile>,
}

impl Copied {
    fn base(&self) -> Base {
        Base {
            checkpoint: self.checkpoint,
            mark: self.mark,
            clock: self.clock,
        }
    }
}

/// A copy for a checkpoint, and the files that it builds on, oldest first.
pub(crate) struct Copy {
    pub(crate) image: ShardImage,
    pub(crate) below: Vec<ManifestFile>,
}

impl Shard {
    /// Copies the shard for a checkpoint, at one moment (rules A6 and S6): what changed since the
    /// base that is ordered, or all of it if that base is not known here, or most rows changed.
    pub(crate) fn copy(&mut self, order: SaveOrder, boot: Boot) -> Copy {
        let since = self.since(order.base);
        let base = match since {
            None => None,
            Some(Since::Last) => self.savings.last.clone(),
            Some(Since::BeforeLast) => self.savings.before_last.clone(),
        };
        let tables: Vec<_> = self.tables.iter_mut().map(|t| t.copy(since)).collect();
        let mark = Mark {
            boot,
            lsn: self.logged,
        };
        let image = ShardImage {
            shard: self.id,
            lineage: self.lineage,
            mark,
            base: base.as_ref().map(Copied::base),
            clock: self.clock,
            windows: self.windows.clone(),
            tables,
        };
        let taken = Copied {
            checkpoint: order.checkpoint,
            mark,
            clock: self.clock,
            chain: Vec::new(),
        };
        let below = base.as_ref().map_or(Vec::new(), |b| b.chain.clone());
        self.savings = Savings {
            last: Some(taken),
            before_last: base,
        };
        Copy { image, below }
    }

    /// Takes note that a copy is in the store, as the last of these files.
    pub(crate) fn copied(&mut self, checkpoint: CheckpointId, mark: Mark, chain: &[ManifestFile]) {
        let last = self.savings.last.as_mut();
        if let Some(last) = last.filter(|l| l.checkpoint == checkpoint && l.mark == mark) {
            last.chain = chain.to_vec();
        }
    }

    fn since(&self, base: Option<CheckpointId>) -> Option<Since> {
        let base = base?;
        // A copy without files did not reach the store.
        let is = |copied: &Option<Copied>| {
            let copied = copied.as_ref();
            copied.is_some_and(|c| c.checkpoint == base && !c.chain.is_empty())
        };
        let since = if is(&self.savings.last) {
            Since::Last
        } else if is(&self.savings.before_last) {
            Since::BeforeLast
        } else {
            return None;
        };
        if !self.tables.iter().all(Table::knows_changes) {
            return None;
        }
        let changed: usize = self.tables.iter().map(|t| t.changed(since)).sum();
        let all: usize = self.tables.iter().map(Table::len).sum();
        (2 * changed <= all).then_some(since)
    }
}

#[cfg(test)]
mod tests;
