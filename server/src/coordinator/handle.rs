//! The coordinator as transports see it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_client::transport::{Answered, Control, Membership, Next};
use windlass_common::coordination::{
    Assigned, Progress, Register, Registered, Report, ShardMap, Task,
};
use windlass_common::id::{JobId, LeaseId, WorkerId};
use windlass_common::runtime::Clock;

use super::role::Coordinator;

/// A coordinator behind a lock, with the time.
pub struct CoordinatorHandle {
    // std Mutex: no question takes longer than one pass over a report, and none awaits.
    coordinator: Mutex<Coordinator>,
    clock: Arc<dyn Clock>,
}

impl CoordinatorHandle {
    /// Puts a coordinator behind a lock.
    #[must_use]
    pub fn new(coordinator: Coordinator, clock: Arc<dyn Clock>) -> Self {
        Self {
            coordinator: Mutex::new(coordinator),
            clock,
        }
    }

    /// The time is read under the lock, so that it never goes back for the coordinator.
    fn enter(&self) -> (MutexGuard<'_, Coordinator>, Duration) {
        let coordinator = self
            .coordinator
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        (coordinator, self.clock.now())
    }
}

impl Control for CoordinatorHandle {
    fn register(&self, register: Register) -> Answered<'_, Registered> {
        Box::pin(async move {
            let (mut coordinator, now) = self.enter();
            coordinator.register(register, now)
        })
    }

    fn next(&self, next: Next) -> Answered<'_, (Task, Progress)> {
        Box::pin(async move {
            let (mut coordinator, now) = self.enter();
            coordinator.next(next, now)
        })
    }

    fn renew(
        &self,
        job: JobId,
        worker: WorkerId,
        lease: LeaseId,
    ) -> Answered<'_, (bool, Progress)> {
        Box::pin(async move {
            let (mut coordinator, now) = self.enter();
            coordinator.renew(job, worker, lease, now)
        })
    }

    fn map(&self, job: JobId) -> Answered<'_, ShardMap> {
        Box::pin(async move {
            let (mut coordinator, now) = self.enter();
            coordinator.map(job, now)
        })
    }
}

impl Membership for CoordinatorHandle {
    fn report(&self, report: Report) -> Answered<'_, Assigned> {
        Box::pin(async move {
            let (mut coordinator, now) = self.enter();
            coordinator.report(report, now)
        })
    }
}
