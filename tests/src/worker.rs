//! Runs of `windlass-worker`.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::binaries;
use crate::log::Log;

/// No run of a test takes longer.
const LONGEST: Duration = Duration::from_secs(900);

/// A run that is being put together.
#[derive(Debug)]
pub struct Worker {
    command: Command,
    report: Option<PathBuf>,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Run {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The report, if one was asked for and written.
    pub report: Option<Value>,
}

/// A run that goes on. Dropping kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Arc<Log>,
    report: Option<PathBuf>,
}

impl Worker {
    /// Begins `windlass-worker COMMAND CONFIG`, in `folder`.
    pub fn new(folder: &Path, command: &[&str], config: &Path) -> Self {
        let mut run = Command::new(&binaries().worker);
        run.args(command)
            .arg(config)
            .current_dir(folder)
            .env_remove("WINDLASS_LOG")
            // The test's own; a worker would take it for a key of its config.
            .env_remove("WINDLASS_SEED");
        Self {
            command: run,
            report: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<std::ffi::OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets a key of the config.
    #[must_use]
    pub fn set(self, key: &str, value: impl std::fmt::Display) -> Self {
        self.args(["--set".to_owned(), format!("{key}={value}")])
    }

    /// Asks for a report at `path`.
    #[must_use]
    pub fn report(mut self, path: PathBuf) -> Self {
        self.command.arg("--report").arg(&path);
        self.report = Some(path);
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// When the binary cannot be started.
    pub fn start(mut self) -> Running {
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("starting a worker: {error}"));
        // Both are read at once, so that neither pipe fills.
        let (Some(mut stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            panic!("a worker without its pipes");
        };
        let stdout = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What came before an error is what there is.
            let _ = stdout.read_to_end(&mut bytes);
            bytes
        });
        Running {
            child,
            stdout: Some(stdout),
            stderr: Log::of(stderr),
            report: self.report,
        }
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When the binary cannot be started.
    pub fn run(self) -> Run {
        self.start().end()
    }
}

impl Running {
    /// Sends a signal: `TERM`, `INT`, `KILL`, `STOP` or `CONT`.
    ///
    /// # Panics
    /// When it cannot be sent.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.is_ok_and(|s| s.success()), "sending {name} to {pid}");
    }

    /// What it has written to standard error so far, in lines.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Sends SIGKILL and waits for the end.
    ///
    /// # Panics
    /// When it has ended by itself before, with what it wrote.
    pub fn kill(mut self) {
        let ended = self.child.try_wait();
        assert!(
            matches!(ended, Ok(None)),
            "a worker has ended by itself: {ended:?}\n{}",
            self.stderr.text()
        );
        self.signal("KILL");
        let _ = self.child.wait();
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When it does not come, or when the process or its report cannot be read.
    pub fn end(mut self) -> Run {
        self.collect()
            .unwrap_or_else(|error| panic!("waiting for a worker: {error:#}"))
    }

    fn collect(&mut self) -> anyhow::Result<Run> {
        let stderr = self.stderr.end(LONGEST)?;
        let stdout = self.stdout.take().and_then(|reader| reader.join().ok());
        let status = self.child.wait()?;
        let report = match self.report.as_ref().filter(|path| path.exists()) {
            Some(path) => {
                let text = std::fs::read_to_string(path).context("reading the report")?;
                Some(serde_json::from_str(&text).context("parsing the report")?)
            }
            None => None,
        };
        Ok(Run {
            code: status.code(),
            stdout: String::from_utf8_lossy(&stdout.unwrap_or_default()).into_owned(),
            stderr,
            report,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Run {
    /// Returns the run if it succeeded.
    ///
    /// # Panics
    /// With all that it printed, if it did not.
    #[must_use]
    pub fn success(self) -> Self {
        assert_eq!(
            self.code,
            Some(0),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// A number of the report, by its path, such as `/metrics/test/auc`.
    ///
    /// # Panics
    /// When there is no such number.
    #[must_use]
    pub fn number(&self, path: &str) -> f64 {
        let report = self.report.as_ref();
        report
            .and_then(|r| r.pointer(path))
            .and_then(Value::as_f64)
            .unwrap_or_else(|| {
                panic!(
                    "no number {path} in the report {report:?}\nstderr:\n{}",
                    self.stderr
                )
            })
    }
}
