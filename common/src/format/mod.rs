//! Files of a checkpoint, version 1. `docs/formats.md` tells the layout to people who write their
//! own reader; a fixture of every released version is opened by the tests.
//!
//! Reading order: `image` (what a shard file carries), `reader` and `header` (how anything is
//! framed), `windows` and `shard_file`, `schema` and `manifest`, then `writer`, `checkpoint` and
//! `folder` (how the files make a checkpoint).

mod checkpoint;
mod error;
mod folder;
mod header;
mod image;
mod manifest;
mod reader;
#[cfg(test)]
mod samples;
mod schema;
mod shard_file;
mod windows;
mod writer;

pub use checkpoint::Checkpoint;
pub use error::FormatError;
pub use folder::{Newest, folder_name, newest, remove};
pub use image::{ShardImage, TableImage};
pub use manifest::{Manifest, ManifestFile};
pub use shard_file::{ShardSummary, decode_shard, encode_shard, inspect_shard};
pub use writer::CheckpointWriter;
