//! A process that a test runs to its end, and what it has written.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::log::Log;

/// No run of a test takes longer.
const LONGEST: Duration = Duration::from_secs(900);

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

impl Running {
    /// Starts a process, whose report will lie at `report` if it writes one.
    ///
    /// # Panics
    /// When the binary cannot be started.
    pub(crate) fn start(command: &mut Command, report: Option<PathBuf>) -> Self {
        let mut child = command
            // The test's own; a program would take it for a key of its config.
            .env_remove("WINDLASS_SEED")
            .env_remove("WINDLASS_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
        // Both are read at once, so that neither pipe fills.
        let (Some(mut stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            panic!("a process without its pipes");
        };
        let stdout = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What came before an error is what there is.
            let _ = stdout.read_to_end(&mut bytes);
            bytes
        });
        Self {
            child,
            stdout: Some(stdout),
            stderr: Log::of(stderr),
            report,
        }
    }

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

    /// Waits for a line of standard error with this text, and returns it.
    ///
    /// # Panics
    /// When there is none in time, with all that there is.
    pub fn line_with(&self, text: &str) -> String {
        let found = |line: &str| line.contains(text).then(|| line.to_owned());
        self.stderr
            .find(text, found)
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Sends SIGKILL and waits for the end.
    ///
    /// # Panics
    /// When it has ended by itself before, with what it wrote.
    pub fn kill(mut self) {
        let ended = self.child.try_wait();
        assert!(
            matches!(ended, Ok(None)),
            "a process has ended by itself: {ended:?}\n{}",
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
            .unwrap_or_else(|error| panic!("waiting for a process: {error:#}"))
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
