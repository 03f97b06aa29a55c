//! Where blocking work goes: to tokio's threads for it, or nowhere.

use windlass_common::runtime::{BoxFuture, Job, Pool};

/// Tokio's threads for blocking work.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioPool;

impl Pool for TokioPool {
    fn run(&self, job: Job) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            match tokio::task::spawn_blocking(job).await {
                Ok(()) => {}
                // The panic has been printed. Whoever waits sees that the job left no value.
                Err(end) if end.is_panic() => {}
                // The runtime shuts down and the job was not run: whoever waits for it is dropped
                // too, and must not be told that it is done.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

/// Runs each job at once, on the caller's thread: for simulations, where a second thread would
/// break the trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct InlinePool;

impl Pool for InlinePool {
    fn run(&self, job: Job) -> BoxFuture<'static, ()> {
        Box::pin(async move { job() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};

    use windlass_common::runtime::offload;

    use super::*;

    async fn thread_of_a_job(pool: &dyn Pool) -> ThreadId {
        let (tell, told) = mpsc::channel();
        let job = move || tell.send(thread::current().id()).unwrap();
        pool.run(Box::new(job)).await;
        told.try_recv()
            .expect("the job has ended when the future has")
    }

    #[tokio::test]
    async fn jobs_run_elsewhere_or_inline() {
        let here = thread::current().id();
        assert_ne!(thread_of_a_job(&TokioPool).await, here);
        assert_eq!(thread_of_a_job(&InlinePool).await, here);
    }

    #[tokio::test]
    async fn a_job_that_panics_has_ended_without_a_value() {
        let value: Option<u8> = offload(&TokioPool, || panic!("broken job")).await;
        assert_eq!(value, None);
    }
}
