//! Servers as processes on free ports of this machine, which may be killed and started again.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::binaries;
use crate::log::Log;

/// Servers of one cluster; the first has the coordinator role. Dropping kills them.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Server>,
    folder: TempDir,
}

/// One server, in its life and after it.
#[derive(Debug)]
struct Server {
    config: PathBuf,
    data_dir: PathBuf,
    address: String,
    child: Child,
    log: Arc<Log>,
    /// The logs of lives before this one.
    past: Vec<Arc<Log>>,
}

impl Cluster {
    /// Starts `count` servers that keep nothing, and waits until each says where it listens.
    ///
    /// # Panics
    /// When one does not start: no test can go on then.
    pub fn start(count: usize) -> Self {
        // A short lease: tests kill workers and wait for their splits to be handed out again.
        Self::with(count, "lease_ttl = \"2s\"\n")
    }

    /// Starts `count` servers with these lines in their configs. `DATA_DIR` stands for a folder of
    /// each server's own; the store of checkpoints is beside them.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn with(count: usize, lines: &str) -> Self {
        Self::with_failpoints(count, lines, &[])
    }

    /// As [`with`](Self::with), with [failpoints](windlass_common::failpoint) in the first lives of
    /// some servers.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn with_failpoints(count: usize, lines: &str, failpoints: &[(usize, &str)]) -> Self {
        Self::try_with(count, lines, failpoints)
            .unwrap_or_else(|error| panic!("starting {count} servers: {error:#}"))
    }

    fn try_with(count: usize, lines: &str, failpoints: &[(usize, &str)]) -> anyhow::Result<Self> {
        let mut cluster = Self {
            servers: Vec::new(),
            folder: tempfile::tempdir()?,
        };
        for number in 0..count {
            let listen = free_address()?;
            let coordinator = cluster
                .servers
                .first()
                .map_or("self", |first| &first.address);
            let folder = cluster.folder.path();
            let config = folder.join(format!("server-{number}.toml"));
            let data_dir = folder.join(format!("server-{number}"));
            let lines = lines.replace("DATA_DIR", &data_dir.display().to_string());
            let text = format!("listen = \"{listen}\"\ncoordinator = \"{coordinator}\"\n{lines}");
            std::fs::write(&config, text)?;
            let of = failpoints.iter().find(|(server, _)| *server == number);
            let (child, log) = spawn(&config, of.map(|(_, failpoints)| *failpoints))?;
            let server = Server {
                config,
                data_dir,
                address: format!("http://{listen}"),
                child,
                log,
                past: Vec::new(),
            };
            cluster.servers.push(server);
            cluster.servers[number].listening()?;
        }
        Ok(cluster)
    }

    /// Where the coordinator is.
    pub fn coordinator(&self) -> &str {
        &self.servers[0].address
    }

    /// Where a server is.
    pub fn address(&self, server: usize) -> &str {
        &self.servers[server].address
    }

    /// The file of a server's config.
    pub fn config(&self, server: usize) -> &Path {
        &self.servers[server].config
    }

    /// How many servers there are, running or not.
    pub fn size(&self) -> usize {
        self.servers.len()
    }

    /// The folder of a server's data.
    pub fn data_dir(&self, server: usize) -> &Path {
        &self.servers[server].data_dir
    }

    /// Waits until the coordinator's log, in its present life, has a line with this text.
    ///
    /// # Panics
    /// When it has none in time, with all that the log has.
    pub fn wait_for(&self, text: &str) {
        self.wait_for_on(0, text, 1);
    }

    /// Waits until a server's log, in its present life, has `count` lines with this text.
    ///
    /// # Panics
    /// When it has not in time, with all that the log has.
    pub fn wait_for_on(&self, server: usize, text: &str, count: usize) {
        let found = self.servers[server].log.reach(text, count);
        found.unwrap_or_else(|error| panic!("server {server}: {error:#}"));
    }

    /// Waits until the coordinator's log has one more line with this text than it has now.
    ///
    /// # Panics
    /// When it has not in time, with all that the log has.
    pub fn wait_for_more(&self, text: &str) {
        let so_far = self.servers[0].log.count(text);
        self.wait_for_on(0, text, so_far + 1);
    }

    /// How many lines of a server's log, in all its lives, have this text.
    pub fn count(&self, server: usize, text: &str) -> usize {
        let server = &self.servers[server];
        let logs = server.past.iter().chain([&server.log]);
        logs.map(|log| log.count(text)).sum()
    }

    /// What all servers have written in all their lives, for messages of tests that fail.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for (number, server) in self.servers.iter().enumerate() {
            for (life, log) in server.past.iter().chain([&server.log]).enumerate() {
                text += &format!("--- server {number}, life {life}\n{}\n", log.text());
            }
        }
        text
    }

    /// Sends SIGKILL to a server and waits for its end.
    ///
    /// # Panics
    /// When it has ended by itself before.
    pub fn kill(&mut self, server: usize) {
        let dead = &mut self.servers[server];
        let ended = dead.child.try_wait();
        assert!(
            matches!(ended, Ok(None)),
            "server {server} has ended by itself: {ended:?}\n{}",
            dead.log.text()
        );
        dead.stop();
    }

    /// Empties the folder of a server that was killed: its disk is lost.
    ///
    /// # Panics
    /// When it cannot be emptied.
    pub fn lose_disk(&self, server: usize) {
        let data_dir = &self.servers[server].data_dir;
        std::fs::remove_dir_all(data_dir)
            .unwrap_or_else(|error| panic!("emptying {}: {error}", data_dir.display()));
    }

    /// Starts a server that was killed, where it was, with what it has on its disk.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self, server: usize) {
        self.restart_with(server, None);
    }

    /// As [`restart`](Self::restart), with these [failpoints](windlass_common::failpoint).
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart_with(&mut self, server: usize, failpoints: Option<&str>) {
        let dead = &mut self.servers[server];
        let (child, log) = spawn(&dead.config, failpoints)
            .unwrap_or_else(|error| panic!("server {server}: {error:#}"));
        dead.child = child;
        dead.past.push(std::mem::replace(&mut dead.log, log));
        dead.listening()
            .unwrap_or_else(|error| panic!("server {server}: {error:#}"));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for server in &mut self.servers {
            server.stop();
        }
    }
}

