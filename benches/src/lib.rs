//! Benchmarks, one subject a file under `src/bin`; their input comes from `workload`.

pub mod workload;
