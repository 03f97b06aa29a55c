//! From a config to a job: its files, its tables, what shapes its batches, and its model.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use windlass_common::config::{ConfigError, ModelKind, OptimizerConfig, TrainConfig};
use windlass_common::coordination::{Plan, Purpose, Recipe};
use windlass_common::human::Size;
use windlass_common::id::SourceId;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::split;
use windlass_common::tally::{Metric, Task};

use crate::data::{Input, LabelRule, ReadPlan, reading_digest, with_statistics};
use crate::error::Error;
use crate::loss::Loss;
use crate::model::{Model, build, loss};
use crate::score::Scorer;
use crate::trainer::{Inputs, Pace, Step};

/// A job, ready to be registered.
pub struct Job {
    /// The effective config, measured statistics included.
    pub config: TrainConfig,
    /// The files.
    pub inputs: Inputs,
    /// The tables.
    pub schema: JobSchema,
    /// What shapes batches.
    pub recipe: Recipe,
    /// How lines become examples.
    pub plan: Arc<ReadPlan>,
    /// The model with its loss and metrics.
    pub step: Step,
    metric: Metric,
}

impl Job {
    /// Finds the files and builds the model. Globs are relative to `folder`.
    ///
    /// # Errors
    /// Files that are not there or cannot be read, or an optimizer for a table that the model does
    /// not have.
    pub fn new(config: TrainConfig, folder: &Path) -> Result<Self, Error> {
        let train = Input::discover(&config.data.train, folder)?;
        let labels = labels(&config);
        let data = with_statistics(&config.data, labels, &train)?;
        let config = TrainConfig { data, ..config };
        let recipe = Recipe {
            split_bytes: split_bytes(&config, &train),
            batch_size: config.train.batch_size,
            shuffle: config.data.shuffle,
            seed: config.job.seed,
            reading: reading_digest(&config.data, labels),
            files: train.files.clone(),
        };
        Self::assemble(config, folder, train, recipe)
    }

    /// The same without training files, for scoring what `recipe` has trained.
    ///
    /// # Errors
    /// As [`Job::new`].
    pub fn of_recipe(config: TrainConfig, folder: &Path, recipe: Recipe) -> Result<Self, Error> {
        Self::assemble(config, folder, Input::default(), recipe)
    }

    fn assemble(
        config: TrainConfig,
        folder: &Path,
        train: Input,
        recipe: Recipe,
    ) -> Result<Self, Error> {
        let held_out = |patterns: &[String]| {
            if patterns.is_empty() {
                Ok(Input::default())
            } else {
                Input::discover(patterns, folder)
            }
        };
        let inputs = Inputs {
            train: Arc::new(train),
            validation: Arc::new(held_out(&config.data.validation)?),
            test: Arc::new(held_out(&config.data.test)?),
        };
        let model: Arc<dyn Model> = build(&config.model, &config.data)?.into();
        let loss = loss(&config.model);
        let schema = schema(&config, &*model)?;
        schema.validate()?;
        let metric = metric(&config, loss.task());
        let plan = Arc::new(ReadPlan {
            data: config.data.clone(),
            labels: labels(&config),
        });
        let scorer = Scorer::new(loss, config.train.negative_sampling_rate);
        let step = Step::new(model, loss, config.train.reduction, scorer);
        Ok(Self {
            config,
            inputs,
            schema,
            recipe,
            plan,
            step,
            metric,
        })
    }

    /// How the coordinator is to steer the job.
    #[must_use]
    pub fn steering(&self) -> Plan {
        let cluster = self.config.cluster.clone().unwrap_or_default();
        Plan {
            epochs: self.config.train.epochs,
            validation: self.inputs.validation.files.clone(),
            test: self.inputs.test.files.clone(),
            metric: self.metric,
            patience: self
                .config
                .train
                .early_stop
                .as_ref()
                .map(|stop| stop.patience),
            servers: cluster.servers,
            workers: cluster.workers,
            purpose: Purpose::Train,
        }
    }

