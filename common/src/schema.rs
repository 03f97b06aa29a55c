//! What a job's tables look like; agreed at registration, kept in every checkpoint.

use serde::{Deserialize, Serialize};

use crate::count;
use crate::error::Error;
use crate::id::TableId;
use crate::init::Init;
use crate::optimizer::OptimizerSpec;
use crate::residency::{Admission, Eviction};
use crate::shard::ShardCount;

/// The largest `dim` of a table: a row of it is 256 KiB and fits a message many times.
pub const MAX_DIM: u32 = 65_536;

/// The most tables of a job.
pub const MAX_TABLES: usize = 1024;

/// Rows of one shape and one optimizer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableSchema {
    /// Unique in the job: letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// Weights a row, `1..=65536`.
    pub dim: u32,
    /// How new rows begin.
    pub init: Init,
    /// How rows are updated.
    pub optimizer: OptimizerSpec,
    /// When a key gets a row; without it with its first push.
    pub admission: Option<Admission>,
    /// When a row goes; by default never.
    pub eviction: Eviction,
}

impl TableSchema {
    /// A table that admits every key and keeps every row.
    #[must_use]
    pub fn new(name: impl Into<String>, dim: u32, init: Init, optimizer: OptimizerSpec) -> Self {
        Self {
            name: name.into(),
            dim,
            init,
            optimizer,
            admission: None,
            eviction: Eviction::default(),
        }
    }

    /// Weights a row, as a length.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim as usize
    }

    /// Floats of optimizer state a row.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.optimizer.slots(self.dim())
    }

    /// Rows of one shard that the budget has room for; `None` without one.
    #[must_use]
    pub fn rows_of_shard(&self, shards: ShardCount) -> Option<u64> {
        let floats = self.dim() + self.slots();
        self.eviction.rows_of_shard(floats, self.admission, shards)
    }
}

/// All that a server must know to hold a job's rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSchema {
    /// Into how many shards the keys are cut, for the job's life.
    pub shards: ShardCount,
    /// What new rows' values depend on, beside table and key.
    pub seed: u64,
    /// The tables; a table's place here is its [`TableId`].
    pub tables: Vec<TableSchema>,
}

impl JobSchema {
    /// Checks names, counts, shapes and the optimizers' settings.
    ///
    /// # Errors
    /// [`Error::Schema`] that names the table and the rule.
    pub fn validate(&self) -> Result<(), Error> {
        let wrong = |table: &str, rule: String| {
            Err(Error::Schema {
                table: table.into(),
                rule,
            })
        };
        if self.tables.is_empty() || self.tables.len() > MAX_TABLES {
            return wrong("-", format!("a job has 1 to {MAX_TABLES} tables"));
        }
        for (i, table) in self.tables.iter().enumerate() {
            let name = table.name.as_str();
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            if name.is_empty() || name.len() > 128 || !name.chars().all(plain) {
                return wrong(name, "a name has 1 to 128 letters, digits, _ - or .".into());
            }
            if self.tables[..i].iter().any(|t| t.name == name) {
                return wrong(name, "a name is used once".into());
            }
            if table.dim == 0 || table.dim > MAX_DIM {
                return wrong(name, format!("dim {} is not in 1..={MAX_DIM}", table.dim));
            }
            if let Err((field, rule)) = table.optimizer.validate() {
                return wrong(name, format!("{} {field} {rule}", table.optimizer.kind()));
            }
            let residency = table
                .admission
                .map_or(Ok(()), |a| a.validate())
                .and_then(|()| {
                    let floats = table.dim() + table.slots();
                    table
                        .eviction
                        .validate(floats, table.admission, self.shards)
                });
            if let Err((field, rule)) = residency {
                return wrong(name, format!("{field} {rule}"));
            }
            let counts = table.optimizer == OptimizerSpec::Count;
            if counts && (table.dim(), table.init) != (count::LIMBS, Init::Zeros) {
                let dim = count::LIMBS;
                return wrong(name, format!("counts have dim {dim} and begin as zeros"));
            }
        }
        Ok(())
    }

    /// Compares what a worker asks for with what the servers hold.
    ///
    /// # Errors
    /// [`Error::SchemaMismatch`] that names the first difference, both sides.
    pub fn must_equal(&self, held: &Self) -> Result<(), Error> {
        let differ = |what: String, asked: String, held: String| {
            Err(Error::SchemaMismatch { what, asked, held })
        };
        if self.shards != held.shards {
            let count = |s: &Self| s.shards.len().to_string();
            return differ("number of shards".into(), count(self), count(held));
        }
        if self.seed != held.seed {
            return differ("seed".into(), self.seed.to_string(), held.seed.to_string());
        }
        let names = |s: &Self| {
            s.tables
                .iter()
                .map(|t| t.name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        if names(self) != names(held) {
            return differ("tables".into(), names(self), names(held));
        }
        for (a, b) in self.tables.iter().zip(&held.tables) {
            let what = |field: &str| format!("{field} of table `{}`", a.name);
            if a.dim != b.dim {
                return differ(what("dim"), a.dim.to_string(), b.dim.to_string());
            }
            if a.optimizer != b.optimizer {
                let show = |t: &TableSchema| settings(&t.optimizer);
                return differ(what("optimizer"), show(a), show(b));
            }
            if a.init != b.init {
                return differ(what("init"), settings(&a.init), settings(&b.init));
            }
            if a.admission != b.admission {
                let show = |t: &TableSchema| t.admission.map_or("none".into(), |a| settings(&a));
                return differ(what("admission"), show(a), show(b));
            }
            if a.eviction != b.eviction {
                let show = |t: &TableSchema| match t.eviction.is_on() {
                    true => settings(&t.eviction),
                    false => "none".into(),
                };
                return differ(what("eviction"), show(a), show(b));
            }
        }
        Ok(())
    }

    /// Finds a table by name.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<(TableId, &TableSchema)> {
        let at = self.tables.iter().position(|t| t.name == name)?;
        Some((TableId(u16::try_from(at).ok()?), &self.tables[at]))
    }
}

/// Settings as a config has them, on one line.
fn settings(of: &impl Serialize) -> String {
    let text = toml::to_string(of).unwrap_or_default();
    text.trim().replace('\n', ", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_counts_has_three_limbs_and_begins_at_0() {
        let check = |dim, init| {
            let table = TableSchema::new("count", dim, init, OptimizerSpec::Count);
            let schema = JobSchema {
                shards: ShardCount::default(),
                seed: 1,
                tables: vec![table],
            };
            schema.validate().map_err(|e| e.to_string())
        };
        assert_eq!(check(3, Init::Zeros), Ok(()));
        let rule = "table `count`: counts have dim 3 and begin as zeros";
        assert_eq!(check(2, Init::Zeros), Err(rule.into()));
        assert_eq!(check(3, Init::Normal { std: 0.1 }), Err(rule.into()));
    }
}
