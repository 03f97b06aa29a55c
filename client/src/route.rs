//! Which part of a request goes to which server.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use windlass_common::id::{Incarnation, ServerId, ShardId};
use windlass_common::shard::ShardedKeys;

/// One server's part of a request.
#[derive(Debug)]
pub(crate) struct Part {
    /// The server.
    pub(crate) server: ServerId,
    /// Those of the wanted shards that it owns, ascending; some may have no keys (rule S1).
    pub(crate) shards: Vec<ShardId>,
    /// For each set of the request what of it lies in `shards`; so a set's place stays the same.
    pub(crate) sets: Vec<Taken>,
}

/// What was taken of a set of keys, and where it was.
#[derive(Debug)]
pub(crate) struct Taken {
    /// The keys.
    pub(crate) keys: Arc<ShardedKeys>,
    /// Where they lie in the caller's set, in order.
    ranges: Vec<Range<usize>>,
    /// How many keys the caller's set has.
    of: usize,
}

/// Cuts a request by server: each wanted shard goes to its owner, with its keys of every set.
///
/// `wanted` ascends strictly and lies within `owners`, which are listed by shard.
pub(crate) fn partition(
    sets: &[Arc<ShardedKeys>],
    wanted: &[ShardId],
    owners: &[(ServerId, Incarnation)],
) -> Vec<Part> {
    debug_assert!(wanted.windows(2).all(|w| w[0] < w[1]));
    let mut by_server: BTreeMap<ServerId, Vec<ShardId>> = BTreeMap::new();
    for &shard in wanted {
        let (owner, _) = owners[usize::from(shard.0)];
        by_server.entry(owner).or_default().push(shard);
    }
    let part = |(server, shards): (_, Vec<ShardId>)| Part {
        server,
        sets: sets.iter().map(|set| Taken::new(set, &shards)).collect(),
        shards,
    };
    by_server.into_iter().map(part).collect()
}

impl Part {
    /// The sets of keys, as a request carries them.
    pub(crate) fn keys(&self) -> Vec<Arc<ShardedKeys>> {
        self.sets.iter().map(|set| Arc::clone(&set.keys)).collect()
    }
}

impl Taken {
    /// Takes the keys of `shards`, which ascend; a set that lies there as a whole is not copied.
    fn new(set: &Arc<ShardedKeys>, shards: &[ShardId]) -> Self {
        let mine = |shard| shards.binary_search(&shard).is_ok();
        let (keys, ranges) = if set.shards().iter().all(|&shard| mine(shard)) {
            (Arc::clone(set), std::iter::once(0..set.len()).collect())
        } else {
            let (keys, ranges) = set.select(mine);
            (Arc::new(keys), joined(ranges))
        };
        Self {
            keys,
            ranges,
            of: set.len(),
        }
    }

    /// Copies the rows of these keys out of rows for the caller's whole set.
    ///
    /// Shapes: `whole` is `[keys of the set, dim]`, the result `[keys, dim]`.
    pub(crate) fn gather(&self, whole: &[f32], dim: usize) -> Vec<f32> {
        let mut rows = Vec::with_capacity(self.keys.len() * dim);
        for range in &self.ranges {
            rows.extend_from_slice(&whole[range.start * dim..range.end * dim]);
        }
        rows
    }

    /// Puts the rows of these keys where they belong among rows for the caller's whole set.
    ///
    /// Shapes: `rows` is `[keys, dim]`; `whole` becomes `[keys of the set, dim]` when it was empty,
    /// and when nothing else is to come it becomes `rows` without a copy.
    pub(crate) fn scatter(&self, rows: Vec<f32>, dim: usize, whole: &mut Vec<f32>) {
        debug_assert_eq!(rows.len(), self.keys.len() * dim);
        if self.keys.len() == self.of {
            *whole = rows;
            return;
        }
        if whole.is_empty() {
            *whole = vec![0.0; self.of * dim];
        }
        let mut rest = rows.as_slice();
        for range in &self.ranges {
            let (head, tail) = rest.split_at(range.len() * dim);
            whole[range.start * dim..range.end * dim].copy_from_slice(head);
            rest = tail;
        }
    }
}

