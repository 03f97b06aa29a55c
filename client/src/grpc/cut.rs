//! Requests that are larger than a message, cut into several, and their answers joined.
//!
//! A pull is cut by ranges of keys, so that each answer is about a chunk. A push is cut between
//! shards only: a shard applies its part of a batch at once, under the batch's one name.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use windlass_common::exchange::{Pull, Pulled, Push, Pushed, TableGradients};
use windlass_common::id::{Clock, ShardId, TableId};
use windlass_common::shard::ShardedKeys;
use windlass_proto::{ErrorKind, Limits, WireError};

/// A key with the number and count of a shard of its own.
const KEY_BYTES: usize = 8 + 8;
/// A shard's number and clock.
const CLOCK_BYTES: usize = 13;
/// A shard's number in the cover, and its number and count in one set.
const SHARD_BYTES: usize = 8;
/// What surrounds a set or a table, and at once the numbers of a whole push.
const FRAME_BYTES: usize = 64;

/// An answer that no server gives that keeps to the protocol.
pub(super) fn surprise(what: &str) -> WireError {
    WireError::new(ErrorKind::Internal, format!("the server's answer: {what}"))
}

fn set_of(sets: &[Arc<ShardedKeys>], set: usize) -> Result<&Arc<ShardedKeys>, WireError> {
    sets.get(set).ok_or_else(|| {
        WireError::new(
            ErrorKind::Invalid,
            format!("a table refers to set {set} of {}", sets.len()),
        )
    })
}

/// A pull's pieces, before they are sent.
pub(super) struct Cut {
    pulls: Vec<Pull>,
    pieces: Pieces,
}

impl Cut {
    /// Parts what is sent from what is kept to join the answers.
    pub(super) fn split(self) -> (Vec<Pull>, Pieces) {
        (self.pulls, self.pieces)
    }
}

/// What is known of a pull while its pieces are asked for.
pub(super) struct Pieces {
    /// Every shard of the pull.
    shards: Vec<ShardId>,
    /// How many floats each of the pull's tables is to have.
    lengths: Vec<usize>,
    /// For each piece, each of its tables: its place in the pull, and how many floats it is to have.
    pieces: Vec<Vec<(usize, usize)>>,
}

/// Cuts a pull by ranges of keys. `dim` tells how many weights a table's row has.
///
/// # Errors
/// [`ErrorKind::TooLarge`] if one key's rows are larger than a message.
pub(super) fn pull(
    pull: Pull,
    dim: impl Fn(TableId) -> usize,
    limits: &Limits,
) -> Result<Cut, WireError> {
    let mut lengths = Vec::with_capacity(pull.tables.len());
    let mut costs = vec![CLOCK_BYTES; pull.sets.len()];
    for &(table, set) in &pull.tables {
        lengths.push(set_of(&pull.sets, set)?.len() * dim(table));
        costs[set] += 4 * dim(table);
    }
    // What a key costs in the larger one of request and answer.
    costs
        .iter_mut()
        .for_each(|cost| *cost = KEY_BYTES.max(*cost));
    let mut shards: Vec<_> = pull.sets.iter().flat_map(|s| s.shards()).copied().collect();
    shards.sort_unstable();
    shards.dedup();

    let total: usize = pull.sets.iter().zip(&costs).map(|(s, c)| s.len() * c).sum();
    let (pulls, pieces) = if total <= limits.chunk() {
        let whole = lengths.iter().copied().enumerate().collect();
        (vec![pull], vec![whole])
    } else {
        let ranges = ranges(&pull.sets, &costs, limits)?;
        ranges.iter().map(|piece| part(&pull, piece, &dim)).unzip()
    };
    Ok(Cut {
        pulls,
        pieces: Pieces {
            shards,
            lengths,
            pieces,
        },
    })
}

/// The ranges of keys in one piece, each of another set.
type Ranges = Vec<(usize, Range<usize>)>;

/// Fills each piece with ranges of keys, set after set, up to a chunk.
fn ranges(
    sets: &[Arc<ShardedKeys>],
    costs: &[usize],
    limits: &Limits,
) -> Result<Vec<Ranges>, WireError> {
    let mut pieces: Vec<Ranges> = vec![Vec::new()];
    let mut room = limits.chunk();
    for (set, (keys, &cost)) in sets.iter().zip(costs).enumerate() {
        if cost + FRAME_BYTES > limits.message {
            return Err(WireError::new(
                ErrorKind::TooLarge,
                format!(
                    "one key's rows are {cost} bytes, a message has at most {}; give the tables \
                     fewer weights a row",
                    limits.message
                ),
            ));
        }
        let mut start = 0;
        while start < keys.len() {
            let fit = (room / cost).min(keys.len() - start);
            let is_fresh = pieces.last().is_some_and(Vec::is_empty);
            if fit == 0 && !is_fresh {
                pieces.push(Vec::new());
                room = limits.chunk();
                continue;
            }
            // A row larger than a chunk goes alone.
            let end = start + fit.max(1);
            if let Some(piece) = pieces.last_mut() {
                piece.push((set, start..end));
            }
            room = room.saturating_sub((end - start) * cost);
            start = end;
        }
        // A set that only lists shards is asked too, for their clocks.
        if keys.is_empty()
            && let Some(piece) = pieces.last_mut()
        {
            piece.push((set, 0..0));
        }
    }
    Ok(pieces)
}

