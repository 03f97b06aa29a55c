//! Pulls, pushes and their answers.

use std::sync::Arc;

use prost::Message;
use windlass_common::exchange::{Answer, Pull, Pulled, Push, Pushed, TableGradients};
use windlass_common::id::{Clock, JobId, Lineage, PushId, ShardId, TableId};
use windlass_common::shard::{ShardCount, ShardedKeys};

use super::payload;
use crate::error::{ErrorKind, WireError};
use crate::limits::{self, Limits, at_most, invalid};
use crate::v1;
use crate::v1::exchange_response::Answer as Answered;

impl v1::ExchangeResponse {
    /// Answers a request of a stream. An answer larger than a message becomes a refusal, for it
    /// would end the stream.
    #[must_use]
    pub fn new(id: u64, answer: Result<Answered, WireError>, limits: &Limits) -> Self {
        let response = |answer| Self {
            id,
            answer: Some(answer),
        };
        let whole = response(answer.unwrap_or_else(|error| Answered::Failure(error.into())));
        let bytes = whole.encoded_len();
        if bytes <= limits.message {
            return whole;
        }
        let error = WireError::new(
            ErrorKind::TooLarge,
            format!(
                "the answer is {bytes} bytes, a message has at most {}; ask for fewer rows at once",
                limits.message
            ),
        );
        response(Answered::Failure(error.into()))
    }
}

impl From<&Arc<ShardedKeys>> for v1::KeySet {
    fn from(set: &Arc<ShardedKeys>) -> Self {
        Self {
            shard_count: set.count().into(),
            shards: numbers(set.shards()),
            counts: set.offsets().windows(2).map(|w| w[1] - w[0]).collect(),
            keys: payload::from_keys(set),
        }
    }
}

impl TryFrom<v1::KeySet> for ShardedKeys {
    type Error = WireError;

    fn try_from(set: v1::KeySet) -> Result<Self, WireError> {
        let count = ShardCount::new(set.shard_count).map_err(|e| invalid("sets.shard_count", e))?;
        let shards = limits::shards("sets.shards", &set.shards)?;
        if set.counts.len() != shards.len() {
            return Err(invalid(
                "sets.counts",
                format_args!("{} for {} shards", set.counts.len(), shards.len()),
            ));
        }
        let mut offsets = Vec::with_capacity(shards.len() + 1);
        let mut end = 0u32;
        offsets.push(end);
        for &count in &set.counts {
            end = end
                .checked_add(count)
                .ok_or_else(|| invalid("sets.counts", "their sum is not below 2^32"))?;
            offsets.push(end);
        }
        let keys = payload::to_keys("sets.keys", &set.keys)?;
        Self::from_parts(shards, offsets, keys, count).map_err(|e| invalid("sets", e))
    }
}

impl From<Pull> for v1::Pull {
    fn from(pull: Pull) -> Self {
        Self {
            job: pull.job.0,
            sets: pull.sets.iter().map(Into::into).collect(),
            tables: pull
                .tables
                .into_iter()
                .map(|(table, set)| v1::PullTable {
                    table: table.0.into(),
                    set: set_number(set),
                })
                .collect(),
            exactly_below: pull.exactly_below.map(|s| s.0),
        }
    }
}

impl TryFrom<v1::Pull> for Pull {
    type Error = WireError;

    fn try_from(pull: v1::Pull) -> Result<Self, WireError> {
        at_most("pull.tables", pull.tables.len(), limits::TABLES)?;
        let sets = sets(pull.sets)?;
        let tables = pull
            .tables
            .iter()
            .map(|t| {
                let set = set_of("pull.tables.set", t.set, sets.len())?;
                Ok((table("pull.tables.table", t.table)?, set))
            })
            .collect::<Result<_, WireError>>()?;
        Ok(Self {
            job: JobId(pull.job),
            sets,
            tables,
            exactly_below: pull
                .exactly_below
                .map(|s| limits::source("pull.exactly_below", s))
                .transpose()?,
        })
    }
}

impl From<Pulled> for v1::Pulled {
    fn from(pulled: Pulled) -> Self {
        let (shards, clocks) = pulled
            .clocks
            .iter()
            .map(|&(shard, clock)| (u32::from(shard.0), clock.0))
            .unzip();
        Self {
            shards,
            clocks,
            tables: pulled
                .tables
                .into_iter()
                .map(payload::from_floats)
                .collect(),
        }
    }
}

impl TryFrom<v1::Pulled> for Pulled {
    type Error = WireError;

