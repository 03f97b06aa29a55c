//! A job's schema as the manifest has it: kinds by number, which never change their meaning.
//!
//! | init | settings | | optimizer | settings |
//! |---|---|---|---|---|
//! | 1 zeros | | | 1 sgd | learning_rate, l2 |
//! | 2 normal | std | | 2 momentum | learning_rate, momentum, l2 |
//! | 3 uniform | scale | | 3 adagrad | learning_rate, initial_accumulator, epsilon, l2 |
//! | | | | 4 rowwise_adagrad | learning_rate, initial_accumulator, epsilon, l2 |
//! | | | | 5 adam | learning_rate, beta1, beta2, epsilon, l2 |
//! | | | | 6 ftrl | alpha, beta, l1, l2 |
//! | | | | 7 count | |

use bincode::{Decode, Encode};

use crate::init::Init;
use crate::optimizer::{Adagrad, Adam, Ftrl, Momentum, OptimizerSpec, Sgd};
use crate::residency::{Admission, Eviction};
use crate::schema::{JobSchema, TableSchema};
use crate::shard::ShardCount;

/// A [`JobSchema`] in bytes.
#[derive(Debug, Encode, Decode)]
pub(super) struct SchemaRecord {
    shards: u32,
    seed: u64,
    tables: Vec<TableRecord>,
}

#[derive(Debug, Encode, Decode)]
struct TableRecord {
    name: String,
    dim: u32,
    init: Choice,
    optimizer: Choice,
    residency: ResidencyRecord,
}

/// Which keys have rows; 0 stands for what is not set.
#[derive(Debug, Encode, Decode)]
struct ResidencyRecord {
    sightings: u32,
    sketch_bytes: u64,
    ttl: u64,
    max_bytes: u64,
}

/// One of several kinds, with its settings in a fixed order.
#[derive(Debug, Encode, Decode)]
struct Choice {
    kind: u16,
    settings: Vec<f32>,
}

impl SchemaRecord {
    /// Takes a schema apart.
    pub(super) fn of(schema: &JobSchema) -> Self {
        let table = |table: &TableSchema| TableRecord {
            name: table.name.clone(),
            dim: table.dim,
            init: init(table.init),
            optimizer: optimizer(&table.optimizer),
            residency: ResidencyRecord::of(table.admission, table.eviction),
        };
        Self {
            shards: schema.shards.into(),
            seed: schema.seed,
            tables: schema.tables.iter().map(table).collect(),
        }
    }

    /// Puts the schema together; an error says what is unknown. Ranges are not checked here.
    pub(super) fn schema(self) -> Result<JobSchema, String> {
        let table = |table: TableRecord| {
            let of = |what: String| format!("table `{}`: {what}", table.name);
            Ok(TableSchema {
                dim: table.dim,
                init: table.init.init().map_err(of)?,
                optimizer: table.optimizer.optimizer().map_err(of)?,
                admission: table.residency.admission(),
                eviction: table.residency.eviction(),
                name: table.name.clone(),
            })
        };
        Ok(JobSchema {
            shards: ShardCount::new(self.shards).map_err(|e| e.to_string())?,
            seed: self.seed,
            tables: self
                .tables
                .into_iter()
                .map(table)
                .collect::<Result<_, String>>()?,
        })
    }
}

impl ResidencyRecord {
    fn of(admission: Option<Admission>, eviction: Eviction) -> Self {
        let (sightings, sketch_bytes) = admission.map_or((0, 0), |a| (a.sightings, a.sketch_bytes));
        Self {
            sightings,
            sketch_bytes,
            ttl: eviction.ttl.unwrap_or_default(),
            max_bytes: eviction.max_bytes.unwrap_or_default(),
        }
    }

    fn admission(&self) -> Option<Admission> {
        (self.sightings > 0).then_some(Admission {
            sightings: self.sightings,
            sketch_bytes: self.sketch_bytes,
        })
    }

    fn eviction(&self) -> Eviction {
        let set = |number: u64| (number > 0).then_some(number);
        Eviction {
            ttl: set(self.ttl),
            max_bytes: set(self.max_bytes),
        }
    }
}

fn init(init: Init) -> Choice {
    match init {
        Init::Zeros => Choice::new(1, &[]),
        Init::Normal { std } => Choice::new(2, &[std]),
        Init::Uniform { scale } => Choice::new(3, &[scale]),
    }
}

// Each struct is taken apart by all its fields: one that is added later does not compile here.
fn optimizer(spec: &OptimizerSpec) -> Choice {
    let adagrad = |kind, spec: &Adagrad| {
        let &Adagrad {
            learning_rate,
            initial_accumulator,
            epsilon,
            l2,
        } = spec;
        Choice::new(kind, &[learning_rate, initial_accumulator, epsilon, l2])
    };
    match spec {
        &OptimizerSpec::Sgd(Sgd { learning_rate, l2 }) => Choice::new(1, &[learning_rate, l2]),
        &OptimizerSpec::Momentum(Momentum {
            learning_rate,
            momentum,
            l2,
        }) => Choice::new(2, &[learning_rate, momentum, l2]),
        OptimizerSpec::Adagrad(spec) => adagrad(3, spec),
        OptimizerSpec::RowwiseAdagrad(spec) => adagrad(4, spec),
        &OptimizerSpec::Adam(Adam {
            learning_rate,
            beta1,
            beta2,
            epsilon,
            l2,
        }) => Choice::new(5, &[learning_rate, beta1, beta2, epsilon, l2]),
        &OptimizerSpec::Ftrl(Ftrl {
            alpha,
            beta,
            l1,
            l2,
        }) => Choice::new(6, &[alpha, beta, l1, l2]),
        OptimizerSpec::Count => Choice::new(7, &[]),
    }
}

