//! What can be wrong with a file of a checkpoint or of a log.

use std::path::PathBuf;

use crate::id::ShardId;

/// A file that is not what it should be: always with its name, and the place where there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes are not those that were written.
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What was expected there.
        what: &'static str,
    },
    /// The file is whole, and of a version that this program does not know.
    #[error(
        "{} has version {found} (at byte {offset}), this windlass reads {known}; use a newer windlass",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Where the version stands.
        offset: u64,
        /// The file's version.
        found: u16,
        /// The version that is understood.
        known: u16,
    },
    /// A shard file has a column that this program does not know.
    #[error(
        "{}: table {table} has a column of kind {kind} (in the header at byte 0), this windlass \
         knows kinds 1 to 4; use a newer windlass",
        path.display()
    )]
    UnknownColumn {
        /// The file.
        path: PathBuf,
        /// The table's place.
        table: usize,
        /// The column's kind.
        kind: u16,
    },
    /// A log has a record that this program does not know.
    #[error(
        "{}: the record at byte {offset} is of kind {kind} with flags {flags}, this windlass knows \
         kind 1 with flags 0 and 1; use a newer windlass",
        path.display()
    )]
    UnknownRecord {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// The record's kind.
        kind: u16,
        /// The record's flags.
        flags: u16,
    },
    /// A file of a log that must be there, since later ones say so.
    #[error("{} is missing: the log has segments before it and after it", path.display())]
    MissingSegment {
        /// The file.
        path: PathBuf,
    },
    /// A record that no reader would accept.
    #[error(
        "a push of {bytes} bytes in one shard: at most {limit} fit in the log; push fewer keys"
    )]
    RecordTooLong {
        /// How long it would be.
        bytes: u64,
        /// How long it may be.
        limit: u64,
    },
    /// A shard file holds another shard than the one that was expected.
    #[error("{} holds shard {found}, not shard {expected}", path.display())]
    WrongShard {
        /// The file.
        path: PathBuf,
        /// The shard that it holds.
        found: ShardId,
        /// The shard that it should hold.
        expected: ShardId,
    },
    /// A manifest whose parts do not fit together, or are beyond what is known.
    #[error("{}: {rule}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The rule that is broken.
        rule: String,
    },
    /// A coordinator's state whose parts do not fit together.
    #[error("{}: {rule}; without this file the cluster forgets its jobs", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// The rule that is broken.
        rule: String,
    },
    /// A header that no reader would accept.
    #[error("a header of {bytes} bytes: at most {limit} can be read back")]
    HeaderTooLong {
        /// How long it would be.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A file that a manifest lists is not there.
    #[error("{} is missing", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A folder that is no checkpoint, since no manifest was put into it.
    #[error("{} has no manifest: the checkpoint was never finished", path.display())]
    Unpublished {
        /// The folder.
        path: PathBuf,
    },
    /// A file that a server wrote is not where the manifest is to be.
    #[error(
        "shard {shard}: its server wrote {}, and it is not there for the server that publishes the \
         checkpoint; all servers must reach the same store: set `checkpoint.store` of each to it",
        path.display()
    )]
    NotInStore {
        /// The file.
        path: PathBuf,
        /// The shard.
        shard: ShardId,
    },
    /// A whole file that is not the one its place in a checkpoint asks for.
    #[error("{} {rule}", path.display())]
    Misfit {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        rule: String,
    },
    /// A checkpoint has no such shard.
    #[error("{}: no shard {shard}, the job has {shards}", path.display())]
    NoShard {
        /// The manifest.
        path: PathBuf,
        /// What was asked for.
        shard: ShardId,
        /// How many there are.
        shards: usize,
    },
    /// A checkpoint's name that would not be a plain folder of its root.
    #[error("checkpoint name `{name}`: must be a plain file name that does not begin with a dot")]
    Name {
        /// The name.
        name: String,
    },
}
