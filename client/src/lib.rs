//! What a worker speaks to a cluster through: routing by shard, pulls, pushes, and retries under
//! one name.
//!
//! Reading order: `transport` (what can be asked), `client` (what a worker calls), `connect` (where
//! the servers are), `route` (which keys go where), `answers` (what has come back), `retry`; `grpc`
//! (the transport between processes) and `runtime` (the real machine behind the seam).

mod answers;
pub mod client;
pub mod connect;
pub mod error;
pub mod grpc;
pub mod retry;
mod route;
pub mod runtime;
pub mod transport;

#[cfg(test)]
mod fake;

pub use client::{Client, ClientSettings};
pub use connect::Connect;
pub use error::Error;
pub use retry::Waiting;
