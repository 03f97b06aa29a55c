//! Time.

use std::time::Duration;

use super::BoxFuture;

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// Time since some fixed moment of this process. It never goes back.
    fn now(&self) -> Duration;

    /// Ends when this much time has passed.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}
