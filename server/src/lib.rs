//! The parameter server: tables, optimizers, exactly-once application, and coordination.
//!
//! Reading order of the state: `store` (jobs and shards), `local` (requests), `apply` and `read`
//! (what they do to a shard), `shard`, `table` (rows), `optimizer`. Of the cluster: `coordinator`
//! (a pure state machine), `membership` (a server's reports to it). Around both: `service` (gRPC)
//! and `serve` (a server from its config to its end).

pub mod activity;
pub mod apply;
pub mod coordinator;
mod effort;
pub mod error;
mod local;
pub mod membership;
pub mod optimizer;
pub mod read;
pub mod serve;
pub mod service;
pub mod shard;
mod snapshot;
pub mod store;
pub mod table;

pub use error::Error;
