//! How many rows a second one thread reads and updates: 256 shards, dim 16, AdaGrad, batches of
//! 8,192 distinct uniform keys.
//!
//! `cargo run --release -p windlass-benches --bin store [ROWS]`; `--test` runs it small, once.

use std::io::Write;
use std::time::Instant;

use anyhow::Context;
use windlass_benches::workload;
use windlass_common::id::Clock;
use windlass_common::init::Init;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::schema::TableSchema;
use windlass_common::shard::{ShardCount, ShardedKeys};
use windlass_server::table::Table;

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
    let mut tables: Vec<Table> = shards
        .all()
        .map(|_| Table::new(&schema, 1, shards))
        .collect();
    let all: Vec<_> = workload::keys(rows).collect();
    let began = Instant::now();
    for chunk in all.chunks(BATCH) {
        apply(&mut tables, &ShardedKeys::group(chunk, shards).0);
    }
    let inserted = rows as f64 / began.elapsed().as_secs_f64();

    let batches = if test { 2 } else { BATCHES };
    let batches: Vec<ShardedKeys> = workload::uniform(rows, BATCH, batches, 1)
        .iter()
        .map(|keys| ShardedKeys::group(keys, shards).0)
        .collect();
    let repeats = if test { 1 } else { REPEATS };
    let gather = rate(repeats, &batches, |batch| read(&tables, batch));
    let apply = rate(repeats, &batches, |batch| apply(&mut tables, batch));
    let bytes: usize = tables.iter().map(Table::bytes).sum();
    let floats = DIM + schema.slots();
    let beyond = bytes as f64 / rows as f64 - 4.0 * floats as f64;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{rows} rows of dim {DIM}, one thread, millions of rows a second:"
    )?;
    writeln!(out, "  insert {:6.2}", inserted / 1e6)?;
    writeln!(
        out,
        "  gather {:6.2}  ({:.2} to {:.2})",
        gather[1], gather[0], gather[2]
    )?;
    writeln!(
        out,
        "  apply  {:6.2}  ({:.2} to {:.2})",
        apply[1], apply[0], apply[2]
    )?;
    writeln!(out, "  {beyond:.1} bytes a row beyond weights and slots")?;
    Ok(())
}

fn read(tables: &[Table], batch: &ShardedKeys) {
    let mut out = vec![0.0; batch.len() * DIM];
    for (i, (shard, keys)) in batch.iter().enumerate() {
        let range = batch.range(i);
        let rows = &mut out[range.start * DIM..range.end * DIM];
        tables[usize::from(shard.0)].read(keys, rows);
    }
    std::hint::black_box(out);
}

fn apply(tables: &mut [Table], batch: &ShardedKeys) {
    let gradients = vec![0.01; batch.len() * DIM];
    for (i, (shard, keys)) in batch.iter().enumerate() {
        let range = batch.range(i);
        let rows = &gradients[range.start * DIM..range.end * DIM];
        tables[usize::from(shard.0)].apply(keys, rows, Clock(1));
    }
}

/// Lowest, median and highest of the repeats, in millions of rows a second.
fn rate(repeats: usize, batches: &[ShardedKeys], mut work: impl FnMut(&ShardedKeys)) -> [f64; 3] {
    let rows: usize = batches.iter().map(ShardedKeys::len).sum();
    let mut rates: Vec<f64> = (0..repeats)
        .map(|_| {
            let began = Instant::now();
            batches.iter().for_each(&mut work);
            rows as f64 / began.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    [rates[0], rates[rates.len() / 2], rates[rates.len() - 1]]
}
