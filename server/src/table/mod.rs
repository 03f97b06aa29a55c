//! One table of one shard: an index over slabs of rows.
//!
//! Reading order: `index` (key to slot), `slab` (slot to row), `prefetch`, then [`Table`];
//! `residency` with `sketch` (which keys have rows), `changes` with `touched` (what changed since a
//! copy), `image`.

mod changes;
mod image;
mod index;
mod prefetch;
mod residency;
mod sketch;
mod slab;
mod touched;

use windlass_common::id::Clock;
use windlass_common::init::Initializer;
use windlass_common::key::Key;
use windlass_common::schema::TableSchema;
use windlass_common::shard::ShardCount;

use self::changes::Changes;
pub(crate) use self::changes::Since;
use self::index::{Index, MAX_ROWS};
use self::prefetch::prefetch;
use self::residency::{Residency, tick};
use self::slab::Slab;
use crate::optimizer::Optimizer;

/// Keys are worked in groups of this many, in three stages: the memory of their entries is asked for,
/// then they are looked up and that of their rows is asked for, then the rows are worked. So the
/// processor waits for many at once.
const GROUP: usize = 64;

/// The rows of one table in one shard. No locks: whoever has it has it alone.
#[derive(Clone, Debug)]
pub struct Table {
    name: String,
    dim: usize,
    index: Index,
    /// Rows are `[weights | slots]`.
    slab: Slab,
    initializer: Initializer,
    optimizer: Optimizer,
    residency: Residency,
    /// From the first copy on that a delta may build on; `None` also when too much changed since.
    changes: Option<Changes>,
}

/// Stands for the slot of a key that has no row and gets none.
const REFUSED: u32 = u32::MAX;

impl Table {
    /// Starts without rows.
    #[must_use]
    pub fn new(schema: &TableSchema, seed: u64, shards: ShardCount) -> Self {
        let residency = Residency::new(schema, shards);
        let most = residency.most();
        let slots = u32::try_from(most).unwrap_or(u32::MAX);
        Self {
            name: schema.name.clone(),
            dim: schema.dim(),
            index: Index::new(most, shards.bits()),
            slab: Slab::new(schema.dim() + schema.slots(), slots),
            initializer: Initializer::new(schema.init, seed, &schema.name),
            optimizer: Optimizer::new(schema.optimizer.clone()),
            residency,
            changes: None,
        }
    }

    /// Copies the weights of keys. An unknown key answers its initial value and is not created.
    ///
    /// Shape of `out`: `[keys, dim]`.
    pub fn read(&self, keys: &[Key], out: &mut [f32]) {
        debug_assert_eq!(out.len(), keys.len() * self.dim);
        let mut slots = [None; GROUP];
        for (keys, out) in keys.chunks(GROUP).zip(out.chunks_mut(GROUP * self.dim)) {
            keys.iter().for_each(|&key| self.index.prefetch(key));
            for (slot, &key) in slots.iter_mut().zip(keys) {
                *slot = self.index.slot(key);
                if let Some(slot) = *slot {
                    prefetch(&self.slab.row(slot)[..self.dim]);
                }
            }
            let rows = out.chunks_exact_mut(self.dim);
            for ((slot, &key), weights) in slots.iter().zip(keys).zip(rows) {
                match *slot {
                    Some(slot) => weights.copy_from_slice(&self.slab.row(slot)[..self.dim]),
                    None => self.initializer.fill(key, weights),
                }
            }
        }
    }

    /// Applies one gradient to each key. Keys that have no row get one first, or are refused: then
    /// the gradient is dropped, and nothing else changes by it.
    ///
    /// The caller has checked that there is [room](Self::has_room) and that the gradients are
    /// finite. Shape of `gradients`: `[keys, dim]`. `step` counts the shard's pushes, this one
    /// included, so it is at least 1.
    pub fn apply(&mut self, keys: &[Key], gradients: &[f32], step: Clock) {
        debug_assert_eq!(gradients.len(), keys.len() * self.dim);
        debug_assert!(self.has_room(keys.len()));
        let dim = self.dim;
        let now = tick(step);
        let mut slots = [0; GROUP];
        for (keys, gradients) in keys.chunks(GROUP).zip(gradients.chunks(GROUP * dim)) {
            self.make_room(keys.len());
            keys.iter().for_each(|&key| self.index.prefetch(key));
            for (slot, &key) in slots.iter_mut().zip(keys) {
                *slot = self.slot_or_born(key, now);
                if *slot != REFUSED {
                    prefetch(self.slab.row(*slot));
                }
            }
            let rows = slots.iter().zip(gradients.chunks_exact(dim));
            let update = self.optimizer.at(step);
            for (&slot, gradient) in rows.filter(|(slot, _)| **slot != REFUSED) {
                if let Some(changes) = &mut self.changes {
                    changes.touch(slot);
                }
                let (weights, slots) = self.slab.row_mut(slot).split_at_mut(dim);
                update.row(weights, slots, gradient);
            }
        }
    }

    /// Whether so many more rows can be numbered.
    #[must_use]
    pub fn has_room(&self, rows: usize) -> bool {
        rows <= MAX_ROWS - self.len() || self.residency.most() < MAX_ROWS
    }

    /// Its name in the schema.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Weights a row.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True without rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory of index, rows, sketch, and what is known of changes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let changes = self.changes.as_ref().map_or(0, Changes::bytes);
        self.index.bytes() + self.slab.bytes() + self.residency.bytes() + changes
    }

    /// Finds the slot of a key that is pushed to, or gives it one, or refuses it.
    fn slot_or_born(&mut self, key: Key, now: u32) -> u32 {
        if let Some(slot) = self.index.slot_used(key, now) {
            return slot;
        }
        if !self.residency.admits(key) {
            return REFUSED;
        }
        let (slot, row) = self.slab.add();
        let (weights, slots) = row.split_at_mut(self.dim);
        self.initializer.fill(key, weights);
        self.optimizer.born(weights, slots);
        self.index.insert(key, slot, now);
        slot
    }
}

#[cfg(test)]
mod tests;
