//! Configuration: a struct is a section, a field is a key, and every mistake is named by its place.
//!
//! Read `train.rs` and `server.rs` for what can be set, `load.rs` for the order of layers
//! (defaults, file, environment, `--set`), `rules` for what must hold, `error.rs` for what is said
//! when something is wrong. In between, `tree.rs` holds the layers with the place of every key, and
//! `read.rs` turns them into a struct; `print.rs` goes the other way.

mod data;
mod error;
mod load;
mod model;
mod optimizer;
mod print;
mod read;
mod rules;
mod server;
mod tables;
mod train;
mod tree;

pub use data::{Column, CriteoNumbers, DataConfig, Format, NumericColumn, OnBadRow, Transform};
pub use error::{ConfigError, Place};
pub use model::{LossKind, ModelConfig, ModelKind};
pub use optimizer::OptimizerConfig;
pub use server::{CheckpointConfig, Durability, ServerConfig};
pub use tables::TableConfig;
pub use train::{
    ClusterConfig, Consistency, EarlyStop, JobConfig, Reduction, TrainConfig, TrainSection,
};
