//! One worker and one seed give one model, to the last bit.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::collections::BTreeMap;
use std::path::Path;

use windlass_tests::data::example;
use windlass_tests::{Cluster, Worker};

/// All files under a folder, by their path in it.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    walkdir::WalkDir::new(folder)
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let name = entry
                .path()
                .strip_prefix(folder)
                .unwrap()
                .display()
                .to_string();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// A run's report without what is timed, and the bytes of its checkpoint.
type Outcome = (serde_json::Value, BTreeMap<String, Vec<u8>>);

/// Trains in a folder of its own; `add` completes the command line.
fn train(folder: &Path, name: &str, seed: u32, add: impl FnOnce(Worker) -> Worker) -> Outcome {
    let place = folder.join(name);
    std::fs::create_dir(&place).unwrap();
    // The output is relative to each run's own folder, so that the config kept in the manifest is
    // the same.
    let run = Worker::new(&place, &["train"], &example("flights/train.toml"))
        .set("job.seed", seed)
        .set("data.train", "[\"2013-0[12].csv.gz\"]")
        .set("train.epochs", 2)
        .set("train.output", "model")
        .report(place.join("report.json"));
    let mut report = add(run).run().success().report.unwrap();
    let timed = ["seconds", "examples_per_second", "peak_rss_bytes"];
    timed
        .iter()
        .for_each(|key| drop(report.as_object_mut().unwrap().remove(*key)));
    (report, contents(&place.join("model")))
}

/// The files of the shards, without the manifest, which keeps the config.
fn shards(outcome: &Outcome) -> BTreeMap<&String, &Vec<u8>> {
    let is_manifest = |name: &str| name.ends_with("manifest.bin");
    outcome.1.iter().filter(|(n, _)| !is_manifest(n)).collect()
}

#[test]
fn two_runs_of_one_seed_give_identical_metrics_rows_and_checkpoint_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name, seed| train(folder.path(), name, seed, |run| run);
    let (first, second) = (run("a", 7), run("b", 7));
    assert_eq!(first.0, second.0);
    assert!(
        first.1.len() > 256,
        "a file a shard and a manifest: {}",
        first.1.len()
    );
    assert!(first.1 == second.1, "checkpoint bytes differ");
    let other = run("c", 8);
    assert_ne!(
        first.0["metrics"], other.0["metrics"],
        "another seed is another model"
    );
}

#[test]
fn how_many_servers_and_open_pushes_there_are_changes_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    for prefetch in [0, 3] {
        let here = train(folder.path(), &format!("here-{prefetch}"), 7, |run| {
            run.set("train.prefetch", prefetch)
        });
        for (servers, open) in [(1, 1), (3, 16), (3, 64)] {
            let cluster = Cluster::start(servers);
            let name = format!("{servers}-{open}-{prefetch}");
            let there = train(folder.path(), &name, 7, |run| {
                run.args(["--coordinator", cluster.coordinator()])
                    .set("cluster.servers", servers)
                    .set("train.open_pushes", open)
                    .set("train.prefetch", prefetch)
            });
            assert_eq!(there.0["metrics"], here.0["metrics"], "{name}");
            assert!(shards(&there) == shards(&here), "{name}: rows differ");
        }
    }
}
