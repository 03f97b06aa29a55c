//! Which split of the input a source is (rule N1).

use windlass_common::id::{Epoch, SourceId};
use windlass_common::split::order;

/// How many epochs' orders are kept: the one being learnt, and one that is opened again.
const KEPT: usize = 2;

/// The seeded orders of epochs, computed when first asked for: O(splits) once an epoch.
#[derive(Debug)]
pub(super) struct Orders {
    seed: u64,
    splits: u32,
    /// The last used is the last.
    kept: Vec<(Epoch, Vec<u32>)>,
}

impl Orders {
    /// Binds the orders to a recipe.
    pub(super) fn new(seed: u64, splits: u32) -> Self {
        Self {
            seed,
            splits,
            kept: Vec::new(),
        }
    }

    /// N1: the epoch of a source, and its split's place in the recipe's cut. The base of the only
    /// generation is 0.
    pub(super) fn split_of(&mut self, source: SourceId) -> (Epoch, u32) {
        let splits = u64::from(self.splits.max(1));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "wanted sources are below epochs x splits, and epochs is a u32"
        )]
        let epoch = Epoch((source.0 / splits) as u32);
        #[expect(clippy::cast_possible_truncation, reason = "splits fit memory")]
        let place = (source.0 % splits) as usize;
        let order = match self.kept.iter().position(|(e, _)| *e == epoch) {
            Some(at) => self.kept.remove(at).1,
            None => order(self.seed, epoch, self.splits),
        };
        let index = order[place];
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push((epoch, order));
        (epoch, index)
    }
}

#[cfg(test)]
mod tests {
    use windlass_common::split::source;

    use super::*;

    #[test]
    fn n1_a_source_is_a_function_of_epoch_and_place() {
        let mut orders = Orders::new(5, 7);
        for epoch in [0, 3, 1, 0, 2, 3].map(Epoch) {
            for (place, index) in (0u32..).zip(order(5, epoch, 7)) {
                let source = source(SourceId(0), epoch, 7, place);
                assert_eq!(orders.split_of(source), (epoch, index));
            }
            assert!(orders.kept.len() <= KEPT);
        }
    }
}
