//! One table of one shard: an index over slabs of rows.
//!
//! Reading order: `index` (key to slot), `slab` (slot to row), `touched` (what changed since a
//! copy), then [`Table`].

mod index;
mod slab;
mod touched;

use windlass_common::format::TableImage;
use windlass_common::id::Clock;
use windlass_common::init::Initializer;
use windlass_common::key::Key;
use windlass_common::schema::TableSchema;
use windlass_common::shard::ShardCount;

use self::index::{Index, MAX_ROWS};
use self::slab::Slab;
use self::touched::Touched;
use crate::error::Error;
use crate::optimizer::Optimizer;

/// Keys are worked in groups of this many, in two stages: all slots, then all rows. The misses of a
/// stage are independent of each other, so the processor waits for several at once.
const GROUP: usize = 64;

/// Which of the last two copies a delta builds on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// The last one.
    Last,
    /// The one before it.
    BeforeLast,
}

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
    /// From the first copy on that a delta may build on.
    changes: Option<Changes>,
}

/// Which rows were changed since the last two copies.
#[derive(Clone, Debug, Default)]
struct Changes {
    /// Since the last.
    since_last: Touched,
    /// Between the one before and the last.
    before_last: Touched,
}

impl Table {
    /// Starts without rows.
    #[must_use]
    pub fn new(schema: &TableSchema, seed: u64, shards: ShardCount) -> Self {
        Self {
            name: schema.name.clone(),
            dim: schema.dim(),
            index: Index::with_room(0, shards.bits()),
            slab: Slab::new(schema.dim() + schema.slots()),
            initializer: Initializer::new(schema.init, seed, &schema.name),
            optimizer: Optimizer::new(schema.optimizer.clone()),
            changes: None,
        }
    }

    /// Takes the rows of an image.
    ///
    /// # Errors
    /// [`Error::ImageMismatch`] when its shape is not the schema's, [`Error::ImageRows`] when keys
    /// and rows do not fit each other, [`Error::ImageKeyTwice`].
    pub fn from_image(
        schema: &TableSchema,
        seed: u64,
        shards: ShardCount,
        image: &TableImage,
    ) -> Result<Self, Error> {
        let table = || schema.name.clone();
        for (what, image, schema) in [
            ("dim", image.dim, schema.dim()),
            ("slots", image.slots, schema.slots()),
        ] {
            if image != schema {
                return Err(Error::ImageMismatch {
                    what: format!("{what} of table `{}`", table()),
                    image,
                    schema,
                });
            }
        }
        let width = image.dim + image.slots;
        let (keys, floats) = (image.keys.len(), image.rows.len());
        if keys > MAX_ROWS || keys.checked_mul(width) != Some(floats) {
            return Err(Error::ImageRows {
                table: table(),
                keys,
                floats,
                width,
            });
        }
        let mut new = Self::new(schema, seed, shards);
        new.index = Index::with_room(keys, shards.bits());
        for (&key, row) in image.keys.iter().zip(image.rows.chunks_exact(width)) {
            let next = new.slab.len();
            if new.index.slot_or_insert(key, next) != next {
                let table = table();
                return Err(Error::ImageKeyTwice { table, key });
            }
            new.slab.push().copy_from_slice(row);
        }
        Ok(new)
    }

