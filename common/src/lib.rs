//! The vocabulary of Windlass: what a key, a row, a table, a shard, a push is, how jobs are
//! configured, and how state lies on disk. No network, no threads, no async runtime.
//!
//! Reading order: `id`, `key`, `shard`, `windows` (exactly once), `schema`, `exchange` (the data
//! plane), `coordination` (the control plane), `saving` (checkpoints of running jobs), `status` (what
//! is told to people), `config`, `format`.
//!
//! Features: `failpoints` (off) lets tests stop a process at named places, see `failpoint`.

pub mod batch;
pub mod config;
pub mod coordination;
pub mod count;
pub mod error;
pub mod exchange;
pub mod failpoint;
pub mod format;
pub mod human;
pub mod id;
pub mod init;
pub mod interval_set;
pub mod key;
pub mod optimizer;
pub mod recipe;
pub mod residency;
pub mod runtime;
pub mod saving;
pub mod schema;
pub mod shard;
pub mod split;
pub mod status;
pub mod tally;
pub mod windows;

pub use error::Error;
