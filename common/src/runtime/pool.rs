//! Work that would block an async runtime.

use std::sync::{Arc, Mutex, PoisonError};

use super::BoxFuture;

/// A piece of blocking or long work.
pub type Job = Box<dyn FnOnce() + Send>;

/// Where work of more than about 500 microseconds goes.
pub trait Pool: Send + Sync {
    /// Runs the job, on another thread or (in simulation) at once, and ends when it has ended.
    ///
    /// A job that is not begun when the future is dropped may still run.
    fn run(&self, job: Job) -> BoxFuture<'static, ()>;
}

/// Runs `work` on the pool and returns what it returns; `None` if it panicked.
pub async fn offload<T: Send + 'static>(
    pool: &dyn Pool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let place = Arc::new(Mutex::new(None));
    let inside = Arc::clone(&place);
    pool.run(Box::new(move || {
        let value = work();
        *inside.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }))
    .await;
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}
