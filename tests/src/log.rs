//! What a process writes to its standard error, while it runs.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;

/// A process may take this long to say something; a loaded machine needs some of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The lines so far. A process that is started again goes on in a log of its own.
#[derive(Debug, Default)]
pub(crate) struct Log {
    lines: Mutex<Lines>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    all: Vec<String>,
    ended: bool,
}

impl Log {
    /// Reads to the end, so that the pipe never fills.
    pub(crate) fn of(stderr: impl Read + Send + 'static) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let filled = Arc::clone(&log);
        std::thread::spawn(move || {
            BufReader::new(stderr)
                .split(b'\n')
                .map_while(Result::ok)
                .for_each(|line| filled.push(String::from_utf8_lossy(&line).into_owned()));
            filled.lock().ended = true;
            filled.grown.notify_all();
        });
        log
    }

    /// Waits for the first line from which `read` reads something.
    ///
    /// # Errors
    /// None in time, or none before the process ended, with all the lines that there are.
    pub(crate) fn find<T>(
        &self,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> anyhow::Result<T> {
        self.until(what, |lines| lines.iter().find_map(|line| read(line)))
    }

    /// Waits until there are `count` lines with `text`.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub(crate) fn reach(&self, text: &str, count: usize) -> anyhow::Result<()> {
        let what = format!("{count} lines with `{text}`");
        self.until(&what, |lines| {
            let found = lines.iter().filter(|line| line.contains(text)).count();
            (found >= count).then_some(())
        })
    }

    /// How many lines have `text` so far.
    pub(crate) fn count(&self, text: &str) -> usize {
        let lines = self.lock();
        lines.all.iter().filter(|line| line.contains(text)).count()
    }

    /// All lines so far.
    pub(crate) fn text(&self) -> String {
        self.lock().all.join("\n")
    }

    /// Waits for the end of the process, and tells all that it wrote.
    ///
    /// # Errors
    /// No end in time.
    pub(crate) fn end(&self, patience: Duration) -> anyhow::Result<String> {
        self.within(patience, "end", |lines| {
            lines.ended.then(|| lines.all.join("\n"))
        })
    }

    fn until<T>(&self, what: &str, read: impl Fn(&[String]) -> Option<T>) -> anyhow::Result<T> {
        self.within(PATIENCE, what, |lines| read(&lines.all))
    }

    fn within<T>(
        &self,
        patience: Duration,
        what: &str,
        read: impl Fn(&Lines) -> Option<T>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + patience;
        let mut lines = self.lock();
        loop {
            if let Some(found) = read(&lines) {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if lines.ended || left.is_zero() {
                let end = if lines.ended {
                    ", and it has ended"
                } else {
                    ""
                };
                bail!("the log has no `{what}`{end}:\n{}", lines.all.join("\n"));
            }
            let waited = self.grown.wait_timeout(lines, left);
            lines = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn push(&self, line: String) {
        self.lock().all.push(line);
        self.grown.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
