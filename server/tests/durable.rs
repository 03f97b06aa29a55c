//! Rule S2 over real TCP: answers to pushes wait for a log, and nothing else waits for them.
#![allow(clippy::unwrap_used, reason = "a test panics when something is wrong")]

mod fake;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio::sync::watch;
use windlass_client::grpc::{Connector, Options};
use windlass_client::runtime::{TokioClock, TokioNetwork};
use windlass_client::transport::{Answered, Shards};
use windlass_common::exchange::{Pull, Pulled, Push, Pushed};
use windlass_common::id::*;
use windlass_proto::{ErrorKind, Limits, WireError};
use windlass_server::durable::{Durable, Worked};
use windlass_server::service::{ANSWERS, accept, router};

use fake::{FakeShards, keys, pull, push, weights};

/// Shards with a log that is on disk up to where the test says; an error is a disk that fails.
struct Logged {
    shards: FakeShards,
    disk: watch::Sender<Result<usize, ErrorKind>>,
}

impl Logged {
    fn new() -> Arc<Self> {
        let (shards, (disk, _)) = (FakeShards::default(), watch::channel(Ok(0)));
        Arc::new(Self { shards, disk })
    }

    /// Moves the disk on to a position, or lets it fail.
    fn reach(&self, at: Result<usize, ErrorKind>) {
        let _before = self.disk.send_replace(at);
    }

    /// How many pushes have been worked.
    fn worked(&self) -> usize {
        self.shards.state.lock().unwrap().pushes.len()
    }
}

impl Shards for Logged {
    fn pull(&self, pull: Pull) -> Answered<'_, Pulled> {
        self.shards.pull(pull)
    }

    fn push(&self, _: Push) -> Answered<'_, Pushed> {
        panic!("the service asks in two steps")
    }

    fn snapshot(&self, job: JobId, shard: ShardId) -> Answered<'_, Vec<u8>> {
        self.shards.snapshot(job, shard)
    }

    fn install(&self, job: JobId, shard: ShardId, l: Lineage, of: Vec<u8>) -> Answered<'_, ()> {
        self.shards.install(job, shard, l, of)
    }
}

impl Durable for Logged {
    fn work(&self, push: Push) -> Answered<'_, Worked> {
        Box::pin(async move {
            let pushed = self.shards.push(push).await?;
            let (position, mut disk) = (self.worked(), self.disk.subscribe());
            let release = async move {
                let reached = |at: &Result<_, _>| at.is_ok_and(|at| at >= position) || at.is_err();
                let at = *disk.wait_for(reached).await.unwrap();
                at.map(drop)
                    .map_err(|kind| WireError::new(kind, "the disk failed"))
            };
            Ok(Worked {
                pushed,
                release: Some(Box::pin(release)),
            })
        })
    }
}

/// Serves the shards on a port of its own, and gives its address.
async fn serve(shards: &Arc<Logged>, limits: Limits, max_in_flight: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shards = Arc::clone(shards);
    let router = router(shards, None, limits, max_in_flight);
    tokio::spawn(router.serve(accept(listener), std::future::pending()));
    url
}

fn client(url: &str, limits: Limits) -> Arc<dyn Shards> {
    let (network, clock) = (Arc::new(TokioNetwork), Arc::new(TokioClock::new()));
    let options = Options {
        limits,
        ..Options::default()
    };
    Connector::new(network, clock, options).shards(url)
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let Ok(value) = tokio::time::timeout(Duration::from_secs(30), future).await else {
        panic!("no {what} in 30 s");
    };
    value
}

#[tokio::test]
async fn s2_an_answer_waits_for_the_log_and_later_pulls_do_not() {
    let shards = Logged::new();
    let client = client(
        &serve(&shards, Limits::default(), 4).await,
        Limits::default(),
    );
    let set = keys(10);
    let (mut first, mut second) = (client.push(push(0, &set)), client.push(push(1, &set)));
    let twice: Vec<f32> = weights(TableId(0), &set).iter().map(|w| w * 2.0).collect();
    let pulls = async {
        for _ in 0..100 {
            let pulled = client.pull(pull(JobId(1), &set)).await.unwrap();
            assert_eq!(
                pulled.tables[0], twice,
                "both are applied before it is read"
            );
        }
    };
    tokio::select! {
        biased;
        answer = &mut first => panic!("answered before the log was on disk: {answer:?}"),
        answer = &mut second => panic!("answered before the log was on disk: {answer:?}"),
        () = within("pulls", pulls) => {}
    }
    shards.reach(Ok(1));
    within("first answer", first).await.unwrap();
    let pulls = async {
        for _ in 0..100 {
            client.pull(pull(JobId(1), &set)).await.unwrap();
        }
    };
    tokio::select! {
        biased;
        answer = &mut second => panic!("answered before the log was on disk: {answer:?}"),
        () = within("pulls", pulls) => {}
    }
    shards.reach(Ok(2));
    within("second answer", second).await.unwrap();
}

#[tokio::test]
async fn sixteen_open_pushes_of_eight_messages_each_hold_up_no_pull() {
    let limits = Limits::with_message(Limits::MIN_MESSAGE);
    let shards = Logged::new();
    let client = client(&serve(&shards, limits, 16).await, limits);
    // 4000 keys x 17 weights are 272 KB, in 8 shards of about a chunk of 32 KiB each.
    let (many, few) = (keys(4000), keys(10));
    let mut pushes = pin!(join_all((0..16).map(|seq| client.push(push(seq, &many)))));
    let pulled = tokio::select! {
        biased;
        answers = &mut pushes => panic!("answered before the log was on disk: {answers:?}"),
        pulled = within("rows", client.pull(pull(JobId(1), &few))) => pulled.unwrap(),
    };
    assert_eq!(shards.worked(), 16 * 8);
    let applied = weights(TableId(0), &few).into_iter().map(|w| w * 16.0);
    assert_eq!(pulled.tables[0], applied.collect::<Vec<_>>());
    shards.reach(Ok(usize::MAX));
    for answer in within("answers", pushes).await {
        answer.unwrap();
    }
}

#[tokio::test]
async fn answers_that_wait_are_bounded() {
    let shards = Logged::new();
    let url = serve(&shards, Limits::default(), 1).await;
    let (pushing, other) = (
        client(&url, Limits::default()),
        client(&url, Limits::default()),
    );
    let set = keys(10);
    let pushes: Vec<_> = (0..40)
        .map(|seq| {
            let (pushing, push) = (Arc::clone(&pushing), push(seq, &set));
            tokio::spawn(async move { pushing.push(push).await })
        })
        .collect();
    // Another stream is served all the while: time enough to work every push, if it were allowed.
    let ask = async || drop(other.pull(pull(JobId(1), &set)).await.unwrap());
    let filled = async {
        while shards.worked() < ANSWERS {
            ask().await;
        }
    };
    within("full queue", filled).await;
    for _ in 0..300 {
        ask().await;
    }
    assert_eq!(shards.worked(), ANSWERS);
    shards.reach(Ok(usize::MAX));
    for push in pushes {
        within("answer", push).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_log_that_fails_is_the_answer() {
    let shards = Logged::new();
    let client = client(
        &serve(&shards, Limits::default(), 4).await,
        Limits::default(),
    );
    let set = keys(10);
    shards.reach(Err(ErrorKind::Unavailable));
    let error = within("answer", client.push(push(0, &set))).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.ends_with("the disk failed"), "{error}");
    // The stream goes on, and so does the push under its name.
    shards.reach(Ok(usize::MAX));
    within("answer", client.push(push(0, &set))).await.unwrap();
}
