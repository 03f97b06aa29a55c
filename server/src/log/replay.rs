//! Reading the log back, when a shard is restored (rule S4).

use std::sync::PoisonError;

use windlass_common::Error as CommonError;
use windlass_common::format::log::{Record, Scan};
use windlass_common::id::{JobId, Lsn, ShardId};

use crate::error::Error;

use super::append::Log;

impl Log {
    /// Gives `apply` the records of the wanted shards that are on the disk, in order, and returns
    /// how many. Blocks; has one group in memory at a time, and reads only segments that have
    /// records of a wanted shard.
    ///
    /// A5: `apply` lets the shard's windows judge each record. What is appended meanwhile may or
    /// may not be among them, so whoever replays what this life appended waits for
    /// [`synced`](Log::synced) with [`appended`](Log::appended) before.
    ///
    /// # Errors
    /// The first error of `apply`, or a file that is not what it was when it was checked or
    /// written. The records before it were given.
    pub fn replay(
        &self,
        wanted: impl Fn(JobId, ShardId) -> bool,
        mut apply: impl FnMut(Lsn, Record<'static>) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let _reading = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let segments: Vec<_> = {
            let all = self.chain.segments();
            let holds = |last: &(JobId, ShardId)| wanted(last.0, last.1);
            all.iter()
                .filter(|s| s.last.keys().any(holds))
                .map(|s| (s.header.segment, s.bytes))
                .collect()
        };
        let mut replayed = 0;
        for (segment, bytes) in segments {
            let path = self.chain.path(segment);
            let file = self.disk.open(&path).map_err(|source| CommonError::Io {
                path: path.clone(),
                source,
            })?;
            let mut scan = Scan::begin(file, &path)?;
            while let Some(group) = scan.group(Some(bytes))? {
                for entry in group.entries() {
                    let entry = entry.map_err(CommonError::from)?;
                    if wanted(entry.job, entry.shard) {
                        let lsn = entry.lsn;
                        apply(lsn, entry.decode().map_err(CommonError::from)?)?;
                        replayed += 1;
                    }
                }
            }
        }
        Ok(replayed)
    }
}
