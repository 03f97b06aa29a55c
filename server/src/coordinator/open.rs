//! Numbers that may be leased, lowest first.

use std::collections::BTreeMap;

use windlass_common::interval_set::IntervalSet;

/// A set of numbers as ranges in a tree: every operation costs O(log ranges), so that a lease never
/// costs a walk over an epoch's splits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Open {
    /// Start and end of ranges that neither overlap nor touch.
    ranges: BTreeMap<u64, u64>,
}

impl Open {
    /// The numbers below `limit` that are not in `taken`.
    pub(super) fn gaps(taken: &IntervalSet, limit: u64) -> Self {
        let mut ranges = BTreeMap::new();
        let mut at = 0;
        for range in taken.ranges().iter().take_while(|r| r.start < limit) {
            if at < range.start {
                ranges.insert(at, range.start);
            }
            at = range.end;
        }
        if at < limit {
            ranges.insert(at, limit);
        }
        Self { ranges }
    }

    /// The lowest number.
    pub(super) fn first(&self) -> Option<u64> {
        self.ranges.first_key_value().map(|(&start, _)| start)
    }

    /// Takes a number out, if it is there.
    pub(super) fn remove(&mut self, n: u64) {
        let Some((&start, &end)) = self.ranges.range(..=n).next_back() else {
            return;
        };
        if n >= end {
            return;
        }
        if start == n {
            self.ranges.remove(&start);
        } else {
            self.ranges.insert(start, n);
        }
        if n + 1 < end {
            self.ranges.insert(n + 1, end);
        }
    }

    /// Puts a number in and joins the ranges that it touches.
    pub(super) fn insert(&mut self, n: u64) {
        let before = self.ranges.range(..=n).next_back().map(|(&s, &e)| (s, e));
        let start = match before {
            Some((_, end)) if n < end => return,
            Some((start, end)) if n == end => start,
            _ => n,
        };
        let end = self.ranges.remove(&(n + 1)).unwrap_or(n + 1);
        self.ranges.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The plain twin: a set of numbers.
        #[test]
        fn behaves_like_a_plain_set(
            taken in prop::collection::btree_set(0u64..30, 0..30),
            limit in 0u64..30,
            steps in prop::collection::vec((any::<bool>(), 0u64..30), 0..60),
        ) {
            let mut set = IntervalSet::default();
            taken.iter().for_each(|&n| set.insert(n));
            let mut open = Open::gaps(&set, limit);
            let mut twin: BTreeSet<u64> = (0..limit).filter(|n| !taken.contains(n)).collect();
            for (put, n) in steps {
                if put {
                    open.insert(n);
                    twin.insert(n);
                } else {
                    open.remove(n);
                    twin.remove(&n);
                }
                prop_assert_eq!(open.first(), twin.first().copied());
                let numbers: Vec<u64> = open.ranges.iter().flat_map(|(&s, &e)| s..e).collect();
                prop_assert_eq!(numbers, twin.iter().copied().collect::<Vec<_>>());
                let ends = open.ranges.values().zip(open.ranges.keys().skip(1));
                prop_assert!(ends.into_iter().all(|(end, next)| end < next));
            }
        }
    }
}
