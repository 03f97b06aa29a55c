//! What must hold of a configuration: ranges and relations, each named by its dotted key.
//!
//! `train.rs` begins with a job as a whole, `data.rs` has its input, `model.rs` what fits a model,
//! `server.rs` a server, `address.rs` what an address is.

mod address;
mod data;
mod model;
mod server;
mod train;

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::ConfigError;

/// Refuses a key, saying why, unless the rule holds.
fn require<R: Into<String>>(
    holds: bool,
    key: &str,
    rule: impl FnOnce() -> R,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError::Invalid {
        key: key.into(),
        rule: rule().into(),
    })
}

fn require_within<T: PartialOrd + Display>(
    value: T,
    range: RangeInclusive<T>,
    key: &str,
) -> Result<(), ConfigError> {
    require(range.contains(&value), key, || {
        format!("{value} is not in {}..={}", range.start(), range.end())
    })
}
