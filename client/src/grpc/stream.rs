//! One long-lived stream of requests to a server, and the answers to them.
//!
//! A task owns the stream. It sends what callers give it, up to a bound of requests without answer,
//! and hands each answer to its caller by the request's number. When the stream breaks, all
//! requests that it holds fail as [`ErrorKind::Unavailable`] and the task ends; the next request
//! opens another one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Streaming};
use tracing::debug;
use windlass_proto::v1::data_client::DataClient;
use windlass_proto::v1::exchange_request::Ask;
use windlass_proto::v1::exchange_response::Answer;
use windlass_proto::{ErrorKind, WireError, v1, version};

/// A request and whoever waits for its answer.
struct Waiting {
    ask: Ask,
    answer: oneshot::Sender<Result<Answer, WireError>>,
}

/// The stream to one server, opened when it is first needed.
pub(super) struct Stream {
    in_flight: usize,
    /// Whose turn it is to hand requests to the task. Fair: without it a caller that was woken
    /// later could overtake one that began to wait earlier.
    turn: tokio::sync::Mutex<()>,
    // std Mutex: held to look at the link, never across an await.
    link: Mutex<Option<Link>>,
}

/// A stream that is open, or was.
struct Link {
    asks: mpsc::Sender<Vec<Waiting>>,
    task: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stream {
    /// Prepares a stream with at most so many requests without answer.
    pub(super) fn new(in_flight: usize) -> Self {
        Self {
            in_flight: in_flight.max(1),
            turn: tokio::sync::Mutex::default(),
            link: Mutex::new(None),
        }
    }

    /// Sends requests one after the other, no other caller's between them, and returns their answers
    /// in the same order. Callers take turns in the order of their first polls.
    ///
    /// # Errors
    /// The first refusal, or [`ErrorKind::Unavailable`] if the stream breaks.
    pub(super) async fn call(
        &self,
        client: &DataClient<Channel>,
        asks: Vec<Ask>,
    ) -> Result<Vec<Answer>, WireError> {
        let (waiting, answers): (Vec<_>, Vec<_>) = asks
            .into_iter()
            .map(|ask| {
                let (answer, answered) = oneshot::channel();
                (Waiting { ask, answer }, answered)
            })
            .unzip();
        let turn = self.turn.lock().await;
        let asks = self.open(client);
        asks.send(waiting).await.map_err(|_| broken())?;
        drop(turn);
        let mut all = Vec::with_capacity(answers.len());
        for answer in answers {
            all.push(answer.await.map_err(|_| broken())??);
        }
        Ok(all)
    }

    /// Returns the way into the open stream, and opens one if there is none.
    fn open(&self, client: &DataClient<Channel>) -> mpsc::Sender<Vec<Waiting>> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = link.as_ref().filter(|l| !l.asks.is_closed()) {
            return open.asks.clone();
        }
        let (asks, asked) = mpsc::channel(self.in_flight);
        let task = tokio::spawn(run(client.clone(), asked, self.in_flight));
        *link = Some(Link {
            asks: asks.clone(),
            task,
        });
        asks
    }
}

fn broken() -> WireError {
    WireError::new(ErrorKind::Unavailable, "the connection broke")
}

/// Opens a stream and serves it to its end; then fails all that is not answered.
async fn run(
    mut client: DataClient<Channel>,
    mut asked: mpsc::Receiver<Vec<Waiting>>,
    in_flight: usize,
) {
    let (requests, sent) = mpsc::channel(1);
    let mut request = Request::new(ReceiverStream::new(sent));
    version::announce(request.metadata_mut());
    let mut exchange = Exchange::default();
    let error = match client.exchange(request).await {
        Ok(answers) => {
            let answers = answers.into_inner();
            exchange
                .serve(&mut asked, requests, answers, in_flight)
                .await
        }
        Err(status) => status.into(),
    };
    debug!(%error, unanswered = exchange.pending.len(), "stream ended");
    exchange.fail(&error);
    asked.close();
    while let Some(waiting) = asked.recv().await {
        exchange.queue.extend(waiting);
    }
    exchange.fail(&error);
}

/// What a stream has taken and not answered.
#[derive(Default)]
struct Exchange {
    next_id: u64,
    /// Not sent yet.
    queue: VecDeque<Waiting>,
    /// Sent, by number. Ordered, so that a simulation repeats.
    pending: BTreeMap<u64, oneshot::Sender<Result<Answer, WireError>>>,
}

impl Exchange {
    /// Sends and receives until the stream ends, and says why it did.
    async fn serve(
        &mut self,
        asked: &mut mpsc::Receiver<Vec<Waiting>>,
        requests: mpsc::Sender<v1::ExchangeRequest>,
        mut answers: Streaming<v1::ExchangeResponse>,
        in_flight: usize,
    ) -> WireError {
        loop {
            // Whoever waited no longer (its deadline passed) needs no answer.
            while self.queue.front().is_some_and(|w| w.answer.is_closed()) {
                self.queue.pop_front();
            }
            let may_send = !self.queue.is_empty() && self.pending.len() < in_flight;
            tokio::select! {
                // In this order, so that a simulation repeats, and answers make room first.
                biased;
                answer = answers.message() => match answer {
                    Ok(Some(answer)) => self.answer(answer),
                    Ok(None) => return broken(),
                    Err(status) => return status.into(),
                },
                permit = requests.reserve(), if may_send => match permit {
                    Ok(permit) => self.send(permit),
                    Err(_) => return broken(),
                },
                waiting = asked.recv(), if self.queue.is_empty() => match waiting {
                    Some(waiting) => self.queue.extend(waiting),
                    None => return broken(),
                },
            }
        }
    }

    fn send(&mut self, permit: mpsc::Permit<'_, v1::ExchangeRequest>) {
        if let Some(Waiting { ask, answer }) = self.queue.pop_front() {
            let id = self.next_id;
            self.next_id += 1;
            self.pending.insert(id, answer);
            permit.send(v1::ExchangeRequest { id, ask: Some(ask) });
        }
    }

    fn answer(&mut self, response: v1::ExchangeResponse) {
        // A number that is not waited for is dropped: its caller cannot be known.
        if let Some(waiting) = self.pending.remove(&response.id) {
            let answer = match response.answer {
                Some(Answer::Failure(failure)) => Err(failure.into()),
                Some(answer) => Ok(answer),
                None => Err(WireError::new(
                    ErrorKind::Internal,
                    "an answer without content",
                )),
            };
            // An error means that the caller has gone.
            let _ = waiting.send(answer);
        }
    }

    fn fail(&mut self, error: &WireError) {
        let queued = self.queue.drain(..).map(|w| w.answer);
        let sent = std::mem::take(&mut self.pending).into_values();
        for waiting in sent.chain(queued) {
            let _ = waiting.send(Err(error.clone()));
        }
    }
}
