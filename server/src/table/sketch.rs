//! How often keys without a row were seen: a count-min sketch (Cormode and Muthukrishnan, "An
//! improved data stream summary", 2005) with conservative updates (Estan and Varghese, "New
//! directions in traffic measurement", 2002), whose counts are halved from time to time (Einziger,
//! Friedman and Manes, "TinyLFU", 2017).

use windlass_common::key::Key;
use windlass_common::residency::Admission;
use windlass_common::shard::ShardCount;

/// Counters of a block, one cache line: all counters of a key are in one.
const BLOCK: usize = 64;

/// Counters a key has.
const COUNTERS: u32 = 4;

/// The counters of one table in one shard; no memory before the first sighting.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    cells: Vec<u8>,
    /// Sightings since the counts were halved.
    sighted: u64,
    enough: u8,
    bytes: usize,
    shard_bits: u32,
}

impl Sketch {
    /// Starts without sightings.
    pub(super) fn new(admission: Admission, shards: ShardCount) -> Self {
        let bytes = admission.sketch_of_shard(shards);
        Self {
            cells: Vec::new(),
            sighted: 0,
            enough: u8::try_from(admission.sightings).unwrap_or(u8::MAX),
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            shard_bits: shards.bits(),
        }
    }

    /// Takes the counters of a copy. `false` if there are none, nor as many as there should be.
    pub(super) fn restore(&mut self, cells: &[u8], sighted: u64) -> bool {
        if !cells.is_empty() && cells.len() != self.bytes {
            return false;
        }
        self.cells = cells.to_vec();
        self.sighted = sighted;
        true
    }

    /// Counts a sighting of a key; whether it has now been seen often enough. Never too late, and
    /// now and then too early: the key's count is the least of its counters, which others share.
    pub(super) fn see(&mut self, key: Key) -> bool {
        if self.cells.is_empty() {
            self.cells = vec![0; self.bytes];
        }
        if self.sighted >= self.most_sighted() {
            self.cells.iter_mut().for_each(|cell| *cell >>= 1);
            self.sighted = 0;
        }
        self.sighted += 1;
        let places = self.places(key);
        let least = places.map(|at| self.cells[at]).into_iter().min();
        let count = least.unwrap_or_default().saturating_add(1);
        for at in places {
            self.cells[at] = self.cells[at].max(count);
        }
        count >= self.enough
    }

    /// The counters, and the sightings in them since they were halved.
    pub(super) fn counters(&self) -> (&[u8], u64) {
        (&self.cells, self.sighted)
    }

    /// The memory of the counters.
    pub(super) fn bytes(&self) -> usize {
        self.cells.capacity()
    }

    /// How many sightings its counters can tell apart: an eighth of the wanted count for each. Then
    /// a counter was raised half as often as is wanted, by the keys of which four share it.
    fn most_sighted(&self) -> u64 {
        self.cells.len() as u64 * u64::from(self.enough) / 8
    }

    /// Where a key's counters are: the block by its mix's high bits, which the index uses in the
    /// same way, and the places in it by the low ones.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a block's number is below their count, a place below 64"
    )]
    fn places(&self, key: Key) -> [usize; COUNTERS as usize] {
        let mix = key.mix();
        let blocks = self.cells.len() / BLOCK;
        let block = (u128::from(mix << self.shard_bits) * blocks as u128) >> 64;
        let start = block as usize * BLOCK;
        std::array::from_fn(|i| start + (mix >> (6 * i)) as usize % BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn sketch(sightings: u32, sketch_bytes: u64) -> Sketch {
        let admission = Admission {
            sightings,
            sketch_bytes,
        };
        Sketch::new(admission, ShardCount::new(1).unwrap())
    }

    #[test]
    fn a_key_alone_is_admitted_with_its_sighting() {
        for enough in [2, 3, 255] {
            let mut sketch = sketch(enough, 4096);
            let seen = (0..enough).map(|_| sketch.see(Key(7)));
            let seen: Vec<bool> = seen.collect();
            let last = seen.len() - 1;
            assert!(seen[last] && !seen[..last].contains(&true), "{enough}");
        }
    }

    proptest! {
        /// A count is never too low: the other keys can only raise counters.
        #[test]
        fn no_key_is_admitted_too_late(keys in prop::collection::vec(0u64..40, 0..60)) {
            let (mut sketch, mut twin) = (sketch(3, 256), BTreeMap::<u64, u32>::new());
            for key in keys {
                let count = twin.entry(key).or_default();
                *count += 1;
                prop_assert!(sketch.see(Key(key)) || *count < 3);
            }
        }
    }

    /// As many keys as fit between two halvings, each seen once. Were the four counters of a key
    /// independent and updates not conservative, a counter would have been raised by Poisson(3/2)
    /// keys at the end; all four are at two or more with probability
    /// (1 - e^-1.5 - 1.5 e^-1.5)^4 = .038.
    #[test]
    fn few_keys_are_admitted_too_early() {
        let mut sketch = sketch(3, 1 << 16);
        let keys = 3 << 13;
        let early = (0..keys).filter(|&key| sketch.see(Key(key))).count();
        assert!(early as u64 * 1000 < keys * 38, "{early} of {keys}");
        assert_eq!(sketch.sighted, sketch.most_sighted());
    }

    #[test]
    fn counts_are_halved_when_the_sketch_is_full() {
        let mut sketch = sketch(3, 64);
        assert!(!sketch.see(Key(1)) && !sketch.see(Key(1)));
        sketch.sighted = sketch.most_sighted();
        // Two became one, so this is the second.
        assert!(!sketch.see(Key(1)));
        assert_eq!(sketch.sighted, 1);
        assert!(sketch.see(Key(1)));
    }

    #[test]
    fn what_is_restored_goes_on_the_same() {
        let mut first = sketch(3, 4096);
        for key in 0..500 {
            first.see(Key(key % 300));
        }
        let mut second = sketch(3, 4096);
        let (cells, sighted) = first.counters();
        assert!(second.restore(cells, sighted));
        let go_on = |sketch: &mut Sketch| -> Vec<bool> {
            (0..600).map(|key| sketch.see(Key(key))).collect()
        };
        assert_eq!(go_on(&mut first), go_on(&mut second));
        assert!(!second.restore(&[0; 64], 0));
        assert!(second.restore(&[], 0));
    }
}
