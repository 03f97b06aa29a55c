//! Pushes that are sent and not acknowledged (rule W1), so that an acknowledgement may take a
//! disk's time.

use std::future::{Future, poll_fn, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::task::unconstrained;
use windlass_client::Client;
use windlass_common::exchange::{Pushed, TableGradients};
use windlass_common::id::{Clock, Lineage, PushId, ShardId};
use windlass_common::runtime::BoxFuture;
use windlass_common::shard::ShardedKeys;
use windlass_common::tally::Tally;

use super::Live;
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

/// The open pushes of one split, at most `limit` of them.
///
/// They are settled in the order in which they were begun. So the sums of the metrics are the same
/// to the last bit whatever comes back first, and none is further ahead of the oldest open one than
/// the shards' windows are wide (rule A2). Dropping them is safe: their batches have names.
pub(super) struct OpenPushes<'a> {
    client: &'a Client,
    live: &'a Live,
    lineage: Lineage,
    limit: usize,
    open: FuturesOrdered<BoxFuture<'a, Result<(Learnt, Pushed), Error>>>,
    /// Of the batches that are acknowledged.
    tally: Tally,
}

impl<'a> OpenPushes<'a> {
    /// Starts with none open; `tally` is empty.
    pub(super) fn new(
        client: &'a Client,
        live: &'a Live,
        lineage: Lineage,
        limit: usize,
        tally: Tally,
    ) -> Self {
        Self {
            client,
            live,
            lineage,
            limit,
            open: FuturesOrdered::new(),
            tally,
        }
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
        let (client, lineage) = (self.client, self.lineage);
        let mut push: BoxFuture<'a, _> = Box::pin(async move {
            let pushed = client.push(lineage, id, end, keys, tables).await?;
            Ok((learnt, pushed))
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
                Some(done) = self.open.next() => self.settle(done?),
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Waits until none is open, and returns the metrics of all.
    ///
    /// # Errors
    /// What became of an open push.
    pub(super) async fn finish(mut self) -> Result<Tally, Error> {
        while !self.open.is_empty() {
            self.settle_oldest().await?;
        }
        Ok(self.tally)
    }

    async fn settle_oldest(&mut self) -> Result<(), Error> {
        if let Some(done) = self.open.next().await {
            self.settle(done?);
        }
        Ok(())
    }

    fn settle(&mut self, (learnt, pushed): (Learnt, Pushed)) {
        let mut state = self.live.lock();
        match learnt {
            Learnt::End { skipped } => state.skipped += skipped,
            Learnt::Batch { tally, clocks } => {
                self.tally.merge(&tally);
                state.tally.merge(&tally);
                state.examples += tally.examples;
                state.acked += 1;
                let is_duplicate = pushed.answers.iter().any(|(_, a)| a.is_duplicate());
                state.duplicates += u64::from(is_duplicate);
                state.staleness.add(&clocks, &pushed);
            }
        }
    }
}

#[cfg(test)]
mod tests;