/// Joins ranges that touch: a server owns runs of shards, and a run is copied in one go.
fn joined(ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match runs.last_mut() {
            Some(run) if run.end == range.start => run.end = range.end,
            _ => runs.push(range),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use windlass_common::id::MapEpoch;
    use windlass_common::key::Key;
    use windlass_common::shard::ShardCount;

    use super::*;
    use crate::fake;

    fn grouped(keys: &BTreeSet<u64>, count: ShardCount) -> Arc<ShardedKeys> {
        let keys: Vec<Key> = keys.iter().map(|&k| Key(k)).collect();
        Arc::new(ShardedKeys::group(&keys, count).0)
    }

    /// A map of 2^n shards over up to five servers, and up to three sets of keys.
    fn cases() -> impl Strategy<Value = (Vec<u32>, Vec<BTreeSet<u64>>, Vec<bool>)> {
        (0u32..6).prop_flat_map(|bits| {
            let shards = 1usize << bits;
            (
                prop::collection::vec(0u32..5, shards),
                prop::collection::vec(prop::collection::btree_set(any::<u64>(), 0..60), 0..4),
                prop::collection::vec(any::<bool>(), shards),
            )
        })
    }

    proptest! {
        #[test]
        fn every_wanted_shard_goes_to_its_owner_once((owners, sets, want) in cases()) {
            let count = ShardCount::new(u32::try_from(owners.len()).unwrap()).unwrap();
            let map = fake::map(MapEpoch(1), &owners);
            let sets: Vec<_> = sets.iter().map(|s| grouped(s, count)).collect();
            let wanted: Vec<_> = count.all().filter(|s| want[usize::from(s.0)]).collect();
            let parts = partition(&sets, &wanted, &map.owners);

            let mut seen: Vec<ShardId> = parts.iter().flat_map(|p| p.shards.clone()).collect();
            seen.sort_unstable();
            prop_assert_eq!(&seen, &wanted);
            for part in &parts {
                prop_assert!(part.shards.is_sorted());
                for shard in &part.shards {
                    prop_assert_eq!(map.owners[usize::from(shard.0)].0, part.server);
                }
            }
            for (i, set) in sets.iter().enumerate() {
                let of_set = |p: &Part| p.sets[i].keys.iter().map(|(s, k)| (s, k.to_vec()))
                    .collect::<Vec<_>>();
                for part in &parts {
                    let theirs = of_set(part);
                    prop_assert!(theirs.iter().all(|(s, _)| part.shards.contains(s)));
                }
                let mut sent: Vec<_> = parts.iter().flat_map(of_set).collect();
                sent.sort();
                let asked: Vec<_> = set.iter().filter(|(s, _)| wanted.contains(s))
                    .map(|(s, k)| (s, k.to_vec())).collect();
                prop_assert_eq!(sent, asked);
            }
        }

        /// Each key's row is its own number, so a row in a wrong place shows.
        #[test]
        fn rows_find_their_way_out_and_back((owners, sets, _) in cases(), dim in 1usize..4) {
            let count = ShardCount::new(u32::try_from(owners.len()).unwrap()).unwrap();
            let map = fake::map(MapEpoch(1), &owners);
            let wanted: Vec<_> = count.all().collect();
            for set in sets.iter().map(|s| grouped(s, count)) {
                let row = |at: usize| (0..dim).map(move |d| (at * dim + d) as f32);
                let whole: Vec<f32> = (0..set.len()).flat_map(row).collect();
                let mut back = Vec::new();
                for part in partition(&[Arc::clone(&set)], &wanted, &map.owners) {
                    let taken = &part.sets[0];
                    let rows = taken.gather(&whole, dim);
                    for (key, got) in taken.keys.keys().iter().zip(rows.chunks_exact(dim)) {
                        let at = set.keys().iter().position(|k| k == key).unwrap();
                        prop_assert_eq!(got.to_vec(), row(at).collect::<Vec<_>>());
                    }
                    taken.scatter(rows, dim, &mut back);
                }
                prop_assert_eq!(back, whole);
            }
        }
    }

    #[test]
    fn a_server_that_owns_all_gets_the_set_itself() {
        let count = ShardCount::new(8).unwrap();
        let set = grouped(&(0..100).collect(), count);
        let wanted: Vec<_> = count.all().collect();
        let map = fake::map(MapEpoch(1), &[3; 8]);
        let parts = partition(&[Arc::clone(&set)], &wanted, &map.owners);
        assert_eq!(parts.len(), 1);
        assert!(Arc::ptr_eq(&parts[0].sets[0].keys, &set));
    }

    #[test]
    fn a_run_of_shards_is_one_range() {
        let count = ShardCount::new(8).unwrap();
        let set = grouped(&(0..200).collect(), count);
        let wanted: Vec<_> = count.all().collect();
        let map = fake::map(MapEpoch(1), &[0, 0, 0, 0, 1, 1, 1, 1]);
        for part in partition(&[set], &wanted, &map.owners) {
            assert_eq!(part.sets[0].ranges.len(), 1);
        }
    }
}
