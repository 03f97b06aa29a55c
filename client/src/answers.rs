//! What has come back so far, put together from the servers' answers.

use std::sync::Arc;

use windlass_common::exchange::{Answer, Pulled, Pushed};
use windlass_common::id::{Clock, Seq, ShardId, TableId};
use windlass_common::shard::ShardedKeys;

use crate::route::Part;

/// The rows of a pull.
pub(crate) struct Rows {
    /// The wanted tables: which set of keys each needs, and its dim.
    tables: Vec<(usize, usize)>,
    /// Shards that have not answered yet, ascending.
    open: Vec<ShardId>,
    clocks: Vec<(ShardId, Clock)>,
    rows: Vec<Vec<f32>>,
}

impl Rows {
    /// Waits for every shard that has keys in `sets`; `dims` are the schema's, by table.
    pub(crate) fn new(
        sets: &[Arc<ShardedKeys>],
        tables: &[(TableId, usize)],
        dims: &[usize],
    ) -> Self {
        let mut open: Vec<ShardId> = sets.iter().flat_map(|s| s.shards()).copied().collect();
        open.sort_unstable();
        open.dedup();
        Self {
            tables: tables
                .iter()
                .map(|&(table, set)| (set, dims[usize::from(table.0)]))
                .collect(),
            open,
            clocks: Vec::new(),
            rows: vec![Vec::new(); tables.len()],
        }
    }

    /// The shards that have not answered yet, ascending.
    pub(crate) fn open(&self) -> &[ShardId] {
        &self.open
    }

    /// Takes one server's answer.
    ///
    /// # Errors
    /// The rule of the protocol that the answer breaks.
    pub(crate) fn take(&mut self, part: &Part, answer: Pulled) -> Result<(), &'static str> {
        if !answer.clocks.iter().map(|(s, _)| s).eq(&part.shards) {
            return Err("its clocks are not those of the shards that were asked");
        }
        let fits = |(&(set, dim), rows): (&(usize, usize), &Vec<f32>)| {
            rows.len() == part.sets[set].keys.len() * dim
        };
        if answer.tables.len() != self.tables.len()
            || !self.tables.iter().zip(&answer.tables).all(fits)
        {
            return Err("its rows are not one for each key that was asked");
        }
        let wholes = self.rows.iter_mut().zip(answer.tables);
        for (&(set, dim), (whole, rows)) in self.tables.iter().zip(wholes) {
            part.sets[set].scatter(rows, dim, whole);
        }
        self.clocks.extend(answer.clocks);
        self.open
            .retain(|shard| part.shards.binary_search(shard).is_err());
        Ok(())
    }

    /// Returns the whole answer, once no shard is open.
    pub(crate) fn finish(mut self) -> Pulled {
        debug_assert!(self.open.is_empty());
        self.clocks.sort_unstable();
        Pulled {
            clocks: self.clocks,
            tables: self.rows,
        }
    }
}

/// The acknowledgements of a push.
pub(crate) struct Acknowledged {
    /// Shards that have not acknowledged it yet, ascending.
    open: Vec<ShardId>,
    answers: Vec<(ShardId, Answer)>,
    gap: Option<(Seq, ShardId)>,
}

impl Acknowledged {
    /// Waits for every shard of the job (rule S1).
    pub(crate) fn new(cover: impl Iterator<Item = ShardId>) -> Self {
        Self {
            open: cover.collect(),
            answers: Vec::new(),
            gap: None,
        }
    }

    /// The shards that have not acknowledged it yet, ascending.
    pub(crate) fn open(&self) -> &[ShardId] {
        &self.open
    }

    /// The shard that lacks most, if any refused for a gap, and the first push that it lacks.
    pub(crate) fn gap(&self) -> Option<(Seq, ShardId)> {
        self.gap
    }

    /// Takes one server's answer, and returns which of its shards have moved.
    ///
    /// # Errors
    /// The rule of the protocol that the answer breaks.
    pub(crate) fn take(
        &mut self,
        part: &Part,
        answer: Pushed,
    ) -> Result<Vec<ShardId>, &'static str> {
        if !answer.answers.iter().map(|(s, _)| s).eq(&part.shards) {
            return Err("its answers are not for the shards that were sent");
        }
        let mut moved = Vec::new();
        for (shard, answer) in answer.answers {
            match answer {
                Answer::Applied { .. } | Answer::Duplicate => self.answers.push((shard, answer)),
                Answer::Moved => moved.push(shard),
                // C4 leases from the lowest push that any shard lacks.
                Answer::Gap { next } => {
                    let this = (next, shard);
                    self.gap = Some(self.gap.map_or(this, |other| other.min(this)));
                }
            }
        }
        self.answers.sort_unstable_by_key(|&(shard, _)| shard);
        let answers = &self.answers;
        self.open
            .retain(|shard| answers.binary_search_by_key(shard, |&(s, _)| s).is_err());
        Ok(moved)
    }

    /// Returns the whole answer, once no shard is open.
    pub(crate) fn finish(self) -> Pushed {
        debug_assert!(self.open.is_empty());
        Pushed {
            answers: self.answers,
        }
    }
}
