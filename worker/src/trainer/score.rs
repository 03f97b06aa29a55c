//! A held-out split: scored with the weights at an epoch's border, learning nothing.

use std::sync::Arc;

use windlass_common::coordination::{HeldOut, Outcome, ScoreLease};
use windlass_common::id::SourceId;
use windlass_common::runtime::offload;
use windlass_common::tally::Tally;

use super::Trainer;
use super::batches::{Batches, Cut, Read};
use crate::data::Prepared;
use crate::error::Error;

impl Trainer {
    /// Scores a split in the file's order.
    pub(super) async fn score(&self, lease: ScoreLease) -> Result<Outcome, Error> {
        let (input, what) = match lease.of {
            HeldOut::Validation => (&self.inputs.validation, "scoring the validation files"),
            HeldOut::Test => (&self.inputs.test, "scoring the test files"),
        };
        self.live.doing(what);
        let (plan, input, split) = (Arc::clone(&self.plan), Arc::clone(input), lease.split);
        let cut = Cut {
            size: self.pace.batch_size,
            skip: 0,
            read_ahead: self.pace.read_ahead,
            shards: self.client.shards(),
            bias: self.step.reads_bias(),
        };
        let open = move || input.open(&plan, split, None);
        let mut batches = Batches::start(Arc::clone(&self.pool), open, cut);
        let mut tally = self.step.tally();
        loop {
            match batches.next().await? {
                Read::Batch(batch) => {
                    tally.merge(&self.score_batch(*batch, lease.exactly_below).await?);
                }
                Read::End { skipped } => {
                    self.live.lock().skipped += skipped;
                    return Ok(Outcome::Scored(tally));
                }
            }
            if self.stopping() {
                return Ok(Outcome::Abandoned("the worker was asked to stop".into()));
            }
        }
    }

    async fn score_batch(&self, batch: Prepared, below: SourceId) -> Result<Tally, Error> {
        let keys = Arc::clone(&batch.keys);
        let pulled = self
            .client
            .pull(vec![keys], &self.step.tables(), Some(below))
            .await?;
        let step = self.step.clone();
        let work = move || {
            let mut tally = step.tally();
            step.score(&batch, &pulled.tables, &mut tally)?;
            Ok(tally)
        };
        offload(&*self.pool, work)
            .await
            .ok_or(Error::Panicked { what: "the model" })?
    }
}
