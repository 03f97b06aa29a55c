//! The splits of held-out files that are to be scored, and what has been counted of them.

use windlass_common::coordination::HeldOut;
use windlass_common::interval_set::IntervalSet;
use windlass_common::split::Split;
use windlass_common::tally::Tally;

use super::open::Open;

/// One scoring of the validation or test files.
#[derive(Debug)]
pub(super) struct Board {
    /// Tells this scoring from those before it.
    pub(super) number: u32,
    /// Which files.
    pub(super) of: HeldOut,
    splits: Vec<Split>,
    open: Open,
    counted: IntervalSet,
    left: usize,
    tally: Tally,
}

impl Board {
    /// Begins a scoring; every split is open.
    pub(super) fn new(number: u32, of: HeldOut, splits: Vec<Split>) -> Self {
        Self {
            number,
            of,
            open: Open::gaps(&IntervalSet::default(), splits.len() as u64),
            counted: IntervalSet::default(),
            left: splits.len(),
            tally: Tally::default(),
            splits,
        }
    }

    /// Takes the lowest open split.
    pub(super) fn take(&mut self) -> Option<(u32, Split)> {
        let index = u32::try_from(self.open.first()?).ok()?;
        self.open.remove(u64::from(index));
        Some((index, self.splits[index as usize]))
    }

    /// Whether somebody could take one.
    pub(super) fn has_open(&self) -> bool {
        self.open.first().is_some()
    }

    /// Opens a split again whose lease ended, unless it has been counted.
    pub(super) fn reopen(&mut self, index: u32) {
        if !self.counted.contains(u64::from(index)) {
            self.open.insert(u64::from(index));
        }
    }

    /// Counts a split's score; only the first counts.
    pub(super) fn count(&mut self, index: u32, tally: &Tally) {
        let index = u64::from(index);
        if self.counted.contains(index) {
            return;
        }
        self.counted.insert(index);
        self.open.remove(index);
        self.left -= 1;
        self.tally.merge(tally);
    }

    /// How many splits are not counted.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// The sum of what was counted.
    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_score_of_a_split_counts_and_closes_it() {
        let split = |start| Split {
            file: 0,
            start,
            end: start + 1,
        };
        let mut board = Board::new(1, HeldOut::Test, vec![split(0), split(1)]);
        let examples = |examples| Tally {
            examples,
            ..Tally::default()
        };
        assert_eq!(board.take(), Some((0, split(0))));
        assert_eq!(board.take(), Some((1, split(1))));
        assert_eq!(board.take(), None);
        board.reopen(0);
        board.count(0, &examples(3));
        board.count(0, &examples(50));
        board.reopen(0);
        assert_eq!((board.take(), board.left()), (None, 1));
        board.count(1, &examples(4));
        assert_eq!((board.tally().examples, board.left()), (7, 0));
    }
}
