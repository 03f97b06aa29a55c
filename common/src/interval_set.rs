//! A set of numbers kept as ranges: the sources that a shard has completed.

use std::ops::Range;

use crate::error::Error;

/// A set of `u64` as ascending ranges that neither overlap nor touch.
///
/// Sources are completed nearly in order, so a shard's set has few ranges (at most the open sources
/// and one); inserting costs a binary search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntervalSet {
    ranges: Vec<Range<u64>>,
}

impl IntervalSet {
    /// Takes ranges that came from outside.
    ///
    /// # Errors
    /// [`Error::Intervals`] when a range is empty, or they do not ascend with gaps between them.
    pub fn from_ranges(ranges: Vec<Range<u64>>) -> Result<Self, Error> {
        let apart = ranges.windows(2).all(|w| w[0].end < w[1].start);
        if apart && ranges.iter().all(|r| r.start < r.end) {
            Ok(Self { ranges })
        } else {
            Err(Error::Intervals)
        }
    }

    /// All numbers below `end`.
    #[must_use]
    pub fn below(end: u64) -> Self {
        Self {
            ranges: std::iter::once(0..end).filter(|r| !r.is_empty()).collect(),
        }
    }

    /// The ranges, ascending.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// True without numbers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many numbers there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|r| r.end - r.start).sum()
    }

    /// Whether `n` is in the set.
    #[must_use]
    pub fn contains(&self, n: u64) -> bool {
        let after = self.ranges.partition_point(|r| r.start <= n);
        after > 0 && n < self.ranges[after - 1].end
    }

    /// Adds `n` and joins the ranges that it touches. `n` is below `u64::MAX`.
    pub fn insert(&mut self, n: u64) {
        debug_assert!(n < u64::MAX, "a source's number is below 2^64 - 1");
        if self.contains(n) {
            return;
        }
        let at = self.ranges.partition_point(|r| r.start <= n);
        let joins_left = at > 0 && self.ranges[at - 1].end == n;
        let joins_right = at < self.ranges.len() && self.ranges[at].start == n + 1;
        match (joins_left, joins_right) {
            (true, true) => {
                self.ranges[at - 1].end = self.ranges[at].end;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1].end = n + 1,
            (false, true) => self.ranges[at].start = n,
            (false, false) => self.ranges.insert(at, n..n + 1),
        }
    }

    /// The numbers that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut a, mut b) = (
            self.ranges.iter().peekable(),
            other.ranges.iter().peekable(),
        );
        let mut ranges = Vec::new();
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            let both = x.start.max(y.start)..x.end.min(y.end);
            if both.start < both.end {
                ranges.push(both);
            }
            if x.end < y.end {
                a.next();
            } else {
                b.next();
            }
        }
        Self { ranges }
    }

    /// The numbers that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = [self.ranges.as_slice(), &other.ranges].concat();
        all.sort_unstable_by_key(|range| range.start);
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(all.len());
        for range in all {
            match ranges.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => ranges.push(range),
            }
        }
        Self { ranges }
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
            a in prop::collection::vec(0u64..40, 0..40),
            b in prop::collection::vec(0u64..40, 0..40),
        ) {
            let build = |numbers: &[u64]| {
                let mut set = IntervalSet::default();
                numbers.iter().for_each(|&n| set.insert(n));
                set
            };
            let (x, y) = (build(&a), build(&b));
            let (p, q): (BTreeSet<_>, BTreeSet<_>) =
                (a.iter().copied().collect(), b.iter().copied().collect());
            prop_assert_eq!(x.len(), p.len() as u64);
            for n in 0..41 {
                prop_assert_eq!(x.contains(n), p.contains(&n));
                prop_assert_eq!(
                    x.intersection(&y).contains(n),
                    p.contains(&n) && q.contains(&n)
                );
                prop_assert_eq!(x.union(&y).contains(n), p.contains(&n) || q.contains(&n));
            }
            prop_assert_eq!(IntervalSet::from_ranges(x.ranges().to_vec()).unwrap(), x.clone());
            for set in [x.intersection(&y), x.union(&y)] {
                prop_assert!(IntervalSet::from_ranges(set.ranges().to_vec()).is_ok());
            }
        }
    }

    #[test]
    fn ranges_that_touch_are_refused() {
        assert!(matches!(
            IntervalSet::from_ranges(vec![0..2, 2..3]),
            Err(Error::Intervals)
        ));
        assert!(matches!(
            IntervalSet::from_ranges(std::iter::once(3..3).collect()),
            Err(Error::Intervals)
        ));
    }
}
