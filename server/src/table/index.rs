//! From a key to its row's slot: open addressing with the key inline.

use windlass_common::key::Key;

use super::prefetch::prefetch;

/// Marks an entry without a row; therefore slots are below it.
const EMPTY: u32 = u32::MAX;

/// How many rows slots can number.
pub(super) const MAX_ROWS: usize = EMPTY as usize;

/// Entries of an index without rows.
const SMALLEST: usize = 8;

/// A key, its row, and when that was pushed to last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) slot: u32,
    /// In ticks. They lie where padding would.
    pub(super) used: u32,
}

const _: () = assert!(size_of::<Entry>() == 16, "four entries a cache line");

/// The index of one table in one shard. Linear probing; a removal closes its gap.
///
/// # Memory
/// It grows at a load of 4/5 by a factor of 6/5, to a load of 4/5 : 6/5 = 2/3. So a row costs between
/// 16 : 4/5 = 20 and 16 : 2/3 = 24 bytes, at every size. Doubling would cost up to 40. Where the
/// rows are bounded the last step ends at what they need: a full table costs 20.
#[derive(Clone, Debug)]
pub(super) struct Index {
    entries: Vec<Entry>,
    len: usize,
    shard_bits: u32,
    /// The most entries that it will need.
    bound: usize,
}

impl Index {
    /// Starts without rows, for a shard that is chosen by the top `shard_bits` of a mixed key and
    /// never has more than `most` rows.
    pub(super) fn new(most: usize, shard_bits: u32) -> Self {
        Self {
            entries: vec![Entry::EMPTY; SMALLEST],
            len: 0,
            shard_bits,
            bound: most.saturating_mul(5).div_ceil(4).max(SMALLEST),
        }
    }

    /// Makes room for so many rows, before the first.
    pub(super) fn reserve(&mut self, rows: usize) {
        debug_assert_eq!(self.len, 0, "only an empty one can be exchanged");
        // The load right after growing, 2/3, so that what was restored costs no more than what grew.
        let entries = rows.saturating_mul(3).div_ceil(2).max(SMALLEST);
        self.entries = vec![Entry::EMPTY; self.bounded(entries)];
    }

    /// Asks for the memory where the search for a key begins.
    #[inline]
    pub(super) fn prefetch(&self, key: Key) {
        let home = self.home(key);
        prefetch(&self.entries[home..=home]);
    }

    /// Finds the slot of a key.
    #[inline]
    pub(super) fn slot(&self, key: Key) -> Option<u32> {
        let slot = self.entries[self.place(key)].slot;
        (slot != EMPTY).then_some(slot)
    }

    /// Finds the slot of a key that is pushed to.
    #[inline]
    pub(super) fn slot_used(&mut self, key: Key, now: u32) -> Option<u32> {
        let place = self.place(key);
        let entry = &mut self.entries[place];
        if entry.slot == EMPTY {
            return None;
        }
        entry.used = now;
        Some(entry.slot)
    }

    /// Gives a key a slot. If it has one already, that stays and the answer is `false`.
    pub(super) fn insert(&mut self, key: Key, slot: u32, now: u32) -> bool {
        debug_assert_ne!(slot, EMPTY, "the caller checks that slots suffice");
        let mut place = self.place(key);
        if self.entries[place].slot != EMPTY {
            return false;
        }
        if (self.len + 1) * 5 > self.entries.len() * 4 {
            self.grow();
            place = self.place(key);
        }
        let used = now;
        self.entries[place] = Entry { key, slot, used };
        self.len += 1;
        true
    }

    /// Takes a key out and returns its slot.
    ///
    /// What follows it moves up into the gap, unless it would come to stand before its home, so
    /// that a search still ends at the first empty entry (Knuth, volume 3, 6.4, algorithm R).
    pub(super) fn remove(&mut self, key: Key) -> Option<u32> {
        let (mut gap, entries) = (self.place(key), self.entries.len());
        let slot = self.entries[gap].slot;
        if slot == EMPTY {
            return None;
        }
        let from = |start: usize, to: usize| (to + entries - start) % entries;
        let mut at = gap;
        loop {
            at = (at + 1) % entries;
            let entry = self.entries[at];
            if entry.slot == EMPTY {
                break;
            }
            if from(self.home(entry.key), at) >= from(gap, at) {
                self.entries[gap] = entry;
                gap = at;
            }
        }
        self.entries[gap] = Entry::EMPTY;
        self.len -= 1;
        Some(slot)
    }

