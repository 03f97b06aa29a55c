//! The data plane: streams of pulls and pushes, and shards' copies in chunks.
//!
//! What a stream may hold in memory is bounded: `max_in_flight` requests that are decoded and wait,
//! one that is worked on, [`ANSWERS`] times as many answers to pushes that wait for the log, and one
//! answer that waits for the client to read it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::{self, BoxStream, FuturesOrdered, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tonic::{Request, Response, Status, Streaming};
use windlass_common::exchange::{Pull, Push, Pushed};
use windlass_common::failpoint;
use windlass_common::id::{JobId, Lineage};
use windlass_proto::v1::data_server::Data;
use windlass_proto::v1::exchange_request::Ask;
use windlass_proto::v1::exchange_response::Answer;
use windlass_proto::v1::install_request::Part;
use windlass_proto::{ErrorKind, Limits, WireError, chunks, limits, v1, version};

use super::ANSWERS;
use crate::durable::{Durable, Release, Worked};

/// The shards of this server.
pub(super) struct DataService {
    pub(super) shards: Arc<dyn Durable>,
    pub(super) limits: Limits,
    pub(super) max_in_flight: usize,
    /// Becomes true when the server stops.
    pub(super) stopping: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl Data for DataService {
    type ExchangeStream = Answers;
    type SnapshotStream = BoxStream<'static, Result<v1::Chunk, Status>>;

    async fn exchange(
        &self,
        request: Request<Streaming<v1::ExchangeRequest>>,
    ) -> Result<Response<Answers>, Status> {
        version::agree_by_metadata(request.metadata())?;
        let (asked, asks) = mpsc::channel(self.max_in_flight);
        let (answered, answers) = mpsc::channel(1);
        let reading = read(request.into_inner(), asked, self.stopping.clone());
        let (put_off, to_release) = mpsc::channel(1);
        let out = Out {
            answered: answered.clone(),
            limits: self.limits,
        };
        let working = work(Arc::clone(&self.shards), asks, put_off, out.clone());
        let releasing = release(to_release, self.max_in_flight * ANSWERS, out);
        let task = tokio::spawn(async move {
            let (end, (), ()) = tokio::join!(reading, working, releasing);
            if let Err(error) = end {
                // An error means that the client has gone.
                let _ = answered.send(Err(error.into())).await;
            }
        });
        Ok(Response::new(Answers { answers, task }))
    }

    async fn snapshot(
        &self,
        request: Request<v1::SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        version::agree_by_metadata(request.metadata())?;
        let v1::SnapshotRequest { job, shard } = request.into_inner();
        let shard = limits::shard("snapshot.shard", shard)?;
        let snapshot = self.shards.snapshot(JobId(job), shard).await?;
        let chunks = chunks::cut(snapshot, self.limits.chunk()).map(Ok);
        Ok(Response::new(stream::iter(chunks).boxed()))
    }

    async fn install(
        &self,
        request: Request<Streaming<v1::InstallRequest>>,
    ) -> Result<Response<v1::InstallResponse>, Status> {
        version::agree_by_metadata(request.metadata())?;
        let mut parts = request.into_inner();
        let Some(Part::Header(header)) = next_part(&mut parts).await? else {
            return Err(out_of_order("the first message is the header").into());
        };
        let shard = limits::shard("install.shard", header.shard)?;
        let mut assembly = chunks::Assembly::new(header.total, &self.limits)?;
        while let Some(part) = next_part(&mut parts).await? {
            match part {
                Part::Chunk(chunk) => assembly.add(&chunk)?,
                Part::Header(_) => return Err(out_of_order("a second header").into()),
            }
        }
        let (job, lineage) = (JobId(header.job), Lineage(header.lineage));
        let snapshot = assembly.finish()?;
        self.shards.install(job, shard, lineage, snapshot).await?;
        Ok(Response::new(v1::InstallResponse {}))
    }
}

/// A request of a stream, decoded; or why it could not be.
type Asked = (u64, Result<Question, WireError>);

enum Question {
    Pull(Pull),
    Push(Push),
}

impl TryFrom<Option<Ask>> for Question {
    type Error = WireError;

