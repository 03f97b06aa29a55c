//! Runs of `windlass-worker`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::Context;
use serde_json::Value;

use crate::binaries;

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

/// A run that goes on.
#[derive(Debug)]
pub struct Running {
    child: Child,
    report: Option<PathBuf>,
}

impl Worker {
    /// Begins `windlass-worker COMMAND CONFIG`, in `folder`.
    pub fn new(folder: &Path, command: &[&str], config: &Path) -> Self {
        let mut run = Command::new(&binaries().worker);
        run.args(command)
            .arg(config)
            .current_dir(folder)
            .env_remove("WINDLASS_LOG");
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
        let child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("starting a worker: {error}"));
        Running {
            child,
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
    /// Sends a signal: `TERM`, `INT` or `KILL`.
    ///
    /// # Panics
    /// When it cannot be sent.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.is_ok_and(|s| s.success()), "sending {name} to {pid}");
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When the process or its report cannot be read.
    pub fn end(self) -> Run {
        let Self { child, report } = self;
        collect(child.wait_with_output(), report.as_deref())
            .unwrap_or_else(|error| panic!("waiting for a worker: {error:#}"))
    }
}

fn collect(output: std::io::Result<Output>, report: Option<&Path>) -> anyhow::Result<Run> {
    let output = output?;
    let report = match report.filter(|path| path.exists()) {
        Some(path) => {
            let text = std::fs::read_to_string(path).context("reading the report")?;
            Some(serde_json::from_str(&text).context("parsing the report")?)
        }
        None => None,
    };
    Ok(Run {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        report,
    })
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
