//! How often each key occurs: in a libsvm file, and as a job that counts has kept it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use windlass_common::count;
use windlass_common::format::{decode_shard, newest};
use windlass_common::key::Key;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::runtime::{Disk, StdDisk};

/// Occurrences by key.
pub type Counts = BTreeMap<Key, u128>;

/// Counts the keys of libsvm text, `times` over. It shares no code with the readers: an index is the
/// key as it is, and a comment begins with `#`.
///
/// # Panics
/// When the text is not libsvm.
pub fn of_libsvm(text: &str, times: u32) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        for feature in line.split_ascii_whitespace().skip(1) {
            let index = feature
                .split_once(':')
                .and_then(|(index, _)| index.parse().ok())
                .unwrap_or_else(|| panic!("`{feature}` is not INDEX:VALUE"));
            *counts.entry(Key(index)).or_default() += u128::from(times);
        }
    }
    counts
}

/// Reads the counts in the newest whole checkpoint of a job's output folder.
///
/// # Panics
/// When there is none, or when it has a row that is no count or comes twice.
pub fn of_checkpoint(output: &Path) -> Counts {
    read(output).unwrap_or_else(|error| panic!("counts in {}: {error:#}", output.display()))
}

/// Adds up all counts.
pub fn total(counts: &Counts) -> u128 {
    counts.values().sum()
}

fn read(output: &Path) -> anyhow::Result<Counts> {
    let disk: Arc<dyn Disk> = Arc::new(StdDisk);
    let found = newest(&disk, output)?;
    let checkpoint = found.checkpoint.context("no whole checkpoint")?;
    let schema = &checkpoint.manifest().schema;
    let mut counts = Counts::new();
    for shard in schema.shards.all() {
        let image = decode_shard(&checkpoint.shard(shard)?, checkpoint.folder())?;
        for (table, rows) in schema.tables.iter().zip(&image.tables) {
            anyhow::ensure!(
                table.optimizer == OptimizerSpec::Count,
                "table `{}` does not count",
                table.name
            );
            for (&key, row) in rows.keys.iter().zip(rows.rows.chunks_exact(count::LIMBS)) {
                let count = count::read(row).with_context(|| format!("row {key} is {row:?}"))?;
                anyhow::ensure!(counts.insert(key, count).is_none(), "row {key} comes twice");
            }
        }
    }
    Ok(counts)
}
