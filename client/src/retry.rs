//! How long to go on asking, how long to wait in between, and what to tell the user meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use tracing::{debug, info};
use windlass_common::runtime::Clock;
use windlass_common::split::Draw;
use windlass_proto::{ErrorKind, WireError};

use crate::error::Error;
use crate::transport::Answered;

/// What requests are waiting for now; clones share it, so that a progress line can show it.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Arc<Mutex<BTreeMap<u64, String>>>);

impl Waiting {
    /// Says what the request that began first among those that wait is waiting for.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        self.lock().values().next().cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A try that came to nothing.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Where: a server or the coordinator, with its address.
    pub(crate) place: String,
    /// Why.
    pub(crate) error: WireError,
}

impl Failure {
    /// Says that `place` failed.
    pub(crate) fn new(place: &str, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            error: WireError::new(kind, message),
        }
    }

    /// Whether asking again may help.
    pub(crate) fn may_retry(&self) -> bool {
        self.error.kind.may_be_retried()
    }

    /// Picks what decides about going on: a refusal before what needs time, and that before
    /// `Moved`, which a newer map cures at once.
    pub(crate) fn worst(failures: impl IntoIterator<Item = Self>) -> Option<Self> {
        let rank = |f: &Self| (f.may_retry(), f.error.kind == ErrorKind::Moved);
        failures.into_iter().min_by_key(rank)
    }
}

/// The rules by which all requests of a client are retried.
pub(crate) struct Retrier {
    /// Where time comes from.
    pub(crate) clock: Arc<dyn Clock>,
    /// How long one try may take.
    pub(crate) request_timeout: Duration,
    /// How long a request is tried.
    pub(crate) patience: Duration,
    /// What requests are waiting for.
    pub(crate) waiting: Waiting,
    /// Seeds the jitter, so that workers do not come back all at once.
    pub(crate) seed: u64,
    /// How many requests have begun: each has its own jitter and its own line in `waiting`.
    pub(crate) begun: AtomicU64,
}

impl Retrier {
    /// Begins a request; `what` names it in messages.
    pub(crate) fn begin(&self, what: impl Into<String>) -> Trial<'_> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        Trial {
            retrier: self,
            number,
            what: what.into(),
            began: self.clock.now(),
            backoff: Backoff::new(self.seed, number),
            moved: false,
        }
    }

    /// Waits for an answer, but not beyond the time that a try may take.
    pub(crate) async fn within<T>(
        &self,
        place: &str,
        answer: Answered<'_, T>,
    ) -> Result<T, Failure> {
        let limit = self.request_timeout;
        let answer = match select(answer, self.clock.sleep(limit)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(WireError::new(
                ErrorKind::Deadline,
                format!("no answer within {limit:?}"),
            )),
        };
        answer.map_err(|error| Failure {
            place: place.into(),
            error,
        })
    }

    /// Asks one place until it answers.
    ///
    /// # Errors
    /// As [`Trial::pause`].
    pub(crate) async fn until_answered<'a, T>(
        &'a self,
        what: &str,
        place: &str,
        mut ask: impl FnMut() -> Answered<'a, T>,
    ) -> Result<T, Error> {
        let mut trial = self.begin(what);
        loop {
            match self.within(place, ask()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => trial.pause(failure).await?,
            }
        }
    }
}

/// How long shards may be on their way to the state that was asked for: a report and an answer.
const EXACT: Duration = Duration::from_secs(3);

/// One request that is tried until it is answered, refused, or patience ends.
pub(crate) struct Trial<'a> {
    retrier: &'a Retrier,
    number: u64,
    what: String,
    began: Duration,
    backoff: Backoff,
    /// Whether a shard had moved before.
    moved: bool,
}

