//! The checkpoints of all jobs in the cluster's store, as the coordinator uses them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::{info, warn};
use windlass_common::format::{FormatError, Library, Manifest};
use windlass_common::id::CheckpointId;
use windlass_common::runtime::{Objects, WallClock};

use super::Stored;
use super::admin::Published;
use crate::error::Error;

/// The store, and how many checkpoints of a job are kept.
#[derive(Clone)]
pub struct Catalog {
    objects: Arc<dyn Objects>,
    wall: Arc<dyn WallClock>,
    keep: usize,
}

impl Catalog {
    /// Keeps the newest `keep` checkpoints of each job in a store.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, wall: Arc<dyn WallClock>, keep: usize) -> Self {
        Self {
            objects,
            wall,
            keep,
        }
    }

    /// The time since the Unix epoch in milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        self.wall.unix_ms()
    }

    /// Looks up what there is of a job: the newest whole checkpoint unless it begins anew, and the
    /// highest number that is taken.
    ///
    /// # Errors
    /// [`Error::Common`] when the store cannot be read: that is not "nothing there".
    pub(super) fn stored(&self, job: &str, fresh: bool) -> Result<Stored, Error> {
        let library = Library::new(Arc::clone(&self.objects), job)?;
        let last = library.highest()?;
        if fresh {
            return Ok(Stored { newest: None, last });
        }
        let mut newest = None;
        for entry in library.list()? {
            match entry.checkpoint {
                // S4: each server finds out itself whether its shards' files are whole.
                Ok(checkpoint) => {
                    newest = Some(checkpoint.manifest().clone());
                    break;
                }
                Err(windlass_common::Error::Format(FormatError::Unpublished { .. })) => {}
                Err(windlass_common::Error::Format(error)) => {
                    warn!(job, checkpoint = %entry.number, %error, "checkpoint is left out");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Stored { newest, last })
    }

    /// Reads one checkpoint's manifest.
    ///
    /// # Errors
    /// [`Error::NoCheckpoint`] when it is not there; [`Error::Common`] when it is damaged.
    pub(super) fn read(&self, job: &str, number: CheckpointId) -> Result<Manifest, Error> {
        let library = Library::new(Arc::clone(&self.objects), job)?;
        match library.open(number) {
            Ok(checkpoint) => Ok(checkpoint.manifest().clone()),
            Err(windlass_common::Error::Format(FormatError::Unpublished { .. })) => {
                Err(Error::NoCheckpoint {
                    what: format!("checkpoint {number} of job `{job}`"),
                    place: self.objects.to_string(),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// C6: writes a manifest, the last file of its checkpoint, and removes what is not kept. Tells
    /// which of the `needed` ones are no longer there: they must not be counted on.
    ///
    /// # Errors
    /// [`Error::Common`] when a file that it lists is not in the store, or the store fails; then the
    /// checkpoint may be there or not.
    pub(super) fn publish(
        &self,
        mut manifest: Manifest,
        needed: &BTreeSet<CheckpointId>,
    ) -> Result<Published, Error> {
        manifest.taken_ms = self.now_ms();
        let library = Library::new(Arc::clone(&self.objects), &manifest.job)?;
        library.publish(&manifest)?;
        let mut lost = BTreeSet::new();
        for &number in needed {
            if !library.is_there(number)? {
                warn!(job = manifest.job, checkpoint = %number, "checkpoint is damaged or gone");
                lost.insert(number);
            }
        }
        match tidy(&library, &manifest, self.keep, needed) {
            Ok(removed) => {
                for number in removed {
                    info!(job = manifest.job, checkpoint = %number, "old checkpoint removed");
                }
            }
            // Nothing is lost by it but space; the next one removes it too.
            Err(error) => warn!(job = manifest.job, %error, "old checkpoints not removed"),
        }
        Ok(Published {
            taken_ms: manifest.taken_ms,
            lost,
        })
    }
}

/// Lets former best ones go, and removes what is not kept.
fn tidy(
    library: &Library,
    newest: &Manifest,
    keep: usize,
    needed: &BTreeSet<CheckpointId>,
) -> Result<Vec<CheckpointId>, windlass_common::Error> {
    if newest.pinned {
        for entry in library.list()? {
            let Ok(checkpoint) = entry.checkpoint else {
                continue;
            };
            if checkpoint.manifest().pinned && entry.number != newest.number {
                library.pin(entry.number, false)?;
            }
        }
    }
    library.retain(keep, &BTreeSet::new(), needed)
}
