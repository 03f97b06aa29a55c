//! What a job is: schema, recipe and plan.

use windlass_common::coordination::{Plan, Purpose, Recipe, Register, Registered};
use windlass_common::id::{JobId, WorkerId};
use windlass_common::init::Init;
use windlass_common::optimizer::{Adagrad, Adam, Ftrl, Momentum, OptimizerSpec, Sgd};
use windlass_common::residency::{Admission, Eviction};
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::ShardCount;
use windlass_common::split::InputFile;
use windlass_common::tally::Metric;

use super::required;
use crate::error::WireError;
use crate::limits::{self, at_most, invalid};
use crate::{v1, version};

impl From<Register> for v1::RegisterRequest {
    fn from(register: Register) -> Self {
        Self {
            protocol: Some(version::SPOKEN),
            job: register.job,
            worker: register.worker.0,
            schema: Some(register.schema.into()),
            recipe: Some(register.recipe.into()),
            plan: Some(register.plan.into()),
            fresh: register.fresh,
            checkpoint: register.checkpoint.map(Into::into),
            config: register.config,
        }
    }
}

impl TryFrom<v1::RegisterRequest> for Register {
    type Error = WireError;

    fn try_from(message: v1::RegisterRequest) -> Result<Self, WireError> {
        // First, for in another version the rest may mean something else.
        version::agree(message.protocol.unwrap_or_default())?;
        Ok(Self {
            job: limits::name("job", message.job)?,
            worker: WorkerId(message.worker),
            schema: required("schema", message.schema)?.try_into()?,
            recipe: required("recipe", message.recipe)?.try_into()?,
            plan: required("plan", message.plan)?.try_into()?,
            fresh: message.fresh,
            checkpoint: message.checkpoint.map(TryInto::try_into).transpose()?,
            config: limits::config("config", message.config)?,
        })
    }
}

impl From<Registered> for v1::RegisterResponse {
    fn from(registered: Registered) -> Self {
        Self {
            job: registered.job.0,
            map: Some(registered.map.into()),
        }
    }
}

impl TryFrom<v1::RegisterResponse> for Registered {
    type Error = WireError;

    fn try_from(message: v1::RegisterResponse) -> Result<Self, WireError> {
        Ok(Self {
            job: JobId(message.job),
            map: required("map", message.map)?.try_into()?,
        })
    }
}

