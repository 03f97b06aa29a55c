//! Real processes, killed while they work: every example counts exactly once an epoch.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use windlass_tests::chaos::{Killer, STEP, Victim};
use windlass_tests::counting::Counting;
use windlass_tests::data::external;
use windlass_tests::{Cluster, Run, Running, Worker};

const WORKERS: usize = 3;

/// `lease_ttl` below.
const LEASE: Duration = Duration::from_secs(1);

const LOG: &str = "lease_ttl = \"1s\"\ndata_dir = \"DATA_DIR\"\ndurability = \"log\"\n\
                   checkpoint = { every = \"500ms\", keep = 2, full_every = 3 }\n";
const CHECKPOINT: &str = "lease_ttl = \"1s\"\ndata_dir = \"DATA_DIR\"\ndurability = \"checkpoint\"\n\
                          checkpoint = { every = \"500ms\", keep = 2, full_every = 3 }\n";
const NONE: &str = "lease_ttl = \"1s\"\n";

/// Both servers, one or both at once, and all workers.
fn everybody() -> Vec<Victim> {
    let servers = [Victim::Server(0), Victim::Server(1), Victim::AllServers];
    let workers = (0..WORKERS).map(Victim::Worker);
    servers.into_iter().chain(workers).collect()
}

/// Counts with two servers and three workers while `kills` of the victims are killed.
fn count_under_fire(test: &str, lines: &str, victims: Vec<Victim>, kills: u32, epochs: u32) {
    let mut killer = Killer::new(test, victims);
    let mut cluster = Cluster::with(2, lines);
    let job = Counting::new(20_000, epochs, 128);
    let mut begun = 0;
    let mut start = |cluster: &Cluster| -> Running {
        begun += 1;
        let report = format!("worker-{begun}.json");
        job.worker(cluster, WORKERS, &report).start()
    };
    let mut workers: Vec<Running> = (0..WORKERS).map(|_| start(&cluster)).collect();
    let mut struck = Vec::new();
    for _ in 0..kills {
        struck.push(killer.strike(&mut cluster, &mut workers, &mut start));
    }
    let checked = job.check(workers);
    // Two make the end durable; what a server came back from was there before.
    let published = cluster.count(0, "checkpoint published");
    assert!(lines == NONE || published > 3, "{}", cluster.logs());
    assert!(
        checked.is_ok(),
        "{test} after {struck:?}: {checked:?}\n{}",
        cluster.logs()
    );
}

#[test]
fn kills_of_servers_and_workers_with_a_log_lose_and_double_nothing() {
    let test = "kills_of_servers_and_workers_with_a_log_lose_and_double_nothing";
    count_under_fire(test, LOG, everybody(), 10, 50);
}

#[test]
fn kills_of_servers_and_workers_with_checkpoints_lose_and_double_nothing() {
    let test = "kills_of_servers_and_workers_with_checkpoints_lose_and_double_nothing";
    count_under_fire(test, CHECKPOINT, everybody(), 10, 50);
}

#[test]
#[ignore = "takes some minutes"]
fn a_hundred_kills_lose_and_double_nothing() {
    let test = "a_hundred_kills_lose_and_double_nothing";
    count_under_fire(test, LOG, everybody(), 100, 500);
    count_under_fire(test, CHECKPOINT, everybody(), 100, 500);
}

#[test]
fn a_server_that_loses_its_disk_gets_its_shards_from_the_store_of_checkpoints() {
    let test = "a_server_that_loses_its_disk_gets_its_shards_from_the_store_of_checkpoints";
    let victims = vec![
        Victim::ServerAndDisk(1),
        Victim::Server(0),
        Victim::Worker(0),
    ];
    count_under_fire(test, LOG, victims, 6, 40);
}

#[test]
fn a_server_that_keeps_nothing_gets_its_shards_from_the_jobs_start() {
    let test = "a_server_that_keeps_nothing_gets_its_shards_from_the_jobs_start";
    count_under_fire(test, NONE, vec![Victim::Server(1)], 3, 16);
}

/// What the tests above check would be missed: without the windows, what is learnt again for the
/// server that has lost it counts twice on the one that has not.
#[test]
fn without_windows_the_check_fails_after_a_kill() {
    let mut cluster = Cluster::with_failpoints(2, NONE, &[(0, OFF), (1, OFF)]);
    let job = Counting::new(5_000, 6, 128);
    let worker = job.worker(&cluster, 1, "worker.json").start();
    cluster.wait_for_more(STEP);
    cluster.kill(1);
    cluster.restart_with(1, Some(OFF));
    assert_counts_too_much(&job.check(vec![worker]).unwrap_err());
}

