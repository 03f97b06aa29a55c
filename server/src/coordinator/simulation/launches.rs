//! Who joins a job, who begins it anew, and what stays when its workers have gone.

use std::time::Duration;

use windlass_client::transport::Next;
use windlass_common::coordination::{History, Purpose};
use windlass_common::format::Manifest;
use windlass_common::id::{CheckpointId, JobId, Lineage, WorkerId};
use windlass_common::interval_set::IntervalSet;
use windlass_proto::ErrorKind;

use super::world::{Setup, World};
use crate::coordinator::Stored;

/// A cluster whose one worker evaluates a job that another cluster trained, and the history of
/// that training.
fn evaluation(servers: u32) -> (World, History) {
    let setup = Setup::new(2, 1, 2).with_held_out(&[0.5, 0.25], None);
    let mut before = World::new(setup.clone(), 2, 1, 11);
    let trained = before.run();

    let mut evaluation = setup;
    evaluation.plan.purpose = Purpose::Evaluate;
    let mut world = World::new(evaluation, servers, 1, 12);
    world.disk = before.disk;
    for saved in world.disk.values_mut() {
        saved.history = History {
            epochs: saved.history.epochs,
            ..History::default()
        };
    }
    (world, trained)
}

#[test]
fn an_evaluation_scores_a_checkpoint_and_leaves_nothing_behind() {
    let (mut world, trained) = evaluation(3);
    let history = world.run();
    world.check_exact(&history);
    assert_eq!(world.computed, 0, "nothing is learnt");
    assert!(
        world.disk.values().all(|saved| !saved.history.finished),
        "nothing is written"
    );
    assert_eq!(history.test, trained.test);
    assert_eq!(history.progress.len(), 1);
    assert_eq!(
        history.progress[0].validation,
        trained.progress[1].validation
    );

    let job = world.workers[0].job.unwrap();
    world.leave(0);
    let gone = world.coordinator.map(job, world.now).unwrap_err();
    assert_eq!(gone.kind, ErrorKind::UnknownJob);
    assert!(gone.message.contains("left"), "{gone}");
}

#[test]
fn an_evaluation_is_dropped_when_its_workers_have_gone_silent() {
    let (mut world, _) = evaluation(3);
    world.turn_until("it scores", |w| w.is_scoring(0));
    let job = world.workers.remove(0).job.unwrap();
    world.turn_until("its rows are dropped", |w| {
        w.servers.iter().all(|server| server.jobs.is_empty())
    });
    let gone = world.coordinator.map(job, world.now).unwrap_err();
    assert_eq!(gone.kind, ErrorKind::UnknownJob);

    // Who comes later is given a new one, not the answer of the former.
    world.add_worker();
    let history = world.run();
    assert_ne!(world.workers[0].job, Some(job));
    assert_eq!(history.test["log_loss"], 0.25);
}

#[test]
fn an_evaluation_whose_rows_are_lost_fails_and_learns_nothing() {
    let (mut world, _) = evaluation(3);
    world.turn_until("it scores", |w| w.is_scoring(0));
    let (job, worker) = (world.workers[0].job.unwrap(), world.workers[0].id);
    world.restart_server(1);
    // An error that says "again" makes the world's worker come as another, as a user's would.
    world.turn_until("it is told", |w| w.workers[0].id != worker);
    let ask = Next {
        job,
        worker,
        done: None,
        leaving: false,
    };
    let error = world.coordinator.next(ask, world.now).unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownJob);
    assert!(
        error
            .message
            .ends_with("a server lost the rows; run evaluate again"),
        "{error}"
    );
    let history = world.run();
    assert_eq!(history.test["log_loss"], 0.25);
    assert_eq!(world.computed, 0, "nothing is learnt");
}

#[test]
fn fresh_replaces_a_job_and_tells_its_workers() {
    let setup = Setup::new(1, 1, 2);
    let mut world = World::new(setup, 1, 1, 11);
    world.turn_until("half an epoch", |w| w.computed > 9);
    let (old, worker) = (world.workers[0].job.unwrap(), world.workers[0].id);

    world.restart_worker(0);
    world.workers[0].fresh = true;
    let history = world.run();
    world.check_exact(&history);
    assert_ne!(world.workers[0].job, Some(old));
    assert!(
        !world.servers[0].jobs.contains_key(&old),
        "the old rows are dropped"
    );
    let next = Next {
        job: old,
        worker,
        done: None,
        leaving: false,
    };
    let error = world.coordinator.next(next, world.now).unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownJob);
    assert!(error.message.contains("replaced"), "{error}");
}

