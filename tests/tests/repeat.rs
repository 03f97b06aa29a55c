//! One worker and one seed give one model, to the last bit.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::collections::BTreeMap;
use std::path::Path;

use windlass_tests::Worker;
use windlass_tests::data::example;

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

fn train(folder: &Path, name: &str, seed: u32) -> (serde_json::Value, BTreeMap<String, Vec<u8>>) {
    let place = folder.join(name);
    std::fs::create_dir(&place).unwrap();
    // The output is relative to each run's own folder, so that the config kept in the manifest is
    // the same.
    let run = Worker::new(&place, &["train"], &example("flights/train.toml"))
        .set("job.seed", seed)
        .set("data.train", "[\"2013-0[12].csv.gz\"]")
        .set("train.epochs", 2)
        .set("train.output", "model")
        .report(place.join("report.json"))
        .run()
        .success();
    let mut report = run.report.unwrap();
    let timed = ["seconds", "examples_per_second", "peak_rss_bytes"];
    timed
        .iter()
        .for_each(|key| drop(report.as_object_mut().unwrap().remove(*key)));
    (report, contents(&place.join("model")))
}

#[test]
fn two_runs_of_one_seed_give_identical_metrics_rows_and_checkpoint_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (train(folder.path(), "a", 7), train(folder.path(), "b", 7));
    assert_eq!(first.0, second.0);
    assert!(
        first.1.len() > 256,
        "a file a shard and a manifest: {}",
        first.1.len()
    );
    assert!(first.1 == second.1, "checkpoint bytes differ");
    let other = train(folder.path(), "c", 8);
    assert_ne!(
        first.0["metrics"], other.0["metrics"],
        "another seed is another model"
    );
}
