//! From a key to its row's slot: open addressing with the key inline.

use windlass_common::key::Key;

/// Marks an entry without a row; therefore slots are below it.
const EMPTY: u32 = u32::MAX;

/// How many rows slots can number.
pub(super) const MAX_ROWS: usize = EMPTY as usize;

/// Entries of an index without rows.
const SMALLEST: usize = 8;

/// A key and its row. The four bytes behind the slot are padding today; a last-use clock fits there
/// without a byte more.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    slot: u32,
}

const _: () = assert!(size_of::<Entry>() == 16, "four entries a cache line");

/// The index of one table in one shard. Linear probing, no deletion.
///
/// # Memory
/// It grows at a load of 4/5 by a factor of 6/5, to a load of 4/5 : 6/5 = 2/3. So a row costs between
/// 16 : 4/5 = 20 and 16 : 2/3 = 24 bytes, at every size. Doubling would cost up to 40.
#[derive(Clone, Debug)]
pub(super) struct Index {
    entries: Vec<Entry>,
    len: usize,
    shard_bits: u32,
}

impl Index {
    /// Makes room for so many rows of a shard that is chosen by the top `shard_bits` of a mixed key.
    pub(super) fn with_room(rows: usize, shard_bits: u32) -> Self {
        // The load right after growing, 2/3, so that what was restored costs no more than what grew.
        let entries = rows.saturating_mul(3).div_ceil(2).max(SMALLEST);
        Self {
            entries: vec![Entry::EMPTY; entries],
            len: 0,
            shard_bits,
        }
    }

    /// Finds the slot of a key.
    pub(super) fn slot(&self, key: Key) -> Option<u32> {
        let slot = self.entries[self.place(key)].slot;
        (slot != EMPTY).then_some(slot)
    }

    /// Finds the slot of a key, or gives it `next`.
    pub(super) fn slot_or_insert(&mut self, key: Key, next: u32) -> u32 {
        debug_assert_ne!(next, EMPTY, "the caller checks that slots suffice");
        let mut place = self.place(key);
        if self.entries[place].slot != EMPTY {
            return self.entries[place].slot;
        }
        // Only now: a key that is here already must not make the index grow.
        if (self.len + 1) * 5 > self.entries.len() * 4 {
            self.grow();
            place = self.place(key);
        }
        self.entries[place] = Entry { key, slot: next };
        self.len += 1;
        next
    }

    /// All keys with their slots, in no useful order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, u32)> {
        self.entries
            .iter()
            .filter(|e| e.slot != EMPTY)
            .map(|e| (e.key, e.slot))
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The memory of the entries.
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    /// Where a key is, or where it would go. Ends, since a fifth of the entries is empty.
    fn place(&self, key: Key) -> usize {
        let mut at = self.home(key);
        loop {
            let entry = &self.entries[at];
            if entry.slot == EMPTY || entry.key == key {
                return at;
            }
            at += 1;
            if at == self.entries.len() {
                at = 0;
            }
        }
    }

    /// Where the search for a key begins: range reduction of its mixed bits, so that any number of
    /// entries is as good as a power of two.
    ///
    /// All keys of a shard share the top bits of their mix; these are shifted out, else a shard
    /// would use 1/256 of its index.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the result is below the number of entries"
    )]
    fn home(&self, key: Key) -> usize {
        let bits = key.mix() << self.shard_bits;
        ((u128::from(bits) * self.entries.len() as u128) >> 64) as usize
    }

    /// Grows by 6/5. Entries lie almost in the order of their homes before and after, so both sides
    /// are walked from front to back, at the speed of memory.
    fn grow(&mut self) {
        let entries = (self.entries.len() * 6).div_ceil(5);
        let old = std::mem::replace(&mut self.entries, vec![Entry::EMPTY; entries]);
        for entry in old.into_iter().filter(|e| e.slot != EMPTY) {
            let place = self.place(entry.key);
            self.entries[place] = entry;
        }
    }
}

impl Entry {
    const EMPTY: Self = Self {
        key: Key(0),
        slot: EMPTY,
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use windlass_common::shard::ShardCount;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_an_ordered_map(
            keys in prop::collection::vec(0u64..300, 0..600),
            shard_bits in 0u32..=12,
        ) {
            let mut index = Index::with_room(0, shard_bits);
            let mut twin = BTreeMap::new();
            for key in keys {
                let next = u32::try_from(twin.len()).unwrap();
                let slot = *twin.entry(Key(key)).or_insert(next);
                prop_assert_eq!(index.slot_or_insert(Key(key), next), slot);
            }
            prop_assert_eq!(index.len(), twin.len());
            prop_assert_eq!(index.iter().collect::<BTreeMap<_, _>>(), twin.clone());
            for key in (0..301).map(Key) {
                prop_assert_eq!(index.slot(key), twin.get(&key).copied());
            }
        }
    }

    /// 24 bytes a row by the arithmetic above; rounding up adds at most one entry.
    #[test]
    fn a_row_costs_at_most_24_bytes_at_every_size() {
        let mut index = Index::with_room(0, 8);
        for rows in 1..20_000u32 {
            index.slot_or_insert(Key(u64::from(rows)), rows);
            let allowed = (24 * rows as usize + 16).max(16 * SMALLEST);
            assert!(index.bytes() <= allowed, "{rows} rows, {}", index.bytes());
        }
        let restored = Index::with_room(index.len(), 8);
        assert!(restored.bytes() <= 24 * index.len() + 16);
    }

    /// With linear probing at a load of 4/5 a search that succeeds looks at
    /// (1 + 1 / (1 - 4/5)) / 2 = 3 entries (Knuth, volume 3, 6.4); were the shard's bits left in, it
    /// would look at thousands.
    #[test]
    fn keys_of_one_shard_spread_over_the_whole_index() {
        let count = ShardCount::new(256).unwrap();
        let shard = count.shard_of(Key(1));
        let mut index = Index::with_room(0, count.bits());
        let keys = (0..).map(Key).filter(|&k| count.shard_of(k) == shard);
        for (key, slot) in keys.take(4000).zip(0..) {
            index.slot_or_insert(key, slot);
        }
        let entries = index.entries.len();
        let steps: usize = index
            .iter()
            .map(|(key, _)| (index.place(key) + entries - index.home(key)) % entries + 1)
            .sum();
        assert!(steps < 4 * index.len(), "{steps} for {} keys", index.len());
    }
}
