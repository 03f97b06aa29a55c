//! What an operator does from the shell while a job trains, and what each command then says.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::path::{Path, PathBuf};

use windlass_tests::chaos::STEP;
use windlass_tests::counting::Counting;
use windlass_tests::{Cluster, Run, operate};

/// Checkpoints are taken when the test asks, and what came after one is lost with a server.
const ASKED: &str = "lease_ttl = \"1s\"\ndata_dir = \"DATA_DIR\"\ndurability = \"checkpoint\"\n\
                     checkpoint = { every = \"1h\", keep = 4, full_every = 1 }\n";

/// The cells of the line that begins with `first`, by the titles above it.
fn cells<'a>(shown: &'a str, first: &str) -> impl Fn(&str) -> Option<&'a str> {
    let split = |line: &'a str| -> Vec<&'a str> {
        let cells = line.split("  ").map(str::trim);
        cells.filter(|cell| !cell.is_empty()).collect()
    };
    let mut titles = Vec::new();
    let mut found = Vec::new();
    for line in shown.lines().map(split) {
        match line.first() {
            Some(&("server" | "job")) => titles = line,
            Some(&cell) if cell == first => {
                found = titles.iter().copied().zip(line).collect();
                break;
            }
            _ => {}
        }
    }
    move |title| {
        found
            .iter()
            .find(|(t, _)| *t == title)
            .map(|(_, cell)| *cell)
    }
}

/// One line on standard error that says all of this, nothing on standard output, exit code 1.
fn assert_refused(run: &Run, says: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run:?}");
    assert_eq!(run.stderr.trim().lines().count(), 1, "{}", run.stderr);
    for text in says {
        assert_eq!(
            run.stderr.matches(text).count(),
            1,
            "{text}: {}",
            run.stderr
        );
    }
}

/// The numbers of the checkpoints that `list` shows with their files, newest first.
fn listed(cluster: &Cluster) -> Vec<String> {
    let run = cluster.checkpoint("list", &["count"]).success();
    let lines = run.stdout.lines().filter(|l| l.contains("files there"));
    let number = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    lines.filter_map(number).collect()
}

#[test]
fn status_shows_what_there_is_who_is_silent_and_what_was_dropped() {
    let mut cluster = Cluster::with(2, ASKED);
    let empty = cluster.ask(&["status"]).success().stdout;
    assert!(empty.ends_with("no jobs\n"), "{empty}");
    let job = Counting::new(20_000, 20, 128);
    let worker = job.worker(&cluster, 1, "worker.json").start();
    cluster.wait_for_more(STEP);
    let created = cluster.ask(&["checkpoint", "create", "count"]).success();
    assert_eq!(
        created.stdout,
        "checkpoint 1 of job `count` is in the store\n"
    );
    // What is learnt from here on is not in the checkpoint.
    cluster.wait_for_more(STEP);

    let shown = cluster.ask(&["status"]).success().stdout;
    for server in [0, 1] {
        let of = cells(&shown, cluster.address(server));
        assert_eq!(
            (of("state"), of("shards")),
            (Some("up"), Some("8")),
            "{shown}"
        );
        assert_ne!(of("pushes"), Some("0"), "{shown}");
        assert_eq!(of("duplicates"), Some("0"), "{shown}");
    }
    let of = cells(&shown, "count");
    assert_eq!(
        (of("state"), of("workers")),
        (Some("training"), Some("1")),
        "{shown}"
    );
    assert_eq!(of("checkpoint"), Some("1"), "{shown}");
    let age: u64 = of("age").unwrap().trim_end_matches('s').parse().unwrap();
    assert!(age < 120, "{shown}");
    let (done, splits) = of("splits").unwrap().split_once('/').unwrap();
    assert!(
        done.parse::<u32>().unwrap() <= splits.parse().unwrap(),
        "{shown}"
    );
    assert!(of("epoch").unwrap().ends_with("/20"), "{shown}");

    cluster.kill(1);
    let silent = cluster.address(1).to_owned();
    let state = cluster.status_until(|shown| {
        let state = cells(shown, &silent)("state")?.to_owned();
        state.starts_with("silent").then_some(state)
    });
    let seconds = state.trim_start_matches("silent ").trim_end_matches('s');
    assert!(
        (5..60).contains(&seconds.parse::<u32>().unwrap()),
        "{state}"
    );

    cluster.restart(1);
    cluster.wait_for_more(STEP);
    // Server 1 has learnt again what it had lost; server 0 had it, and counted none of it twice.
    let first = cluster.address(0).to_owned();
    let dropped: u64 = cluster.status_until(|shown| {
        assert_eq!(cells(shown, &silent)("state"), Some("up"), "{shown}");
        cells(shown, &first)("duplicates")?.parse().ok()
    });
    assert!(dropped > 0, "{}", cluster.logs());
    job.check(vec![worker]).unwrap();
    let done = cluster.ask(&["status"]).success().stdout;
    assert_eq!(cells(&done, "count")("state"), Some("done"), "{done}");
}

#[test]
fn questions_that_nobody_can_answer_end_in_one_clear_line() {
    // Port 9 is for discarding what is sent to it; nobody listens there.
    let nobody = "http://127.0.0.1:9";
    for question in [&["status"][..], &["checkpoint", "create", "count"]] {
        let run = operate(question.iter().chain(&["--coordinator", nobody]));
        assert_refused(&run, &[nobody, "refused"]);
    }
    let cluster = Cluster::with(1, ASKED);
    let run = cluster.ask(&["checkpoint", "create", "clicks"]);
    assert_refused(&run, &["no job `clicks`"]);
    let run = cluster.ask(&["checkpoint", "restore", "clicks", "3"]);
    assert_refused(&run, &["no job `clicks`"]);
    assert_refused(&cluster.checkpoint("list", &[]), &["no checkpoint in"]);
    assert_refused(
        &cluster.checkpoint("verify", &["clicks", "3"]),
        &["no checkpoint 3 of job `clicks`"],
    );
}

