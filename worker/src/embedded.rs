//! The servers inside the worker's process: the same store and the same coordinator as in a
//! cluster, called directly. The only file of the worker that knows the server crate.

use std::sync::Arc;

use tokio::sync::Mutex;
use windlass_client::Connect;
use windlass_client::transport::{Answered, Control, Membership, Next, Shards};
use windlass_common::coordination::{
    Health, Progress, Register, Registered, Report, ShardMap, Task,
};
use windlass_common::exchange::{Pull, Pulled, Push, Pushed};
use windlass_common::id::{Boot, JobId, LeaseId, Lineage, MapEpoch, ShardId, WorkerId};
use windlass_common::runtime::{Clock, Pool};
use windlass_proto::WireError;
use windlass_server::coordinator::{Coordinator, CoordinatorHandle, Settings};
use windlass_server::store::Store;

/// A cluster of one server without a network.
///
/// Before each question the store's report is handed to the coordinator, so its answers depend on
/// nothing but what was pushed: with one worker a run repeats to the last bit.
pub struct Embedded {
    store: Arc<Store>,
    coordinator: CoordinatorHandle,
}

/// What the one server calls itself; it is shown, never connected to.
const ADDRESS: &str = "in-process";

impl Embedded {
    /// Starts a store and a coordinator. A fixed seed will do: names need to be new only where an
    /// earlier life's servers or workers are about.
    pub fn new(clock: Arc<dyn Clock>, pool: Arc<dyn Pool>) -> Arc<Self> {
        let coordinator = Coordinator::new(Settings::default(), 0);
        Arc::new(Self {
            store: Arc::new(Store::new(pool)),
            coordinator: CoordinatorHandle::new(coordinator, clock),
        })
    }

    async fn synchronise(&self) -> Result<(), WireError> {
        let report = Report {
            address: ADDRESS.into(),
            boot: Boot(0),
            number: 0,
            seen: MapEpoch(0),
            health: Health::default(),
            jobs: self.store.report(),
        };
        let assigned = self.coordinator.report(report).await?;
        Ok(self.store.assign(&assigned.jobs)?)
    }

    /// Tells what a question that is held may wait for: the shards as of a new assignment, which is
    /// learnt first. Ends only with an error.
    async fn speak(&self) -> WireError {
        for _ in 0..2 {
            if let Err(refused) = self.synchronise().await {
                return refused;
            }
        }
        std::future::pending().await
    }
}

impl Control for Embedded {
    fn register(&self, register: Register) -> Answered<'_, Registered> {
        Box::pin(async move {
            let registered = self.coordinator.register(register).await?;
            // Once to make the one server known, once for the shards that follow from it.
            self.synchronise().await?;
            self.synchronise().await?;
            Ok(registered)
        })
    }

    fn next(&self, next: Next) -> Answered<'_, (Task, Progress)> {
        Box::pin(async move {
            self.synchronise().await?;
            let answer = tokio::select! {
                // In this order, so that a run repeats.
                biased;
                answer = self.coordinator.next(next) => answer?,
                refused = self.speak() => return Err(refused),
            };
            self.synchronise().await?;
            Ok(answer)
        })
    }

    fn renew(
        &self,
        job: JobId,
        worker: WorkerId,
        lease: LeaseId,
    ) -> Answered<'_, (bool, Progress)> {
        self.coordinator.renew(job, worker, lease)
    }

    fn map(&self, job: JobId) -> Answered<'_, ShardMap> {
        self.coordinator.map(job)
    }
}

/// Connects to the one store, whatever the address.
pub struct Direct(pub Arc<Embedded>);

impl Connect for Direct {
    fn shards(&self, _address: &str) -> Arc<dyn Shards> {
        Arc::new(InTurn {
            store: Arc::clone(&self.0.store),
            turn: Mutex::default(),
        })
    }
}

/// The store as one worker's stream of requests: long ones run on the pool, and without turns a pull
/// could read what the push before it has not written yet.
struct InTurn {
    store: Arc<Store>,
    /// tokio's: fair, and held while a request is worked.
    turn: Mutex<()>,
}

impl Shards for InTurn {
    fn pull(&self, pull: Pull) -> Answered<'_, Pulled> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            self.store.pull(pull).await
        })
    }

    fn push(&self, push: Push) -> Answered<'_, Pushed> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            self.store.push(push).await
        })
    }

    fn snapshot(&self, job: JobId, shard: ShardId) -> Answered<'_, Vec<u8>> {
        self.store.snapshot(job, shard)
    }

    fn install(
        &self,
        job: JobId,
        shard: ShardId,
        lineage: Lineage,
        snapshot: Vec<u8>,
    ) -> Answered<'_, ()> {
        self.store.install(job, shard, lineage, snapshot)
    }
}
