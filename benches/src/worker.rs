//! A worker's side of a job: a client that is registered, and a split that it holds.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use windlass_client::grpc::{Connector, Options};
use windlass_client::runtime::{TokioClock, TokioNetwork};
use windlass_client::transport::Admin;
use windlass_client::{Client, ClientSettings, Waiting};
use windlass_common::coordination::{Task, TrainLease};
use windlass_common::exchange::TableGradients;
use windlass_common::id::{PushId, Seq, TableId, WorkerId};
use windlass_common::runtime::Clock;
use windlass_common::schema::TableSchema;
use windlass_common::shard::ShardedKeys;

use crate::cluster;

/// A worker with a split of which it never ends.
pub struct Worker {
    /// Its way to the servers.
    pub client: Arc<Client>,
    /// For checkpoints and status.
    pub admin: Arc<dyn Admin>,
    lease: TrainLease,
    next: u64,
}

impl Worker {
    /// Joins a job of these tables that waits for so many servers and workers, and takes a split.
    ///
    /// # Errors
    /// What the cluster says.
    pub async fn join(
        url: &str,
        tables: Vec<TableSchema>,
        number: u64,
        servers: u32,
        workers: u32,
    ) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::new());
        let network = Arc::new(TokioNetwork);
        let connector = Connector::new(network, Arc::clone(&clock), Options::default());
        let mut register = cluster::register(WorkerId(number), workers, servers, workers);
        register.schema.tables = tables;
        let settings = ClientSettings {
            coordinator: url.into(),
            connect_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(30),
            patience: Duration::from_secs(60),
            waiting: Waiting::default(),
        };
        let (control, admin) = (connector.control(url), connector.admin(url));
        let client =
            Client::register(control, Arc::new(connector), clock, register, settings).await?;
        let client = Arc::new(client);
        let lease = loop {
            match client.next(None, false).await?.0 {
                Task::Train(lease) => break lease,
                Task::Wait { retry, .. } => tokio::time::sleep(retry).await,
                other => bail!("asked for a split, got {other:?}"),
            }
        };
        tokio::spawn(renew(Arc::clone(&client), lease.clone()));
        Ok(Self {
            client,
            admin,
            lease,
            next: 0,
        })
    }

    /// Begins the next push: it takes its turn when it is first polled. Ends when it is acknowledged.
    ///
    /// # Errors
    /// What the cluster says.
    pub fn push(
        &mut self,
        table: TableId,
        keys: Arc<ShardedKeys>,
        gradients: Vec<f32>,
    ) -> impl Future<Output = anyhow::Result<()>> + Send + use<> {
        let id = PushId {
            source: self.lease.source,
            seq: Seq(self.next),
        };
        self.next += 1;
        let (client, lineage) = (Arc::clone(&self.client), self.lease.lineage);
        let part = TableGradients {
            table,
            set: 0,
            gradients,
        };
        async move {
            client
                .push(lineage, id, false, vec![keys], vec![part])
                .await?;
            Ok(())
        }
    }
}

/// Keeps the lease; ends with the client's cluster.
async fn renew(client: Arc<Client>, lease: TrainLease) {
    while client.renew(lease.lease).await.is_ok() {
        tokio::time::sleep(lease.ttl / 3).await;
    }
}
