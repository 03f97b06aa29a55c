//! A batch's distinct keys, grouped by shard, and for each feature the row that it will pull.

use std::sync::Arc;

use windlass_common::batch::Batch;
use windlass_common::key::Key;
use windlass_common::shard::{ShardCount, ShardedKeys};

/// A batch that knows what it pulls.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The examples.
    pub batch: Batch,
    /// Their distinct keys, and [`Key::BIAS`] where the model reads it, grouped by shard.
    pub keys: Arc<ShardedKeys>,
    /// For each feature of the batch, the place of its key in `keys.keys()`: `[features]`.
    pub rows: Vec<u32>,
    /// The place of [`Key::BIAS`], where the model reads it.
    pub bias: Option<u32>,
}

/// Prepares batches, with scratch memory that is reused.
///
/// The keys of a shard are in the order in which they first occur, so the result depends on the
/// batch alone.
#[derive(Clone, Debug)]
pub struct Preparer {
    shards: ShardCount,
    bias: bool,
    /// An open-addressing table of the distinct keys, at most half full; a power of two of slots.
    slots: Vec<Slot>,
    /// The number of the batch, which marks the slots that are taken: nothing is cleared between
    /// batches.
    round: u32,
    distinct: Vec<Key>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: Key,
    round: u32,
    place: u32,
}

impl Preparer {
    /// Prepares batches of a job with so many shards; `bias` says whether its model reads the row of
    /// [`Key::BIAS`].
    #[must_use]
    pub fn new(shards: ShardCount, bias: bool) -> Self {
        Self {
            shards,
            bias,
            slots: Vec::new(),
            round: 0,
            distinct: Vec::new(),
        }
    }

    /// Finds the distinct keys of a batch. Expected cost: a probe or two a feature.
    pub fn prepare(&mut self, batch: Batch) -> Prepared {
        self.begin(batch.keys.len() + 1);
        let bias = self.bias.then(|| self.place(Key::BIAS));
        let mut rows: Vec<u32> = batch.keys.iter().map(|&key| self.place(key)).collect();
        let (keys, places) = ShardedKeys::group(&self.distinct, self.shards);
        for row in &mut rows {
            *row = places[*row as usize];
        }
        Prepared {
            batch,
            keys: Arc::new(keys),
            rows,
            bias: bias.map(|bias| places[bias as usize]),
        }
    }

    /// Makes room for so many keys, and forgets the last batch's.
    fn begin(&mut self, keys: usize) {
        self.distinct.clear();
        let slots = (2 * keys).next_power_of_two();
        self.round = self.round.wrapping_add(1);
        if self.slots.len() < slots || self.round == 0 {
            let slots = slots.max(self.slots.len());
            self.slots.clear();
            self.slots.resize(slots, Slot::default());
            self.round = 1;
        }
    }

    /// The place of a key among the distinct ones, where it is put if it is new.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a batch has fewer than 2^32 features, and the mask is below the slots' number"
    )]
    fn place(&mut self, key: Key) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = key.mix() as usize & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.round != self.round {
                *slot = Slot {
                    key,
                    round: self.round,
                    place: self.distinct.len() as u32,
                };
                self.distinct.push(key);
                return slot.place;
            }
            if slot.key == key {
                return slot.place;
            }
            at = (at + 1) & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn batch(keys: &[u64]) -> Batch {
        let mut batch = Batch::default();
        for &key in keys {
            batch.push_feature(0, Key(key), 1.0);
        }
        batch.finish_example(1.0, 1.0);
        batch
    }

    proptest! {
        #[test]
        fn a_batch_is_prepared_as_a_plain_map_would(
            batches in prop::collection::vec(
                prop::collection::vec(prop_oneof![0u64..20, any::<u64>()], 0..200), 1..5),
            bits in 0u32..13, bias: bool,
        ) {
            let shards = ShardCount::new(1 << bits).unwrap();
            let mut preparer = Preparer::new(shards, bias);
            for keys in &batches {
                let prepared = preparer.prepare(batch(keys));
                let mut first: BTreeMap<Key, usize> = bias.then_some((Key::BIAS, 0)).into_iter().collect();
                for (i, &key) in keys.iter().enumerate() {
                    first.entry(Key(key)).or_insert(i + 1);
                }
                let mut expected: Vec<_> = first.iter().map(|(&key, &i)| (i, key)).collect();
                expected.sort_unstable();
                expected.sort_by_key(|&(_, key)| shards.shard_of(key));
                let expected: Vec<_> = expected.into_iter().map(|(_, key)| key).collect();
                prop_assert_eq!(prepared.keys.keys(), expected.as_slice());
                let at = |row: u32| prepared.keys.keys()[row as usize].0;
                prop_assert_eq!(&prepared.rows.iter().map(|&r| at(r)).collect::<Vec<_>>(), keys);
                prop_assert_eq!(prepared.bias.map(at), bias.then_some(Key::BIAS.0));
                prop_assert_eq!(&prepared.batch, &batch(keys));
            }
        }
    }

    #[test]
    fn scratch_memory_survives_the_wrap_of_its_round() {
        let mut preparer = Preparer::new(ShardCount::default(), true);
        let expected = preparer.prepare(batch(&[5, 6, 5])).rows;
        preparer.round = u32::MAX;
        assert_eq!(preparer.prepare(batch(&[5, 6, 5])).rows, expected);
        assert_eq!(preparer.round, 1);
    }
}