    /// Whether the job counts keys and learns nothing.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.config.model.kind == ModelKind::Count
    }

    /// The number above the sources of so many epochs, which begin at 0 (rule N1).
    #[must_use]
    pub fn sources_end(&self, epochs: u32) -> SourceId {
        let splits = split::cut(&self.recipe.files, self.recipe.split_bytes).len();
        SourceId(splits as u64 * u64::from(epochs))
    }

    /// How the training loop runs.
    #[must_use]
    pub fn pace(&self) -> Pace {
        let train = &self.config.train;
        let cluster = self.config.cluster.clone().unwrap_or_default();
        Pace {
            batch_size: train.batch_size as usize,
            prefetch: train.prefetch as usize,
            open_pushes: train.open_pushes as usize,
            read_ahead: train.read_ahead as usize,
            seed: self.config.job.seed,
            patience: cluster.patience.duration(),
        }
    }
}

/// Checks what a config says of its model: its columns, and the tables that have optimizers.
///
/// # Errors
/// [`Error::Config`] that names the key and the rule.
pub fn check(config: &TrainConfig) -> Result<(), Error> {
    let model = build(&config.model, &config.data)?;
    Ok(schema(config, &*model)?.validate()?)
}

/// About how many bytes a split has: the config's, or what gives 32 splits, and four for each worker
/// that is expected, between 64 KiB and 64 MiB.
fn split_bytes(config: &TrainConfig, train: &Input) -> u64 {
    let total: u64 = train.files.iter().map(|f| f.bytes).sum();
    let workers = config.cluster.as_ref().map_or(1, |cluster| cluster.workers);
    let splits = u64::from(workers).saturating_mul(4).max(32);
    let default = (total / splits).clamp(64 << 10, 64 << 20);
    config.data.split_size.map_or(default, Size::bytes)
}

/// The metric that says which epoch is best: the config's, else that of the loss.
fn metric(config: &TrainConfig, task: Task) -> Metric {
    let natural = if task == Task::Real {
        Metric::Rmse
    } else {
        Metric::LogLoss
    };
    config
        .train
        .early_stop
        .as_ref()
        .map_or(natural, |stop| stop.metric)
}

/// Which labels the model's loss can learn from.
pub fn labels(config: &TrainConfig) -> LabelRule {
    match loss(&config.model) {
        Loss::Logistic => LabelRule::Binary,
        // What is not learnt may be anything that a number can be.
        Loss::Squared | Loss::Nothing => LabelRule::Real,
        Loss::SoftmaxCrossEntropy => LabelRule::Classes(config.model.classes),
    }
}

fn schema(config: &TrainConfig, model: &dyn Model) -> Result<JobSchema, Error> {
    let OptimizerConfig { spec, tables } = &config.optimizer;
    let shapes = model.tables();
    let names: BTreeSet<&str> = shapes.iter().map(|s| s.name).collect();
    let of_optimizers = tables.keys().map(|name| ("optimizer.tables", name));
    let of_tables = config.tables.keys().map(|name| ("tables", name));
    let mut named = of_optimizers.chain(of_tables);
    if let Some((section, unknown)) = named.find(|(_, name)| !names.contains(name.as_str())) {
        let known = names.into_iter().collect::<Vec<_>>().join(", ");
        let key = format!("{section}.{unknown}");
        let rule = format!("the model has no such table; it has {known}");
        return Err(ConfigError::Invalid { key, rule }.into());
    }
    let table = |shape: &crate::model::TableShape| {
        let dim = u32::try_from(shape.dim).map_err(|_| Error::Shape {
            keys: 1,
            dim: shape.dim,
            got: shape.dim,
        })?;
        let optimizer = if config.model.kind == ModelKind::Count {
            OptimizerSpec::Count
        } else {
            tables.get(shape.name).unwrap_or(spec).clone()
        };
        let residency = config.tables.get(shape.name);
        let residency = residency.cloned().unwrap_or_default();
        Ok(TableSchema {
            admission: residency.admission(),
            eviction: residency.eviction(),
            ..TableSchema::new(shape.name, dim, shape.init, optimizer)
        })
    };
    Ok(JobSchema {
        shards: config.job.shards,
        seed: config.job.seed,
        tables: shapes.iter().map(table).collect::<Result<_, Error>>()?,
    })
}
