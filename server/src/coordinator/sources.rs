//! Which sources are complete by their owners' word, and which may be leased.

use std::collections::{BTreeMap, BTreeSet};

use windlass_common::coordination::ShardReport;
use windlass_common::id::{Lineage, Seq, ServerId, ShardId, SourceId};
use windlass_common::interval_set::IntervalSet;

use super::open::Open;
use super::owners::Owners;

/// A source that was given back as finished is left alone until the owners have spoken in this many
/// rounds, the one under way included. In the last of them each report was begun after the answer
/// to an earlier one, hence after the give-back; if a shard still lacks the source then, it has
/// lost it.
const ROUNDS: u64 = 3;

/// The owner's word about one shard.
#[derive(Debug)]
struct Held {
    complete: IntervalSet,
    /// Ascending.
    open: Vec<(SourceId, Seq)>,
    rows: u64,
}

impl Held {
    /// The first push that the shard lacks of a source that is not complete in it.
    fn next(&self, source: SourceId) -> Seq {
        let at = self.open.binary_search_by_key(&source, |o| o.0);
        at.map_or(Seq(0), |i| self.open[i].1)
    }
}

/// What a worker that wants a source is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// This one, from this push on.
    Source(SourceId, Seq),
    /// Every wanted source is complete.
    Complete,
    /// The owner of this shard has not told yet what it holds.
    Unreported(ShardId),
    /// So many are leased, and none is open.
    Leased(usize),
    /// So many were given back as finished, and the owners have not confirmed them yet.
    Finished(usize),
    /// So many were given back undone, and the owners have not told since what they lack of them.
    Resting(usize),
}

/// The sources of one job: wanted are those below a limit.
///
/// A report costs O(shards x ranges + leases), a lease O(shards + log sources).
#[derive(Debug)]
pub(super) struct Sources {
    splits: u32,
    limit: u64,
    held: Vec<Option<Held>>,
    unreported: usize,
    complete: IntervalSet,
    done: u32,
    open: Open,
    leased: BTreeSet<SourceId>,
    /// Those that were given back as finished, and the round in which they are open again.
    finished: BTreeMap<SourceId, u64>,
    /// Those that were given back undone, and the round in which they are open again.
    resting: BTreeMap<SourceId, u64>,
    round: u64,
    spoke: BTreeSet<ServerId>,
}

impl Sources {
    /// Starts without reports and without wanted sources; an epoch has `splits` sources.
    pub(super) fn new(shards: usize, splits: u32) -> Self {
        Self {
            splits,
            limit: 0,
            held: std::iter::repeat_with(|| None).take(shards).collect(),
            unreported: shards,
            complete: IntervalSet::default(),
            done: 0,
            open: Open::default(),
            leased: BTreeSet::new(),
            finished: BTreeMap::new(),
            resting: BTreeMap::new(),
            round: 0,
            spoke: BTreeSet::new(),
        }
    }

    /// Wants the sources of the first `epochs` epochs.
    pub(super) fn want(&mut self, epochs: u32) {
        self.limit = u64::from(epochs) * u64::from(self.splits);
        self.refresh();
    }

    /// The number above all wanted sources.
    pub(super) fn limit(&self) -> SourceId {
        SourceId(self.limit)
    }

    /// Sources of an epoch.
    pub(super) fn splits(&self) -> u32 {
        self.splits
    }

    /// How many sources of the last wanted epoch are complete.
    pub(super) fn done(&self) -> u32 {
        self.done
    }

    /// Whether a source is of the last wanted epoch.
    pub(super) fn is_of_last_epoch(&self, source: SourceId) -> bool {
        source.0 < self.limit && source.0 + u64::from(self.splits) >= self.limit
    }

    /// How many rows each owner said that it holds.
    pub(super) fn rows_by_owner(&self, owners: &Owners) -> BTreeMap<ServerId, u64> {
        let mut rows = BTreeMap::new();
        for (&(server, _), held) in owners.as_slice().iter().zip(&self.held) {
            *rows.entry(server).or_default() += held.as_ref().map_or(0, |held| held.rows);
        }
        rows
    }

    /// I2: takes the word of a shard's owner; of nobody else, of no earlier assignment (C2) and of
    /// no other life of the state (N4).
    pub(super) fn hear(
        &mut self,
        server: ServerId,
        reports: Vec<ShardReport>,
        owners: &Owners,
        lineage: Lineage,
    ) {
        let mut counted = false;
        for report in reports {
            if owners.of(report.shard) != Some((server, report.incarnation))
                || report.lineage != lineage
            {
                continue;
            }
            let mut open = report.open;
            open.sort_unstable();
            let held = &mut self.held[usize::from(report.shard.0)];
            self.unreported -= usize::from(held.is_none());
            *held = Some(Held {
                rows: report.rows,
                complete: report.complete,
                open,
            });
            counted = true;
        }
        if !counted {
            return;
        }
        self.spoke.insert(server);
        if owners.as_slice().iter().all(|o| self.spoke.contains(&o.0)) {
            self.round += 1;
            self.spoke.clear();
        }
        self.refresh();
    }