    /// All entries, in no useful order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().filter(|e| e.slot != EMPTY).copied()
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
    #[inline]
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
        let entries = self.bounded((self.entries.len() * 6).div_ceil(5));
        let old = std::mem::replace(&mut self.entries, vec![Entry::EMPTY; entries]);
        for entry in old.into_iter().filter(|e| e.slot != EMPTY) {
            let place = self.place(entry.key);
            self.entries[place] = entry;
        }
    }

    /// So many entries, or no more than will be needed. Never fewer than there are: whoever has
    /// more rows than were foretold still finds room.
    fn bounded(&self, entries: usize) -> usize {
        if self.entries.len() < self.bound {
            entries.min(self.bound)
        } else {
            entries
        }
    }
}

impl Entry {
    const EMPTY: Self = Self {
        key: Key(0),
        slot: EMPTY,
        used: 0,
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
            steps in prop::collection::vec((0u64..300, prop::bool::weighted(0.7)), 0..900),
            shard_bits in 0u32..=12,
        ) {
            let mut index = Index::new(MAX_ROWS, shard_bits);
            let mut twin: BTreeMap<Key, (u32, u32)> = BTreeMap::new();
            for (now, (key, stays)) in (0u32..).zip(steps) {
                let key = Key(key);
                if stays {
                    let slot = index.slot_used(key, now);
                    prop_assert_eq!(slot, twin.get(&key).map(|row| row.0));
                    prop_assert_eq!(index.insert(key, now, now), slot.is_none());
                    twin.entry(key).or_insert((now, now)).1 = now;
                } else {
                    prop_assert_eq!(index.remove(key), twin.remove(&key).map(|row| row.0));
                }
            }
            prop_assert_eq!(index.len(), twin.len());
            let entries = index.iter().map(|e| (e.key, (e.slot, e.used)));
            prop_assert_eq!(entries.collect::<BTreeMap<_, _>>(), twin.clone());
            for key in (0..301).map(Key) {
                prop_assert_eq!(index.slot(key), twin.get(&key).map(|row| row.0));
            }
        }
    }

    fn filled(most: usize, rows: u32, shard_bits: u32) -> Index {
        let mut index = Index::new(most, shard_bits);
        for row in 0..rows {
            index.insert(Key(u64::from(row)), row, 0);
        }
        index
    }

    /// 24 bytes a row by the arithmetic above; rounding up adds at most one entry.
    #[test]
    fn a_row_costs_at_most_24_bytes_at_every_size() {
        let mut index = Index::new(MAX_ROWS, 8);
        for rows in 1..20_000u32 {
            index.insert(Key(u64::from(rows)), rows, 0);
            let allowed = (24 * rows as usize + 16).max(16 * SMALLEST);
            assert!(index.bytes() <= allowed, "{rows} rows, {}", index.bytes());
        }
        let mut restored = Index::new(MAX_ROWS, 8);
        restored.reserve(index.len());
        assert!(restored.bytes() <= 24 * index.len() + 16);
    }

    /// 16 : 4/5 bytes a row, rounded up to whole entries.
    #[test]
    fn where_rows_are_bounded_a_full_index_has_no_room_to_spare() {
        for most in [128usize, 1000, 4321] {
            let index = filled(most, u32::try_from(most).unwrap(), 8);
            assert_eq!(index.bytes(), 16 * (most * 5).div_ceil(4));
            let mut restored = Index::new(most, 8);
            restored.reserve(most);
            assert_eq!(restored.bytes(), index.bytes());
        }
    }

    /// With linear probing at a load of 4/5 a search that succeeds looks at
    /// (1 + 1 / (1 - 4/5)) / 2 = 3 entries (Knuth, volume 3, 6.4); were the shard's bits left in, it
    /// would look at thousands.
    #[test]
    fn keys_of_one_shard_spread_over_the_whole_index() {
        let count = ShardCount::new(256).unwrap();
        let shard = count.shard_of(Key(1));
        let mut index = Index::new(MAX_ROWS, count.bits());
        let keys = (0..).map(Key).filter(|&k| count.shard_of(k) == shard);
        for (key, slot) in keys.take(4000).zip(0..) {
            index.insert(key, slot, 0);
        }
        let entries = index.entries.len();
        let steps: usize = index
            .iter()
            .map(|e| (index.place(e.key) + entries - index.home(e.key)) % entries + 1)
            .sum();
        assert!(steps < 4 * index.len(), "{steps} for {} keys", index.len());
    }
}
