//! A cluster with a store: what is closed, what comes back, and what a restart of the role changes.

use windlass_common::format::Stage;
use windlass_common::id::{CheckpointId, SourceId};
use windlass_common::interval_set::IntervalSet;
use windlass_proto::ErrorKind;

use super::world::{Setup, World};

fn best_is_the_first(epochs: u32) -> Setup {
    let losses: Vec<f64> = (0..epochs).map(|e| 0.4 + f64::from(e) / 10.0).collect();
    Setup::new(2, 2, epochs).with_held_out(&losses, None)
}

/// Every source below the history's end is in both of the last two manifests.
fn check_closed(world: &World, epochs: u32) {
    let wanted = IntervalSet::below(u64::from(epochs * world.setup.splits));
    let manifests = &world.store.as_ref().unwrap().manifests;
    let newest: Vec<_> = manifests.values().rev().take(2).collect();
    assert_eq!(newest.len(), 2);
    for manifest in newest {
        assert_eq!(
            manifest.complete.intersection(&wanted),
            wanted,
            "{manifest:?}"
        );
    }
}

#[test]
fn c9_a_job_is_done_when_two_checkpoints_hold_all_of_it() {
    let mut world = World::durable(Setup::new(2, 2, 2), 2, 2, 1);
    let history = world.run();
    world.check_exact(&history);
    check_closed(&world, 2);
}

#[test]
fn c5_the_best_epoch_is_pinned_and_put_back_by_the_servers() {
    let mut world = World::durable(best_is_the_first(3), 2, 2, 2);
    let history = world.run();
    assert_eq!(history.epochs, 1);
    world.check_exact(&history);
    let store = world.store.as_ref().unwrap();
    let pinned: Vec<_> = store.manifests.values().filter(|m| m.pinned).collect();
    assert_eq!(pinned.len(), 1);
    assert_eq!(pinned[0].complete, IntervalSet::below(6));
}

#[test]
fn c0_a_coordinator_that_comes_back_knows_its_jobs_and_opens_a_new_map() {
    let mut world = World::durable(Setup::new(2, 2, 3), 2, 2, 3);
    world.turn_until("some batches", |w| w.computed > 10);
    let job = world.workers[0].job.unwrap();
    let before = world.coordinator.map(job, world.now).unwrap();
    world.restart_coordinator();
    let after = world.coordinator.map(job, world.now).unwrap();
    assert!(after.epoch > before.epoch);
    // Servers that lived on keep their shards as they are (rule C1).
    assert_eq!(after.owners, before.owners);
    let history = world.run();
    world.check_exact(&history);
}

#[test]
fn a_server_takes_its_shards_from_the_store_and_nobody_rolls_back() {
    let mut world = World::durable(Setup::new(2, 2, 4), 2, 2, 4);
    world.turn_until("two checkpoints", |w| {
        w.store.as_ref().unwrap().manifests.len() >= 2
    });
    let job = world.workers[0].job.unwrap();
    let kept = world.servers[0].jobs[&job].clone();
    world.restart_server(1);
    world.turn();
    for (shard, now) in &world.servers[0].jobs[&job] {
        assert!(
            kept[shard]
                .rows
                .iter()
                .all(|(batch, n)| now.rows[batch] == *n)
        );
    }
    world.turn();
    let back = world.servers[1].jobs[&job].values();
    assert!(back.into_iter().all(|shard| !shard.rows.is_empty()));
    let history = world.run();
    world.check_exact(&history);
}

#[test]
fn a_new_cluster_goes_on_from_the_store() {
    let mut world = World::durable(Setup::new(2, 2, 3), 2, 2, 5);
    world.turn_until("a checkpoint in the second epoch", |w| {
        let manifests = &w.store.as_ref().unwrap().manifests;
        manifests.values().any(|m| m.target == 2)
    });
    let computed = world.computed;
    let mut new = World::durable(Setup::new(3, 2, 3), 3, 2, 6);
    new.store = world.store.take();
    let history = new.run();
    new.check_exact(&history);
    assert_eq!(history.epochs, 3);
    // Not from the start: the first epoch has 6 splits of some batches each.
    assert!(
        new.computed < 3 * computed,
        "{} and {computed}",
        new.computed
    );
}

#[test]
fn n4_a_job_that_is_put_back_wants_what_the_checkpoint_wanted() {
    let mut world = World::durable(Setup::new(2, 2, 4), 2, 2, 7);
    world.turn_until("the third epoch", |w| {
        let manifests = &w.store.as_ref().unwrap().manifests;
        manifests.values().any(|m| m.target == 3)
    });
    let store = world.store.as_ref().unwrap();
    let first = store.manifests.values().find(|m| m.target < 3);
    let first = first.cloned().unwrap();
    let target = first.target;
    world.coordinator.restore(first).unwrap();
    let put_back = &world.coordinator.record().jobs[0];
    assert_eq!(
        (put_back.target, &put_back.stage),
        (target, &Stage::Training)
    );
    let history = world.run();
    world.check_exact(&history);
}

