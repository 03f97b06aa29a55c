//! Which rows were changed since a copy was taken: a bit a row.

/// A set of slots. An eighth of a byte a row, however few are in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    words: Vec<u64>,
    len: usize,
}

impl Touched {
    /// Adds a slot.
    pub(super) fn add(&mut self, slot: u32) {
        let (word, bit) = (slot as usize / 64, 1u64 << (slot % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.len += usize::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    /// Whether a slot is in the set.
    pub(super) fn has(&self, slot: u32) -> bool {
        let word = self.words.get(slot as usize / 64);
        word.is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    /// Adds all slots of another set.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.len = 0;
        for (i, word) in self.words.iter_mut().enumerate() {
            *word |= other.words.get(i).copied().unwrap_or_default();
            self.len += word.count_ones() as usize;
        }
    }

    /// How many slots there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The memory of the bits.
    pub(super) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_plain_set(
            a in prop::collection::vec(0u32..300, 0..80),
            b in prop::collection::vec(0u32..300, 0..80),
        ) {
            let of = |slots: &[u32]| {
                let mut touched = Touched::default();
                slots.iter().for_each(|&slot| touched.add(slot));
                touched
            };
            let mut all = of(&a);
            prop_assert_eq!(all.len(), a.iter().collect::<BTreeSet<_>>().len());
            all.merge(&of(&b));
            let twin: BTreeSet<u32> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(all.len(), twin.len());
            for slot in 0..400 {
                prop_assert_eq!(all.has(slot), twin.contains(&slot));
            }
        }
    }
}
