//! Time by tokio, which a simulation may stop and turn.

use std::time::Duration;

use tokio::time::Instant;
use windlass_common::runtime::{BoxFuture, Clock};

/// Tokio's clock.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: Instant,
}

impl TokioClock {
    /// Starts at zero now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        // Tokio's timer is looked up when the future is first polled: only then is a runtime needed.
        Box::pin(async move { tokio::time::sleep(time).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sleep_takes_its_time_and_the_clock_shows_it() {
        let clock = TokioClock::new();
        let before = clock.now();
        clock.sleep(Duration::from_secs(5)).await;
        assert!(clock.now() - before >= Duration::from_secs(5));
    }
}