impl Server {
    fn listening(&self) -> anyhow::Result<()> {
        let said = |line: &str| line.contains("listening").then_some(());
        self.log.find("listening", said)
    }

    fn stop(&mut self) {
        // One that has ended already cannot be killed, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(config: &Path, failpoints: Option<&str>) -> anyhow::Result<(Child, Arc<Log>)> {
    let mut command = Command::new(&binaries().server);
    command
        .arg("run")
        .arg(config)
        .env_remove("WINDLASS_LOG")
        // The test's own; a server would take it for a key of its config.
        .env_remove("WINDLASS_SEED")
        .env_remove("FAILPOINTS")
        .stderr(Stdio::piped());
    if let Some(failpoints) = failpoints {
        command.env("FAILPOINTS", failpoints);
    }
    let mut child = command.spawn().context("starting a server")?;
    let stderr = child.stderr.take();
    let log = Log::of(stderr.context("a server without standard error")?);
    Ok((child, log))
}

/// Finds a port that will be free again when the server that has it was killed.
///
/// Not one of those that the system gives out for outgoing connections (32768 and above on Linux): a
/// worker that looks for a dead server would sooner or later be given that very port.
fn free_address() -> anyhow::Result<String> {
    const FIRST: u32 = 12_000;
    const PORTS: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes of other tests begin elsewhere.
    let begin = std::process::id().wrapping_mul(977);
    for _ in 0..PORTS {
        let next = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + next % PORTS;
        let address = format!("127.0.0.1:{port}");
        if TcpListener::bind(&address).is_ok() {
            return Ok(address);
        }
    }
    bail!("no port between {FIRST} and {} is free", FIRST + PORTS)
}
