//! The writer of the log: group commit.
//!
//! A group is what arrived while the last one was being synced, up to 16 MiB. A sync of each push
//! alone would cost 8 ms for 4 KiB, where 16 MiB take 29 ms. On a disk that syncs faster than
//! pushes come in, each would still have a sync of its own, and the processor would be busy with
//! those; so the writer rests between two.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use tracing::{debug, error, info};
use windlass_common::id::Lsn;
use windlass_common::runtime::{Clock, Pool, offload};

use crate::error::Error;

use super::append::Log;
use super::buffer::Pending;
use super::tail::{Tail, Unwritten};

/// How far the writer is.
#[derive(Debug)]
pub(super) struct Progress {
    /// The last record that is on the disk.
    pub synced: Lsn,
    /// Groups written in this life.
    pub groups: u64,
    /// What keeps it from going on.
    pub trouble: Option<Trouble>,
}

/// What keeps the log from being written.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// The disk takes nothing now.
    Full {
        path: PathBuf,
        source: Arc<io::Error>,
    },
    /// A sync failed: for good.
    Failed {
        path: PathBuf,
        source: Arc<io::Error>,
    },
    /// Nobody writes any more.
    Ended,
}

impl Trouble {
    pub(super) fn error(&self) -> Error {
        match self.clone() {
            Self::Full { path, source } => Error::LogFull { path, source },
            Self::Failed { path, source } => Error::LogFailed { path, source },
            Self::Ended => Error::WorkDropped,
        }
    }
}

/// Says that nobody writes any more, however the writer ended.
struct Ending<'a>(&'a Log);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.progress.change(|progress| {
            if !matches!(progress.trouble, Some(Trouble::Failed { .. })) {
                progress.trouble = Some(Trouble::Ended);
            }
        });
    }
}

impl Log {
    /// Writes what is appended, group by group; each group is a job on the pool.
    ///
    /// It ends only when the log has failed for good, and the second time that it is called. When
    /// it is dropped, whoever waits is told that the server is shutting down.
    pub async fn run(&self, pool: &dyn Pool, clock: &dyn Clock) {
        let tail = self
            .tail
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut tail) = tail else {
            return;
        };
        let _ending = Ending(self);
        loop {
            let pending = self.next_group().await;
            let began = clock.now();
            match self.commit(tail, pending, pool, clock).await {
                Some(same) => tail = same,
                None => return,
            }
            let took = clock.now().saturating_sub(began);
            if let Some(rest) = self.settings.interval.checked_sub(took) {
                clock.sleep(rest).await;
            }
        }
    }

    async fn next_group(&self) -> Pending {
        loop {
            if let Some(pending) = self.buffer().take() {
                return pending;
            }
            self.arrived.notified().await;
        }
    }

    /// Writes one group, again and again while the disk refuses it; `None` when that is over.
    async fn commit(
        &self,
        mut tail: Tail,
        mut pending: Pending,
        pool: &dyn Pool,
        clock: &dyn Clock,
    ) -> Option<Tail> {
        loop {
            let began = clock.now();
            let write = move || {
                let written = tail.write(&mut pending);
                (tail, pending, written)
            };
            let written;
            let Some(done) = offload(pool, write).await else {
                error!("log writer panicked");
                return None;
            };
            (tail, pending, written) = done;
            match written {
                Ok(()) => {
                    let (records, bytes) = (pending.shards.len(), pending.group.bytes());
                    let elapsed_ms = (clock.now() - began).as_millis();
                    debug!(records, bytes, elapsed_ms, "group on disk");
                    self.publish(pending);
                    return Some(tail);
                }
                Err(Unwritten::Refused { path, source }) => {
                    self.refused(path, source);
                    clock.sleep(self.settings.retry).await;
                }
                Err(Unwritten::Unsynced { path, source }) => {
                    let source = Arc::new(source);
                    self.progress.change(|progress| {
                        let failed = Trouble::Failed { path, source };
                        error!(reason = %failed.error(), "log failed");
                        progress.trouble = Some(failed);
                    });
                    return None;
                }
            }
        }
    }

    fn publish(&self, pending: Pending) {
        let next = pending.group.next();
        self.buffer().written(pending);
        self.progress.change(|progress| {
            progress.synced = Lsn(next.0 - 1);
            progress.groups += 1;
            if progress.trouble.take().is_some() {
                info!("log is written again");
            }
        });
    }

    fn refused(&self, path: PathBuf, source: io::Error) {
        let source = Arc::new(source);
        self.progress.change(|progress| {
            let full = Trouble::Full { path, source };
            // A line when it begins; the tries after that change nothing.
            if progress.trouble.is_none() {
                error!(reason = %full.error(), "log cannot be written");
            }
            progress.trouble = Some(full);
        });
    }
}
