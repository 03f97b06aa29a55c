//! The same questions over two transports: gRPC to other processes, plain calls inside one.

use windlass_common::coordination::{
    Assigned, Outcome, Progress, Register, Registered, Report, ShardMap, Task,
};
use windlass_common::exchange::{Pull, Pulled, Push, Pushed};
use windlass_common::id::{CheckpointId, JobId, LeaseId, Lineage, ShardId, WorkerId};
use windlass_common::runtime::BoxFuture;
use windlass_common::status::ClusterStatus;
use windlass_proto::WireError;

/// An answer that may be a refusal.
pub type Answered<'a, T> = BoxFuture<'a, Result<T, WireError>>;

/// One server's shards.
///
/// A request names only shards that the caller's map gives to this server; a server that does not
/// own one of them answers [`Moved`](windlass_proto::ErrorKind::Moved) to a pull, and
/// `Answer::Moved` for that shard to a push.
///
/// Requests of one caller take their turn when their futures are first polled, and each sees what
/// those before it did, though a later one may be answered first. So a caller may begin a request
/// while earlier ones are open, as long as it goes on polling them: one that waits for its turn holds
/// up those behind it.
pub trait Shards: Send + Sync {
    /// Reads rows. Creates none.
    fn pull(&self, pull: Pull) -> Answered<'_, Pulled>;

    /// Applies gradients once.
    fn push(&self, push: Push) -> Answered<'_, Pushed>;

    /// Copies a shard at one moment (rule A6) as the bytes of a checkpoint's shard file.
    fn snapshot(&self, job: JobId, shard: ShardId) -> Answered<'_, Vec<u8>>;

    /// Replaces a shard by a snapshot, in a new life of the job's state (rule N4).
    fn install(
        &self,
        job: JobId,
        shard: ShardId,
        lineage: Lineage,
        snapshot: Vec<u8>,
    ) -> Answered<'_, ()>;
}

/// The coordinator, as a worker sees it.
pub trait Control: Send + Sync {
    /// Joins a job, or creates it.
    fn register(&self, register: Register) -> Answered<'_, Registered>;

    /// Gives back what was done, if anything, and asks what is next. While that is nothing, the
    /// answer may be held for a moment.
    fn next(&self, next: Next) -> Answered<'_, (Task, Progress)>;

    /// Keeps a lease alive. `false`: it had run out; going on is right, and so is stopping.
    fn renew(&self, job: JobId, worker: WorkerId, lease: LeaseId)
    -> Answered<'_, (bool, Progress)>;

    /// Tells where a job's shards are now.
    fn map(&self, job: JobId) -> Answered<'_, ShardMap>;
}

/// A worker's question for work.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// The job.
    pub job: JobId,
    /// Who asks.
    pub worker: WorkerId,
    /// The lease that is given back, and what became of it.
    pub done: Option<(LeaseId, Outcome)>,
    /// The worker leaves: it gives back and wants nothing more. The answer is a `Wait`.
    pub leaving: bool,
}

/// The coordinator, as a server sees it.
pub trait Membership: Send + Sync {
    /// Tells what this server holds; learns what it is to hold.
    fn report(&self, report: Report) -> Answered<'_, Assigned>;
}

/// The coordinator, as people see it.
pub trait Admin: Send + Sync {
    /// Tells how the cluster is.
    fn status(&self) -> Answered<'_, ClusterStatus>;

    /// Begins a checkpoint of a job now; its number.
    fn save(&self, job: String) -> Answered<'_, CheckpointId>;

    /// Puts a job back to a checkpoint, in a new life of its state (rule N4).
    fn restore(&self, job: String, checkpoint: CheckpointId) -> Answered<'_, Lineage>;
}