/// Anything may die at any moment, the coordinator too; the end is exact, closed, and comes.
#[test]
fn whatever_dies_the_end_is_exact_and_closed() {
    for seed in 0..150 {
        let setup = match seed % 3 {
            0 => Setup::new(2, 2, 3),
            1 => best_is_the_first(3),
            _ => Setup::new(2, 2, 2).with_held_out(&[0.5, 0.4], None),
        };
        let mut world = World::durable(setup, 2, 2, seed);
        for _ in 0..120 {
            match world.draw.below(24) {
                0 => world.restart_server(0),
                1 => world.restart_server(1),
                2 => world.restart_coordinator(),
                3 => {
                    let w = usize::try_from(world.draw.below(2)).unwrap();
                    world.restart_worker(w);
                }
                4 => {
                    let w = usize::try_from(world.draw.below(2)).unwrap();
                    world.workers[w].asleep = 30;
                }
                _ => {}
            }
            world.turn();
        }
        let history = world.run();
        world.check_exact(&history);
        check_closed_or_best(&world, history.epochs, seed);
    }
}

fn check_closed_or_best(world: &World, epochs: u32, seed: u64) {
    let end = SourceId(u64::from(epochs * world.setup.splits));
    let manifests = &world.store.as_ref().unwrap().manifests;
    let holds = |m: &&windlass_common::format::Manifest| {
        let wanted = IntervalSet::below(end.0);
        m.complete.intersection(&wanted) == wanted
    };
    let whole: Vec<CheckpointId> = manifests.values().filter(holds).map(|m| m.number).collect();
    assert!(whole.len() >= 2, "seed {seed}: {whole:?}");
}

/// A job of one worker and two servers, of which one has lost its shards, the store's files too.
fn lost_after_closing(seed: u64) -> World {
    let mut world = World::durable(Setup::new(2, 1, 4), 2, 1, seed);
    world.turn_until("the first source is closed", |w| {
        let manifests = &w.store.as_ref().unwrap().manifests;
        let newest = manifests.values().rev().take(2);
        newest.filter(|m| m.complete.contains(0)).count() == 2
    });
    world.store.as_mut().unwrap().lose_files();
    world.restart_server(1);
    world
}

#[test]
fn c8_a_closed_source_that_is_lost_is_learnt_again_while_somebody_can_read_it() {
    let mut world = lost_after_closing(8);
    world.workers[0].blind = true;
    world.add_worker();
    world.workers.swap(0, 1);
    let history = world.run();
    assert!(
        matches!(&world.workers[1].end, Some(Err(error)) if error.message == "left without an end")
    );
    world.check_exact(&history);
}

#[test]
fn c8_a_closed_source_that_nobody_can_read_again_stops_the_job_and_is_named() {
    let mut world = lost_after_closing(9);
    world.leave(0);
    world.add_worker();
    world.workers[0].blind = true;
    world.turn_until("the end", |w| w.workers[0].end.is_some());
    let error = world.workers[0].end.clone().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Mismatch);
    assert_eq!(
        error.message,
        "job `flights`: shard 2 on server http://server-1 has lost source 0, which two \
         checkpoints held, and nobody can read its input again: train: no such file; put the \
         input back, or begin anew with --fresh"
    );
    // Everybody else is told the same.
    let job = world.workers[0].job.unwrap();
    assert!(world.coordinator.map(job, world.now).is_err());
}

#[test]
fn c8_the_end_of_a_job_is_taken_back_when_a_server_has_lost_what_two_checkpoints_held() {
    let mut world = World::durable(Setup::new(2, 1, 4), 2, 1, 11);
    let history = world.run();
    world.check_exact(&history);
    let stage = |world: &World| world.coordinator.record().jobs[0].stage.clone();
    assert_eq!(stage(&world), Stage::Done);
    world.store.as_mut().unwrap().lose_files();
    world.restart_server(1);
    world.turn_until("the end is taken back", |w| stage(w) == Stage::Finishing);
    world.workers.clear();
    world.add_worker();
    let history = world.run();
    world.check_exact(&history);
    assert_eq!(stage(&world), Stage::Done);
}

#[test]
fn an_input_that_one_worker_cannot_read_stops_no_job_that_has_lost_nothing() {
    let mut world = World::durable(Setup::new(2, 1, 2), 2, 1, 10);
    world.workers[0].blind = true;
    world.turn_until("it has left", |w| w.workers[0].end.is_some());
    world.workers.clear();
    world.add_worker();
    let history = world.run();
    world.check_exact(&history);
}