impl From<JobSchema> for v1::JobSchema {
    fn from(schema: JobSchema) -> Self {
        Self {
            shards: schema.shards.into(),
            seed: schema.seed,
            tables: schema.tables.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::JobSchema> for JobSchema {
    type Error = WireError;

    fn try_from(message: v1::JobSchema) -> Result<Self, WireError> {
        at_most("schema.tables", message.tables.len(), limits::TABLES)?;
        let schema = Self {
            shards: ShardCount::new(message.shards).map_err(|e| invalid("schema.shards", e))?,
            seed: message.seed,
            tables: message
                .tables
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
        };
        schema.validate().map_err(|e| invalid("schema", e))?;
        Ok(schema)
    }
}

impl From<TableSchema> for v1::TableSchema {
    fn from(table: TableSchema) -> Self {
        Self {
            name: table.name,
            dim: table.dim,
            init: Some(table.init.into()),
            optimizer: Some(table.optimizer.into()),
            admission: table.admission.map(|admission| v1::Admission {
                sightings: admission.sightings,
                sketch_bytes: admission.sketch_bytes,
            }),
            ttl: table.eviction.ttl.unwrap_or_default(),
            max_bytes: table.eviction.max_bytes.unwrap_or_default(),
        }
    }
}

impl TryFrom<v1::TableSchema> for TableSchema {
    type Error = WireError;

    fn try_from(message: v1::TableSchema) -> Result<Self, WireError> {
        let set = |number: u64| (number > 0).then_some(number);
        Ok(Self {
            name: limits::name("schema.tables.name", message.name)?,
            dim: message.dim,
            init: required("schema.tables.init", message.init)?.try_into()?,
            optimizer: required("schema.tables.optimizer", message.optimizer)?.try_into()?,
            admission: message.admission.map(|admission| Admission {
                sightings: admission.sightings,
                sketch_bytes: admission.sketch_bytes,
            }),
            eviction: Eviction {
                ttl: set(message.ttl),
                max_bytes: set(message.max_bytes),
            },
        })
    }
}

impl From<Init> for v1::Init {
    fn from(init: Init) -> Self {
        use v1::init::{Kind, Zeros};
        Self {
            kind: Some(match init {
                Init::Zeros => Kind::Zeros(Zeros {}),
                Init::Normal { std } => Kind::Normal(std),
                Init::Uniform { scale } => Kind::Uniform(scale),
            }),
        }
    }
}

impl TryFrom<v1::Init> for Init {
    type Error = WireError;

    fn try_from(message: v1::Init) -> Result<Self, WireError> {
        use v1::init::Kind;
        let width = |value: f32| {
            if value.is_finite() && value >= 0.0 {
                Ok(value)
            } else {
                Err(invalid(
                    "schema.tables.init",
                    format_args!("{value} must be 0 or more"),
                ))
            }
        };
        Ok(match required("schema.tables.init.kind", message.kind)? {
            Kind::Zeros(_) => Self::Zeros,
            Kind::Normal(std) => Self::Normal { std: width(std)? },
            Kind::Uniform(scale) => Self::Uniform {
                scale: width(scale)?,
            },
        })
    }
}

/// Copies settings whose fields have the same names on both sides.
macro_rules! same_fields {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl From<$name> for v1::$name {
            fn from(settings: $name) -> Self {
                Self { $($field: settings.$field),* }
            }
        }

        impl From<v1::$name> for $name {
            fn from(message: v1::$name) -> Self {
                Self { $($field: message.$field),* }
            }
        }
    )*};
}

same_fields! {
    Sgd { learning_rate, l2 }
    Momentum { learning_rate, momentum, l2 }
    Adagrad { learning_rate, initial_accumulator, epsilon, l2 }
    Adam { learning_rate, beta1, beta2, epsilon, l2 }
    Ftrl { alpha, beta, l1, l2 }
}

impl From<OptimizerSpec> for v1::Optimizer {
    fn from(spec: OptimizerSpec) -> Self {
        use v1::optimizer::Kind;
        Self {
            kind: Some(match spec {
                OptimizerSpec::Sgd(s) => Kind::Sgd(s.into()),
                OptimizerSpec::Momentum(s) => Kind::Momentum(s.into()),
                OptimizerSpec::Adagrad(s) => Kind::Adagrad(s.into()),
                OptimizerSpec::RowwiseAdagrad(s) => Kind::RowwiseAdagrad(s.into()),
                OptimizerSpec::Adam(s) => Kind::Adam(s.into()),
                OptimizerSpec::Ftrl(s) => Kind::Ftrl(s.into()),
                OptimizerSpec::Count => Kind::Count(v1::Count {}),
            }),
        }
    }
}

impl TryFrom<v1::Optimizer> for OptimizerSpec {
    type Error = WireError;

    /// Takes the settings as they are; their ranges are checked with the whole schema.
    fn try_from(message: v1::Optimizer) -> Result<Self, WireError> {
        use v1::optimizer::Kind;
        Ok(
            match required("schema.tables.optimizer.kind", message.kind)? {
                Kind::Sgd(s) => Self::Sgd(s.into()),
                Kind::Momentum(s) => Self::Momentum(s.into()),
                Kind::Adagrad(s) => Self::Adagrad(s.into()),
                Kind::RowwiseAdagrad(s) => Self::RowwiseAdagrad(s.into()),
                Kind::Adam(s) => Self::Adam(s.into()),
                Kind::Ftrl(s) => Self::Ftrl(s.into()),
                Kind::Count(v1::Count {}) => Self::Count,
            },
        )
    }
}

impl From<InputFile> for v1::InputFile {
    fn from(file: InputFile) -> Self {
        Self {
            name: file.name,
            bytes: file.bytes,
            digest: file.digest.to_vec().into(),
            divisible: file.divisible,
        }
    }
}

impl TryFrom<v1::InputFile> for InputFile {
    type Error = WireError;

