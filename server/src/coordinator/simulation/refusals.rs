//! What the coordinator does not take, and how it says so.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use windlass_client::transport::{Control, Membership};
use windlass_common::coordination::{Health, Report};
use windlass_common::id::{Boot, JobId, LeaseId, MapEpoch, WorkerId};
use windlass_common::runtime::{BoxFuture, Clock};
use windlass_proto::ErrorKind;

use super::world::{Setup, World, file};
use crate::coordinator::{Coordinator, CoordinatorHandle, MAX_JOBS, Settings};

const NOW: Duration = Duration::from_secs(1);

fn coordinator() -> Coordinator {
    Coordinator::new(Settings::default(), 1)
}

fn report(seen: u64) -> Report {
    Report {
        address: "http://a".into(),
        boot: Boot(1),
        number: 1,
        seen: MapEpoch(seen),
        health: Health::default(),
        jobs: Vec::new(),
    }
}

#[test]
fn n2_a_worker_with_another_recipe_is_told_both_sides() {
    let mut coordinator = coordinator();
    let setup = Setup::new(1, 1, 1);
    coordinator
        .register(setup.register(WorkerId(1)), NOW)
        .unwrap();
    let mut other = setup.register(WorkerId(2));
    other.recipe.batch_size = 64;
    let error = coordinator.register(other, NOW).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Mismatch);
    assert!(
        error
            .message
            .contains("batch size: this config says 64, the job has 512"),
        "{error}"
    );

    let mut other = setup.register(WorkerId(2));
    other.schema.tables[0].dim = 8;
    let error = coordinator.register(other, NOW).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Mismatch);
    assert!(error.message.contains("dim of table `linear`"), "{error}");
}

#[test]
fn registrations_beyond_the_limits_are_refused() {
    let setup = Setup::new(1, 1, 1);
    let check = |change: fn(&mut windlass_common::coordination::Register), kind, what: &str| {
        let mut register = setup.register(WorkerId(1));
        change(&mut register);
        let error = coordinator().register(register, NOW).unwrap_err();
        assert_eq!(error.kind, kind);
        assert!(error.message.contains(what), "{error}");
    };
    check(|r| r.job = "a/b".into(), ErrorKind::Invalid, "`a/b`");
    check(|r| r.schema.tables.clear(), ErrorKind::Invalid, "tables");
    check(|r| r.plan.epochs = 0, ErrorKind::Invalid, "train.epochs");
    check(
        |r| r.recipe.files.clear(),
        ErrorKind::Invalid,
        "no training files",
    );
    check(
        |r| r.recipe.files = vec![file("x", u64::MAX)],
        ErrorKind::TooLarge,
        "data.train",
    );
    check(
        |r| r.plan.test = vec![file("x", 1 << 40)],
        ErrorKind::TooLarge,
        "data.test",
    );
}

#[test]
fn a_cluster_leads_so_many_jobs_and_no_more() {
    let mut coordinator = coordinator();
    let mut register = Setup::new(1, 1, 1).register(WorkerId(1));
    for i in 0..MAX_JOBS {
        register.job = format!("job-{i}");
        coordinator.register(register.clone(), NOW).unwrap();
    }
    register.job = "one-more".into();
    let error = coordinator.register(register.clone(), NOW).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
    register.job = "job-3".into();
    register.fresh = true;
    register.worker = WorkerId(2);
    coordinator
        .register(register, NOW)
        .expect("one that is replaced leaves room");
}

#[test]
fn a_job_of_another_life_is_unknown() {
    let mut coordinator = coordinator();
    let error = coordinator.map(JobId(1), NOW).unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownJob);
    assert!(error.message.contains("start again"), "{error}");
}

#[test]
fn c3_the_map_rises_above_what_a_server_has_seen() {
    let mut coordinator = coordinator();
    assert_eq!(
        coordinator.report(report(41), NOW).unwrap().epoch,
        MapEpoch(42)
    );
    assert_eq!(
        coordinator.report(report(7), NOW).unwrap().epoch,
        MapEpoch(42)
    );
    let error = coordinator.report(report(u64::MAX), NOW).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
}

#[test]
fn lives_of_the_coordinator_share_no_names() {
    let setup = Setup::new(1, 1, 1);
    let [a, b] = [1, 2].map(|seed| {
        let mut coordinator = Coordinator::new(Settings::default(), seed);
        coordinator.report(report(0), NOW).unwrap();
        coordinator
            .register(setup.register(WorkerId(1)), NOW)
            .unwrap()
    });
    assert_ne!(a.job, b.job);
    assert_ne!(a.map.owners[0].1, b.map.owners[0].1);
}

#[test]
fn a_checkpoint_that_cannot_be_written_ends_the_job() {
    let mut world = World::new(Setup::new(1, 2, 1), 1, 2, 1);
    world.disk_full = true;
    world.turn_until("all told", |w| w.workers.iter().all(|w| w.end.is_some()));
    for worker in &world.workers {
        let error = worker.end.clone().unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Mismatch);
        assert!(
            error.message.contains("in 4 attempts: the disk is full"),
            "{error}"
        );
    }
    // Who comes when there is room again begins anew.
    world.disk_full = false;
    (0..2).for_each(|w| world.restart_worker(w));
    let history = world.run();
    world.check_exact(&history);
}

#[test]
fn a_checkpoint_that_cannot_be_restored_ends_the_job() {
    let setup = Setup::new(1, 1, 2).with_held_out(&[0.3, 0.5], None);
    let mut world = World::new(setup, 1, 1, 2);
    world.turn_until("the first is saved", |w| w.disk.contains_key(&1));
    world.disk.clear();
    world.turn_until("told", |w| w.workers[0].end.is_some());
    let error = world.workers[0].end.clone().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Mismatch);
    assert!(error.message.contains("could not be restored"), "{error}");
    world.turn();
    assert!(
        world.servers[0].jobs.is_empty(),
        "a failed job holds no rows"
    );
}

struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Duration {
        NOW
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[test]
fn the_handle_answers_without_waiting() {
    let handle = CoordinatorHandle::new(coordinator(), Arc::new(StoppedClock));
    let assigned = handle.report(report(0)).now_or_never().unwrap().unwrap();
    assert!(assigned.jobs.is_empty());
    let register = Setup::new(1, 1, 1).register(WorkerId(1));
    let registered = handle.register(register).now_or_never().unwrap().unwrap();
    let map = handle.map(registered.job).now_or_never().unwrap().unwrap();
    assert_eq!(map, registered.map);
    let renewed = handle.renew(registered.job, WorkerId(1), LeaseId(9));
    assert!(!renewed.now_or_never().unwrap().unwrap().0);
}
