//! Messages to the vocabulary and back: out without checks, in with every check.
//!
//! What comes from outside is a `TryFrom` whose error has kind
//! [`Invalid`](crate::ErrorKind::Invalid) and names the field. Reading order: `payload` (bytes of
//! keys and floats), `data` (pulls and pushes), then the control plane: `job`, `history`, `task`,
//! `cluster`, `saving`; and `status` for people.

mod cluster;
mod data;
mod history;
mod job;
mod payload;
mod saving;
mod status;
mod task;

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::error::WireError;
use crate::limits::invalid;

/// Takes a message that must be there.
fn required<T>(field: &str, message: Option<T>) -> Result<T, WireError> {
    message.ok_or_else(|| invalid(field, "is missing"))
}

/// Whole milliseconds, rounded up, so that a short time never becomes none.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
