//! Files of checkpoints, logs and the coordinator, version 1. `docs/formats.md` tells the layout to
//! people who write their own reader; a fixture of every released version is opened by the tests.
//!
//! Reading order: `image` (what a shard file carries), `reader` and `header` (how anything is
//! framed), `windows`, `shard_header` and `shard_file`, `merge` (deltas), `schema` and `manifest`,
//! then `writer`, `checkpoint` and `folder` (how the files make a worker's checkpoint), `library` and
//! `retention` (the checkpoints that a cluster keeps of a job), `cluster_state` (what its coordinator
//! knows).
//! `log` stands beside all that: a server's log.

mod checkpoint;
mod cluster_state;
mod error;
mod folder;
mod header;
mod held;
mod image;
mod library;
pub mod log;
mod manifest;
mod merge;
mod reader;
mod records;
mod retention;
#[cfg(test)]
mod samples;
mod schema;
mod shard_file;
mod shard_header;
mod windows;
mod writer;

pub use checkpoint::Checkpoint;
pub use cluster_state::{ClusterState, JobState, MAX_STATE_BYTES, PublishedState, Stage};
pub use error::FormatError;
pub use folder::{Newest, folder_name, newest, remove};
pub use held::{HeldShards, MAX_HELD_BYTES};
pub use image::{Base, Mark, ShardImage, TableImage, Turnover};
pub use library::{Entry, Library, checkpoint_folder, number_of};
pub use manifest::{Manifest, ManifestFile};
pub use merge::merge;
pub use shard_file::{ShardSummary, decode_shard, encode_shard, inspect_shard};
pub use writer::CheckpointWriter;
