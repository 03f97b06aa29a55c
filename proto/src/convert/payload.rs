//! Keys and floats as bytes: little-endian, without padding.
//!
//! Out, the bytes are those of the numbers in place, not copied. In, they are copied once, because
//! what was received need not be aligned.

use std::sync::Arc;

use bytemuck::Pod;
use bytes::Bytes;
use windlass_common::key::Key;
use windlass_common::shard::ShardedKeys;

use crate::error::WireError;
use crate::limits::invalid;

/// A number whose bytes travel.
trait Number: Pod {
    /// Turns the byte order around where the machine's is not that of the wire.
    fn swap_if_big_endian(self) -> Self;
}

impl Number for f32 {
    fn swap_if_big_endian(self) -> Self {
        f32::from_bits(u32::from_le(self.to_bits()))
    }
}

impl Number for Key {
    fn swap_if_big_endian(self) -> Self {
        Key(u64::from_le(self.0))
    }
}

fn swap_in_place<T: Number>(numbers: &mut [T]) {
    if cfg!(target_endian = "big") {
        for number in numbers {
            *number = number.swap_if_big_endian();
        }
    }
}

/// Owns numbers while their bytes are sent.
struct Owned(Vec<f32>);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// Shares keys while their bytes are sent.
struct Shared(Arc<ShardedKeys>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(self.0.keys())
    }
}

/// Gives floats as bytes.
pub(super) fn from_floats(mut floats: Vec<f32>) -> Bytes {
    swap_in_place(&mut floats);
    Bytes::from_owner(Owned(floats))
}

/// Gives keys as bytes.
pub(super) fn from_keys(keys: &Arc<ShardedKeys>) -> Bytes {
    if cfg!(target_endian = "big") {
        let mut swapped = keys.keys().to_vec();
        swap_in_place(&mut swapped);
        return Bytes::copy_from_slice(bytemuck::cast_slice(&swapped));
    }
    Bytes::from_owner(Shared(Arc::clone(keys)))
}

/// Reads numbers; they take as much memory as the bytes that have come.
fn numbers<T: Number>(field: &str, bytes: &[u8]) -> Result<Vec<T>, WireError> {
    let size = size_of::<T>();
    if !bytes.len().is_multiple_of(size) {
        return Err(invalid(
            field,
            format_args!("{} bytes, must be a multiple of {size}", bytes.len()),
        ));
    }
    let mut numbers = vec![T::zeroed(); bytes.len() / size];
    bytemuck::cast_slice_mut(&mut numbers).copy_from_slice(bytes);
    swap_in_place(&mut numbers);
    Ok(numbers)
}

/// Reads floats.
pub(super) fn to_floats(field: &str, bytes: &[u8]) -> Result<Vec<f32>, WireError> {
    numbers(field, bytes)
}

/// Reads keys.
pub(super) fn to_keys(field: &str, bytes: &[u8]) -> Result<Vec<Key>, WireError> {
    numbers(field, bytes)
}

#[cfg(test)]
mod tests {
    use windlass_common::shard::ShardCount;

    use super::*;

    #[test]
    fn numbers_are_little_endian() {
        assert_eq!(
            from_floats(vec![1.0, -2.0])[..],
            [0, 0, 128, 63, 0, 0, 0, 192]
        );
        let (keys, _) = ShardedKeys::group(&[Key(0x0102)], ShardCount::default());
        assert_eq!(from_keys(&Arc::new(keys))[..], [2, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn bytes_at_any_alignment_are_read() {
        let bytes = [9, 0, 0, 128, 63, 0, 0, 0, 192, 9, 9, 9, 9];
        for start in 0..4 {
            let mut moved = vec![0; start];
            moved.extend_from_slice(&bytes[1..9]);
            assert_eq!(to_floats("x", &moved[start..]), Ok(vec![1.0, -2.0]));
        }
        let error = to_keys("push.sets.keys", &bytes).unwrap_err();
        assert_eq!(
            error.message,
            "push.sets.keys: 13 bytes, must be a multiple of 8"
        );
    }
}
