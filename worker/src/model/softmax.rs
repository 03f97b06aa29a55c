//! Softmax regression: a weight a feature and class.

use ndarray::{ArrayView2, ArrayViewMut2};
use windlass_common::init::Init;

use super::kernel::{axpy, flat, flat_mut, in_chunks, row, row_mut};
use super::{Input, Model, TableShape};

/// Scores each class `c` with `bias_c + Σ w_c x`; the softmax itself is the loss's part.
///
/// Table `linear`: dim = classes, zeros.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    classes: usize,
}

impl Softmax {
    /// Tells apart this many classes, 1 or more.
    #[must_use]
    pub fn new(classes: usize) -> Self {
        Self { classes }
    }
}

impl Model for Softmax {
    fn tables(&self) -> Vec<TableShape> {
        vec![TableShape {
            name: "linear",
            dim: self.classes,
            init: Init::Zeros,
            bias: true,
        }]
    }

    fn outputs(&self) -> usize {
        self.classes
    }

    fn forward(
        &self,
        input: &Input<'_>,
        rows: &[ArrayView2<'_, f32>],
        scores: &mut ArrayViewMut2<'_, f32>,
    ) {
        let (dim, weights) = (self.classes, flat(&rows[0]));
        in_chunks(flat_mut(scores), dim, |first, scores| {
            for (i, scores) in (first..).zip(scores.chunks_exact_mut(dim)) {
                scores.copy_from_slice(row(weights, dim, input.bias as usize));
                for (r, x) in input.features(i) {
                    axpy(x, row(weights, dim, r), scores);
                }
            }
        });
    }

    fn backward(
        &self,
        input: &Input<'_>,
        _rows: &[ArrayView2<'_, f32>],
        by_score: &ArrayView2<'_, f32>,
        gradients: &mut [ArrayViewMut2<'_, f32>],
    ) {
        let (dim, gradient) = (self.classes, flat_mut(&mut gradients[0]));
        for (i, by_score) in flat(by_score).chunks_exact(dim).enumerate() {
            axpy(1.0, by_score, row_mut(gradient, dim, input.bias as usize));
            for (r, x) in input.features(i) {
                axpy(x, by_score, row_mut(gradient, dim, r));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::loss::Loss;
    use crate::model::gradient_check::{self, Example, case, examples};

    #[test]
    fn each_class_has_weights_of_its_own() {
        let case = gradient_check::Case::new(2, &[Example::of(&[(0, 2.0), (1, -1.0)])]);
        let weights = ndarray::arr2(&[[1.0, 2.0, 3.0], [0.5, 0.25, 0.0], [10.0, 20.0, 30.0]]);
        let scores = case.scores(&Softmax::new(3), &[weights]);
        assert_eq!(scores, ndarray::arr2(&[[11.5, 23.75, 36.0]]));
    }

    proptest! {
        #[test]
        fn gradients_are_finite_differences(
            case in case(examples(), Softmax::new(3).tables())
        ) {
            gradient_check::by_weight(&Softmax::new(3), &case);
            gradient_check::end_to_end(&Softmax::new(3), Loss::SoftmaxCrossEntropy, &case);
        }
    }

    #[test]
    fn scores_do_not_depend_on_threads() {
        gradient_check::threads_change_nothing(&Softmax::new(3));
    }
}
