//! Matrix factorization with biases (Koren, Bell, Volinsky, "Matrix Factorization Techniques for
//! Recommender Systems", Computer 42(8), 2009).

use ndarray::{ArrayView2, ArrayViewMut2};
use windlass_common::init::Init;

use super::kernel::{axpy, dot, flat, flat_mut, in_chunks, row, row_mut};
use super::{Input, Model, TableShape};

/// Scores an example with `μ + b_u + b_i + <p_u, q_i>` (eq. 4 of the paper, whose q_i·p_u this is).
///
/// The user is the example's feature of the user field, the item that of the item field; features of
/// other fields, and all values, are not read. An example without a user or without an item (its
/// value is missing) is scored by the terms that are left.
///
/// Tables: `biases`, dim 1, zeros, where the row of `Key::BIAS` is μ; `factors`, dim k, normal,
/// where the row of `Key::BIAS` is never used and its gradient stays 0.
#[derive(Clone, Copy, Debug)]
pub struct MatrixFactorization {
    factors: usize,
    std: f32,
    user: u16,
    item: u16,
}

impl MatrixFactorization {
    /// Takes k, 1 or more, the standard deviation of new factors, and the fields of users and items.
    #[must_use]
    pub fn new(factors: usize, std: f32, user: u16, item: u16) -> Self {
        Self {
            factors,
            std,
            user,
            item,
        }
    }

    /// Finds the rows of example `i`'s user and item.
    fn pair(&self, input: &Input<'_>, i: usize) -> (Option<usize>, Option<usize>) {
        let features = input.batch.features(i);
        let fields = &input.batch.fields[features.clone()];
        let rows = &input.rows[features];
        let row_of = |field| {
            let at = fields.iter().position(|&f| f == field)?;
            Some(rows[at] as usize)
        };
        (row_of(self.user), row_of(self.item))
    }
}

impl Model for MatrixFactorization {
    fn tables(&self) -> Vec<TableShape> {
        vec![
            TableShape {
                name: "biases",
                dim: 1,
                init: Init::Zeros,
                bias: true,
            },
            TableShape {
                name: "factors",
                dim: self.factors,
                init: Init::Normal { std: self.std },
                bias: false,
            },
        ]
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
        let (biases, factors) = (flat(&rows[0]), flat(&rows[1]));
        in_chunks(flat_mut(scores), 1, |first, scores| {
            for (i, score) in (first..).zip(scores) {
                let (user, item) = self.pair(input, i);
                *score = biases[input.bias as usize];
                *score += user.map_or(0.0, |u| biases[u]) + item.map_or(0.0, |i| biases[i]);
                if let (Some(user), Some(item)) = (user, item) {
                    let k = self.factors;
                    *score += dot(row(factors, k, user), row(factors, k, item));
                }
            }
        });
    }

    fn backward(
        &self,
        input: &Input<'_>,
        rows: &[ArrayView2<'_, f32>],
        by_score: &ArrayView2<'_, f32>,
        gradients: &mut [ArrayViewMut2<'_, f32>],
    ) {
        let (by_bias, by_factor) = gradients.split_at_mut(1);
        let (by_bias, by_factor) = (flat_mut(&mut by_bias[0]), flat_mut(&mut by_factor[0]));
        let (k, factors) = (self.factors, flat(&rows[1]));
        for (i, &by_score) in flat(by_score).iter().enumerate() {
            let (user, item) = self.pair(input, i);
            by_bias[input.bias as usize] += by_score;
            for row in [user, item].into_iter().flatten() {
                by_bias[row] += by_score;
            }
            if let (Some(user), Some(item)) = (user, item) {
                axpy(by_score, row(factors, k, item), row_mut(by_factor, k, user));
                axpy(by_score, row(factors, k, user), row_mut(by_factor, k, item));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::loss::Loss;
    use crate::model::gradient_check::{self, Case, Example, case, ratings};

    /// Users are field 2, items field 5.
    const MF: MatrixFactorization = MatrixFactorization {
        factors: 3,
        std: 0.1,
        user: 2,
        item: 5,
    };

    /// Rows: user 0, item 1, a feature of another field 2, then the bias.
    fn check(example: Example, expected: f32) {
        let biases = ndarray::arr2(&[[0.5], [0.25], [64.0], [3.0]]);
        let factors = ndarray::arr2(&[[1.0, 2.0, 3.0], [4.0, -1.0, 2.0], [64.0; 3], [64.0; 3]]);
        let scores = Case::new(3, &[example]).scores(&MF, &[biases, factors]);
        assert_eq!(scores, ndarray::arr2(&[[expected]]));
    }

    #[test]
    fn the_score_is_mean_biases_and_product() {
        let (user, item, other) = ((2, 0, 1.0), (5, 1, 1.0), (0, 2, 1.0));
        check(Example::with_fields(&[user, item]), 3.75 + 8.0);
        check(Example::with_fields(&[other, item, user]), 3.75 + 8.0);
    }

    #[test]
    fn a_missing_user_or_item_leaves_the_other_terms() {
        check(Example::with_fields(&[(2, 0, 1.0)]), 3.5);
        check(Example::with_fields(&[(5, 1, 1.0)]), 3.25);
        check(Example::with_fields(&[]), 3.0);
    }

    proptest! {
        #[test]
        fn gradients_are_finite_differences(case in case(ratings(2, 5), MF.tables())) {
            gradient_check::by_weight(&MF, &case);
            gradient_check::end_to_end(&MF, Loss::Squared, &case);
        }
    }

    #[test]
    fn scores_do_not_depend_on_threads() {
        gradient_check::threads_change_nothing(&MF);
    }
}
