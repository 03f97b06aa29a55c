//! The loops that models share, on plain slices: the compiler turns them into vector instructions.

use ndarray::{ArrayView2, ArrayViewMut2};
use rayon::prelude::*;

/// The smallest batch that is scored on several threads. Below it, waking them (10 to 50 µs) costs
/// more than the scores.
const PARALLEL_FROM: usize = 2048;

/// Examples that one thread scores at a time.
const CHUNK: usize = 512;

/// Borrows an array as the slice it lies in, row after row.
#[expect(
    clippy::expect_used,
    reason = "the contract of `Model`: arrays are in standard layout"
)]
pub(super) fn flat<'a>(array: &ArrayView2<'a, f32>) -> &'a [f32] {
    array.to_slice().expect("standard layout")
}

/// Borrows an array as the slice it lies in, to write to.
#[expect(
    clippy::expect_used,
    reason = "the contract of `Model`: arrays are in standard layout"
)]
pub(super) fn flat_mut<'a>(array: &'a mut ArrayViewMut2<'_, f32>) -> &'a mut [f32] {
    array.as_slice_mut().expect("standard layout")
}

/// Calls `work` with runs of examples: the number of the first, and the run's scores. Large batches
/// are shared among rayon's threads.
///
/// An example's scores must depend on the example alone; then the runs' borders, and who works
/// which, change no bit of them. Shape: `scores` is `[examples, outputs]`.
pub(super) fn in_chunks(
    scores: &mut [f32],
    outputs: usize,
    work: impl Fn(usize, &mut [f32]) + Sync,
) {
    if scores.len() < PARALLEL_FROM * outputs {
        work(0, scores);
    } else {
        scores
            .par_chunks_mut(CHUNK * outputs)
            .enumerate()
            .for_each(|(chunk, scores)| work(chunk * CHUNK, scores));
    }
}

/// Borrows one row of a flat table.
pub(super) fn row(table: &[f32], dim: usize, row: usize) -> &[f32] {
    &table[row * dim..][..dim]
}

/// Borrows one row of a flat table, to write to.
pub(super) fn row_mut(table: &mut [f32], dim: usize, row: usize) -> &mut [f32] {
    &mut table[row * dim..][..dim]
}

/// Adds `a x` to `y`. Shapes: both `[dim]`.
pub(super) fn axpy(a: f32, x: &[f32], y: &mut [f32]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

/// Multiplies two vectors in eight partial sums, which fit the vector registers; a single sum would
/// wait for every addition. The order of additions is fixed. Shapes: both `[dim]`.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a_eights, b_eights) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest = a_eights.remainder().iter().zip(b_eights.remainder());
    let mut sums = [0.0f32; 8];
    for (a, b) in a_eights.zip(b_eights) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + rest.map(|(a, b)| a * b).sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of products of small integers are exact in f32, in any order.
    #[test]
    fn dot_is_the_sum_of_products_at_every_length() {
        for dim in 0..40u16 {
            let a: Vec<f32> = (0..dim).map(|i| f32::from(i) - 9.0).collect();
            let b: Vec<f32> = (0..dim).map(|i| f32::from(i * 7 % 11)).collect();
            let mut expected = 0.0;
            for i in 0..usize::from(dim) {
                expected += a[i] * b[i];
            }
            assert_eq!(dot(&a, &b), expected, "dim {dim}");
        }
    }

    #[test]
    fn chunks_cover_every_example_once() {
        for examples in [0, 1, PARALLEL_FROM - 1, PARALLEL_FROM, 3 * CHUNK * 2 + 1] {
            let mut scores = vec![0.0; examples * 2];
            in_chunks(&mut scores, 2, |first, scores| {
                for (i, pair) in (first..).zip(scores.chunks_exact_mut(2)) {
                    pair[0] += i as f32;
                    pair[1] += 1.0;
                }
            });
            for (i, pair) in scores.chunks_exact(2).enumerate() {
                assert_eq!(pair, [i as f32, 1.0], "of {examples}");
            }
        }
    }
}
