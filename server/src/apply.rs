//! What a push does to a shard: all of it, once, or nothing.
//!
//! [`check`] looks at the push alone, before any shard is touched; [`apply`] runs once for each
//! covered shard, under its lock.

use std::sync::Arc;

use windlass_common::exchange::{Answer, Push, TableGradients};
use windlass_common::id::{Clock, SourceId};
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::ShardedKeys;
use windlass_common::windows::Verdict;

use crate::error::Error;
use crate::shard::Shard;

/// Checks a push against the schema, so that what [`apply`] refuses is only what depends on a shard.
///
/// # Errors
/// The first rule that the push breaks; then it changes nothing anywhere.
pub fn check(push: &Push, schema: &JobSchema) -> Result<(), Error> {
    let wrong = |rule| Err(Error::Push { id: push.id, rule });
    if push.id.source == SourceId(u64::MAX) {
        return wrong("the number of a source is below 2^64 - 1");
    }
    if push.end && !(push.tables.is_empty() && push.sets.is_empty()) {
        return wrong("an END has no rows");
    }
    if push.cover.windows(2).any(|pair| pair[0] >= pair[1]) {
        return wrong("covered shards ascend strictly");
    }
    // Ascending, so the last is the largest.
    if let Some(&shard) = push.cover.last()
        && usize::from(shard.0) >= schema.shards.len()
    {
        let shards = schema.shards;
        return Err(Error::NoSuchShard { shard, shards });
    }
    check_sets(&push.sets, schema)?;
    let covered = |shard| push.cover.binary_search(shard).is_ok();
    if !push.sets.iter().all(|set| set.shards().iter().all(covered)) {
        return wrong("a shard with keys is among the covered ones");
    }
    let mut seen = vec![false; schema.tables.len()];
    for part in &push.tables {
        let table = usize::from(part.table.0);
        check_part(push, part, schema.tables.get(table), seen.len())?;
        if std::mem::replace(&mut seen[table], true) {
            return wrong("a table has one entry");
        }
    }
    Ok(())
}

/// Checks that keys are grouped as the job's are, so that each is looked for in its own shard.
pub(crate) fn check_sets(sets: &[Arc<ShardedKeys>], schema: &JobSchema) -> Result<(), Error> {
    let want = schema.shards;
    match sets.iter().map(|set| set.count()).find(|&got| got != want) {
        Some(got) => Err(Error::OtherShards { got, want }),
        None => Ok(()),
    }
}

/// Applies a checked push to one shard, whose lock the caller holds.
///
/// # Errors
/// [`Error::StaleLineage`], [`Error::BeyondEnd`], [`Error::TooManyOpen`], [`Error::TableFull`];
/// then the shard is as it was.
pub fn apply(shard: &mut Shard, push: &Push) -> Result<Answer, Error> {
    // N4: another life of the state has other rows; "applied already" would be a lie in either.
    if push.lineage != shard.lineage {
        return Err(Error::StaleLineage {
            shard: shard.id,
            pushed: push.lineage,
            held: shard.lineage,
        });
    }
    match shard.windows.judge(push.id, push.end) {
        // A1: the name was seen, so the rows are in.
        Verdict::Duplicate => Ok(Answer::Duplicate),
        // A2: nothing changes, no window is made.
        Verdict::Gap { next } => Ok(Answer::Gap { next }),
        Verdict::BeyondEnd { end } => Err(Error::BeyondEnd {
            id: push.id,
            shard: shard.id,
            end,
        }),
        Verdict::TooManyOpen => Err(Error::TooManyOpen {
            shard: shard.id,
            source_id: push.id.source,
        }),
        Verdict::Apply => apply_new(shard, push),
    }
}

fn check_part(
    push: &Push,
    part: &TableGradients,
    table: Option<&TableSchema>,
    tables: usize,
) -> Result<(), Error> {
    let Some(table) = table else {
        let table = part.table;
        return Err(Error::NoSuchTable { table, tables });
    };
    let Some(set) = push.sets.get(part.set) else {
        return Err(Error::NoSuchSet {
            table: part.table,
            set: part.set,
            sets: push.sets.len(),
        });
    };
    if set.len().checked_mul(table.dim()) != Some(part.gradients.len()) {
        return Err(Error::GradientLength {
            table: table.name.clone(),
            got: part.gradients.len(),
            keys: set.len(),
            dim: table.dim(),
        });
    }
    for (&key, gradient) in set
        .keys()
        .iter()
        .zip(part.gradients.chunks_exact(table.dim()))
    {
        // No early end inside a row, so that the loop vectorises.
        if !gradient
            .iter()
            .fold(true, |finite, g| finite & g.is_finite())
        {
            let value = gradient.iter().find(|g| !g.is_finite());
            return Err(Error::NotFinite {
                table: table.name.clone(),
                key,
                value: value.copied().unwrap_or(f32::NAN),
            });
        }
    }
    Ok(())
}

/// A3: rows, mark and clock change under one hold of the lock, or none of them does.
fn apply_new(shard: &mut Shard, push: &Push) -> Result<Answer, Error> {
    let id = shard.id;
    let parts = || {
        push.tables.iter().filter_map(move |part| {
            let set = &push.sets[part.set];
            let range = set.range(set.shards().binary_search(&id).ok()?);
            let keys = &set.keys()[range.clone()];
            Some((usize::from(part.table.0), keys, range, &part.gradients))
        })
    };
    for (table, keys, ..) in parts() {
        let table = &shard.tables[table];
        if !table.has_room(keys.len()) {
            return Err(Error::TableFull {
                table: table.name().into(),
                shard: id,
            });
        }
    }
    let before = shard.clock;
    let step = Clock(before.0 + 1);
    for (table, keys, range, gradients) in parts() {
        let table = &mut shard.tables[table];
        let dim = table.dim();
        table.apply(keys, &gradients[range.start * dim..range.end * dim], step);
    }
    shard.windows.mark(push.id, push.end);
    if !push.end {
        shard.clock = step;
    }
    Ok(Answer::Applied { before })
}

#[cfg(test)]
mod tests;
