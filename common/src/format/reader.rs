//! The bytes of a file, taken piece by piece, with the place of each.

use std::path::Path;

use super::FormatError;

/// Takes bytes from the front; every length is checked against what is there.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of a file's contents; `path` is for errors alone.
    pub(super) fn new(bytes: &'a [u8], path: &'a Path) -> Self {
        Self { path, bytes, at: 0 }
    }

    /// The file's name.
    pub(super) fn path(&self) -> &'a Path {
        self.path
    }

    /// The place of the next byte.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Describes damage at a place.
    pub(super) fn damaged(&self, at: usize, what: &'static str) -> FormatError {
        FormatError::Damaged {
            path: self.path.into(),
            offset: at as u64,
            what,
        }
    }

    /// Takes the next `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        match self.bytes[self.at..].get(..len) {
            Some(taken) => {
                self.at += len;
                Ok(taken)
            }
            None => Err(self.damaged(self.bytes.len(), "the file ends too early")),
        }
    }

    /// Takes the next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        match self.bytes[self.at..].first_chunk() {
            Some(taken) => {
                self.at += N;
                Ok(*taken)
            }
            None => Err(self.damaged(self.bytes.len(), "the file ends too early")),
        }
    }

    /// Takes a section of `len` bytes and the CRC-32 that follows it; `wrong` says what differs.
    pub(super) fn section(
        &mut self,
        len: usize,
        wrong: &'static str,
    ) -> Result<&'a [u8], FormatError> {
        let start = self.at;
        let section = self.take(len)?;
        if u32::from_le_bytes(self.array()?) != crc32fast::hash(section) {
            return Err(self.damaged(start, wrong));
        }
        Ok(section)
    }
}

/// Splits a section into little-endian words.
pub(super) fn words(section: &[u8]) -> impl Iterator<Item = u64> {
    let (words, _) = section.as_chunks();
    words.iter().map(|&word| u64::from_le_bytes(word))
}

/// Splits a section into little-endian numbers of four bytes.
pub(super) fn numbers(section: &[u8]) -> impl Iterator<Item = u32> {
    let (numbers, _) = section.as_chunks();
    numbers.iter().map(|&number| u32::from_le_bytes(number))
}

/// Splits a section into little-endian floats.
pub(super) fn floats(section: &[u8]) -> impl Iterator<Item = f32> {
    let (floats, _) = section.as_chunks();
    floats.iter().map(|&float| f32::from_le_bytes(float))
}

/// Appends a section, which `fill` writes, and its CRC-32.
pub(super) fn put_section(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    fill(out);
    let crc = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Appends little-endian floats.
pub(super) fn put_floats(floats: &[f32], out: &mut Vec<u8>) {
    const {
        assert!(
            cfg!(target_endian = "little"),
            "floats lie on disk as in memory"
        )
    };
    out.extend_from_slice(bytemuck::cast_slice(floats));
}
