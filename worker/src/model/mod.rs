//! Models: from pulled rows to scores, and from scores' gradients to rows' gradients.
//!
//! A model knows no network, no optimizer and no loss. Reading order: the trait here, then
//! `linear.rs`, `softmax.rs`, `mf.rs`, `fm.rs`, and `count.rs`, which learns nothing; `kernel.rs` has
//! the loops they share.
//!
//! # Adding a model
//!
//! A model is one file here and one line in `build.rs` that constructs it, under a name of its own
//! in `model.kind`. Say what rows it needs, how they make a score, and how a score's gradient falls
//! back on them. This one looks at which features are there and not at their values:
//!
//! ```
//! use ndarray::{ArrayView2, ArrayViewMut2};
//! use windlass_common::batch::Batch;
//! use windlass_common::init::Init;
//! use windlass_common::key::Key;
//! use windlass_worker::model::{Input, Model, TableShape};
//!
//! /// Scores the presence of features: bias + sum of w.
//! struct Presence;
//!
//! impl Model for Presence {
//!     fn tables(&self) -> Vec<TableShape> {
//!         vec![TableShape { name: "linear", dim: 1, init: Init::Zeros, bias: true }]
//!     }
//!
//!     fn outputs(&self) -> usize {
//!         1
//!     }
//!
//!     fn forward(
//!         &self,
//!         input: &Input<'_>,
//!         rows: &[ArrayView2<'_, f32>],
//!         scores: &mut ArrayViewMut2<'_, f32>,
//!     ) {
//!         for i in 0..input.batch.len() {
//!             scores[[i, 0]] = rows[0][[input.bias as usize, 0]];
//!             for (row, _value) in input.features(i) {
//!                 scores[[i, 0]] += rows[0][[row, 0]];
//!             }
//!         }
//!     }
//!
//!     fn backward(
//!         &self,
//!         input: &Input<'_>,
//!         _rows: &[ArrayView2<'_, f32>],
//!         by_score: &ArrayView2<'_, f32>,
//!         gradients: &mut [ArrayViewMut2<'_, f32>],
//!     ) {
//!         for i in 0..input.batch.len() {
//!             gradients[0][[input.bias as usize, 0]] += by_score[[i, 0]];
//!             for (row, _value) in input.features(i) {
//!                 gradients[0][[row, 0]] += by_score[[i, 0]];
//!             }
//!         }
//!     }
//! }
//!
//! // Two features, in rows 0 and 1; the bias is row 2.
//! let mut batch = Batch::default();
//! batch.push_feature(0, Key(7), 0.5);
//! batch.push_feature(1, Key(8), 3.0);
//! batch.finish_example(1.0, 1.0);
//! let input = Input { batch: &batch, rows: &[0, 1], bias: 2 };
//!
//! let weights = ndarray::arr2(&[[0.25], [0.5], [1.0]]);
//! let mut scores = ndarray::arr2(&[[0.0]]);
//! Presence.forward(&input, &[weights.view()], &mut scores.view_mut());
//! assert_eq!(scores, ndarray::arr2(&[[1.75]]));
//! ```
//!
//! and in `build.rs`:
//!
//! ```text
//! ModelKind::Presence => Box::new(Presence),
//! ```
//!
//! Nothing else changes: the trainer creates the tables, gathers rows, applies the loss and pushes
//! what `backward` leaves. Let `gradient_check.rs` try it: a wrong derivative does not stop
//! training, it only makes it worse.

mod build;
mod count;
mod fm;
#[cfg(test)]
mod gradient_check;
mod kernel;
mod linear;
mod mf;
mod softmax;

use ndarray::{ArrayView2, ArrayViewMut2};
use windlass_common::batch::Batch;
use windlass_common::init::Init;

pub use build::{build, loss};
pub use count::Count;
pub use fm::FactorizationMachine;
pub use linear::Linear;
pub use mf::MatrixFactorization;
pub use softmax::Softmax;

/// A table that a model needs. Its rows are named by the features' keys, and by `Key::BIAS`.
#[derive(Clone, Debug, PartialEq)]
pub struct TableShape {
    /// Name, unique in the model.
    pub name: &'static str,
    /// Weights a row.
    pub dim: usize,
    /// How new rows begin.
    pub init: Init,
    /// Whether the model reads the row of `Key::BIAS`. Where no table's is read, none is pulled or
    /// pushed.
    pub bias: bool,
}

/// A batch whose features know their rows.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Labels, weights, values, fields.
    pub batch: &'a Batch,
    /// For each feature of the batch, its row in every table's pulled rows: `[features]`.
    pub rows: &'a [u32],
    /// The row of `Key::BIAS`; for a model without one `u32::MAX`, which is no row.
    pub bias: u32,
}

impl<'a> Input<'a> {
    /// Lists row and value of each feature of example `i`. A row may come more than once.
    pub fn features(&self, i: usize) -> impl Iterator<Item = (usize, f32)> + use<'a> {
        let features = self.batch.features(i);
        let rows = &self.rows[features.clone()];
        let values = &self.batch.values[features];
        rows.iter()
            .zip(values)
            .map(|(&row, &value)| (row as usize, value))
    }
}

/// A function from pulled rows to scores, with its gradient.
///
/// Shapes: `rows[t]` and `gradients[t]` are `[distinct keys, dim of table t]`; scores are
/// `[examples, outputs]`. All are in standard layout: row after row without gaps. Both methods must
/// give the same result for the same input, to the last bit, however many threads there are.
pub trait Model: Send + Sync {
    /// The tables it needs, in the order in which rows are handed to it.
    fn tables(&self) -> Vec<TableShape>;

    /// Scores an example has: 1, or one a class.
    fn outputs(&self) -> usize;

    /// Writes the scores of a batch.
    fn forward(
        &self,
        input: &Input<'_>,
        rows: &[ArrayView2<'_, f32>],
        scores: &mut ArrayViewMut2<'_, f32>,
    );

    /// Adds to `gradients`, which start at zero, the gradient of the loss by each row, given the
    /// gradient of the loss by each score.
    fn backward(
        &self,
        input: &Input<'_>,
        rows: &[ArrayView2<'_, f32>],
        by_score: &ArrayView2<'_, f32>,
        gradients: &mut [ArrayViewMut2<'_, f32>],
    );
}
