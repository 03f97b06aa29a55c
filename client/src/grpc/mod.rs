//! The traits of [`transport`](crate::transport) over gRPC.
//!
//! Reading order: `channel` (connections), `control` (unary calls), `stream` (the long-lived stream
//! of pulls and pushes), `cut` (requests larger than a message), `shards`.

mod channel;
mod control;
mod cut;
mod next;
mod shards;
mod stream;

pub use channel::{Connector, Options};
pub use control::{GrpcAdmin, GrpcControl, GrpcMembership};
pub use shards::GrpcShards;
