//! What a running job shows: shared by the training loop, which writes it, and the view, which
//! reads it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_client::Waiting;
use windlass_common::coordination::Progress;
use windlass_common::tally::Tally;

use super::Staleness;

/// What the progress line and the report are made of.
#[derive(Debug, Default)]
pub struct Live {
    state: Mutex<State>,
    /// What the client is waiting for: servers that do not answer.
    pub waiting: Waiting,
}

/// What is known at a moment.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// What the coordinator says of the whole job.
    pub progress: Progress,
    /// What this worker is doing or waiting for, in words; empty while it learns.
    pub doing: String,
    /// Progressive metrics of this worker's batches in this epoch.
    pub tally: Tally,
    /// Examples that this worker has learnt since it started.
    pub examples: u64,
    /// Examples of bad rows that were skipped.
    pub skipped: u64,
    /// Time spent in training tasks.
    pub learning: Duration,
    /// Batches acknowledged by every shard.
    pub acked: u64,
    /// Batches that some shard had applied already.
    pub duplicates: u64,
    /// Staleness of this worker's gradients.
    pub staleness: Staleness,
}

impl Live {
    /// Starts with an empty tally of the model's task.
    #[must_use]
    pub fn new(tally: Tally) -> Self {
        let state = Mutex::new(State {
            tally,
            ..State::default()
        });
        Self {
            state,
            waiting: Waiting::default(),
        }
    }

    /// Locks the state for a moment.
    // A poisoned lock means that a view panicked in the middle of reading: counts are still whole.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what the coordinator says; a new epoch begins a new progressive tally.
    pub fn advance(&self, progress: Progress) {
        let mut state = self.lock();
        if progress.epoch != state.progress.epoch {
            state.tally = Tally::new(state.tally.task);
        }
        state.progress = progress;
    }

    /// Says what the worker is doing.
    pub fn doing(&self, what: impl Into<String>) {
        self.lock().doing = what.into();
    }
}
