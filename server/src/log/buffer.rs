//! Records that wait for the disk, in groups.

use std::collections::VecDeque;

use windlass_common::format::FormatError;
use windlass_common::format::log::{GroupBuilder, MAX_GROUP_BYTES, Record};
use windlass_common::id::{JobId, Lsn, ShardId};

/// A group, and the shard of each of its records.
#[derive(Debug)]
pub(super) struct Pending {
    pub group: GroupBuilder,
    pub shards: Vec<(JobId, ShardId)>,
}

/// What was appended and is not on the disk.
#[derive(Debug)]
pub(super) struct Buffer {
    /// The lsn of the next record.
    next: Lsn,
    /// The last one takes records while it has room.
    groups: VecDeque<Pending>,
    /// Of all groups, and of the one that is being written.
    bytes: u64,
    /// Memory of groups that were written. A new vector would grow, and so be copied several times,
    /// under a shard's lock.
    spare: Vec<Vec<u8>>,
}

/// How many groups' memory is kept: the one that is being filled while one is written.
const SPARE: usize = 2;

impl Buffer {
    pub(super) fn new(next: Lsn) -> Self {
        Self {
            next,
            groups: VecDeque::new(),
            bytes: 0,
            spare: Vec::new(),
        }
    }

    /// The last record that was appended.
    pub(super) fn last(&self) -> Lsn {
        Lsn(self.next.0.saturating_sub(1))
    }

    /// Bytes that are not on the disk.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn append(&mut self, record: &Record<'_>) -> Result<Lsn, FormatError> {
        let next = self.next;
        let mut pending = match self.groups.pop_back_if(|p| p.group.has_room(record)) {
            Some(pending) => {
                self.bytes -= pending.group.bytes();
                pending
            }
            None => Pending {
                group: GroupBuilder::new(next, self.spare.pop().unwrap_or_default()),
                shards: Vec::new(),
            },
        };
        let appended = pending.group.push(record);
        if appended.is_ok() {
            pending.shards.push((record.job, record.shard));
        }
        if !pending.shards.is_empty() {
            self.next = pending.group.next();
            self.bytes += pending.group.bytes();
            self.groups.push_back(pending);
        }
        appended
    }

    /// Takes the oldest group. Its bytes count until it is [written](Self::written).
    pub(super) fn take(&mut self) -> Option<Pending> {
        self.groups.pop_front()
    }

    /// Notes that a group is on the disk.
    pub(super) fn written(&mut self, pending: Pending) {
        self.bytes -= pending.group.bytes();
        let memory = pending.group.into_memory();
        // A group of one huge record is not worth keeping.
        if self.spare.len() < SPARE && memory.capacity() <= 2 * MAX_GROUP_BYTES {
            self.spare.push(memory);
        }
    }
}
