//! The log as those see it who append to it and wait for it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_common::format::log::Record;
use windlass_common::id::{Boot, Lsn};
use windlass_common::runtime::Disk;

use crate::error::Error;

use super::buffer::Buffer;
use super::chain::Chain;
use super::commit::{Progress, Trouble};
use super::reached::Reached;
use super::recover::{Recovered, recover};
use super::tail::Tail;

/// How a log is kept.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// A segment that has this many bytes is followed by a new one. Only whole segments are cut, so
    /// it is also about what a checkpoint leaves.
    pub segment_bytes: u64,
    /// While more bytes than this wait for the disk, [`Log::admit`] waits. Pushes that were
    /// admitted before come on top.
    pub buffer_bytes: u64,
    /// How long to wait before a group is written again that the disk refused.
    pub retry: Duration,
    /// The shortest time from the beginning of a group's write to the next one's.
    pub interval: Duration,
}

impl Default for Settings {
    /// 64 MiB each: four groups of the largest size. A second: soon enough for whoever frees space.
    /// 4 ms: little to a worker that has several pushes open, and a disk that takes longer than that
    /// for a sync, as most do, is never waited for.
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            buffer_bytes: 64 << 20,
            retry: Duration::from_secs(1),
            interval: Duration::from_millis(4),
        }
    }
}

/// The running log of one server.
///
/// The order of use: [`admit`](Self::admit), then under a shard's lock [`append`](Self::append),
/// then without the lock [`synced`](Self::synced), then the answer. One task does
/// [`run`](Self::run).
pub struct Log {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) settings: Settings,
    /// std's: held for a copy into memory, never across an await.
    buffer: Mutex<Buffer>,
    /// Rings when a record came.
    pub(super) arrived: Notify,
    pub(super) progress: Reached,
    pub(super) chain: Arc<Chain>,
    /// The writer's, from its start on.
    pub(super) tail: Mutex<Option<Tail>>,
    /// Held for reading while files are read, for writing while some are cut.
    pub(super) files: RwLock<()>,
}

/// What there is to tell about a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogState {
    /// Segments that hold records.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that wait for the disk.
    pub waiting: u64,
    /// The last record.
    pub appended: Lsn,
    /// The last record that is on the disk.
    pub synced: Lsn,
    /// Groups written, and so syncs done, in this life.
    pub groups: u64,
    /// Why pushes are refused, if they are.
    pub trouble: Option<String>,
}

impl Log {
    /// Opens the log in a folder, which is made if there is none, and checks all of it.
    ///
    /// Blocks, for as long as the log takes to be read. What is torn or damaged is told in the
    /// tracing log and in [`Recovered`]; the log goes on behind its last whole group (rule S7:
    /// in a new segment).
    ///
    /// # Errors
    /// A folder or file that cannot be read, a log of a newer Windlass.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        boot: Boot,
        settings: Settings,
    ) -> Result<(Arc<Self>, Recovered), Error> {
        let found = recover(&*disk, folder)?;
        let chain = Arc::new(Chain::new(folder, found.segments));
        let tail = Tail::new(
            Arc::clone(&disk),
            Arc::clone(&chain),
            boot,
            settings.segment_bytes,
            found.number,
        );
        let log = Self {
            disk,
            settings,
            buffer: Mutex::new(Buffer::new(found.next)),
            arrived: Notify::new(),
            progress: Reached::new(Progress {
                synced: found.recovered.last,
                groups: 0,
                trouble: None,
            }),
            chain,
            tail: Mutex::new(Some(tail)),
            files: RwLock::new(()),
        };
        Ok((Arc::new(log), found.recovered))
    }

    /// Appends a record and returns its place. Costs a copy into memory; never waits for the disk.
    ///
    /// The caller holds the shard's lock and appends before it changes rows: then a refusal leaves
    /// the shard as it was. What was appended must be applied.
    ///
    /// # Errors
    /// A record that is too long, [`Error::LogFailed`]; then nothing was appended. While the disk
    /// is full records are taken: only those that were admitted before come.
    pub fn append(&self, record: &Record<'_>) -> Result<Lsn, Error> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let lsn = self
            .buffer()
            .append(record)
            .map_err(windlass_common::Error::from)?;
        self.arrived.notify_one();
        Ok(lsn)
    }

    /// The last record that was appended.
    #[must_use]
    pub fn appended(&self) -> Lsn {
        self.buffer().last()
    }

    /// Ends when a push may be applied: waits while too much waits for the disk.
    ///
    /// # Errors
    /// [`Error::LogFull`] while the disk takes nothing, [`Error::LogFailed`] for good.
    pub async fn admit(&self) -> Result<(), Error> {
        let room = |now: &Progress| match &now.trouble {
            Some(trouble) => Some(Err(trouble.error())),
            None => (self.buffer().bytes() <= self.settings.buffer_bytes).then_some(Ok(())),
        };
        self.progress.until(room).await
    }

    /// Ends when every record up to `lsn` is on the disk.
    ///
    /// S2: every answer waits for it, also one to a duplicate, with [`appended`](Self::appended).
    ///
    /// # Errors
    /// [`Error::LogFull`] while the disk takes nothing, [`Error::LogFailed`] for good: whether the
    /// records will be there after a restart is not known.
    pub async fn synced(&self, lsn: Lsn) -> Result<(), Error> {
        let reached = |now: &Progress| match &now.trouble {
            _ if now.synced >= lsn => Some(Ok(())),
            Some(trouble) => Some(Err(trouble.error())),
            None => None,
        };
        self.progress.until(reached).await
    }

    /// Tells how the log is.
    #[must_use]
    pub fn state(&self) -> LogState {
        let (appended, waiting) = {
            let buffer = self.buffer();
            (buffer.last(), buffer.bytes())
        };
        let (segments, bytes) = self.chain.size();
        let progress = self.progress.now();
        LogState {
            segments,
            bytes,
            waiting,
            appended,
            synced: progress.synced,
            groups: progress.groups,
            trouble: progress.trouble.as_ref().map(|t| t.error().to_string()),
        }
    }

    pub(super) fn buffer(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why nothing will ever be written again.
    fn failure(&self) -> Option<Error> {
        match &self.progress.now().trouble {
            None | Some(Trouble::Full { .. }) => None,
            Some(trouble) => Some(trouble.error()),
        }
    }
}
