//! One seed: a cluster is built, the faults of the seed befall it, they end, and the job must end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use turmoil::Sim;

use super::blobs::Blobs;
use super::faults::{Faults, latency};
use super::memory::MemoryDisk;
use super::plan::{Mode, Plan};
use super::server::serve;
use super::worker::work;
use super::world::World;

/// Hosts run in turn for so long. Messages arrive between turns, and timers of one host within one
/// are exact.
const TICK: Duration = Duration::from_millis(10);

/// Faults go on for this long.
const STORM: Duration = Duration::from_secs(20);

/// Then the job must end within this (I5): leases run out, connections that are dead are found to
/// be so, and whatever was lost is learnt again.
const CALM: Duration = Duration::from_secs(180);

/// What a simulation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Everything that happened, in order.
    pub trace: Vec<String>,
    /// How long it took in its own time.
    pub took: Duration,
}

/// Runs one seed.
///
/// # Errors
/// What is not as it must be, with the trace.
pub fn run(seed: u64, mode: Mode) -> Result<Ran> {
    let plan = Arc::new(Plan::new(seed, mode)?);
    let world = World::new(seed);
    let blobs = Blobs::new(Arc::clone(&world), Arc::clone(&plan));
    let mut sim = latency(turmoil::Builder::new().rng_seed(seed))
        .tick_duration(TICK)
        .simulation_duration(Duration::MAX)
        .tcp_capacity(4096)
        .build();
    for host in plan.servers.clone() {
        let parts = (Arc::clone(&world), Arc::clone(&plan), blobs.clone());
        sim.host(host.clone(), move || {
            let (world, plan, blobs) = parts.clone();
            serve(world, host.clone(), plan, blobs)
        });
    }
    for host in plan.workers.clone() {
        let disk = MemoryDisk::default();
        let parts = (Arc::clone(&world), Arc::clone(&plan), blobs.clone(), disk);
        sim.host(host.clone(), move || {
            let (world, plan, blobs, disk) = parts.clone();
            work(world, host.clone(), plan, blobs, disk)
        });
    }
    let faults = Faults::new(seed, &plan, Arc::clone(&world), blobs.clone());
    let ended = weather(&mut sim, faults, &plan, &world);
    let took = sim.elapsed();
    drop(sim);
    let trace = world.trace();
    match ended {
        Ok(()) => Ok(Ran { trace, took }),
        Err(error) => {
            let lines = trace.join("\n");
            Err(error.context(format!("the trace:\n{lines}\n")))
        }
    }
}

/// Lets time pass, with faults and then without, until every worker is done.
fn weather(sim: &mut Sim<'_>, mut faults: Faults, plan: &Plan, world: &World) -> Result<()> {
    loop {
        sim.step()
            .map_err(|error| anyhow!("a host failed: {error}"))?;
        faults.pass_time(sim);
        if let Some(violation) = world.violations().first() {
            bail!("{violation}");
        }
        let now = sim.elapsed();
        if now >= STORM && !world.is_calm() {
            faults.end(sim);
        }
        if plan.workers.iter().all(|worker| world.is_done(worker)) {
            return Ok(());
        }
        if now > STORM + CALM {
            bail!("the job has not ended within {CALM:?} without faults");
        }
    }
}
