//! How a server's errors are said on the wire.

use windlass_common::format::FormatError;
use windlass_proto::{ErrorKind, WireError};

use super::Error;

impl Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Common(
                windlass_common::Error::SchemaMismatch { .. }
                | windlass_common::Error::RecipeMismatch { .. },
            )
            | Self::ImageMismatch { .. }
            | Self::BeyondEnd { .. } => ErrorKind::Mismatch,
            Self::Common(windlass_common::Error::Format(FormatError::RecordTooLong { .. }))
            | Self::TableFull { .. }
            | Self::PullTooLarge { .. } => ErrorKind::TooLarge,
            Self::Common(windlass_common::Error::Format(_))
            | Self::Replay { .. }
            | Self::ImageOfOther { .. }
            | Self::ImageIsDelta { .. }
            | Self::ImageRows { .. }
            | Self::ImageKeyTwice { .. }
            | Self::ImageForeignKey { .. } => ErrorKind::Damaged,
            // The disk or the store may come back.
            Self::Common(windlass_common::Error::Io { .. }) => ErrorKind::Unavailable,
            Self::Common(_)
            | Self::NoSuchShard { .. }
            | Self::NotFinite { .. }
            | Self::NoCount { .. }
            | Self::NoSuchTable { .. }
            | Self::NoSuchSet { .. }
            | Self::NoCheckpoint { .. }
            | Self::OtherShards { .. }
            | Self::GradientLength { .. }
            | Self::Push { .. } => ErrorKind::Invalid,
            // A server may hear of a new job after the job's workers: they ask the coordinator, who
            // alone knows whether a job is none.
            Self::UnknownJob { .. } | Self::Moved { .. } => ErrorKind::Moved,
            Self::NotExact { .. } => ErrorKind::NotExact,
            Self::StaleLineage { .. } | Self::RestoreTooLate { .. } => ErrorKind::StaleLineage,
            Self::TooManyOpen { .. } | Self::LogFull { .. } => ErrorKind::Busy,
            // A restart cures it: workers go on asking for as long as they would for a dead server.
            Self::LogFailed { .. } => ErrorKind::Unavailable,
            Self::Broken { .. }
            | Self::Listen { .. }
            | Self::Serve { .. }
            | Self::Left { .. }
            | Self::Coordinator { .. }
            | Self::NotSaved { .. }
            | Self::Random { .. }
            | Self::DataDirTaken { .. }
            | Self::NoStore { .. }
            | Self::Store { .. }
            | Self::Output { .. }
            | Self::WorkDropped => ErrorKind::Internal,
        }
    }
}

impl From<Error> for WireError {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}
