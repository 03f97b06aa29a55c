//! How long what comes from outside may be. Each length is checked before memory is taken for it.

use windlass_common::id::{Seq, ShardId, SourceId};
use windlass_common::shard::ShardCount;

use crate::error::{ErrorKind, WireError};

/// Sets of keys in one pull or push.
pub const SETS: usize = windlass_common::schema::MAX_TABLES;
/// Tables in one pull or push.
pub const TABLES: usize = windlass_common::schema::MAX_TABLES;
/// Shards in any list.
pub const SHARDS: usize = ShardCount::MAX as usize;
/// Bytes of a name or an address.
pub const NAME: usize = 1024;
/// Bytes of a message for the user; a longer one is cut when it is sent.
pub const TEXT: usize = 4096;
/// Bytes of a job's config.
pub const CONFIG: usize = 1 << 20;
/// Input files in one list.
pub const FILES: usize = 65_536;
/// Epochs in a history.
pub const EPOCHS: usize = 65_536;
/// Metrics of one kind of one epoch.
pub const METRICS: usize = 64;
/// Bins of scores in a tally.
pub const BINS: usize = 65_536;
/// Ranges of complete sources, and begun sources, of one shard.
pub const RANGES: usize = 65_536;
/// Jobs in a report or an assignment.
pub const JOBS: usize = 4096;
/// Servers in a map.
pub const SERVERS: usize = 65_536;
/// Numbers of sources and pushes are below this, so that sums of them stay far from overflow.
pub const NUMBERS: u64 = 1 << 63;

/// What both ends of a connection keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of one message, `64 KiB..=4 MiB`. 4 MiB: as much memory as the decoder takes
    /// before a message is known to be whole.
    pub message: usize,
    /// The most bytes of a shard's snapshot. 4 GiB: a job of 256 shards is then 1 TiB.
    pub snapshot: u64,
}

impl Limits {
    /// The smallest limit on a message.
    pub const MIN_MESSAGE: usize = 64 << 10;
    /// The largest limit on a message, which is also the default of gRPC libraries.
    pub const MAX_MESSAGE: usize = 4 << 20;

    /// Limits messages to `bytes`, or to the nearest value that is allowed.
    #[must_use]
    pub fn with_message(bytes: usize) -> Self {
        Self {
            message: bytes.clamp(Self::MIN_MESSAGE, Self::MAX_MESSAGE),
            ..Self::default()
        }
    }

    /// How many bytes of payload to aim at: at most 1 MiB, where throughput is best, and at most
    /// half a message, so that there is room for what surrounds the payload.
    #[must_use]
    pub fn chunk(&self) -> usize {
        (self.message / 2).min(1 << 20)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: Self::MAX_MESSAGE,
            snapshot: 4 << 30,
        }
    }
}

/// Says which field breaks which rule.
pub(crate) fn invalid(field: &str, rule: impl std::fmt::Display) -> WireError {
    WireError::new(ErrorKind::Invalid, format!("{field}: {rule}"))
}

/// Checks the length of a list.
pub(crate) fn at_most(field: &str, count: usize, limit: usize) -> Result<(), WireError> {
    if count <= limit {
        Ok(())
    } else {
        Err(invalid(
            field,
            format_args!("{count} entries, at most {limit} are allowed"),
        ))
    }
}

/// Checks the length of a string.
pub(crate) fn name(field: &str, text: String) -> Result<String, WireError> {
    at_most(field, text.len(), NAME)?;
    Ok(text)
}

/// Checks the length of a job's config.
pub(crate) fn config(field: &str, text: String) -> Result<String, WireError> {
    at_most(field, text.len(), CONFIG)?;
    Ok(text)
}

/// Takes a SHA-256.
pub(crate) fn digest(field: &str, bytes: &[u8]) -> Result<[u8; 32], WireError> {
    bytes
        .try_into()
        .map_err(|_| invalid(field, format_args!("{} bytes, must be 32", bytes.len())))
}

/// Cuts a message for the user at a character's border.
pub(crate) fn text(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT));
    text
}

/// Takes the number of a shard.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a number that no shard has.
pub fn shard(field: &str, number: u32) -> Result<ShardId, WireError> {
    match u16::try_from(number) {
        Ok(shard) if number < ShardCount::MAX => Ok(ShardId(shard)),
        _ => Err(invalid(
            field,
            format_args!("{number} is not below {}", ShardCount::MAX),
        )),
    }
}

/// Takes a list of shards in strictly ascending order.
pub(crate) fn shards(field: &str, numbers: &[u32]) -> Result<Vec<ShardId>, WireError> {
    at_most(field, numbers.len(), SHARDS)?;
    if numbers.windows(2).any(|w| w[0] >= w[1]) {
        return Err(invalid(field, "shards must ascend strictly"));
    }
    numbers.iter().map(|&n| shard(field, n)).collect()
}

/// Takes the number of a source.
pub(crate) fn source(field: &str, number: u64) -> Result<SourceId, WireError> {
    below_2_63(field, number).map(SourceId)
}

/// Takes the place of a push in its source.
pub(crate) fn seq(field: &str, number: u64) -> Result<Seq, WireError> {
    below_2_63(field, number).map(Seq)
}

pub(crate) fn below_2_63(field: &str, number: u64) -> Result<u64, WireError> {
    if number < NUMBERS {
        Ok(number)
    } else {
        Err(invalid(field, format_args!("{number} is not below 2^63")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_room_for_a_chunk_and_what_surrounds_it() {
        for bytes in [0, 64 << 10, 1 << 20, 3 << 20, 4 << 20, usize::MAX] {
            let limits = Limits::with_message(bytes);
            assert!((64 << 10..=4 << 20).contains(&limits.message), "{bytes}");
            assert!(limits.chunk() <= limits.message / 2, "{bytes}");
            assert!(limits.chunk() <= 1 << 20, "{bytes}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let cut = text("é".repeat(TEXT));
        assert_eq!(cut.len(), TEXT);
        assert_eq!(text(format!("a{cut}")).len(), TEXT - 1);
        assert_eq!(text("short".into()), "short");
    }
}
