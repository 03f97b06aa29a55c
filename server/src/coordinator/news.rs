//! What workers that have nothing to do wait for, so that they are told when it comes.

use std::mem::{Discriminant, discriminant};

use windlass_common::id::{JobId, Lineage, WorkerId};

use super::job::Job;
use super::phase::Phase;
use super::role::Coordinator;

/// A moment of a job, as far as it decides whether there is a task for somebody who was told to
/// wait. Cheap to make, so that it can be compared after every question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct News {
    phase: Discriminant<Phase>,
    /// Which epochs are wanted, which scoring it is, and which life of the state.
    round: (u32, u32, Lineage),
    gains: [bool; 8],
}

impl News {
    /// Whether there may be a task now for somebody for whom there was none `before`. What has been
    /// taken by others since is no news.
    pub(super) fn is_more_than(&self, before: &Self) -> bool {
        let gained = |(now, then): (&bool, &bool)| *now && !then;
        (self.phase, self.round) != (before.phase, before.round)
            || self.gains.iter().zip(&before.gains).any(gained)
    }
}

impl Coordinator {
    /// What those who wait in a job wait for; `None` for a job that is gone.
    pub(super) fn news(&self, job: JobId) -> Option<News> {
        self.jobs.get(&job).map(Job::news)
    }

    /// Whether a worker has a training split of a job that it has not given back.
    pub(super) fn is_training(&self, job: JobId, worker: WorkerId) -> bool {
        let job = self.jobs.get(&job);
        job.is_some_and(|job| job.leases.is_training(worker))
    }
}

impl Job {
    fn news(&self) -> News {
        let (mut score, mut store) = (false, false);
        match &self.phase {
            Phase::Validating(board) | Phase::Testing(board) => score = board.has_open(),
            Phase::Storing(storing) => store = storing.is_free(),
            _ => {}
        }
        News {
            phase: discriminant(&self.phase),
            round: (self.target, self.boards, self.lineage),
            gains: [
                !self.owners.is_empty(),
                self.workers.count() >= self.plan.workers,
                self.sources.has_open(),
                self.sources.all_complete(),
                // The metrics of an epoch are in when nobody is at its splits any more.
                self.leases.training() == 0,
                // Whoever asks next is the keeper.
                self.workers.keeper().is_none(),
                score,
                store,
            ],
        }
    }
}
