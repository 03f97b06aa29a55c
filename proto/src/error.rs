//! The one error that crosses the wire.

/// What kind of refusal it is; code and retry follow from it in `status.rs` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request breaks a rule: a length, a number that is not finite, a shard out of range.
    Invalid,
    /// The request and the servers disagree: schema, recipe, finished job.
    Mismatch,
    /// The two sides speak no common protocol version.
    Version,
    /// No such job (any more).
    UnknownJob,
    /// A shard is not this server's, or not yet.
    Moved,
    /// A shard does not hold exactly what an evaluation asked for.
    NotExact,
    /// The state was restored to another moment since.
    StaleLineage,
    /// A message, or what it asks for, is beyond the limits.
    TooLarge,
    /// Bytes that must be a snapshot are not.
    Damaged,
    /// The server cannot take it now.
    Busy,
    /// The server cannot be reached.
    Unavailable,
    /// No answer in time.
    Deadline,
    /// A fault of the program.
    Internal,
}

/// A refusal, with a message that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WireError {
    /// The kind.
    pub kind: ErrorKind,
    /// One line for the user.
    pub message: String,
}

impl WireError {
    /// Builds a refusal.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}
