//! Exactly once, whatever dies: whole clusters in simulated time, each by a seed.
//!
//! A seed that fails is told with the command that repeats it, and becomes a test with a name.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::ops::Range;

use windlass_tests::simulation::{Mode, Ran, run};

fn check(seed: u64, mode: Mode) -> Ran {
    run(seed, mode).unwrap_or_else(|error| {
        panic!(
            "seed {seed} in mode {mode:?}: {error:#}\n\nto repeat it: WINDLASS_SEED={seed} cargo test \
             -p windlass-tests --test simulation the_seed -- --nocapture"
        )
    })
}

fn check_all(seeds: Range<u64>, mode: Mode) {
    for seed in seeds {
        check(seed, mode);
    }
}

#[test]
fn the_seed_of_the_environment_counts_exactly() {
    let Ok(seed) = std::env::var("WINDLASS_SEED") else {
        return;
    };
    for mode in [Mode::Log, Mode::Checkpoint] {
        let ran = check(seed.parse().unwrap(), mode);
        eprintln!("{}", ran.trace.join("\n"));
        eprintln!("seed {seed} in mode {mode:?} took {:?}", ran.took);
    }
}

#[test]
fn a_seed_repeats_to_the_last_event() {
    for (seed, mode) in [(7, Mode::Log), (8, Mode::Log), (9, Mode::Checkpoint)] {
        let (one, two) = (check(seed, mode), check(seed, mode));
        let first = one.trace.iter().zip(&two.trace).position(|(a, b)| a != b);
        if let Some(at) = first {
            let from = at.saturating_sub(20);
            panic!(
                "event {at} differs:\n{:#?}\n{:#?}",
                &one.trace[from..=at],
                &two.trace[from..=at]
            );
        }
        assert_eq!(one, two);
    }
}

/// No worker's disk had the model that was to be sealed: its keeper had been replaced.
#[test]
fn seed_40_seals_what_no_worker_has() {
    check(40, Mode::Log);
}

/// The coordinator lost its disk in the middle of the last epoch, and the job that it began from the
/// newest checkpoint took that epoch for learnt.
#[test]
fn seed_7_learns_the_rest_of_an_epoch_that_the_coordinator_forgot() {
    check(7, Mode::Log);
    check(1, Mode::Checkpoint);
}

/// A server lost its disk after the end, and what it had held was damaged in both checkpoints; the
/// job stayed done.
#[test]
fn seed_268_takes_the_end_back_when_what_was_done_is_lost() {
    check(268, Mode::Log);
}

/// The older of the two checkpoints that closed the job was damaged, and was removed as such.
#[test]
fn seed_1526_does_not_count_on_a_checkpoint_that_is_damaged() {
    check(1526, Mode::Checkpoint);
}

#[test]
fn first_seeds_with_a_log() {
    check_all(0..50, Mode::Log);
}

#[test]
fn second_seeds_with_a_log() {
    check_all(50..100, Mode::Log);
}

#[test]
fn first_seeds_with_checkpoints() {
    check_all(100..150, Mode::Checkpoint);
}

#[test]
fn second_seeds_with_checkpoints() {
    check_all(150..200, Mode::Checkpoint);
}

#[test]
#[ignore = "some minutes: for the night"]
fn a_thousand_seeds_in_both_modes() {
    check_all(200..1200, Mode::Log);
    check_all(200..1200, Mode::Checkpoint);
}
