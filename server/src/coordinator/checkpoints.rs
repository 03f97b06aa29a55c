//! A job's checkpoints in the cluster's store: when one is due, which shards are saved, and what is
//! closed by those that are published (rules C5, C6, C7 and C9).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_common::format::{ManifestFile, PublishedState, number_of};
use windlass_common::human::Every;
use windlass_common::id::{CheckpointId, Lineage, ShardId, SourceId};
use windlass_common::interval_set::IntervalSet;
use windlass_common::saving::{SaveOrder, Saved};

/// How running jobs are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saving {
    /// How often.
    pub every: Every,
    /// Every so many checkpoints one is full.
    pub full_every: u32,
}

/// Why a checkpoint is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The schedule says so, or a user: training goes on.
    Running,
    /// The epoch that is in the rows is the best so far (rule C5); nothing is learnt meanwhile.
    Best,
    /// Nothing more is learnt, and what was is to be closed (rule C9).
    End,
}

/// A checkpoint whose shards are being saved.
#[derive(Debug)]
struct UnderWay {
    order: SaveOrder,
    cause: Cause,
    files: BTreeMap<ShardId, Saved>,
    /// Whether the manifest is being written.
    publishing: bool,
}

/// All that is needed for a manifest, beside what the job knows of itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ready {
    pub(super) checkpoint: CheckpointId,
    pub(super) pinned: bool,
    /// The sources that are complete in each file (rule C6 `files_only`).
    pub(super) complete: IntervalSet,
    /// By shard.
    pub(super) chains: Vec<Vec<ManifestFile>>,
}

/// The checkpoints of one job.
#[derive(Debug)]
pub(super) struct Checkpoints {
    saving: Saving,
    shards: usize,
    last: CheckpointId,
    /// C5: the one that holds the best epoch.
    best: Option<CheckpointId>,
    /// Of this lineage, its origin included, oldest first: from the one before the newest on that
    /// shares no file with it.
    published: Vec<PublishedState>,
    /// C8: whatever was closed at some time, though what closed it may be lost.
    closed: IntervalSet,
    under_way: Option<UnderWay>,
    /// Since when the next one is waited for, and what was learnt since.
    since: Option<Duration>,
    examples: u64,
    asked: bool,
}

impl Checkpoints {
    /// Starts without any; numbers go on after `last`.
    pub(super) fn new(saving: Saving, shards: usize, last: CheckpointId) -> Self {
        Self {
            saving,
            shards,
            last,
            best: None,
            published: Vec::new(),
            closed: IntervalSet::default(),
            under_way: None,
            since: None,
            examples: 0,
            asked: false,
        }
    }

    /// Goes on from what an earlier life of the role knew.
    pub(super) fn resume(&mut self, best: Option<CheckpointId>, published: Vec<PublishedState>) {
        self.best = best;
        self.published = published;
        self.closed = self.held_by_both();
    }

    /// The highest number that was ordered.
    pub(super) fn last(&self) -> CheckpointId {
        self.last
    }

    /// The checkpoint of the best epoch.
    pub(super) fn best(&self) -> Option<CheckpointId> {
        self.best
    }

    /// What a later life must know of the published ones.
    pub(super) fn published(&self) -> &[PublishedState] {
        &self.published
    }

    /// Takes note that a number is taken in the store.
    pub(super) fn rise_above(&mut self, taken: CheckpointId) {
        self.last = self.last.max(taken);
    }

    /// Counts what was learnt.
    pub(super) fn learnt(&mut self, examples: u64) {
        self.examples = self.examples.saturating_add(examples);
    }

    /// Asks for one that begins as soon as none is under way; its number.
    pub(super) fn ask(&mut self) -> CheckpointId {
        self.asked = true;
        CheckpointId(self.last.0 + 1)
    }

    /// Orders one if it is due and none is under way.
    pub(super) fn pass_time(&mut self, now: Duration) {
        let since = *self.since.get_or_insert(now);
        let due = match self.saving.every {
            Every::Time(span) => now.saturating_sub(since) >= span.duration(),
            Every::Examples(examples) => self.examples >= examples,
        };
        if self.under_way.is_none() && (due || self.asked) {
            self.begin(Cause::Running);
        }
    }

    /// Orders a checkpoint for this cause, unless one is under way for it.
    pub(super) fn require(&mut self, cause: Cause) {
        if self.under_way.as_ref().is_none_or(|u| u.cause != cause) {
            self.begin(cause);
        }
    }

    /// Orders a checkpoint; one that is under way is given up.
    fn begin(&mut self, cause: Cause) {
        self.last.0 += 1;
        let base = self.published.last().filter(|newest| {
            // C9: the last two must not stand or fall with the same file.
            cause == Cause::Running
                && self.last.0 - newest.root.0 < u64::from(self.saving.full_every)
        });
        self.under_way = Some(UnderWay {
            order: SaveOrder {
                checkpoint: self.last,
                base: base.map(|b| b.checkpoint),
                gentle: cause == Cause::Running,
            },
            cause,
            files: BTreeMap::new(),
            publishing: false,
        });
        (self.since, self.examples, self.asked) = (None, 0, false);
    }

    /// What servers are to save now.
    pub(super) fn order(&self) -> Option<SaveOrder> {
        // Once its manifest is being written, nothing that is saved comes into it.
        let under_way = self.under_way.as_ref().filter(|u| !u.publishing);
        under_way.map(|u| u.order)
    }

