//! Checkpoints on the worker's side: shards are copied from their servers into a folder, and back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use windlass_client::client::Client;
use windlass_common::Error as CommonError;
use windlass_common::coordination::{History, Outcome, Recipe, StorageLease};
use windlass_common::format::{
    Checkpoint, CheckpointWriter, Manifest, ManifestFile, ShardSummary, folder_name, remove,
};
use windlass_common::id::{CheckpointId, JobId, ShardId};
use windlass_common::interval_set::IntervalSet;
use windlass_common::runtime::{Disk, Pool, offload};
use windlass_common::schema::JobSchema;

use crate::error::Error;

/// Shards that are copied at the same time: enough to hide a round trip, few enough to hold.
const AT_ONCE: usize = 8;

/// Where a job's checkpoints lie, and what their manifests say beside the history.
#[derive(Clone)]
pub struct Storage {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The folder of the job's checkpoints.
    pub folder: PathBuf,
    /// The one checkpoint to restore, whatever its name; without it the one of the asked epochs.
    pub pinned: Option<PathBuf>,
    /// The job's name.
    pub job: String,
    /// The job's tables.
    pub schema: JobSchema,
    /// What shapes batches: a checkpoint continues only the same input.
    pub recipe: Recipe,
    /// The effective config.
    pub config: String,
    /// The epochs that are wanted.
    pub target: u32,
}

impl Storage {
    /// Writes all shards as `epoch-NNNNNN`, then removes other checkpoints: the best one is kept.
    pub(super) async fn save(
        &self,
        client: &Client,
        pool: &dyn Pool,
        lease: StorageLease,
    ) -> Result<Outcome, Error> {
        let name = folder_name(lease.epochs);
        let (disk, folder) = (Arc::clone(&self.disk), self.folder.clone());
        let begin = move || CheckpointWriter::begin(disk, &folder, &name);
        let writer = offload(pool, begin)
            .await
            .ok_or(Error::Panicked { what: "saving" })??;
        let writer = Arc::new(writer);
        let put = stream::iter(self.schema.shards.all())
            .map(|shard| put_shard(client, pool, &writer, shard))
            .buffered(AT_ONCE)
            .try_collect::<Vec<_>>()
            .await?;
        // C5: a server that lost its memory meanwhile, or a keeper that woke up late, would publish
        // another state under this one's name. The hidden folder is left to the next save.
        let exact = |s: &ShardSummary| {
            s.lineage == lease.lineage && s.windows.exactly_below(lease.exactly_below)
        };
        if let Some((_, other)) = put.iter().find(|(_, summary)| !exact(summary)) {
            let why = format!(
                "shard {} is not in the state that was to be saved",
                other.shard
            );
            return Ok(Outcome::Abandoned(why));
        }
        let manifest = Manifest {
            job: self.job.clone(),
            job_id: JobId(0),
            number: CheckpointId(0),
            taken_ms: 0,
            pinned: false,
            target: self.target,
            complete: IntervalSet::below(lease.exactly_below.0),
            chains: put.into_iter().map(|(file, _)| vec![file]).collect(),
            schema: self.schema.clone(),
            recipe: self.recipe.clone(),
            history: lease.history,
            config: self.config.clone(),
            windlass: env!("CARGO_PKG_VERSION").into(),
            lineage: lease.lineage,
        };
        let (disk, folder) = (Arc::clone(&self.disk), self.folder.clone());
        let finish = move || {
            // All shards are put, so nobody else holds the writer.
            let writer = Arc::into_inner(writer).ok_or(Error::Panicked { what: "saving" })?;
            let kept = writer.finish(&manifest)?;
            remove_others(&*disk, &folder, kept.folder())
        };
        offload(pool, finish)
            .await
            .ok_or(Error::Panicked { what: "saving" })??;
        Ok(Outcome::Stored)
    }

    /// Puts every shard back to what the checkpoint of `lease.epochs` holds.
    pub(super) async fn restore(
        &self,
        client: &Client,
        pool: &dyn Pool,
        lease: StorageLease,
    ) -> Result<Outcome, Error> {
        let checkpoint = Arc::new(self.open(pool, lease.epochs).await?);
        stream::iter(self.schema.shards.all())
            .map(|shard| self.install(client, pool, &checkpoint, shard, &lease))
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(Outcome::Stored)
    }

    /// Writes the final history into a saved checkpoint's manifest.
    ///
    /// The keeper that saved it may be gone, or its disk. The rows are in that state still, so
    /// another one saves them anew.
    pub(super) async fn seal(
        &self,
        client: &Client,
        pool: &dyn Pool,
        lease: StorageLease,
    ) -> Result<Outcome, Error> {
        let mut checkpoint = match self.open(pool, lease.epochs).await {
            Ok(checkpoint) if self.is_of(&checkpoint, &lease.history) => checkpoint,
            Ok(_) | Err(Error::Common(CommonError::Format(_))) => {
                return self.save(client, pool, lease).await;
            }
            Err(error) => return Err(error),
        };
        let seal = move || checkpoint.reseal(lease.history);
        offload(pool, seal)
            .await
            .ok_or(Error::Panicked { what: "saving" })??;
        Ok(Outcome::Stored)
    }

    /// Whether a checkpoint in the folder is the one that a history tells of, and not what an
    /// earlier job of that name has left there.
    fn is_of(&self, checkpoint: &Checkpoint, history: &History) -> bool {
        let manifest = checkpoint.manifest();
        manifest.schema == self.schema
            && manifest.recipe == self.recipe
            && manifest.history.kept() == history.kept()
    }

    async fn open(&self, pool: &dyn Pool, epochs: u32) -> Result<Checkpoint, Error> {
        let named = || self.folder.join(folder_name(epochs));
        let (disk, path) = (
            Arc::clone(&self.disk),
            self.pinned.clone().unwrap_or_else(named),
        );
        let open = move || Checkpoint::open_folder(&disk, &path);
        Ok(offload(pool, open).await.ok_or(Error::Panicked {
            what: "opening a checkpoint",
        })??)
    }

    async fn install(
        &self,
        client: &Client,
        pool: &dyn Pool,
        checkpoint: &Arc<Checkpoint>,
        shard: ShardId,
        lease: &StorageLease,
    ) -> Result<(), Error> {
        let source = Arc::clone(checkpoint);
        let read = move || source.shard(shard);
        let bytes = offload(pool, read)
            .await
            .ok_or(Error::Panicked { what: "restoring" })??;
        Ok(client.install(shard, lease.lineage, bytes).await?)
    }
}

/// Copies one shard from its server into a checkpoint under way.
async fn put_shard(
    client: &Client,
    pool: &dyn Pool,
    writer: &Arc<CheckpointWriter>,
    shard: ShardId,
) -> Result<(ManifestFile, ShardSummary), Error> {
    let bytes = client.snapshot(shard).await?;
    let writer = Arc::clone(writer);
    let put = move || writer.put_shard(shard, &bytes);
    Ok(offload(pool, put)
        .await
        .ok_or(Error::Panicked { what: "saving" })??)
}

/// Removes all checkpoints of a job but one.
fn remove_others(disk: &dyn Disk, folder: &Path, kept: &Path) -> Result<(), Error> {
    let io = |source| Error::Io {
        path: folder.to_owned(),
        source,
    };
    for path in disk.list(folder).map_err(io)? {
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(name) = name.filter(|name| path != kept && name.starts_with("epoch-")) {
            remove(disk, folder, name)?;
        }
    }
    Ok(())
}
