//! What goes wrong in a simulation, and when: as the seed says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use turmoil::Sim;
use windlass_common::split::Draw;

use super::blobs::Blobs;
use super::plan::Plan;
use super::world::World;

/// The longest time between two faults, in milliseconds, of which a seed chooses one.
const PAUSES: [u64; 4] = [800, 1500, 4000, 9000];

/// How many of a hundred crashes of a host lose its disk.
const LOST_DISKS: u64 = 15;

/// How many of a hundred crashes of the coordinator end with an older state on its disk.
const OLD_STATES: u64 = 10;

/// Messages take this long at most, mostly.
const LATENCY: Duration = Duration::from_millis(12);

/// What is undone later.
enum Cure {
    /// A host is started again.
    Start(String),
    /// Messages arrive again between two hosts.
    Connect(String, String),
    /// What was held between a host and others arrives.
    Release(Vec<(String, String)>),
    /// Messages are as fast as before.
    Hurry,
}

/// The faults of one simulation.
pub(super) struct Faults {
    world: Arc<World>,
    blobs: Blobs,
    draw: Draw,
    pause: u64,
    servers: Vec<String>,
    hosts: Vec<String>,
    next: Duration,
    /// By time, in the order in which they were decided.
    cures: BTreeMap<(Duration, u64), Cure>,
    cured: u64,
    down: BTreeSet<String>,
}

impl Faults {
    pub(super) fn new(seed: u64, plan: &Plan, world: Arc<World>, blobs: Blobs) -> Self {
        let mut draw = Draw::new(seed, &[4]);
        let pause = draw.below(PAUSES.len() as u64);
        Self {
            world,
            blobs,
            draw,
            pause: PAUSES[usize::try_from(pause).unwrap_or(0)],
            servers: plan.servers.clone(),
            hosts: plan.hosts(),
            next: Duration::from_millis(300),
            cures: BTreeMap::new(),
            cured: 0,
            down: BTreeSet::new(),
        }
    }

    /// Does what is due at this time.
    pub(super) fn pass_time(&mut self, sim: &mut Sim<'_>) {
        let now = sim.elapsed();
        while let Some(first) = self.cures.first_entry() {
            if first.key().0 > now {
                break;
            }
            let cure = first.remove();
            self.cure(cure, sim);
        }
        for host in self.world.take_ended() {
            if !self.down.contains(&host) {
                self.crash(&host, Duration::from_millis(500), sim);
            }
        }
        if now >= self.next && !self.world.is_calm() {
            self.strike(sim);
            let pause = 20 + self.draw.below(self.pause);
            self.next = now + Duration::from_millis(pause);
        }
    }

    /// Undoes everything, for good.
    pub(super) fn end(&mut self, sim: &mut Sim<'_>) {
        self.world.note_at(sim.elapsed(), "faults", "end");
        self.world.calm_down();
        for (_, cure) in std::mem::take(&mut self.cures) {
            self.cure(cure, sim);
        }
    }

    fn strike(&mut self, sim: &mut Sim<'_>) {
        let (a, b) = self.pair();
        let span = Duration::from_millis(100 + self.draw.below(5000));
        let now = sim.elapsed();
        let note = |what: String| self.world.note_at(now, "faults", what);
        match self.draw.below(13) {
            0..=2 => {
                let at = self.draw.below(self.servers.len() as u64);
                let host = self.servers[usize::try_from(at).unwrap_or(0)].clone();
                self.kill(&host, sim);
            }
            3 => self.kill(&a, sim),
            4 | 5 => {
                note(format!("partition {a} {b}"));
                sim.partition(a.as_str(), b.as_str());
                self.later(now + span, Cure::Connect(a, b));
            }
            6 | 7 => {
                note(format!("partition {a} to {b}"));
                sim.partition_oneway(a.as_str(), b.as_str());
                self.later(now + span, Cure::Connect(a, b));
            }
            8 => {
                note(format!("hold {a} {b}"));
                sim.hold(a.as_str(), b.as_str());
                self.later(now + span, Cure::Release(vec![(a, b)]));
            }
            9 | 10 => {
                // As seen by all others it stands still, and goes on where it was.
                note(format!("pause {a}"));
                let others = self.hosts.iter().filter(|host| **host != a);
                let pairs: Vec<_> = others.map(|b| (a.clone(), b.clone())).collect();
                for (a, b) in &pairs {
                    sim.hold(a.as_str(), b.as_str());
                }
                self.later(now + span + Duration::from_secs(2), Cure::Release(pairs));
            }
            11 if self.world.loses => self.blobs.damage(&mut self.draw),
            _ => {
                note("messages are slow".into());
                sim.set_max_message_latency(Duration::from_millis(400));
                self.later(now + span, Cure::Hurry);
            }
        }
    }

