//! What a push does to a shard: all of it, once, or nothing.
//!
//! [`check`] looks at the push alone, before any shard is touched; [`apply`] runs once for each
//! covered shard, under its lock, with the push's part for it; [`replay`] does the same with records of a
//! log.

use std::sync::Arc;

use windlass_common::count;
use windlass_common::exchange::{Answer, Push, TableGradients};
use windlass_common::failpoint;
use windlass_common::format::log::Record;
use windlass_common::id::{Clock, SourceId};
use windlass_common::key::Key;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::ShardedKeys;
use windlass_common::windows::Verdict;

use crate::error::Error;
use crate::log::Log;
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

/// Applies a part of a checked push to its shard, whose lock the caller holds, and appends it to the
/// log if there is one.
///
/// # Errors
/// [`Error::StaleLineage`], [`Error::BeyondEnd`], [`Error::TooManyOpen`], [`Error::TableFull`], or
/// what the log says; then the shard is as it was.
pub fn apply(shard: &mut Shard, part: &Record<'_>, log: Option<&Log>) -> Result<Answer, Error> {
    // N4: another life of the state has other rows; "applied already" would be a lie in either.
    if part.lineage != shard.lineage {
        return Err(Error::StaleLineage {
            shard: shard.id,
            pushed: part.lineage,
            held: shard.lineage,
        });
    }
    let verdict = shard.windows.judge(part.id, part.end);
    if failpoint::is_on("windows-off")
        && matches!(verdict, Verdict::Duplicate | Verdict::Gap { .. })
    {
        return apply_rows(shard, part, log);
    }
    match verdict {
        // A1: the name was seen, so the rows are in.
        Verdict::Duplicate => Ok(Answer::Duplicate),
        // A2: nothing changes, no window is made.
        Verdict::Gap { next } => Ok(Answer::Gap { next }),
        Verdict::BeyondEnd { end } => Err(Error::BeyondEnd {
            id: part.id,
            shard: shard.id,
            end,
        }),
        Verdict::TooManyOpen => Err(Error::TooManyOpen {
            shard: shard.id,
            source_id: part.id.source,
        }),
        Verdict::Apply => apply_new(shard, part, log),
    }
}

/// A5: applies a record of a log, through the windows like any push. What they refuse is no error:
/// a record of another lineage, one that a copy has already, or one whose forerunners it lacks.
///
/// # Errors
/// [`Error::Replay`] for a record that cannot be one of this shard.
pub fn replay(shard: &mut Shard, record: &Record<'_>, schema: &JobSchema) -> Result<(), Error> {
    let foreign = |key: &&Key| schema.shards.shard_of(**key) != shard.id;
    for part in &record.tables {
        let table = schema.tables.get(usize::from(part.table.0));
        let rule = match table {
            None => Some("a table that the job does not have"),
            Some(t) if part.keys.len().checked_mul(t.dim()) != Some(part.gradients.len()) => {
                Some("gradients of another dim than the table's")
            }
            Some(_) if part.keys.iter().find(foreign).is_some() => Some("a key of another shard"),
            Some(_) => None,
        };
        if let Some(rule) = rule {
            let (id, shard) = (record.id, shard.id);
            return Err(Error::Replay { id, shard, rule });
        }
    }
    match apply(shard, record, None) {
        Ok(_) | Err(Error::StaleLineage { .. } | Error::BeyondEnd { .. }) => Ok(()),
        Err(error) => Err(error),
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
    let counts = table.optimizer == OptimizerSpec::Count;
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
        if counts && count::read_gradient(gradient).is_none() {
            return Err(Error::NoCount {
                table: table.name.clone(),
                key,
                gradient: gradient.to_vec(),
            });
        }
    }
    Ok(())
}

/// A3: rows, mark, clock and log change under one hold of the lock, or none of them does.
fn apply_new(shard: &mut Shard, part: &Record<'_>, log: Option<&Log>) -> Result<Answer, Error> {
    let answer = apply_rows(shard, part, log)?;
    shard.windows.mark(part.id, part.end);
    Ok(answer)
}

fn apply_rows(shard: &mut Shard, part: &Record<'_>, log: Option<&Log>) -> Result<Answer, Error> {
    for part in &part.tables {
        let table = &shard.tables[usize::from(part.table.0)];
        if !table.has_room(part.keys.len()) {
            return Err(Error::TableFull {
                table: table.name().into(),
                shard: shard.id,
            });
        }
    }
    if let Some(log) = log {
        failpoint::reached("log-append-before");
        shard.logged = log.append(part)?;
        failpoint::reached("log-append-after");
    }
    let before = shard.clock;
    let step = Clock(before.0 + 1);
    for part in &part.tables {
        let table = &mut shard.tables[usize::from(part.table.0)];
        table.apply(&part.keys, &part.gradients, step);
    }
    if !part.end {
        shard.clock = step;
        for table in &mut shard.tables {
            table.pass_time(step, shard.id);
        }
    }
    Ok(Answer::Applied { before })
}

#[cfg(test)]
mod tests;
