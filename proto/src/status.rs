//! What a refusal is on the wire: its number, its gRPC code, and whether it may be tried again.
//! These three are decided here and nowhere else.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::error::{ErrorKind, WireError};
use crate::{limits, v1};

/// What tonic says of any trouble on the way; what it was lies below.
const UNNAMED: &str = "transport error";

/// The metadata key of a status that holds the number of the kind.
pub const METADATA: &str = "windlass-kind";

struct Facts {
    number: v1::ErrorKind,
    code: Code,
    retry: bool,
}

const fn facts(kind: ErrorKind) -> Facts {
    use v1::ErrorKind as Number;
    let (number, code, retry) = match kind {
        ErrorKind::Invalid => (Number::Invalid, Code::InvalidArgument, false),
        ErrorKind::Mismatch => (Number::Mismatch, Code::FailedPrecondition, false),
        ErrorKind::Version => (Number::Version, Code::Unimplemented, false),
        ErrorKind::UnknownJob => (Number::UnknownJob, Code::NotFound, false),
        ErrorKind::Moved => (Number::Moved, Code::Aborted, true),
        ErrorKind::NotExact => (Number::NotExact, Code::Aborted, true),
        ErrorKind::StaleLineage => (Number::StaleLineage, Code::FailedPrecondition, false),
        ErrorKind::TooLarge => (Number::TooLarge, Code::OutOfRange, false),
        ErrorKind::Damaged => (Number::Damaged, Code::DataLoss, false),
        ErrorKind::Busy => (Number::Busy, Code::ResourceExhausted, true),
        ErrorKind::Unavailable => (Number::Unavailable, Code::Unavailable, true),
        ErrorKind::Deadline => (Number::Deadline, Code::DeadlineExceeded, true),
        ErrorKind::Internal => (Number::Internal, Code::Internal, false),
    };
    Facts {
        number,
        code,
        retry,
    }
}

/// Finds the kind of a number; one that only a newer peer knows is a fault.
fn kind(number: i32) -> ErrorKind {
    use v1::ErrorKind as Number;
    match Number::try_from(number).unwrap_or_default() {
        Number::Invalid => ErrorKind::Invalid,
        Number::Mismatch => ErrorKind::Mismatch,
        Number::Version => ErrorKind::Version,
        Number::UnknownJob => ErrorKind::UnknownJob,
        Number::Moved => ErrorKind::Moved,
        Number::NotExact => ErrorKind::NotExact,
        Number::StaleLineage => ErrorKind::StaleLineage,
        Number::TooLarge => ErrorKind::TooLarge,
        Number::Damaged => ErrorKind::Damaged,
        Number::Busy => ErrorKind::Busy,
        Number::Unavailable => ErrorKind::Unavailable,
        Number::Deadline => ErrorKind::Deadline,
        Number::Internal | Number::Unspecified => ErrorKind::Internal,
    }
}

impl ErrorKind {
    /// Whether the same request may succeed later: after a pause, and for
    /// [`Moved`](ErrorKind::Moved) with a new map.
    #[must_use]
    pub const fn may_be_retried(self) -> bool {
        facts(self).retry
    }
}

impl From<WireError> for Status {
    fn from(error: WireError) -> Self {
        let facts = facts(error.kind);
        let mut status = Status::new(facts.code, limits::text(error.message));
        let number = MetadataValue::from(facts.number as i32);
        status.metadata_mut().insert(METADATA, number);
        status
    }
}

impl From<Status> for WireError {
    /// Reads the kind exactly where the peer wrote it. A status without one is not the peer's word
    /// but the transport's (or a proxy's): then the code tells what it can.
    fn from(status: Status) -> Self {
        let number = status.metadata().get(METADATA);
        let kind = match number.and_then(|v| v.to_str().ok()?.parse().ok()) {
            Some(number) => kind(number),
            None => match status.code() {
                Code::InvalidArgument => ErrorKind::Invalid,
                Code::OutOfRange => ErrorKind::TooLarge,
                Code::Unimplemented => ErrorKind::Version,
                Code::DeadlineExceeded => ErrorKind::Deadline,
                // Also `Unknown`, `Internal` and `Cancelled`: so end streams whose connection broke.
                _ => ErrorKind::Unavailable,
            },
        };
        // The reason why a connection failed lies below the status.
        let mut message = status.message().to_owned();
        let mut cause = std::error::Error::source(&status);
        while let Some(inner) = cause {
            let said = inner.to_string();
            if message.is_empty() || message == UNNAMED {
                message = said;
            } else if said != UNNAMED && !message.contains(&said) {
                message = format!("{message}: {said}");
            }
            cause = inner.source();
        }
        WireError::new(kind, limits::text(message))
    }
}

impl From<WireError> for v1::Failure {
    fn from(error: WireError) -> Self {
        Self {
            kind: facts(error.kind).number.into(),
            message: limits::text(error.message),
        }
    }
}

impl From<v1::Failure> for WireError {
    fn from(failure: v1::Failure) -> Self {
        WireError::new(kind(failure.kind), limits::text(failure.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ErrorKind; 13] = [
        ErrorKind::Invalid,
        ErrorKind::Mismatch,
        ErrorKind::Version,
        ErrorKind::UnknownJob,
        ErrorKind::Moved,
        ErrorKind::NotExact,
        ErrorKind::StaleLineage,
        ErrorKind::TooLarge,
        ErrorKind::Damaged,
        ErrorKind::Busy,
        ErrorKind::Unavailable,
        ErrorKind::Deadline,
        ErrorKind::Internal,
    ];

    #[test]
    fn every_kind_survives_both_ways() {
        for kind in ALL {
            let error = WireError::new(kind, "why, with ünïcode");
            assert_eq!(WireError::from(Status::from(error.clone())), error);
            assert_eq!(WireError::from(v1::Failure::from(error.clone())), error);
        }
    }

    #[test]
    fn kinds_have_numbers_of_their_own() {
        let numbers: std::collections::BTreeSet<i32> =
            ALL.iter().map(|&k| facts(k).number as i32).collect();
        assert_eq!(numbers.len(), ALL.len());
        assert!(!numbers.contains(&0), "0 is for what is not said");
    }

    #[test]
    fn a_broken_connection_may_be_retried_and_a_bad_request_may_not() {
        let from = |code| WireError::from(Status::new(code, "")).kind;
        for code in [Code::Unavailable, Code::Unknown, Code::Cancelled] {
            assert!(from(code).may_be_retried(), "{code}");
        }
        for code in [Code::InvalidArgument, Code::OutOfRange, Code::Unimplemented] {
            assert!(!from(code).may_be_retried(), "{code}");
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("transport error")]
    struct Unnamed(#[source] std::io::Error);

    #[test]
    fn a_connection_that_fails_says_why_and_nothing_else() {
        let why = || std::io::Error::other("connection refused");
        let status = Status::from_error(Box::new(Unnamed(why())));
        assert_eq!(WireError::from(status).message, "connection refused");
        let status = Status::from_error(Box::new(why()));
        assert_eq!(WireError::from(status).message, "connection refused");
    }

    #[test]
    fn a_kind_of_the_future_is_not_retried() {
        let mut status = Status::new(Code::Unavailable, "");
        status.metadata_mut().insert(METADATA, 99.into());
        assert_eq!(WireError::from(status).kind, ErrorKind::Internal);
    }
}
