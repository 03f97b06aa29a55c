//! The coordinator role: which server owns which shard, which worker works on which split, and how
//! far each job is.
//!
//! It is plain state: time comes in as `now`, random numbers from a seed, and nothing knows disk,
//! network or threads, but for `handle`, which makes it durable. The rules it keeps (N1, N4, I2, I4,
//! C0 to C9, C12) are named where they are kept.
//!
//! Reading order: `cluster` (what all jobs share), `members`, `owners`; then a job: `open` and
//! `sources` (what may be leased), `leases`, `board` (what is scored), `job`, `phase` (the way of a
//! job from gathering to done), `task` (what a worker is to do next), `checkpoints` (those in the
//! cluster's store), `closed` (what they hold, and a shard has lost), `storage` (those of a worker);
//! `role` puts them together, `admin` is for people, `record` what outlives the process. Around it:
//! `state_file`, `catalog` (the disk), `news` and `held` (those who have to wait), and `handle`.

mod admin;
mod board;
mod bounds;
mod catalog;
mod checkpoints;
mod closed;
mod cluster;
mod handle;
mod held;
mod job;
mod leases;
mod members;
mod news;
mod occupancy;
mod open;
mod order;
mod owners;
mod phase;
mod record;
mod role;
mod sources;
mod state_file;
mod storage;
mod task;

#[cfg(test)]
mod simulation;

pub use catalog::Catalog;
pub use checkpoints::Saving;
pub use handle::{CoordinatorHandle, Durable};
pub use job::Stored;
pub use role::{Coordinator, MAX_JOBS, Settings};
pub use state_file::StateFile;
