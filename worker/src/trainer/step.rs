//! One batch: rows to scores, scores to metrics and gradients.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2};
use windlass_common::config::Reduction;
use windlass_common::exchange::TableGradients;
use windlass_common::id::TableId;
use windlass_common::tally::Tally;

use crate::data::Prepared;
use crate::error::Error;
use crate::loss::Loss;
use crate::model::{Input, Model};
use crate::score::Scorer;

/// A model with its loss and its metrics.
#[derive(Clone)]
pub struct Step {
    model: Arc<dyn Model>,
    loss: Loss,
    reduction: Reduction,
    scorer: Scorer,
    dims: Vec<usize>,
    bias: bool,
}

impl Step {
    /// Joins a model, what it minimises, and how its scores are measured.
    pub fn new(model: Arc<dyn Model>, loss: Loss, reduction: Reduction, scorer: Scorer) -> Self {
        let tables = model.tables();
        let dims = tables.iter().map(|t| t.dim).collect();
        Self {
            model,
            loss,
            reduction,
            scorer,
            dims,
            bias: tables.iter().any(|t| t.bias),
        }
    }

    /// The tables to pull for a batch: all of them, each with the batch's one set of keys.
    pub fn tables(&self) -> Vec<(TableId, usize)> {
        (0u16..)
            .zip(&self.dims)
            .map(|(t, _)| (TableId(t), 0))
            .collect()
    }

    /// Whether the model reads the row of the bias.
    pub fn reads_bias(&self) -> bool {
        self.bias
    }

    /// The metrics' empty tally.
    pub fn tally(&self) -> Tally {
        self.scorer.tally()
    }

    /// Scores a batch and adds it to `tally`. `rows[t]` has shape `[keys, dim of t]`.
    ///
    /// # Errors
    /// [`Error::Shape`] when the servers answered another shape.
    pub fn score(
        &self,
        batch: &Prepared,
        rows: &[Vec<f32>],
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let views = self.views(batch, rows)?;
        let scores = self.forward(batch, &views);
        self.scorer.add(&scores.view(), &batch.batch, tally);
        Ok(())
    }

    /// Scores a batch, adds it to `tally`, and returns the gradients of its loss by the rows.
    ///
    /// # Errors
    /// [`Error::Shape`] when the servers answered another shape.
    pub fn learn(
        &self,
        batch: &Prepared,
        rows: &[Vec<f32>],
        tally: &mut Tally,
    ) -> Result<Vec<TableGradients>, Error> {
        let views = self.views(batch, rows)?;
        let scores = self.forward(batch, &views);
        // Progressive: scored before it is learnt.
        self.scorer.add(&scores.view(), &batch.batch, tally);
        let mut by_score = Array2::zeros(scores.raw_dim());
        self.loss.value_and_gradient(
            &scores.view(),
            &batch.batch,
            self.reduction,
            &mut by_score.view_mut(),
        );
        let mut gradients: Vec<Array2<f32>> =
            views.iter().map(|v| Array2::zeros(v.raw_dim())).collect();
        let mut targets: Vec<_> = gradients.iter_mut().map(|g| g.view_mut()).collect();
        self.model
            .backward(&input(batch), &views, &by_score.view(), &mut targets);
        Ok((0u16..)
            .zip(gradients)
            .map(|(table, g)| TableGradients {
                table: TableId(table),
                set: 0,
                gradients: g.into_raw_vec_and_offset().0,
            })
            .collect())
    }

    fn forward(&self, batch: &Prepared, views: &[ArrayView2<'_, f32>]) -> Array2<f32> {
        let mut scores = Array2::zeros((batch.batch.len(), self.model.outputs()));
        self.model
            .forward(&input(batch), views, &mut scores.view_mut());
        scores
    }

    fn views<'a>(
        &self,
        batch: &Prepared,
        rows: &'a [Vec<f32>],
    ) -> Result<Vec<ArrayView2<'a, f32>>, Error> {
        let keys = batch.keys.len();
        let view = |(&dim, values): (&usize, &'a Vec<f32>)| {
            ArrayView2::from_shape((keys, dim), values).map_err(|_| Error::Shape {
                keys,
                dim,
                got: values.len(),
            })
        };
        if rows.len() != self.dims.len() {
            return Err(Error::Shape {
                keys,
                dim: self.dims.len(),
                got: rows.len(),
            });
        }
        self.dims.iter().zip(rows).map(view).collect()
    }
}

fn input(batch: &Prepared) -> Input<'_> {
    Input {
        batch: &batch.batch,
        rows: &batch.rows,
        bias: batch.bias.unwrap_or(u32::MAX),
    }
}
