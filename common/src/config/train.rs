//! `train.toml`: a job.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{DataConfig, ModelConfig, OptimizerConfig, TableConfig};
use crate::human::Span;
use crate::shard::ShardCount;
use crate::tally::Metric;

/// A job: what is learnt, from what, and how. The same file serves a laptop and a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// The job's name and seed.
    pub job: JobConfig,
    /// The cluster to train on. Without it the servers run inside the worker's process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterConfig>,
    /// The input.
    pub data: DataConfig,
    /// What is learnt.
    pub model: ModelConfig,
    /// How rows are updated.
    pub optimizer: OptimizerConfig,
    /// Which keys of a table have rows, by the table's name (`linear`, `factors`, ...). Without it
    /// every key that was pushed to has one for good.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, TableConfig>,
    /// The training loop.
    pub train: TrainSection,
}

/// `[job]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobConfig {
    /// Names the job in the cluster and its folder under `runs/`: 1 to 128 letters, digits, `_`,
    /// `-` and `.`, beginning with none of the last two.
    pub name: String,
    /// Seeds initial weights, the order of splits and the shuffle. The same seed, input and one
    /// worker give the same model to the last bit.
    pub seed: u64,
    /// Shards of the key space, a power of two from 1 to 4096, fixed for the job's life. 256: a
    /// cluster may grow to as many servers.
    pub shards: ShardCount,
}

/// `[cluster]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterConfig {
    /// Address of the server that has the coordinator role, `http://HOST:PORT`.
    pub coordinator: String,
    /// How many servers to wait for before training starts.
    pub servers: u32,
    /// How many workers to wait for before the first split is handed out.
    pub workers: u32,
    /// How long to look for a server before giving up. 10s: longer than a server needs to start.
    pub connect_timeout: Span,
    /// How long one request may take before it is tried again, 1s or more: the coordinator holds a
    /// worker's question for a moment while there is nothing to do.
    pub request_timeout: Span,
    /// How long to wait for the expected servers and workers, and for a lost server to come back,
    /// before giving up.
    pub patience: Span,
}

/// `[train]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainSection {
    /// Passes over the input, 1 or more.
    pub epochs: u32,
    /// Examples a batch, `1..=1048576`. 512: large enough to fill a message, small enough that
    /// weights are fresh.
    pub batch_size: u32,
    /// Whether a batch's gradient is the `mean` over its examples or their `sum`. `mean` suits
    /// dense inputs; with `sum` a rare feature's step does not shrink as batches grow, which is how
    /// FTRL is usually tuned.
    pub reduction: Reduction,
    /// `"async"`: pushes are applied as they arrive.
    pub consistency: Consistency,
    /// Batches that may be pulled before earlier ones are pushed, `0..=63`. 0: with one worker every
    /// batch sees all batches before it.
    pub prefetch: u32,
    /// Pushes that may wait for their acknowledgement while the next batches are worked, `1..=64`;
    /// what a batch sees does not depend on it. 16: hides a server's disk, which acknowledges a
    /// push after 10 to 30 ms. Each keeps its gradients in memory until then.
    pub open_pushes: u32,
    /// Parsed batches that wait for the training loop, `1..=64`. 4: hides a slow read.
    pub read_ahead: u32,
    /// Stop when a validation metric gets no better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_stop: Option<EarlyStop>,
    /// Where the model is written, relative to the current folder. Without it `runs/NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
    /// Share of the negatives that the data still has, above 0 and at most 1; predictions and
    /// metrics are put back on the true scale. 1: nothing was left out.
    pub negative_sampling_rate: f64,
}

impl TrainConfig {
    /// The folder of the model and its report: `train.output`, else `runs/NAME`.
    #[must_use]
    pub fn output(&self) -> PathBuf {
        match &self.train.output {
            Some(folder) => folder.clone(),
            None => PathBuf::from("runs").join(&self.job.name),
        }
    }
}

/// How gradients of a batch are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Weighted mean over the batch.
    #[default]
    Mean,
    /// Weighted sum over the batch.
    Sum,
}

/// When pushes are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// On arrival.
    #[default]
    Async,
}

/// `train.early_stop`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EarlyStop {
    /// The metric on the validation files; the best epoch by it is what is kept.
    pub metric: Metric,
    /// How many epochs in a row may be no better, 1 or more.
    pub patience: u32,
}

impl Default for JobConfig {
    fn default() -> Self {
        Self {
            name: "job".into(),
            seed: 1,
            shards: ShardCount::default(),
        }
    }
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            coordinator: "http://127.0.0.1:7070".into(),
            servers: 1,
            workers: 1,
            connect_timeout: Span::from_secs(10),
            request_timeout: Span::from_secs(30),
            patience: Span::from_secs(600),
        }
    }
}

impl Default for TrainSection {
    fn default() -> Self {
        Self {
            epochs: 1,
            batch_size: 512,
            reduction: Reduction::default(),
            consistency: Consistency::default(),
            prefetch: 0,
            open_pushes: 16,
            read_ahead: 4,
            early_stop: None,
            output: None,
            negative_sampling_rate: 1.0,
        }
    }
}

impl Default for EarlyStop {
    fn default() -> Self {
        Self {
            metric: Metric::LogLoss,
            patience: 1,
        }
    }
}
