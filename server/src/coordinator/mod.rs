//! The coordinator role: which server owns which shard, which worker works on which split, and how
//! far each job is.
//!
//! Everything but [`CoordinatorHandle`] is plain state: time comes in as `now`, random numbers from
//! a seed, and nothing here knows disk, network or threads. The rules it keeps (N1, N4, I2, C1 to
//! C5, C12) are named where they are kept.
//!
//! Reading order: `cluster` (what all jobs share), `members`, `owners`; then a job: `open` and
//! `sources` (what may be leased), `leases`, `board` (what is scored), `job`, `phase` (the way of a
//! job from gathering to done), `task` (what a worker is to do next), `storage` (checkpoints);
//! `role` puts them together, `handle` gives them to transports.

mod board;
mod bounds;
mod cluster;
mod handle;
mod job;
mod leases;
mod members;
mod open;
mod order;
mod owners;
mod phase;
mod role;
mod sources;
mod storage;
mod task;

#[cfg(test)]
mod simulation;

pub use handle::CoordinatorHandle;
pub use role::{Coordinator, MAX_JOBS, Settings};
