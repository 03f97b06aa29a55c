//! What a worker asks and is told, for the trace.

use std::fmt::Write as _;
use std::sync::Arc;

use windlass_client::Connect;
use windlass_client::transport::{Answered, Control, Next, Shards};
use windlass_common::coordination::{Outcome, Progress, Register, Registered, ShardMap, Task};
use windlass_common::exchange::{Answer, Pull, Pulled, Push, Pushed};
use windlass_common::id::{JobId, LeaseId, Lineage, ShardId, WorkerId};
use windlass_proto::WireError;

use super::world::World;

/// A way to the cluster that writes down what passes.
#[derive(Clone)]
pub(super) struct Watched<T: ?Sized> {
    pub(super) inner: Arc<T>,
    pub(super) world: Arc<World>,
    pub(super) host: String,
    /// Whether servers keep a log.
    pub(super) logs: bool,
}

impl<T: ?Sized> Watched<T> {
    async fn note<A>(
        &self,
        answer: Answered<'_, A>,
        told: impl FnOnce(&A) -> String,
    ) -> Result<A, WireError> {
        let answer = answer.await;
        let told = match &answer {
            Ok(answer) => told(answer),
            Err(error) => format!("refused: {error}"),
        };
        self.world.note(&self.host, told);
        answer
    }
}

impl Control for Watched<dyn Control> {
    fn register(&self, register: Register) -> Answered<'_, Registered> {
        let answer = self.inner.register(register);
        Box::pin(self.note(answer, |r| format!("joined {} map {}", r.job, r.map.epoch)))
    }

    fn next(&self, next: Next) -> Answered<'_, (Task, Progress)> {
        let asked = match &next.done {
            Some((lease, Outcome::Abandoned(why) | Outcome::Unreadable(why))) => {
                format!("gave up {lease}: {why}; ")
            }
            Some((lease, _)) => format!("gave back {lease}; "),
            None => String::new(),
        };
        let answer = self.inner.next(next);
        Box::pin(self.note(answer, move |(task, _)| asked + &in_words(task)))
    }

    fn renew(
        &self,
        job: JobId,
        worker: WorkerId,
        lease: LeaseId,
    ) -> Answered<'_, (bool, Progress)> {
        let answer = self.inner.renew(job, worker, lease);
        Box::pin(self.note(answer, move |(alive, _)| {
            format!("renewed {lease}: {alive}")
        }))
    }

    fn map(&self, job: JobId) -> Answered<'_, ShardMap> {
        let answer = self.inner.map(job);
        Box::pin(self.note(answer, |map| format!("map {}", map.epoch)))
    }
}

impl Connect for Watched<dyn Connect> {
    fn shards(&self, address: &str) -> Arc<dyn Shards> {
        Arc::new(Watched {
            inner: self.inner.shards(address),
            world: Arc::clone(&self.world),
            host: self.host.clone(),
            logs: self.logs,
        })
    }
}

impl Shards for Watched<dyn Shards> {
    fn pull(&self, pull: Pull) -> Answered<'_, Pulled> {
        self.inner.pull(pull)
    }

    fn push(&self, push: Push) -> Answered<'_, Pushed> {
        let (job, lineage, id) = (push.job, push.lineage, push.id);
        let name = format!("push {}.{}", id.source, id.seq);
        let name = if push.end { name + " END" } else { name };
        let answer = self.inner.push(push);
        Box::pin(self.note(answer, move |pushed| {
            let mut told = name;
            for (shard, answer) in &pushed.answers {
                let what = match answer {
                    Answer::Applied { before } => {
                        let name = (job, lineage, id, *shard);
                        if self.world.applied_again(name) && self.logs {
                            // S2: each time that it is applied is told once, so the first is gone.
                            let what = format!("{told} was acknowledged and lost by shard {shard}");
                            self.world.violated(&self.host, what);
                        }
                        format!("+{before}")
                    }
                    Answer::Duplicate => "=".into(),
                    Answer::Gap { next } => format!("gap {next}"),
                    Answer::Moved => "moved".into(),
                };
                // Writing to a String never fails.
                let _ = write!(told, " {shard}:{what}");
            }
            told
        }))
    }

    fn snapshot(&self, job: JobId, shard: ShardId) -> Answered<'_, Vec<u8>> {
        let answer = self.inner.snapshot(job, shard);
        Box::pin(self.note(answer, move |_| format!("copied shard {shard}")))
    }

    fn install(
        &self,
        job: JobId,
        shard: ShardId,
        lineage: Lineage,
        snapshot: Vec<u8>,
    ) -> Answered<'_, ()> {
        let answer = self.inner.install(job, shard, lineage, snapshot);
        Box::pin(self.note(answer, move |()| format!("installed shard {shard}")))
    }
}

fn in_words(task: &Task) -> String {
    match task {
        Task::Train(l) => format!("train {} from {}, lease {}", l.source, l.start, l.lease),
        Task::Score(l) => format!("score, lease {}", l.lease),
        Task::Save(l) => format!("save epochs {}, lease {}", l.epochs, l.lease),
        Task::Restore(l) => format!("restore epochs {}, lease {}", l.epochs, l.lease),
        Task::Seal(l) => format!("seal, lease {}", l.lease),
        Task::Wait { reason, .. } => reason.clone(),
        Task::Done(history) => format!("done: {} epochs", history.epochs),
    }
}
