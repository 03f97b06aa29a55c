//! Which split is leased next, and when one that was given back is (rule C4).

use std::time::{Duration, Instant};

use windlass_client::transport::Next;
use windlass_common::coordination::{Outcome, Register, Task};
use windlass_common::id::{LeaseId, WorkerId};
use windlass_common::split::MAX_SPLITS;
use windlass_common::tally::Tally;

use super::world::{Setup, World};

#[test]
fn c4_a_split_that_was_given_back_rests_until_its_owners_have_spoken_again() {
    let mut setup = Setup::new(2, 1, 1);
    setup.splits = 1;
    let mut world = World::new(setup, 2, 0, 14);
    let worker = WorkerId(1);
    (0..2).for_each(|s| world.speak(s));
    let register = world.setup.register(worker);
    let job = world.coordinator.register(register, world.now).unwrap().job;
    for s in [0, 1, 0, 1] {
        world.speak(s);
    }
    let next = |world: &mut World, back: Option<LeaseId>| {
        let next = Next {
            job,
            worker,
            done: back.map(|lease| (lease, Outcome::Abandoned("a hole".into()))),
            leaving: false,
        };
        match world.coordinator.next(next, world.now).unwrap().0 {
            Task::Train(lease) => Some(lease.lease),
            Task::Wait { .. } => None,
            other => panic!("{other:?}"),
        }
    };
    let lease = next(&mut world, None).expect("it is open");
    assert_eq!(next(&mut world, Some(lease)), None);
    world.speak(0);
    assert_eq!(next(&mut world, None), None);
    world.speak(1);
    let lease = next(&mut world, None).expect("both have spoken since");
    // What a server said before the give-back does not count.
    world.speak(0);
    assert_eq!(next(&mut world, Some(lease)), None);
    world.speak(1);
    assert_eq!(next(&mut world, None), None);
    world.speak(0);
    world.speak(1);
    assert!(next(&mut world, None).is_some());
}

#[test]
fn c4_while_a_split_rests_another_is_leased() {
    let mut setup = Setup::new(1, 1, 1);
    setup.splits = 2;
    let mut world = World::new(setup, 1, 0, 15);
    let worker = WorkerId(1);
    let register = world.setup.register(worker);
    world.speak(0);
    let job = world.coordinator.register(register, world.now).unwrap().job;
    world.speak(0);
    let mut back = None;
    // As servers in the worker's process do: a report before each question.
    let mut sources = Vec::new();
    for reports in [1, 0, 1] {
        (0..reports).for_each(|_| world.speak(0));
        let next = Next {
            job,
            worker,
            done: back.take(),
            leaving: false,
        };
        let Task::Train(lease) = world.coordinator.next(next, world.now).unwrap().0 else {
            panic!("no lease");
        };
        back = Some((lease.lease, Outcome::Abandoned("a hole".into())));
        sources.push(lease.source.0);
    }
    assert_eq!(sources, [0, 1, 0]);
}

/// A walk over the epoch's splits at each lease would be 2 x 10^10 steps and take far longer.
#[test]
fn c4_a_lease_costs_no_walk_over_the_splits() {
    let mut setup = Setup::new(1, 1, 1);
    setup.splits = u32::try_from(MAX_SPLITS).unwrap();
    let mut world = World::new(setup, 1, 0, 11);
    let worker = WorkerId(1);
    let register: Register = world.setup.register(worker);
    world.speak(0);
    let job = world.coordinator.register(register, world.now).unwrap().job;
    world.speak(0);
    world.speak(0);
    let begun = Instant::now();
    let mut done = None;
    for i in 0..20_000 {
        let next = Next {
            job,
            worker,
            done: done.take(),
            leaving: false,
        };
        let (task, _) = world.coordinator.next(next, world.now).unwrap();
        let Task::Train(lease) = task else {
            panic!("no lease but {task:?}");
        };
        // Finished, given back undone, and never given back, in turn.
        done = match i % 3 {
            0 => Some((lease.lease, Outcome::Trained(Tally::default()))),
            1 => Some((lease.lease, Outcome::Abandoned("again".into()))),
            _ => None,
        };
    }
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}
