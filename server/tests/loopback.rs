//! The wire through real TCP on this machine: client and service, with shards in memory behind.
#![allow(clippy::unwrap_used, reason = "a test panics when something is wrong")]

mod fake;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::transport::{Channel, Endpoint};
use windlass_client::grpc::{Connector, Options};
use windlass_client::runtime::{TokioClock, TokioNetwork};
use windlass_client::transport::Next;
use windlass_common::coordination::{Health, Outcome, Report, Task};
use windlass_common::exchange::Answer;
use windlass_common::id::*;
use windlass_proto::v1::data_client::DataClient;
use windlass_proto::v1::exchange_request::Ask;
use windlass_proto::v1::exchange_response;
use windlass_proto::{ErrorKind, Limits, WireError, v1, version};
use windlass_server::service::{Faces, accept, router};

use fake::{ALL_KINDS, FakeCoordinator, FakeShards, KINDS, STALLED, keys, pull, push, weights};

const MAX_IN_FLIGHT: usize = 4;

/// A server of fakes on a port of its own.
struct Fixture {
    address: SocketAddr,
    shards: Arc<FakeShards>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Fixture {
    async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), Limits::default()).await
    }

    async fn start_at(address: SocketAddr, limits: Limits) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shards = Arc::new(FakeShards::default());
        let faces = Faces::of(Arc::new(FakeCoordinator));
        let router = router(Arc::clone(&shards) as _, Some(faces), limits, MAX_IN_FLIGHT);
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            router.serve(accept(listener), shutdown).await.unwrap();
        });
        Self {
            address,
            shards,
            stop,
            served,
        }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops as on SIGTERM, and returns when nothing is served any more.
    async fn stop(self) {
        drop(self.stop);
        within("the server's end", self.served).await.unwrap();
    }
}

fn connector(options: Options) -> Connector {
    Connector::new(Arc::new(TokioNetwork), Arc::new(TokioClock::new()), options)
}

/// A client without our options, as a program in another language may be, with a small window.
async fn stranger(server: &Fixture) -> DataClient<Channel> {
    let endpoint = Endpoint::from_shared(server.url()).unwrap();
    let endpoint = endpoint.initial_stream_window_size(64 << 10);
    DataClient::new(endpoint.connect().await.unwrap())
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let Ok(value) = tokio::time::timeout(Duration::from_secs(30), future).await else {
        panic!("no {what} in 30 s");
    };
    value
}

#[tokio::test]
async fn what_is_pushed_is_pulled() {
    let server = Fixture::start().await;
    let client = connector(Options::default()).shards(&server.url());
    let set = keys(100);
    let answers = client.push(push(0, &set)).await.unwrap().answers;
    let applied = Answer::Applied { before: Clock(0) };
    assert_eq!(
        answers,
        (0..8).map(|s| (ShardId(s), applied)).collect::<Vec<_>>()
    );
    let again = client.push(push(0, &set)).await.unwrap().answers;
    assert!(again.iter().all(|(_, answer)| *answer == Answer::Duplicate));

    let pulled = client.pull(pull(JobId(1), &set)).await.unwrap();
    assert_eq!(
        pulled.clocks,
        (0..8).map(|s| (ShardId(s), Clock(1))).collect::<Vec<_>>()
    );
    assert_eq!(
        pulled.tables,
        [weights(TableId(0), &set), weights(TableId(1), &set)]
    );
}

#[tokio::test]
async fn requests_of_one_caller_are_done_in_order() {
    let server = Fixture::start().await;
    let client = connector(Options::default()).shards(&server.url());
    let set = keys(10);
    client.pull(pull(JobId(1), &set)).await.unwrap();
    // All are under way at once; the fake lets others run before it applies a push.
    let (_, pulled, _) = tokio::join!(
        client.push(push(0, &set)),
        client.pull(pull(JobId(1), &set)),
        client.push(push(1, &set)),
    );
    assert_eq!(pulled.unwrap().tables[0], weights(TableId(0), &set));
}

#[tokio::test]
async fn callers_take_turns_in_order_when_the_stream_is_full() {
    let server = Fixture::start().await;
    let options = Options {
        in_flight: 1,
        ..Options::default()
    };
    let client = connector(options).shards(&server.url());
    let set = keys(10);
    client.pull(pull(JobId(1), &set)).await.unwrap();
    let one = async |seq| {
        let pushed = client.push(push(seq, &set));
        let pulled = client.pull(pull(JobId(1), &set));
        let (pushed, pulled) = tokio::join!(pushed, pulled);
        pushed.unwrap();
        pulled.unwrap().tables.swap_remove(0)
    };
    let all = within("answers", join_all((0..20).map(one))).await;
    for (times, rows) in (1u8..).zip(all) {
        let weights = weights(TableId(0), &set).into_iter();
        assert_eq!(
            rows,
            weights.map(|w| w * f32::from(times)).collect::<Vec<_>>()
        );
    }
}

