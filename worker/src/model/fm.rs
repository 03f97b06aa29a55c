//! Factorization machine of degree 2 (Rendle, "Factorization Machines", ICDM 2010).

use ndarray::{ArrayView2, ArrayViewMut2};
use windlass_common::init::Init;

use super::kernel::{flat, flat_mut, in_chunks, row, row_mut};
use super::linear::{add_linear_gradient, linear_score, table};
use super::{Input, Model, TableShape};

/// Scores an example with `w0 + Σ_i w_i x_i + Σ_i Σ_{j>i} <v_i, v_j> x_i x_j` (eq. 1).
///
/// The pairs cost O(k n), not O(k n²), by lemma 3.1:
/// `½ Σ_f ((Σ_i v_if x_i)² - Σ_i v_if² x_i²)`. A feature that comes twice in an example counts as
/// two features with the same factors.
///
/// Tables: `linear`, dim 1, zeros, where the bias row is w0; `factors`, dim k, normal, where the
/// bias row is never used and its gradient stays 0.
#[derive(Clone, Copy, Debug)]
pub struct FactorizationMachine {
    factors: usize,
    std: f32,
}

impl FactorizationMachine {
    /// Takes k, 1 or more, and the standard deviation of new factors.
    #[must_use]
    pub fn new(factors: usize, std: f32) -> Self {
        Self { factors, std }
    }

    /// Writes `Σ_i v_if x_i` and `Σ_i v_if² x_i²` of example `i`. Shapes: both `[k]`.
    fn sums(
        &self,
        input: &Input<'_>,
        factors: &[f32],
        i: usize,
        sums: &mut [f32],
        squares: &mut [f32],
    ) {
        sums.fill(0.0);
        squares.fill(0.0);
        for (r, x) in input.features(i) {
            let v = row(factors, self.factors, r);
            for ((sum, square), v) in sums.iter_mut().zip(&mut *squares).zip(v) {
                let vx = v * x;
                *sum += vx;
                *square += vx * vx;
            }
        }
    }
}

impl Model for FactorizationMachine {
    fn tables(&self) -> Vec<TableShape> {
        let factors = TableShape {
            name: "factors",
            dim: self.factors,
            init: Init::Normal { std: self.std },
            bias: false,
        };
        vec![table(), factors]
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
        let (weights, factors) = (flat(&rows[0]), flat(&rows[1]));
        in_chunks(flat_mut(scores), 1, |first, scores| {
            let mut sums = vec![0.0; self.factors];
            let mut squares = vec![0.0; self.factors];
            for (i, score) in (first..).zip(scores) {
                self.sums(input, factors, i, &mut sums, &mut squares);
                let pairs = sums.iter().zip(&squares).map(|(sum, sq)| sum * sum - sq);
                *score = linear_score(input, weights, i) + 0.5 * pairs.sum::<f32>();
            }
        });
    }

    /// By factor: `∂score/∂v_if = x_i Σ_j v_jf x_j - v_if x_i²`, which reuses the lemma's first sum.
    fn backward(
        &self,
        input: &Input<'_>,
        rows: &[ArrayView2<'_, f32>],
        by_score: &ArrayView2<'_, f32>,
        gradients: &mut [ArrayViewMut2<'_, f32>],
    ) {
        let (by_weight, by_factor) = gradients.split_at_mut(1);
        let (by_weight, by_factor) = (flat_mut(&mut by_weight[0]), flat_mut(&mut by_factor[0]));
        let factors = flat(&rows[1]);
        let mut sums = vec![0.0; self.factors];
        let mut squares = vec![0.0; self.factors];
        for (i, &by_score) in flat(by_score).iter().enumerate() {
            add_linear_gradient(input, i, by_score, by_weight);
            self.sums(input, factors, i, &mut sums, &mut squares);
            for (r, x) in input.features(i) {
                let v = row(factors, self.factors, r);
                let by_v = row_mut(by_factor, self.factors, r);
                let scale = by_score * x;
                for ((by_v, v), sum) in by_v.iter_mut().zip(v).zip(&sums) {
                    *by_v += scale * (sum - v * x);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::loss::Loss;
    use crate::model::gradient_check::{self, Case, Filled, case, examples};

    const FM: FactorizationMachine = FactorizationMachine {
        factors: 3,
        std: 0.01,
    };

    /// Equation 1 as it is written.
    fn double_sum(Filled { case, tables }: &Filled) -> Vec<f32> {
        let (w, v) = (&tables[0], &tables[1]);
        let score = |i| {
            let features: Vec<_> = case.input().features(i).collect();
            let mut score = w[[case.bias as usize, 0]];
            for (at, &(r, x)) in features.iter().enumerate() {
                score += w[[r, 0]] * x;
                for &(r2, x2) in &features[at + 1..] {
                    score += v.row(r).dot(&v.row(r2)) * x * x2;
                }
            }
            score
        };
        (0..case.batch.len()).map(score).collect()
    }

    proptest! {
        /// Exactly: the cases' numbers are so few-bitted that no step rounds.
        #[test]
        fn the_lemma_is_the_double_sum(filled in case(examples(), FM.tables())) {
            let scores = filled.case.scores(&FM, &filled.tables);
            prop_assert_eq!(scores.into_raw_vec_and_offset().0, double_sum(&filled));
        }

        #[test]
        fn gradients_are_finite_differences(filled in case(examples(), FM.tables())) {
            gradient_check::by_weight(&FM, &filled);
            gradient_check::end_to_end(&FM, Loss::Logistic, &filled);
            gradient_check::end_to_end(&FM, Loss::Squared, &filled);
        }

        #[test]
        fn the_bias_has_no_factors(filled in case(examples(), FM.tables())) {
            let Case { batch, bias, .. } = &filled.case;
            let by_score = ndarray::Array2::ones((batch.len(), 1));
            let gradients = filled.case.gradients(&FM, &filled.tables, &by_score);
            prop_assert!(gradients[1].row(*bias as usize).iter().all(|&g| g == 0.0));
        }
    }

    #[test]
    fn scores_do_not_depend_on_threads() {
        gradient_check::threads_change_nothing(&FM);
    }
}