/// Makes the pull of one piece, and says for each of its tables where it belongs.
fn part(
    pull: &Pull,
    ranges: &[(usize, Range<usize>)],
    dim: impl Fn(TableId) -> usize,
) -> (Pull, Vec<(usize, usize)>) {
    let mut sets = Vec::with_capacity(ranges.len());
    let mut tables = Vec::new();
    let mut places = Vec::new();
    for (set, range) in ranges {
        let of_set = pull
            .tables
            .iter()
            .enumerate()
            .filter(|(_, (_, s))| s == set);
        for (place, &(table, _)) in of_set {
            tables.push((table, sets.len()));
            places.push((place, range.len() * dim(table)));
        }
        sets.push(Arc::new(pull.sets[*set].slice(range.clone())));
    }
    let part = Pull {
        job: pull.job,
        sets,
        tables,
        exactly_below: pull.exactly_below,
    };
    (part, places)
}

impl Pieces {
    /// Joins the answers, in the order of the pieces.
    ///
    /// A shard that was read twice may have applied pushes in between; its older clock is kept, so
    /// that the staleness is never understated.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] for answers that do not fit the pull.
    pub(super) fn join(self, answers: Vec<Pulled>) -> Result<Pulled, WireError> {
        let mut clocks: BTreeMap<ShardId, Clock> = BTreeMap::new();
        let mut tables: Vec<Vec<f32>> = vec![Vec::new(); self.lengths.len()];
        for (places, answer) in self.pieces.iter().zip(answers) {
            for (shard, clock) in answer.clocks {
                let oldest = clocks.entry(shard).or_insert(clock);
                *oldest = clock.min(*oldest);
            }
            let got: Vec<usize> = answer.tables.iter().map(Vec::len).collect();
            if !got.iter().eq(places.iter().map(|(_, length)| length)) {
                return Err(surprise(&format!(
                    "tables of {got:?} weights to a pull of {:?}",
                    places.iter().map(|p| p.1).collect::<Vec<_>>()
                )));
            }
            for (&(place, length), rows) in places.iter().zip(answer.tables) {
                let table = &mut tables[place];
                if length == self.lengths[place] {
                    *table = rows;
                } else {
                    table.reserve_exact(self.lengths[place] - table.len());
                    table.extend_from_slice(&rows);
                }
            }
        }
        if !clocks.keys().eq(&self.shards) {
            return Err(surprise("clocks of other shards than were asked"));
        }
        Ok(Pulled {
            clocks: clocks.into_iter().collect(),
            tables,
        })
    }
}

/// Cuts a push between shards, so that each piece is about a chunk.
///
/// # Errors
/// [`ErrorKind::TooLarge`] if one shard's part is larger than a message.
pub(super) fn push(push: Push, limits: &Limits) -> Result<Vec<Push>, WireError> {
    let mut costs = vec![KEY_BYTES; push.sets.len()];
    for table in &push.tables {
        let keys = set_of(&push.sets, table.set)?.len();
        costs[table.set] += 4 * table.gradients.len().checked_div(keys).unwrap_or(0);
    }
    let frame = FRAME_BYTES * (1 + push.sets.len() + push.tables.len());
    let mut parts: BTreeMap<ShardId, usize> = push
        .cover
        .iter()
        .map(|&shard| (shard, SHARD_BYTES))
        .collect();
    for (set, cost) in push.sets.iter().zip(&costs) {
        for (shard, keys) in set.iter() {
            *parts.entry(shard).or_default() += SHARD_BYTES + keys.len() * cost;
        }
    }
    if frame + parts.values().sum::<usize>() <= limits.chunk() {
        return Ok(vec![push]);
    }
    let mut pieces: Vec<Vec<ShardId>> = Vec::new();
    let mut room = 0;
    for (shard, bytes) in parts {
        if frame + bytes > limits.message {
            return Err(WireError::new(
                ErrorKind::TooLarge,
                format!(
                    "push {}: the part of shard {shard} is {bytes} bytes, a message has at most {}; \
                     use smaller batches, or give the job more shards",
                    push.id, limits.message
                ),
            ));
        }
        if let Some(piece) = pieces.last_mut().filter(|_| bytes <= room) {
            piece.push(shard);
            room -= bytes;
        } else {
            pieces.push(vec![shard]);
            room = limits.chunk().saturating_sub(frame + bytes);
        }
    }
    Ok(pieces
        .into_iter()
        .map(|cover| cover_only(&push, cover))
        .collect())
}

/// Takes the part of a push that is for some of its shards.
fn cover_only(push: &Push, cover: Vec<ShardId>) -> Push {
    let (sets, ranges): (Vec<_>, Vec<_>) = push
        .sets
        .iter()
        .map(|set| {
            let (set, ranges) = set.select(|shard| cover.binary_search(&shard).is_ok());
            (Arc::new(set), ranges)
        })
        .unzip();
    let tables = push.tables.iter().map(|table| {
        let keys = push.sets[table.set].len();
        let dim = table.gradients.len().checked_div(keys).unwrap_or(0);
        let rows = ranges[table.set].iter();
        TableGradients {
            table: table.table,
            set: table.set,
            gradients: rows
                .flat_map(|r| &table.gradients[r.start * dim..r.end * dim])
                .copied()
                .collect(),
        }
    });
    Push {
        job: push.job,
        lineage: push.lineage,
        id: push.id,
        end: push.end,
        tables: tables.collect(),
        cover,
        sets,
    }
}

/// Joins the answers to a push's pieces, whose covers ascend.
///
/// # Errors
/// [`ErrorKind::Internal`] for answers of other shards than were covered.
pub(super) fn join_pushed(
    covers: &[Vec<ShardId>],
    answers: Vec<Pushed>,
) -> Result<Pushed, WireError> {
    let answers: Vec<_> = answers.into_iter().flat_map(|a| a.answers).collect();
    if answers
        .iter()
        .map(|(shard, _)| shard)
        .eq(covers.iter().flatten())
    {
        Ok(Pushed { answers })
    } else {
        Err(surprise("answers of other shards than were covered"))
    }
}

#[cfg(test)]
mod tests;
