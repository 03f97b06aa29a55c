//! What an operator types: `windlass-server` for one question, beside the servers that run.

use std::ffi::OsStr;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{Cluster, Run, Running, binaries};

/// What is typed and waited for takes no longer to become true.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `windlass-server` with these arguments to its end.
///
/// # Panics
/// When the binary cannot be started, or does not end.
pub fn operate<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    let mut command = Command::new(&binaries().server);
    Running::start(command.args(args), None).end()
}

impl Cluster {
    /// Asks the coordinator: `windlass-server ARGS --coordinator ...`.
    ///
    /// # Panics
    /// As [`operate`].
    pub fn ask(&self, args: &[&str]) -> Run {
        operate(args.iter().chain(&["--coordinator", self.coordinator()]))
    }

    /// Looks at the store of checkpoints: `windlass-server checkpoint COMMAND CONFIG ARGS`.
    ///
    /// # Panics
    /// As [`operate`].
    pub fn checkpoint(&self, command: &str, args: &[&str]) -> Run {
        let asked = [
            "checkpoint".as_ref(),
            command.as_ref(),
            self.config(0).as_os_str(),
        ];
        operate(asked.into_iter().chain(args.iter().map(OsStr::new)))
    }

    /// Asks for `windlass-server status` until it shows what `seen` looks for.
    ///
    /// # Panics
    /// When it does not in time, with what it shows.
    pub fn status_until<T>(&self, seen: impl Fn(&str) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let run = self.ask(&["status"]).success();
            if let Some(found) = seen(&run.stdout) {
                return found;
            }
            assert!(Instant::now() < deadline, "it still shows\n{}", run.stdout);
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
