//! What a seed chooses beside its faults: the job, its input, and the cluster.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use windlass_common::config::{ServerConfig, TrainConfig};
use windlass_common::split::Draw;
use windlass_worker::job::Job;

use super::machine::{PORT, url};
use super::truth::Truth;
use crate::counts::{Counts, of_libsvm};

/// The durability of a simulated cluster's servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `durability = "checkpoint"`.
    Checkpoint,
    /// `durability = "log"`.
    Log,
}

/// The name of the job.
pub(super) const JOB: &str = "count";

/// The folder of a server's disk.
pub(super) const DATA: &str = "/data/server";

/// Everything that is fixed before a simulation begins.
pub(super) struct Plan {
    pub(super) mode: Mode,
    pub(super) servers: Vec<String>,
    pub(super) workers: Vec<String>,
    every: &'static str,
    pub(super) job: Job,
    pub(super) truth: Truth,
    /// The counts of the whole input, by another reader.
    pub(super) expected: Counts,
    /// The input's files.
    _folder: TempDir,
}

impl Plan {
    pub(super) fn new(seed: u64, mode: Mode) -> Result<Self> {
        let mut draw = Draw::new(seed, &[0]);
        let (servers, workers) = (2 + draw.below(2), 1 + draw.below(3));
        let epochs = 1 + u32::try_from(draw.below(2))?;
        let shards = 4 << draw.below(2);
        let every = ["400ms", "1s", "3s", "60 examples", "200 examples"];
        let every = every[usize::try_from(draw.below(5))?];
        let folder = tempfile::tempdir()?;
        let text = input(&mut draw, folder.path())?;
        let config = format!(
            "[job]\nname = \"{JOB}\"\nseed = {seed}\nshards = {shards}\n\n\
             [cluster]\ncoordinator = \"{}\"\nservers = {servers}\nworkers = 1\n\
             connect_timeout = \"20s\"\nrequest_timeout = \"4s\"\npatience = \"60s\"\n\n\
             [data]\nformat = \"libsvm\"\ntrain = [\"part-*\"]\nshuffle = {}\n\n\
             [model]\nkind = \"count\"\n\n\
             [train]\nepochs = {epochs}\nbatch_size = 4\nprefetch = {}\nopen_pushes = {}\n",
            url("server-0"),
            draw.below(10),
            draw.below(3),
            1 + draw.below(6),
        );
        let name = folder.path().join("train.toml");
        std::fs::write(&name, config)?;
        let config = TrainConfig::load(&name, [], &[])?;
        let job = Job::new(config, folder.path())?;
        let truth = Truth::of(&job)?;
        let host = |kind: &'static str| move |n: u64| format!("{kind}-{n}");
        Ok(Self {
            mode,
            servers: (0..servers).map(host("server")).collect(),
            workers: (0..workers).map(host("worker")).collect(),
            every,
            job,
            truth,
            expected: of_libsvm(&text, epochs),
            _folder: folder,
        })
    }

    /// All hosts.
    pub(super) fn hosts(&self) -> Vec<String> {
        self.servers.iter().chain(&self.workers).cloned().collect()
    }

    /// The config of a server.
    pub(super) fn config_of(&self, host: &str) -> Result<ServerConfig> {
        let coordinator = match host {
            "server-0" => "self".into(),
            _ => url("server-0"),
        };
        let durability = match self.mode {
            Mode::Checkpoint => "checkpoint",
            Mode::Log => "log",
        };
        let text = format!(
            "listen = \"0.0.0.0:{PORT}\"\nadvertise = \"{}\"\ninsecure = true\n\
             coordinator = \"{coordinator}\"\ndata_dir = \"{DATA}\"\n\
             durability = \"{durability}\"\nlease_ttl = \"3s\"\nconnect_timeout = \"15s\"\n\
             checkpoint = {{ every = \"{}\", keep = 2, store = \"/store\", full_every = 1 }}\n",
            url(host),
            self.every
        );
        let config: ServerConfig = toml::from_str(&text).context("a server's config")?;
        config.validate()?;
        Ok(config)
    }
}

/// Writes the files of a job, one split each, and returns what is in all of them.
fn input(draw: &mut Draw, folder: &Path) -> Result<String> {
    let mut all = String::new();
    for file in 0..3 + draw.below(6) {
        let mut text = String::new();
        // A comment is a line without an example: such a split has an END alone.
        let lines = draw.below(40);
        writeln!(text, "# {lines} examples")?;
        for _ in 0..lines {
            text.push('1');
            for _ in 0..1 + draw.below(6) {
                write!(text, " {}:1", 1 + draw.below(50))?;
            }
            text.push('\n');
        }
        std::fs::write(folder.join(format!("part-{file}")), &text)?;
        all += &text;
    }
    ensure!(!all.is_empty(), "a job has files");
    Ok(all
        .lines()
        .filter(|l| !l.starts_with('#'))
        .fold(String::new(), |mut text, line| {
            text += line;
            text.push('\n');
            text
        }))
}
