//! Tests what every model promises: that `backward` is the derivative of `forward`, and that
//! threads change no bit.
//!
//! All numbers are small multiples of powers of two, so f32 neither rounds a score nor one of the
//! sums on the way to it, and finite differences of scores have no rounding error at all.

use ndarray::{Array2, ArrayView2, ArrayViewMut2};
use proptest::prelude::*;
use windlass_common::batch::Batch;
use windlass_common::config::Reduction;
use windlass_common::key::{Key, mix64};

use super::{Input, Model, TableShape};
use crate::loss::Loss;

/// Distinct features of random examples; the bias is the row after them.
const ROWS: u32 = 4;

/// Features as (field, row, value).
#[derive(Clone, Debug)]
pub(super) struct Example(Vec<(u16, u32, f32)>);

impl Example {
    pub(super) fn of(features: &[(u32, f32)]) -> Self {
        Self(features.iter().map(|&(row, x)| (0, row, x)).collect())
    }

    pub(super) fn with_fields(features: &[(u16, u32, f32)]) -> Self {
        Self(features.to_vec())
    }
}

/// A batch whose features know their rows.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) batch: Batch,
    pub(super) rows: Vec<u32>,
    pub(super) bias: u32,
}

impl Case {
    /// Builds a batch with labels 0, 1, 0, ... and weights 1, 2, 3, 1, ...
    pub(super) fn new(bias: u32, examples: &[Example]) -> Self {
        let mut batch = Batch::default();
        let mut rows = Vec::new();
        for (i, Example(features)) in examples.iter().enumerate() {
            for &(field, row, value) in features {
                batch.push_feature(field, Key(u64::from(row)), value);
                rows.push(row);
            }
            batch.finish_example((i % 2) as f32, (1 + i % 3) as f32);
        }
        Self { batch, rows, bias }
    }

    pub(super) fn input(&self) -> Input<'_> {
        Input {
            batch: &self.batch,
            rows: &self.rows,
            bias: self.bias,
        }
    }

    pub(super) fn scores(&self, model: &dyn Model, tables: &[Array2<f32>]) -> Array2<f32> {
        // Scores that are not written show.
        let mut scores = Array2::from_elem((self.batch.len(), model.outputs()), f32::NAN);
        model.forward(&self.input(), &views(tables), &mut scores.view_mut());
        scores
    }

    pub(super) fn gradients(
        &self,
        model: &dyn Model,
        tables: &[Array2<f32>],
        by_score: &Array2<f32>,
    ) -> Vec<Array2<f32>> {
        let mut all: Vec<_> = tables.iter().map(|t| Array2::zeros(t.dim())).collect();
        let mut views_mut: Vec<ArrayViewMut2<'_, f32>> =
            all.iter_mut().map(|g| g.view_mut()).collect();
        model.backward(
            &self.input(),
            &views(tables),
            &by_score.view(),
            &mut views_mut,
        );
        all
    }
}

fn views(tables: &[Array2<f32>]) -> Vec<ArrayView2<'_, f32>> {
    tables.iter().map(|t| t.view()).collect()
}

/// A batch, and the weights of its rows.
#[derive(Clone, Debug)]
pub(super) struct Filled {
    pub(super) case: Case,
    pub(super) tables: Vec<Array2<f32>>,
}

/// Up to 4 examples of up to 4 features, which may repeat; values are quarters in `[-1, 1]`.
pub(super) fn examples() -> impl Strategy<Value = Vec<Example>> {
    let feature = (0..ROWS, -4i8..=4).prop_map(|(row, x)| (0, row, f32::from(x) / 4.0));
    let example = prop::collection::vec(feature, 0..=4).prop_map(Example);
    prop::collection::vec(example, 1..=4)
}

/// Up to 4 ratings: a user of two, an item of two, and a feature of another field between them.
pub(super) fn ratings(user: u16, item: u16) -> impl Strategy<Value = Vec<Example>> {
    let rating = (0..2u32, 2..4u32, 0..ROWS).prop_map(move |(u, i, other)| {
        Example(vec![(user, u, 1.0), (9, other, 0.5), (item, i, 1.0)])
    });
    prop::collection::vec(rating, 1..=4)
}

/// Fills the rows of examples with eighths in `[-1/2, 1/2]`.
pub(super) fn case(
    examples: impl Strategy<Value = Vec<Example>>,
    shapes: Vec<TableShape>,
) -> impl Strategy<Value = Filled> {
    let rows = ROWS as usize + 1;
    let tables: Vec<_> = shapes
        .into_iter()
        .map(|shape| {
            prop::collection::vec(-4i8..=4, rows * shape.dim).prop_map(move |eighths| {
                let weights = eighths.into_iter().map(|w| f32::from(w) / 8.0);
                Array2::from_shape_vec((rows, shape.dim), weights.collect()).unwrap()
            })
        })
        .collect();
    (examples, tables).prop_map(|(examples, tables)| Filled {
        case: Case::new(ROWS, &examples),
        tables,
    })
}

