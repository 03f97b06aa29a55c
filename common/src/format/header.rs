//! The frame at the start of every file: the only module that calls bincode.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic |
//! | 8..10 | version, `u16` |
//! | 10..14 | length of the payload, `u32` |
//! | 14..18 | CRC-32 of bytes 0..14 and the payload, `u32` |
//! | 18.. | the payload |
//!
//! Numbers are little-endian. The checksum covers the version and the length too, so that damage
//! there is told as damage and never as "a newer version". The frame's own shape is the same in
//! every version.
//!
//! The payload is a struct in bincode's standard form with fixed integers: fields in order; a
//! sequence, map or string is a `u64` count and its elements; a `bool` is one byte. Decoding has
//! a limit, which bounds memory even if someone computes a checksum for a hostile file: without one,
//! 17 bytes can ask for more memory than there is and abort the process. It is the format's, or a
//! lower one that is enough for a payload of that length.

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use bincode::{Decode, Encode};

use super::FormatError;
use super::reader::Reader;

/// A payload of 64 KiB or less decodes to no more than this, and one of 4 MiB or less to no more than
/// the next. A value takes up to four times the bytes that it is written in: a string is three
/// words, of which one is written; 16 leaves room.
const SMALL: usize = 1 << 20;
const MEDIUM: usize = 64 << 20;
/// How many times a payload its limit is, at least.
const TIMES: usize = 16;

/// What tells a format from others; `LIMIT` bounds a payload and the memory that it decodes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format<const LIMIT: usize> {
    /// The first bytes.
    pub magic: [u8; 8],
    /// The version that is written, and the only one that is read.
    pub version: u16,
    /// What to say if the magic differs.
    pub other: &'static str,
}

/// Where the version stands in a frame.
const VERSION_AT: usize = 8;
/// Where the length stands in a frame.
const LENGTH_AT: usize = 10;

impl<const LIMIT: usize> Format<LIMIT> {
    /// Frames a payload.
    ///
    /// # Errors
    /// [`FormatError::HeaderTooLong`] above the limit.
    pub(super) fn encode<T: Encode>(&self, payload: &T) -> Result<Vec<u8>, FormatError> {
        #[expect(
            clippy::expect_used,
            reason = "writing plain structs to a vector cannot fail; the limit is for decoding"
        )]
        let payload = bincode::encode_to_vec(payload, config::<LIMIT>())
            .expect("structs of integers, floats, strings and sequences are encodable");
        let length = match u32::try_from(payload.len()) {
            Ok(length) if payload.len() <= LIMIT => length,
            _ => {
                return Err(FormatError::HeaderTooLong {
                    bytes: payload.len(),
                    limit: LIMIT,
                });
            }
        };
        let mut frame = self.magic.to_vec();
        frame.extend_from_slice(&self.version.to_le_bytes());
        frame.extend_from_slice(&length.to_le_bytes());
        let crc = checksum(&frame, &payload);
        frame.extend_from_slice(&crc.to_le_bytes());
        frame.extend_from_slice(&payload);
        Ok(frame)
    }

    /// Takes a frame and decodes its payload, all of it.
    ///
    /// # Errors
    /// [`FormatError::Damaged`] with the place, [`FormatError::Version`] for a whole frame of
    /// another version.
    pub(super) fn decode<T: Decode<()>>(&self, reader: &mut Reader<'_>) -> Result<T, FormatError> {
        let start = reader.at();
        let mut before = reader.clone();
        let magic: [u8; 8] = reader.array()?;
        if magic != self.magic {
            return Err(reader.damaged(start, self.other));
        }
        let version = u16::from_le_bytes(reader.array()?);
        let length = u32::from_le_bytes(reader.array()?) as usize;
        let crc = u32::from_le_bytes(reader.array()?);
        if length > LIMIT || length > reader.left() {
            let what = "the header is longer than the file, or than any header";
            return Err(reader.damaged(start + LENGTH_AT, what));
        }
        let payload = reader.take(length)?;
        if crc != checksum(before.take(LENGTH_AT + 4)?, payload) {
            return Err(reader.damaged(start, "the header's checksum differs"));
        }
        if version != self.version {
            return Err(FormatError::Version {
                path: reader.path().into(),
                offset: (start + VERSION_AT) as u64,
                found: version,
                known: self.version,
            });
        }
        let decoded = if length <= SMALL.min(LIMIT) / TIMES {
            bincode::decode_from_slice(payload, config::<SMALL>())
        } else if length <= MEDIUM.min(LIMIT) / TIMES {
            bincode::decode_from_slice(payload, config::<MEDIUM>())
        } else {
            bincode::decode_from_slice(payload, config::<LIMIT>())
        };
        match decoded {
            Ok((value, taken)) if taken == length => Ok(value),
            _ => Err(reader.damaged(start, "the header is not made of the fields it should have")),
        }
    }
}

const fn config<const LIMIT: usize>() -> Configuration<LittleEndian, Fixint, Limit<LIMIT>> {
    bincode::config::standard()
        .with_little_endian()
        .with_fixed_int_encoding()
        .with_limit::<LIMIT>()
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const OLD: Format<64> = Format {
        magic: *b"WL-TESTS",
        version: 1,
        other: "another file",
    };
    const NEW: Format<64> = Format { version: 2, ..OLD };

    fn decode(bytes: &[u8]) -> Result<Vec<u8>, FormatError> {
        OLD.decode(&mut Reader::new(bytes, Path::new("x")))
    }

    #[test]
    fn a_whole_frame_of_a_newer_version_is_named_so() {
        let newer = NEW.encode(&vec![7u8]).unwrap();
        assert!(matches!(
            decode(&newer),
            Err(FormatError::Version {
                offset: 8,
                found: 2,
                known: 1,
                ..
            })
        ));
    }

    #[test]
    fn a_damaged_version_is_damage() {
        let mut bytes = OLD.encode(&vec![7u8]).unwrap();
        bytes[8] ^= 2;
        assert!(matches!(
            decode(&bytes),
            Err(FormatError::Damaged { offset: 0, .. })
        ));
    }

    #[test]
    fn a_payload_beyond_the_limit_is_not_written() {
        assert!(OLD.encode(&vec![0u8; 56]).is_ok());
        assert!(matches!(
            OLD.encode(&vec![0u8; 57]),
            Err(FormatError::HeaderTooLong {
                bytes: 65,
                limit: 64
            })
        ));
    }

    /// The count of a sequence says 2^60: with a good checksum, and without bytes behind it.
    #[test]
    fn a_hostile_count_takes_no_memory() {
        let hostile = OLD.encode(&(1u64 << 60)).unwrap();
        assert!(matches!(decode(&hostile), Err(FormatError::Damaged { .. })));
    }

    /// Strings take most memory for their bytes.
    #[test]
    fn a_payload_of_any_length_is_within_its_limit() {
        const LARGE: Format<{ 256 << 20 }> = Format {
            magic: *b"WL-TESTS",
            version: 1,
            other: "another file",
        };
        for count in [0, 1, 1 << 12, 1 << 13, 1 << 14, 1 << 19, 1 << 20] {
            let good = vec![String::new(); count];
            let bytes = LARGE.encode(&good).unwrap();
            let mut reader = Reader::new(&bytes, Path::new("x"));
            assert_eq!(LARGE.decode::<Vec<String>>(&mut reader).unwrap(), good);
        }
    }

    #[test]
    fn bytes_after_the_fields_are_refused() {
        let longer = OLD.encode(&(vec![1u8], 2u8)).unwrap();
        assert!(matches!(decode(&longer), Err(FormatError::Damaged { .. })));
    }
}
