//! One server's shards over gRPC.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tonic::transport::Channel;
use tonic::{IntoStreamingRequest, Request};
use windlass_common::exchange::{Pull, Pulled, Push, Pushed};
use windlass_common::id::{JobId, Lineage, ShardId, TableId};
use windlass_proto::v1::data_client::DataClient;
use windlass_proto::v1::exchange_request::Ask;
use windlass_proto::v1::exchange_response::Answer;
use windlass_proto::{ErrorKind, WireError, chunks, v1, version};

use super::channel::Peer;
use super::cut;
use super::stream::Stream;
use crate::transport::{Answered, Shards};

/// The shards of a server in another process.
///
/// Requests larger than a message go in several, and their answers come back as one. How wide a
/// table's rows are is learnt from the server, by a pull of one row, before a table's first pull.
pub struct GrpcShards {
    peer: Peer,
    stream: Stream,
    // std Mutex: held for a look-up, never across an await.
    dims: Mutex<HashMap<(JobId, TableId), usize>>,
}

impl GrpcShards {
    pub(super) fn new(peer: Peer) -> Self {
        Self {
            stream: Stream::new(peer.options.in_flight),
            dims: Mutex::default(),
            peer,
        }
    }

    fn client(&self) -> Result<DataClient<Channel>, WireError> {
        let limit = self.peer.options.limits.message;
        Ok(DataClient::new(self.peer.channel()?).max_decoding_message_size(limit))
    }

    async fn ask(&self, asked: &str, asks: Vec<Ask>) -> Result<Vec<Answer>, WireError> {
        let call = async { self.stream.call(&self.client()?, asks).await };
        self.peer.within(asked, call).await
    }

    async fn ask_pulls(&self, pulls: Vec<Pull>) -> Result<Vec<Pulled>, WireError> {
        let asks = pulls.into_iter().map(|p| Ask::Pull(p.into())).collect();
        let answers = self.ask("a pull", asks).await?;
        answers
            .into_iter()
            .map(|answer| match answer {
                Answer::Pulled(pulled) => pulled.try_into().map_err(nonsense),
                _ => Err(cut::surprise("a pull was answered as a push")),
            })
            .collect()
    }

    /// Asks for one row of each table of a pull whose rows' width is not known yet.
    async fn learn_dims(&self, pull: &Pull) -> Result<(), WireError> {
        let unknown: Vec<(TableId, usize)> = {
            let dims = self.dims();
            let is_new = |&(t, set): &(TableId, usize)| {
                !dims.contains_key(&(pull.job, t))
                    && pull.sets.get(set).is_some_and(|s| !s.is_empty())
            };
            pull.tables.iter().copied().filter(is_new).collect()
        };
        if unknown.is_empty() {
            return Ok(());
        }
        let one_row = |&(table, set): &(TableId, usize)| Pull {
            job: pull.job,
            sets: vec![Arc::new(pull.sets[set].slice(0..1))],
            tables: vec![(table, 0)],
            exactly_below: None,
        };
        let rows = self
            .ask_pulls(unknown.iter().map(one_row).collect())
            .await?;
        let mut dims = self.dims();
        for (&(table, _), pulled) in unknown.iter().zip(&rows) {
            let [row] = &pulled.tables[..] else {
                return Err(cut::surprise(
                    "a pull of one table was answered for another number",
                ));
            };
            dims.insert((pull.job, table), row.len());
        }
        Ok(())
    }