    fn try_from(ask: Option<Ask>) -> Result<Self, WireError> {
        match ask {
            Some(Ask::Pull(pull)) => Ok(Self::Pull(pull.try_into()?)),
            Some(Ask::Push(push)) => Ok(Self::Push(push.try_into()?)),
            None => Err(WireError::new(
                ErrorKind::Invalid,
                "ask: neither a pull nor a push",
            )),
        }
    }
}

/// Decodes requests ahead of the work, until the client ends the stream or the server stops.
async fn read(
    mut requests: Streaming<v1::ExchangeRequest>,
    asked: mpsc::Sender<Asked>,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), WireError> {
    loop {
        // Room first: what is read has a place.
        let Ok(room) = asked.reserve().await else {
            return Ok(());
        };
        let request = tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => {
                return Err(WireError::new(ErrorKind::Unavailable, "the server stops"));
            }
            request = requests.message() => request?,
        };
        match request {
            Some(request) => room.send((request.id, Question::try_from(request.ask))),
            None => return Ok(()),
        }
    }
}

/// The way back to the client.
#[derive(Clone)]
struct Out {
    answered: mpsc::Sender<Result<v1::ExchangeResponse, Status>>,
    limits: Limits,
}

impl Out {
    /// Sends an answer when there is room; `Err` when nobody listens any more.
    async fn send(&self, id: u64, answer: Result<Answer, WireError>) -> Result<(), Gone> {
        let acknowledges = matches!(answer, Ok(Answer::Pushed(_)));
        if acknowledges {
            failpoint::reached("acknowledge-before");
        }
        let response = v1::ExchangeResponse::new(id, answer, &self.limits);
        let sent = self.answered.send(Ok(response)).await.map_err(|_| Gone);
        if acknowledges {
            failpoint::reached("acknowledge-after");
        }
        sent
    }
}

/// The client has gone.
struct Gone;

/// A push's answer that may not leave yet.
struct PutOff {
    id: u64,
    pushed: Pushed,
    release: Release,
}

/// Asks the shards one question after the other, so that a pull sees the pushes before it; what is
/// answered later does not hold up the next.
async fn work(
    shards: Arc<dyn Durable>,
    mut asks: mpsc::Receiver<Asked>,
    put_off: mpsc::Sender<PutOff>,
    out: Out,
) {
    while let Some((id, question)) = asks.recv().await {
        let answer = match question {
            Ok(Question::Pull(pull)) => shards.pull(pull).await.map(|p| Answer::Pulled(p.into())),
            Ok(Question::Push(push)) => {
                // Room first: what is applied has a place to wait for the log.
                let Ok(room) = put_off.reserve().await else {
                    return;
                };
                match shards.work(push).await {
                    Ok(Worked {
                        pushed,
                        release: Some(release),
                    }) => {
                        room.send(PutOff {
                            id,
                            pushed,
                            release,
                        });
                        continue;
                    }
                    worked => worked.map(|w| Answer::Pushed(w.pushed.into())),
                }
            }
            Err(error) => Err(error),
        };
        if out.send(id, answer).await.is_err() {
            return;
        }
    }
}

/// Sends answers to pushes as the log releases them (rule S2), of which at most `most` wait.
async fn release(mut put_off: mpsc::Receiver<PutOff>, most: usize, out: Out) {
    // In order: a log reaches the disk in order, and what it reaches at once is told the same way in
    // every run of a simulation.
    let mut waiting = FuturesOrdered::new();
    let mut ended = false;
    loop {
        tokio::select! {
            biased;
            Some((id, answer)) = waiting.next() => {
                if out.send(id, answer).await.is_err() {
                    return;
                }
            }
            // One more waits in the channel.
            next = put_off.recv(), if !ended && waiting.len() + 1 < most => match next {
                Some(put_off) => waiting.push_back(released(put_off)),
                None => ended = true,
            },
            else => return,
        }
    }
}

async fn released(put_off: PutOff) -> (u64, Result<Answer, WireError>) {
    let PutOff {
        id,
        pushed,
        release,
    } = put_off;
    let answer = release.await.map(|()| Answer::Pushed(pushed.into()));
    (id, answer)
}

async fn next_part(parts: &mut Streaming<v1::InstallRequest>) -> Result<Option<Part>, Status> {
    match parts.message().await? {
        None => Ok(None),
        Some(v1::InstallRequest { part: Some(part) }) => Ok(Some(part)),
        Some(v1::InstallRequest { part: None }) => Err(out_of_order("an empty message").into()),
    }
}

fn out_of_order(what: &str) -> WireError {
    WireError::new(ErrorKind::Invalid, format!("install: {what}"))
}

/// The answers of a stream, and the task that gives them: it ends with them.
pub(super) struct Answers {
    answers: mpsc::Receiver<Result<v1::ExchangeResponse, Status>>,
    task: JoinHandle<()>,
}

impl Stream for Answers {
    type Item = Result<v1::ExchangeResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.answers.poll_recv(context)
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.task.abort();
    }
}