#[tokio::test]
async fn requests_larger_than_a_message_are_cut_and_joined() {
    let server = Fixture::start().await;
    let client = connector(Options::default()).shards(&server.url());
    // 100,000 keys x 17 weights are 6.8 MB, and each of 8 shards' part of them is below 1 MiB.
    let set = keys(100_000);
    let answers = within("answer", client.push(push(0, &set)))
        .await
        .unwrap()
        .answers;
    let applied = Answer::Applied { before: Clock(0) };
    assert_eq!(
        answers,
        (0..8).map(|s| (ShardId(s), applied)).collect::<Vec<_>>()
    );
    let pulled = within("answer", client.pull(pull(JobId(1), &set)))
        .await
        .unwrap();
    assert!(pulled.tables == [weights(TableId(0), &set), weights(TableId(1), &set)]);

    let state = server.shards.state.lock().unwrap();
    assert!(state.pushes.len() > 1, "{:?}", state.pushes);
    let mut covered: Vec<_> = state
        .pushes
        .iter()
        .flat_map(|(cover, _)| cover.clone())
        .collect();
    covered.sort_unstable();
    assert_eq!(covered, (0..8).map(ShardId).collect::<Vec<_>>());
    // Two of one key, to learn how wide the rows are; then answers of at most 1 MiB.
    let (learning, pulls) = state.pulls.split_at(2);
    assert_eq!(learning, [1, 1]);
    assert!(
        pulls.iter().all(|&keys| keys * 17 * 4 <= 1 << 20),
        "{pulls:?}"
    );
    assert_eq!(pulls.iter().sum::<usize>(), set.len());
}

#[tokio::test]
async fn the_smallest_messages_suffice() {
    let limits = Limits::with_message(Limits::MIN_MESSAGE);
    let server = Fixture::start_at("127.0.0.1:0".parse().unwrap(), limits).await;
    let options = Options {
        limits,
        ..Options::default()
    };
    let client = connector(options).shards(&server.url());
    // 4000 keys x 17 weights are 272 KB; each shard's part of them fits a message of 64 KiB.
    let set = keys(4000);
    client.push(push(0, &set)).await.unwrap();
    let pulled = client.pull(pull(JobId(1), &set)).await.unwrap();
    assert!(pulled.tables == [weights(TableId(0), &set), weights(TableId(1), &set)]);
    let snapshot = vec![7; 100_000];
    client
        .install(JobId(1), ShardId(0), Lineage(1), snapshot.clone())
        .await
        .unwrap();
    assert!(client.snapshot(JobId(1), ShardId(0)).await.unwrap() == snapshot);
}

#[tokio::test]
async fn the_end_of_a_source_reaches_every_shard() {
    let server = Fixture::start().await;
    let client = connector(Options::default()).shards(&server.url());
    let mut end = push(3, &keys(0));
    (end.end, end.sets, end.tables) = (true, vec![], vec![]);
    assert_eq!(client.push(end).await.unwrap().answers.len(), 8);
    let state = server.shards.state.lock().unwrap();
    assert_eq!(state.pushes, [((0..8).map(ShardId).collect(), true)]);
}

#[tokio::test]
async fn kinds_of_refusals_survive_the_wire() {
    let server = Fixture::start().await;
    let connector = connector(Options::default());
    let (shards, control) = (
        connector.shards(&server.url()),
        connector.control(&server.url()),
    );
    for (job, kind) in (KINDS..).map(JobId).zip(ALL_KINDS) {
        let check = |error: WireError| {
            assert_eq!(error.kind, kind);
            let said = format!("refused: {kind:?}");
            assert!(error.message.ends_with(&said), "{}", error.message);
        };
        let set = keys(1);
        check(shards.pull(pull(job, &set)).await.unwrap_err());
        check(shards.push(fake_job(job)).await.unwrap_err());
        check(shards.snapshot(job, ShardId(0)).await.unwrap_err());
        let installed = shards.install(job, ShardId(0), Lineage(1), vec![1]).await;
        check(installed.unwrap_err());
        check(control.map(job).await.unwrap_err());
    }
}

fn fake_job(job: JobId) -> windlass_common::exchange::Push {
    windlass_common::exchange::Push {
        job,
        ..push(0, &keys(1))
    }
}

