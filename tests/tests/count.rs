//! A job that counts keeps exactly what its input has, alone and on a cluster.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::path::{Path, PathBuf};

use windlass_common::key::Key;
use windlass_tests::counts::{Counts, of_checkpoint, of_libsvm, total};
use windlass_tests::data::external;
use windlass_tests::{Cluster, Run, Worker};

/// A worker on a job that counts `data`, whose model lies in `folder`.
fn counting(folder: &Path, data: &Path, command: &str, epochs: u32) -> Worker {
    let config = folder.join("train.toml");
    let text = format!(
        "[job]\nname = \"count\"\n\n[data]\nformat = \"libsvm\"\ntrain = [\"{}\"]\n\n[model]\n\
         kind = \"count\"\n\n[train]\nepochs = {epochs}\noutput = \"{}\"\n",
        data.display(),
        folder.join("model").display()
    );
    std::fs::write(&config, text).unwrap();
    Worker::new(folder, &[command], &config)
}

/// The run tells the total of `expected`, in its report and in words, and no metric.
fn assert_told(run: &Run, expected: &Counts) {
    let report = run.report.as_ref().unwrap();
    let sum = u64::try_from(total(expected)).unwrap();
    assert_eq!(report["total"].as_u64(), Some(sum), "{}", run.stderr);
    for of in ["train", "validation", "test"] {
        assert_eq!(report["metrics"][of], serde_json::json!({}));
    }
    let told = run.stdout.lines().next().unwrap().replace(',', "");
    let rows = expected.len();
    assert_eq!(told, format!("counted {sum} keys {rows} different ones"));
    for metric in ["auc", "loss", "rmse"] {
        assert!(!run.stdout.contains(metric) && !run.stderr.contains(metric));
    }
}

fn a9a(test: &str, epochs: u32) -> Option<(PathBuf, Counts)> {
    let data = external(test, "a9a/a9a")?;
    let text = std::fs::read_to_string(&data).unwrap();
    Some((data, of_libsvm(&text, epochs)))
}

#[test]
fn every_occurrence_counts_once_alone() {
    let Some((data, expected)) = a9a("every_occurrence_counts_once_alone", 3) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str| {
        counting(folder.path(), &data, "train", 3)
            .report(folder.path().join(name))
            .run()
            .success()
    };
    let first = run("first.json");
    assert_told(&first, &expected);
    assert_eq!(first.number("/rows"), expected.len() as f64);
    assert_eq!(of_checkpoint(&folder.path().join("model")), expected);

    // The servers are gone: the checkpoint tells.
    let again = run("again.json");
    assert!(again.stderr.contains("already trained"), "{}", again.stderr);
    assert_told(&again, &expected);

    let export = counting(folder.path(), &data, "export", 3).run().success();
    let exported: Counts = export
        .stdout
        .lines()
        .map(|line| match *line.split('\t').collect::<Vec<_>>() {
            ["count", key, count] => (Key(key.parse().unwrap()), count.parse().unwrap()),
            _ => panic!("`{line}` is not TABLE, KEY, COUNT"),
        })
        .collect();
    assert_eq!(exported, expected);
}

#[test]
fn two_workers_on_two_servers_count_the_same_and_tell_the_same() {
    let name = "two_workers_on_two_servers_count_the_same_and_tell_the_same";
    let Some((data, expected)) = a9a(name, 2) else {
        return;
    };
    let (folder, cluster) = (tempfile::tempdir().unwrap(), Cluster::start(2));
    let start = |report: &str| {
        counting(folder.path(), &data, "train", 2)
            .args(["--coordinator", cluster.coordinator()])
            .set("cluster.servers", 2)
            .set("cluster.workers", 2)
            .report(folder.path().join(report))
            .start()
    };
    let (one, two) = (start("one.json"), start("two.json"));
    for run in [one.end().success(), two.end().success()] {
        assert_told(&run, &expected);
    }
    assert_eq!(of_checkpoint(&folder.path().join("model")), expected);
    // The job goes on elsewhere, from the exact counts.
    let more = counting(folder.path(), &data, "train", 3)
        .report(folder.path().join("more.json"))
        .run()
        .success();
    let (_, expected) = a9a(name, 3).unwrap();
    assert_told(&more, &expected);
}

#[test]
fn values_and_labels_do_not_matter_and_a_key_twice_counts_twice() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let text = "3 7:0.5 7:-2 9:0\n-1.5\n0 9:1e30 # 7:1\n";
    std::fs::write(&data, text).unwrap();
    let run = counting(folder.path(), &data, "train", 2)
        .report(folder.path().join("train.json"))
        .run()
        .success();
    let expected = Counts::from([(Key(7), 4), (Key(9), 4)]);
    assert_eq!(of_libsvm(text, 2), expected);
    assert_eq!(of_checkpoint(&folder.path().join("model")), expected);
    assert_told(&run, &expected);
}

#[test]
fn a_count_that_is_to_learn_or_to_predict_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::write(&data, "1 1:1\n").unwrap();
    let refused = |command: &str, key: &str, value: &str| {
        let mut worker = counting(folder.path(), &data, command, 1);
        if !value.is_empty() {
            worker = worker.set(key, value);
        }
        let run = worker.run();
        assert_ne!(run.code, Some(0), "{key}");
        assert_eq!(run.stderr.trim().lines().count(), 1, "{}", run.stderr);
        assert!(run.stderr.contains(key), "{key}: {}", run.stderr);
    };
    refused("train", "optimizer", "{ kind = \"sgd\" }");
    refused("train", "model.loss", "\"squared\"");
    refused("train", "data.test", "[\"data\"]");
    refused("train", "data.validation", "[\"data\"]");
    refused("train", "train.early_stop", "{}");
    refused("evaluate", "model.kind", "");
    assert!(!folder.path().join("model").exists());
}
