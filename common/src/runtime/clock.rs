//! Time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::BoxFuture;

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// Time since some fixed moment of this process. It never goes back.
    fn now(&self) -> Duration;

    /// Ends when this much time has passed.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// What the calendar says: for people who want to know how old something is, and for nothing else.
pub trait WallClock: Send + Sync {
    /// Milliseconds since the Unix epoch. It may go back.
    fn unix_ms(&self) -> u64;
}

/// The machine's calendar.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdWallClock;

impl WallClock for StdWallClock {
    fn unix_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX))
    }
}
