//! A training split: its batches from the first that some shard lacks, then its END.

use std::collections::VecDeque;
use std::sync::Arc;

use windlass_common::coordination::{Outcome, TrainLease};
use windlass_common::exchange::{Pulled, TableGradients};
use windlass_common::id::{PushId, Seq};
use windlass_common::runtime::offload;
use windlass_common::tally::Tally;

use super::batches::{Batches, Cut, Read};
use super::open::{Gradients, Learnt, OpenPushes};
use super::{STOPPED, Trainer};
use crate::data::{Prepared, ShuffleSeed};
use crate::error::Error;

/// A batch whose rows have been pulled.
struct Pending {
    seq: Seq,
    batch: Arc<Prepared>,
    pulled: Pulled,
}

impl Trainer {
    /// Learns a split until its END is sent; the outcome comes with the acknowledgements, unless it
    /// is one here. The pull of batch `k` sees all pushes of this worker up to
    /// `k - prefetch - 1` and none later, so one worker alone always computes the same.
    pub(super) async fn learn(
        &self,
        lease: TrainLease,
        pushes: &mut OpenPushes<'_>,
    ) -> Result<Option<Outcome>, Error> {
        self.live.doing("");
        let began = self.clock.now();
        let prefetch = self.pace.prefetch;
        let mut batches = self.open(&lease);
        pushes.split(&lease, self.step.tally());
        let mut pending: VecDeque<Pending> = VecDeque::new();
        let mut seq = lease.start;
        loop {
            if self.stopping() {
                // What is sent will most likely count, so it is shown too.
                pushes.finish().await?;
                return Ok(Some(Outcome::Abandoned(STOPPED.into())));
            }
            let batch = match pushes.during(batches.next()).await?? {
                Read::Batch(batch) => Arc::<Prepared>::from(batch),
                Read::End { skipped } => {
                    while let Some(oldest) = pending.pop_front() {
                        self.compute_and_push(&lease, oldest, pushes).await?;
                    }
                    // N3: the reader has seen a checked end of input; `seq` is the number of batches.
                    pushes.begin(end(&lease, seq, skipped)).await?;
                    self.live.lock().learning += self.clock.now().saturating_sub(began);
                    return Ok(None);
                }
            };
            let full = prefetch > 0 && pending.len() == prefetch;
            let oldest = if full { pending.pop_front() } else { None };
            // The next pull travels while the oldest pending batch is computed; that batch's push
            // waits for both, so what a pull sees does not depend on how fast either is.
            let computing = async {
                match oldest {
                    Some(oldest) => self.compute(oldest).await.map(Some),
                    None => Ok(None),
                }
            };
            let both = async { tokio::join!(self.pull(batch, seq), computing) };
            let (pulled, computed) = pushes.during(both).await?;
            pending.push_back(pulled?);
            seq.0 += 1;
            if let Some(computed) = computed? {
                pushes.begin(computed.gradients(&lease)).await?;
            }
            if prefetch == 0
                && let Some(oldest) = pending.pop_front()
            {
                self.compute_and_push(&lease, oldest, pushes).await?;
            }
        }
    }

    async fn compute_and_push(
        &self,
        lease: &TrainLease,
        pending: Pending,
        pushes: &mut OpenPushes<'_>,
    ) -> Result<(), Error> {
        let computed = pushes.during(self.compute(pending)).await??;
        pushes.begin(computed.gradients(lease)).await
    }

    async fn pull(&self, batch: Arc<Prepared>, seq: Seq) -> Result<Pending, Error> {
        let keys = vec![Arc::clone(&batch.keys)];
        let pulled = self.client.pull(keys, &self.step.tables(), None).await?;
        Ok(Pending { seq, batch, pulled })
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
            bias: self.step.reads_bias(),
        };
        Batches::start(
            Arc::clone(&self.pool),
            move || input.open(&plan, split, Some(shuffle)),
            cut,
        )
    }

    async fn compute(&self, pending: Pending) -> Result<Computed, Error> {
        let step = self.step.clone();
        let work = move || {
            let mut tally = step.tally();
            let gradients = step.learn(&pending.batch, &pending.pulled.tables, &mut tally)?;
            Ok(Computed {
                pending,
                gradients,
                tally,
            })
        };
        offload(&*self.pool, work)
            .await
            .ok_or(Error::Panicked { what: "the model" })?
    }
}

/// A batch with the gradients of its rows.
struct Computed {
    pending: Pending,
    gradients: Vec<TableGradients>,
    tally: Tally,
}

impl Computed {
    /// Names them, and keeps what counts once they are acknowledged.
    fn gradients(self, lease: &TrainLease) -> Gradients {
        let Pending { seq, batch, pulled } = self.pending;
        Gradients {
            id: PushId {
                source: lease.source,
                seq,
            },
            end: false,
            keys: vec![Arc::clone(&batch.keys)],
            tables: self.gradients,
            learnt: Learnt::Batch {
                tally: self.tally,
                clocks: pulled.clocks,
            },
        }
    }
}

fn end(lease: &TrainLease, seq: Seq, skipped: u64) -> Gradients {
    Gradients {
        id: PushId {
            source: lease.source,
            seq,
        },
        end: true,
        keys: Vec::new(),
        tables: Vec::new(),
        learnt: Learnt::End { skipped },
    }
}
