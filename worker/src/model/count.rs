//! How often each key occurs: nothing is learnt.

use ndarray::{ArrayView2, ArrayViewMut2};
use windlass_common::count::{BASE, LIMBS};
use windlass_common::init::Init;

use super::kernel::{flat_mut, row_mut};
use super::{Input, Model, TableShape};

/// Adds 1 to the row of a key for each time that it occurs; one that comes twice in an example
/// counts twice. Values, weights and labels are not read, and every score is 0.
///
/// Table `count`: the limbs of `windlass_common::count`, zeros, without a bias. What `backward`
/// leaves is no derivative but what is to be added, in the same limbs: exact for any batch.
#[derive(Clone, Copy, Debug)]
pub struct Count;

impl Model for Count {
    fn tables(&self) -> Vec<TableShape> {
        vec![TableShape {
            name: "count",
            dim: LIMBS,
            init: Init::Zeros,
            bias: false,
        }]
    }

    fn outputs(&self) -> usize {
        1
    }

    fn forward(
        &self,
        _input: &Input<'_>,
        _rows: &[ArrayView2<'_, f32>],
        scores: &mut ArrayViewMut2<'_, f32>,
    ) {
        scores.fill(0.0);
    }

    fn backward(
        &self,
        input: &Input<'_>,
        _rows: &[ArrayView2<'_, f32>],
        _by_score: &ArrayView2<'_, f32>,
        gradients: &mut [ArrayViewMut2<'_, f32>],
    ) {
        let gradient = flat_mut(&mut gradients[0]);
        for i in 0..input.batch.len() {
            for (row, _value) in input.features(i) {
                add_one(row_mut(gradient, LIMBS, row));
            }
        }
    }
}

/// Adds 1 and carries. A batch has fewer than 2^32 features, so the last limb stays 0.
fn add_one(limbs: &mut [f32]) {
    for limb in limbs {
        *limb += 1.0;
        if *limb < BASE as f32 {
            return;
        }
        *limb = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use ndarray::arr2;

    use super::*;
    use crate::model::gradient_check::{Case, Example};

    #[test]
    fn each_occurrence_counts_one_whatever_its_value() {
        let examples = [
            Example::of(&[(0, 2.0), (1, 0.0), (0, -1.0)]),
            Example::of(&[]),
            Example::of(&[(0, 0.5)]),
        ];
        let case = Case::new(u32::MAX, &examples);
        let held = arr2(&[[7.0, 5.0, 1.0], [0.0; 3], [0.0; 3]]);
        let scores = case.scores(&Count, std::slice::from_ref(&held));
        assert_eq!(scores, arr2(&[[0.0], [0.0], [0.0]]));
        let gradients = case.gradients(&Count, &[held], &scores);
        assert_eq!(
            gradients,
            [arr2(&[[3.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0; 3]])]
        );
    }

    #[test]
    fn ones_carry_into_the_next_limb() {
        let mut limbs = [16_777_214.0, 0.0, 0.0];
        add_one(&mut limbs);
        assert_eq!(limbs, [16_777_215.0, 0.0, 0.0]);
        add_one(&mut limbs);
        assert_eq!(limbs, [0.0, 1.0, 0.0]);
        let mut limbs = [16_777_215.0, 16_777_215.0, 0.0];
        add_one(&mut limbs);
        assert_eq!(limbs, [0.0, 0.0, 1.0]);
    }
}
