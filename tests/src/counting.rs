//! A job that counts, and what it must have counted.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tempfile::TempDir;
use windlass_common::split::Draw;

use crate::counts::{Counts, of_checkpoint, of_libsvm, total};
use crate::{Cluster, Run, Running, Worker};

/// Shards of the job: few, so that its checkpoints, a file a shard, come often.
pub const SHARDS: u32 = 16;

/// A job that counts the keys of a file that is made up.
#[derive(Debug)]
pub struct Counting {
    folder: TempDir,
    config: PathBuf,
    expected: Counts,
    examples: f64,
}

impl Counting {
    /// Makes up `lines` lines and a config for `epochs` passes over them.
    ///
    /// # Panics
    /// When they cannot be written.
    pub fn new(lines: u32, epochs: u32, batch_size: u32) -> Self {
        Self::try_new(lines, epochs, batch_size)
            .unwrap_or_else(|error| panic!("making up a job: {error:#}"))
    }

    fn try_new(lines: u32, epochs: u32, batch_size: u32) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let text = libsvm(lines);
        std::fs::write(folder.path().join("data"), &text)?;
        let config = folder.path().join("train.toml");
        let output = folder.path().join("model");
        let toml = format!(
            "[job]\nname = \"count\"\nshards = {SHARDS}\n\n[data]\nformat = \"libsvm\"\ntrain = [\"data\"]\n\n\
             [model]\nkind = \"count\"\n\n[train]\nepochs = {epochs}\nbatch_size = {batch_size}\n\
             output = \"{}\"\n",
            output.display()
        );
        std::fs::write(&config, toml)?;
        Ok(Self {
            folder,
            config,
            expected: of_libsvm(&text, epochs),
            examples: f64::from(lines) * f64::from(epochs),
        })
    }

    /// The folder of the job's input, model and reports.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A worker of the job on a cluster, one of `workers`, whose report has a name.
    pub fn worker(&self, cluster: &Cluster, workers: usize, report: &str) -> Worker {
        Worker::new(self.folder(), &["train"], &self.config)
            .args(["--coordinator", cluster.coordinator()])
            .set("cluster.servers", cluster.size())
            .set("cluster.workers", workers)
            .set("cluster.request_timeout", "5s")
            .set("cluster.patience", "60s")
            .report(self.folder().join(report))
    }

    /// How many examples there are in all epochs.
    pub fn examples(&self) -> f64 {
        self.examples
    }

    /// Waits for the workers of the job, and checks what each of them tells and what the model holds.
    ///
    /// # Errors
    /// The first number that is not exactly what the input has, times the epochs.
    ///
    /// # Panics
    /// When a worker fails.
    pub fn check(&self, workers: Vec<Running>) -> anyhow::Result<Vec<Run>> {
        let runs: Vec<Run> = workers.into_iter().map(|w| w.end().success()).collect();
        let expected = total(&self.expected);
        for run in &runs {
            let report = run.report.as_ref().context("a run without a report")?;
            let told = report["total"].as_u64().map(u128::from);
            ensure!(
                told == Some(expected),
                "the report tells {told:?} keys, the input has {expected}"
            );
        }
        let counted = of_checkpoint(&self.folder().join("model"));
        for (key, want) in &self.expected {
            let got = counted.get(key).copied().unwrap_or_default();
            ensure!(&got == want, "key {key} counts {got}, the input has {want}");
        }
        ensure!(
            counted.len() == self.expected.len(),
            "{} rows, the input has {} keys",
            counted.len(),
            self.expected.len()
        );
        Ok(runs)
    }
}

/// Lines of 1 to 20 keys, some of which are in most of the lines and most in a few.
fn libsvm(lines: u32) -> String {
    let mut draw = Draw::new(1, &[]);
    let mut text = String::new();
    for line in 0..lines {
        text += if line % 3 == 0 { "1" } else { "-1" };
        let keys = 1 + draw.below(20);
        let mut key = 0;
        for _ in 0..keys {
            // Indices of a line ascend; the steps grow, so small ones are frequent.
            key += 1 + draw.below(1 + key);
            text += &format!(" {key}:1");
        }
        text.push('\n');
    }
    text
}
