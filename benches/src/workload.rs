//! Keys to measure with: seeded, so that every run of a benchmark does the same work.

use windlass_common::key::{Key, mix64};
use windlass_common::split::Draw;

/// The distinct keys of a table of `rows` rows: row `i` is `Key(mix64(i))`, as a hash would give.
pub fn keys(rows: u64) -> impl Iterator<Item = Key> {
    (0..rows).map(|row| Key(mix64(row)))
}

/// Draws batches of `size` distinct rows, uniformly.
pub fn uniform(rows: u64, size: usize, batches: usize, seed: u64) -> Vec<Vec<Key>> {
    let mut draw = Draw::new(seed, &[rows]);
    let batch = |_| {
        let mut seen = std::collections::HashSet::new();
        let mut keys = Vec::with_capacity(size);
        while keys.len() < size {
            let row = draw.below(rows);
            if seen.insert(row) {
                keys.push(Key(mix64(row)));
            }
        }
        keys
    };
    (0..batches).map(batch).collect()
}
