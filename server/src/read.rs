//! What a pull does: it reads rows, a shard at a time, and changes nothing.

use rayon::prelude::*;
use windlass_common::exchange::{Pull, Pulled};
use windlass_common::id::{Clock, ShardId};
use windlass_common::key::Key;
use windlass_common::schema::JobSchema;

use crate::apply::check_sets;
use crate::effort::Effort;
use crate::error::Error;
use crate::store::Job;

/// The most bytes of weights in one answer.
pub const MAX_PULLED_BYTES: u64 = 64 << 20;

/// One shard's part of a pull.
struct Visit<'a> {
    shard: ShardId,
    clock: Clock,
    parts: Vec<Part<'a>>,
}

/// One table's rows in one shard, and where in the answer they go.
struct Part<'a> {
    table: usize,
    keys: &'a [Key],
    out: &'a mut [f32],
}

/// Checks a pull, before memory is taken for its answer, and tells how much work it is.
///
/// # Errors
/// [`Error::OtherShards`], [`Error::NoSuchTable`], [`Error::NoSuchSet`], [`Error::PullTooLarge`].
pub(crate) fn check(pull: &Pull, schema: &JobSchema) -> Result<Effort, Error> {
    check_sets(&pull.sets, schema)?;
    let mut effort = Effort::default();
    for &(table, set) in &pull.tables {
        let Some(of) = schema.tables.get(usize::from(table.0)) else {
            let tables = schema.tables.len();
            return Err(Error::NoSuchTable { table, tables });
        };
        let Some(keys) = pull.sets.get(set) else {
            let sets = pull.sets.len();
            return Err(Error::NoSuchSet { table, set, sets });
        };
        effort.add(keys.len(), of.dim());
    }
    let bytes = effort.bytes();
    let limit = MAX_PULLED_BYTES;
    if bytes > limit {
        return Err(Error::PullTooLarge { bytes, limit });
    }
    Ok(effort)
}

/// Answers a pull that was checked.
///
/// Each shard's rows and clock are of one moment; different shards may be of different ones.
///
/// # Errors
/// [`Error::Moved`] when one of the shards is not here, [`Error::NotExact`] (rule C12).
pub(crate) fn read(job: &Job, pull: &Pull, effort: Effort) -> Result<Pulled, Error> {
    let mut shards: Vec<ShardId> = pull.sets.iter().flat_map(|s| s.shards()).copied().collect();
    shards.sort_unstable();
    shards.dedup();
    shards.iter().try_for_each(|&s| job.must_own(s))?;
    let dim = |table: usize| job.schema().tables[table].dim();
    let mut tables: Vec<Vec<f32>> = pull
        .tables
        .iter()
        .map(|&(table, set)| vec![0.0; pull.sets[set].len() * dim(usize::from(table.0))])
        .collect();
    let mut visits: Vec<Visit> = shards
        .into_iter()
        .map(|shard| Visit {
            shard,
            clock: Clock(0),
            parts: Vec::new(),
        })
        .collect();
    for (&(table, set), mut rest) in pull
        .tables
        .iter()
        .zip(tables.iter_mut().map(Vec::as_mut_slice))
    {
        let table = usize::from(table.0);
        for (shard, keys) in pull.sets[set].iter() {
            let (out, after) = rest.split_at_mut(keys.len() * dim(table));
            rest = after;
            // Always found: the visits are all shards of all sets.
            if let Ok(at) = visits.binary_search_by_key(&shard, |v| v.shard) {
                visits[at].parts.push(Part { table, keys, out });
            }
        }
    }
    let visit = |visit: &mut Visit| visit.read(job, pull);
    if effort.is_long() {
        visits.par_iter_mut().try_for_each(visit)?;
    } else {
        visits.iter_mut().try_for_each(visit)?;
    }
    let clocks = visits.iter().map(|v| (v.shard, v.clock)).collect();
    Ok(Pulled { clocks, tables })
}

impl Visit<'_> {
    /// Reads all that is wanted of the shard under one hold of its lock.
    fn read(&mut self, job: &Job, pull: &Pull) -> Result<(), Error> {
        let shard = job.lock(self.shard)?;
        if let Some(end) = pull.exactly_below
            && !shard.windows.exactly_below(end)
        {
            let shard = self.shard;
            return Err(Error::NotExact { shard, end });
        }
        self.clock = shard.clock;
        for part in &mut self.parts {
            shard.tables[part.table].read(part.keys, part.out);
        }
        Ok(())
    }
}