#[test]
fn workers_of_one_fresh_launch_share_a_job() {
    let mut world = World::new(Setup::new(1, 3, 1), 1, 3, 12);
    world.workers.iter_mut().for_each(|w| w.fresh = true);
    let history = world.run();
    world.check_exact(&history);
    assert!(world.workers.iter().all(|w| w.job == world.workers[0].job));
}

#[test]
fn a_worker_that_a_fresh_launch_starts_late_joins_the_others() {
    let mut world = World::new(Setup::new(1, 1, 2), 1, 1, 13);
    world.workers[0].fresh = true;
    world.turn_until("work", |w| w.computed > 3);
    let job = world.workers[0].job;
    world.add_worker();
    world.workers[1].fresh = true;
    let history = world.run();
    world.check_exact(&history);
    assert!(world.workers.iter().all(|w| w.job == job));
}

#[test]
fn fresh_begins_anew_what_has_another_recipe() {
    let mut world = World::new(Setup::new(1, 1, 2), 1, 1, 14);
    world.workers[0].fresh = true;
    world.turn_until("work", |w| w.computed > 3);
    let mut other = world.setup.register(WorkerId(99));
    other.fresh = true;
    other.recipe.batch_size = 64;
    let registered = world.coordinator.register(other, world.now).unwrap();
    assert_ne!(world.workers[0].job, Some(registered.job));
}

#[test]
fn fresh_begins_anew_what_is_over() {
    let mut world = World::new(Setup::new(1, 1, 1), 1, 1, 15);
    world.workers[0].fresh = true;
    world.run();
    let (old, computed) = (world.workers[0].job, world.computed);
    // The first is still there: it has seen the end but not left.
    world.add_worker();
    world.workers[1].fresh = true;
    world.turn_until("done again", |w| w.workers[1].end.is_some());
    assert_ne!(world.workers[1].job, old);
    assert_eq!(world.computed, 2 * computed);
}

#[test]
fn fresh_begins_anew_what_nobody_works_on() {
    let mut world = World::new(Setup::new(1, 1, 2), 1, 1, 16);
    world.workers[0].fresh = true;
    world.turn_until("work", |w| w.computed > 3);
    let old = world.workers[0].job;
    world.leave(0);
    world.add_worker();
    world.workers[0].fresh = true;
    let history = world.run();
    world.check_exact(&history);
    assert_ne!(world.workers[0].job, old);
}

#[test]
fn a_finished_job_is_dropped_ten_minutes_after_its_last_worker() {
    let mut world = World::new(Setup::new(1, 1, 2), 1, 1, 17);
    world.run();
    let (job, computed) = (world.workers[0].job, world.computed);
    world.leave(0);
    world.now += Duration::from_secs(599);
    world.turn();
    assert!(
        !world.servers[0].jobs.is_empty(),
        "more epochs may be asked"
    );
    world.now += Duration::from_secs(2);
    world.turn();
    assert!(world.servers[0].jobs.is_empty());

    world.setup.plan.epochs = 3;
    world.add_worker();
    let history = world.run();
    world.check_exact(&history);
    assert_ne!(world.workers[0].job, job);
    assert_eq!(2 * world.computed, 3 * computed, "it goes on from the disk");
}

#[test]
fn a_job_that_begins_within_an_epoch_learns_the_rest_of_it() {
    for (epochs, target) in [(1, 1), (2, 1), (2, 2)] {
        let mut world = World::new(Setup::new(2, 1, epochs), 2, 1, 18);
        let register = world.setup.register(WorkerId(99));
        let newest = Manifest {
            job: register.job.clone(),
            job_id: JobId(7),
            number: CheckpointId(3),
            lineage: Lineage(1),
            taken_ms: 0,
            pinned: false,
            windlass: String::new(),
            config: String::new(),
            schema: register.schema.clone(),
            recipe: register.recipe.clone(),
            target,
            history: History::default(),
            complete: IntervalSet::default(),
            chains: Vec::new(),
        };
        let stored = Stored {
            last: newest.number,
            newest: Some(newest),
        };
        let now = world.now;
        world
            .coordinator
            .register_with(register, stored, now)
            .unwrap();
        let history = world.run();
        // These servers have no store, so what the checkpoint held is learnt again too.
        assert_eq!(history.epochs, epochs);
        world.check_exact(&history);
        world.check_saved(&history);
    }
}
