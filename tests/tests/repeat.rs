//! One worker and one seed give one model, to the last bit.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use windlass_common::format::{Checkpoint, Turnover};
use windlass_common::runtime::{Disk, StdDisk};

use windlass_tests::chaos::{Killer, Victim};
use windlass_tests::data::example;
use windlass_tests::{Cluster, Running, Worker};

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
    let run = begin(&place, &example("flights/train.toml"), |run| {
        let run = run.set("job.seed", seed).set("train.epochs", 2);
        add(run.set("data.train", "[\"2013-0[12].csv.gz\"]"))
    });
    outcome(&place, run)
}

/// Starts to train in a new folder.
fn begin(place: &Path, config: &Path, add: impl FnOnce(Worker) -> Worker) -> Running {
    std::fs::create_dir(place).unwrap();
    // The output is relative to each run's own folder, so that the config kept in the manifest is
    // the same.
    let run = Worker::new(place, &["train"], config).set("train.output", "model");
    add(run.report(place.join("report.json"))).start()
}

fn outcome(place: &Path, run: Running) -> Outcome {
    let mut report = run.end().success().report.unwrap();
    let timed = ["seconds", "examples_per_second", "peak_rss_bytes"];
    timed
        .iter()
        .for_each(|key| drop(report.as_object_mut().unwrap().remove(*key)));
    (report, contents(&place.join("model")))
}

/// How keys came and went in the model's table, over all its shards.
fn turnover(place: &Path) -> Turnover {
    let disk: Arc<dyn Disk> = Arc::new(StdDisk);
    let folders = std::fs::read_dir(place.join("model")).unwrap();
    let mut folders = folders.map(|entry| entry.unwrap().path());
    let folder = folders.find(|path| path.join("manifest.bin").exists());
    let model = Checkpoint::open_folder(&disk, &folder.unwrap()).unwrap();
    let shards = model.manifest().schema.shards.all();
    let of = |shard| model.image(shard).unwrap().tables[0].turnover;
    shards
        .map(of)
        .fold(Turnover::default(), |sum, of| Turnover {
            refused: sum.refused + of.refused,
            evicted: sum.evicted + of.evicted,
            ..sum
        })
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

/// Counts one month's keys, of which some 15,000 share the room of 1,900 rows.
const COMING_AND_GOING: &str = r#"
[job]
name = "coming-and-going"
shards = 4

[data]
format = "csv"
train = ["FLIGHTS/2013-01.csv.gz"]
label = "late"
categorical = ["carrier", "flight", "tailnum", "dest"]
crosses = [["carrier", "dest"], ["tailnum", "dest"], ["flight", "dest"]]

[model]
kind = "count"

[train]
epochs = 30
batch_size = 512
# Each waits for the one before, so that all of them come in order whatever fails.
open_pushes = 1

[tables.count]
admission = 2
sketch = "4KiB"
ttl = 200
max_bytes = "64KiB"
"#;

/// Whatever a log brings back is what was: rows, counters of keys without one, and times of last
/// use. What is pushed does not depend on what was pulled, and the server with the leases lives.
#[test]
fn kills_of_a_server_that_logs_change_no_bit_of_rows_that_come_and_go() {
    let test = "kills_of_a_server_that_logs_change_no_bit_of_rows_that_come_and_go";
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("train.toml");
    let flights = example("flights").display().to_string();
    std::fs::write(&config, COMING_AND_GOING.replace("FLIGHTS", &flights)).unwrap();
    let place = folder.path().join("here");
    let run = begin(&place, &config, |run| run);
    let here = outcome(&place, run);
    let lines = "data_dir = \"DATA_DIR\"\n\
                 checkpoint = { every = \"300ms\", keep = 2, full_every = 3 }\n";
    let mut cluster = Cluster::with(2, lines);
    let mut killer = Killer::new(test, vec![Victim::Server(1)]);
    let place = folder.path().join("there");
    let mut workers = [begin(&place, &config, |run| {
        run.args(["--coordinator", cluster.coordinator()])
            .set("cluster.servers", 2)
    })];
    for _ in 0..4 {
        killer.strike(&mut cluster, &mut workers, |_| {
            panic!("no worker is killed")
        });
    }
    let [worker] = workers;
    let there = outcome(&place, worker);
    assert!(shards(&there) == shards(&here), "rows differ");
    let Turnover {
        refused, evicted, ..
    } = turnover(&place);
    assert!(refused > 1000 && evicted > 1000, "{refused} {evicted}");
    // The report tells the same of the kept model, over both servers.
    let table = &there.0["tables"]["count"];
    let most = (64 << 10) + (64 << 10) / 50;
    assert!(table["bytes"].as_u64() <= Some(most), "{table}");
    let number = |name: &str| table[name].as_u64().unwrap();
    assert_eq!(number("admitted"), number("rows") + number("evicted"));
}
