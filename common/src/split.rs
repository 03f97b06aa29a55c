//! How input files are cut into splits, and in which order an epoch visits them.

use serde::{Deserialize, Serialize};

use crate::id::{Epoch, SourceId};
use crate::key::mix64;

/// An input file as every worker must see it: the same bytes, wherever they lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// As the config's globs found it, relative to the config; only for messages.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of the content (see `data::input` of the worker for what is hashed of huge files).
    pub digest: [u8; 32],
    /// Whether it can be cut: plain text can, a compressed file is one split.
    pub divisible: bool,
}

/// A piece of one input file.
///
/// It owns the lines that *begin* in `start..end`; the reader of `start > 0` skips the line that
/// began before it. `0..bytes` is the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Split {
    /// Which file, by its place in the recipe.
    pub file: u32,
    /// First byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

/// The most splits of one input, so that a mistaken size cannot fill the coordinator's memory.
pub const MAX_SPLITS: usize = 1 << 20;

/// Cuts files into splits of about `split_bytes`, in the files' order.
///
/// Pieces of one file differ by at most a byte. An empty file is one empty split.
#[must_use]
pub fn cut(files: &[InputFile], split_bytes: u64) -> Vec<Split> {
    let mut splits = Vec::new();
    for (file, input) in (0u32..).zip(files) {
        let pieces = if input.divisible {
            input.bytes.div_ceil(split_bytes.max(1)).max(1)
        } else {
            1
        };
        let at = |i: u64| {
            // In 128 bits: bytes x pieces may pass 2^64.
            u64::try_from(u128::from(input.bytes) * u128::from(i) / u128::from(pieces))
                .unwrap_or(input.bytes)
        };
        splits.extend((0..pieces).map(|i| Split {
            file,
            start: at(i),
            end: at(i + 1),
        }));
    }
    splits
}

/// The seeded order in which an epoch visits `count` splits: `order[i]` is the split of the epoch's
/// `i`-th source (rule N1: a pure function).
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the remainder is below i")]
pub fn order(seed: u64, epoch: Epoch, count: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count).collect();
    let mut draw = Draw::new(seed, &[u64::from(epoch.0)]);
    for i in (1..order.len()).rev() {
        order.swap(i, draw.below(i as u64 + 1) as usize);
    }
    order
}

/// The number of a source: base(generation) + epoch x splits + its index in the epoch's order.
#[must_use]
pub fn source(base: SourceId, epoch: Epoch, splits: u32, index: u32) -> SourceId {
    SourceId(base.0 + u64::from(epoch.0) * u64::from(splits) + u64::from(index))
}

/// Seeded random numbers for shuffles (SplitMix64): the same on every machine and for ever.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Starts a stream that depends on the seed and on each of `path`, in order.
    #[must_use]
    pub fn new(seed: u64, path: &[u64]) -> Self {
        Self(path.iter().fold(mix64(seed), |state, &p| {
            mix64(state ^ mix64(p.wrapping_add(1)))
        }))
    }

    /// Draws 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.0)
    }

    /// Draws from `0..n` by range reduction (Lemire 2019, without the rejection: its bias is below
    /// n / 2^64).
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(bytes: u64, divisible: bool) -> InputFile {
        InputFile {
            name: "x".into(),
            bytes,
            digest: [0; 32],
            divisible,
        }
    }

    proptest! {
        #[test]
        fn splits_tile_every_file(
            sizes in prop::collection::vec((0u64..1000, any::<bool>()), 1..5),
            split_bytes in 1u64..300,
        ) {
            let files: Vec<_> = sizes.iter().map(|&(b, d)| file(b, d)).collect();
            let splits = cut(&files, split_bytes);
            for (i, f) in (0u32..).zip(&files) {
                let of: Vec<_> = splits.iter().filter(|s| s.file == i).collect();
                prop_assert_eq!(of[0].start, 0);
                prop_assert_eq!(of[of.len() - 1].end, f.bytes);
                prop_assert!(of.windows(2).all(|w| w[0].end == w[1].start));
                prop_assert!(!f.divisible || of.iter().all(|s| s.end - s.start <= split_bytes));
                prop_assert!(f.divisible || of.len() == 1);
            }
        }

        #[test]
        fn an_order_is_a_permutation(seed: u64, epoch: u32, count in 1u32..200) {
            let mut order = order(seed, Epoch(epoch), count);
            order.sort_unstable();
            prop_assert_eq!(order, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn n1_epochs_differ_and_repeat() {
        assert_eq!(order(1, Epoch(0), 50), order(1, Epoch(0), 50));
        assert_ne!(order(1, Epoch(0), 50), order(1, Epoch(1), 50));
        assert_ne!(order(1, Epoch(0), 50), order(2, Epoch(0), 50));
        assert_eq!(source(SourceId(100), Epoch(2), 9, 4), SourceId(122));
    }
}
