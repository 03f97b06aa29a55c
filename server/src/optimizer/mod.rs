//! How a row is updated: one file an optimizer, with its formula and its source.
//!
//! A row's state is its weights and its slots; everything else an update needs is settings and the
//! count of pushes. The settings live in `windlass_common::optimizer`. In every file `g` is the
//! gradient after the coupled penalty: `g + l2·w`; `count` has neither penalty nor rate.

mod adagrad;
mod adam;
mod count;
mod ftrl;
mod momentum;
mod rowwise_adagrad;
mod sgd;

use windlass_common::id::Clock;
use windlass_common::optimizer::{Adagrad, Ftrl, Momentum, OptimizerSpec, Sgd};

/// The optimizer of one table.
#[derive(Clone, Debug)]
pub struct Optimizer {
    spec: OptimizerSpec,
}

/// An optimizer at one push: what is the same for all its rows is computed once.
#[derive(Clone, Copy, Debug)]
pub enum Update<'a> {
    /// See `sgd`.
    Sgd(&'a Sgd),
    /// See `momentum`.
    Momentum(&'a Momentum),
    /// See `adagrad`.
    Adagrad(&'a Adagrad),
    /// See `rowwise_adagrad`.
    RowwiseAdagrad(&'a Adagrad),
    /// See `adam`.
    Adam(adam::Corrected),
    /// See `ftrl`.
    Ftrl(&'a Ftrl),
    /// See `count`.
    Count,
}

impl Optimizer {
    /// Takes settings that have been validated.
    #[must_use]
    pub fn new(spec: OptimizerSpec) -> Self {
        Self { spec }
    }

    /// Fills the slots of a new row, whose weights are set and whose slots are zero.
    ///
    /// Shapes: weights `[dim]`, slots `[slots]`.
    pub fn born(&self, weights: &[f32], slots: &mut [f32]) {
        match &self.spec {
            OptimizerSpec::Sgd(_)
            | OptimizerSpec::Momentum(_)
            | OptimizerSpec::Adam(_)
            | OptimizerSpec::Count => {}
            OptimizerSpec::Adagrad(s) | OptimizerSpec::RowwiseAdagrad(s) => {
                slots.fill(s.initial_accumulator);
            }
            OptimizerSpec::Ftrl(s) => ftrl::born(s, weights, slots),
        }
    }

    /// Prepares the update of a push. `step` counts the shard's pushes, this one included.
    #[must_use]
    pub fn at(&self, step: Clock) -> Update<'_> {
        match &self.spec {
            OptimizerSpec::Sgd(s) => Update::Sgd(s),
            OptimizerSpec::Momentum(s) => Update::Momentum(s),
            OptimizerSpec::Adagrad(s) => Update::Adagrad(s),
            OptimizerSpec::RowwiseAdagrad(s) => Update::RowwiseAdagrad(s),
            OptimizerSpec::Adam(s) => Update::Adam(adam::Corrected::new(s, step)),
            OptimizerSpec::Ftrl(s) => Update::Ftrl(s),
            OptimizerSpec::Count => Update::Count,
        }
    }
}

impl Update<'_> {
    /// Applies one gradient to one row. Shapes: weights and gradient `[dim]`, slots `[slots]`.
    pub fn row(&self, weights: &mut [f32], slots: &mut [f32], gradient: &[f32]) {
        match self {
            Self::Sgd(s) => sgd::step(s, weights, gradient),
            Self::Momentum(s) => momentum::step(s, weights, slots, gradient),
            Self::Adagrad(s) => adagrad::step(s, weights, slots, gradient),
            Self::RowwiseAdagrad(s) => rowwise_adagrad::step(s, weights, slots, gradient),
            Self::Adam(s) => s.step(weights, slots, gradient),
            Self::Ftrl(s) => ftrl::step(s, weights, slots, gradient),
            Self::Count => count::step(weights, gradient),
        }
    }
}

#[cfg(test)]
mod tests;
