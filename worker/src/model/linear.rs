//! A weight a feature: linear and logistic regression, which differ in their loss alone.

use ndarray::{ArrayView2, ArrayViewMut2};
use windlass_common::init::Init;

use super::kernel::{flat, flat_mut, in_chunks};
use super::{Input, Model, TableShape};

/// Scores an example with `bias + Σ w x`.
///
/// Table `linear`: dim 1, zeros.
#[derive(Clone, Copy, Debug)]
pub struct Linear;

impl Model for Linear {
    fn tables(&self) -> Vec<TableShape> {
        vec![table()]
    }

    fn outputs(&self) -> usize {
        1
    }

    fn forward(
        &self,
        input: &Input<'_>,
        rows: &[ArrayView2<'_, f32>],
        scores: &mut ArrayViewMut2<'_, f32>,
    ) {
        let weights = flat(&rows[0]);
        in_chunks(flat_mut(scores), 1, |first, scores| {
            for (i, score) in (first..).zip(scores) {
                *score = linear_score(input, weights, i);
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
        let gradient = flat_mut(&mut gradients[0]);
        for (i, &by_score) in flat(by_score).iter().enumerate() {
            add_linear_gradient(input, i, by_score, gradient);
        }
    }
}

/// The table of a model's linear part.
pub(super) fn table() -> TableShape {
    TableShape {
        name: "linear",
        dim: 1,
        init: Init::Zeros,
        bias: true,
    }
}

/// Computes `bias + Σ w x` of example `i`. Shape: `weights` is `[rows]`.
pub(super) fn linear_score(input: &Input<'_>, weights: &[f32], i: usize) -> f32 {
    let bias = weights[input.bias as usize];
    input
        .features(i)
        .fold(bias, |score, (row, x)| score + weights[row] * x)
}

/// Adds example `i`'s part: 1 for the bias, x for each feature, times the gradient by its score.
/// Shape: `gradient` is `[rows]`.
pub(super) fn add_linear_gradient(
    input: &Input<'_>,
    i: usize,
    by_score: f32,
    gradient: &mut [f32],
) {
    gradient[input.bias as usize] += by_score;
    for (row, x) in input.features(i) {
        gradient[row] += by_score * x;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::loss::Loss;
    use crate::model::gradient_check::{self, Example, case, examples};

    #[test]
    fn the_score_is_the_bias_and_each_weight_times_its_value() {
        let case = gradient_check::Case::new(3, &[Example::of(&[(0, 2.0), (1, 0.5), (0, 1.0)])]);
        // Rows 0 and 1, an unused row 2, then the bias.
        let weights = ndarray::arr2(&[[0.5], [-3.0], [100.0], [0.25]]);
        let scores = case.scores(&Linear, &[weights]);
        assert_eq!(scores, ndarray::arr2(&[[0.25 + 0.5 * 3.0 - 3.0 * 0.5]]));
    }

    proptest! {
        #[test]
        fn gradients_are_finite_differences(case in case(examples(), Linear.tables())) {
            gradient_check::by_weight(&Linear, &case);
            gradient_check::end_to_end(&Linear, Loss::Squared, &case);
            gradient_check::end_to_end(&Linear, Loss::Logistic, &case);
        }
    }

    #[test]
    fn scores_do_not_depend_on_threads() {
        gradient_check::threads_change_nothing(&Linear);
    }
}
