//! How many leases a second a coordinator grants over gRPC on this machine, and how long an answer
//! takes: one job of many splits, and workers that ask for the next split as soon as they have one.
//!
//! `cargo run --release -p windlass-benches --bin leases [SPLITS [WORKERS]]`; `--test` runs it
//! small, once.

use std::future::pending;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use windlass_benches::cluster::{FakeServer, Finished, register, tally};
use windlass_client::grpc::{Connector, Options};
use windlass_client::runtime::{TokioClock, TokioNetwork, TokioPool};
use windlass_client::transport::{Control, Membership, Next};
use windlass_common::coordination::{Outcome, Task};
use windlass_common::id::{JobId, LeaseId, WorkerId};
use windlass_proto::{Limits, WireError};
use windlass_server::coordinator::{Coordinator, CoordinatorHandle, Settings};
use windlass_server::service::{Faces, accept, router};
use windlass_server::store::Store;

const SPLITS: u32 = 100_000;
const WORKERS: u32 = 16;

/// Servers that hold the job's 256 shards and tell what is complete in them.
const SERVERS: u32 = 4;

/// A server tells of completed splits this long after it told the last time, as a real one does.
const PAUSE: Duration = Duration::from_millis(5);

fn main() -> anyhow::Result<()> {
    let mut numbers = Vec::new();
    let mut test = false;
    for argument in std::env::args().skip(1) {
        if argument == "--test" {
            test = true;
            continue;
        }
        let number: u32 = argument
            .parse()
            .with_context(|| format!("`{argument}` is not a number"))?;
        numbers.push(number);
    }
    let splits = numbers.first().copied();
    let splits = splits.unwrap_or(if test { 2_000 } else { SPLITS });
    let workers = numbers.get(1).copied();
    let workers = workers.unwrap_or(if test { 4 } else { WORKERS });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(measure(splits, workers))
}

async fn measure(splits: u32, workers: u32) -> anyhow::Result<()> {
    let url = serve().await?;
    let finished = Finished::default();
    let clock = Arc::new(TokioClock::new());
    let connector = Connector::new(Arc::new(TokioNetwork), clock, Options::default());
    let mut servers = JoinSet::new();
    for number in 0..SERVERS {
        let server = FakeServer::new(number, finished.clone());
        servers.spawn(tell(connector.membership(&url), server));
    }
    let began = Instant::now();
    let mut asking = JoinSet::new();
    for number in 0..workers {
        let worker = Worker {
            // Its own connection, as a process of its own has.
            control: connector.control(&url),
            id: WorkerId(1 + u64::from(number)),
            finished: finished.clone(),
        };
        asking.spawn(worker.run(splits, workers));
    }
    let mut all = Measured::default();
    loop {
        tokio::select! {
            joined = asking.join_next() => match joined {
                Some(measured) => all.merge(measured??),
                None => break,
            },
            Some(refused) = servers.join_next() => return Err(refused?.into()),
        }
    }
    let (Some(first), Some(last)) = (all.first, all.last) else {
        bail!("no lease was granted in {:?}", began.elapsed());
    };
    if finished.count() != u64::from(splits) {
        bail!("{} of {splits} splits were leased", finished.count());
    }
    print(&mut all, splits, workers, last - first)
}

/// Serves a coordinator on a port of its own.
async fn serve() -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let coordinator = Coordinator::new(Settings::default(), 1);
    let handle = CoordinatorHandle::new(coordinator, Arc::new(TokioClock::new()));
    let shards = Arc::new(Store::new(Arc::new(TokioPool)));
    let faces = Faces::of(Arc::new(handle));
    let router = router(shards, Some(faces), Limits::default(), 16);
    tokio::spawn(router.serve(accept(listener), pending()));
    Ok(url)
}

/// Reports as a server does. Ends only when it is refused.
async fn tell(coordinator: Arc<dyn Membership>, mut server: FakeServer) -> WireError {
    loop {
        match coordinator.report(server.report()).await {
            Ok(assigned) => server.obey(assigned),
            Err(refused) => return refused,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What one worker saw, or all.
#[derive(Default)]
struct Measured {
    /// How long each answer with a lease took.
    leases: Vec<Duration>,
    /// How often there was nothing to lease.
    waits: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Measured {
    fn merge(&mut self, other: Self) {
        self.leases.extend(other.leases);
        self.waits += other.waits;
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.last = self.last.max(other.last);
    }
}

struct Worker {
    control: Arc<dyn Control>,
    id: WorkerId,
    finished: Finished,
}

impl Worker {
    /// Asks for splits and gives each back as learnt at once, until all have been.
    async fn run(self, splits: u32, workers: u32) -> anyhow::Result<Measured> {
        let register = register(self.id, splits, SERVERS, workers);
        let job = self.control.register(register).await?.job;
        let mut measured = Measured::default();
        let mut done = None;
        while self.finished.count() < u64::from(splits) {
            let began = Instant::now();
            let (task, _) = self.control.next(self.next(job, done.take())).await?;
            let now = Instant::now();
            match task {
                Task::Train(lease) => {
                    measured.first = measured.first.or(Some(began));
                    measured.last = Some(now);
                    measured.leases.push(now - began);
                    self.finished.add(lease.source);
                    done = Some((lease.lease, Outcome::Trained(tally())));
                }
                Task::Wait { retry, .. } => {
                    measured.waits += 1;
                    tokio::time::sleep(retry).await;
                }
                // What comes after the last split is not measured.
                _ if self.finished.count() == u64::from(splits) => {}
                other => bail!("asked for a split, got {other:?}"),
            }
        }
        Ok(measured)
    }

    fn next(&self, job: JobId, done: Option<(LeaseId, Outcome)>) -> Next {
        Next {
            job,
            worker: self.id,
            done,
            leaving: false,
        }
    }
}

fn print(all: &mut Measured, splits: u32, workers: u32, took: Duration) -> anyhow::Result<()> {
    all.leases.sort_unstable();
    let at = |permille: usize| {
        let place = all.leases.len() * permille / 1000;
        all.leases[place.min(all.leases.len() - 1)].as_secs_f64() * 1e3
    };
    let rate = all.leases.len() as f64 / took.as_secs_f64();
    let waits = all.waits;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{splits} splits, {workers} workers, {SERVERS} servers, loopback:"
    )?;
    writeln!(out, "  {rate:8.0} leases a second")?;
    writeln!(
        out,
        "  {:8.2} ms in the middle, {:.2} ms at p99, {:.2} ms at most",
        at(500),
        at(990),
        at(1000)
    )?;
    writeln!(out, "  {waits:8} times there was nothing to lease")?;
    Ok(())
}
