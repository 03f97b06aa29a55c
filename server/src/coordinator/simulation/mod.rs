//! Whole lives of jobs, and the coordinator's promises under crashes.

mod crashes;
mod durable;
mod launches;
mod leasing;
mod lives;
mod refusals;
mod server;
mod store;
mod waiting;
mod worker;
mod world;

pub(super) use world::Setup;
