//! Benchmarks, one subject a file under `src/bin`; their input comes from `workload`, and
//! from `cluster` what stands in for a cluster.

pub mod cluster;
pub mod workload;
