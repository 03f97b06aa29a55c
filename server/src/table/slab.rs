//! Rows in chunks: a row keeps its slot, and growing never copies more than a chunk.

/// About how many floats a chunk has: 64 KiB, large against malloc's headers and small enough that
/// the unfilled part of the last chunk never matters.
const CHUNK_FLOATS: usize = 64 * 1024 / size_of::<f32>();

/// Rows of `width` floats, each contiguous, numbered in the order of their birth; the number of a row
/// that went is given to a later one.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    /// All are full but the last, which doubles until it is full.
    chunks: Vec<Vec<f32>>,
    width: usize,
    /// A chunk has `1 << shift` rows, so that chunk and place are a shift and a mask.
    shift: u32,
    len: u32,
    /// The most slots that it will need.
    most: u32,
    /// Slots without a row.
    free: Vec<u32>,
}

impl Slab {
    /// Starts without rows, of which there are never more than `most`. `width` is at least 1.
    pub(super) fn new(width: usize, most: u32) -> Self {
        debug_assert!(width > 0, "a row has weights");
        Self {
            chunks: Vec::new(),
            width,
            shift: (CHUNK_FLOATS / width).max(1).ilog2(),
            len: 0,
            most,
            free: Vec::new(),
        }
    }

    /// Whether every slot has its row.
    pub(super) fn is_dense(&self) -> bool {
        self.free.is_empty()
    }

    /// Floats a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Adds a row of zeros and returns it with its slot.
    pub(super) fn add(&mut self) -> (u32, &mut [f32]) {
        if let Some(slot) = self.free.pop() {
            let row = self.row_mut(slot);
            row.fill(0.0);
            return (slot, row);
        }
        let slot = self.len;
        if slot & self.mask() == 0 {
            self.chunks.push(Vec::new());
        }
        // Of the rows that may still come, this one included.
        let left = self.most.saturating_sub(slot).max(1) as usize;
        self.len += 1;
        let (width, most) = (self.width, self.width << self.shift);
        let chunk = &mut self.chunks[(slot >> self.shift) as usize];
        let start = chunk.len();
        if start == chunk.capacity() {
            // Exact, since Vec's own growth would pass the chunk's size.
            let more = start.clamp(width, most - start);
            chunk.reserve_exact(more.min(left.saturating_mul(width)));
        }
        chunk.resize(start + width, 0.0);
        (slot, &mut chunk[start..])
    }

    /// Lets a row go; a later one gets its slot.
    pub(super) fn remove(&mut self, slot: u32) {
        debug_assert!(slot < self.len && !self.free.contains(&slot));
        self.free.push(slot);
    }

    /// The row in a slot below `len`.
    pub(super) fn row(&self, slot: u32) -> &[f32] {
        let start = (slot & self.mask()) as usize * self.width;
        &self.chunks[(slot >> self.shift) as usize][start..start + self.width]
    }

    /// The row in a slot below `len`, to be changed.
    pub(super) fn row_mut(&mut self, slot: u32) -> &mut [f32] {
        let start = (slot & self.mask()) as usize * self.width;
        &mut self.chunks[(slot >> self.shift) as usize][start..start + self.width]
    }

    /// All rows in the order of their slots, in pieces of whole rows.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &[f32]> {
        self.chunks.iter().map(Vec::as_slice)
    }

    /// The memory of the rows.
    pub(super) fn bytes(&self) -> usize {
        let floats: usize = self.chunks.iter().map(Vec::capacity).sum();
        floats * size_of::<f32>()
            + self.chunks.capacity() * size_of::<Vec<f32>>()
            + self.free.capacity() * size_of::<u32>()
    }

    fn mask(&self) -> u32 {
        (1 << self.shift) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(width: usize, rows: u16) -> Slab {
        let mut slab = Slab::new(width, u32::MAX);
        for row in 0..rows {
            let (slot, floats) = slab.add();
            assert_eq!(slot, u32::from(row));
            floats.fill(f32::from(row));
        }
        slab
    }

    #[test]
    fn rows_keep_their_slots_while_the_slab_grows() {
        for width in [1, 3, 17, 20_000] {
            let mut slab = filled(width, 300);
            slab.row_mut(7)[width - 1] = -1.0;
            for slot in 0..300u16 {
                let row = slab.row(u32::from(slot));
                assert_eq!(row.len(), width);
                assert_eq!(row[..width - 1], vec![f32::from(slot); width - 1]);
                let last = if slot == 7 { -1.0 } else { f32::from(slot) };
                assert_eq!(row[width - 1].to_bits(), last.to_bits());
            }
            let floats: usize = slab.chunks().map(<[f32]>::len).sum();
            assert_eq!(floats, 300 * width);
        }
    }

    #[test]
    fn the_slot_of_a_row_that_went_begins_again_with_zeros() {
        let mut slab = filled(3, 10);
        slab.remove(4);
        assert!(!slab.is_dense());
        assert_eq!(slab.add(), (4, &mut [0.0; 3][..]));
        assert!(slab.is_dense());
        assert_eq!(slab.add().0, 10);
        assert_eq!(slab.row(5), [5.0; 3]);
    }

    #[test]
    fn rows_that_are_bounded_take_no_more_memory_than_they_need() {
        let mut slab = Slab::new(3, 5001);
        for _ in 0..5001 {
            slab.add();
        }
        let floats: usize = slab.chunks.iter().map(Vec::capacity).sum();
        assert_eq!(floats, 3 * 5001);
    }

    #[test]
    fn a_full_chunk_has_no_spare_memory_and_a_small_slab_is_small() {
        let slab = filled(3, 5000);
        let full = 3 << slab.shift;
        assert_eq!(slab.chunks[0].capacity(), full);
        assert_eq!(slab.chunks[0].len(), full);
        assert!(full <= CHUNK_FLOATS && 2 * full > CHUNK_FLOATS);
        assert_eq!(filled(3, 1).chunks[0].capacity(), 3);
    }
}
