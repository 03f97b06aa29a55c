//! The seam's real side: tokio's clock, pool and network. In simulation others stand in for them.

mod clock;
mod network;
mod pool;

pub use clock::TokioClock;
pub use network::{Io, Network, TokioNetwork};
pub use pool::{InlinePool, TokioPool};
