//! A shard's image to the bytes of a checkpoint's shard file, and back.

use std::path::Path;

use windlass_common::format::{self, ShardImage};
use windlass_common::id::ShardId;
use windlass_proto::{ErrorKind, WireError};

/// Encodes an image.
pub(crate) fn encode(image: &ShardImage) -> Vec<u8> {
    format::encode_shard(image)
}

/// Decodes an image that came from a client. The shard is the one that it is for; errors name it.
pub(crate) fn decode(bytes: &[u8], shard: ShardId) -> Result<ShardImage, WireError> {
    let name = format!("snapshot of shard {shard}");
    format::decode_shard(bytes, Path::new(&name))
        .map_err(|error| WireError::new(ErrorKind::Damaged, error.to_string()))
}
