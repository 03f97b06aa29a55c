//! Which pushes a shard has applied: the memory that makes every batch count exactly once.
//!
//! The protocol's rules A1 to A4 live here, without locks, clocks or bytes; the server asks
//! [`Windows::judge`] under the shard's lock and calls [`Windows::mark`] with the rows.

use std::collections::BTreeMap;

use crate::id::{PushId, Seq, SourceId};
use crate::interval_set::IntervalSet;

/// How far a source may run ahead of its oldest push that is not applied (the rules' W).
///
/// A worker has at most this many batches open. 64: one machine word.
pub const WIDTH: u64 = 64;

/// The most sources that may be open at once in a shard. It bounds memory against a client that
/// invents sources; leases keep honest workers far below it.
pub const MAX_OPEN: usize = 1 << 16;

/// What a shard holds of one source that is not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Every push below this is applied.
    pub next: Seq,
    /// Bit `i` says that push `next + i` is applied; bit 0 is never set.
    pub above: u64,
    /// The number of the source's END push, once that push has come.
    pub end: Option<Seq>,
}

/// What is to be done with a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is new: apply its rows and mark it under the same hold of the lock.
    Apply,
    /// It was applied before: acknowledge it and change nothing.
    Duplicate,
    /// It is too far ahead; everything below `next` is applied.
    Gap {
        /// The push that the source must continue from.
        next: Seq,
    },
    /// It lies beyond the source's END push: the sender's split is not the one that was finished.
    BeyondEnd {
        /// The END push's number.
        end: Seq,
    },
    /// The shard has [`MAX_OPEN`] sources open and will not open another.
    TooManyOpen,
}

/// All windows of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    open: BTreeMap<SourceId, Window>,
    complete: IntervalSet,
}

impl Windows {
    /// Takes windows that came from a file, whose parser has checked each of them.
    #[must_use]
    pub fn from_parts(open: BTreeMap<SourceId, Window>, complete: IntervalSet) -> Self {
        Self { open, complete }
    }

    /// The sources that are begun and not complete.
    #[must_use]
    pub fn open(&self) -> &BTreeMap<SourceId, Window> {
        &self.open
    }

    /// The sources of which every push is applied.
    #[must_use]
    pub fn complete(&self) -> &IntervalSet {
        &self.complete
    }

    /// Decides about a push and changes nothing.
    #[must_use]
    pub fn judge(&self, id: PushId, end: bool) -> Verdict {
        // A1: complete, below `next`, or marked above it.
        if self.complete.contains(id.source.0) {
            return Verdict::Duplicate;
        }
        let window = match self.open.get(&id.source) {
            Some(&window) => window,
            None if self.open.len() >= MAX_OPEN => return Verdict::TooManyOpen,
            None => Window::default(),
        };
        let Some(ahead) = id.seq.0.checked_sub(window.next.0) else {
            return Verdict::Duplicate;
        };
        if ahead < WIDTH && window.above >> ahead & 1 == 1 {
            return Verdict::Duplicate;
        }
        // N3: nothing comes after END, and there is one END.
        if let Some(last) = window.end
            && (id.seq > last || end)
        {
            return Verdict::BeyondEnd { end: last };
        }
        // An END below pushes that are applied already would cut them off.
        let highest = 63 - u64::from(window.above.leading_zeros().min(63));
        if end && window.above != 0 && ahead < highest {
            return Verdict::BeyondEnd { end: id.seq };
        }
        // A2: `next` never jumps over a push that has not come.
        if ahead >= WIDTH {
            Verdict::Gap { next: window.next }
        } else {
            Verdict::Apply
        }
    }

    /// Marks a push that [`judge`](Self::judge) said to apply.
    ///
    /// Only this puts a source among the complete ones (rule A4).
    pub fn mark(&mut self, id: PushId, end: bool) {
        debug_assert_eq!(self.judge(id, end), Verdict::Apply);
        let window = self.open.entry(id.source).or_default();
        // A3: set the bit, advance over all that is contiguous, close at the end.
        window.above |= 1 << (id.seq.0 - window.next.0);
        let run = window.above.trailing_ones();
        window.next.0 += u64::from(run);
        window.above = window.above.checked_shr(run).unwrap_or(0);
        if end {
            window.end = Some(id.seq);
        }
        if window.end.is_some_and(|last| window.next > last) {
            self.open.remove(&id.source);
            self.complete.insert(id.source.0);
        }
    }

