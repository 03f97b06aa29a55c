//! How fast pulls and pushes are between processes over loopback: 1 million rows of dim 16 with
//! AdaGrad, random keys, 10,000 a request, 4 in flight; single keys; messages of 4 KiB; dense
//! blocks of 1 MiB; and the same bytes over a bare connection, in the same run.
//!
//! `cargo run --release -p windlass-benches --bin throughput [SERVERS [CLIENTS]]`; `--test` runs it
//! small, once.

use std::future::ready;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use windlass_benches::process::{Server, serve_if_asked};
use windlass_benches::raw::{self, Exchange};
use windlass_benches::worker::Worker;
use windlass_benches::workload;
use windlass_common::id::TableId;
use windlass_common::init::Init;
use windlass_common::key::Key;
use windlass_common::optimizer::{OptimizerSpec, Sgd};
use windlass_common::schema::TableSchema;
use windlass_common::shard::ShardedKeys;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROWS: u64 = 1_000_000;
const DIM: u32 = 16;
const KEYS: usize = 10_000;
const IN_FLIGHT: usize = 4;

/// Keys of a request whose rows have 4 KiB.
const SMALL: usize = 64;
const SMALL_IN_FLIGHT: usize = 8;

/// A dense block is a row; 64 of them are 1 MiB.
const BLOCK: u32 = 4096;
const BLOCKS: usize = 64;

const SPARSE_TABLE: TableId = TableId(0);
const DENSE_TABLE: TableId = TableId(1);

/// The arguments that make this program a client, or the bare server.
const CLIENT: &str = "--client";
const RAW: &str = "--raw";

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    serve_if_asked().await?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [RAW] => raw::serve().await,
        [CLIENT, url, number, servers, clients, rows, millis] => {
            let size = Size {
                rows: rows.parse()?,
                time: Duration::from_millis(millis.parse()?),
            };
            let place = Place {
                number: number.parse()?,
                servers: servers.parse()?,
                clients: clients.parse()?,
            };
            be_client(url, &place, &size).await
        }
        ["--test"] => measure(1, 1, &Size::test()).await,
        [] => measure(1, 1, &Size::full()).await,
        [servers] => measure(number(servers)?, 1, &Size::full()).await,
        [servers, clients] => measure(number(servers)?, number(clients)?, &Size::full()).await,
        _ => bail!("usage: throughput [SERVERS [CLIENTS]]"),
    }
}

fn number(text: &str) -> anyhow::Result<u32> {
    text.parse()
        .with_context(|| format!("`{text}` is not a number"))
}

/// How much is measured.
struct Size {
    rows: u64,
    /// Of each measurement.
    time: Duration,
}

impl Size {
    fn full() -> Self {
        Self {
            rows: ROWS,
            time: Duration::from_secs(4),
        }
    }

    fn test() -> Self {
        Self {
            rows: 20_000,
            time: Duration::from_millis(100),
        }
    }
}

/// Which of the clients this is.
struct Place {
    number: u64,
    servers: u32,
    clients: u32,
}

/// What is measured, its unit, and whether the clients' figures add up.
const SUBJECTS: [(&str, &str, bool); 6] = [
    ("pull", "million rows/s", true),
    ("push", "million rows/s", true),
    ("one key", "microseconds in the middle", false),
    ("4 KiB, 8 in flight", "thousand messages/s", true),
    ("dense pull", "GB/s", true),
    ("dense push", "GB/s", true),
];

