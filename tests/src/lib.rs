//! The harness of the system tests: builds the real binaries once, starts servers, runs workers,
//! and stops whatever is left. `simulation` runs a whole cluster in this process instead.

mod binaries;
pub mod chaos;
mod cluster;
pub mod counting;
pub mod counts;
pub mod data;
mod log;
mod operator;
mod run;
pub mod simulation;
mod worker;

pub use binaries::{Binaries, binaries};
pub use cluster::Cluster;
pub use operator::operate;
pub use run::{Run, Running};
pub use worker::Worker;
