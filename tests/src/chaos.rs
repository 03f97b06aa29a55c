//! Random kills, from a seed that is told: which process, and when.

use std::io::Write as _;
use std::time::{Duration, Instant};

use windlass_common::split::Draw;

use crate::{Cluster, Running};

/// What the coordinator's log has a line of for each step of a job.
pub const STEP: &str = "epoch ends";

/// A process of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// A server that is started again with what is on its disk.
    Server(usize),
    /// A server that is started again with an empty disk.
    ServerAndDisk(usize),
    /// All servers, as by a power cut.
    AllServers,
    /// A worker, by its place.
    Worker(usize),
}

/// Kills processes of one job, each of them while the job goes on.
pub struct Killer {
    draw: Draw,
    victims: Vec<Victim>,
    /// How long a step of the job takes.
    step: Option<Duration>,
}

impl Killer {
    /// Draws from a seed: `WINDLASS_SEED` if that is set, else the process's number. It is told on
    /// standard error.
    ///
    /// # Panics
    /// When `WINDLASS_SEED` is no number, or without victims.
    pub fn new(test: &str, victims: Vec<Victim>) -> Self {
        let seed = match std::env::var("WINDLASS_SEED") {
            Ok(text) => text
                .parse()
                .unwrap_or_else(|error| panic!("WINDLASS_SEED=`{text}`: {error}")),
            Err(_) => u64::from(std::process::id()),
        };
        // Not `eprintln!`, which the test harness would keep to itself.
        let _ = writeln!(std::io::stderr(), "{test}: WINDLASS_SEED={seed}");
        assert!(!victims.is_empty(), "nobody to kill");
        let path: Vec<u64> = test.bytes().map(u64::from).collect();
        Self {
            draw: Draw::new(seed, &path),
            victims,
            step: None,
        }
    }

    /// Kills one process and starts it again; `start` starts a worker.
    ///
    /// The moment is random, up to two steps of the job from when this was called; three times of
    /// four it waits for a step before, so that the kill hits a job that has recovered from the one
    /// before.
    ///
    /// # Panics
    /// When the job goes no further, or the victim has ended by itself.
    pub fn strike(
        &mut self,
        cluster: &mut Cluster,
        workers: &mut [Running],
        mut start: impl FnMut(&Cluster) -> Running,
    ) -> Victim {
        let step = *self.step.get_or_insert_with(|| {
            cluster.wait_for_more(STEP);
            let began = Instant::now();
            cluster.wait_for_more(STEP);
            began.elapsed()
        });
        // Now and then a kill hits what has not recovered yet.
        if self.draw.below(4) > 0 {
            cluster.wait_for_more(STEP);
        }
        // No condition can say when: that it is any moment is the point. In steps, so that a fast
        // machine has not done the job before it is hit.
        let most = u64::try_from(2 * step.as_micros()).unwrap_or(u64::MAX);
        std::thread::sleep(Duration::from_micros(self.draw.below(most)));
        let nth = self.draw.below(self.victims.len() as u64);
        let victim = self.victims[usize::try_from(nth).unwrap_or_default()];
        match victim {
            Victim::Server(server) => {
                cluster.kill(server);
                cluster.restart(server);
            }
            Victim::ServerAndDisk(server) => {
                cluster.kill(server);
                cluster.lose_disk(server);
                cluster.restart(server);
            }
            Victim::AllServers => {
                (0..cluster.size()).for_each(|server| cluster.kill(server));
                (0..cluster.size()).for_each(|server| cluster.restart(server));
            }
            Victim::Worker(place) => {
                let dead = std::mem::replace(&mut workers[place], start(cluster));
                dead.kill();
            }
        }
        victim
    }
}