    fn dims(&self) -> std::sync::MutexGuard<'_, HashMap<(JobId, TableId), usize>> {
        // Entries are inserted whole, so a panic elsewhere leaves nothing half done.
        self.dims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn receive(&self, job: JobId, shard: ShardId) -> Result<Vec<u8>, WireError> {
        let mut request = Request::new(v1::SnapshotRequest {
            job: job.0,
            shard: shard.0.into(),
        });
        version::announce(request.metadata_mut());
        let mut client = self.client()?;
        let open = async { Ok(client.snapshot(request).await?.into_inner()) };
        let mut stream = self.peer.within("a snapshot", open).await?;
        let mut assembly: Option<chunks::Assembly> = None;
        // The deadline is each chunk's: a large shard may take longer than one request.
        let next = async |stream: &mut tonic::Streaming<v1::Chunk>| {
            let chunk = async { Ok(stream.message().await?) };
            self.peer.within("a snapshot", chunk).await
        };
        while let Some(chunk) = next(&mut stream).await? {
            let assembly = match &mut assembly {
                Some(assembly) => assembly,
                None => assembly.insert(chunks::Assembly::new(
                    chunk.total,
                    &self.peer.options.limits,
                )?),
            };
            assembly.add(&chunk).map_err(nonsense)?;
        }
        match assembly {
            Some(assembly) => assembly.finish(),
            None => Err(cut::surprise("a snapshot without a chunk")),
        }
    }

    async fn send(
        &self,
        job: JobId,
        shard: ShardId,
        lineage: Lineage,
        snapshot: Vec<u8>,
    ) -> Result<(), WireError> {
        use v1::install_request::Part;
        // Checked here too: the server would refuse after a part of it was sent.
        chunks::Assembly::new(snapshot.len() as u64, &self.peer.options.limits)?;
        let header = Part::Header(v1::InstallHeader {
            job: job.0,
            shard: shard.0.into(),
            lineage: lineage.0,
            total: snapshot.len() as u64,
        });
        let chunks = chunks::cut(snapshot, self.peer.options.limits.chunk()).map(Part::Chunk);
        let parts = std::iter::once(header)
            .chain(chunks)
            .map(|part| v1::InstallRequest { part: Some(part) });
        let mut request = tokio_stream::iter(parts).into_streaming_request();
        version::announce(request.metadata_mut());
        self.client()?.install(request).await?;
        Ok(())
    }
}

impl Shards for GrpcShards {
    fn pull(&self, pull: Pull) -> Answered<'_, Pulled> {
        Box::pin(async move {
            self.learn_dims(&pull).await?;
            let pieces = {
                let (job, dims) = (pull.job, self.dims());
                let dim = |table| dims.get(&(job, table)).copied().unwrap_or(0);
                cut::pull(pull, dim, &self.peer.options.limits)?
            };
            let (pulls, pieces) = pieces.split();
            let answers = self.ask_pulls(pulls).await?;
            pieces.join(answers)
        })
    }

    fn push(&self, push: Push) -> Answered<'_, Pushed> {
        Box::pin(async move {
            let pieces = cut::push(push, &self.peer.options.limits)?;
            let covers: Vec<_> = pieces.iter().map(|p| p.cover.clone()).collect();
            let asks = pieces.into_iter().map(|p| Ask::Push(p.into())).collect();
            let answers = self.ask("a push", asks).await?;
            let answers = answers.into_iter().map(|answer| match answer {
                Answer::Pushed(pushed) => Pushed::try_from(pushed).map_err(nonsense),
                _ => Err(cut::surprise("a push was answered as a pull")),
            });
            cut::join_pushed(&covers, answers.collect::<Result<_, _>>()?)
        })
    }

    fn snapshot(&self, job: JobId, shard: ShardId) -> Answered<'_, Vec<u8>> {
        Box::pin(self.receive(job, shard))
    }

    fn install(
        &self,
        job: JobId,
        shard: ShardId,
        lineage: Lineage,
        snapshot: Vec<u8>,
    ) -> Answered<'_, ()> {
        // A second more for each MiB: no link is meant to be slower.
        let longer = Duration::from_secs(snapshot.len() as u64 >> 20);
        let sent = self.send(job, shard, lineage, snapshot);
        Box::pin(self.peer.within_and(longer, "an install", sent))
    }
}

/// An answer that breaks the rules is the server's fault, not the request's.
fn nonsense(error: WireError) -> WireError {
    WireError::new(ErrorKind::Internal, format!("the server's answer: {error}"))
}
