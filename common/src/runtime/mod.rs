//! The seam between Windlass and the machine: time, disk, stored objects and blocking work come in
//! from outside.
//!
//! The real ones are tokio and `std::fs`; in simulation a whole cluster runs in one process with
//! simulated time and disk, and blocking work runs inline. The network is the fourth part of the
//! seam; it needs tokio's traits and so lives in the client crate, beside the real ones.

mod clock;
mod disk;
mod durable;
mod objects;
mod pool;

pub use clock::{Clock, StdWallClock, WallClock};
pub use disk::{Change, Disk, File, StdDisk};
pub(crate) use durable::write_synced;
pub use durable::{at, create_folders};
pub(crate) use objects::is_plain;
pub use objects::{FolderObjects, Objects, require_name};
pub use pool::{Job, Pool, offload};

use std::future::Future;
use std::pin::Pin;

/// A future of a trait object's method.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
