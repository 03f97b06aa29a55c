//! Which shard a key lives in, and batches of keys grouped by shard.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::id::ShardId;
use crate::key::Key;

/// How many shards a job has: a power of two in `1..=4096`, fixed for the job's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct ShardCount(u32);

impl ShardCount {
    /// The largest count; a push names its shards, so each costs a few bytes a push.
    pub const MAX: u32 = 4096;

    /// Accepts a power of two in `1..=4096`.
    ///
    /// # Errors
    /// [`Error::ShardCount`] for any other number.
    pub fn new(count: u32) -> Result<Self, Error> {
        if count.is_power_of_two() && count <= Self::MAX {
            Ok(Self(count))
        } else {
            Err(Error::ShardCount { count })
        }
    }

    /// The count as a length.
    #[must_use]
    pub fn len(self) -> usize {
        self.0 as usize
    }

    /// Never true: there is at least one shard.
    #[must_use]
    pub fn is_empty(self) -> bool {
        false
    }

    /// How many top bits of a mixed key choose the shard.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0.trailing_zeros()
    }

    /// The shard of a key: the top bits of its mix, so the count of servers never matters.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 12 bits are left")]
    pub fn shard_of(self, key: Key) -> ShardId {
        // A shift by 64 would overflow, so one shard is asked for in two steps.
        ShardId(((key.mix() >> 1) >> (63 - self.bits())) as u16)
    }

    /// All shards in order.
    pub fn all(self) -> impl Iterator<Item = ShardId> {
        #[expect(clippy::cast_possible_truncation, reason = "at most 4096")]
        (0..self.0).map(|s| ShardId(s as u16))
    }
}

impl Default for ShardCount {
    fn default() -> Self {
        Self(256)
    }
}

impl TryFrom<u32> for ShardCount {
    type Error = Error;
    fn try_from(count: u32) -> Result<Self, Error> {
        Self::new(count)
    }
}

impl From<ShardCount> for u32 {
    fn from(count: ShardCount) -> u32 {
        count.0
    }
}

/// Distinct keys grouped by shard.
///
/// The keys of `shards[i]` are `keys[offsets[i]..offsets[i + 1]]`; shards ascend strictly, and
/// within a shard the order is the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardedKeys {
    count: ShardCount,
    shards: Vec<ShardId>,
    offsets: Vec<u32>,
    keys: Vec<Key>,
}