impl Trial<'_> {
    /// Waits before the next try.
    ///
    /// The last try begins when `patience` ends, so a request lasts at most one `request_timeout`
    /// longer.
    ///
    /// # Errors
    /// [`Error::Refused`] when asking again is pointless, [`Error::GaveUp`] when patience has ended.
    pub(crate) async fn pause(&mut self, failure: Failure) -> Result<(), Error> {
        if !failure.may_retry() {
            return Err(self.refused(failure));
        }
        let Failure { place, error } = failure;
        debug!(what = self.what, place, %error, "a try failed");
        // W2: the first time, the newer map is most likely there already.
        if error.kind == ErrorKind::Moved && !std::mem::replace(&mut self.moved, true) {
            return Ok(());
        }
        let retrier = self.retrier;
        let waited = retrier.clock.now().saturating_sub(self.began);
        let left = retrier.patience.saturating_sub(waited);
        if left.is_zero() {
            return Err(Error::GaveUp {
                what: self.what.clone(),
                place,
                waited,
                source: error,
            });
        }
        self.tell(format!("waiting for {place}: {error}"));
        retrier
            .clock
            .sleep(self.backoff.next_delay().min(left))
            .await;
        Ok(())
    }

    /// Waits before the next try of a pull from shards in an exact state (rule C12). Whoever asks
    /// has been told that they are in it; if they are not for long, they will not come back to it.
    ///
    /// # Errors
    /// As [`pause`](Self::pause), and [`Error::Refused`] of kind `NotExact`.
    pub(crate) async fn pause_if_exact(&mut self, failure: Failure) -> Result<(), Error> {
        let waited = self.retrier.clock.now().saturating_sub(self.began);
        if failure.error.kind == ErrorKind::NotExact && waited > EXACT {
            return Err(self.refused(failure));
        }
        self.pause(failure).await
    }

    fn refused(&self, Failure { place, error }: Failure) -> Error {
        Error::Refused {
            what: self.what.clone(),
            place,
            source: error,
        }
    }

    /// Shows what is waited for, and logs it when it changes.
    fn tell(&self, text: String) {
        let mut board = self.retrier.waiting.lock();
        if board.get(&self.number) != Some(&text) {
            info!(what = self.what, "{text}");
            board.insert(self.number, text);
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.retrier.waiting.lock().remove(&self.number);
    }
}

/// Exponential backoff with equal jitter (M. Brooker, "Exponential backoff and jitter", 2015): the
/// n-th delay is uniform in `[d/2, d]` with d = min(100 ms x 2^n, 2 s).
struct Backoff {
    draw: Draw,
    longest: Duration,
}

impl Backoff {
    /// The first delay at most; the least is half of it.
    const FIRST: Duration = Duration::from_millis(100);
    /// Any delay at most.
    const LIMIT: Duration = Duration::from_secs(2);

    fn new(seed: u64, number: u64) -> Self {
        Self {
            draw: Draw::new(seed, &[number]),
            longest: Self::FIRST,
        }
    }

    fn next_delay(&mut self) -> Duration {
        let half = self.longest / 2;
        let share = self.draw.below(1 << 32) as f64 / (1u64 << 32) as f64;
        self.longest = (self.longest * 2).min(Self::LIMIT);
        half + half.mul_f64(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_from_50_ms_and_stay_below_2_s() {
        for seed in 0..100 {
            let mut backoff = Backoff::new(seed, 0);
            for n in 0..12 {
                let longest = Duration::from_millis(100 << n).min(Duration::from_secs(2));
                let delay = backoff.next_delay();
                assert!((longest / 2..=longest).contains(&delay), "{n}: {delay:?}");
            }
        }
    }

    #[test]
    fn two_requests_do_not_wait_in_step() {
        let delays = |seed, number| {
            let mut backoff = Backoff::new(seed, number);
            [(); 4].map(|()| backoff.next_delay())
        };
        assert_eq!(delays(1, 1), delays(1, 1));
        assert_ne!(delays(1, 1), delays(1, 2));
        assert_ne!(delays(1, 1), delays(2, 1));
    }

    #[test]
    fn a_refusal_outweighs_what_time_cures_and_that_a_move() {
        let worst = |kinds: &[ErrorKind]| {
            Failure::worst(kinds.iter().map(|&kind| Failure::new("here", kind, "")))
                .map(|f| f.error.kind)
        };
        use ErrorKind::{Busy, Invalid, Moved};
        assert_eq!(worst(&[Moved, Busy, Invalid]), Some(Invalid));
        assert_eq!(worst(&[Moved, Busy]), Some(Busy));
        assert_eq!(worst(&[Moved, Moved]), Some(Moved));
        assert_eq!(worst(&[]), None);
    }
}