    fn try_from(message: v1::InputFile) -> Result<Self, WireError> {
        Ok(Self {
            name: limits::name("files.name", message.name)?,
            bytes: message.bytes,
            digest: limits::digest("files.digest", &message.digest)?,
            divisible: message.divisible,
        })
    }
}

fn files(field: &str, files: Vec<v1::InputFile>) -> Result<Vec<InputFile>, WireError> {
    at_most(field, files.len(), limits::FILES)?;
    files.into_iter().map(TryInto::try_into).collect()
}

impl From<Recipe> for v1::Recipe {
    fn from(recipe: Recipe) -> Self {
        Self {
            files: recipe.files.into_iter().map(Into::into).collect(),
            split_bytes: recipe.split_bytes,
            batch_size: recipe.batch_size,
            shuffle: recipe.shuffle,
            seed: recipe.seed,
            reading: recipe.reading.to_vec().into(),
        }
    }
}

impl TryFrom<v1::Recipe> for Recipe {
    type Error = WireError;

    fn try_from(message: v1::Recipe) -> Result<Self, WireError> {
        Ok(Self {
            files: files("recipe.files", message.files)?,
            split_bytes: message.split_bytes,
            batch_size: message.batch_size,
            shuffle: message.shuffle,
            seed: message.seed,
            reading: limits::digest("recipe.reading", &message.reading)?,
        })
    }
}

impl From<Plan> for v1::Plan {
    fn from(plan: Plan) -> Self {
        Self {
            epochs: plan.epochs,
            validation: plan.validation.into_iter().map(Into::into).collect(),
            test: plan.test.into_iter().map(Into::into).collect(),
            metric: v1::Metric::from(plan.metric).into(),
            patience: plan.patience,
            servers: plan.servers,
            workers: plan.workers,
            purpose: v1::Purpose::from(plan.purpose).into(),
        }
    }
}

impl TryFrom<v1::Plan> for Plan {
    type Error = WireError;

    fn try_from(message: v1::Plan) -> Result<Self, WireError> {
        Ok(Self {
            epochs: message.epochs,
            validation: files("plan.validation", message.validation)?,
            test: files("plan.test", message.test)?,
            metric: metric(message.metric)?,
            patience: message.patience,
            servers: message.servers,
            workers: message.workers,
            purpose: purpose(message.purpose)?,
        })
    }
}

impl From<Purpose> for v1::Purpose {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Train => Self::Train,
            Purpose::Evaluate => Self::Evaluate,
        }
    }
}

fn purpose(number: i32) -> Result<Purpose, WireError> {
    match v1::Purpose::try_from(number) {
        Ok(v1::Purpose::Train) => Ok(Purpose::Train),
        Ok(v1::Purpose::Evaluate) => Ok(Purpose::Evaluate),
        Ok(v1::Purpose::Unspecified) | Err(_) => {
            Err(invalid("plan.purpose", format_args!("{number} is none")))
        }
    }
}

impl From<Metric> for v1::Metric {
    fn from(metric: Metric) -> Self {
        match metric {
            Metric::Auc => Self::Auc,
            Metric::LogLoss => Self::LogLoss,
            Metric::Accuracy => Self::Accuracy,
            Metric::Rmse => Self::Rmse,
            Metric::Calibration => Self::Calibration,
            Metric::NormalizedEntropy => Self::NormalizedEntropy,
        }
    }
}

fn metric(number: i32) -> Result<Metric, WireError> {
    match v1::Metric::try_from(number) {
        Ok(v1::Metric::Auc) => Ok(Metric::Auc),
        Ok(v1::Metric::LogLoss) => Ok(Metric::LogLoss),
        Ok(v1::Metric::Accuracy) => Ok(Metric::Accuracy),
        Ok(v1::Metric::Rmse) => Ok(Metric::Rmse),
        Ok(v1::Metric::Calibration) => Ok(Metric::Calibration),
        Ok(v1::Metric::NormalizedEntropy) => Ok(Metric::NormalizedEntropy),
        Ok(v1::Metric::Unspecified) | Err(_) => Err(invalid(
            "plan.metric",
            format_args!("{number} is no metric"),
        )),
    }
}
