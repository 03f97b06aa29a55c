//! The data plane: pulls and pushes, cut by server, sent at once, and put together again.

use std::sync::Arc;

use futures_util::future::join_all;
use windlass_common::coordination::ShardMap;
use windlass_common::exchange::{Pull, Pulled, Push, Pushed, TableGradients};
use windlass_common::id::{Lineage, PushId, SourceId, TableId};
use windlass_common::shard::ShardedKeys;
use windlass_proto::ErrorKind;

use super::{Client, place_of};
use crate::answers::{Acknowledged, Rows};
use crate::error::Error;
use crate::retry::Failure;
use crate::route::{Part, partition};

impl Client {
    /// Reads the rows of `sets`' keys: for each entry of `tables` those of the set it points to.
    ///
    /// The answer's rows are in the order of the keys, whichever servers they came from; its clocks
    /// are of the shards that have keys. With `exactly_below` it waits a little until each
    /// shard holds exactly the sources below (rule C12).
    ///
    /// # Errors
    /// As [`push`](Self::push), but never [`Error::Gap`].
    pub async fn pull(
        &self,
        sets: Vec<Arc<ShardedKeys>>,
        tables: &[(TableId, usize)],
        exactly_below: Option<SourceId>,
    ) -> Result<Pulled, Error> {
        self.check_shards(&sets)?;
        for &(table, set) in tables {
            self.dim_of(table, set, &sets)?;
        }
        let mut rows = Rows::new(&sets, tables, &self.dims);
        let mut trial = self.retrier.begin("pull");
        let mut used = None;
        while !rows.open().is_empty() {
            let failure = match self.locate(&mut used).await {
                Err(failure) => Some(failure),
                Ok(map) => {
                    let parts = partition(&sets, rows.open(), &map.owners);
                    self.pull_parts(&map, &parts, tables, exactly_below, &mut rows)
                        .await
                }
            };
            if let Some(failure) = failure {
                trial.pause_if_exact(failure).await?;
            }
        }
        Ok(rows.finish())
    }

    /// Applies one batch's gradients once to every shard of the job, or ends a source.
    ///
    /// Shards without keys are covered too, so that their windows have no holes (rule S1). What is
    /// not acknowledged goes again under the same name, and only that (rule W2).
    ///
    /// # Errors
    /// [`Error::Gap`] when a shard lacks earlier pushes of the source (rule W3);
    /// [`Error::Refused`] when a server says no; [`Error::GaveUp`] when patience ends; and the
    /// errors of sets and gradients that do not fit the job's schema.
    pub async fn push(
        &self,
        lineage: Lineage,
        id: PushId,
        end: bool,
        sets: Vec<Arc<ShardedKeys>>,
        tables: Vec<TableGradients>,
    ) -> Result<Pushed, Error> {
        self.check_shards(&sets)?;
        for t in &tables {
            let dim = self.dim_of(t.table, t.set, &sets)?;
            let want = sets[t.set].len() * dim;
            if t.gradients.len() != want {
                return Err(Error::Gradients {
                    table: t.table,
                    got: t.gradients.len(),
                    want,
                });
            }
        }
        let whole = Push {
            job: self.job,
            lineage,
            id,
            end,
            cover: Vec::new(),
            sets,
            tables,
        };
        let mut acknowledged = Acknowledged::new(self.shards.all());
        let mut trial = self.retrier.begin(format!("push {id}"));
        let mut used = None;
        while !acknowledged.open().is_empty() {
            let failure = match self.locate(&mut used).await {
                Err(failure) => Some(failure),
                Ok(map) => {
                    let parts = partition(&whole.sets, acknowledged.open(), &map.owners);
                    self.push_parts(&map, &parts, &whole, &mut acknowledged)
                        .await
                }
            };
            if let Some((next, shard)) = acknowledged.gap() {
                return Err(Error::Gap { id, shard, next });
            }
            if let Some(failure) = failure {
                trial.pause(failure).await?;
            }
        }
        Ok(acknowledged.finish())
    }

    /// Sends a pull's parts to their servers, all at once, and returns the worst that went wrong.
    async fn pull_parts(
        &self,
        map: &ShardMap,
        parts: &[Part],
        tables: &[(TableId, usize)],
        exactly_below: Option<SourceId>,
        rows: &mut Rows,
    ) -> Option<Failure> {
        let answers = join_all(parts.iter().map(|part| {
            let pull = Pull {
                job: self.job,
                sets: part.keys(),
                tables: tables.to_vec(),
                exactly_below,
            };
            self.ask(map, part.server, |shards| shards.pull(pull))
        }));
        let outcome = |(part, answer): (&Part, Result<_, Failure>)| match answer {
            Ok(pulled) => rows
                .take(part, pulled)
                .err()
                .map(|rule| Failure::new(&place_of(map, part.server), ErrorKind::Internal, rule)),
            Err(failure) => Some(failure),
        };
        Failure::worst(parts.iter().zip(answers.await).filter_map(outcome))
    }

    /// Sends a push's parts to their servers, all at once, and returns the worst that went wrong.
    async fn push_parts(
        &self,
        map: &ShardMap,
        parts: &[Part],
        whole: &Push,
        acknowledged: &mut Acknowledged,
    ) -> Option<Failure> {
        let answers = join_all(parts.iter().map(|part| {
            let push = self.part_of(whole, part);
            self.ask(map, part.server, |shards| shards.push(push))
        }));
        let outcome = |(part, answer): (&Part, Result<_, Failure>)| {
            let (kind, why) = match answer {
                Err(failure) => return Some(failure),
                Ok(pushed) => match acknowledged.take(part, pushed) {
                    Err(rule) => (ErrorKind::Internal, rule.to_string()),
                    Ok(moved) => {
                        let first = moved.first()?;
                        let why = format!("{} shards, {first} first, are not its", moved.len());
                        (ErrorKind::Moved, why)
                    }
                },
            };
            Some(Failure::new(&place_of(map, part.server), kind, why))
        };
        Failure::worst(parts.iter().zip(answers.await).filter_map(outcome))
    }

    /// Copies one server's part out of a push, which is kept for other tries.
    fn part_of(&self, whole: &Push, part: &Part) -> Push {
        let table = |t: &TableGradients| TableGradients {
            table: t.table,
            set: t.set,
            gradients: part.sets[t.set].gather(&t.gradients, self.dims[usize::from(t.table.0)]),
        };
        Push {
            job: whole.job,
            lineage: whole.lineage,
            id: whole.id,
            end: whole.end,
            cover: part.shards.clone(),
            sets: part.keys(),
            tables: whole.tables.iter().map(table).collect(),
        }
    }

    fn check_shards(&self, sets: &[Arc<ShardedKeys>]) -> Result<(), Error> {
        // Shards ascend, so the last is the highest.
        sets.iter()
            .filter_map(|set| set.shards().last())
            .try_for_each(|&shard| self.check_shard(shard))
    }

    /// Returns a table's dim, once it is sure that the table and its set exist.
    fn dim_of(
        &self,
        table: TableId,
        set: usize,
        sets: &[Arc<ShardedKeys>],
    ) -> Result<usize, Error> {
        let (tables, sets) = (self.dims.len(), sets.len());
        if set >= sets {
            return Err(Error::UnknownSet { table, set, sets });
        }
        let dim = self.dims.get(usize::from(table.0)).copied();
        dim.ok_or(Error::UnknownTable { table, tables })
    }
}
