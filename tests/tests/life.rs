//! Workers that come, stop, are killed, and come late; jobs that stop early or begin anew.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::path::Path;

use windlass_tests::data::example;
use windlass_tests::{Cluster, Run, Worker};

/// A worker on a cluster's job.
fn worker(cluster: &Cluster, folder: &Path, name: &str) -> Worker {
    Worker::new(folder, &["train"], &example("flights/train.toml"))
        .args(["--coordinator", cluster.coordinator()])
        .set("train.output", folder.join("model").display())
        .report(folder.join(format!("{name}.json")))
}

/// Without early stopping, which needs validation files.
fn long(cluster: &Cluster, folder: &Path, name: &str, epochs: u32) -> Worker {
    let text = std::fs::read_to_string(example("flights/train.toml")).unwrap();
    let kept = text
        .lines()
        .filter(|l| !l.starts_with("early_stop"))
        .collect::<Vec<_>>();
    // Globs are relative to the config, so the copy lies beside the data.
    let data = example("flights").canonicalize().unwrap();
    let config = folder.join("train.toml");
    let text = kept
        .join("\n")
        .replace("\"2013-", &format!("\"{}/2013-", data.display()));
    std::fs::write(&config, text).unwrap();
    Worker::new(folder, &["train"], &config)
        .args(["--coordinator", cluster.coordinator()])
        .set(
            "data.train",
            format!("[\"{}/2013-0[1-3].csv.gz\"]", data.display()),
        )
        .set("data.validation", "[]")
        .set("train.epochs", epochs)
        .set("train.output", folder.join("model").display())
        .report(folder.join(format!("{name}.json")))
}

/// Lines of the three files, without their headers.
const EXAMPLES: f64 = 77_911.0;

/// Every example of every epoch was learnt by somebody; more only where a lease was lost.
fn learnt(runs: &[&Run]) -> f64 {
    runs.iter().map(|run| run.number("/examples")).sum()
}

#[test]
fn a_worker_that_is_asked_to_stop_gives_its_split_back_at_once() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), Cluster::start(1));
    let first = long(&cluster, folder.path(), "first", 200)
        .set("cluster.workers", 2)
        .start();
    let second = long(&cluster, folder.path(), "second", 200)
        .set("cluster.workers", 2)
        .start();
    cluster.wait_for("epoch ends");
    second.signal("TERM");
    let stopped = second.end();
    assert_eq!(stopped.code, Some(130), "{}", stopped.stderr);
    assert!(stopped.stderr.contains("stopped"), "{}", stopped.stderr);
    first.signal("INT");
    assert_eq!(first.end().code, Some(130));
}

#[test]
fn a_killed_workers_split_is_learnt_by_another() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), Cluster::start(2));
    let start = |name, epochs| {
        long(&cluster, folder.path(), name, epochs)
            .set("cluster.servers", 2)
            .set("cluster.workers", 2)
            .start()
    };
    let (keeper, victim) = (start("keeper", 6), start("victim", 6));
    cluster.wait_for("epoch ends");
    victim.signal("KILL");
    assert_eq!(victim.end().code, None);
    let run = keeper.end().success();
    assert_eq!(run.number("/epochs"), 6.0);
    assert!(run.number("/metrics/test/auc") > 0.65);
}

#[test]
fn a_worker_that_comes_late_shares_the_work_and_tells_the_same_table() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), Cluster::start(1));
    let first = long(&cluster, folder.path(), "first", 8).start();
    cluster.wait_for("epoch ends");
    let late = long(&cluster, folder.path(), "late", 8).start();
    let (first, late) = (first.end().success(), late.end().success());
    assert_eq!(
        learnt(&[&first, &late]),
        8.0 * EXAMPLES,
        "each example once an epoch"
    );
    assert!(late.number("/examples") > 0.0);
    let table = |run: &Run| {
        run.stdout
            .lines()
            .take(3)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(table(&first), table(&late));
    // And one that comes after the end is told what there is.
    let after = long(&cluster, folder.path(), "after", 8).run().success();
    assert_eq!(table(&first), table(&after));
    assert_eq!(after.number("/examples"), 0.0);
}

#[test]
fn fresh_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(1);
    let first = long(&cluster, folder.path(), "first", 1).run().success();
    let again = long(&cluster, folder.path(), "again", 1).run().success();
    assert_eq!(
        (first.number("/examples"), again.number("/examples")),
        (EXAMPLES, 0.0)
    );
    let fresh = long(&cluster, folder.path(), "fresh", 1)
        .args(["--fresh"])
        .run()
        .success();
    assert_eq!(fresh.number("/examples"), EXAMPLES);
}

#[test]
fn a_job_that_gets_no_better_stops_and_goes_back_to_its_best_epoch() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), Cluster::start(2));
    // No penalty and a large step: what is learnt of January's flights holds less and less.
    let train = worker(&cluster, folder.path(), "train")
        .set("data.train", "[\"2013-01.csv.gz\"]")
        .set("data.validation", "[\"2013-10.csv.gz\"]")
        .set("cluster.servers", 2)
        .set("optimizer.l2", 0)
        .set("optimizer.alpha", 0.5)
        .set("train.epochs", 12)
        .run()
        .success();
    let report = train.report.as_ref().unwrap();
    let epochs = report["metrics"]["epochs"].as_array().unwrap();
    assert_eq!(report["stopped_early"], true, "{report}");
    let kept = report["epochs"].as_u64().unwrap();
    assert_eq!(epochs.len() as u64, kept + 1, "patience is one epoch");
    let auc = |i: usize| epochs[i]["validation"]["auc"].as_f64().unwrap();
    let best = usize::try_from(kept).unwrap() - 1;
    assert!(auc(best) > auc(best + 1));
    assert_eq!(train.number("/metrics/validation/auc"), auc(best));
    // The model that was kept is that of the best epoch, and the test was made with it.
    let scored = Worker::new(folder.path(), &["evaluate"], &example("flights/train.toml"))
        .set("data.train", "[\"2013-01.csv.gz\"]")
        .set("optimizer.l2", 0)
        .set("optimizer.alpha", 0.5)
        .set("train.output", folder.path().join("model").display())
        .report(folder.path().join("scored.json"))
        .run()
        .success();
    for name in ["/metrics/validation/auc", "/metrics/test/auc"] {
        let (a, b) = (train.number(name), scored.number(name));
        assert!((a - b).abs() < 1e-9, "{name}: {a} and {b}");
    }
}
