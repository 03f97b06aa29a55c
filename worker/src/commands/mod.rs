//! What the binary can do, one file a command.

pub mod evaluate;
pub mod export;
mod session;
pub mod train;

pub use session::Machine;
