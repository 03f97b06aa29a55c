//! Pushes that are sent and not acknowledged (rule W1), so that an acknowledgement may take a
//! disk's time: the worker goes on with the next batch, and with the next split.

use std::collections::VecDeque;
use std::future::{Future, poll_fn, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::task::unconstrained;
use windlass_client::Client;
use windlass_common::coordination::{Outcome, TrainLease};
use windlass_common::exchange::{Pushed, TableGradients};
use windlass_common::id::{Clock, LeaseId, Lineage, PushId, ShardId};
use windlass_common::runtime::BoxFuture;
use windlass_common::shard::ShardedKeys;
use windlass_common::tally::Tally;

use super::{Live, is_lost};
use crate::error::Error;

/// One push: a batch's gradients, or the END of a split.
pub(super) struct Gradients {
    pub(super) id: PushId,
    pub(super) end: bool,
    pub(super) keys: Vec<Arc<ShardedKeys>>,
    pub(super) tables: Vec<TableGradients>,
    pub(super) learnt: Learnt,
}

/// What counts once a push is acknowledged.
pub(super) enum Learnt {
    /// A batch.
    Batch {
        /// Its progressive metrics.
        tally: Tally,
        /// The clocks of its shards when it was pulled.
        clocks: Vec<(ShardId, Clock)>,
    },
    /// All of a split.
    End {
        /// Bad rows.
        skipped: u64,
    },
}

/// The open pushes of a worker, at most `limit` of them, and what became of its splits.
///
/// They are settled in the order in which they were begun. So the sums of the metrics are the same
/// to the last bit whatever comes back first, and none is further ahead of the oldest open one than
/// the shards' windows are wide (rule A2). Dropping them is safe: their batches have names.
pub(super) struct OpenPushes<'a> {
    client: &'a Client,
    live: &'a Live,
    limit: usize,
    open: FuturesOrdered<BoxFuture<'a, Settled>>,
    /// Splits that are not all acknowledged, oldest first; only the last is still learnt.
    splits: Vec<OpenSplit>,
    /// What is to be given back, oldest first.
    outcomes: VecDeque<(LeaseId, Outcome)>,
}

/// A push that was answered.
struct Settled {
    lease: LeaseId,
    answer: Result<(Learnt, Pushed), Error>,
}

struct OpenSplit {
    lease: LeaseId,
    lineage: Lineage,
    /// Whether its END is sent.
    sent: bool,
    /// Of the batches that are acknowledged.
    tally: Tally,
}

impl<'a> OpenPushes<'a> {
    /// Starts with none open.
    pub(super) fn new(client: &'a Client, live: &'a Live, limit: usize) -> Self {
        Self {
            client,
            live,
            limit,
            open: FuturesOrdered::new(),
            splits: Vec::new(),
            outcomes: VecDeque::new(),
        }
    }

    /// Begins a split: pushes from now on are its. `tally` is empty.
    pub(super) fn split(&mut self, lease: &TrainLease, tally: Tally) {
        self.splits.push(OpenSplit {
            lease: lease.lease,
            lineage: lease.lineage,
            sent: false,
            tally,
        });
    }

    /// Adds what is to be given back. Open pushes of that split count no more, whatever becomes of
    /// them.
    pub(super) fn give_back(&mut self, lease: LeaseId, outcome: Outcome) {
        self.splits.retain(|split| split.lease != lease);
        self.outcomes.push_back((lease, outcome));
    }

    /// Takes what is to be given back first.
    pub(super) fn outcome(&mut self) -> Option<(LeaseId, Outcome)> {
        self.outcomes.pop_front()
    }

    /// Whether there is, or will be, something to give back.
    pub(super) fn is_owing(&self) -> bool {
        !(self.splits.is_empty() && self.outcomes.is_empty())
    }

    /// Waits for room, then begins a push: every request that is begun later sees it.
    ///
    /// That holds unless a server fails: its requests are made again, then in any order. Which
    /// weights a batch saw is not what is promised; that it counts once is.
    ///
    /// # Errors
    /// What became of an earlier push.
    pub(super) async fn begin(&mut self, gradients: Gradients) -> Result<(), Error> {
        while self.open.len() >= self.limit {
            self.settle_oldest().await?;
        }
        let Gradients {
            id,
            end,
            keys,
            tables,
            learnt,
        } = gradients;
        let Some(split) = self.splits.last_mut() else {
            // It was given up while there was no room.
            return Ok(());
        };
        split.sent = end;
        let (client, lineage, lease) = (self.client, split.lineage, split.lease);
        let mut push: BoxFuture<'a, _> = Box::pin(async move {
            let pushed = client.push(lineage, id, end, keys, tables).await;
            let answer = pushed.map(|pushed| (learnt, pushed)).map_err(Error::from);
            Settled { lease, answer }
        });
        // The first poll takes the push's turn at each server; without the runtime's constraint
        // nothing puts it off.
        let mut first = pin!(unconstrained(push.as_mut()));
        let polled = poll_fn(|context| Poll::Ready(first.as_mut().poll(context))).await;
        self.open.push_back(match polled {
            Poll::Ready(done) => Box::pin(ready(done)),
            Poll::Pending => push,
        });
        Ok(())
    }

    /// Does other work while acknowledgements come in.
    ///
    /// # Errors
    /// What became of an open push; then the work is dropped.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Error> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                // In this order, so that a simulation repeats.
                biased;
                Some(done) = self.open.next() => self.settle(done)?,
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Waits until none is open.
    ///
    /// # Errors
    /// What became of an open push.
    pub(super) async fn finish(&mut self) -> Result<(), Error> {
        while !self.open.is_empty() {
            self.settle_oldest().await?;
        }
        Ok(())
    }

    async fn settle_oldest(&mut self) -> Result<(), Error> {
        match self.open.next().await {
            Some(done) => self.settle(done),
            None => Ok(()),
        }
    }

    /// Takes an answer. A split before the one that is learnt may be lost without harm to that.
    fn settle(&mut self, settled: Settled) -> Result<(), Error> {
        let Settled { lease, answer } = settled;
        let Some(at) = self.splits.iter().position(|split| split.lease == lease) else {
            return Ok(());
        };
        let (learnt, pushed) = match answer {
            Ok(answer) => answer,
            Err(Error::Client(error)) if self.splits[at].sent && is_lost(&error) => {
                self.give_back(lease, Outcome::Abandoned(error.to_string()));
                return Ok(());
            }
            Err(error) => {
                self.splits.remove(at);
                return Err(error);
            }
        };
        let mut state = self.live.lock();
        match learnt {
            Learnt::End { skipped } => {
                state.skipped += skipped;
                // W4: all of it is acknowledged everywhere.
                let split = self.splits.remove(at);
                self.outcomes
                    .push_back((lease, Outcome::Trained(split.tally)));
            }
            Learnt::Batch { tally, clocks } => {
                self.splits[at].tally.merge(&tally);
                state.tally.merge(&tally);
                state.examples += tally.examples;
                state.acked += 1;
                let is_duplicate = pushed.answers.iter().any(|(_, a)| a.is_duplicate());
                state.duplicates += u64::from(is_duplicate);
                state.staleness.add(&clocks, &pushed);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
