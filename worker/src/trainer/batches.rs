//! Batches of a split, read, parsed and prepared ahead of the training loop.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use windlass_common::runtime::{Pool, offload};
use windlass_common::shard::ShardCount;

use crate::data::{Prepared, Preparer, SplitReader};
use crate::error::Error;

/// A split's batches in order, at most `read_ahead` of them waiting.
pub(super) struct Batches {
    receiver: mpsc::Receiver<Result<Read, Error>>,
    pump: JoinHandle<()>,
}

/// What comes next of a split.
pub(super) enum Read {
    /// A batch.
    Batch(Box<Prepared>),
    /// The checked end of the input, and how many bad rows were skipped before it.
    End {
        /// Bad rows.
        skipped: u64,
    },
}

/// How batches are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Examples a batch.
    pub size: usize,
    /// Batches that are left out at the start.
    pub skip: u64,
    /// Prepared batches that may wait for the loop.
    pub read_ahead: usize,
    /// The job's shards.
    pub shards: ShardCount,
    /// Whether the model reads the row of the bias.
    pub bias: bool,
}

impl Batches {
    /// Starts reading; `open` runs on the pool.
    pub(super) fn start(
        pool: Arc<dyn Pool>,
        open: impl FnOnce() -> Result<SplitReader, Error> + Send + 'static,
        cut: Cut,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(cut.read_ahead);
        let pump = tokio::spawn(async move {
            let end = pump(&*pool, open, cut, &sender).await;
            // Nobody listens once the loop has stopped; then nobody needs the end either.
            let _ = sender.send(end.map(|skipped| Read::End { skipped })).await;
        });
        Self { receiver, pump }
    }

    /// The next batch, or the end.
    ///
    /// N3: the end is told, never concluded from silence. A reader that vanishes is an error; taken
    /// for the end of its split it would lose all that it had not read.
    pub(super) async fn next(&mut self) -> Result<Read, Error> {
        self.receiver.recv().await.unwrap_or(Err(READER_LOST))
    }
}

const READER_LOST: Error = Error::Panicked { what: "the reader" };

impl Drop for Batches {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

/// Sends batches until the input ends, and returns how many rows were skipped.
async fn pump(
    pool: &dyn Pool,
    open: impl FnOnce() -> Result<SplitReader, Error> + Send + 'static,
    cut: Cut,
    sender: &mpsc::Sender<Result<Read, Error>>,
) -> Result<u64, Error> {
    let opened = offload(pool, move || {
        let mut reader = open()?;
        reader.skip_batches(cut.skip, cut.size)?;
        Ok::<_, Error>((reader, Preparer::new(cut.shards, cut.bias)))
    });
    let (mut reader, mut preparer) = opened.await.ok_or(READER_LOST)??;
    loop {
        // Reader and preparer travel to the pool and back, so that no thread is held while the
        // channel is full.
        let step = offload(pool, move || {
            let batch = reader.next_batch(cut.size);
            let prepared = batch.map(|b| b.map(|b| Box::new(preparer.prepare(b))));
            (reader, preparer, prepared)
        });
        let (r, p, prepared) = step.await.ok_or(READER_LOST)?;
        (reader, preparer) = (r, p);
        let Some(batch) = prepared? else {
            return Ok(reader.skipped());
        };
        if sender.send(Ok(Read::Batch(batch))).await.is_err() {
            return Ok(reader.skipped());
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_client::runtime::TokioPool;

    use super::*;

    #[tokio::test]
    async fn n3_a_reader_that_panics_is_not_the_end_of_its_split() {
        let cut = Cut {
            size: 1,
            skip: 0,
            read_ahead: 1,
            shards: ShardCount::default(),
            bias: true,
        };
        let mut batches = Batches::start(Arc::new(TokioPool), || panic!("as ordered"), cut);
        assert!(matches!(
            batches.next().await,
            Err(Error::Panicked { what: "the reader" })
        ));
    }
}
