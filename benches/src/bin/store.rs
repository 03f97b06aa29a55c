//! How many rows a second the store reads, updates and takes in: 256 shards, dim 16, AdaGrad,
//! batches of 8,192 distinct uniform keys, a lock once a batch and shard.
//!
//! `cargo run --release -p windlass-benches --bin store [ROWS]`; `--test` runs it small, once.

use std::io::Write;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use windlass_benches::{memory, workload};
use windlass_common::id::Clock;
use windlass_common::init::Init;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::schema::TableSchema;
use windlass_common::shard::{ShardCount, ShardedKeys};
use windlass_server::table::Table;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DIM: usize = 16;
const BATCH: usize = 8192;
const BATCHES: usize = 200;
const REPEATS: usize = 5;

fn main() -> anyhow::Result<()> {
    let argument = std::env::args().nth(1);
    let test = argument.as_deref() == Some("--test");
    let rows: u64 = match argument.filter(|_| !test) {
        Some(text) => text
            .parse()
            .with_context(|| format!("`{text}` is not a number of rows"))?,
        None if test => 20_000,
        None => 10_000_000,
    };
    let shards = ShardCount::default();
    let schema = TableSchema::new(
        "rows",
        u32::try_from(DIM)?,
        Init::Zeros,
        OptimizerSpec::default(),
    );
    let tables = shards
        .all()
        .map(|_| Mutex::new(Table::new(&schema, 1, shards)));
    let store = Store(tables.collect());
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{rows} rows of dim {DIM}, millions of rows a second, median (lowest to highest):"
    )?;
    let all: Vec<_> = workload::keys(rows).collect();
    let (mut busy, mut longest) = (Duration::ZERO, Duration::ZERO);
    for chunk in all.chunks(BATCH) {
        let batch = ShardedKeys::group(chunk, shards).0;
        let began = Instant::now();
        longest = longest.max(store.apply_timed(&batch)?);
        busy += began.elapsed();
    }
    let inserted = rows as f64 / busy.as_secs_f64() / 1e6;
    writeln!(
        out,
        "  insert            {inserted:6.2}, a shard's longest stop {longest:.1?}"
    )?;

    let batches = if test { 2 } else { BATCHES };
    let batches: Vec<ShardedKeys> = workload::uniform(rows, BATCH, batches, 1)
        .iter()
        .map(|keys| ShardedKeys::group(keys, shards).0)
        .collect();
    for threads in [1, 2] {
        for (name, work) in [
            ("gather", Store::read as fn(&Store, &ShardedKeys) -> _),
            ("apply", Store::apply),
        ] {
            let repeats = if test { 1 } else { REPEATS };
            let [low, median, high] =
                rate(repeats, threads, &batches, |batch| work(&store, batch))?;
            writeln!(
                out,
                "  {name:6} {threads} threads  {median:6.2}  ({low:.2} to {high:.2})"
            )?;
        }
    }
    let mut bytes = 0;
    for table in &store.0 {
        bytes += lock(table)?.bytes();
    }
    let floats = DIM + schema.slots();
    let beyond = bytes as f64 / rows as f64 - 4.0 * floats as f64;
    writeln!(out, "  {beyond:.1} bytes a row beyond weights and slots")?;
    if let Some(share) = memory::on_huge_pages() {
        writeln!(out, "  {:.0} % of the memory on huge pages", 100.0 * share)?;
    }
    Ok(())
}

/// The tables of all shards, each under its lock.
struct Store(Vec<Mutex<Table>>);

impl Store {
    fn read(&self, batch: &ShardedKeys) -> anyhow::Result<()> {
        let mut out = vec![0.0; batch.len() * DIM];
        for (i, (shard, keys)) in batch.iter().enumerate() {
            let range = batch.range(i);
            let rows = &mut out[range.start * DIM..range.end * DIM];
            lock(&self.0[usize::from(shard.0)])?.read(keys, rows);
        }
        std::hint::black_box(out);
        Ok(())
    }

    fn apply(&self, batch: &ShardedKeys) -> anyhow::Result<()> {
        self.apply_timed(batch).map(drop)
    }

    /// Returns how long the longest hold of a lock took.
    fn apply_timed(&self, batch: &ShardedKeys) -> anyhow::Result<Duration> {
        let gradients = vec![0.01; batch.len() * DIM];
        let mut longest = Duration::ZERO;
        for (i, (shard, keys)) in batch.iter().enumerate() {
            let range = batch.range(i);
            let rows = &gradients[range.start * DIM..range.end * DIM];
            let mut table = lock(&self.0[usize::from(shard.0)])?;
            let began = Instant::now();
            table.apply(keys, rows, Clock(1));
            longest = longest.max(began.elapsed());
        }
        Ok(longest)
    }
}

fn lock(table: &Mutex<Table>) -> anyhow::Result<MutexGuard<'_, Table>> {
    table.lock().map_err(|_| anyhow!("a thread has panicked"))
}

/// Lowest, median and highest of the repeats, in millions of rows a second.
fn rate(
    repeats: usize,
    threads: usize,
    batches: &[ShardedKeys],
    work: impl Fn(&ShardedKeys) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<[f64; 3]> {
    let rows: usize = batches.iter().map(ShardedKeys::len).sum();
    let mut rates = Vec::with_capacity(repeats);
    for _ in 0..repeats {
        let began = Instant::now();
        std::thread::scope(|scope| {
            let share = batches.len().div_ceil(threads);
            let works = batches.chunks(share).map(|part| {
                let work = &work;
                scope.spawn(move || part.iter().try_for_each(work))
            });
            let works: Vec<_> = works.collect();
            works.into_iter().try_for_each(|thread| {
                let done = thread.join();
                done.map_err(|_| anyhow!("a thread has panicked"))?
            })
        })?;
        rates.push(rows as f64 / began.elapsed().as_secs_f64() / 1e6);
    }
    rates.sort_by(f64::total_cmp);
    Ok([rates[0], rates[rates.len() / 2], rates[rates.len() - 1]])
}
