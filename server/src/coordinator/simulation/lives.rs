//! Jobs that go their way, undisturbed or with a pause.

use windlass_client::transport::Next;
use windlass_common::coordination::Task;
use windlass_common::id::{Lineage, WorkerId};

use super::world::{Setup, World, length, train_loss};

/// Batches and END marks of an epoch: what is computed of it if nothing is computed twice.
fn pushes(setup: &Setup) -> u64 {
    (0..setup.splits).map(|i| length(i) + 1).sum()
}

fn check_plain(servers: u32, workers: u32) {
    let setup = Setup::new(servers, workers, 3);
    let mut world = World::new(setup.clone(), servers, workers, 1);
    let history = world.run();
    world.check_exact(&history);
    assert_eq!((history.epochs, history.finished), (3, true));
    assert!(!history.stopped_early);
    assert_eq!(history.progress.len(), 3);
    for epoch in &history.progress {
        let expected = train_loss(epoch.epoch.0, setup.splits);
        assert_eq!(epoch.train["log_loss"], expected);
        assert!(epoch.validation.is_empty());
    }
    // Without validation only the last epoch is saved, and the seal is in it.
    assert_eq!(world.disk.keys().copied().collect::<Vec<_>>(), [3]);
    assert_eq!(world.disk[&3].history, history);
    assert_eq!(
        world.computed,
        3 * pushes(&setup),
        "nothing is computed twice"
    );
    assert!(
        world
            .workers
            .iter()
            .all(|w| w.end == Some(Ok(history.clone())))
    );
}

#[test]
fn one_worker_and_one_server_train_each_batch_once() {
    check_plain(1, 1);
}

#[test]
fn three_workers_and_three_servers_train_each_batch_once() {
    check_plain(3, 3);
    check_plain(1, 3);
    check_plain(3, 1);
}