#[test]
fn a_batch_that_two_workers_computed_counts_once() {
    let cluster = Cluster::with(2, LOG);
    let job = Counting::new(20_000, 30, 128);
    let runs = job.check(pause_past_the_lease(&job, &cluster)).unwrap();
    let learnt: f64 = runs.iter().map(|run| run.number("/examples")).sum();
    assert!(learnt > job.examples(), "no batch was computed twice");
}

#[test]
fn without_windows_a_batch_that_two_workers_computed_counts_twice() {
    let cluster = Cluster::with_failpoints(2, LOG, &[(0, OFF), (1, OFF)]);
    let job = Counting::new(20_000, 30, 128);
    let checked = job.check(pause_past_the_lease(&job, &cluster));
    assert_counts_too_much(&checked.unwrap_err());
}

const OFF: &str = "windows-off=return";

fn assert_counts_too_much(error: &anyhow::Error) {
    let error = error.to_string();
    let numbers = error.split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<u64> = numbers.filter_map(|digits| digits.parse().ok()).collect();
    assert!(
        matches!(numbers[..], [told, has] if told > has) && error.contains("the report tells"),
        "{error}"
    );
}

/// Starts two workers and stops one of them, twice while it holds a split, until the other has done
/// that split in its place.
fn pause_past_the_lease(job: &Counting, cluster: &Cluster) -> Vec<Running> {
    let start = |name: &str| job.worker(cluster, 2, name).start();
    let (paused, other) = (start("paused.json"), start("other.json"));
    cluster.wait_for_more(STEP);
    let began = Instant::now();
    cluster.wait_for_more(STEP);
    let epoch = began.elapsed();
    let mut held = 0;
    for _ in 0..10 {
        cluster.wait_for_more(STEP);
        // Into the epoch: at its border a worker waits for the next one.
        std::thread::sleep(epoch / 2);
        paused.signal("STOP");
        let began = Instant::now();
        cluster.wait_for_more(STEP);
        // The epoch has waited for its lease to run out, or it held none.
        held += u32::from(began.elapsed() > LEASE - LEASE / 10);
        paused.signal("CONT");
        if held == 2 {
            break;
        }
    }
    assert_eq!(held, 2, "it was never stopped while it held a split");
    vec![paused, other]
}

/// The log loss on the test file after `kills`.
fn learn_under_fire(test: &str, train: &Path, scored: &Path, kills: u32) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("train.toml");
    let text = format!(
        "[job]\nname = \"a9a\"\n\n[data]\nformat = \"libsvm\"\ntrain = [\"{}\"]\ntest = [\"{}\"]\n\n\
         [model]\nkind = \"logistic\"\n\n[optimizer]\nkind = \"adagrad\"\nlearning_rate = 0.05\n\n\
         [train]\nepochs = 20\nbatch_size = 256\noutput = \"{}\"\n",
        train.display(),
        scored.display(),
        folder.path().join("model").display()
    );
    std::fs::write(&config, text).unwrap();
    let mut cluster = Cluster::with(2, LOG);
    let mut begun = 0;
    let mut start = |cluster: &Cluster| {
        begun += 1;
        Worker::new(folder.path(), &["train"], &config)
            .args(["--coordinator", cluster.coordinator()])
            .set("cluster.servers", 2)
            .set("cluster.workers", WORKERS)
            .set("cluster.request_timeout", "5s")
            .set("cluster.patience", "60s")
            .report(folder.path().join(format!("worker-{begun}.json")))
            .start()
    };
    let mut workers: Vec<Running> = (0..WORKERS).map(|_| start(&cluster)).collect();
    if kills > 0 {
        let mut killer = Killer::new(test, everybody());
        for _ in 0..kills {
            killer.strike(&mut cluster, &mut workers, &mut start);
        }
    }
    let runs: Vec<Run> = workers.into_iter().map(|w| w.end().success()).collect();
    runs[0].number("/metrics/test/log_loss")
}

#[test]
fn a_model_that_learns_under_kills_is_as_good_as_one_that_learns_in_peace() {
    let test = "a_model_that_learns_under_kills_is_as_good_as_one_that_learns_in_peace";
    let (Some(train), Some(scored)) = (external(test, "a9a/a9a"), external(test, "a9a/a9a.t"))
    else {
        return;
    };
    let in_peace: Vec<f64> = (0..5)
        .map(|_| learn_under_fire(test, &train, &scored, 0))
        .collect();
    let mean = in_peace.iter().sum::<f64>() / 5.0;
    let deviations = in_peace.iter().map(|loss| (loss - mean).powi(2));
    let deviation = (deviations.sum::<f64>() / 4.0).sqrt();
    let under_fire = learn_under_fire(test, &train, &scored, 4);
    let bound = (3.0 * deviation).max(0.001);
    assert!(
        (under_fire - mean).abs() <= bound,
        "log loss {under_fire} under kills, {mean} in peace ({in_peace:?}), {bound} apart at most"
    );
}
