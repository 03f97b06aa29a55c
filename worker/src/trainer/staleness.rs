//! How stale gradients are: updates that a shard saw between a batch's pull and its push.

use windlass_common::exchange::{Answer, Pushed};
use windlass_common::id::{Clock, ShardId};

/// Counts of staleness, one count for each (batch, shard) that the batch has rows in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staleness {
    counts: Vec<u64>,
}

/// Staler than this is counted as this: nobody tunes the difference, and memory stays bounded.
const HIGHEST: usize = 4096;

impl Staleness {
    /// Adds a batch: what its shards' clocks were at the pull, and before the push was applied.
    pub fn add(&mut self, pulled: &[(ShardId, Clock)], pushed: &Pushed) {
        let mut answers = pushed.answers.iter().peekable();
        for &(shard, clock) in pulled {
            // Both lists ascend by shard.
            while answers.next_if(|(s, _)| *s < shard).is_some() {}
            let Some((s, Answer::Applied { before })) = answers.peek() else {
                continue;
            };
            if *s == shard {
                self.count(before.0.saturating_sub(clock.0), 1);
            }
        }
    }

    /// Adds what another histogram has counted.
    pub fn merge(&mut self, other: &Self) {
        for (updates, &times) in (0u64..).zip(&other.counts) {
            self.count(updates, times);
        }
    }

    /// The staleness that a share `q` of the counts does not exceed; `None` without counts.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let total: u64 = self.counts.iter().sum();
        let mut left = (q * total as f64).ceil().max(1.0);
        for (updates, &times) in (0u64..).zip(&self.counts) {
            left -= times as f64;
            if times > 0 && left <= 0.0 {
                return Some(updates);
            }
        }
        None
    }

    fn count(&mut self, updates: u64, times: u64) {
        let at = usize::try_from(updates).unwrap_or(HIGHEST).min(HIGHEST);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += times;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shards_that_were_pulled_and_applied_count() {
        let pulled = [
            (ShardId(1), Clock(5)),
            (ShardId(3), Clock(7)),
            (ShardId(4), Clock(0)),
        ];
        let pushed = Pushed {
            answers: vec![
                (ShardId(0), Answer::Applied { before: Clock(100) }),
                (ShardId(1), Answer::Applied { before: Clock(5) }),
                (ShardId(3), Answer::Applied { before: Clock(10) }),
                (ShardId(4), Answer::Duplicate),
            ],
        };
        let mut staleness = Staleness::default();
        staleness.add(&pulled, &pushed);
        assert_eq!(staleness.counts, [1, 0, 0, 1]);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_list() {
        let mut staleness = Staleness::default();
        assert_eq!(staleness.quantile(0.5), None);
        (0..100).for_each(|updates| staleness.count(updates, 1));
        assert_eq!(staleness.quantile(0.5), Some(49));
        assert_eq!(staleness.quantile(0.99), Some(98));
        assert_eq!(staleness.quantile(0.0), Some(0));
        staleness.count(u64::MAX, 1000);
        assert_eq!(staleness.quantile(0.99), Some(4096));
    }
}
