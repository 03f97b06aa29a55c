//! Servers as processes on free ports of this machine.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::binaries;

/// A server may take this long to say something; a loaded machine needs some of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Servers of one cluster; the first has the coordinator role. Dropping kills them.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Server>,
    folder: TempDir,
}

#[derive(Debug)]
struct Server {
    child: Child,
    address: String,
    log: Arc<Log>,
}

/// What a server has written to its standard error.
#[derive(Debug, Default)]
struct Log {
    lines: Mutex<Lines>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    all: Vec<String>,
    ended: bool,
}

impl Cluster {
    /// Starts `count` servers and waits until each says where it listens.
    ///
    /// # Panics
    /// When one does not start: no test can go on then.
    pub fn start(count: usize) -> Self {
        Self::try_start(count).unwrap_or_else(|error| panic!("starting {count} servers: {error:#}"))
    }

    fn try_start(count: usize) -> anyhow::Result<Self> {
        let mut cluster = Self {
            servers: Vec::new(),
            folder: tempfile::tempdir()?,
        };
        for number in 0..count {
            let coordinator = cluster
                .servers
                .first()
                .map_or("self".into(), |first| first.address.clone());
            let config = cluster.folder.path().join(format!("server-{number}.toml"));
            // A short lease: tests kill workers and wait for their splits to be handed out again.
            let text = format!(
                "listen = \"127.0.0.1:0\"\ncoordinator = \"{coordinator}\"\nlease_ttl = \"2s\"\n"
            );
            std::fs::write(&config, text)?;
            let child = Command::new(&binaries().server)
                .arg("run")
                .arg(&config)
                .env_remove("WINDLASS_LOG")
                .stderr(Stdio::piped())
                .spawn()
                .context("starting a server")?;
            cluster.servers.push(listening(child)?);
        }
        Ok(cluster)
    }

    /// Where the coordinator is.
    pub fn coordinator(&self) -> &str {
        &self.servers[0].address
    }

    /// Waits until the coordinator's log has a line with this text.
    ///
    /// # Panics
    /// When it has none in time, with all that the log has.
    pub fn wait_for(&self, text: &str) {
        let found = self.servers[0]
            .log
            .find(text, |line| line.contains(text).then_some(()));
        found.unwrap_or_else(|error| panic!("{error:#}"));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // One that has ended already cannot be killed, which is as good.
            let _ = server.child.kill();
            let _ = server.child.wait();
        }
    }
}

/// Waits until the server says where it listens, and goes on reading so that its pipe never fills.
fn listening(mut child: Child) -> anyhow::Result<Server> {
    let stderr = BufReader::new(
        child
            .stderr
            .take()
            .context("a server without standard error")?,
    );
    let log = Arc::new(Log::default());
    let filled = Arc::clone(&log);
    std::thread::spawn(move || {
        stderr
            .lines()
            .map_while(Result::ok)
            .for_each(|line| filled.lock().push(line));
        filled.end();
    });
    let address = |line: &str| {
        let mut words = line
            .contains("listening")
            .then(|| line.split_whitespace())?;
        words
            .find_map(|word| word.strip_prefix("address="))
            .map(str::to_owned)
    };
    match log.find("listening", address) {
        Ok(address) => Ok(Server {
            child,
            address,
            log,
        }),
        Err(error) => {
            child.kill()?;
            Err(error)
        }
    }
}

impl Log {
    fn lock(&self) -> Locked<'_> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        Locked {
            lines,
            grown: &self.grown,
        }
    }

    fn end(&self) {
        self.lock().lines.ended = true;
        self.grown.notify_all();
    }

    /// Waits for the first line from which `read` reads something.
    fn find<T>(&self, what: &str, read: impl Fn(&str) -> Option<T>) -> anyhow::Result<T> {
        let deadline = Instant::now() + PATIENCE;
        let mut lines = self.lock().lines;
        loop {
            if let Some(found) = lines.all.iter().find_map(|line| read(line)) {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if lines.ended || left.is_zero() {
                bail!(
                    "the server's log has no `{what}`:\n{}",
                    lines.all.join("\n")
                );
            }
            let waited = self.grown.wait_timeout(lines, left);
            lines = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

struct Locked<'a> {
    lines: MutexGuard<'a, Lines>,
    grown: &'a Condvar,
}

impl Locked<'_> {
    fn push(mut self, line: String) {
        self.lines.all.push(line);
        self.grown.notify_all();
    }
}
