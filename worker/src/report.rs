//! The report of a run, for machines: `--report FILE.json`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use windlass_common::config::TrainConfig;
use windlass_common::coordination::History;
use windlass_common::residency::Occupancy;

use crate::counted::Counted;
use crate::error::Error;
use crate::trainer::State;
use crate::whole_file::write_whole;

/// What a run did. Counts are this worker's; metrics and rows are the whole job's.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The job's name.
    pub job: String,
    /// The seed.
    pub seed: u64,
    /// Examples that this worker has learnt.
    pub examples: u64,
    /// Bad rows that this worker has skipped.
    pub skipped: u64,
    /// From the first question for work to the last answer.
    pub seconds: f64,
    /// Examples over the time spent in training splits.
    pub examples_per_second: f64,
    /// Epochs in the kept weights.
    pub epochs: u32,
    /// Whether validation ended the training before the last epoch.
    pub stopped_early: bool,
    /// Metrics by name.
    pub metrics: Metrics,
    /// This worker's pushes.
    pub pushes: Pushes,
    /// Staleness of this worker's gradients, in updates of a shard.
    pub staleness: Quantiles,
    /// Rows, over all tables and servers.
    pub rows: u64,
    /// Rows a server holds, by address.
    pub rows_by_server: BTreeMap<String, u64>,
    /// How full each table is, over all servers.
    pub tables: BTreeMap<String, Table>,
    /// Occurrences of all keys, over all servers; only of a job that counts. An integer of any size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u128>,
    /// The most memory that this process has held; `None` where the system does not tell.
    pub peak_rss_bytes: Option<u64>,
    /// The effective config.
    pub config: TrainConfig,
}

/// Metrics of the kept epoch and of the test files.
#[derive(Debug, Default, Serialize)]
pub struct Metrics {
    /// Progressive.
    pub train: BTreeMap<String, f64>,
    /// After the kept epoch.
    pub validation: BTreeMap<String, f64>,
    /// With the kept weights.
    pub test: BTreeMap<String, f64>,
    /// Every epoch that was run, in order.
    pub epochs: Vec<Epoch>,
}

/// One epoch's metrics.
#[derive(Debug, Serialize)]
pub struct Epoch {
    /// Progressive.
    pub train: BTreeMap<String, f64>,
    /// After the epoch.
    pub validation: BTreeMap<String, f64>,
}

/// How full a table is, and how it came to that.
#[derive(Debug, Serialize)]
pub struct Table {
    /// What servers tell.
    #[serde(flatten)]
    pub occupancy: Occupancy,
    /// Keys that were given a row, those that came back again too.
    pub admitted: u64,
}

/// Batches by what became of them.
#[derive(Debug, Serialize)]
pub struct Pushes {
    /// Acknowledged by every shard.
    pub acked: u64,
    /// Acknowledged, but applied before by some shard.
    pub duplicates: u64,
}

/// Quantiles; `None` without counts.
#[derive(Debug, Serialize)]
pub struct Quantiles {
    /// Half is at most this.
    pub p50: Option<u64>,
    /// 99 % is at most this.
    pub p99: Option<u64>,
}

impl Table {
    fn of(occupancy: Occupancy) -> Self {
        Self {
            admitted: occupancy.admitted(),
            occupancy,
        }
    }
}

impl Report {
    /// Puts a run's end together.
    #[must_use]
    pub fn new(
        config: &TrainConfig,
        history: &History,
        state: &State,
        seconds: f64,
        counted: Option<&Counted>,
    ) -> Self {
        let kept = history.kept();
        let kept = kept.cloned().unwrap_or_default();
        let epochs = history.progress.iter().map(|e| Epoch {
            train: e.train.clone(),
            validation: e.validation.clone(),
        });
        let learning = state.learning.as_secs_f64();
        Self {
            job: config.job.name.clone(),
            seed: config.job.seed,
            examples: state.examples,
            skipped: state.skipped,
            seconds,
            examples_per_second: if learning > 0.0 {
                state.examples as f64 / learning
            } else {
                0.0
            },
            epochs: history.epochs,
            stopped_early: history.stopped_early,
            metrics: Metrics {
                train: kept.train,
                validation: kept.validation,
                test: history.test.clone(),
                epochs: epochs.collect(),
            },
            pushes: Pushes {
                acked: state.acked,
                duplicates: state.duplicates,
            },
            staleness: Quantiles {
                p50: state.staleness.quantile(0.5),
                p99: state.staleness.quantile(0.99),
            },
            rows: state.progress.rows.values().sum(),
            rows_by_server: state.progress.rows.clone(),
            tables: (state.progress.tables.iter())
                .map(|(name, &table)| (name.clone(), Table::of(table)))
                .collect(),
            total: counted.map(|counted| counted.total),
            peak_rss_bytes: peak_rss_bytes(),
            config: config.clone(),
        }
    }

    /// Writes the report as JSON.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let io = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let text = serde_json::to_string_pretty(self).map_err(|e| io(e.into()))?;
        write_whole(path, |file| writeln!(file, "{text}").map_err(io))
    }
}

/// The high-water mark of resident memory, from Linux' `/proc/self/status`.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