    /// Kills a host's process, or its power: then nobody hears that its connections end.
    fn kill(&mut self, host: &str, sim: &mut Sim<'_>) {
        if self.down.contains(host) {
            return;
        }
        if self.world.loses && self.draw.below(100) < LOST_DISKS {
            self.world.wipe(host);
            self.world.note_at(
                sim.elapsed(),
                "faults",
                format_args!("{host} loses its disk"),
            );
        }
        if self.world.loses && *host == self.servers[0] && self.draw.below(100) < OLD_STATES {
            self.world.age(host);
        }
        let span = Duration::from_millis(50 + self.draw.below(6000));
        let silent = self.draw.below(2) == 0;
        self.crash(host, span, sim);
        if silent {
            for other in &self.hosts {
                if other != host {
                    sim.partition(host, other.as_str());
                    let cure = Cure::Connect(host.into(), other.clone());
                    self.cured += 1;
                    self.cures.insert((sim.elapsed() + span, self.cured), cure);
                }
            }
        }
    }

    fn crash(&mut self, host: &str, span: Duration, sim: &mut Sim<'_>) {
        self.world
            .note_at(sim.elapsed(), "faults", format_args!("crash {host}"));
        // The order in which a runtime drops its tasks depends on what else the process runs, so none
        // of the connections that end says so; who goes on to send is told that there is none.
        let others: Vec<_> = self.hosts.iter().filter(|o| *o != host).cloned().collect();
        for other in &others {
            sim.partition(host, other.as_str());
        }
        sim.crash(host);
        for other in &others {
            sim.repair(host, other.as_str());
        }
        self.down.insert(host.into());
        self.later(sim.elapsed() + span, Cure::Start(host.into()));
    }

    fn cure(&mut self, cure: Cure, sim: &mut Sim<'_>) {
        let now = sim.elapsed();
        let note = |what: String| self.world.note_at(now, "faults", what);
        match cure {
            Cure::Start(host) => {
                note(format!("start {host}"));
                sim.bounce(host.as_str());
                self.down.remove(&host);
            }
            Cure::Connect(a, b) => {
                note(format!("connect {a} {b}"));
                sim.repair(a.as_str(), b.as_str());
            }
            Cure::Release(pairs) => {
                note(format!("release {}", pairs.len()));
                for (a, b) in &pairs {
                    sim.release(a.as_str(), b.as_str());
                }
            }
            Cure::Hurry => {
                note("messages are fast".into());
                sim.set_max_message_latency(LATENCY);
            }
        }
    }

    fn later(&mut self, at: Duration, cure: Cure) {
        self.cured += 1;
        self.cures.insert((at, self.cured), cure);
    }

    /// Draws two hosts.
    fn pair(&mut self) -> (String, String) {
        let count = self.hosts.len() as u64;
        let a = self.draw.below(count);
        let b = (a + 1 + self.draw.below(count - 1)) % count;
        let host = |at: u64| self.hosts[usize::try_from(at).unwrap_or(0)].clone();
        (host(a), host(b))
    }
}

/// The latency that simulations begin with.
pub(super) fn latency(builder: &mut turmoil::Builder) -> &mut turmoil::Builder {
    builder
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(LATENCY)
}