    /// Copies the weights of keys. An unknown key answers its initial value and is not created.
    ///
    /// Shape of `out`: `[keys, dim]`.
    pub fn read(&self, keys: &[Key], out: &mut [f32]) {
        debug_assert_eq!(out.len(), keys.len() * self.dim);
        let mut slots = [None; GROUP];
        for (keys, out) in keys.chunks(GROUP).zip(out.chunks_mut(GROUP * self.dim)) {
            for (slot, &key) in slots.iter_mut().zip(keys) {
                *slot = self.index.slot(key);
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

    /// Applies one gradient to each key; keys that have no row get one first.
    ///
    /// The caller has checked that there is [room](Self::has_room) and that the gradients are
    /// finite. Shape of `gradients`: `[keys, dim]`. `step` counts the shard's pushes, this one
    /// included, so it is at least 1.
    pub fn apply(&mut self, keys: &[Key], gradients: &[f32], step: Clock) {
        debug_assert_eq!(gradients.len(), keys.len() * self.dim);
        debug_assert!(self.has_room(keys.len()));
        let dim = self.dim;
        let mut slots = [0; GROUP];
        for (keys, gradients) in keys.chunks(GROUP).zip(gradients.chunks(GROUP * dim)) {
            for (slot, &key) in slots.iter_mut().zip(keys) {
                *slot = self.slot_or_born(key);
            }
            if let Some(changes) = &mut self.changes {
                slots[..keys.len()]
                    .iter()
                    .for_each(|&slot| changes.since_last.add(slot));
            }
            let update = self.optimizer.at(step);
            for (&slot, gradient) in slots.iter().zip(gradients.chunks_exact(dim)) {
                let (weights, slots) = self.slab.row_mut(slot).split_at_mut(dim);
                update.row(weights, slots, gradient);
            }
        }
    }

    /// Whether so many more rows can be numbered.
    #[must_use]
    pub fn has_room(&self, rows: usize) -> bool {
        rows <= MAX_ROWS - self.len()
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

    /// The memory of index, rows and what is known of changes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let bits = |c: &Changes| c.since_last.bytes() + c.before_last.bytes();
        self.index.bytes() + self.slab.bytes() + self.changes.as_ref().map_or(0, bits)
    }

    /// Copies all rows, in the order of their birth.
    #[must_use]
    pub fn image(&self) -> TableImage {
        let mut keys = vec![Key::default(); self.len()];
        for (key, slot) in self.index.iter() {
            keys[slot as usize] = key;
        }
        let width = self.slab.width();
        let mut rows = Vec::with_capacity(keys.len() * width);
        for chunk in self.slab.chunks() {
            rows.extend_from_slice(chunk);
        }
        TableImage {
            dim: self.dim,
            slots: width - self.dim,
            keys,
            rows,
            deleted: Vec::new(),
        }
    }

    /// How many rows were changed since the last copy, or since the one before it.
    pub(crate) fn changed(&self, since: Since) -> usize {
        match (&self.changes, since) {
            (None, _) => self.len(),
            (Some(changes), Since::Last) => changes.since_last.len(),
            // At most; those that were changed twice count twice.
            (Some(changes), Since::BeforeLast) => {
                (changes.since_last.len() + changes.before_last.len()).min(self.len())
            }
        }
    }

    /// Copies the rows that were changed since an earlier copy; all of them without one. The rows
    /// that change from now on are those since this copy.
    pub(crate) fn copy(&mut self, since: Option<Since>) -> TableImage {
        let changes = self.changes.get_or_insert_default();
        let last = std::mem::take(&mut changes.since_last);
        match since {
            None => {
                changes.before_last = Touched::default();
                self.image()
            }
            Some(Since::Last) => {
                let image = self.changed_rows(&last);
                self.before_last(last);
                image
            }
            Some(Since::BeforeLast) => {
                let mut all = last;
                all.merge(&changes.before_last);
                let image = self.changed_rows(&all);
                self.before_last(all);
                image
            }
        }
    }

    fn before_last(&mut self, touched: Touched) {
        if let Some(changes) = &mut self.changes {
            changes.before_last = touched;
        }
    }

    fn changed_rows(&self, touched: &Touched) -> TableImage {
        let width = self.slab.width();
        let mut keys = Vec::with_capacity(touched.len());
        let mut rows = Vec::with_capacity(touched.len() * width);
        for (key, slot) in self.index.iter().filter(|&(_, slot)| touched.has(slot)) {
            keys.push(key);
            rows.extend_from_slice(self.slab.row(slot));
        }
        TableImage {
            dim: self.dim,
            slots: width - self.dim,
            keys,
            rows,
            deleted: Vec::new(),
        }
    }

    fn slot_or_born(&mut self, key: Key) -> u32 {
        let next = self.slab.len();
        let slot = self.index.slot_or_insert(key, next);
        if slot == next {
            let (weights, slots) = self.slab.push().split_at_mut(self.dim);
            self.initializer.fill(key, weights);
            self.optimizer.born(weights, slots);
        }
        slot
    }
}

#[cfg(test)]
mod tests;
