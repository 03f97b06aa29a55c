//! Which keys have rows: who is admitted, and who has to go.
//!
//! What is decided here depends on the pushes alone (rule A5): not on where rows lie in memory, nor
//! on the order of the index, which differ after a restore.

use windlass_common::format::TableImage;
use windlass_common::id::{Clock, ShardId};
use windlass_common::key::Key;
use windlass_common::residency::{Occupancy, TICK};
use windlass_common::schema::TableSchema;
use windlass_common::shard::ShardCount;

use super::index::MAX_ROWS;
use super::sketch::Sketch;
use super::{GROUP, Table};
use crate::error::Error;

/// A full table lets one row in so many go at once; each search looks at all. 64: a budget is used
/// to 98.4 percent at the least.
const SHARE: usize = 64;

/// Of a table with a budget one key in so many may go between two copies; if more did, the next copy
/// is a full one.
const LISTED: usize = 32;

/// A time to live is overrun by at most one part in so many (and two ticks).
const SWEEPS: u64 = 16;

/// Who may have a row, and who came and went.
#[derive(Clone, Debug)]
pub(super) struct Residency {
    sketch: Option<Sketch>,
    ttl: Option<u64>,
    most: Option<usize>,
    shards: ShardCount,
    /// Gradients dropped, since their keys had not been seen often enough.
    pub(super) refused: u64,
    /// Rows that went.
    pub(super) evicted: u64,
}

impl Residency {
    pub(super) fn new(schema: &TableSchema, shards: ShardCount) -> Self {
        let most = schema.rows_of_shard(shards);
        Self {
            sketch: schema.admission.map(|a| Sketch::new(a, shards)),
            ttl: schema.eviction.ttl,
            most: most.map(|rows| usize::try_from(rows).unwrap_or(MAX_ROWS)),
            shards,
            refused: 0,
            evicted: 0,
        }
    }

    /// Goes on where a copy was.
    ///
    /// # Errors
    /// [`Error::ImageMismatch`] for a sketch that is not the schema's.
    pub(super) fn restore(
        &mut self,
        schema: &TableSchema,
        image: &TableImage,
    ) -> Result<(), Error> {
        self.refused = image.turnover.refused;
        self.evicted = image.turnover.evicted;
        let fits = match &mut self.sketch {
            Some(sketch) => sketch.restore(&image.sketch, image.turnover.sighted),
            None => image.sketch.is_empty(),
        };
        if fits {
            return Ok(());
        }
        let admission = schema.admission;
        let wanted = admission.map_or(0, |a| a.sketch_of_shard(self.shards));
        Err(Error::ImageMismatch {
            what: format!("bytes of the sketch of table `{}`", schema.name),
            image: image.sketch.len(),
            schema: usize::try_from(wanted).unwrap_or(usize::MAX),
        })
    }

    /// Whether rows may go.
    pub(super) fn evicts(&self) -> bool {
        self.ttl.is_some() || self.most.is_some()
    }

    /// The most rows that there will be.
    pub(super) fn most(&self) -> usize {
        self.most.unwrap_or(MAX_ROWS).min(MAX_ROWS)
    }

    /// Counters and sightings of keys without rows.
    pub(super) fn counters(&self) -> (&[u8], u64) {
        self.sketch.as_ref().map_or((&[], 0), Sketch::counters)
    }

    /// Counts a push to a key without a row; whether it gets one now.
    pub(super) fn admits(&mut self, key: Key) -> bool {
        let admits = self.sketch.as_mut().is_none_or(|sketch| sketch.see(key));
        self.refused += u64::from(!admits);
        admits
    }

    /// The memory of the sketch.
    pub(super) fn bytes(&self) -> usize {
        self.sketch.as_ref().map_or(0, Sketch::bytes)
    }
}

/// The coarse time of a push.
pub(super) fn tick(step: Clock) -> u32 {
    u32::try_from(step.0 / TICK).unwrap_or(u32::MAX)
}

impl Table {
    /// Lets rows go whose time is over, after a push to the shard; `step` counts those.
    pub(crate) fn pass_time(&mut self, step: Clock, shard: ShardId) {
        let Some(ttl) = self.residency.ttl else {
            return;
        };
        let every = (ttl / SWEEPS).max(1);
        // Not all shards at the same push.
        let phase = u64::from(shard.0) * every / self.residency.shards.len() as u64;
        if !(step.0 + phase).is_multiple_of(every) {
            return;
        }
        let (now, ttl) = (tick(step), ttl.div_ceil(TICK));
        let is_over = |used: u32| u64::from(now.saturating_sub(used)) > ttl;
        let entries = self.index.iter().filter(|entry| is_over(entry.used));
        let over: Vec<Key> = entries.map(|entry| entry.key).collect();
        self.evict(&over);
    }

    /// How full it is, and how it came to that.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        Occupancy {
            rows: self.len() as u64,
            bytes: self.bytes() as u64,
            refused: self.residency.refused,
            evicted: self.residency.evicted,
        }
    }

    /// Makes room for so many new rows, at most a group, if there is a budget. Called before slots
    /// are looked up: none of them goes while it is in use.
    pub(super) fn make_room(&mut self, rows: usize) {
        debug_assert!(rows <= GROUP);
        let Some(most) = self.residency.most else {
            return;
        };
        if self.len() + rows > most {
            let count = (most / SHARE).max(GROUP).min(self.len());
            let oldest = self.oldest(count);
            self.evict(&oldest);
        }
    }

    /// The keys that were pushed to the longest ago; among those of one tick the mix decides.
    fn oldest(&self, count: usize) -> Vec<Key> {
        let Some(last) = count.checked_sub(1) else {
            return Vec::new();
        };
        let mut uses: Vec<u32> = self.index.iter().map(|entry| entry.used).collect();
        let (_, &mut limit, _) = uses.select_nth_unstable(last);
        let (mut oldest, mut same) = (Vec::with_capacity(count), Vec::new());
        for entry in self.index.iter() {
            match entry.used.cmp(&limit) {
                std::cmp::Ordering::Less => oldest.push(entry.key),
                std::cmp::Ordering::Equal => same.push(entry.key),
                std::cmp::Ordering::Greater => {}
            }
        }
        // At least one: the last of the oldest is of this tick.
        let rest = count - oldest.len();
        same.select_nth_unstable_by_key(rest - 1, |key| key.mix());
        oldest.extend_from_slice(&same[..rest]);
        oldest
    }

    fn evict(&mut self, keys: &[Key]) {
        for &key in keys {
            if let Some(slot) = self.index.remove(key) {
                self.slab.remove(slot);
                self.residency.evicted += 1;
            }
        }
        let Some(changes) = &mut self.changes else {
            return;
        };
        // A budget has room for a list of so many. Without one a delta with more would be no smaller
        // than a full copy.
        let most = match self.residency.most {
            Some(most) => most / LISTED,
            None => self.index.len() / 2,
        };
        if changes.gone() + keys.len() > most {
            self.changes = None;
        } else {
            changes.go(keys);
        }
    }
}

#[cfg(test)]
mod tests;
