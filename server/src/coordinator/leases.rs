//! Who holds what, and until when. Leases save work; they never decide what counts.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use windlass_common::id::{LeaseId, SourceId, WorkerId};

/// How many leases that ran out are remembered, so that work which comes back late still counts in
/// the metrics.
const REMEMBERED: usize = 4096;

/// What is leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A source of an epoch.
    Train(SourceId),
    /// A split of a board.
    Score {
        /// The board's number.
        board: u32,
        /// The split's place on it.
        index: u32,
    },
    /// The storage task of the job's phase.
    Storage,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    worker: WorkerId,
    work: Work,
    until: Duration,
}

/// What a lease that is given back was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Returned {
    /// What was leased.
    pub(super) work: Work,
    /// False if the lease had run out before.
    pub(super) in_time: bool,
}

/// The leases of one job. Every operation on one lease costs O(log leases).
#[derive(Debug, Default)]
pub(super) struct Leases {
    live: BTreeMap<LeaseId, Lease>,
    by_end: BTreeSet<(Duration, LeaseId)>,
    training: usize,
    /// Leases on training splits, by who has them.
    trainers: BTreeMap<WorkerId, usize>,
    late: BTreeMap<LeaseId, Work>,
    late_order: VecDeque<LeaseId>,
}

impl Leases {
    /// Grants a lease.
    pub(super) fn grant(&mut self, id: LeaseId, worker: WorkerId, work: Work, until: Duration) {
        if let Work::Train(_) = work {
            self.training += 1;
            *self.trainers.entry(worker).or_default() += 1;
        }
        self.by_end.insert((until, id));
        let lease = Lease {
            worker,
            work,
            until,
        };
        self.live.insert(id, lease);
    }

    /// Lets a worker's lease last longer; `false` if it is not there any more.
    pub(super) fn renew(&mut self, id: LeaseId, worker: WorkerId, until: Duration) -> bool {
        let Some(lease) = self.live.get_mut(&id).filter(|l| l.worker == worker) else {
            return false;
        };
        self.by_end.remove(&(lease.until, id));
        lease.until = until;
        self.by_end.insert((until, id));
        true
    }

    /// Ends a lease that its worker gives back; `None` for one that never was, or was given back.
    pub(super) fn give_back(&mut self, id: LeaseId, worker: WorkerId) -> Option<Returned> {
        if self.live.get(&id).is_some_and(|l| l.worker == worker) {
            let work = self.end(id)?.work;
            return Some(Returned {
                work,
                in_time: true,
            });
        }
        let work = self.late.remove(&id)?;
        Some(Returned {
            work,
            in_time: false,
        })
    }

    /// Ends the leases that have run out by `now`.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<Work> {
        let mut ended = Vec::new();
        while let Some(&(until, id)) = self.by_end.first()
            && until <= now
        {
            let Some(lease) = self.end(id) else { break };
            ended.push(lease.work);
            self.late.insert(id, lease.work);
            self.late_order.push_back(id);
            if self.late_order.len() > REMEMBERED
                && let Some(oldest) = self.late_order.pop_front()
            {
                self.late.remove(&oldest);
            }
        }
        ended
    }

    /// Ends all leases of a worker that leaves. Costs O(leases); leaving is rare.
    pub(super) fn end_all_of(&mut self, worker: WorkerId) -> Vec<Work> {
        let of_worker = self.live.iter().filter(|(_, l)| l.worker == worker);
        let ids: Vec<LeaseId> = of_worker.map(|(&id, _)| id).collect();
        ids.into_iter()
            .filter_map(|id| Some(self.end(id)?.work))
            .collect()
    }

    /// Ends all leases: what was leased is to be undone.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// How many leases on training splits there are.
    pub(super) fn training(&self) -> usize {
        self.training
    }

    /// Whether a worker has a training split that it has not given back.
    pub(super) fn is_training(&self, worker: WorkerId) -> bool {
        self.trainers.contains_key(&worker)
    }

    fn end(&mut self, id: LeaseId) -> Option<Lease> {
        let lease = self.live.remove(&id)?;
        if let Work::Train(_) = lease.work {
            self.training -= 1;
            if let Entry::Occupied(mut count) = self.trainers.entry(lease.worker) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        self.by_end.remove(&(lease.until, id));
        Some(lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: WorkerId = WorkerId(1);
    const B: WorkerId = WorkerId(2);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn train(source: u64) -> Work {
        Work::Train(SourceId(source))
    }

    #[test]
    fn a_lease_that_is_renewed_outlives_one_that_is_not() {
        let mut leases = Leases::default();
        leases.grant(LeaseId(1), A, train(1), at(10));
        leases.grant(LeaseId(2), A, train(2), at(10));
        assert!(leases.renew(LeaseId(1), A, at(20)));
        assert!(!leases.renew(LeaseId(1), B, at(30)));
        assert_eq!(leases.expire(at(10)), [train(2)]);
        assert_eq!(leases.expire(at(19)), []);
        assert_eq!(leases.training(), 1);
        assert_eq!(leases.expire(at(20)), [train(1)]);
        assert!(!leases.renew(LeaseId(1), A, at(30)));
    }

    #[test]
    fn a_lease_is_given_back_once_by_its_worker_also_late() {
        let mut leases = Leases::default();
        leases.grant(LeaseId(1), A, train(1), at(10));
        assert_eq!(leases.give_back(LeaseId(1), B), None);
        leases.expire(at(10));
        let late = Returned {
            work: train(1),
            in_time: false,
        };
        assert_eq!(leases.give_back(LeaseId(1), A), Some(late));
        assert_eq!(leases.give_back(LeaseId(1), A), None);
    }

    #[test]
    fn late_leases_are_forgotten_when_there_are_too_many() {
        let mut leases = Leases::default();
        for i in 0..=REMEMBERED as u64 {
            leases.grant(LeaseId(i), A, train(i), at(i));
        }
        leases.expire(at(REMEMBERED as u64));
        assert_eq!(leases.give_back(LeaseId(0), A), None);
        assert!(leases.give_back(LeaseId(1), A).is_some());
        assert!(leases.late.len() <= REMEMBERED);
    }

    #[test]
    fn a_worker_that_leaves_holds_nothing() {
        let mut leases = Leases::default();
        leases.grant(LeaseId(1), A, train(1), at(10));
        leases.grant(LeaseId(2), B, train(2), at(10));
        assert_eq!(leases.end_all_of(A), [train(1)]);
        assert!(!leases.renew(LeaseId(1), A, at(20)) && leases.renew(LeaseId(2), B, at(20)));
    }
}
