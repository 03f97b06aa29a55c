//! What all hosts of a simulation share: what has happened, chance, and what is left to be done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_common::id::{JobId, Lineage, PushId, ShardId};
use windlass_common::split::Draw;

/// The streams of random numbers, so that one does not depend on how often another is asked.
const DELAYS: u64 = 1;
const NAMES: u64 = 2;
const TROUBLES: u64 = 3;
const LOSSES: u64 = 5;

/// One simulation. Its hosts run in turn on one thread.
pub(super) struct World {
    /// Whether disks are lost, fail and go back, and stored files are damaged. Without that a log
    /// keeps all that was acknowledged.
    pub(super) loses: bool,
    // std's: held for a moment, never across an await.
    state: Mutex<State>,
}

struct State {
    trace: Vec<String>,
    delays: Draw,
    names: Draw,
    troubles: Draw,
    /// No more faults: what is said and stored now arrives.
    calm: bool,
    lives: BTreeMap<String, u64>,
    /// Hosts whose process has ended by itself.
    ended: BTreeSet<String>,
    /// Hosts whose disk is empty at their next start.
    wiped: BTreeSet<String>,
    /// Hosts that find an older state of the coordinator at their next start.
    old: BTreeSet<String>,
    /// Whether that has ever happened.
    aged: bool,
    /// Whether something is gone that no log can bring back.
    lossy: bool,
    /// What workers were told to be applied.
    applied: BTreeSet<(JobId, Lineage, PushId, ShardId)>,
    /// Workers whose job is done and was found right.
    done: BTreeSet<String>,
    /// What must not be.
    violations: Vec<String>,
}

impl World {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            loses: Draw::new(seed, &[LOSSES]).below(2) == 0,
            state: Mutex::new(State {
                trace: Vec::new(),
                delays: Draw::new(seed, &[DELAYS]),
                names: Draw::new(seed, &[NAMES]),
                troubles: Draw::new(seed, &[TROUBLES]),
                calm: false,
                lives: BTreeMap::new(),
                ended: BTreeSet::new(),
                wiped: BTreeSet::new(),
                old: BTreeSet::new(),
                aged: false,
                lossy: false,
                applied: BTreeSet::new(),
                done: BTreeSet::new(),
                violations: Vec::new(),
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what happened at a host, or to it.
    pub(super) fn note(&self, host: &str, what: impl Display) {
        let at = turmoil::sim_elapsed();
        self.note_at(at.unwrap_or_default(), host, what);
    }

    /// The same from outside of all hosts.
    pub(super) fn note_at(&self, at: Duration, host: &str, what: impl Display) {
        let line = format!("{:8.3} {host}: {what}", at.as_secs_f64());
        self.lock().trace.push(line);
    }

    /// Writes down what must not be.
    pub(super) fn violated(&self, host: &str, what: impl Display) {
        self.note(host, format!("VIOLATION: {what}"));
        self.lock().violations.push(format!("{host}: {what}"));
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    pub(super) fn trace(&self) -> Vec<String> {
        self.lock().trace.clone()
    }

    /// Draws a time below a limit.
    pub(super) fn delay(&self, limit: Duration) -> Duration {
        let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.lock().delays.below(micros))
    }

    /// Draws a number that has not been before.
    pub(super) fn name(&self) -> u64 {
        self.lock().names.bits()
    }

    /// Whether what goes wrong so many times of a thousand goes wrong now; never in calm.
    pub(super) fn trouble(&self, of_a_thousand: u64) -> bool {
        let state = &mut *self.lock();
        !state.calm && state.troubles.below(1000) < of_a_thousand
    }

    pub(super) fn is_calm(&self) -> bool {
        self.lock().calm
    }

    pub(super) fn calm_down(&self) {
        self.lock().calm = true;
    }

    /// Begins a life of a host's process; its number, and whether it finds its disk empty.
    pub(super) fn begin(&self, host: &str) -> (u64, bool) {
        let state = &mut *self.lock();
        let life = state.lives.entry(host.into()).or_default();
        *life += 1;
        (*life, state.wiped.remove(host))
    }

    /// Empties the disk of a host whose process has died.
    pub(super) fn wipe(&self, host: &str) {
        let state = &mut *self.lock();
        state.wiped.insert(host.into());
        state.lossy = true;
    }

    /// Puts an older state of the coordinator on the disk of a host whose process has died.
    pub(super) fn age(&self, host: &str) {
        self.lock().old.insert(host.into());
    }

    /// Whether a host's process finds an older state of the coordinator.
    pub(super) fn take_old(&self, host: &str) -> bool {
        let state = &mut *self.lock();
        let old = state.old.remove(host);
        state.aged |= old;
        state.lossy |= old;
        old
    }

    /// Whether the coordinator has ever gone on from an older state.
    pub(super) fn has_aged(&self) -> bool {
        self.lock().aged
    }

    /// From now on what was acknowledged may be gone.
    pub(super) fn lose(&self) {
        self.lock().lossy = true;
    }

    /// Whether something is gone that no log can bring back.
    pub(super) fn has_lost(&self) -> bool {
        self.lock().lossy
    }

    /// A worker was told that a push was applied to a shard; whether it had been told so before
    /// although nothing has gone that a log does not bring back.
    pub(super) fn applied_again(&self, told: (JobId, Lineage, PushId, ShardId)) -> bool {
        let state = &mut *self.lock();
        !state.applied.insert(told) && !state.lossy
    }

    /// A host's process has ended by itself.
    pub(super) fn end(&self, host: &str) {
        self.lock().ended.insert(host.into());
    }

    pub(super) fn take_ended(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.lock().ended)
    }

    /// A worker has nothing more to do.
    pub(super) fn done(&self, host: &str) {
        self.lock().done.insert(host.into());
    }

    pub(super) fn is_done(&self, host: &str) -> bool {
        self.lock().done.contains(host)
    }
}
