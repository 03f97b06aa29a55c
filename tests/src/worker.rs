//! Runs of `windlass-worker`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Run, Running, binaries};

/// A run that is being put together.
#[derive(Debug)]
pub struct Worker {
    command: Command,
    report: Option<PathBuf>,
}

impl Worker {
    /// Begins `windlass-worker COMMAND CONFIG`, in `folder`.
    pub fn new(folder: &Path, command: &[&str], config: &Path) -> Self {
        let mut run = Command::new(&binaries().worker);
        run.args(command).arg(config).current_dir(folder);
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
        Running::start(&mut self.command, self.report)
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When the binary cannot be started.
    pub fn run(self) -> Run {
        self.start().end()
    }
}
