//! What models reach on real data, embedded and on a cluster of two servers and two workers.
//!
//! The floors stand below reference results of scikit-learn and of plain implementations of the
//! same algorithms on the same splits.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::path::Path;

use tempfile::TempDir;
use windlass_tests::data::{every_fifth, example, external};
use windlass_tests::{Cluster, Run, Worker};

/// What a metric on the test rows must be.
#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast(&'static str, f64),
    AtMost(&'static str, f64),
}

use Bound::{AtLeast, AtMost};

/// How far the cluster may be from the single process.
const AUC_APART: f64 = 0.003;
const RMSE_APART: f64 = 0.01;

/// A single seed says little about small or noisy sets.
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

/// Trains `config` (of `tests/quality/`) in `folder`, which holds its files, and checks `bounds`.
fn check(config: &str, folder: &TempDir, seeds: &[u64], bounds: &[Bound]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("quality")
        .join(config);
    let path = folder.path().join(config);
    std::fs::copy(source, &path).unwrap();
    check_at(&path, folder.path(), seeds, bounds);
}

fn check_at(config: &Path, folder: &Path, seeds: &[u64], bounds: &[Bound]) {
    let embedded: Vec<Run> = seeds
        .iter()
        .map(|&seed| alone(config, folder, seed))
        .collect();
    let cluster = Cluster::start(2);
    let together: Vec<Run> = seeds
        .iter()
        .map(|&seed| on_cluster(&cluster, config, folder, seed))
        .collect();
    for &bound in bounds {
        let (AtLeast(name, _) | AtMost(name, _)) = bound;
        let path = format!("/metrics/test/{name}");
        let (here, there) = (median(&embedded, &path), median(&together, &path));
        eprintln!(
            "{}: {name} {here:.4} embedded, {there:.4} on a cluster",
            config.display()
        );
        for value in [here, there] {
            let holds = match bound {
                AtLeast(_, floor) => value >= floor,
                AtMost(_, ceiling) => value <= ceiling,
            };
            assert!(holds, "{name} {value:.5}, wanted {bound:?}");
        }
        let apart = (here - there).abs();
        match name {
            "auc" => assert!(apart <= AUC_APART, "auc {here:.5} and {there:.5}"),
            "rmse" => assert!(apart <= RMSE_APART, "rmse {here:.5} and {there:.5}"),
            _ => {}
        }
    }
}

fn alone(config: &Path, folder: &Path, seed: u64) -> Run {
    Worker::new(folder, &["train"], config)
        .set("job.seed", seed)
        .set(
            "train.output",
            folder.join(format!("alone-{seed}")).display(),
        )
        .report(folder.join(format!("alone-{seed}.json")))
        .run()
        .success()
}

/// Two workers; the run that is returned is the first one's, whose metrics are the whole job's.
fn on_cluster(cluster: &Cluster, config: &Path, folder: &Path, seed: u64) -> Run {
    let worker = |number: u32| {
        Worker::new(folder, &["train"], config)
            .args(["--coordinator", cluster.coordinator()])
            .set("cluster.servers", 2)
            .set("cluster.workers", 2)
            .set("job.name", format!("seed-{seed}"))
            .set("job.seed", seed)
            .set(
                "train.output",
                folder.join(format!("cluster-{seed}")).display(),
            )
            .report(folder.join(format!("cluster-{seed}-{number}.json")))
            .start()
    };
    let workers = [worker(0), worker(1)];
    let [first, second] = workers.map(|w| w.end().success());
    for name in ["/metrics/test", "/epochs"] {
        let of = |run: &Run| run.report.as_ref().unwrap().pointer(name).cloned();
        assert_eq!(of(&first), of(&second), "both workers tell the same {name}");
    }
    let batches = [&first, &second].map(|run| run.number("/pushes/acked"));
    let share = batches[0].min(batches[1]) / (batches[0] + batches[1]);
    assert!(share >= 0.25, "batches by worker: {batches:?}");
    let servers = first.report.as_ref().unwrap()["rows_by_server"]
        .as_object()
        .unwrap()
        .clone();
    let rows: Vec<f64> = servers.values().map(|v| v.as_f64().unwrap()).collect();
    assert_eq!(rows.len(), 2, "rows by server: {servers:?}");
    assert!(
        rows.iter().all(|r| r / rows.iter().sum::<f64>() >= 0.25),
        "rows by server: {rows:?}"
    );
    first
}

