//! A checkpoint's manifest: what the job is, how far it is, and which files hold its shards.
//!
//! One header frame with magic `WL-MANIF` and version 1, whose payload is `Record` below, in the
//! order of its fields; nothing follows it.

use std::collections::BTreeSet;
use std::path::Path;

use bincode::{Decode, Encode};

use crate::coordination::{History, Recipe};
use crate::id::{CheckpointId, JobId, Lineage, ShardId};
use crate::interval_set::IntervalSet;
use crate::runtime::is_plain;
use crate::schema::JobSchema;

use super::FormatError;
use super::header::Format;
use super::reader::Reader;
use super::records::{HistoryRecord, RecipeRecord};
use super::schema::SchemaRecord;

/// The largest payload of a manifest: far above 4,096 files and the longest history.
const MAX_BYTES: usize = 1 << 28;

/// The largest manifest, with its frame.
pub(super) const MAX_FILE_BYTES: u64 = MAX_BYTES as u64 + 18;

const FORMAT: Format<MAX_BYTES> = Format {
    magic: *b"WL-MANIF",
    version: 1,
    other: "this is not a manifest",
};

/// What a checkpoint says about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The job's name.
    pub job: String,
    /// The job's number in its cluster; 0 in a checkpoint that a worker writes.
    pub job_id: JobId,
    /// The checkpoint's number in its job, from 1; 0 in a checkpoint that a worker writes.
    pub number: CheckpointId,
    /// The life of the job's state.
    pub lineage: Lineage,
    /// When it was ordered, in milliseconds since the Unix epoch; 0 in one that a worker writes,
    /// so that its bytes depend on the content alone.
    pub taken_ms: u64,
    /// Whether it is kept whatever comes later: it has the best weights so far.
    pub pinned: bool,
    /// The version of the program that wrote it, as in `CARGO_PKG_VERSION`.
    pub windlass: String,
    /// The effective configuration of the job, TOML.
    pub config: String,
    /// The tables, with every setting.
    pub schema: JobSchema,
    /// What shaped its batches: a job goes on from a checkpoint only with the same.
    pub recipe: Recipe,
    /// How many epochs were wanted then.
    pub target: u32,
    /// Epochs and metrics.
    pub history: History,
    /// The sources that are complete in every shard, as the windows of the files tell it (rule C6).
    pub complete: IntervalSet,
    /// The files of each shard, in the order of shards: a full one, then the deltas on it.
    pub chains: Vec<Vec<ManifestFile>>,
}

/// A file of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// The folder beside the checkpoint's own that it lies in; empty for the checkpoint's own.
    pub folder: String,
    /// Its name there.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: [u8; 32],
    /// The rows in it, over all tables.
    pub rows: u64,
}

#[derive(Encode, Decode)]
struct Record {
    job: String,
    job_id: u64,
    number: u64,
    lineage: u64,
    taken_ms: u64,
    pinned: bool,
    windlass: String,
    config: String,
    schema: SchemaRecord,
    recipe: RecipeRecord,
    target: u32,
    history: HistoryRecord,
    complete: Vec<(u64, u64)>,
    chains: Vec<Vec<FileRecord>>,
}

#[derive(Encode, Decode)]
struct FileRecord {
    folder: String,
    name: String,
    bytes: u64,
    sha256: [u8; 32],
    rows: u64,
}

impl Manifest {
    /// Writes the manifest; `name` is the file's, for errors.
    ///
    /// # Errors
    /// [`FormatError`] when [`decode`](Self::decode) would not accept it.
    pub fn encode(&self, name: &Path) -> Result<Vec<u8>, FormatError> {
        let chain = |chain: &Vec<ManifestFile>| chain.iter().map(FileRecord::of).collect();
        let ranges = self.complete.ranges().iter();
        let bytes = FORMAT.encode(&Record {
            job: self.job.clone(),
            job_id: self.job_id.0,
            number: self.number.0,
            lineage: self.lineage.0,
            taken_ms: self.taken_ms,
            pinned: self.pinned,
            windlass: self.windlass.clone(),
            config: self.config.clone(),
            schema: SchemaRecord::of(&self.schema),
            recipe: RecipeRecord::of(self.recipe.clone()),
            target: self.target,
            history: HistoryRecord::of(self.history.clone()),
            complete: ranges.map(|range| (range.start, range.end)).collect(),
            chains: self.chains.iter().map(chain).collect(),
        })?;
        // A checkpoint that cannot be opened is worth nothing, so it is tried before it is written.
        Self::decode(&bytes, name)?;
        Ok(bytes)
    }