impl ShardedKeys {
    /// Groups distinct keys by shard with one counting sort.
    ///
    /// Returns the groups, and for each key of the input its place in them.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a batch has fewer than 2^32 keys"
    )]
    pub fn group(keys: &[Key], count: ShardCount) -> (Self, Vec<u32>) {
        let mut starts = vec![0u32; count.len() + 1];
        let of: Vec<u16> = keys.iter().map(|&k| count.shard_of(k).0).collect();
        for &s in &of {
            starts[usize::from(s) + 1] += 1;
        }
        for s in 0..count.len() {
            starts[s + 1] += starts[s];
        }
        let filled: Vec<usize> = (0..count.len())
            .filter(|&s| starts[s] != starts[s + 1])
            .collect();
        let shards = filled.iter().map(|&s| ShardId(s as u16)).collect();
        let mut offsets: Vec<u32> = filled.iter().map(|&s| starts[s]).collect();
        offsets.push(keys.len() as u32);
        let mut grouped = vec![Key::default(); keys.len()];
        let mut places = vec![0u32; keys.len()];
        for ((&key, &s), place) in keys.iter().zip(&of).zip(&mut places) {
            let next = &mut starts[usize::from(s)];
            grouped[*next as usize] = key;
            *place = *next;
            *next += 1;
        }
        (
            Self {
                count,
                shards,
                offsets,
                keys: grouped,
            },
            places,
        )
    }

    /// Takes groups that came from outside.
    ///
    /// # Errors
    /// [`Error::ShardedKeys`] when shards do not ascend strictly, the offsets are not
    /// `0, ..., keys.len()` ascending, or a key does not belong to the shard that lists it.
    pub fn from_parts(
        shards: Vec<ShardId>,
        offsets: Vec<u32>,
        keys: Vec<Key>,
        count: ShardCount,
    ) -> Result<Self, Error> {
        let wrong = |rule| Err(Error::ShardedKeys { rule });
        if shards.windows(2).any(|w| w[0] >= w[1]) {
            return wrong("shards ascend strictly");
        }
        if offsets.len() != shards.len() + 1
            || offsets[0] != 0
            || offsets[shards.len()] as usize != keys.len()
            || offsets.windows(2).any(|w| w[0] > w[1])
        {
            return wrong("offsets ascend from 0 to the number of keys");
        }
        let groups = Self {
            count,
            shards,
            offsets,
            keys,
        };
        if groups
            .iter()
            .any(|(shard, keys)| keys.iter().any(|&k| count.shard_of(k) != shard))
        {
            return wrong("a key is listed under its own shard");
        }
        Ok(groups)
    }

    /// The count of shards by which the keys are grouped; whoever holds the job's rows checks that
    /// it is the job's.
    #[must_use]
    pub fn count(&self) -> ShardCount {
        self.count
    }

    /// The shards that have keys (or are listed without any), ascending.
    #[must_use]
    pub fn shards(&self) -> &[ShardId] {
        &self.shards
    }

    /// Where each shard's keys begin, and at the end their total.
    #[must_use]
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// All keys, shard after shard.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True without keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Which of `keys()` belong to the `i`-th listed shard.
    #[must_use]
    pub fn range(&self, i: usize) -> std::ops::Range<usize> {
        self.offsets[i] as usize..self.offsets[i + 1] as usize
    }

    /// The listed shards, each with its keys.
    pub fn iter(&self) -> impl Iterator<Item = (ShardId, &[Key])> {
        self.shards
            .iter()
            .enumerate()
            .map(|(i, &s)| (s, &self.keys[self.range(i)]))
    }

    /// Takes the shards that `keep` accepts, with the ranges of `keys()` that they came from.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "no longer than what it is taken from"
    )]
    pub fn select(&self, keep: impl Fn(ShardId) -> bool) -> (Self, Vec<std::ops::Range<usize>>) {
        let mut out = Self {
            count: self.count,
            ..Self::default()
        };
        let mut ranges = Vec::new();
        for (i, &shard) in self.shards.iter().enumerate().filter(|&(_, &s)| keep(s)) {
            out.shards.push(shard);
            out.keys.extend_from_slice(&self.keys[self.range(i)]);
            out.offsets.push(out.keys.len() as u32);
            ranges.push(self.range(i));
        }
        (out, ranges)
    }

    /// Takes the keys in a range of `keys()`.
    ///
    /// Shards without keys in it are left out, but a shard that is listed without any belongs to the
    /// slice that its place falls in: slices that tile the keys tile the listed shards too.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "no longer than what it is taken from"
    )]
    pub fn slice(&self, keys: std::ops::Range<usize>) -> Self {
        let last = keys.end == self.len();
        let mut out = Self {
            count: self.count,
            keys: self.keys[keys.clone()].to_vec(),
            ..Self::default()
        };
        for (i, &shard) in self.shards.iter().enumerate() {
            let of = self.range(i);
            let both = of.start.max(keys.start)..of.end.min(keys.end);
            let at = of.start;
            let listed_here =
                of.is_empty() && at >= keys.start && (at < keys.end || (last && at == keys.end));
            if !both.is_empty() || listed_here {
                out.shards.push(shard);
                out.offsets.push((both.end - keys.start) as u32);
            }
        }
        out
    }
}

impl Default for ShardedKeys {
    fn default() -> Self {
        Self {
            count: ShardCount::default(),
            shards: Vec::new(),
            offsets: vec![0],
            keys: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_tile_keys_and_listed_shards() {
        let count = ShardCount::new(4096).unwrap();
        let keys: Vec<Key> = (0..50).map(Key).collect();
        let (filled, _) = ShardedKeys::group(&keys, count);
        // Lists every shard, most of them without keys.
        let mut offsets = vec![0u32];
        let mut groups = filled.iter().peekable();
        for shard in count.all() {
            let keys = groups
                .next_if(|(s, _)| *s == shard)
                .map_or(0, |(_, k)| k.len());
            offsets.push(offsets[offsets.len() - 1] + u32::try_from(keys).unwrap());
        }
        let listed = filled.keys().to_vec();
        let whole = ShardedKeys::from_parts(count.all().collect(), offsets, listed, count).unwrap();
        for step in [1, 7, 50] {
            let slices: Vec<_> = (0..50)
                .step_by(step)
                .map(|i| whole.slice(i..50.min(i + step)))
                .collect();
            let keys: Vec<Key> = slices.iter().flat_map(|s| s.keys()).copied().collect();
            assert_eq!(keys, whole.keys());
            // A shard whose keys two slices share is listed in both.
            let mut shards: Vec<ShardId> =
                slices.iter().flat_map(|s| s.shards()).copied().collect();
            shards.dedup();
            assert_eq!(shards, whole.shards());
            for slice in slices {
                let (shards, offsets) = (slice.shards().to_vec(), slice.offsets().to_vec());
                let again = ShardedKeys::from_parts(shards, offsets, slice.keys().to_vec(), count);
                assert_eq!(again.unwrap(), slice);
            }
        }
    }
}