#[tokio::test]
async fn the_coordinator_is_asked_over_the_wire() {
    let server = Fixture::start().await;
    let connector = connector(Options::default());
    let control = connector.control(&server.url());
    let done = Some((LeaseId(5), Outcome::Abandoned("no room".into())));
    let next = Next {
        job: JobId(40),
        worker: WorkerId(2),
        done: done.clone(),
        leaving: true,
    };
    let (task, _) = control.next(next).await.unwrap();
    let expected = Task::Wait {
        reason: format!("{done:?}"),
        retry: Duration::from_millis(40),
        missing: true,
    };
    assert_eq!(task, expected);
    let renewed = control.renew(JobId(1), WorkerId(2), LeaseId(3)).await;
    assert!(renewed.unwrap().0);
    let report = Report {
        address: "http://here:1".into(),
        boot: Boot(1),
        number: 2,
        seen: MapEpoch(77),
        health: Health::default(),
        jobs: vec![],
    };
    let assigned = connector
        .membership(&server.url())
        .report(report)
        .await
        .unwrap();
    assert_eq!(
        (assigned.server, assigned.epoch),
        (ServerId(3), MapEpoch(77))
    );
}

#[tokio::test]
async fn another_protocol_version_is_refused_and_both_are_named() {
    let server = Fixture::start().await;
    let mut client = stranger(&server).await;
    let mut request = Request::new(tokio_stream::iter([v1::ExchangeRequest::default()]));
    let range = v1::ProtocolRange { min: 7, max: 9 };
    version::announce_range(request.metadata_mut(), range);
    let error = WireError::from(client.exchange(request).await.unwrap_err());
    assert_eq!(error.kind, ErrorKind::Version);
    assert!(
        error.message.contains("7-9") && error.message.contains("1-1"),
        "{error}"
    );
}

#[tokio::test]
async fn snapshots_travel_in_chunks() {
    let server = Fixture::start().await;
    let client = connector(Options::default()).shards(&server.url());
    // Not a multiple of a chunk, and larger than a message.
    let snapshot: Vec<u8> = (0..5_000_001u32).map(|i| (i % 251) as u8).collect();
    for (shard, snapshot) in [(ShardId(3), snapshot), (ShardId(4), vec![])] {
        client
            .install(JobId(1), shard, Lineage(9), snapshot.clone())
            .await
            .unwrap();
        let installed = server.shards.state.lock().unwrap().installed[&(JobId(1), shard)].clone();
        assert!(installed == (Lineage(9), snapshot.clone()));
        assert!(client.snapshot(JobId(1), shard).await.unwrap() == snapshot);
    }
}

#[tokio::test]
async fn a_snapshot_beyond_the_limit_is_refused_on_either_side() {
    let narrow = Limits {
        snapshot: 1000,
        ..Limits::default()
    };
    let server = Fixture::start_at("127.0.0.1:0".parse().unwrap(), narrow).await;
    let wide = connector(Options::default()).shards(&server.url());
    let install = wide.install(JobId(1), ShardId(0), Lineage(1), vec![0; 1001]);
    assert_eq!(install.await.unwrap_err().kind, ErrorKind::TooLarge);
    assert!(server.shards.state.lock().unwrap().installed.is_empty());

    let installed = (Lineage(1), vec![0; 1001]);
    let at = (JobId(1), ShardId(0));
    server
        .shards
        .state
        .lock()
        .unwrap()
        .installed
        .insert(at, installed);
    let options = Options {
        limits: narrow,
        ..Options::default()
    };
    let careful = connector(options).shards(&server.url());
    let error = careful.snapshot(JobId(1), ShardId(0)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
}

#[tokio::test]
async fn an_answer_beyond_a_message_is_refused_and_the_stream_goes_on() {
    let server = Fixture::start().await;
    let mut client = stranger(&server).await;
    // 100,000 rows of 17 weights in one request, as a careless client may ask.
    let asks = [pull(JobId(1), &keys(100_000)), pull(JobId(1), &keys(10))];
    let requests = asks.map(|ask| v1::ExchangeRequest {
        id: ask.sets[0].len() as u64,
        ask: Some(Ask::Pull(ask.into())),
    });
    let mut request = Request::new(tokio_stream::iter(requests));
    version::announce(request.metadata_mut());
    let mut answers = client.exchange(request).await.unwrap().into_inner();
    let first = answers.message().await.unwrap().unwrap();
    let Some(exchange_response::Answer::Failure(failure)) = first.answer else {
        panic!("{first:?}");
    };
    assert_eq!(first.id, 100_000);
    assert_eq!(WireError::from(failure).kind, ErrorKind::TooLarge);
    let second = answers.message().await.unwrap().unwrap();
    assert_eq!(second.id, 10);
    assert!(matches!(
        second.answer,
        Some(exchange_response::Answer::Pulled(_))
    ));
}

#[tokio::test]
async fn a_bad_request_is_refused_and_the_stream_goes_on() {
    let server = Fixture::start().await;
    let client = connector(Options::default()).shards(&server.url());
    let mut bad = push(0, &keys(10));
    bad.cover = vec![ShardId(0)];
    let error = client.push(bad).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.starts_with("push.cover"), "{error}");
    client.push(push(0, &keys(10))).await.unwrap();
}

