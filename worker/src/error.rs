//! What can go wrong in a worker.

use std::path::PathBuf;

use windlass_common::config::ConfigError;

/// A result of the worker.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of the worker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration that cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file that could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Input files that are not written as a glob.
    #[error("`{pattern}` is not a pattern of file names: {source}")]
    Pattern {
        /// The pattern, as the config has it.
        pattern: String,
        /// What is wrong with it.
        source: glob::PatternError,
    },
    /// A pattern of input files that names none.
    #[error("no file matches `{pattern}` in {}", folder.display())]
    NoMatch {
        /// The pattern, as the config has it.
        pattern: String,
        /// The folder that it is relative to: the config's.
        folder: PathBuf,
    },
    /// A file that is written to while it is read, or differs from what the job was started with.
    #[error(
        "{}: it has {found} bytes, but had {listed} when the input was listed; train on files \
         that nothing writes to",
        path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// Its length when it was listed.
        listed: u64,
        /// Its length now.
        found: u64,
    },
    /// A gzip file whose end is missing.
    #[error(
        "{}: the gzip stream is cut short after {text_bytes} bytes of text; copy the file again",
        path.display()
    )]
    CutShort {
        /// The file.
        path: PathBuf,
        /// How much text could be read.
        text_bytes: u64,
    },
    /// A gzip file with wrong bytes.
    #[error(
        "{}: the gzip stream is damaged after {text_bytes} bytes of text ({source}); copy the \
         file again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How much text could be read.
        text_bytes: u64,
        /// What the decoder says.
        source: std::io::Error,
    },
    /// A row that does not hold what its format says.
    #[error("{}:{line}:{column}: {what}", path.display())]
    BadRow {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The byte in the line, from 1.
        column: usize,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// A file without the line that names its columns.
    #[error("{}: it is empty, and its first line must name the columns", path.display())]
    NoHeader {
        /// The file.
        path: PathBuf,
    },
    /// A header that does not have as many names as the config gives it.
    #[error(
        "{}: its header names {found} columns, data.columns names {named}",
        path.display()
    )]
    HeaderLength {
        /// The file.
        path: PathBuf,
        /// Names in the header.
        found: usize,
        /// Names in the config.
        named: usize,
    },
    /// A column of the config that a file does not have.
    #[error(
        "{}: there is no column `{column}` ({key}); its columns are {columns}",
        path.display()
    )]
    UnknownColumn {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Where the config names it.
        key: &'static str,
        /// The columns that there are, those most like it first.
        columns: String,
    },
    /// A column of the config that a file has more than once.
    #[error("{}: two columns are named `{column}` ({key})", path.display())]
    AmbiguousColumn {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Where the config names it.
        key: &'static str,
    },
    /// A batch that is too large to be addressed.
    #[error(
        "{}: a batch of {examples} rows has {features} features, more than 2^31; lower \
         train.batch_size",
        path.display()
    )]
    BatchTooLarge {
        /// The file.
        path: PathBuf,
        /// Rows read for the batch so far.
        examples: usize,
        /// Their features.
        features: usize,
    },
    /// A read that goes on after it failed.
    #[error("{}: this read has failed before; open the split again", path.display())]
    ReadFailed {
        /// The file.
        path: PathBuf,
    },
    /// A split of a file that this worker does not list.
    #[error(
        "the job has a split of file {file}, this worker finds {files} files; is its data the same?"
    )]
    NoSuchFile {
        /// The file's place in the input.
        file: u32,
        /// How many there are.
        files: usize,
    },
    /// A schema, a format or a checkpoint that is not as it must be.
    #[error(transparent)]
    Common(#[from] windlass_common::Error),
    /// What the cluster refused, or a wait for it that ended.
    #[error(transparent)]
    Client(#[from] windlass_client::Error),
    /// Servers or workers that did not come, or not come back.
    #[error("gave up after {waited:.0?} (cluster.patience): {reason}")]
    WaitedInVain {
        /// What was waited for.
        reason: String,
        /// How long.
        waited: std::time::Duration,
    },
    /// Rows of another shape than the model's tables.
    #[error("the servers answered {got} floats for {keys} rows of {dim}")]
    Shape {
        /// Rows.
        keys: usize,
        /// Weights a row.
        dim: usize,
        /// Floats that came.
        got: usize,
    },
    /// Work that ended in a panic, which has been printed.
    #[error("{what} failed inside; please report what was printed above")]
    Panicked {
        /// What it was.
        what: &'static str,
    },
    /// A folder without a checkpoint.
    #[error("no checkpoint in {}; train first, or name one with --checkpoint", place.display())]
    NoCheckpoint {
        /// The folder.
        place: PathBuf,
    },
    /// An evaluation of nothing.
    #[error("nothing to score: name files in data.validation or data.test")]
    NothingToScore,
    /// A row of a counting job that holds something else.
    #[error(
        "row {key} holds {row:?}, which is no count: it passed 2^72, or was changed from outside; \
         count anew with --fresh"
    )]
    NoCount {
        /// The row.
        key: windlass_common::key::Key,
        /// Its weights.
        row: Vec<f32>,
    },
    /// A shard of a finished job that is not what it was at the job's end.
    #[error(
        "shard {shard} no longer holds all that the finished job counted: its server lost it; \
         read the counts from the checkpoint, or count anew with --fresh"
    )]
    Lost {
        /// The shard.
        shard: windlass_common::id::ShardId,
    },
    /// A system without random numbers.
    #[error("drawing a random number: {source}")]
    Random {
        /// What the system says.
        source: getrandom::Error,
    },
}

impl Error {
    /// Whether an input file is gone, cannot be read, or is not the one that was listed.
    #[must_use]
    pub fn is_of_input(&self) -> bool {
        matches!(
            self,
            Self::Io { .. } | Self::Changed { .. } | Self::CutShort { .. } | Self::Damaged { .. }
        )
    }
}
