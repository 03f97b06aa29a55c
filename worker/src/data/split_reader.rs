//! Batches of a split: batch `k` holds the same examples whoever reads it, and wherever.

use std::path::Path;
use std::sync::Arc;

use windlass_common::batch::Batch;
use windlass_common::config::DataConfig;
use windlass_common::id::Epoch;
use windlass_common::key::Key;
use windlass_common::split::{Draw, InputFile, Split};

use super::labels::LabelRule;
use super::rows::Rows;
use crate::error::{Error, Result};

/// A block that is shuffled together ends early with so many features: 16 Mi take 224 MiB.
const BLOCK_FEATURES: usize = 1 << 24;
/// A batch may have so many features; offsets have 32 bits.
const BATCH_FEATURES: usize = 1 << 31;

/// How lines become examples.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadPlan {
    /// The config, with the statistics that it asks for.
    pub data: DataConfig,
    /// Which labels the loss takes.
    pub labels: LabelRule,
}

/// What the shuffle inside a split is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShuffleSeed {
    /// The job's seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: Epoch,
    /// The split's place in the input.
    pub split: u32,
}

/// Reads a split as batches.
pub struct SplitReader {
    rows: Rows,
    block: Option<Block>,
    /// Features of the last batch: about as many as the next will have.
    features: usize,
}

impl SplitReader {
    /// Opens a split of the file at `path`, to be shuffled with this seed or read in the file's
    /// order.
    ///
    /// # Errors
    /// A file that cannot be read, that changed since it was listed, or that has not the columns
    /// that the config names.
    pub fn open(
        plan: &Arc<ReadPlan>,
        path: &Path,
        input: &InputFile,
        split: Split,
        shuffle: Option<ShuffleSeed>,
    ) -> Result<Self> {
        let size = plan.data.shuffle as usize;
        Ok(Self {
            rows: Rows::open(plan, path, input, split)?,
            // One row cannot be shuffled.
            block: shuffle
                .filter(|_| size > 1)
                .map(|seed| Block::new(seed, size)),
            features: 0,
        })
    }

    /// Reads the next batch of `size` examples, 1 or more; the split's last may be shorter. `None` comes only
    /// from a checked end of the input.
    ///
    /// # Errors
    /// A file that cannot be read to its end, or a bad row; the read is over then.
    pub fn next_batch(&mut self, size: usize) -> Result<Option<Batch>> {
        debug_assert!(size > 0, "a batch has examples");
        let size = size.max(1);
        let mut batch = self.room(size);
        match &mut self.block {
            None => self.rows.read(size, BATCH_FEATURES, &mut batch)?,
            Some(block) => block.take(&mut self.rows, size, &mut batch)?,
        }
        if batch.keys.len() >= BATCH_FEATURES {
            return Err(Error::BatchTooLarge {
                path: self.rows.path().to_owned(),
                examples: batch.len(),
                features: batch.keys.len(),
            });
        }
        self.features = batch.keys.len();
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// Reads past the first `count` batches of `size`, so that the next batch is number `count`.
    ///
    /// # Errors
    /// As for [`SplitReader::next_batch`].
    pub fn skip_batches(&mut self, count: u64, size: usize) -> Result<()> {
        debug_assert!(size > 0, "a batch has examples");
        let mut left = count.saturating_mul(size as u64);
        let mut passed = Batch::default();
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(usize::MAX);
            let read = match &mut self.block {
                None => {
                    passed.clear();
                    self.rows.read(step, BLOCK_FEATURES, &mut passed)?;
                    passed.len()
                }
                Some(block) => block.pass(&mut self.rows, step)?,
            };
            if read == 0 {
                break;
            }
            left -= read as u64;
        }
        Ok(())
    }

    /// Hands the name of every feature of the rows that are left to `visit`, once for each time
    /// that it occurs: `carrier=UA`, `distance`, `origin=EWR,dest=IAH`.
    ///
    /// # Errors
    /// As for [`SplitReader::next_batch`].
    pub fn describe(mut self, visit: &mut dyn FnMut(Key, &str)) -> Result<()> {
        self.rows.describe(visit)
    }

    /// How many bad rows were dropped (`data.on_bad_row = "skip"`) of what is read so far.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.rows.skipped()
    }

    /// How many of the split's bytes are read, as they lie in the file: at the end, all of them.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.rows.bytes_read()
    }

    /// An empty batch with memory for as much as the last one held.
    fn room(&self, size: usize) -> Batch {
        let mut batch = Batch::default();
        if self.features > 0 {
            batch.labels.reserve(size);
            batch.weights.reserve(size);
            batch.offsets.reserve(size);
            batch.keys.reserve(self.features);
            batch.values.reserve(self.features);
            batch.fields.reserve(self.features);
        }
        batch
    }
}

/// Rows that are shuffled together.
struct Block {
    seed: ShuffleSeed,
    /// Rows that a full block has.
    size: usize,
    /// How many blocks were read.
    number: u64,
    rows: Batch,
    /// The places in `rows` that are not handed out yet, the next one last.
    order: Vec<u32>,
}

impl Block {
    fn new(seed: ShuffleSeed, size: usize) -> Self {
        Self {
            seed,
            size,
            number: 0,
            rows: Batch::default(),
            order: Vec::new(),
        }
    }

    /// Moves rows to `out` until it has `size`, or the split ends.
    fn take(&mut self, rows: &mut Rows, size: usize, out: &mut Batch) -> Result<()> {
        while out.len() < size && out.keys.len() < BATCH_FEATURES {
            if self.order.is_empty() {
                self.refill(rows)?;
            }
            let Some(place) = self.order.pop() else { break };
            self.rows.copy_example(place as usize, out);
        }
        Ok(())
    }

    /// Leaves out up to `most` rows; says how many, which is 0 only at the end of the split.
    fn pass(&mut self, rows: &mut Rows, most: usize) -> Result<usize> {
        if self.order.is_empty() {
            self.refill(rows)?;
        }
        let passed = most.min(self.order.len());
        self.order.truncate(self.order.len() - passed);
        Ok(passed)
    }

    /// Reads the next block and draws its order (Fisher and Yates, in Durstenfeld's form).
    fn refill(&mut self, rows: &mut Rows) -> Result<()> {
        self.rows.clear();
        rows.read(self.size, BLOCK_FEATURES, &mut self.rows)?;
        let ShuffleSeed { seed, epoch, split } = self.seed;
        let path = [u64::from(epoch.0), u64::from(split), self.number];
        let mut draw = Draw::new(seed, &path);
        self.number += 1;
        self.order.extend((0u32..).take(self.rows.len()));
        for i in (1..self.order.len()).rev() {
            let other = usize::try_from(draw.below(i as u64 + 1)).unwrap_or(i);
            self.order.swap(i, other);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