    /// Whether the windows hold exactly the sources below `end`, complete, and nothing else (rule
    /// C12: only then may an evaluation read the shard).
    #[must_use]
    pub fn exactly_below(&self, end: SourceId) -> bool {
        self.open.is_empty() && self.complete == IntervalSet::below(end.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(source: u64, seq: u64) -> PushId {
        PushId {
            source: SourceId(source),
            seq: Seq(seq),
        }
    }

    fn offer(windows: &mut Windows, push: PushId, end: bool) -> Verdict {
        let verdict = windows.judge(push, end);
        if verdict == Verdict::Apply {
            windows.mark(push, end);
        }
        verdict
    }

    #[test]
    fn a1_a_push_counts_once() {
        let mut w = Windows::default();
        assert_eq!(offer(&mut w, id(7, 0), false), Verdict::Apply);
        assert_eq!(offer(&mut w, id(7, 0), false), Verdict::Duplicate);
        assert_eq!(offer(&mut w, id(7, 2), false), Verdict::Apply);
        assert_eq!(offer(&mut w, id(7, 2), false), Verdict::Duplicate);
        assert_eq!(offer(&mut w, id(7, 1), false), Verdict::Apply);
        assert_eq!(
            w.open()[&SourceId(7)],
            Window {
                next: Seq(3),
                above: 0,
                end: None
            }
        );
    }

    #[test]
    fn a2_a_gap_is_refused_and_leaves_no_window() {
        let mut w = Windows::default();
        assert_eq!(
            offer(&mut w, id(1, WIDTH), false),
            Verdict::Gap { next: Seq(0) }
        );
        assert!(w.open().is_empty());
        assert_eq!(offer(&mut w, id(1, WIDTH - 1), false), Verdict::Apply);
        assert_eq!(offer(&mut w, id(1, 0), false), Verdict::Apply);
        assert_eq!(offer(&mut w, id(1, WIDTH), false), Verdict::Apply);
    }

    #[test]
    fn a3_the_end_completes_when_everything_before_it_is_there() {
        let mut w = Windows::default();
        assert_eq!(offer(&mut w, id(3, 2), true), Verdict::Apply);
        assert!(!w.complete().contains(3));
        offer(&mut w, id(3, 1), false);
        offer(&mut w, id(3, 0), false);
        assert!(w.complete().contains(3) && w.open().is_empty());
        assert_eq!(offer(&mut w, id(3, 9), false), Verdict::Duplicate);
    }

    #[test]
    fn a4_a_full_window_alone_completes_nothing() {
        let mut w = Windows::default();
        for seq in 0..200 {
            assert_eq!(offer(&mut w, id(0, seq), false), Verdict::Apply);
        }
        assert!(w.complete().is_empty());
        assert_eq!(w.open()[&SourceId(0)].next, Seq(200));
    }

    #[test]
    fn n3_nothing_comes_after_the_end() {
        let mut w = Windows::default();
        offer(&mut w, id(5, 1), true);
        assert_eq!(
            offer(&mut w, id(5, 2), false),
            Verdict::BeyondEnd { end: Seq(1) }
        );
        assert_eq!(
            offer(&mut w, id(5, 0), true),
            Verdict::BeyondEnd { end: Seq(1) }
        );
        let mut w = Windows::default();
        offer(&mut w, id(5, 4), false);
        assert_eq!(
            offer(&mut w, id(5, 2), true),
            Verdict::BeyondEnd { end: Seq(2) }
        );
    }

    #[test]
    fn n3_an_empty_split_is_complete_with_its_end() {
        let mut w = Windows::default();
        assert_eq!(offer(&mut w, id(0, 0), true), Verdict::Apply);
        assert!(w.exactly_below(SourceId(1)));
    }

    #[test]
    fn c12_an_open_source_is_not_exact() {
        let mut w = Windows::default();
        offer(&mut w, id(0, 0), true);
        assert!(w.exactly_below(SourceId(1)) && !w.exactly_below(SourceId(2)));
        offer(&mut w, id(1, 0), false);
        assert!(!w.exactly_below(SourceId(1)));
    }

    proptest! {
        /// The plain twin: a set of applied numbers. Any order, any repetition.
        #[test]
        fn every_push_is_applied_once_in_any_order(
            n in 0u64..100,
            order in prop::collection::vec(0u64..101, 0..600),
        ) {
            let mut w = Windows::default();
            let mut applied = std::collections::BTreeSet::new();
            for seq in order.into_iter().filter(|&s| s <= n).chain(0..=n) {
                if offer(&mut w, id(0, seq), seq == n) == Verdict::Apply {
                    prop_assert!(applied.insert(seq));
                }
            }
            prop_assert_eq!(applied.len() as u64, n + 1);
            prop_assert!(w.exactly_below(SourceId(1)));
        }
    }
}
