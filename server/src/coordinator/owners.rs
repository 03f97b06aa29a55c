//! Which server owns which shard of a job, and as which assignment.

use std::collections::BTreeMap;

use windlass_common::id::{Incarnation, ServerId, ShardId};
use windlass_common::shard::ShardCount;

/// The owner of each shard; empty until enough servers have joined.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Owners(Vec<(ServerId, Incarnation)>);

impl Owners {
    /// Takes what an earlier life of the role knew.
    pub(super) fn known(owners: Vec<(ServerId, Incarnation)>) -> Self {
        Self(owners)
    }

    /// Gives the shards to the servers in contiguous blocks whose sizes differ by at most one.
    pub(super) fn assign(shards: ShardCount, servers: &[ServerId], as_of: Incarnation) -> Self {
        let of = |shard: ShardId| servers[usize::from(shard.0) * servers.len() / shards.len()];
        Self(shards.all().map(|s| (of(s), as_of)).collect())
    }

    /// True before the first assignment.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The owner of each shard, in the shards' order.
    pub(super) fn as_slice(&self) -> &[(ServerId, Incarnation)] {
        &self.0
    }

    /// The owner of a shard.
    pub(super) fn of(&self, shard: ShardId) -> Option<(ServerId, Incarnation)> {
        self.0.get(usize::from(shard.0)).copied()
    }

    /// A server's shards.
    pub(super) fn held_by(
        &self,
        server: ServerId,
    ) -> impl Iterator<Item = (ShardId, Incarnation)> + '_ {
        (0u16..)
            .zip(&self.0)
            .filter(move |(_, owner)| owner.0 == server)
            .map(|(shard, owner)| (ShardId(shard), owner.1))
    }

    /// How many shards each server owns.
    pub(super) fn counts(&self) -> Vec<(ServerId, u32)> {
        let mut counts = BTreeMap::new();
        for &(server, _) in &self.0 {
            *counts.entry(server).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    /// C3: takes a server's claim on a shard if it is as of a later map than what is known.
    pub(super) fn adopt(&mut self, server: ServerId, shard: ShardId, as_of: Incarnation) -> bool {
        let owner = self.0.get_mut(usize::from(shard.0));
        let later = owner.filter(|owner| owner.1.epoch < as_of.epoch);
        match later {
            Some(owner) => {
                *owner = (server, as_of);
                true
            }
            None => false,
        }
    }

    /// C1: gives a server's shards to it anew and tells which they are. What was reported of them
    /// counts no more.
    pub(super) fn renew(&mut self, server: ServerId, as_of: Incarnation) -> Vec<ShardId> {
        let shards: Vec<_> = self.held_by(server).map(|(shard, _)| shard).collect();
        for shard in &shards {
            self.0[usize::from(shard.0)].1 = as_of;
        }
        shards
    }

    /// Gives every shard to its owner anew.
    pub(super) fn renew_all(&mut self, as_of: Incarnation) {
        self.0.iter_mut().for_each(|owner| owner.1 = as_of);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use windlass_common::id::MapEpoch;

    use super::*;

    fn incarnation(epoch: u64) -> Incarnation {
        Incarnation {
            epoch: MapEpoch(epoch),
            nonce: 7,
        }
    }

    proptest! {
        #[test]
        fn blocks_are_contiguous_and_differ_by_at_most_one(bits in 0u32..9, servers in 1u32..20) {
            let count = ShardCount::new(1 << bits).unwrap();
            let ids: Vec<_> = (0..servers).map(ServerId).collect();
            let owners = Owners::assign(count, &ids, incarnation(1));
            prop_assert!(owners.as_slice().is_sorted_by_key(|o| o.0));
            let sizes: Vec<_> = ids.iter().map(|&s| owners.held_by(s).count()).collect();
            prop_assert_eq!(sizes.iter().sum::<usize>(), count.len());
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn c1_a_restart_renews_that_servers_shards_only() {
        let count = ShardCount::new(4).unwrap();
        let mut owners = Owners::assign(count, &[ServerId(0), ServerId(1)], incarnation(1));
        assert_eq!(
            owners.renew(ServerId(1), incarnation(2)),
            [ShardId(2), ShardId(3)]
        );
        assert_eq!(owners.of(ShardId(1)), Some((ServerId(0), incarnation(1))));
        assert_eq!(owners.of(ShardId(2)), Some((ServerId(1), incarnation(2))));
        assert_eq!(owners.of(ShardId(4)), None);
    }
}
