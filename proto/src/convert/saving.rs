//! Checkpoints of running jobs: orders, what was saved, and how a server is.

use windlass_common::coordination::Health;
use windlass_common::format::ManifestFile;
use windlass_common::id::{CheckpointId, Clock, Lineage};
use windlass_common::saving::{SaveOrder, Saved};

use super::cluster::sources;
use crate::error::WireError;
use crate::limits::{self, at_most, invalid};
use crate::v1;

/// The most files that one shard's state may be spread over.
const CHAIN: usize = 1024;

impl From<SaveOrder> for v1::SaveOrder {
    fn from(order: SaveOrder) -> Self {
        Self {
            checkpoint: order.checkpoint.0,
            base: order.base.map(|c| c.0),
            gentle: order.gentle,
        }
    }
}

impl From<v1::SaveOrder> for SaveOrder {
    fn from(message: v1::SaveOrder) -> Self {
        Self {
            checkpoint: CheckpointId(message.checkpoint),
            base: message.base.map(CheckpointId),
            gentle: message.gentle,
        }
    }
}

impl From<Saved> for v1::Saved {
    fn from(saved: Saved) -> Self {
        let complete = saved.complete.ranges().iter();
        Self {
            checkpoint: saved.checkpoint.0,
            shard: saved.shard.0.into(),
            lineage: saved.lineage.0,
            clock: saved.clock.0,
            complete: complete.flat_map(|r| [r.start, r.end]).collect(),
            open: saved.open,
            chain: saved.chain.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::Saved> for Saved {
    type Error = WireError;

    fn try_from(message: v1::Saved) -> Result<Self, WireError> {
        at_most("jobs.saved.chain", message.chain.len(), CHAIN)?;
        if message.chain.is_empty() {
            return Err(invalid("jobs.saved.chain", "is empty"));
        }
        Ok(Self {
            checkpoint: CheckpointId(message.checkpoint),
            shard: limits::shard("jobs.saved.shard", message.shard)?,
            lineage: Lineage(message.lineage),
            clock: Clock(message.clock),
            complete: sources("jobs.saved.complete", &message.complete)?,
            open: message.open,
            chain: message
                .chain
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl From<ManifestFile> for v1::SavedFile {
    fn from(file: ManifestFile) -> Self {
        Self {
            folder: file.folder,
            name: file.name,
            bytes: file.bytes,
            sha256: file.sha256.to_vec().into(),
            rows: file.rows,
        }
    }
}

impl TryFrom<v1::SavedFile> for ManifestFile {
    type Error = WireError;

    fn try_from(message: v1::SavedFile) -> Result<Self, WireError> {
        Ok(Self {
            folder: limits::name("jobs.saved.chain.folder", message.folder)?,
            name: limits::name("jobs.saved.chain.name", message.name)?,
            bytes: message.bytes,
            sha256: limits::digest("jobs.saved.chain.sha256", &message.sha256)?,
            rows: message.rows,
        })
    }
}

impl From<Health> for v1::Health {
    fn from(health: Health) -> Self {
        Self {
            applied: health.applied,
            duplicates: health.duplicates,
            not_finite: health.not_finite,
            log_bytes: health.log_bytes,
            trouble: health.trouble,
        }
    }
}

impl TryFrom<v1::Health> for Health {
    type Error = WireError;

    fn try_from(message: v1::Health) -> Result<Self, WireError> {
        let trouble = message.trouble.map(|t| limits::name("health.trouble", t));
        Ok(Self {
            applied: message.applied,
            duplicates: message.duplicates,
            not_finite: message.not_finite,
            log_bytes: message.log_bytes,
            trouble: trouble.transpose()?,
        })
    }
}
