//! What can be wrong with the vocabulary itself.

use std::path::PathBuf;

/// Errors of ids, schemas, configuration and formats.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A count of shards that no job may have.
    #[error("{count} shards: must be a power of two from 1 to 4096")]
    ShardCount {
        /// What was asked for.
        count: u32,
    },
    /// Groups of keys that break their contract.
    #[error("keys grouped by shard: {rule}")]
    ShardedKeys {
        /// The rule that is broken.
        rule: &'static str,
    },
    /// Ranges that are empty, overlap or touch.
    #[error("ranges of a set must be non-empty, ascending and apart")]
    Intervals,
    /// A table that no server could hold.
    #[error("table `{table}`: {rule}")]
    Schema {
        /// The table's name.
        table: String,
        /// The rule that is broken.
        rule: String,
    },
    /// A worker's idea of a job differs from what the servers hold.
    #[error(
        "{what}: this config says {asked}, the servers hold {held}; change the config back, name \
         another job, or start anew with --fresh"
    )]
    SchemaMismatch {
        /// What differs.
        what: String,
        /// The worker's side.
        asked: String,
        /// The servers' side.
        held: String,
    },
    /// A worker's input, or how it is cut into batches, differs from the job's.
    #[error(
        "{what}: this config says {asked}, the job has {held}; change the config back, name \
         another job, or start anew with --fresh"
    )]
    RecipeMismatch {
        /// What differs.
        what: String,
        /// The worker's side.
        asked: String,
        /// The job's side.
        held: String,
    },
    /// A configuration that cannot be used.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// A file of a checkpoint that is not whole.
    #[error(transparent)]
    Format(#[from] crate::format::FormatError),
    /// A name that no stored object may have.
    #[error("object name `{name}`: must be plain names separated by `/`, none with a dot in front")]
    ObjectName {
        /// The name.
        name: String,
    },
    /// A file that could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether it says that a checkpoint is under way or was given up, which is no damage.
    #[must_use]
    pub fn is_unpublished(&self) -> bool {
        matches!(
            self,
            Self::Format(crate::format::FormatError::Unpublished { .. })
        )
    }
}