    /// C1: forgets what was reported of shards that are assigned anew.
    pub(super) fn forget(&mut self, shards: impl IntoIterator<Item = ShardId>) {
        for shard in shards {
            let held = self.held[usize::from(shard.0)].take();
            self.unreported += usize::from(held.is_some());
        }
        self.refresh();
    }

    /// Forgets what was reported of all shards.
    pub(super) fn forget_all(&mut self) {
        self.held.iter_mut().for_each(|held| *held = None);
        self.unreported = self.held.len();
        // No lease before every owner has spoken of the new state.
        self.resting.clear();
        self.refresh();
    }

    /// Shards of which no owner has told what it holds.
    pub(super) fn unreported(&self) -> u32 {
        u32::try_from(self.unreported).unwrap_or(u32::MAX)
    }

    /// Whether all wanted sources are complete in every shard.
    pub(super) fn all_complete(&self) -> bool {
        let whole = |r: &std::ops::Range<u64>| r.start == 0 && r.end >= self.limit;
        self.unreported == 0
            && (self.limit == 0 || self.complete.ranges().first().is_some_and(whole))
    }

    /// Whether a source can be leased.
    pub(super) fn has_open(&self) -> bool {
        self.unreported == 0 && self.open.first().is_some()
    }

    /// The first wanted source that some shard lacks by its owner's word, or for want of one.
    pub(super) fn first_lacking(&self) -> Option<SourceId> {
        let complete = self.complete.ranges().first().filter(|r| r.start == 0);
        let first = complete.map_or(0, |range| range.end);
        (first < self.limit).then_some(SourceId(first))
    }

    /// The first shard whose owner says that it lacks a wanted source.
    pub(super) fn lacking(&self, source: SourceId) -> Option<ShardId> {
        let lacks = |held: &Held| !held.complete.contains(source.0);
        let mut held = (0u16..).zip(&self.held);
        held.find(|(_, held)| held.as_ref().is_some_and(lacks))
            .map(|(shard, _)| ShardId(shard))
    }

    /// C4: leases the lowest wanted source that is neither complete nor leased.
    pub(super) fn take(&mut self) -> Pick {
        if self.unreported > 0 {
            // C4: no lease while a shard has no report.
            let shard = (0u16..).zip(&self.held).find(|(_, held)| held.is_none());
            return Pick::Unreported(ShardId(shard.map_or(0, |(shard, _)| shard)));
        }
        if let Some(source) = self.open.first() {
            self.open.remove(source);
            self.leased.insert(SourceId(source));
            return Pick::Source(SourceId(source), self.start(SourceId(source)));
        }
        if self.all_complete() {
            Pick::Complete
        } else if !self.resting.is_empty() {
            Pick::Resting(self.resting.len())
        } else if self.leased.is_empty() {
            Pick::Finished(self.finished.len())
        } else {
            Pick::Leased(self.leased.len())
        }
    }

    /// Opens a source again whose lease ended before the work did.
    pub(super) fn reopen(&mut self, source: SourceId) {
        self.leased.remove(&source);
        if self.lacks(source) {
            self.open.insert(source.0);
        }
    }

    /// Takes a worker's hint that a source is finished (W4). It proves nothing: unless the owners
    /// say the same soon, the source is open again (C4 `reopen`).
    pub(super) fn finish(&mut self, source: SourceId, in_time: bool) {
        if in_time {
            self.leased.remove(&source);
        }
        if self.lacks(source) && !self.leased.contains(&source) {
            self.open.remove(source.0);
            self.resting.remove(&source);
            self.finished.insert(source, self.round + ROUNDS);
        }
    }

    /// Takes a source back that its worker could not finish. It is open again when every owner has
    /// spoken since: what they said before made the start that did not help, and would make the
    /// same one again.
    pub(super) fn rest(&mut self, source: SourceId) {
        self.leased.remove(&source);
        if self.lacks(source) {
            // Who has spoken in the round under way did so before; then the next round counts.
            let rounds = if self.spoke.is_empty() { 1 } else { 2 };
            self.resting.insert(source, self.round + rounds);
        }
    }

    /// Takes all sources back: nobody holds or has just finished any.
    pub(super) fn return_all(&mut self) {
        self.leased.clear();
        self.finished.clear();
        self.resting.clear();
        self.refresh();
    }

