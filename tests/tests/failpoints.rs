//! A server that is stopped and killed at each place where what it knows and what its disk knows
//! differ: every example counts exactly once an epoch.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use windlass_tests::counting::{Counting, SHARDS};
use windlass_tests::{Cluster, Running};

const LOG: &str = "lease_ttl = \"1s\"\ndata_dir = \"DATA_DIR\"\ndurability = \"log\"\n\
                   checkpoint = { every = \"300ms\", keep = 2, full_every = 3 }\n";
const CHECKPOINT: &str = "lease_ttl = \"1s\"\ndata_dir = \"DATA_DIR\"\ndurability = \"checkpoint\"\n\
                          checkpoint = { every = \"300ms\", keep = 2, full_every = 3 }\n";
/// The first checkpoint is the one at the job's end.
const AT_THE_END: &str = "lease_ttl = \"1s\"\ndata_dir = \"DATA_DIR\"\ndurability = \"log\"\n\
                          checkpoint = { every = \"1h\", keep = 2, full_every = 3 }\n";

/// How many cases run at once: most of their time they wait for leases and retries.
const AT_ONCE: usize = 4;

/// A place, and how often it is passed before it stops.
type Place = (&'static str, u32);

/// Runs a case for each of these places, some at once.
fn each(places: &[Place], case: impl Fn(&str, &str) + Sync) {
    let left = Mutex::new(places.to_vec());
    let failed = Mutex::new(Vec::new());
    let work = || {
        while let Some((name, passed)) = { left.lock().unwrap().pop() } {
            let failpoint = match passed {
                0 => format!("{name}=return"),
                _ => format!("{name}={passed}*off->return"),
            };
            let case = AssertUnwindSafe(|| case(name, &failpoint));
            if catch_unwind(case).is_err() {
                failed.lock().unwrap().push(failpoint);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Kills a server at each of these places, of clusters of their own.
fn kill_at(lines: &str, server: usize, places: &[Place]) {
    each(places, |name, failpoint| {
        let cluster = Cluster::with_failpoints(2, lines, &[(server, failpoint)]);
        let job = Counting::new(2_000, 8, 64);
        let workers = start(&job, &cluster);
        kill_where_it_stops(cluster, server, name, &job, workers);
    });
}

fn start(job: &Counting, cluster: &Cluster) -> Vec<Running> {
    let start = |worker| job.worker(cluster, 2, &format!("{worker}.json")).start();
    (0..2).map(start).collect()
}

fn kill_where_it_stops(
    mut cluster: Cluster,
    server: usize,
    name: &str,
    job: &Counting,
    workers: Vec<Running>,
) {
    cluster.wait_for_on(server, &format!("failpoint {name} reached"), 1);
    cluster.kill(server);
    cluster.restart(server);
    let checked = job.check(workers);
    assert!(
        checked.is_ok(),
        "killed at {name}: {checked:?}\n{}",
        cluster.logs()
    );
}

/// Shards that each of two servers has.
const OWNED: u32 = SHARDS / 2;

/// Places that every server passes: the log, the answer, and its part of a checkpoint.
const LOGGING: [Place; 8] = [
    // Which shards the log is about.
    ("object-rename-before", 0),
    ("object-rename-after", 0),
    ("segment-sync-before", 0),
    ("log-append-before", 200),
    ("log-append-after", 300),
    ("log-write-before", 3),
    ("log-sync-before", 4),
    ("log-sync-after", 5),
];
const SERVING: [Place; 6] = [
    ("acknowledge-before", 6),
    ("acknowledge-after", 7),
    ("shard-file-before", 3),
    ("shard-file-after", 13),
    ("object-rename-before", 6),
    ("object-rename-after", 15),
];

/// Places that only the server with the coordinator role passes: leases, its state, and manifests,
/// which come behind the list of its shards and their files.
const LEADING: [Place; 12] = [
    ("lease-grant-before", 3),
    ("lease-grant-after", 4),
    ("lease-return-before", 3),
    ("lease-return-after", 4),
    ("state-write-before", 4),
    ("state-sync-before", 5),
    ("state-rename-before", 6),
    ("state-rename-after", 7),
    ("manifest-before", 0),
    ("manifest-after", 1),
    ("object-rename-before", 1 + OWNED),
    ("object-rename-after", 1 + OWNED),
];

/// Copies of shards that a server puts on its empty disk, and then which they are.
const RETURNING: [Place; 4] = [
    ("object-rename-before", 3),
    ("object-rename-after", 4),
    ("object-rename-before", OWNED),
    ("object-rename-after", OWNED),
];

/// The checkpoints that make a job's end durable: two of them.
const ENDING: [Place; 5] = [
    ("manifest-before", 0),
    ("manifest-after", 0),
    ("manifest-before", 1),
    ("manifest-after", 1),
    ("shard-file-before", 10),
];

#[test]
fn a_server_killed_at_any_place_loses_and_doubles_nothing() {
    kill_at(LOG, 1, &[&LOGGING[..], &SERVING[..]].concat());
}

#[test]
fn a_server_without_a_log_killed_at_any_place_loses_and_doubles_nothing() {
    kill_at(CHECKPOINT, 1, &SERVING);
}

#[test]
fn a_coordinator_killed_at_any_place_of_a_server_loses_and_doubles_nothing() {
    kill_at(LOG, 0, &[&LOGGING[..], &SERVING[..]].concat());
}

#[test]
fn a_coordinator_killed_at_any_place_of_its_own_loses_and_doubles_nothing() {
    kill_at(LOG, 0, &LEADING);
}

#[test]
fn a_coordinator_killed_while_it_makes_the_end_durable_loses_and_doubles_nothing() {
    kill_at(AT_THE_END, 0, &ENDING);
}

#[test]
fn a_server_killed_while_it_fills_its_empty_disk_loses_and_doubles_nothing() {
    each(&RETURNING, |name, failpoint| {
        let mut cluster = Cluster::with(2, LOG);
        let job = Counting::new(4_000, 30, 64);
        let workers = start(&job, &cluster);
        cluster.wait_for("checkpoint published");
        cluster.kill(1);
        cluster.lose_disk(1);
        cluster.restart_with(1, Some(failpoint));
        kill_where_it_stops(cluster, 1, name, &job, workers);
    });
}
