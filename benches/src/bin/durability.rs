//! What durability costs a worker that pulls and pushes all the time: the log against none, and a
//! checkpoint that is written meanwhile. One server process on loopback, 256 shards, dim 16,
//! AdaGrad; a batch is 256 examples of 32 keys, uniform over all rows.
//!
//! `cargo run --release -p windlass-benches --bin durability [ROWS [FOLDER]]`: the server's data
//! goes to FOLDER, for the disk to be measured; `--test` runs it small, once.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::stream::{FuturesUnordered, StreamExt};
use windlass_benches::process::{Server, serve_if_asked};
use windlass_benches::worker::Worker;
use windlass_benches::{cluster, workload};
use windlass_common::id::{CheckpointId, TableId};
use windlass_common::init::Init;
use windlass_common::key::Key;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::schema::TableSchema;
use windlass_common::shard::ShardedKeys;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DIM: usize = 16;
const EXAMPLES: usize = 256;
const KEYS: usize = 32;
/// Pushes that wait for their acknowledgement: `train.open_pushes`' default.
const OPEN: usize = 16;
const REPEATS: usize = 3;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve_if_asked())?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let test = arguments.first().is_some_and(|first| first == "--test");
    let rows = match arguments.first().filter(|_| !test) {
        Some(text) => text
            .parse()
            .with_context(|| format!("`{text}` is not a number of rows"))?,
        None if test => 20_000,
        None => 5_000_000,
    };
    let folder = arguments.get(1).filter(|_| !test).map(PathBuf::from);
    let size = Size {
        rows,
        time: Duration::from_secs(if test { 1 } else { 10 }),
        repeats: if test { 1 } else { REPEATS },
    };
    runtime.block_on(measure(&size, &folder.unwrap_or_else(std::env::temp_dir)))
}

/// How much is measured.
struct Size {
    rows: u64,
    time: Duration,
    repeats: usize,
}

async fn measure(size: &Size, folder: &Path) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{} rows of dim {DIM}, batches of {EXAMPLES} examples with {KEYS} keys:",
        size.rows
    )?;
    let mut rates = Vec::new();
    for _ in 0..size.repeats {
        let mut pair = Vec::new();
        for mode in ["none", "log"] {
            let mut job = Job::start(mode, folder, size.rows).await?;
            let loaded = job.load(Until::Passed(size.time)).await?;
            pair.push(loaded.rate());
            writeln!(out, "  {mode:10} {loaded}")?;
            if mode == "log" {
                let number = job.worker.admin.save(cluster::NAME.into()).await?;
                let saving = job.load(Until::Published(number)).await?;
                writeln!(out, "  {:10} {saving}", "saving")?;
                let after = job.load(Until::Passed(size.time)).await?;
                writeln!(out, "  {:10} {after}", "after")?;
                let before = f64::midpoint(loaded.rate(), after.rate());
                writeln!(out, "  saving leaves {:.3}", saving.rate() / before)?;
            }
        }
        rates.push(pair[1] / pair[0]);
    }
    rates.sort_by(f64::total_cmp);
    let (low, middle, high) = (rates[0], rates[rates.len() / 2], rates[rates.len() - 1]);
    writeln!(
        out,
        "  the log leaves {middle:.3} ({low:.3} to {high:.3}) of the examples a second"
    )?;
    Ok(())
}

/// A worker's side of a job whose rows are all there.
struct Job {
    worker: Worker,
    batches: Vec<Arc<ShardedKeys>>,
    next: usize,
    // Dropped last: the server, then its folder.
    _server: Server,
    _folder: tempfile::TempDir,
}

/// When a load ends.
#[derive(Clone, Copy)]
enum Until {
    Passed(Duration),
    Published(CheckpointId),
    Batches(usize),
}