    fn lacks(&self, source: SourceId) -> bool {
        source.0 < self.limit && !self.complete.contains(source.0)
    }

    /// C4 `reopen_low`: the lowest push that some shard lacks, never one above a hole.
    fn start(&self, source: SourceId) -> Seq {
        let mut start = None;
        for held in self.held.iter().flatten() {
            if held.complete.contains(source.0) {
                continue;
            }
            let next = held.next(source);
            if next == Seq(0) {
                return next;
            }
            start = Some(start.map_or(next, |s: Seq| s.min(next)));
        }
        start.unwrap_or_default()
    }

    /// Computes what is complete and what is open from the reports, leases and hints.
    fn refresh(&mut self) {
        self.complete = self.intersection();
        let (limit, complete, round) = (self.limit, &self.complete, self.round);
        let stays = |source: &SourceId, until: &mut u64| {
            source.0 < limit && !complete.contains(source.0) && round < *until
        };
        self.finished.retain(stays);
        self.resting.retain(stays);
        self.open = Open::gaps(&self.complete, self.limit);
        let given_back = self.finished.keys().chain(self.resting.keys());
        for source in self.leased.iter().chain(given_back) {
            self.open.remove(source.0);
        }
        let first = self.limit.saturating_sub(self.splits.into());
        let inside =
            |r: &std::ops::Range<u64>| r.end.min(self.limit).saturating_sub(r.start.max(first));
        let done = self.complete.ranges().iter().map(inside).sum::<u64>();
        self.done = u32::try_from(done).unwrap_or(self.splits);
    }