    /// The checkpoint under way, and how many shards are saved.
    pub(super) fn under_way(&self) -> Option<(CheckpointId, u32)> {
        let under_way = self.under_way.as_ref()?;
        let saved = u32::try_from(under_way.files.len()).unwrap_or(u32::MAX);
        Some((under_way.order.checkpoint, saved))
    }

    /// C6: takes what a server has saved: any moment of the shard, any incarnation of it, but of no
    /// other lineage (rule N4).
    pub(super) fn hear(&mut self, saved: Vec<Saved>, lineage: Lineage) {
        let Some(under_way) = &mut self.under_way else {
            return;
        };
        for saved in saved {
            let fits = saved.checkpoint == under_way.order.checkpoint
                && saved.lineage == lineage
                && usize::from(saved.shard.0) < self.shards;
            if fits && !under_way.publishing {
                under_way.files.insert(saved.shard, saved);
            }
        }
    }

    /// Hands out what is to be published, once every shard has a file; each time only once.
    ///
    /// One that was to hold exactly the sources below `limit` and does not (a server had lost a
    /// shard meanwhile) is given up; it will be required again.
    pub(super) fn take_ready(&mut self, limit: u64) -> Option<Ready> {
        let under_way = self.under_way.as_mut()?;
        if under_way.files.len() < self.shards || under_way.publishing {
            return None;
        }
        let border = IntervalSet::below(limit);
        let exact = |s: &Saved| s.open == 0 && s.complete == border;
        if under_way.cause == Cause::Best && !under_way.files.values().all(exact) {
            self.under_way = None;
            return None;
        }
        under_way.publishing = true;
        let mut files = under_way.files.values();
        let first = files.next().map(|s| s.complete.clone()).unwrap_or_default();
        Some(Ready {
            checkpoint: under_way.order.checkpoint,
            pinned: under_way.cause == Cause::Best,
            complete: files.fold(first, |all, s| all.intersection(&s.complete)),
            chains: under_way.files.values().map(|s| s.chain.clone()).collect(),
        })
    }

    /// C6, C7: takes note of checkpoints that are damaged or gone. They hold nothing any more, and
    /// none builds on them.
    pub(super) fn forget(&mut self, lost: &BTreeSet<CheckpointId>) {
        self.published.retain(|p| !lost.contains(&p.checkpoint));
        self.best = self.best.filter(|best| !lost.contains(best));
    }

    /// Takes note that a manifest is in the store; tells why it was taken.
    pub(super) fn published_now(&mut self, ready: &Ready, taken: u64) -> Option<Cause> {
        let under_way = self
            .under_way
            .take_if(|u| u.order.checkpoint == ready.checkpoint)?;
        self.note(PublishedState {
            checkpoint: ready.checkpoint,
            root: root_of(ready),
            taken,
            complete: ready.complete.clone(),
        });
        if under_way.cause == Cause::Best {
            self.best = Some(ready.checkpoint);
        }
        Some(under_way.cause)
    }

    /// Takes note that the manifest could not be written; it is handed out again.
    pub(super) fn not_published(&mut self, checkpoint: CheckpointId) {
        if let Some(under_way) = &mut self.under_way
            && under_way.order.checkpoint == checkpoint
        {
            under_way.publishing = false;
        }
    }

    /// N4: begins a lineage from a checkpoint that has all of `complete`, or from nothing.
    pub(super) fn begin_lineage(&mut self, origin: Option<PublishedState>) {
        self.under_way = None;
        self.published = origin.into_iter().collect();
        self.closed = IntervalSet::default();
    }

    /// The newest published checkpoint.
    pub(super) fn newest(&self) -> Option<&PublishedState> {
        self.published.last()
    }

    /// The newest published checkpoint before the newest one that shares no file with it: the two
    /// do not stand or fall together.
    pub(super) fn older(&self) -> Option<&PublishedState> {
        let newest = self.published.last()?;
        self.published
            .iter()
            .rev()
            .find(|p| p.checkpoint < newest.root)
    }

    /// The checkpoints that must stay in the store: the best one, and the two that close sources.
    pub(super) fn needed(&self) -> impl Iterator<Item = CheckpointId> {
        let published = self.published.iter().map(|p| p.checkpoint);
        published.chain(self.best)
    }

    /// C7 `both`: the sources that both of the last two hold.
    pub(super) fn held_by_both(&self) -> IntervalSet {
        match (self.newest(), self.older()) {
            (Some(newest), Some(older)) => newest.complete.intersection(&older.complete),
            _ => IntervalSet::default(),
        }
    }

    /// C8: whether a source was closed at some time. Costs O(log ranges).
    pub(super) fn was_closed(&self, source: SourceId) -> bool {
        self.closed.contains(source.0)
    }

    fn note(&mut self, published: PublishedState) {
        self.published.push(published);
        if let Some(older) = self.older().map(|p| p.checkpoint) {
            self.published.retain(|p| p.checkpoint >= older);
        }
        self.closed = self.closed.union(&self.held_by_both());
    }
}

/// The oldest checkpoint whose files this one needs. Shards begin with full files at different
/// times when servers come and go.
fn root_of(ready: &Ready) -> CheckpointId {
    let number = |file: &ManifestFile| number_of(&file.folder).unwrap_or(ready.checkpoint);
    let first = |chain: &Vec<ManifestFile>| chain.first().map(number);
    let oldest = ready.chains.iter().filter_map(first).min();
    oldest.unwrap_or(ready.checkpoint)
}

#[cfg(test)]
mod tests;