impl Choice {
    fn new(kind: u16, settings: &[f32]) -> Self {
        Self {
            kind,
            settings: settings.into(),
        }
    }

    fn init(&self) -> Result<Init, String> {
        match (self.kind, self.settings.as_slice()) {
            (1, &[]) => Ok(Init::Zeros),
            (2, &[std]) => Ok(Init::Normal { std }),
            (3, &[scale]) => Ok(Init::Uniform { scale }),
            _ => Err(self.unknown("init")),
        }
    }

    fn optimizer(&self) -> Result<OptimizerSpec, String> {
        let spec = match (self.kind, self.settings.as_slice()) {
            (1, &[learning_rate, l2]) => OptimizerSpec::Sgd(Sgd { learning_rate, l2 }),
            (2, &[learning_rate, momentum, l2]) => OptimizerSpec::Momentum(Momentum {
                learning_rate,
                momentum,
                l2,
            }),
            (kind @ (3 | 4), &[learning_rate, initial_accumulator, epsilon, l2]) => {
                let spec = Adagrad {
                    learning_rate,
                    initial_accumulator,
                    epsilon,
                    l2,
                };
                if kind == 3 {
                    OptimizerSpec::Adagrad(spec)
                } else {
                    OptimizerSpec::RowwiseAdagrad(spec)
                }
            }
            (5, &[learning_rate, beta1, beta2, epsilon, l2]) => OptimizerSpec::Adam(Adam {
                learning_rate,
                beta1,
                beta2,
                epsilon,
                l2,
            }),
            (6, &[alpha, beta, l1, l2]) => OptimizerSpec::Ftrl(Ftrl {
                alpha,
                beta,
                l1,
                l2,
            }),
            (7, &[]) => OptimizerSpec::Count,
            _ => return Err(self.unknown("optimizer")),
        };
        Ok(spec)
    }

    fn unknown(&self, what: &str) -> String {
        let Self { kind, settings } = self;
        format!(
            "{what} of kind {kind} with {} settings is not known; use a newer windlass",
            settings.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every setting its own number, so that two that change places are seen.
    #[test]
    fn every_setting_comes_back() {
        let adagrad = Adagrad {
            learning_rate: 0.1,
            initial_accumulator: 0.2,
            epsilon: 0.3,
            l2: 0.4,
        };
        for spec in [
            OptimizerSpec::Sgd(Sgd {
                learning_rate: 0.1,
                l2: 0.2,
            }),
            OptimizerSpec::Momentum(Momentum {
                learning_rate: 0.1,
                momentum: 0.2,
                l2: 0.3,
            }),
            OptimizerSpec::Adagrad(adagrad.clone()),
            OptimizerSpec::RowwiseAdagrad(adagrad),
            OptimizerSpec::Adam(Adam {
                learning_rate: 0.1,
                beta1: 0.2,
                beta2: 0.3,
                epsilon: 0.4,
                l2: 0.5,
            }),
            OptimizerSpec::Ftrl(Ftrl {
                alpha: 0.1,
                beta: 0.2,
                l1: 0.3,
                l2: 0.4,
            }),
            OptimizerSpec::Count,
        ] {
            assert_eq!(optimizer(&spec).optimizer(), Ok(spec));
        }
        for start in [
            Init::Zeros,
            Init::Normal { std: 0.1 },
            Init::Uniform { scale: 0.2 },
        ] {
            assert_eq!(init(start).init(), Ok(start));
        }
    }

    #[test]
    fn what_decides_over_rows_comes_back() {
        let admission = Admission {
            sightings: 3,
            sketch_bytes: 4096,
        };
        let (ttl, max_bytes) = (Some(100), Some(1 << 30));
        for admission in [None, Some(admission)] {
            for (ttl, max_bytes) in [(None, None), (ttl, None), (None, max_bytes)] {
                let eviction = Eviction { ttl, max_bytes };
                let record = ResidencyRecord::of(admission, eviction);
                assert_eq!(
                    (record.admission(), record.eviction()),
                    (admission, eviction)
                );
            }
        }
    }

    #[test]
    fn kinds_of_a_later_time_are_named() {
        let later = Choice::new(8, &[0.1]);
        assert_eq!(
            later.optimizer(),
            Err("optimizer of kind 8 with 1 settings is not known; use a newer windlass".into())
        );
        assert!(later.init().is_err());
        assert!(Choice::new(1, &[0.1]).optimizer().is_err());
    }
}