impl Job {
    async fn start(mode: &str, folder: &Path, rows: u64) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir_in(folder)?;
        let server = Server::start(None, (mode != "none").then_some(folder.path()))?;
        let dim = u32::try_from(DIM)?;
        let table = TableSchema::new("rows", dim, Init::Zeros, OptimizerSpec::default());
        let worker = Worker::join(&server.url, vec![table], 1, 1, 1).await?;
        let all: Vec<Key> = workload::keys(rows).collect();
        let group = |keys: &[Key]| Arc::new(ShardedKeys::group(keys, worker.client.shards()).0);
        let fill: Vec<_> = all.chunks(EXAMPLES * KEYS).map(group).collect();
        let drawn = workload::uniform(rows, EXAMPLES * KEYS, 256, 1);
        let batches = drawn.iter().map(|keys| group(keys)).collect();
        let mut job = Self {
            worker,
            batches: fill,
            next: 0,
            _server: server,
            _folder: folder,
        };
        let count = job.batches.len();
        job.load(Until::Batches(count)).await?;
        job.batches = batches;
        Ok(job)
    }

    /// Pulls and pushes batch after batch, as the training loop does: pushes are open while the
    /// next batches are pulled.
    async fn load(&mut self, until: Until) -> anyhow::Result<Loaded> {
        let mut loaded = Loaded::default();
        let began = Instant::now();
        let (first, mut asked, mut last) = (self.next, began, began);
        let mut open = FuturesUnordered::new();
        loop {
            let over = match until {
                Until::Passed(time) => began.elapsed() >= time,
                Until::Batches(count) => self.next - first >= count,
                Until::Published(number) => {
                    asked.elapsed() >= POLL && {
                        asked = Instant::now();
                        self.newest().await? >= Some(number)
                    }
                }
            };
            if over {
                break;
            }
            let nth = self.next % self.batches.len();
            let keys = Arc::clone(&self.batches[nth]);
            let tables = [(TableId(0), 0)];
            let client = Arc::clone(&self.worker.client);
            let pull = client.pull(vec![Arc::clone(&keys)], &tables, None);
            let mut pull = std::pin::pin!(pull);
            let pulled = loop {
                tokio::select! {
                    pulled = &mut pull => break pulled?,
                    Some(pushed) = open.next() => loaded.pushes.push(pushed?),
                }
            };
            let gradients = pulled.tables.into_iter().next().context("no rows")?;
            open.push(timed(self.worker.push(TableId(0), keys, gradients)));
            self.next += 1;
            while open.len() >= OPEN {
                let pushed = open.next().await.context("no open push")?;
                loaded.pushes.push(pushed?);
            }
            let now = Instant::now();
            loaded.stall = loaded.stall.max(now - last);
            last = now;
        }
        while let Some(pushed) = open.next().await {
            loaded.pushes.push(pushed?);
        }
        loaded.time = began.elapsed();
        Ok(loaded)
    }

    async fn newest(&self) -> anyhow::Result<Option<CheckpointId>> {
        let status = self.worker.admin.status().await?;
        let job = status.jobs.first().context("the job is gone")?;
        Ok(job.saved.map(|(number, _)| number))
    }
}

/// How often the coordinator is asked whether a checkpoint is there.
const POLL: Duration = Duration::from_millis(100);

/// Tells how long a push took to be acknowledged.
async fn timed(push: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<Duration> {
    let began = Instant::now();
    push.await?;
    Ok(began.elapsed())
}

/// What a load was like.
#[derive(Default)]
struct Loaded {
    time: Duration,
    /// How long each acknowledgement took.
    pushes: Vec<Duration>,
    /// The longest time from one batch to the next.
    stall: Duration,
}

impl Loaded {
    /// Examples a second.
    fn rate(&self) -> f64 {
        (self.pushes.len() * EXAMPLES) as f64 / self.time.as_secs_f64()
    }
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pushes = self.pushes.clone();
        pushes.sort_unstable();
        let at = |permille: usize| {
            let place = (pushes.len() * permille / 1000).min(pushes.len().saturating_sub(1));
            pushes
                .get(place)
                .map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        write!(
            f,
            "{:5.1} s {:8.0} examples/s, push {:5.1} ms in the middle, {:5.1} at p99, {:5.1} at most; \
             longest stall {:5.1} ms",
            self.time.as_secs_f64(),
            self.rate(),
            at(500),
            at(990),
            at(1000),
            self.stall.as_secs_f64() * 1e3
        )
    }
}
