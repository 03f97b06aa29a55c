//! What each batch counts, and so what a copy of a shard must hold by its own windows (rule I1).

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use windlass_common::count;
use windlass_common::format::ShardImage;
use windlass_common::id::{Epoch, Seq, SourceId};
use windlass_common::shard::ShardCount;
use windlass_common::split::{Split, cut, order, source};
use windlass_common::windows::{WIDTH, Windows};
use windlass_worker::data::ShuffleSeed;
use windlass_worker::job::Job;

use crate::counts::Counts;

/// The counts of every batch of a job, by its name.
pub(super) struct Truth {
    shards: ShardCount,
    /// The batches of each source, in order.
    sources: BTreeMap<SourceId, Vec<Counts>>,
}

impl Truth {
    /// Reads all batches of a job.
    pub(super) fn of(job: &Job) -> Result<Self> {
        let (seed, shards) = (job.recipe.seed, job.schema.shards);
        let splits = cut(&job.recipe.files, job.recipe.split_bytes);
        let count = u32::try_from(splits.len())?;
        let mut sources = BTreeMap::new();
        for epoch in (0..job.config.train.epochs).map(Epoch) {
            for (place, split) in (0..).zip(order(seed, epoch, count)) {
                let shuffle = ShuffleSeed { seed, epoch, split };
                let batches = batches(job, shuffle, splits[split as usize])?;
                sources.insert(source(SourceId(0), epoch, count, place), batches);
            }
        }
        Ok(Self { shards, sources })
    }

    /// The number above all sources.
    pub(super) fn end(&self) -> SourceId {
        SourceId(self.sources.len() as u64)
    }

    /// Checks that a copy of a shard holds what its windows say, each batch once.
    ///
    /// # Errors
    /// The first row that is not as it must be, with what would explain it.
    pub(super) fn check(&self, image: &ShardImage) -> Result<()> {
        let held = rows(image)?;
        let mut expected = Counts::new();
        for batch in self.held_by(&image.windows) {
            for (&key, n) in batch {
                if self.shards.shard_of(key) == image.shard {
                    *expected.entry(key).or_default() += n;
                }
            }
        }
        for key in expected.keys().chain(held.keys()) {
            let (must, is) = (expected.get(key), held.get(key));
            ensure!(
                must == is,
                "shard {}: row {key} is {is:?}, by the windows of the same copy it is {must:?}; {:?}",
                image.shard,
                image.windows
            );
        }
        Ok(())
    }

    fn held_by(&self, windows: &Windows) -> impl Iterator<Item = &Counts> {
        self.sources.iter().flat_map(|(&source, batches)| {
            let complete = windows.complete().contains(source.0);
            let window = windows.open().get(&source).copied().unwrap_or_default();
            let is_held = move |seq: u64| {
                let ahead = seq.checked_sub(window.next.0);
                complete || ahead.is_none_or(|a| a < WIDTH && window.above >> a & 1 == 1)
            };
            let held = (0..).zip(batches).filter(move |(seq, _)| is_held(*seq));
            held.map(|(_, batch)| batch)
        })
    }
}

/// The counts in a copy of a shard.
pub(super) fn rows(image: &ShardImage) -> Result<Counts> {
    let mut counts = Counts::new();
    for table in &image.tables {
        let rows = table.rows.chunks_exact(count::LIMBS);
        for (&key, row) in table.keys.iter().zip(rows) {
            let count = count::read(row).with_context(|| format!("row {key} is {row:?}"))?;
            ensure!(counts.insert(key, count).is_none(), "row {key} comes twice");
        }
    }
    Ok(counts)
}

fn batches(job: &Job, shuffle: ShuffleSeed, split: Split) -> Result<Vec<Counts>> {
    let mut reader = job
        .inputs
        .train
        .open(&Arc::clone(&job.plan), split, Some(shuffle))?;
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch(job.config.train.batch_size as usize)? {
        let mut counts = Counts::new();
        for key in batch.keys {
            *counts.entry(key).or_default() += 1;
        }
        batches.push(counts);
    }
    // The END push has no rows, and its number is the count of batches.
    ensure!(Seq(batches.len() as u64) < Seq(WIDTH), "splits are small");
    Ok(batches)
}
