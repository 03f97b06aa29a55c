//! Which keys of a table have rows: who is admitted, and who has to go.
//!
//! Both depend on nothing but the pushes that a shard has applied, in their order: no wall clock,
//! no place in memory. So a log that is replayed leads to the same rows (rule A5), and one worker
//! gives the same model twice.

use serde::{Deserialize, Serialize};

use crate::shard::ShardCount;

/// The most sightings that may be asked for: what a counter of one byte holds.
pub const MAX_SIGHTINGS: u32 = 255;

/// The fewest rows of a shard that a budget must have room for.
pub const LEAST_ROWS: u64 = 128;

/// Pushes of a tick, the coarse clock of eviction. 16: four bytes a row last for 68 billion pushes,
/// and a time to live of a hundred pushes still means something.
pub const TICK: u64 = 16;

/// Bytes of the index a row: 16, at the load of 4/5 that a full table has.
const INDEX_BYTES: u64 = 20;

/// A key gets a row once it was seen often enough. Until then its gradients are dropped, though the
/// batches they came in count, and it answers its initial value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// Pushes that have the key, the one that admits it included: `2..=255`.
    pub sightings: u32,
    /// Memory of the counters, over all shards.
    pub sketch_bytes: u64,
}

/// When a row goes. A key that comes back begins anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    /// After so many pushes to the job without one that has its key.
    pub ttl: Option<u64>,
    /// When the table would need more memory, over all shards; about the longest unused rows go
    /// first.
    pub max_bytes: Option<u64>,
}

impl Admission {
    /// Checks the ranges; an error names the field and the rule.
    ///
    /// # Errors
    /// The first field that breaks its rule.
    pub fn validate(&self) -> Result<(), (&'static str, String)> {
        let (sightings, most) = (self.sightings, MAX_SIGHTINGS);
        if !(2..=most).contains(&sightings) {
            let rule = format!("{sightings} is not in 2..={most}; leave it out to admit every key");
            return Err(("admission", rule));
        }
        if self.sketch_bytes == 0 {
            return Err(("sketch", "must be above 0".into()));
        }
        Ok(())
    }

    /// Counters of one shard: whole lines of the processor's cache, at least one.
    #[must_use]
    pub fn sketch_of_shard(&self, shards: ShardCount) -> u64 {
        let lines = self.sketch_bytes / shards.len() as u64 / 64;
        lines.max(1) * 64
    }
}

impl Eviction {
    /// Whether rows may ever go.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.ttl.is_some() || self.max_bytes.is_some()
    }

    /// Rows of one shard that the budget has room for; `None` without one.
    ///
    /// A row costs its floats, 20 bytes of the index, and about half a byte for what is known of
    /// changes since the last two checkpoints.
    #[must_use]
    pub fn rows_of_shard(
        &self,
        floats: usize,
        admission: Option<Admission>,
        shards: ShardCount,
    ) -> Option<u64> {
        let share = self.max_bytes? / shards.len() as u64;
        let sketch = admission.map_or(0, |a| a.sketch_of_shard(shards));
        let halves = 2 * (4 * floats as u64 + INDEX_BYTES) + 1;
        Some(share.saturating_sub(sketch).saturating_mul(2) / halves)
    }

    /// Checks the ranges; an error names the field and the rule.
    ///
    /// # Errors
    /// The first field that breaks its rule.
    pub fn validate(
        &self,
        floats: usize,
        admission: Option<Admission>,
        shards: ShardCount,
    ) -> Result<(), (&'static str, String)> {
        if self.ttl == Some(0) {
            return Err(("ttl", "must be above 0".into()));
        }
        let rows = self.rows_of_shard(floats, admission, shards);
        if rows.is_some_and(|rows| rows < LEAST_ROWS) {
            let sketch = admission.map_or(0, |a| a.sketch_of_shard(shards));
            let row = 4 * floats as u64 + INDEX_BYTES + 1;
            let least = (LEAST_ROWS * row).saturating_add(sketch);
            let least = least.saturating_mul(shards.len() as u64);
            let rule = format!(
                "must have room for {LEAST_ROWS} rows in each of {} shards, that is {least} bytes",
                shards.len()
            );
            return Err(("max_bytes", rule));
        }
        Ok(())
    }
}