#[test]
fn validation_keeps_the_best_epoch_and_tests_it() {
    for workers in [1, 3] {
        // Sums of three of these are exact.
        let losses = [0.5, 0.375, 0.25];
        let setup = Setup::new(2, workers, 3).with_held_out(&losses, None);
        let mut world = World::new(setup, 2, workers, 2);
        let history = world.run();
        world.check_exact(&history);
        assert_eq!(history.epochs, 3);
        let seen = history.progress.iter().map(|m| m.validation["log_loss"]);
        assert_eq!(seen.collect::<Vec<_>>(), losses);
        assert_eq!(history.test["log_loss"], 0.25);
        // Each epoch was better, so each was saved; the border's copy tells the epochs up to it.
        assert_eq!(world.disk.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(world.disk[&2].history.progress, history.progress[..2]);
    }
}

#[test]
fn n4_early_stop_goes_back_to_the_best_epoch() {
    for workers in [1, 3] {
        let losses = [0.5, 0.25, 0.375, 0.25, 0.125];
        let setup = Setup::new(2, workers, 9).with_held_out(&losses, Some(2));
        let mut world = World::new(setup, 2, workers, 3);
        let history = world.run();
        // Two epochs in a row no better than 0.25: stop after the fourth, keep two.
        assert_eq!((history.epochs, history.progress.len()), (2, 4));
        assert!(history.stopped_early && history.finished);
        assert_eq!(history.test["log_loss"], 0.25);
        world.check_exact(&history);
        let job = world.workers[0].job.unwrap();
        let map = world.coordinator.map(job, world.now).unwrap();
        assert_eq!(map.lineage, Lineage(2));
    }
}

#[test]
fn the_best_epoch_is_kept_without_early_stop_too() {
    let setup = Setup::new(1, 1, 3).with_held_out(&[0.5, 0.2, 0.4], None);
    let mut world = World::new(setup, 1, 1, 4);
    let history = world.run();
    assert_eq!((history.epochs, history.progress.len()), (2, 3));
    assert!(!history.stopped_early);
    world.check_exact(&history);
}

#[test]
fn a_new_cluster_goes_on_from_the_checkpoint() {
    let losses = [0.5, 0.4, 0.3, 0.2];
    let setup = Setup::new(2, 1, 2).with_held_out(&losses, None);
    let mut before = World::new(setup.clone(), 2, 1, 5);
    before.run();

    let mut more = setup.clone();
    more.plan.epochs = 4;
    let mut world = World::new(more, 3, 1, 6);
    world.disk = before.disk.clone();
    let history = world.run();
    world.check_exact(&history);
    assert_eq!((history.epochs, history.progress.len()), (4, 4));
    assert_eq!(
        world.computed,
        2 * pushes(&setup),
        "restored epochs are not learnt again"
    );
    // The end that the checkpoint told of is none under the new plan.
    let third = &world.disk[&3].history;
    assert_eq!((third.finished, third.test.len()), (false, 0));
    assert!(history.finished && history.test["log_loss"] == 0.2);

    // Asked for no more than it has: done at once, even before any server has joined.
    let mut world = World::new(setup, 0, 1, 7);
    world.disk = before.disk;
    let history = world.run();
    assert_eq!((history.epochs, history.finished), (2, true));
    assert_eq!(world.computed, 0);
}

#[test]
fn a_finished_job_says_so_and_goes_on_for_more_epochs() {
    let setup = Setup::new(1, 1, 2);
    let mut world = World::new(setup.clone(), 1, 1, 8);
    let first = world.run();
    world.restart_worker(0);
    assert_eq!(world.run(), first);
    assert_eq!(world.computed, 2 * pushes(&setup));

    world.restart_worker(0);
    world.setup.plan.epochs = 3;
    let history = world.run();
    world.check_exact(&history);
    assert_eq!((history.epochs, history.progress.len()), (3, 3));
    assert_eq!(world.computed, 3 * pushes(&setup));
}

#[test]
fn a_job_whose_best_epoch_was_not_its_last_is_not_tried_again() {
    let setup = Setup::new(1, 1, 3).with_held_out(&[0.2, 0.5, 0.4], None);
    let mut world = World::new(setup.clone(), 1, 1, 9);
    let history = world.run();
    assert_eq!(history.epochs, 1);
    let computed = world.computed;
    world.restart_worker(0);
    assert_eq!(world.run(), history);
    assert_eq!(world.computed, computed);
}

#[test]
fn what_was_undone_is_replaced_when_more_epochs_are_asked_for() {
    let losses = [0.375, 0.5, 0.625, 0.25];
    let setup = Setup::new(2, 1, 2).with_held_out(&losses, None);
    let mut world = World::new(setup, 2, 1, 10);
    assert_eq!(world.run().epochs, 1);
    world.restart_worker(0);
    world.setup.plan.epochs = 4;
    let history = world.run();
    world.check_exact(&history);
    assert_eq!(history.epochs, 4);
    let seen = history.progress.iter().map(|m| m.validation["log_loss"]);
    assert_eq!(seen.collect::<Vec<_>>(), losses);
}

#[test]
fn gathering_says_what_it_waits_for() {
    let setup = Setup::new(3, 2, 1);
    let mut world = World::new(setup, 1, 1, 13);
    let check = |world: &mut World, expected: &str| {
        world.turn();
        world.turn();
        assert_eq!(world.workers[0].reason, expected);
        assert!(world.workers[0].missing);
    };
    check(&mut world, "waiting for server 2 of 3 (1 joined)");
    world.add_server();
    check(&mut world, "waiting for server 3 of 3 (2 joined)");
    world.add_server();
    check(&mut world, "waiting for worker 2 of 2 (1 joined)");
    world.add_worker();
    let history = world.run();
    world.check_exact(&history);
}

#[test]
fn progress_counts_the_epochs_sources() {
    let mut world = World::new(Setup::new(1, 1, 2), 1, 1, 14);
    world.turn_until("one source of epoch 1", |w| {
        let complete = |s: &super::server::Shard| s.windows.complete().len();
        let job = w.workers[0].job;
        let shards = job.and_then(|job| w.servers[0].jobs.get(&job));
        shards.is_some_and(|s| s.values().map(complete).min() == Some(7))
    });
    world.speak(0);
    let (job, worker) = (world.workers[0].job.unwrap(), WorkerId(77));
    let next = Next {
        job,
        worker,
        done: None,
        leaving: false,
    };
    let (task, progress) = world.coordinator.next(next, world.now).unwrap();
    assert!(matches!(task, Task::Train(_)));
    assert_eq!((progress.epoch.0, progress.epochs), (1, 2));
    assert_eq!((progress.done, progress.splits), (1, 6));
    assert_eq!((progress.workers, progress.history.len()), (2, 1));
}