    /// Reads a manifest and checks all of it; `name` is the file's, for errors.
    ///
    /// # Errors
    /// [`FormatError`] with the file's name, for any byte that is not as it was written, a schema
    /// that no server could hold, or files that are not a chain a shard.
    pub fn decode(bytes: &[u8], name: &Path) -> Result<Self, FormatError> {
        let mut reader = Reader::new(bytes, name);
        let record: Record = FORMAT.decode(&mut reader)?;
        if reader.left() > 0 {
            return Err(reader.damaged(reader.at(), "bytes follow the end of the manifest"));
        }
        record.manifest().map_err(|rule| FormatError::Manifest {
            path: name.into(),
            rule,
        })
    }

    /// Goes through all files, with the shard of each.
    pub fn files(&self) -> impl Iterator<Item = (ShardId, &ManifestFile)> {
        let shards = self.schema.shards.all();
        shards
            .zip(&self.chains)
            .flat_map(|(shard, chain)| chain.iter().map(move |file| (shard, file)))
    }
}

impl Record {
    /// Puts the manifest together; an error says which rule is broken.
    fn manifest(self) -> Result<Manifest, String> {
        let schema = self.schema.schema()?;
        schema.validate().map_err(|e| e.to_string())?;
        let (chains, shards) = (self.chains.len(), schema.shards.len());
        if chains != shards {
            return Err(format!(
                "lists files of {chains} shards, the job has {shards}"
            ));
        }
        if let Some(shard) = self.chains.iter().position(Vec::is_empty) {
            return Err(format!("lists no file of shard {shard}"));
        }
        let mut names = BTreeSet::new();
        for FileRecord { folder, name, .. } in self.chains.iter().flatten() {
            if !is_plain(name) || !(folder.is_empty() || is_plain(folder)) {
                return Err(format!(
                    "file `{name}` in `{folder}` must be a plain name in a folder beside the manifest's"
                ));
            }
            if !names.insert((folder, name)) {
                return Err(format!("file `{name}` in `{folder}` is listed twice"));
            }
        }
        let ranges = self.complete.iter().map(|&(start, end)| start..end);
        let chain = |chain: Vec<FileRecord>| chain.into_iter().map(FileRecord::file).collect();
        Ok(Manifest {
            job: self.job,
            job_id: JobId(self.job_id),
            number: CheckpointId(self.number),
            taken_ms: self.taken_ms,
            pinned: self.pinned,
            target: self.target,
            complete: IntervalSet::from_ranges(ranges.collect())
                .map_err(|_| "complete sources must be non-empty ranges, ascending and apart")?,
            chains: self.chains.into_iter().map(chain).collect(),
            lineage: Lineage(self.lineage),
            windlass: self.windlass,
            config: self.config,
            schema,
            recipe: self.recipe.recipe(),
            history: self.history.history(),
        })
    }
}

impl FileRecord {
    fn of(file: &ManifestFile) -> Self {
        Self {
            folder: file.folder.clone(),
            name: file.name.clone(),
            bytes: file.bytes,
            sha256: file.sha256,
            rows: file.rows,
        }
    }

    fn file(self) -> ManifestFile {
        ManifestFile {
            folder: self.folder,
            name: self.name,
            bytes: self.bytes,
            sha256: self.sha256,
            rows: self.rows,
        }
    }
}

#[cfg(test)]
mod tests;
