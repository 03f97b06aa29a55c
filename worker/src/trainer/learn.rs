//! A training split: its batches from the first that some shard lacks, then its END.

use std::collections::VecDeque;
use std::sync::Arc;

use windlass_common::coordination::{Outcome, TrainLease};
use windlass_common::exchange::{Pulled, TableGradients};
use windlass_common::id::{PushId, Seq};
use windlass_common::runtime::offload;
use windlass_common::tally::Tally;

use super::Trainer;
use super::batches::{Batches, Cut, Read};
use crate::data::{Prepared, ShuffleSeed};
use crate::error::Error;

/// A batch whose rows have been pulled.
struct Pending {
    seq: Seq,
    batch: Arc<Prepared>,
    pulled: Pulled,
}

impl Trainer {
    /// Learns a split. The pull of batch `k` sees all pushes of this worker up to
    /// `k - prefetch - 1` and none later, so one worker alone always computes the same.
    pub(super) async fn learn(&self, lease: TrainLease) -> Result<Outcome, Error> {
        self.live.doing("");
        let began = self.clock.now();
        let prefetch = self.pace.prefetch;
        let mut batches = self.open(&lease);
        let mut tally = self.step.tally();
        let mut pending: VecDeque<Pending> = VecDeque::new();
        let mut seq = lease.start;
        loop {
            if self.stopping() {
                return Ok(Outcome::Abandoned("the worker was asked to stop".into()));
            }
            let (batch, skipped) = match batches.next().await? {
                Read::Batch(batch) => (Some(Arc::<Prepared>::from(batch)), 0),
                Read::End { skipped } => (None, skipped),
            };
            if batch.is_none() {
                while let Some(computed) = self.compute(pending.pop_front()).await? {
                    self.push(&lease, Some(computed), &mut tally).await?;
                }
                self.end(&lease, seq, skipped).await?;
                self.live.lock().learning += self.clock.now().saturating_sub(began);
                return Ok(Outcome::Trained(tally));
            }
            let full = prefetch > 0 && pending.len() == prefetch;
            let oldest = if full { pending.pop_front() } else { None };
            // The next pull travels while the oldest pending batch is computed; that batch's push
            // waits for both, so what a pull sees does not depend on how fast either is.
            let (pulled, computed) = tokio::join!(self.pull(batch, seq), self.compute(oldest));
            pending.extend(pulled?);
            seq.0 += 1;
            self.push(&lease, computed?, &mut tally).await?;
            if prefetch == 0 {
                let computed = self.compute(pending.pop_front()).await?;
                self.push(&lease, computed, &mut tally).await?;
            }
        }
    }

    /// N3: the reader has seen a checked end of input; `seq` is the number of batches.
    async fn end(&self, lease: &TrainLease, seq: Seq, skipped: u64) -> Result<(), Error> {
        let end = PushId {
            source: lease.source,
            seq,
        };
        self.client
            .push(lease.lineage, end, true, Vec::new(), Vec::new())
            .await?;
        self.live.lock().skipped += skipped;
        Ok(())
    }

    async fn pull(&self, batch: Option<Arc<Prepared>>, seq: Seq) -> Result<Option<Pending>, Error> {
        let Some(batch) = batch else { return Ok(None) };
        let keys = vec![Arc::clone(&batch.keys)];
        let pulled = self.client.pull(keys, &self.step.tables(), None).await?;
        Ok(Some(Pending { seq, batch, pulled }))
    }

    fn open(&self, lease: &TrainLease) -> Batches {
        let (plan, input, split) = (
            Arc::clone(&self.plan),
            Arc::clone(&self.inputs.train),
            lease.split,
        );
        let shuffle = ShuffleSeed {
            seed: self.pace.seed,
            epoch: lease.epoch,
            split: lease.index,
        };
        let cut = Cut {
            size: self.pace.batch_size,
            skip: lease.start.0,
            read_ahead: self.pace.read_ahead,
            shards: self.client.shards(),
        };
        Batches::start(
            Arc::clone(&self.pool),
            move || input.open(&plan, split, Some(shuffle)),
            cut,
        )
    }

    async fn compute(&self, pending: Option<Pending>) -> Result<Option<Computed>, Error> {
        let Some(pending) = pending else {
            return Ok(None);
        };
        let step = self.step.clone();
        let work = move || {
            let mut tally = step.tally();
            let gradients = step.learn(&pending.batch, &pending.pulled.tables, &mut tally)?;
            Ok(Some(Computed {
                pending,
                gradients,
                tally,
            }))
        };
        offload(&*self.pool, work)
            .await
            .ok_or(Error::Panicked { what: "the model" })?
    }

    async fn push(
        &self,
        lease: &TrainLease,
        computed: Option<Computed>,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let Some(Computed {
            pending,
            gradients,
            tally: scored,
        }) = computed
        else {
            return Ok(());
        };
        let id = PushId {
            source: lease.source,
            seq: pending.seq,
        };
        let keys = vec![Arc::clone(&pending.batch.keys)];
        let pushed = self
            .client
            .push(lease.lineage, id, false, keys, gradients)
            .await?;
        tally.merge(&scored);
        let mut state = self.live.lock();
        state.tally.merge(&scored);
        state.examples += scored.examples;
        state.acked += 1;
        state.duplicates += u64::from(pushed.answers.iter().any(|(_, a)| a.is_duplicate()));
        state.staleness.add(&pending.pulled, &pushed);
        Ok(())
    }
}

/// A batch with the gradients of its rows.
struct Computed {
    pending: Pending,
    gradients: Vec<TableGradients>,
    tally: Tally,
}
