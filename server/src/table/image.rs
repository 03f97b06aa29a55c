//! A table's rows as copies: those that checkpoints and moves are made of.

use windlass_common::format::{TableImage, Turnover};
use windlass_common::key::Key;
use windlass_common::schema::TableSchema;
use windlass_common::shard::ShardCount;

use super::changes::{Changed, Since};
use super::index::MAX_ROWS;
use super::{Residency, Table};
use crate::error::Error;

impl Table {
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
        let keys = image.keys.len();
        let mut new = Self::new(schema, seed, shards);
        let uses = if new.residency.evicts() { keys } else { 0 };
        for (what, image, schema) in [
            ("dim", image.dim, schema.dim()),
            ("slots", image.slots, schema.slots()),
            ("times of last use", image.used.len(), uses),
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
        let floats = image.rows.len();
        if keys > MAX_ROWS || keys.checked_mul(width) != Some(floats) {
            return Err(Error::ImageRows {
                table: table(),
                keys,
                floats,
                width,
            });
        }
        new.residency.restore(schema, image)?;
        new.index.reserve(keys);
        let rows = image.keys.iter().zip(image.rows.chunks_exact(width));
        for (i, (&key, row)) in rows.enumerate() {
            let (slot, floats) = new.slab.add();
            floats.copy_from_slice(row);
            let used = image.used.get(i).copied().unwrap_or_default();
            if !new.index.insert(key, slot, used) {
                let table = table();
                return Err(Error::ImageKeyTwice { table, key });
            }
        }
        Ok(new)
    }

    /// Copies all rows, in no useful order.
    #[must_use]
    pub fn image(&self) -> TableImage {
        let mut image = self.without_rows();
        if !self.slab.is_dense() {
            self.put_rows(&mut image, self.len(), |_| true);
            return image;
        }
        // At the speed of memory: rows in the order of their slots.
        image.keys = vec![Key::default(); self.len()];
        if self.residency.evicts() {
            image.used = vec![0; self.len()];
        }
        for entry in self.index.iter() {
            let slot = entry.slot as usize;
            image.keys[slot] = entry.key;
            if let Some(used) = image.used.get_mut(slot) {
                *used = entry.used;
            }
        }
        image.rows = Vec::with_capacity(self.len() * self.slab.width());
        for chunk in self.slab.chunks() {
            image.rows.extend_from_slice(chunk);
        }
        image
    }

    /// Whether a delta can be built: every change since the last copies is known.
    pub(crate) fn knows_changes(&self) -> bool {
        self.changes.is_some()
    }

    /// How many rows and keys changed since the last copy, or since the one before it.
    pub(crate) fn changed(&self, since: Since) -> usize {
        self.changes.as_ref().map_or(self.len(), |c| c.len(since))
    }

    /// Copies what changed since an earlier copy; everything without one. What changes from now on
    /// has changed since this copy.
    pub(crate) fn copy(&mut self, since: Option<Since>) -> TableImage {
        debug_assert!(since.is_none() || self.knows_changes());
        let changed = self.changes.get_or_insert_default().copied(since);
        match since {
            None => self.image(),
            Some(_) => self.changed_rows(changed),
        }
    }

    fn changed_rows(&self, changed: Changed) -> TableImage {
        let Changed { slots, mut gone } = changed;
        let mut image = self.without_rows();
        self.put_rows(&mut image, slots.len(), |slot| slots.has(slot));
        // One that is back is a new row, which is among those.
        gone.retain(|&key| self.index.slot(key).is_none());
        gone.sort_unstable();
        gone.dedup();
        image.deleted = gone;
        image
    }

    fn put_rows(&self, image: &mut TableImage, at_most: usize, is_wanted: impl Fn(u32) -> bool) {
        image.keys.reserve_exact(at_most);
        image.rows.reserve_exact(at_most * self.slab.width());
        for entry in self.index.iter().filter(|entry| is_wanted(entry.slot)) {
            image.keys.push(entry.key);
            image.rows.extend_from_slice(self.slab.row(entry.slot));
            if self.residency.evicts() {
                image.used.push(entry.used);
            }
        }
    }

    /// All but the rows.
    fn without_rows(&self) -> TableImage {
        let Residency {
            refused, evicted, ..
        } = self.residency;
        let (sketch, sighted) = self.residency.counters();
        TableImage {
            dim: self.dim,
            slots: self.slab.width() - self.dim,
            sketch: sketch.to_vec(),
            turnover: Turnover {
                sighted,
                refused,
                evicted,
            },
            ..TableImage::default()
        }
    }
}