    fn try_from(pulled: v1::Pulled) -> Result<Self, WireError> {
        at_most("pulled.tables", pulled.tables.len(), limits::TABLES)?;
        let shards = limits::shards("pulled.shards", &pulled.shards)?;
        if pulled.clocks.len() != shards.len() {
            return Err(invalid("pulled.clocks", "one for each of `shards`"));
        }
        let clocks = pulled.clocks.into_iter().map(Clock);
        Ok(Self {
            clocks: shards.into_iter().zip(clocks).collect(),
            tables: pulled
                .tables
                .iter()
                .map(|rows| payload::to_floats("pulled.tables", rows))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl From<Push> for v1::Push {
    fn from(push: Push) -> Self {
        Self {
            job: push.job.0,
            lineage: push.lineage.0,
            source: push.id.source.0,
            seq: push.id.seq.0,
            end: push.end,
            cover: numbers(&push.cover),
            sets: push.sets.iter().map(Into::into).collect(),
            tables: push
                .tables
                .into_iter()
                .map(|t| v1::TableGradients {
                    table: t.table.0.into(),
                    set: set_number(t.set),
                    gradients: payload::from_floats(t.gradients),
                })
                .collect(),
        }
    }
}

impl TryFrom<v1::Push> for Push {
    type Error = WireError;

    fn try_from(push: v1::Push) -> Result<Self, WireError> {
        at_most("push.tables", push.tables.len(), limits::TABLES)?;
        let cover = limits::shards("push.cover", &push.cover)?;
        let sets = sets(push.sets)?;
        if push.end && !(sets.is_empty() && push.tables.is_empty()) {
            return Err(invalid("push.end", "an END has no sets and no tables"));
        }
        for shard in sets.iter().flat_map(|s| s.shards()) {
            if cover.binary_search(shard).is_err() {
                return Err(invalid(
                    "push.cover",
                    format_args!("shard {shard} has keys and is not covered"),
                ));
            }
        }
        let tables = push
            .tables
            .iter()
            .map(|t| gradients(t, &sets))
            .collect::<Result<Vec<_>, _>>()?;
        let mut seen: Vec<TableId> = tables.iter().map(|t| t.table).collect();
        seen.sort_unstable();
        if let Some(twice) = seen.windows(2).find(|w| w[0] == w[1]) {
            return Err(invalid(
                "push.tables.table",
                format_args!("{} stands twice", twice[0]),
            ));
        }
        Ok(Self {
            job: JobId(push.job),
            lineage: Lineage(push.lineage),
            id: PushId {
                source: limits::source("push.source", push.source)?,
                seq: limits::seq("push.seq", push.seq)?,
            },
            end: push.end,
            cover,
            sets,
            tables,
        })
    }
}

impl From<Pushed> for v1::Pushed {
    fn from(pushed: Pushed) -> Self {
        let mut message = Self::default();
        for (shard, answer) in pushed.answers {
            let (outcome, value) = match answer {
                Answer::Applied { before } => (v1::PushOutcome::Applied, before.0),
                Answer::Duplicate => (v1::PushOutcome::Duplicate, 0),
                Answer::Gap { next } => (v1::PushOutcome::Gap, next.0),
                Answer::Moved => (v1::PushOutcome::Moved, 0),
            };
            message.shards.push(shard.0.into());
            message.outcomes.push(outcome.into());
            message.values.push(value);
        }
        message
    }
}

impl TryFrom<v1::Pushed> for Pushed {
    type Error = WireError;

    fn try_from(pushed: v1::Pushed) -> Result<Self, WireError> {
        let shards = limits::shards("pushed.shards", &pushed.shards)?;
        if pushed.outcomes.len() != shards.len() || pushed.values.len() != shards.len() {
            return Err(invalid("pushed", "its lists have one length"));
        }
        let answers = shards
            .into_iter()
            .zip(pushed.outcomes.iter().zip(&pushed.values))
            .map(|(shard, (&outcome, &value))| Ok((shard, answer(outcome, value)?)))
            .collect::<Result<_, WireError>>()?;
        Ok(Self { answers })
    }
}

fn answer(outcome: i32, value: u64) -> Result<Answer, WireError> {
    match v1::PushOutcome::try_from(outcome) {
        Ok(v1::PushOutcome::Applied) => Ok(Answer::Applied {
            before: Clock(value),
        }),
        Ok(v1::PushOutcome::Duplicate) => Ok(Answer::Duplicate),
        Ok(v1::PushOutcome::Gap) => Ok(Answer::Gap {
            next: limits::seq("pushed.values", value)?,
        }),
        Ok(v1::PushOutcome::Moved) => Ok(Answer::Moved),
        Ok(v1::PushOutcome::Unspecified) | Err(_) => Err(invalid(
            "pushed.outcomes",
            format_args!("{outcome} is none"),
        )),
    }
}

fn sets(sets: Vec<v1::KeySet>) -> Result<Vec<Arc<ShardedKeys>>, WireError> {
    at_most("sets", sets.len(), limits::SETS)?;
    sets.into_iter()
        .map(|set| ShardedKeys::try_from(set).map(Arc::new))
        .collect()
}

fn gradients(
    message: &v1::TableGradients,
    sets: &[Arc<ShardedKeys>],
) -> Result<TableGradients, WireError> {
    let set = set_of("push.tables.set", message.set, sets.len())?;
    let gradients = payload::to_floats("push.tables.gradients", &message.gradients)?;
    let keys = sets[set].len();
    let whole_rows = if keys == 0 {
        gradients.is_empty()
    } else {
        !gradients.is_empty() && gradients.len().is_multiple_of(keys)
    };
    if !whole_rows {
        return Err(invalid(
            "push.tables.gradients",
            format_args!("{} floats are no rows of {keys} keys", gradients.len()),
        ));
    }
    Ok(TableGradients {
        table: table("push.tables.table", message.table)?,
        set,
        gradients,
    })
}

fn set_of(field: &str, set: u32, count: usize) -> Result<usize, WireError> {
    usize::try_from(set)
        .ok()
        .filter(|&set| set < count)
        .ok_or_else(|| invalid(field, format_args!("{set} of {count} sets")))
}

fn table(field: &str, number: u32) -> Result<TableId, WireError> {
    u16::try_from(number)
        .map(TableId)
        .map_err(|_| invalid(field, format_args!("{number} is no table")))
}

/// A place that no message can have stays one that no receiver accepts.
fn set_number(set: usize) -> u32 {
    u32::try_from(set).unwrap_or(u32::MAX)
}

fn numbers(shards: &[ShardId]) -> Vec<u32> {
    shards.iter().map(|s| s.0.into()).collect()
}
