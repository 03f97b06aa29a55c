//! What `windlass-server` does beside running a server: `checkpoint` (looks at a store), `ask` (asks
//! the coordinator of a running cluster), `status` (what it says).

pub mod ask;
pub mod checkpoint;
mod status;
mod table;
