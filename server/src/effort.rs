//! How much work a request is, and where it is to be done.

/// The rows and floats that a request reads or changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effort {
    rows: u64,
    floats: u64,
}

impl Effort {
    /// Adds so many rows of `dim` floats.
    pub(crate) fn add(&mut self, rows: usize, dim: usize) {
        self.rows += rows as u64;
        self.floats = self
            .floats
            .saturating_add((rows as u64).saturating_mul(dim as u64));
    }

    /// The size of the rows' weights.
    pub(crate) fn bytes(&self) -> u64 {
        self.floats.saturating_mul(4)
    }

    /// Whether the request takes more than about 500 microseconds, so that it leaves the async
    /// runtime, and is worth sharing among threads.
    ///
    /// A row costs two misses of the cache (index, row), about 100 ns together while nothing is
    /// prefetched, and half a nanosecond a float. Below the line, handing over to another thread
    /// and waking up again (tens of microseconds) would be a good part of the answer's time.
    pub(crate) fn is_long(&self) -> bool {
        self.rows
            .saturating_mul(100)
            .saturating_add(self.floats / 2)
            > 500_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_clicks_stays_and_a_dense_tower_leaves() {
        let effort = |rows, dim| {
            let mut effort = Effort::default();
            effort.add(rows, dim);
            effort
        };
        assert!(!effort(512 * 8, 16).is_long());
        assert!(effort(4096 * 39, 1).is_long());
        assert!(effort(300, 4096).is_long());
        assert_eq!(effort(3, 5).bytes(), 60);
        assert_eq!(effort(usize::MAX, usize::MAX).bytes(), u64::MAX);
    }
}