#[tokio::test]
async fn no_answer_in_time_is_an_error() {
    let server = Fixture::start().await;
    let options = Options {
        deadline: Duration::from_millis(50),
        ..Options::default()
    };
    let client = connector(options).shards(&server.url());
    let error = client.pull(pull(STALLED, &keys(1))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Deadline);
    // Whoever asks knows whom, and says so.
    assert_eq!(error.message, "no answer to a pull in 50ms");
}

#[tokio::test]
async fn a_broken_stream_fails_what_is_open_and_works_again() {
    // A runtime of its own, which dies with all its connections as a process does.
    let mut process = tokio::runtime::Builder::new_multi_thread();
    let process = process.worker_threads(1).enable_all().build().unwrap();
    let server = process.spawn(Fixture::start()).await.unwrap();
    let (address, url) = (server.address, server.url());
    let client = connector(Options::default()).shards(&url);
    let set = keys(5);
    client.push(push(0, &set)).await.unwrap();

    let stalled = client.pull(pull(STALLED, &keys(0)));
    let killed = async {
        // Answered on another connection: so the stream had its time to take the pull.
        let other = connector(Options::default()).shards(&url);
        other.pull(pull(JobId(1), &set)).await.unwrap();
        let kill = move || process.shutdown_timeout(Duration::from_secs(10));
        tokio::task::spawn_blocking(kill).await.unwrap();
    };
    let both = async { tokio::join!(stalled, killed) };
    let (error, ()) = within("end of the open request", both).await;
    assert_eq!(error.unwrap_err().kind, ErrorKind::Unavailable);
    let error = client.push(push(1, &set)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.starts_with("Connection refused"), "{error}");

    let _again = Fixture::start_at(address, Limits::default()).await;
    client.push(push(1, &set)).await.unwrap();
}

#[tokio::test]
async fn a_server_that_stops_tells_its_clients_and_ends() {
    let server = Fixture::start().await;
    let address = server.address;
    let client = connector(Options::default()).shards(&server.url());
    let set = keys(5);
    client.push(push(0, &set)).await.unwrap();
    // The client's stream is open all the time.
    server.stop().await;
    let error = client.push(push(1, &set)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    let _again = Fixture::start_at(address, Limits::default()).await;
    client.push(push(1, &set)).await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_served() {
    const REQUESTS: u64 = 300;
    let server = Fixture::start().await;
    let mut client = stranger(&server).await;
    // Each answer has 4096 x 17 x 4 bytes = 272 KiB.
    let ask = v1::Pull::from(pull(JobId(1), &keys(4096)));
    let (requests, sent) = tokio::sync::mpsc::channel(1);
    let mut request = Request::new(ReceiverStream::new(sent));
    version::announce(request.metadata_mut());
    let mut answers = client.exchange(request).await.unwrap().into_inner();
    let sender = tokio::spawn(async move {
        for id in 0..REQUESTS {
            let ask = Some(Ask::Pull(ask.clone()));
            requests
                .send(v1::ExchangeRequest { id, ask })
                .await
                .unwrap();
        }
    });
    // Others are served all the while: time enough to work on every request, if it were allowed.
    let other = connector(Options::default()).shards(&server.url());
    for _ in 0..REQUESTS {
        other.pull(pull(JobId(1), &keys(1))).await.unwrap();
    }
    let served = || {
        let state = server.shards.state.lock().unwrap();
        state.pulls.iter().filter(|&&keys| keys == 4096).count()
    };
    // Answers in the client's window of 64 KiB and the transport's buffer of 400 KiB: 2; and one each
    // that is encoded, that waits, and that is worked on.
    assert!(served() <= 5, "{} were worked on", served());
    for id in 0..REQUESTS {
        let answer = within("answer", answers.message()).await.unwrap().unwrap();
        assert_eq!(answer.id, id);
    }
    sender.await.unwrap();
    assert_eq!(served(), usize::try_from(REQUESTS).unwrap());
}

#[tokio::test]
async fn an_address_that_is_none_is_refused() {
    let connector = connector(Options::default());
    for bad in ["", "here", "127.0.0.1:7070", "https://a:1", "http://a"] {
        let error = connector.control(bad).map(JobId(1)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{bad}");
        assert_eq!(error.message, "no address of the form http://HOST:PORT");
    }
}

#[tokio::test]
async fn bytes_that_are_not_grpc_do_not_disturb_others() {
    use tokio::io::AsyncWriteExt;
    let server = Fixture::start().await;
    let mut stranger = TcpStream::connect(server.address).await.unwrap();
    stranger.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let client = connector(Options::default()).shards(&server.url());
    client.pull(pull(JobId(1), &keys(1))).await.unwrap();
}
