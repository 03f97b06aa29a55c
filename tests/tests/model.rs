//! A model that was trained is kept: scored again, exported, and gone on with, on any number of
//! servers.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::path::Path;

use windlass_tests::data::example;
use windlass_tests::{Cluster, Run, Worker};

fn flights(folder: &Path, command: &str) -> Worker {
    Worker::new(folder, &[command], &example("flights/train.toml"))
        .set("data.train", "[\"2013-0[1-3].csv.gz\"]")
        .set("train.output", folder.join("model").display())
}

fn trained(folder: &Path, epochs: u32) -> Run {
    flights(folder, "train")
        .set("train.epochs", epochs)
        .report(folder.join("train.json"))
        .run()
        .success()
}

fn metrics(run: &Run) -> [f64; 4] {
    [
        "validation/auc",
        "validation/log_loss",
        "test/auc",
        "test/log_loss",
    ]
    .map(|name| run.number(&format!("/metrics/{name}")))
}

/// The weights are the same bits; the sums over examples may be added up in another order.
fn assert_same(a: [f64; 4], b: [f64; 4]) {
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() <= 1e-9 * x.abs(), "{a:?} and {b:?}");
    }
}

#[test]
fn evaluation_repeats_the_metrics_of_training_here_and_on_other_numbers_of_servers() {
    let folder = tempfile::tempdir().unwrap();
    let train = trained(folder.path(), 1);
    let evaluate = |worker: Worker| {
        worker
            .report(folder.path().join("eval.json"))
            .run()
            .success()
    };
    let here = evaluate(flights(folder.path(), "evaluate"));
    assert_same(metrics(&train), metrics(&here));
    for servers in [1, 3] {
        let cluster = Cluster::start(servers);
        let there = evaluate(
            flights(folder.path(), "evaluate")
                .args(["--coordinator", cluster.coordinator()])
                .set("cluster.servers", servers),
        );
        assert_same(metrics(&train), metrics(&there));
        let rows = there.report.as_ref().unwrap()["rows_by_server"]
            .as_object()
            .unwrap()
            .len();
        assert_eq!(rows, servers);
    }
}

#[test]
fn training_goes_on_where_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    trained(folder.path(), 1);
    let again = trained(folder.path(), 1);
    assert!(again.stderr.contains("already trained"), "{}", again.stderr);
    assert_eq!(again.number("/examples"), 0.0);

    // Three epochs at once, in a folder of their own, are what one and two more must equal.
    let whole = tempfile::tempdir().unwrap();
    let whole = flights(whole.path(), "train")
        .set("train.epochs", 2)
        .report(whole.path().join("train.json"))
        .run()
        .success();
    let resumed = trained(folder.path(), 2);
    assert!(
        resumed.stderr.contains("continuing after epoch 1"),
        "{}",
        resumed.stderr
    );
    assert_same(metrics(&whole), metrics(&resumed));
}

#[test]
fn a_model_trained_alone_goes_on_on_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let alone = trained(folder.path(), 1);
    let cluster = Cluster::start(2);
    let resumed = flights(folder.path(), "train")
        .set("train.epochs", 2)
        .args(["--coordinator", cluster.coordinator()])
        .set("cluster.servers", 2)
        .report(folder.path().join("resumed.json"))
        .run()
        .success();
    // The second epoch alone was learnt there.
    assert_eq!(resumed.number("/examples"), alone.number("/examples"));
    assert_eq!(
        resumed.report.unwrap()["metrics"]["epochs"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn an_export_names_rows_as_the_input_does() {
    let folder = tempfile::tempdir().unwrap();
    let train = trained(folder.path(), 1);
    let export = flights(folder.path(), "export")
        .args(["--format", "text"])
        .run()
        .success();
    let rows: Vec<Vec<&str>> = export
        .stdout
        .lines()
        .map(|l| l.split('\t').collect())
        .collect();
    assert_eq!(rows.len() as f64, train.number("/rows"));
    assert!(
        rows.iter()
            .all(|r| r.len() == 3 && r[0] == "linear" && r[2].parse::<f32>().is_ok())
    );
    for name in ["carrier=UA", "origin=EWR", "origin=EWR,dest=IAH", "(bias)"] {
        assert_eq!(rows.iter().filter(|r| r[1] == name).count(), 1, "{name}");
    }
    let slots = flights(folder.path(), "export")
        .args(["--slots"])
        .run()
        .success();
    let with_slots = slots
        .stdout
        .lines()
        .map(|l| l.split('\t').count())
        .collect::<Vec<_>>();
    assert!(
        with_slots.iter().all(|&columns| columns == 4),
        "adagrad has one slot a weight"
    );
}
