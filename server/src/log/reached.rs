//! How far the writer is, for those who wait for it.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::commit::Progress;

/// The writer's progress. Who waits longest is woken first, which `tokio::sync::watch` leaves to
/// chance: a simulation would not repeat.
pub(super) struct Reached {
    // std's: held to look or to change it, never across an await.
    progress: Mutex<Progress>,
    changed: Notify,
}

impl Reached {
    pub(super) fn new(progress: Progress) -> Self {
        Self {
            progress: Mutex::new(progress),
            changed: Notify::new(),
        }
    }

    /// The progress now.
    pub(super) fn now(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the progress and wakes those who wait.
    pub(super) fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.now());
        self.changed.notify_waiters();
    }

    /// Waits until `answer` has one; it is asked now, and after each change.
    pub(super) async fn until<T>(&self, answer: impl Fn(&Progress) -> Option<T>) -> T {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Counted in before the look: a change after that wakes us.
            changed.as_mut().enable();
            if let Some(answer) = answer(&self.now()) {
                return answer;
            }
            changed.await;
        }
    }
}
