//! Which shards a server's log is about without a gap: a small file beside its copies of shards.
//!
//! One header frame with magic `WL-HELDS` and version 1, whose payload is `Record` below; nothing
//! follows it.

use std::collections::BTreeMap;
use std::path::Path;

use bincode::{Decode, Encode};

use crate::id::{Lineage, ShardId};

use super::FormatError;
use super::header::Format;
use super::reader::Reader;

/// Far above 4,096 shards of 10 bytes.
const MAX_BYTES: usize = 1 << 20;

/// The largest file, with its frame.
pub const MAX_HELD_BYTES: u64 = MAX_BYTES as u64 + 18;

const FORMAT: Format<MAX_BYTES> = Format {
    magic: *b"WL-HELDS",
    version: 1,
    other: "this is not a list of held shards",
};

/// The shards of one job that a log is about from their beginning on, and the lineage of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldShards(pub BTreeMap<ShardId, Lineage>);

#[derive(Encode, Decode)]
struct Record {
    /// Shard and lineage.
    shards: Vec<(u16, u64)>,
}

impl HeldShards {
    /// Writes the list.
    ///
    /// # Errors
    /// [`FormatError::HeaderTooLong`] for more shards than a job may have.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let shards = self.0.iter().map(|(shard, lineage)| (shard.0, lineage.0));
        FORMAT.encode(&Record {
            shards: shards.collect(),
        })
    }

    /// Reads a list; `name` is the file's, for errors.
    ///
    /// # Errors
    /// [`FormatError`] with the file's name, for any byte that is not as it was written.
    pub fn decode(bytes: &[u8], name: &Path) -> Result<Self, FormatError> {
        let mut reader = Reader::new(bytes, name);
        let record: Record = FORMAT.decode(&mut reader)?;
        if reader.left() > 0 {
            return Err(reader.damaged(reader.at(), "bytes follow the end of the list"));
        }
        let shards = record.shards.into_iter();
        Ok(Self(
            shards.map(|(s, l)| (ShardId(s), Lineage(l))).collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_every_change_is_found() {
        let held = HeldShards(BTreeMap::from([
            (ShardId(0), Lineage(1)),
            (ShardId(300), Lineage(7)),
        ]));
        let bytes = held.encode().unwrap();
        let read = |bytes: &[u8]| HeldShards::decode(bytes, Path::new("here/held"));
        assert_eq!(read(&bytes).unwrap(), held);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(
                read(&damaged)
                    .unwrap_err()
                    .to_string()
                    .contains("here/held")
            );
            assert!(read(&bytes[..at]).is_err());
        }
        assert!(read(&[&bytes[..], &[0]].concat()).is_err());
    }
}
