//! The store of checkpoints of a simulated cluster.

use std::collections::{BTreeMap, BTreeSet};

use windlass_common::format::{Manifest, ManifestFile};
use windlass_common::id::{CheckpointId, Clock, JobId, Lineage, ShardId};
use windlass_common::saving::{SaveOrder, Saved};

use super::server::Shard;
use crate::coordinator::Stored;

/// Files by name, and the manifests that make checkpoints of them.
#[derive(Default)]
pub(super) struct Store {
    files: BTreeMap<String, Shard>,
    pub(super) manifests: BTreeMap<CheckpointId, Manifest>,
}

impl Store {
    /// Keeps a copy of a shard; a copy that is taken again is another file.
    pub(super) fn save(
        &mut self,
        order: SaveOrder,
        shard: ShardId,
        held: &Shard,
        nonce: u64,
    ) -> Saved {
        let name = format!("{}-{shard}-{nonce:x}", order.checkpoint);
        self.files.insert(name.clone(), held.clone());
        Saved {
            checkpoint: order.checkpoint,
            shard,
            lineage: held.lineage,
            clock: Clock(0),
            complete: held.windows.complete().clone(),
            open: u32::try_from(held.windows.open().len()).unwrap(),
            chain: vec![ManifestFile {
                folder: String::new(),
                name,
                bytes: 1,
                sha256: [0; 32],
                rows: 1,
            }],
        }
    }

    /// All files are lost; the manifests are still there.
    pub(super) fn lose_files(&mut self) {
        self.files.clear();
    }

    /// Those of some checkpoints of which a file is lost.
    pub(super) fn lost_of(&self, numbers: &BTreeSet<CheckpointId>) -> BTreeSet<CheckpointId> {
        let has = |file: &ManifestFile| self.files.contains_key(&file.name);
        let is_whole = |m: &Manifest| m.chains.iter().flatten().all(has);
        let is_lost = |number: &&CheckpointId| !self.manifests.get(number).is_some_and(is_whole);
        numbers.iter().filter(is_lost).copied().collect()
    }

    pub(super) fn publish(&mut self, manifest: Manifest) {
        self.manifests.insert(manifest.number, manifest);
    }

    /// S4: the newest copy of a shard in its lineage, else what the lineage begins with.
    pub(super) fn newest(
        &self,
        job: JobId,
        lineage: Lineage,
        origin: Option<CheckpointId>,
        shard: ShardId,
    ) -> Option<Shard> {
        let own = |m: &&Manifest| m.job_id == job && m.lineage == lineage;
        let manifest = self.manifests.values().rev().find(own);
        let manifest = manifest.or_else(|| self.manifests.get(&origin?))?;
        let file = manifest.chains.get(usize::from(shard.0))?.last()?;
        self.files.get(&file.name).cloned()
    }

    /// What a job of the one name here begins with.
    pub(super) fn stored(&self, fresh: bool) -> Stored {
        let newest = self.manifests.values().next_back();
        Stored {
            newest: newest.filter(|_| !fresh).cloned(),
            last: newest.map_or(CheckpointId(0), |m| m.number),
        }
    }
}
