//! Snapshots in chunks: cut without a copy, put together without trust.

use bytes::Bytes;

use crate::error::{ErrorKind, WireError};
use crate::limits::{Limits, invalid};
use crate::v1::Chunk;

/// Cuts a snapshot into chunks of at most `chunk` bytes; an empty one is one empty chunk.
pub fn cut(snapshot: Vec<u8>, chunk: usize) -> impl Iterator<Item = Chunk> + Send + 'static {
    let whole = Bytes::from(snapshot);
    let step = chunk.max(1);
    (0..whole.len().div_ceil(step).max(1)).map(move |i| {
        let start = i * step;
        Chunk {
            offset: start as u64,
            data: whole.slice(start..whole.len().min(start + step)),
            total: whole.len() as u64,
        }
    })
}

/// Puts a snapshot together.
///
/// Memory grows with the bytes that have come, not with those that were promised.
#[derive(Debug)]
pub struct Assembly {
    total: u64,
    bytes: Vec<u8>,
}

impl Assembly {
    /// Starts a snapshot of `total` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] beyond the limit.
    pub fn new(total: u64, limits: &Limits) -> Result<Self, WireError> {
        if total > limits.snapshot {
            return Err(WireError::new(
                ErrorKind::TooLarge,
                format!(
                    "a snapshot of {total} bytes, at most {} are allowed; give the job more shards",
                    limits.snapshot
                ),
            ));
        }
        Ok(Self {
            total,
            bytes: Vec::new(),
        })
    }

    /// Adds the next chunk.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it is not the next one, or of another snapshot.
    pub fn add(&mut self, chunk: &Chunk) -> Result<(), WireError> {
        let length = self.bytes.len() as u64;
        if chunk.offset != length || chunk.total != self.total {
            return Err(invalid(
                "chunk.offset",
                format_args!(
                    "{} of {}, expected {length} of {}",
                    chunk.offset, chunk.total, self.total
                ),
            ));
        }
        if chunk.data.len() as u64 > self.total - length {
            return Err(invalid("chunk.data", "goes beyond the total"));
        }
        self.bytes.extend_from_slice(&chunk.data);
        Ok(())
    }

    /// Ends the snapshot.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`] if bytes are missing.
    pub fn finish(self) -> Result<Vec<u8>, WireError> {
        if self.bytes.len() as u64 == self.total {
            return Ok(self.bytes);
        }
        Err(WireError::new(
            ErrorKind::Damaged,
            format!(
                "the snapshot ended after {} of {} bytes; ask for it again",
                self.bytes.len(),
                self.total
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_cut_is_put_together(
            snapshot in prop::collection::vec(any::<u8>(), 0..100),
            chunk in 1usize..40,
        ) {
            let mut assembly = Assembly::new(snapshot.len() as u64, &Limits::default()).unwrap();
            for piece in cut(snapshot.clone(), chunk) {
                prop_assert!(piece.data.len() <= chunk);
                assembly.add(&piece).unwrap();
            }
            prop_assert_eq!(assembly.finish().unwrap(), snapshot);
        }
    }

    #[test]
    fn chunks_that_are_missing_doubled_or_too_many_are_refused() {
        let limits = Limits::default();
        let chunks: Vec<_> = cut(vec![7; 10], 4).collect();
        let start = || Assembly::new(10, &limits).unwrap();

        let mut doubled = start();
        doubled.add(&chunks[0]).unwrap();
        assert_eq!(
            doubled.add(&chunks[0]).unwrap_err().kind,
            ErrorKind::Invalid
        );

        let mut cut_short = start();
        cut_short.add(&chunks[0]).unwrap();
        assert_eq!(cut_short.finish().unwrap_err().kind, ErrorKind::Damaged);

        let long = Chunk {
            data: vec![0; 11].into(),
            ..chunks[0].clone()
        };
        assert_eq!(start().add(&long).unwrap_err().kind, ErrorKind::Invalid);

        let promised = Assembly::new(limits.snapshot + 1, &limits).unwrap_err();
        assert_eq!(promised.kind, ErrorKind::TooLarge);
    }
}
