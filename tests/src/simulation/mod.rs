//! A whole cluster in one simulated process: the real servers, clients and workers on a network and
//! on disks that fail as a seed says, again and again in the same way.
//!
//! Reading order: `run` (one seed from its start to the checks at its end), `plan` (what a seed
//! chooses), `faults` (what goes wrong, and when), `server` and `worker` (what runs on the hosts),
//! `truth` and `judge` (what must be true always, and at the end), `world` (what all hosts share: the trace above all),
//! `machine` and `memory` (network, disks and pool), `blobs` (the store of checkpoints), `watched` (what workers
//! are told, for the trace).

mod blobs;
mod faults;
mod judge;
mod machine;
mod memory;
mod plan;
mod run;
mod server;
mod truth;
mod watched;
mod worker;
mod world;

pub use plan::Mode;
pub use run::{Ran, run};
