//! Whatever bytes come in, from a disk, a connection or a data file: nothing panics, and no input
//! takes more than 64 MiB of memory.
//!
//! Each target is fed its corpus (`tests/corpus/TARGET`), any bytes, and good samples that were
//! changed, with checksums that are right again where there are any. An input that fails is made
//! smaller and written into the corpus, where it stays: it is tried first from then on.
//! `cargo test --release --test hostile -- --ignored` goes on for a minute with each target.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy knows tests by their attribute only"
)]

mod feed;
mod formats;
mod mutate;
mod readers;
mod wire;
mod worst;

use std::time::Duration;

use feed::{Target, feed};

/// What a target is fed with besides its corpus takes so long.
const SHORT: Duration = Duration::from_millis(1200);
const LONG: Duration = Duration::from_secs(60);

fn targets() -> Vec<Target> {
    let mut targets = formats::targets();
    targets.extend(wire::targets());
    targets.extend(readers::targets());
    targets
}

#[test]
fn no_input_panics_or_takes_more_memory_than_it_may() {
    for target in targets() {
        feed(&target, 1, SHORT);
    }
}

#[test]
fn no_message_is_made_to_take_more_memory_than_it_may() {
    worst::feed_the_worst();
}

#[test]
#[ignore = "takes a minute a target"]
fn no_input_of_a_long_run_panics_or_takes_more_memory_than_it_may() {
    // Another seed each day.
    let days = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_secs()
        / 86_400;
    println!("seed {days}");
    for target in targets() {
        feed(&target, days, LONG);
    }
}
