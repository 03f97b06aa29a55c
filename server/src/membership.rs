//! A server's part in the cluster: it tells the coordinator what it holds and learns what to hold.

use std::ops::RangeFrom;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};
use windlass_client::transport::Membership;
use windlass_common::coordination::{Assignment, Report};
use windlass_common::id::{Boot, MapEpoch, ServerId};
use windlass_common::runtime::{Clock, offload};
use windlass_proto::{ErrorKind, WireError};

use crate::error::Error;
use crate::saver::Saver;
use crate::store::Store;

/// How often a server reports when nothing happens (rule S8). A new job waits for it once, so it is
/// short; a report is some 10 KB for a job of 256 shards.
const PERIOD: Duration = Duration::from_millis(250);

/// The least time between reports, so that many completed sources make one report.
const PAUSE: Duration = Duration::from_millis(5);

/// When shards that could not be restored are tried again.
const RETRY: Duration = Duration::from_secs(2);

/// A server as a member of its cluster.
pub struct Member {
    /// Its shards.
    pub store: Arc<Store>,
    /// What saves them, where there is a store of checkpoints.
    pub saver: Option<Arc<Saver>>,
    /// The way to the coordinator.
    pub coordinator: Arc<dyn Membership>,
    /// Where the coordinator is, for messages.
    pub coordinator_address: String,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where clients reach this server.
    pub address: String,
    /// The life of this process.
    pub boot: Boot,
    /// How long to look for the coordinator at the start.
    pub connect_timeout: Duration,
}

impl Member {
    /// Reports four times a second, and at once when a source is completed or a shard installed.
    ///
    /// # Errors
    /// Ends only with an error: no coordinator within `connect_timeout` of the start, or one that
    /// refuses this server (another protocol). A coordinator that is lost later is waited for.
    pub async fn run(self) -> WireError {
        let began = self.clock.now();
        let mut joined: Option<ServerId> = None;
        let mut seen = MapEpoch(0);
        let mut lost = false;
        let mut numbers = 1..;
        while let Some(number) = numbers.next() {
            let mut news = false;
            // S8: without a map this registers the server.
            match self.coordinator.report(self.tell(number, seen)).await {
                Ok(assigned) => {
                    // S3: a map older than one that was seen is ignored.
                    if assigned.epoch >= seen {
                        news = assigned.epoch > seen;
                        seen = assigned.epoch;
                        if let Err(error) = self.obey(assigned.jobs, seen, &mut numbers).await {
                            return error;
                        }
                    }
                    if joined.is_none() || lost {
                        info!(server = %assigned.server, coordinator = %self.coordinator_address, "joined");
                    }
                    (joined, lost) = (Some(assigned.server), false);
                }
                Err(error) if !error.kind.may_be_retried() => {
                    return refused(&self.coordinator_address, &error);
                }
                Err(error) if joined.is_none() => {
                    if self.clock.now().saturating_sub(began) > self.connect_timeout {
                        return no_coordinator(
                            &self.coordinator_address,
                            self.connect_timeout,
                            &error,
                        );
                    }
                }
                Err(error) => {
                    if !lost {
                        warn!(coordinator = %self.coordinator_address, %error, "coordinator lost");
                    }
                    lost = true;
                }
            }
            self.clock.sleep(PAUSE).await;
            // A new map is answered at once: nothing is leased before its owners have spoken.
            if !news {
                tokio::select! {
                    // In this order, so that a simulation repeats.
                    biased;
                    () = self.store.changed() => {}
                    () = self.clock.sleep(PERIOD) => {}
                }
            }
        }
        WireError::new(ErrorKind::Internal, "reports have run out of numbers")
    }

    fn tell(&self, number: u64, seen: MapEpoch) -> Report {
        let mut jobs = self.store.report();
        let mut health = self.store.health();
        if let Some(saver) = &self.saver {
            saver.report(&mut jobs);
            health.trouble = health.trouble.or_else(|| saver.trouble());
        }
        Report {
            address: self.address.clone(),
            boot: self.boot,
            number,
            seen,
            health,
            jobs,
        }
    }

    /// Makes the shards here those of a map. Shards that come back may take long: meanwhile it goes
    /// on to report, so that nobody takes it for dead.
    async fn obey(
        &self,
        jobs: Vec<Assignment>,
        seen: MapEpoch,
        numbers: &mut RangeFrom<u64>,
    ) -> Result<(), WireError> {
        let jobs = Arc::new(jobs);
        loop {
            let (store, assigned) = (Arc::clone(&self.store), Arc::clone(&jobs));
            let assign = offload(&*self.store.pool, move || store.assign(&assigned));
            let mut assign = pin!(assign);
            let done = loop {
                tokio::select! {
                    biased;
                    done = &mut assign => break done.unwrap_or(Err(Error::WorkDropped)),
                    () = self.clock.sleep(PERIOD) => {
                        if let Some(number) = numbers.next() {
                            // The answer can wait: the next report asks for it again.
                            let _ = self.coordinator.report(self.tell(number, seen)).await;
                        }
                    }
                }
            };
            match done {
                Ok(()) => break,
                // The store or the disk may come back.
                Err(error @ Error::Common(windlass_common::Error::Io { .. })) => {
                    warn!(%error, "shards could not be restored, trying again");
                    self.clock.sleep(RETRY).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(saver) = &self.saver {
            saver.order(&jobs);
        }
        Ok(())
    }
}

fn refused(address: &str, error: &WireError) -> WireError {
    WireError::new(error.kind, format!("coordinator {address}: {error}"))
}

fn no_coordinator(address: &str, waited: Duration, error: &WireError) -> WireError {
    let message = format!(
        "no coordinator at {address} within {waited:?}: {error}; start it first, or mend \
         `coordinator` in the config"
    );
    WireError::new(ErrorKind::Unavailable, message)
}

#[cfg(test)]
mod tests;