async fn measure(servers: u32, clients: u32, size: &Size) -> anyhow::Result<()> {
    ensure!(servers > 0 && clients > 0, "at least one of each");
    let first = Server::start(None, None)?;
    let others = (1..servers).map(|_| Server::start(Some(&first.url), None));
    let _others = others.collect::<anyhow::Result<Vec<_>>>()?;
    let started = (1..=clients).map(|client| {
        let numbers = [client, servers, clients].map(|n| n.to_string());
        let (rows, millis) = (size.rows.to_string(), size.time.as_millis().to_string());
        let mut command = Command::new(std::env::current_exe()?);
        command.args([CLIENT, &first.url]).args(numbers);
        let child = command.args([rows, millis]).stdout(Stdio::piped()).spawn();
        Told::new(child?)
    });
    let mut told = started.collect::<anyhow::Result<Vec<_>>>()?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{servers} servers, {clients} clients, {} rows:",
        size.rows
    )?;
    for (subject, unit, adds_up) in SUBJECTS {
        let figures: Vec<f64> = told
            .iter_mut()
            .map(Told::next)
            .collect::<anyhow::Result<_>>()?;
        let sum: f64 = figures.iter().sum();
        let figure = if adds_up {
            sum
        } else {
            sum / figures.len() as f64
        };
        writeln!(out, "  {subject:20} {figure:8.2} {unit}")?;
    }
    drop(told);
    bare(&mut out, size).await
}

/// The same bytes over one bare connection.
async fn bare(out: &mut impl Write, size: &Size) -> anyhow::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut told = Told::new(command.arg(RAW).stdout(Stdio::piped()).spawn()?)?;
    let address = told.line()?;
    let (keys, row) = (u32::try_from(KEYS)?, 4 * DIM);
    let block = 4 * BLOCK * u32::try_from(BLOCKS)?;
    let of = |asked, answered| Exchange { asked, answered };
    for (subject, exchange, in_flight, unit, each) in [
        (
            "pull",
            of(8 * keys, row * keys),
            IN_FLIGHT,
            "million rows/s",
            KEYS as f64 / 1e6,
        ),
        (
            "push",
            of((8 + row) * keys, 64),
            IN_FLIGHT,
            "million rows/s",
            KEYS as f64 / 1e6,
        ),
        (
            "4 KiB, 8 in flight",
            of(512, 4096),
            SMALL_IN_FLIGHT,
            "thousand messages/s",
            1e-3,
        ),
        (
            "dense pull",
            of(512, block),
            IN_FLIGHT,
            "GB/s",
            f64::from(block) / 1e9,
        ),
        (
            "dense push",
            of(block, 64),
            IN_FLIGHT,
            "GB/s",
            f64::from(block) / 1e9,
        ),
    ] {
        let rate = raw::rate(&address, exchange, in_flight, size.time).await?;
        writeln!(out, "  bare {subject:20} {:8.2} {unit}", rate * each)?;
    }
    Ok(())
}

