//! The worker: readers, models, the training loop, evaluation and export.
//!
//! Reading order: `data` (files to batches), `model`, `loss`, `score` (batches to gradients and
//! metrics), `job` (a config to all of these), `trainer` (the loop), `commands` (what the binary can
//! do), `progress`, `report` and `counted` (what is told), `embedded` (the servers in this process).

pub mod commands;
pub mod counted;
pub mod data;
pub mod embedded;
pub mod error;
pub mod job;
pub mod loss;
pub mod model;
pub mod progress;
pub mod report;
pub mod score;
pub mod trainer;
mod whole_file;

pub use error::Error;