    /// I2: what every owner says is complete; nothing while one has not spoken.
    fn intersection(&self) -> IntervalSet {
        let mut all: Option<IntervalSet> = None;
        for held in &self.held {
            let Some(held) = held else {
                return IntervalSet::default();
            };
            all = Some(match all {
                None => held.complete.clone(),
                // Shards are mostly equal, and comparing takes no memory.
                Some(all) if all == held.complete => all,
                Some(all) => all.intersection(&held.complete),
            });
        }
        all.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use windlass_common::id::{Clock, Incarnation, MapEpoch};
    use windlass_common::shard::ShardCount;

    use super::*;

    const INCARNATION: Incarnation = Incarnation {
        epoch: MapEpoch(1),
        nonce: 1,
    };
    const SERVER: ServerId = ServerId(0);

    fn owners() -> Owners {
        Owners::assign(ShardCount::new(2).unwrap(), &[SERVER], INCARNATION)
    }

    fn report(shard: u16, complete: &[u64], open: &[(u64, u64)]) -> ShardReport {
        let mut set = IntervalSet::default();
        complete.iter().for_each(|&n| set.insert(n));
        ShardReport {
            shard: ShardId(shard),
            incarnation: INCARNATION,
            lineage: Lineage(1),
            complete: set,
            open: open.iter().map(|&(s, q)| (SourceId(s), Seq(q))).collect(),
            rows: 0,
            clock: Clock(0),
        }
    }

    fn hear(sources: &mut Sources, reports: Vec<ShardReport>) {
        sources.hear(SERVER, reports, &owners(), Lineage(1));
    }

    /// Two shards, epochs of three sources, one epoch wanted.
    fn sources() -> Sources {
        let mut sources = Sources::new(2, 3);
        sources.want(1);
        sources
    }

    #[test]
    fn c4_no_lease_while_a_shard_has_no_report() {
        let mut s = sources();
        assert_eq!(s.take(), Pick::Unreported(ShardId(0)));
        hear(&mut s, vec![report(0, &[], &[])]);
        assert_eq!(s.take(), Pick::Unreported(ShardId(1)));
        hear(&mut s, vec![report(1, &[], &[])]);
        assert_eq!(s.take(), Pick::Source(SourceId(0), Seq(0)));
        s.forget([ShardId(0)]);
        assert_eq!(s.take(), Pick::Unreported(ShardId(0)));
    }

    #[test]
    fn c4_a_lease_starts_at_the_lowest_push_that_a_lacking_shard_lacks() {
        let mut s = sources();
        let first = report(0, &[0], &[(1, 4)]);
        hear(
            &mut s,
            vec![first, report(1, &[], &[(2, 9), (0, 7), (1, 3)])],
        );
        assert_eq!(s.take(), Pick::Source(SourceId(0), Seq(7)));
        assert_eq!(s.take(), Pick::Source(SourceId(1), Seq(3)));
        assert_eq!(s.take(), Pick::Source(SourceId(2), Seq(0)));
        assert_eq!(s.take(), Pick::Leased(3));
    }

    #[test]
    fn i2_a_source_is_complete_when_every_owner_says_so() {
        let mut s = sources();
        hear(
            &mut s,
            vec![report(0, &[0, 1, 2], &[]), report(1, &[0, 2], &[])],
        );
        assert!(!s.all_complete());
        assert_eq!(s.done(), 2);
        assert_eq!(s.take(), Pick::Source(SourceId(1), Seq(0)));
        s.finish(SourceId(1), true);
        assert!(!s.all_complete(), "a worker's word proves nothing");
        hear(&mut s, vec![report(1, &[0, 1, 2], &[])]);
        assert!(s.all_complete());
        assert_eq!(s.take(), Pick::Complete);
    }

    #[test]
    fn c2_words_of_others_and_of_former_lives_do_not_count() {
        let mut s = sources();
        let all = |shard| report(shard, &[0, 1, 2], &[]);
        hear(&mut s, vec![report(0, &[], &[]), report(1, &[], &[])]);
        let mut former = [all(0), all(1)].to_vec();
        former[0].incarnation.epoch = MapEpoch(0);
        former[1].incarnation.nonce = 2;
        hear(&mut s, former);
        let mut restored = [all(0), all(1)].to_vec();
        restored.iter_mut().for_each(|r| r.lineage = Lineage(2));
        hear(&mut s, restored);
        s.hear(ServerId(1), vec![all(0), all(1)], &owners(), Lineage(1));
        hear(&mut s, vec![all(2)]);
        assert_eq!(s.done(), 0);
        assert_eq!(s.take(), Pick::Source(SourceId(0), Seq(0)));
    }

    #[test]
    fn c4_a_finished_source_that_stays_lacking_is_open_again() {
        let mut s = sources();
        let lacking = || vec![report(0, &[1, 2], &[]), report(1, &[1, 2], &[])];
        hear(&mut s, lacking());
        assert_eq!(s.take(), Pick::Source(SourceId(0), Seq(0)));
        s.finish(SourceId(0), true);
        for _ in 0..ROUNDS {
            assert_eq!(s.take(), Pick::Finished(1));
            hear(&mut s, lacking());
        }
        assert_eq!(s.take(), Pick::Source(SourceId(0), Seq(0)));
    }

    #[test]
    fn c4_a_source_that_was_given_back_undone_starts_from_a_later_report() {
        let mut s = sources();
        let lacking = |next| vec![report(0, &[1, 2], &[(0, next)]), report(1, &[1, 2], &[])];
        hear(&mut s, lacking(4));
        assert_eq!(s.take(), Pick::Source(SourceId(0), Seq(0)));
        s.rest(SourceId(0));
        assert_eq!(s.take(), Pick::Resting(1));
        let later = vec![report(1, &[1, 2], &[(0, 3)])];
        hear(&mut s, later);
        assert_eq!(s.take(), Pick::Source(SourceId(0), Seq(3)));
        // A hint that comes late ends the rest.
        s.rest(SourceId(0));
        s.finish(SourceId(0), false);
        assert_eq!(s.take(), Pick::Finished(1));
        hear(&mut s, vec![report(0, &[0, 1, 2], &[])]);
        hear(&mut s, vec![report(1, &[0, 1, 2], &[])]);
        assert_eq!(s.take(), Pick::Complete);
        // One that is complete does not rest.
        s.rest(SourceId(0));
        assert_eq!(s.take(), Pick::Complete);
    }

    #[test]
    fn a_late_hint_does_not_end_the_lease_of_another() {
        let mut s = sources();
        hear(
            &mut s,
            vec![report(0, &[1, 2], &[]), report(1, &[1, 2], &[])],
        );
        assert!(matches!(s.take(), Pick::Source(..)));
        s.finish(SourceId(0), false);
        assert_eq!(s.take(), Pick::Leased(1));
        s.reopen(SourceId(0));
        assert!(matches!(s.take(), Pick::Source(..)));
    }

    #[test]
    fn sources_that_are_lost_again_come_before_those_of_later_epochs() {
        let mut s = sources();
        hear(
            &mut s,
            vec![report(0, &[0, 1, 2], &[]), report(1, &[0, 1, 2], &[])],
        );
        s.want(2);
        assert_eq!(s.take(), Pick::Source(SourceId(3), Seq(0)));
        hear(&mut s, vec![report(1, &[0], &[])]);
        assert_eq!(s.take(), Pick::Source(SourceId(1), Seq(0)));
        assert_eq!(s.take(), Pick::Source(SourceId(2), Seq(0)));
        assert_eq!(s.take(), Pick::Source(SourceId(4), Seq(0)));
    }
}
