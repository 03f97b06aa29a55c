//! The parameter server: tables, optimizers, exactly-once application, and coordination.
//!
//! Reading order of the state: `store` (jobs and shards), `local` (requests), `apply` and `read`
//! (what they do to a shard), `shard`, `table` (rows), `optimizer`; `log` (what was applied, on the
//! disk), `durable` (when an answer may leave). Of the cluster: `coordinator` (a pure state machine),
//! `membership` (a server's reports to it). Around both: `service` (gRPC) and `serve` (a server from
//! its config to its end). Beside them: `objects` (the store of checkpoints), `commands` (what looks
//! at it).
//!
//! Features: `s3` keeps checkpoints in S3-compatible buckets too; `failpoints` (off, for tests) lets a
//! server be stopped at named places, see `windlass_common::failpoint`.

pub mod activity;
pub mod apply;
pub mod backing;
pub mod commands;
pub mod coordinator;
pub mod copies;
pub mod data_dir;
pub mod durable;
mod effort;
pub mod error;
mod local;
pub mod log;
pub mod membership;
pub mod objects;
pub mod optimizer;
pub mod read;
pub mod saver;
mod savings;
pub mod serve;
pub mod service;
pub mod shard;
mod snapshot;
pub mod store;
pub mod table;

pub use error::Error;