/// Calls `check` with every weight: its gradient, and the function of its displacement that the
/// gradient should be the derivative of.
fn each_weight(
    tables: &[Array2<f32>],
    gradients: &[Array2<f32>],
    value: impl Fn(&[Array2<f32>]) -> f64,
    check: impl Fn(f32, &dyn Fn(f32) -> f64),
) {
    for (t, gradient) in gradients.iter().enumerate() {
        for (at, &gradient) in gradient.indexed_iter() {
            check(gradient, &|h| {
                let mut displaced = tables.to_vec();
                displaced[t][at] += h;
                value(&displaced)
            });
        }
    }
}

/// Checks the gradient of a weighted sum of scores, exactly.
///
/// Scores are polynomials of degree 2 at most in any one weight, so their central difference is
/// their derivative, whatever the step.
pub(super) fn by_weight(model: &dyn Model, Filled { case, tables }: &Filled) {
    let shape = (case.batch.len(), model.outputs());
    let by_score = Array2::from_shape_fn(shape, |(i, o)| ((i * 3 + o * 5) % 7) as f32 / 4.0 - 0.75);
    let value = |tables: &[Array2<f32>]| {
        let scores = case.scores(model, tables);
        let terms = scores.iter().zip(&by_score);
        terms.map(|(&s, &c)| f64::from(s) * f64::from(c)).sum()
    };
    let gradients = case.gradients(model, tables, &by_score);
    each_weight(tables, &gradients, value, |gradient, f| {
        assert_eq!(f64::from(gradient), f(0.5) - f(-0.5));
    });
}

/// Checks the gradient of the loss through scores to weights, within 1e-5 of its size or of 1.
///
/// With D(h) the central difference, (4 D(h) - D(2h)) / 3 errs by h⁴ |f⁽⁵⁾| / 30. Here h is 2⁻⁷,
/// |score'| ≤ 6 and |score''| ≤ 12 (a feature four times in an example), which puts |f⁽⁵⁾| of the
/// logistic loss below 10⁴ and the error near 10⁻⁶. The rest is for the f32 of the gradient: some
/// twenty roundings of 2⁻²⁴ each, of terms up to 48.
pub(super) fn end_to_end(model: &dyn Model, loss: Loss, Filled { case, tables }: &Filled) {
    let mut case = case.clone();
    for (i, label) in case.batch.labels.iter_mut().enumerate() {
        *label = (i % model.outputs().max(2)) as f32;
    }
    let evaluate = |tables: &[Array2<f32>]| {
        let scores = case.scores(model, tables);
        let mut by_score = Array2::from_elem(scores.dim(), f32::NAN);
        let (scores, batch) = (scores.view(), &case.batch);
        let value =
            loss.value_and_gradient(&scores, batch, Reduction::Mean, &mut by_score.view_mut());
        (value, by_score)
    };
    let gradients = case.gradients(model, tables, &evaluate(tables).1);
    each_weight(
        tables,
        &gradients,
        |tables| evaluate(tables).0,
        |gradient, f| {
            let central = |h: f32| (f(h) - f(-h)) / f64::from(2.0 * h);
            let h = 1.0 / 128.0;
            let expected = (4.0 * central(h) - central(2.0 * h)) / 3.0;
            let error = (f64::from(gradient) - expected).abs();
            assert!(
                error <= 1e-5 * expected.abs().max(1.0),
                "gradient {gradient}, finite difference {expected}"
            );
        },
    );
}

/// Checks that one thread and three give the same bits for a batch that is shared among threads.
pub(super) fn threads_change_nothing(model: &dyn Model) {
    let random = |n: u64| (mix64(n) >> 40) as f32 / 16_777_216.0 - 0.5;
    let example = |i: u64| {
        let feature = |j: u16| {
            let n = 8 * i + u64::from(j);
            let row = u32::try_from(mix64(n) % 100).unwrap();
            (j, row, random(n))
        };
        Example((0..8).map(feature).collect())
    };
    let case = Case::new(100, &(0..5000).map(example).collect::<Vec<_>>());
    let table = |shape: TableShape| {
        Array2::from_shape_fn((101, shape.dim), |(r, c)| random((r * 1000 + c) as u64))
    };
    let tables: Vec<_> = model.tables().into_iter().map(table).collect();
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| {
            let scores = case.scores(model, &tables);
            let gradients = case.gradients(model, &tables, &scores);
            let all = std::iter::once(&scores).chain(&gradients);
            all.flat_map(|a| a.iter().map(|v| v.to_bits()))
                .collect::<Vec<_>>()
        })
    };
    let one = run(1);
    assert!(one.iter().all(|&bits| f32::from_bits(bits).is_finite()));
    assert_eq!(one, run(3));
}