/// A child and what it says; killed when dropped.
struct Told {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Told {
    fn new(mut child: Child) -> anyhow::Result<Self> {
        let stdout = child.stdout.take().context("a child without its output")?;
        let lines = BufReader::new(stdout);
        Ok(Self { child, lines })
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn next(&mut self) -> anyhow::Result<f64> {
        let line = self.line()?;
        line.parse()
            .with_context(|| format!("a client said `{line}`"))
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures all subjects, and writes a figure a line.
async fn be_client(url: &str, place: &Place, size: &Size) -> anyhow::Result<()> {
    let (servers, clients) = (place.servers, place.clients);
    let sgd = OptimizerSpec::Sgd(Sgd::default());
    let tables = vec![
        TableSchema::new("rows", DIM, Init::Zeros, OptimizerSpec::default()),
        TableSchema::new("blocks", BLOCK, Init::Zeros, sgd),
    ];
    let mut worker = Worker::join(url, tables, place.number, servers, clients).await?;
    let shards = worker.client.shards();
    let group = |keys: &[Key]| Arc::new(ShardedKeys::group(keys, shards).0);
    let all: Vec<Key> = workload::keys(size.rows).collect();
    let fill: Vec<_> = all.chunks(KEYS).map(group).collect();
    let draw = |keys: usize, batches| -> Vec<_> {
        let keys = workload::uniform(size.rows, keys, batches, place.number);
        keys.iter().map(|keys| group(keys)).collect()
    };
    let (large, small, single) = (draw(KEYS, 64), draw(SMALL, 1024), draw(1, 1024));
    let blocks: Vec<Key> = (0..BLOCKS as u64).map(Key).collect();
    let blocks = vec![group(&blocks)];

    let fill_once = Load::of(&mut worker, SPARSE_TABLE, DIM);
    fill_once
        .run(Kind::Push, &fill, IN_FLIGHT, Until::Batches(fill.len()))
        .await?;
    let until = Until::Passed(size.time);
    let mut out = std::io::stdout();
    let keys = KEYS as f64 / 1e6;
    let bytes = f64::from(BLOCK) * 4.0 * BLOCKS as f64 / 1e9;
    for (kind, sets, table, dim, in_flight, each) in [
        (Kind::Pull, &large, SPARSE_TABLE, DIM, IN_FLIGHT, keys),
        (Kind::Push, &large, SPARSE_TABLE, DIM, IN_FLIGHT, keys),
        (Kind::Pull, &single, SPARSE_TABLE, DIM, 1, 0.0),
        (Kind::Pull, &small, SPARSE_TABLE, DIM, SMALL_IN_FLIGHT, 1e-3),
        (Kind::Pull, &blocks, DENSE_TABLE, BLOCK, IN_FLIGHT, bytes),
        (Kind::Push, &blocks, DENSE_TABLE, BLOCK, IN_FLIGHT, bytes),
    ] {
        let load = Load::of(&mut worker, table, dim);
        let loaded = load.run(kind, sets, in_flight, until).await?;
        let figure = if in_flight == 1 {
            loaded.middle.as_secs_f64() * 1e6
        } else {
            loaded.rate * each
        };
        writeln!(out, "{figure}")?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Kind {
    Pull,
    Push,
}

/// When a load ends.
#[derive(Clone, Copy)]
enum Until {
    Passed(Duration),
    Batches(usize),
}

/// Requests of one worker for one table.
struct Load<'a> {
    worker: &'a mut Worker,
    table: TableId,
    dim: usize,
}

/// What a load was like.
struct Loaded {
    /// Requests a second.
    rate: f64,
    /// How long the request in the middle took.
    middle: Duration,
}

impl<'a> Load<'a> {
    fn of(worker: &'a mut Worker, table: TableId, dim: u32) -> Self {
        let dim = dim as usize;
        Self { worker, table, dim }
    }

    /// Keeps so many requests in flight.
    async fn run(
        self,
        kind: Kind,
        sets: &[Arc<ShardedKeys>],
        in_flight: usize,
        until: Until,
    ) -> anyhow::Result<Loaded> {
        let (mut open, mut times) = (FuturesUnordered::new(), Vec::new());
        let began = Instant::now();
        for (nth, keys) in sets.iter().cycle().enumerate() {
            let over = match until {
                Until::Passed(time) => began.elapsed() >= time,
                Until::Batches(batches) => nth >= batches,
            };
            if over {
                break;
            }
            let keys = Arc::clone(keys);
            let request: BoxFuture<'_, anyhow::Result<()>> = match kind {
                Kind::Pull => {
                    let (client, tables) = (Arc::clone(&self.worker.client), [(self.table, 0)]);
                    Box::pin(async move {
                        let pulled = client.pull(vec![keys], &tables, None).await?;
                        std::hint::black_box(pulled);
                        Ok(())
                    })
                }
                Kind::Push => {
                    let gradients = vec![0.01; keys.len() * self.dim];
                    Box::pin(self.worker.push(self.table, keys, gradients))
                }
            };
            open.push(async move {
                let asked = Instant::now();
                request.await?;
                ready(anyhow::Ok(asked.elapsed())).await
            });
            while open.len() >= in_flight {
                times.push(open.next().await.context("nothing is open")??);
            }
        }
        while let Some(time) = open.next().await {
            times.push(time?);
        }
        let rate = times.len() as f64 / began.elapsed().as_secs_f64();
        times.sort_unstable();
        let middle = times.get(times.len() / 2).copied().unwrap_or_default();
        Ok(Loaded { rate, middle })
    }
}
