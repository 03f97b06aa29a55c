//! What a server refuses; `kind` is how it is said on the wire.

mod kind;

use std::path::PathBuf;
use std::sync::Arc;
use windlass_common::id::{CheckpointId, JobId, Lineage, PushId, Seq, ShardId, SourceId, TableId};

use windlass_common::key::Key;
use windlass_common::shard::ShardCount;
use windlass_proto::WireError;

/// Errors of the state that a server holds.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The vocabulary's own: a schema that cannot be, or that is not the one held.
    #[error(transparent)]
    Common(#[from] windlass_common::Error),
    /// A job that this server does not hold.
    #[error("job {job} is not on this server; fetch the shard map again")]
    UnknownJob {
        /// The job.
        job: JobId,
    },
    /// A shard that this server does not own.
    #[error("shard {shard} of job {job} is not on this server; fetch the shard map again")]
    Moved {
        /// The job.
        job: JobId,
        /// The shard.
        shard: ShardId,
    },
    /// A shard that no server could own.
    #[error("shard {shard} does not exist: the job has {}", shards.len())]
    NoSuchShard {
        /// The shard.
        shard: ShardId,
        /// How many there are.
        shards: ShardCount,
    },
    /// A shard holds less or more than an evaluation asked for (rule C12).
    #[error("shard {shard} does not hold exactly the sources below {end}; try again")]
    NotExact {
        /// The shard.
        shard: ShardId,
        /// The first source that it must not hold.
        end: SourceId,
    },
    /// A push of another life of the job's state (rule N4).
    #[error(
        "shard {shard} is in lineage {held}, the push in lineage {pushed}: the state was restored; \
         ask for a new lease"
    )]
    StaleLineage {
        /// The shard.
        shard: ShardId,
        /// The push's.
        pushed: Lineage,
        /// The shard's.
        held: Lineage,
    },
    /// A restore of a life that is over or has begun (rule N4).
    #[error(
        "shard {shard} holds pushes of lineage {held}: it will not be replaced in lineage {offered}"
    )]
    RestoreTooLate {
        /// The shard.
        shard: ShardId,
        /// The snapshot's new lineage.
        offered: Lineage,
        /// The shard's.
        held: Lineage,
    },
    /// A push beyond its source's END, or an END below a push (rule N3).
    #[error(
        "push {id} contradicts the end of its source at {end} in shard {shard}: the input or its \
         recipe is not the one that was read before"
    )]
    BeyondEnd {
        /// The push.
        id: PushId,
        /// The shard.
        shard: ShardId,
        /// The number of the END push.
        end: Seq,
    },
    /// More open sources than a shard will remember.
    #[error("shard {shard} has too many sources open to begin source {source_id}; try again later")]
    TooManyOpen {
        /// The shard.
        shard: ShardId,
        /// The source.
        source_id: SourceId,
    },
    /// A shard that has no numbers left for new rows.
    #[error("table `{table}` is full in shard {shard}; start a job with more shards")]
    TableFull {
        /// The table.
        table: String,
        /// The shard.
        shard: ShardId,
    },
    /// A gradient that would poison a row.
    #[error(
        "table `{table}`: the gradient of key {key} is {value}; the push is refused whole. Lower \
         the learning rate, or look for bad values in the input"
    )]
    NotFinite {
        /// The table.
        table: String,
        /// The first such key.
        key: Key,
        /// The gradient: NaN or an infinity.
        value: f32,
    },
    /// A gradient of a counting table that is no count.
    #[error(
        "table `{table}`: the gradient of key {key} is {gradient:?}; a count is {} whole numbers \
         from 0 to 2^24, least first. The push is refused whole",
        windlass_common::count::LIMBS
    )]
    NoCount {
        /// The table.
        table: String,
        /// The first such key.
        key: Key,
        /// The gradient.
        gradient: Vec<f32>,
    },
    /// A table that the job does not have.
    #[error("table {table} does not exist: the job has {tables}")]
    NoSuchTable {
        /// The table.
        table: TableId,
        /// How many there are.
        tables: usize,
    },
    /// Keys that were grouped for another count of shards.
    #[error("keys are grouped for {} shards: the job has {}", got.len(), want.len())]
    OtherShards {
        /// The request's count.
        got: ShardCount,
        /// The job's.
        want: ShardCount,
    },
    /// A reference to a set of keys that the request does not carry.
    #[error("table {table} refers to set {set} of keys: the request has {sets}")]
    NoSuchSet {
        /// The table.
        table: TableId,
        /// The reference.
        set: usize,
        /// How many there are.
        sets: usize,
    },
    /// Gradients that do not fit their keys.
    #[error("table `{table}`: {got} gradients for {keys} keys of dim {dim}")]
    GradientLength {
        /// The table.
        table: String,
        /// How many floats came.
        got: usize,
        /// How many keys they are for.
        keys: usize,
        /// The table's dim.
        dim: usize,
    },
    /// A push that breaks its contract in another way.
    #[error("push {id}: {rule}")]
    Push {
        /// The push.
        id: PushId,
        /// The rule that is broken.
        rule: &'static str,
    },
    /// A pull whose answer would be too large.
    #[error("a pull of {bytes} bytes is beyond the limit of {limit}; ask for fewer keys at once")]
    PullTooLarge {
        /// The answer's size.
        bytes: u64,
        /// The most that is answered.
        limit: u64,
    },
    /// A record of the log that does not fit the shard that it names.
    #[error("the log has push {id} to shard {shard} with {rule}: it is not of this job")]
    Replay {
        /// The push.
        id: PushId,
        /// The shard.
        shard: ShardId,
        /// What does not fit.
        rule: &'static str,
    },
    /// A snapshot of another shard than the one that it is to replace.
    #[error("the snapshot is of shard {image}, not of shard {shard}")]
    ImageOfOther {
        /// The shard that was to be replaced.
        shard: ShardId,
        /// The snapshot's.
        image: ShardId,
    },
    /// A snapshot that is not whole without another.
    #[error("the snapshot of shard {shard} is a delta on checkpoint {base}: a full one is wanted")]
    ImageIsDelta {
        /// The shard.
        shard: ShardId,
        /// What it builds on.
        base: CheckpointId,
    },
    /// A snapshot of other tables than the job's.
    #[error(
        "{what}: the snapshot has {image}, the job's schema {schema}; restore a checkpoint of this \
         job, or start anew with --fresh"
    )]
    ImageMismatch {
        /// What differs.
        what: String,
        /// The snapshot's side.
        image: usize,
        /// The schema's side.
        schema: usize,
    },
    /// A snapshot whose keys and rows do not fit each other.
    #[error("table `{table}` of the snapshot: {floats} floats for {keys} rows of {width}")]
    ImageRows {
        /// The table.
        table: String,
        /// How many keys.
        keys: usize,
        /// How many floats in all.
        floats: usize,
        /// Floats a row.
        width: usize,
    },
    /// A snapshot that has a key twice.
    #[error("table `{table}` of the snapshot has key {key} twice")]
    ImageKeyTwice {
        /// The table.
        table: String,
        /// The key.
        key: Key,
    },
    /// A snapshot of a shard with another shard's key.
    #[error("table `{table}` of the snapshot of shard {shard} has key {key} of another shard")]
    ImageForeignKey {
        /// The table.
        table: String,
        /// The snapshot's shard.
        shard: ShardId,
        /// The key.
        key: Key,
    },
    /// A shard whose rows and windows may disagree, since a fault ended an application half way.
    #[error("shard {shard} of job {job} broke while it was changed; restart this server")]
    Broken {
        /// The job.
        job: JobId,
        /// The shard.
        shard: ShardId,
    },
    /// A log that takes nothing for now, most likely since its disk is full.
    #[error(
        "the log cannot be written, and no push is taken until it can: {}: {source}; free space on \
         this server's disk",
        path.display()
    )]
    LogFull {
        /// The file.
        path: PathBuf,
        /// What the system says; shared by all that wait.
        source: Arc<std::io::Error>,
    },
    /// A log that will never be written again, since a sync of it failed.
    #[error(
        "the log could not be synced, and no push is taken any more: {}: {source}; check this \
         server's disk, then restart this server",
        path.display()
    )]
    LogFailed {
        /// The file or folder.
        path: PathBuf,
        /// What the system says; shared by all that wait.
        source: Arc<std::io::Error>,
    },
    /// An address that cannot be listened at.
    #[error("listening at {address} (`listen` in the config): {source}")]
    Listen {
        /// The address.
        address: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// A listener that failed.
    #[error("serving: {source}")]
    Serve {
        /// What the transport says.
        source: tonic::transport::Error,
    },
    /// A cluster that this server is not, or no longer, part of.
    #[error(transparent)]
    Left {
        /// Why.
        source: WireError,
    },
    /// A coordinator that says no, or nothing, to a question of a person.
    #[error("coordinator {address}: {source}")]
    Coordinator {
        /// Where it is.
        address: String,
        /// What it says, or what was noticed.
        source: WireError,
    },
    /// A checkpoint that was asked for and will never be in the store.
    #[error("checkpoint {checkpoint} of job `{job}` was given up: the job {why}")]
    NotSaved {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The job.
        job: String,
        /// What became of the job.
        why: &'static str,
    },
    /// A store of checkpoints of a kind that this program does not know.
    #[error(
        "checkpoint.store: this windlass-server knows no {scheme}:// stores; give a folder, or use a \
         build with the feature for it"
    )]
    NoStore {
        /// What stands before `://`.
        scheme: String,
    },
    /// A store of checkpoints that cannot be opened.
    #[error("checkpoint.store: {place}: {why}")]
    Store {
        /// The place.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// No checkpoint to look at.
    #[error("no {what} in {place}")]
    NoCheckpoint {
        /// What was asked for.
        what: String,
        /// The store.
        place: String,
    },
    /// Output that could not be written.
    #[error("writing the output: {source}")]
    Output {
        /// What the system says.
        source: std::io::Error,
    },
    /// A data folder that another process has.
    #[error(
        "data_dir {}: another server runs with it; stop that one, or give this one a folder of its own",
        folder.display()
    )]
    DataDirTaken {
        /// The folder.
        folder: PathBuf,
    },
    /// A system without random numbers.
    #[error("drawing a random number: {source}")]
    Random {
        /// What the system says.
        source: getrandom::Error,
    },
    /// Work that was given away and never answered: it panicked, or the server is ending.
    #[error("the work was dropped; is the server shutting down?")]
    WorkDropped,
}