#[test]
fn a_checkpoint_is_made_listed_verified_and_put_back_by_choice() {
    let cluster = Cluster::with(2, ASKED);
    let job = Counting::new(20_000, 20, 128);
    let worker = job.worker(&cluster, 1, "worker.json").start();
    for number in 1..=2 {
        cluster.wait_for_more(STEP);
        let created = cluster.ask(&["checkpoint", "create", "count"]).success();
        let expected = format!("checkpoint {number} of job `count` is in the store\n");
        assert_eq!(created.stdout, expected);
    }
    assert_eq!(listed(&cluster), ["2", "1"]);
    let verified = cluster.checkpoint("verify", &[]).success().stdout;
    for name in [
        "count/checkpoint-000001: whole",
        "count/checkpoint-000002: whole",
    ] {
        assert!(verified.contains(name), "{verified}");
    }

    let run = cluster.ask(&["checkpoint", "restore", "count", "77"]);
    assert_refused(&run, &["no checkpoint 77 of job `count`"]);
    let run = cluster.ask(&["checkpoint", "restore", "count", "1"]);
    let told = "job `count` goes on from checkpoint 1; what it had learnt since is undone\n";
    assert_eq!(run.success().stdout, told);
    let runs = job.check(vec![worker]).unwrap();
    let learnt = runs[0].number("/examples");
    assert!(learnt > job.examples(), "nothing was undone: {learnt}");

    // A job that is done learns again what was undone, when a worker comes that has not the result.
    let run = cluster.ask(&["checkpoint", "restore", "count", "1"]);
    assert_eq!(run.success().stdout, told);
    std::fs::remove_dir_all(job.folder().join("model")).unwrap();
    let again = job.worker(&cluster, 1, "again.json").start();
    let runs = job.check(vec![again]).unwrap();
    let learnt = runs[0].number("/examples");
    assert!(0.0 < learnt && learnt < job.examples(), "{learnt}");
    let _ = cluster.checkpoint("verify", &[]).success();
}

#[test]
fn a_flipped_byte_of_a_checkpoint_is_found_and_its_file_named() {
    let cluster = Cluster::with(1, ASKED);
    let job = Counting::new(2_000, 2, 128);
    let worker = job.worker(&cluster, 1, "worker.json").start();
    job.check(vec![worker]).unwrap();
    let _ = cluster.checkpoint("verify", &[]).success();
    let newest = listed(&cluster)[0].clone();
    let file = a_shards_file(&cluster, &newest);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let run = cluster.checkpoint("verify", &["count", &newest]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(
        run.stdout.contains("DAMAGED") && run.stdout.contains(name),
        "{run:?}"
    );
    assert_eq!(run.stderr, "error: 1 checkpoint is not whole");
}

/// A shard's file of a checkpoint in the cluster's store.
fn a_shards_file(cluster: &Cluster, number: &str) -> PathBuf {
    let store = cluster.data_dir(0).parent().unwrap().join("checkpoints");
    let number: u64 = number.parse().unwrap();
    let folder = store.join(format!("count/checkpoint-{number:06}"));
    let files = std::fs::read_dir(&folder).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.file_name().is_some_and(|name| name != "manifest.bin"));
    files.sort();
    files.swap_remove(0)
}

#[test]
fn a_job_goes_on_on_another_number_of_servers() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("checkpoints");
    let job = Counting::new(20_000, 30, 128);
    let midway = |servers| {
        let cluster = on_store(servers, &store);
        let worker = job.worker(&cluster, 1, "killed.json").start();
        cluster.wait_for_more(STEP);
        cluster.wait_for_more("checkpoint published");
        worker.kill();
    };
    midway(2);
    midway(3);
    let cluster = on_store(1, &store);
    let worker = job.worker(&cluster, 1, "worker.json").start();
    let runs = job.check(vec![worker]).unwrap();
    let learnt = runs[0].number("/examples");
    assert!(learnt < job.examples(), "it began anew\n{}", cluster.logs());
}

/// Fresh servers whose checkpoints lie in `store`.
fn on_store(servers: usize, store: &Path) -> Cluster {
    let lines = format!(
        "lease_ttl = \"1s\"\ndata_dir = \"DATA_DIR\"\ncheckpoint = {{ every = \"300ms\", store = \
         \"{}\" }}\n",
        store.display()
    );
    Cluster::with(servers, &lines)
}

#[test]
fn a_worker_says_in_one_line_which_server_it_waits_for_and_goes_on() {
    let mut cluster = Cluster::with(2, "data_dir = \"DATA_DIR\"\n");
    let job = Counting::new(20_000, 8, 128);
    let worker = job.worker(&cluster, 1, "worker.json").start();
    cluster.wait_for_more(STEP);
    cluster.kill(1);
    let line = worker.line_with("waiting for server");
    assert_eq!(line.matches(cluster.address(1)).count(), 1, "{line}");
    assert!(
        line.starts_with("epoch ") && line.contains(" examples"),
        "{line}"
    );
    cluster.restart(1);
    job.check(vec![worker]).unwrap();
}
