//! The harness of the system tests: builds the real binaries once, starts servers, runs workers,
//! and stops whatever is left.

mod binaries;
mod cluster;
pub mod data;
mod worker;

pub use binaries::{Binaries, binaries};
pub use cluster::Cluster;
pub use worker::{Run, Running, Worker};