fn median(runs: &[Run], path: &str) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(|run| run.number(path)).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A folder with `train` and `test` that are copies of two files of real data.
fn two_files(test: &str, train: &str, held_out: &str) -> Option<TempDir> {
    let (train, held_out) = (external(test, train)?, external(test, held_out)?);
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(train, folder.path().join("train")).unwrap();
    std::fs::copy(held_out, folder.path().join("test")).unwrap();
    Some(folder)
}

/// A folder with `train` and `test` cut from one file of real data.
fn one_file(test: &str, file: &str, header: bool) -> Option<TempDir> {
    let source = external(test, file)?;
    let folder = tempfile::tempdir().unwrap();
    every_fifth(&source, header, folder.path());
    Some(folder)
}

#[test]
fn flights_logistic_reaches_its_reference() {
    let folder = tempfile::tempdir().unwrap();
    // Early stopping may keep another epoch, so single runs lie far apart: the median of more.
    check_at(
        &example("flights/train.toml"),
        folder.path(),
        &[1, 2, 3, 4, 5, 6, 7, 8, 9],
        &[AtLeast("auc", 0.69)],
    );
}

#[test]
fn a9a_one_pass_of_ftrl_reaches_its_reference() {
    let Some(folder) = two_files("a9a", "a9a/a9a", "a9a/a9a.t") else {
        return;
    };
    let bounds = [
        AtLeast("auc", 0.900),
        AtMost("log_loss", 0.328),
        AtLeast("accuracy", 0.847),
    ];
    check("a9a-ftrl.toml", &folder, &[1], &bounds);
}

#[test]
fn criteo_logistic_reaches_its_reference() {
    let Some(folder) = one_file("criteo logistic", "criteo8k/criteo8k.tsv", false) else {
        return;
    };
    let bounds = [AtLeast("auc", 0.725), AtMost("log_loss", 0.475)];
    check("criteo-logistic.toml", &folder, &SEEDS, &bounds);
}

#[test]
fn criteo_fm_reaches_its_reference() {
    let Some(folder) = one_file("criteo fm", "criteo8k/criteo8k.tsv", false) else {
        return;
    };
    let bounds = [AtLeast("auc", 0.725), AtMost("log_loss", 0.475)];
    check("criteo-fm.toml", &folder, &SEEDS, &bounds);
}

#[test]
fn avazu_logistic_reaches_its_reference() {
    let Some(folder) = one_file("avazu logistic", "avazu9k/avazu9k.csv", true) else {
        return;
    };
    check(
        "avazu-logistic.toml",
        &folder,
        &SEEDS,
        &[AtLeast("auc", 0.70)],
    );
}

#[test]
fn avazu_fm_reaches_its_reference() {
    let Some(folder) = one_file("avazu fm", "avazu9k/avazu9k.csv", true) else {
        return;
    };
    check("avazu-fm.toml", &folder, &SEEDS, &[AtLeast("auc", 0.70)]);
}

#[test]
fn movielens_matrix_factorization_reaches_its_reference() {
    let files = ("movielens100k/u1.base", "movielens100k/u1.test");
    let Some(folder) = two_files("movielens mf", files.0, files.1) else {
        return;
    };
    check(
        "movielens-mf.toml",
        &folder,
        &SEEDS,
        &[AtMost("rmse", 0.955)],
    );
}

#[test]
fn movielens_fm_reaches_its_reference() {
    let files = ("movielens100k/u1.base", "movielens100k/u1.test");
    let Some(folder) = two_files("movielens fm", files.0, files.1) else {
        return;
    };
    check(
        "movielens-fm.toml",
        &folder,
        &SEEDS,
        &[AtMost("rmse", 0.945)],
    );
}

#[test]
fn agaricus_logistic_is_nearly_always_right() {
    let files = ("agaricus/agaricus.txt.train", "agaricus/agaricus.txt.test");
    let Some(folder) = two_files("agaricus", files.0, files.1) else {
        return;
    };
    check(
        "agaricus-logistic.toml",
        &folder,
        &[1],
        &[AtLeast("accuracy", 0.999)],
    );
}

#[test]
fn digits_softmax_reaches_its_reference() {
    let Some(folder) = one_file("digits", "digits/digits.csv", false) else {
        return;
    };
    check(
        "digits-softmax.toml",
        &folder,
        &SEEDS,
        &[AtLeast("accuracy", 0.94)],
    );
}