/// How full a table is, and how it came to that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Occupancy {
    /// Rows that there are.
    pub rows: u64,
    /// Memory of rows, index and sketch.
    pub bytes: u64,
    /// Gradients that were dropped, since their keys had not been seen often enough.
    pub refused: u64,
    /// Rows that went.
    pub evicted: u64,
}

impl Occupancy {
    /// Keys that were given a row, those that came back again too.
    #[must_use]
    pub fn admitted(&self) -> u64 {
        self.rows.saturating_add(self.evicted)
    }

    /// Adds what another server, or another shard, holds of the table.
    pub fn add(&mut self, other: Self) {
        let sum = |mine: &mut u64, theirs: u64| *mine = mine.saturating_add(theirs);
        sum(&mut self.rows, other.rows);
        sum(&mut self.bytes, other.bytes);
        sum(&mut self.refused, other.refused);
        sum(&mut self.evicted, other.evicted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADMISSION: Admission = Admission {
        sightings: 3,
        sketch_bytes: 1 << 20,
    };

    fn shards(count: u32) -> ShardCount {
        ShardCount::new(count).unwrap()
    }

    /// 16 weights and 16 slots: 128 bytes, 20 of the index and a half.
    #[test]
    fn a_budget_is_rows_of_known_size() {
        let budget = |max_bytes| Eviction {
            ttl: None,
            max_bytes: Some(max_bytes),
        };
        let rows = |max, admission| budget(max).rows_of_shard(32, admission, shards(4));
        assert_eq!(Eviction::default().rows_of_shard(32, None, shards(4)), None);
        assert_eq!(rows(4 * 594_000, None), Some(4000));
        assert_eq!(rows(4 * 594_000 + (1 << 20), Some(ADMISSION)), Some(4000));
        assert_eq!(rows(1000, Some(ADMISSION)), Some(0));
    }

    #[test]
    fn a_budget_that_is_refused_names_one_that_is_not() {
        let budget = |max_bytes| {
            let budget = Eviction {
                ttl: None,
                max_bytes: Some(max_bytes),
            };
            budget.validate(32, Some(ADMISSION), shards(256))
        };
        let (field, rule) = budget(1 << 20).unwrap_err();
        assert_eq!(field, "max_bytes");
        let least = rule.split_whitespace().rev().nth(1).unwrap();
        assert_eq!(budget(least.parse().unwrap()), Ok(()));
        // Whatever numbers come in a file.
        let huge = Admission {
            sketch_bytes: u64::MAX,
            ..ADMISSION
        };
        let small = Eviction {
            ttl: None,
            max_bytes: Some(1),
        };
        assert!(small.validate(1 << 20, Some(huge), shards(4096)).is_err());
    }

    #[test]
    fn a_sketch_is_whole_cache_lines() {
        assert_eq!(ADMISSION.sketch_of_shard(shards(256)), 4096);
        assert_eq!(ADMISSION.sketch_of_shard(shards(1)), 1 << 20);
        let small = Admission {
            sketch_bytes: 1,
            ..ADMISSION
        };
        assert_eq!(small.sketch_of_shard(shards(256)), 64);
    }

    #[test]
    fn ranges_are_checked() {
        let sightings = |sightings| {
            let admission = Admission {
                sightings,
                ..ADMISSION
            };
            admission.validate().map_err(|(field, _)| field)
        };
        assert_eq!(sightings(1), Err("admission"));
        assert_eq!(sightings(2), Ok(()));
        assert_eq!(sightings(255), Ok(()));
        assert_eq!(sightings(256), Err("admission"));
        let ttl = |ttl| Eviction {
            ttl: Some(ttl),
            max_bytes: None,
        };
        assert!(ttl(0).validate(1, None, shards(1)).is_err());
        assert!(ttl(1).validate(1, None, shards(1)).is_ok());
    }
}
