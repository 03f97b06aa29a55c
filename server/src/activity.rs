//! What happened in a store since it began: counts, and a bell for whoever reports.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Counts and the bell of one store.
#[derive(Debug, Default)]
pub struct Activity {
    applied: AtomicU64,
    duplicates: AtomicU64,
    not_finite: AtomicU64,
    pulls: AtomicU64,
    changed: Notify,
}

/// Counts at one moment; each is exact, together they may be a few requests apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pushes that shards applied, END pushes too: a push to three shards counts three times.
    pub applied: u64,
    /// Pushes that shards had applied before (rule A1), counted in the same way.
    pub duplicates: u64,
    /// Pushes refused for a NaN or an infinity: each counts once.
    pub not_finite: u64,
    /// Pulls that were answered.
    pub pulls: u64,
}

impl Activity {
    pub(crate) fn count_applied(&self) {
        self.applied.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_duplicate(&self) {
        self.duplicates.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_not_finite(&self) {
        self.not_finite.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_pull(&self) {
        self.pulls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            applied: read(&self.applied),
            duplicates: read(&self.duplicates),
            not_finite: read(&self.not_finite),
            pulls: read(&self.pulls),
        }
    }

    /// Says that a report would tell something new and important.
    pub(crate) fn ring(&self) {
        // One permit is kept, so a ring while the reporter is busy is not lost.
        self.changed.notify_one();
    }

    pub(crate) async fn rung(&self) {
        self.changed.notified().await;
    }
}
