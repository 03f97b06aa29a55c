//! Keys: how a feature becomes the 64-bit name of a row. Fixed for ever: checkpoints depend on it.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The name of a row.
///
/// A hashed feature is `XXH3_64(value, seed = XXH3_64(field name))`, which every language can
/// compute; an integer id of libsvm and libffm input is used as it is.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    bytemuck::Pod,
    bytemuck::Zeroable,
)]
#[repr(transparent)]
#[serde(transparent)]
pub struct Key(pub u64);

impl Key {
    /// The row of a model's global bias. Readers refuse it as an integer id.
    pub const BIAS: Key = Key(u64::MAX);

    /// Scrambles the key's bits (finalizer "mix13" of Stafford, as in SplitMix64; a bijection).
    ///
    /// The top bits choose the shard, the rest the place in its index.
    #[must_use]
    pub fn mix(self) -> u64 {
        mix64(self.0)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Scrambles 64 bits (D. Stafford's mix13: the finalizer of SplitMix64, Steele et al. 2014).
#[must_use]
pub fn mix64(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A field's part of the hash, computed once a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSeed(u64);

impl FieldSeed {
    /// Seeds the hash of one input column.
    #[must_use]
    pub fn new(field: &str) -> Self {
        Self(xxh3_64(field.as_bytes()))
    }

    /// Seeds the hash of a cross of columns, whose names are joined with the unit separator.
    #[must_use]
    pub fn cross(fields: &[String]) -> Self {
        Self::new(&fields.join("\u{1f}"))
    }

    /// Names the row of a categorical value, or of a bucket's number in decimal.
    #[must_use]
    pub fn value(self, value: &[u8]) -> Key {
        Key(xxh3_64_with_seed(value, self.0))
    }

    /// Names the row by which a numeric column's value is multiplied.
    #[must_use]
    pub fn number(self) -> Key {
        self.value(b"\x01")
    }

    /// Names the row that says that this column is missing.
    #[must_use]
    pub fn missing(self) -> Key {
        self.value(b"")
    }

    /// Names the row of a combination: the hash of its parts' keys, little-endian, in order.
    #[must_use]
    pub fn combination(self, parts: &[Key]) -> Key {
        let mut bytes = [0u8; 8 * Self::MAX_PARTS];
        let parts = &parts[..parts.len().min(Self::MAX_PARTS)];
        for (chunk, part) in bytes.chunks_exact_mut(8).zip(parts) {
            chunk.copy_from_slice(&part.0.to_le_bytes());
        }
        self.value(&bytes[..8 * parts.len()])
    }

    /// The most columns that a cross may have; configuration refuses more.
    pub const MAX_PARTS: usize = 8;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with the reference library's Python binding (`xxhash` 3, `xxh3_64_intdigest`).
    #[test]
    fn hashes_are_those_of_xxh3_for_ever() {
        let field = FieldSeed::new;
        assert_eq!(field("carrier").value(b"UA"), Key(0x14e6_e351_3253_5a00));
        assert_eq!(field("carrier").missing(), Key(0xe34c_1b96_4585_48df));
        assert_eq!(field("distance").number(), Key(0xe77d_2ec2_2ec8_c350));
        assert_eq!(field("C1").value(b"68fd1e64"), Key(0xbb7b_4148_340a_c23e));
        let cross = FieldSeed::cross(&["origin".into(), "dest".into()]);
        let parts = [field("origin").value(b"EWR"), field("dest").value(b"IAH")];
        assert_eq!(cross.combination(&parts), Key(0x1e61_8932_0aa4_48bd));
    }

    /// The first outputs of SplitMix64 for seed 1234567, as published with its reference code.
    #[test]
    fn the_mixer_is_that_of_splitmix64() {
        let gamma = 0x9e37_79b9_7f4a_7c15_u64;
        assert_eq!(
            mix64(1_234_567_u64.wrapping_add(gamma)),
            6_457_827_717_110_365_317
        );
        let second = 1_234_567_u64.wrapping_add(gamma.wrapping_mul(2));
        assert_eq!(mix64(second), 3_203_168_211_198_807_973);
    }
}
