//! Benchmarks, one subject a file under `src/bin`. Their input comes from `workload`; `cluster` is
//! what stands in for a cluster, `process` and `worker` are a real one, `raw` is the same bytes
//! without us, and `memory` tells of this process.

pub mod cluster;
pub mod memory;
pub mod process;
pub mod raw;
pub mod worker;
pub mod workload;
