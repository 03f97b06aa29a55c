use std::path::Path;

use windlass_common::coordination::{History, Recipe};
use windlass_common::format::{Base, ManifestFile, ShardImage, encode_shard};
use windlass_common::id::{Boot, Clock, Lineage, ShardId};
use windlass_common::init::Init;
use windlass_common::interval_set::IntervalSet;
use windlass_common::optimizer::{OptimizerSpec, Sgd};
use windlass_common::runtime::{FolderObjects, StdDisk};
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::ShardCount;

use super::*;

/// When the checkpoints of these tests were taken, and two hours and a bit later.
const TAKEN_MS: u64 = 1_790_000_000_000;
const NOW: Duration = Duration::from_millis(TAKEN_MS + 7_800_000);

fn store(root: &Path) -> Arc<dyn Objects> {
    Arc::new(FolderObjects::new(Arc::new(StdDisk), root.into(), Boot(1)))
}

fn table() -> TableSchema {
    TableSchema::new("linear", 1, Init::Zeros, OptimizerSpec::Sgd(Sgd::default()))
}

fn image(clock: u64, base: Option<Base>) -> ShardImage {
    let table = windlass_common::format::TableImage {
        dim: 1,
        ..Default::default()
    };
    ShardImage {
        shard: ShardId(0),
        lineage: Lineage(1),
        clock: Clock(clock),
        base,
        tables: vec![table],
        ..ShardImage::default()
    }
}

/// Saves a checkpoint of one shard, on the chain below if there is one.
fn save(
    objects: &Arc<dyn Objects>,
    job: &str,
    number: u64,
    below: &[ManifestFile],
) -> Vec<ManifestFile> {
    let library = Library::new(Arc::clone(objects), job).unwrap();
    let base = below.last().map(|_| Base {
        checkpoint: CheckpointId(number - 1),
        clock: Clock(number - 1),
        ..Base::default()
    });
    let bytes = encode_shard(&image(number, base));
    let (file, _) = library.put_shard(CheckpointId(number), &bytes).unwrap();
    let mut chain: Vec<ManifestFile> = below.to_vec();
    for file in chain.iter_mut().filter(|file| file.folder.is_empty()) {
        file.folder = checkpoint_folder(CheckpointId(number - 1));
    }
    chain.push(file);
    let manifest = Manifest {
        job: job.into(),
        job_id: windlass_common::id::JobId(1),
        number: CheckpointId(number),
        lineage: Lineage(1),
        taken_ms: TAKEN_MS,
        pinned: number == 1,
        windlass: "0.1.0".into(),
        config: String::new(),
        schema: JobSchema {
            shards: ShardCount::new(1).unwrap(),
            seed: 1,
            tables: vec![table()],
        },
        recipe: Recipe {
            files: Vec::new(),
            split_bytes: 1,
            batch_size: 1,
            shuffle: 1,
            seed: 1,
            reading: [0; 32],
        },
        target: 3,
        history: History::default(),
        complete: IntervalSet::default(),
        chains: vec![chain.clone()],
    };
    library.publish(&manifest).unwrap();
    chain
}

fn of(job: &str, number: Option<u64>) -> Selection {
    Selection {
        job: Some(job.into()),
        number: number.map(CheckpointId),
    }
}

fn listed(objects: &Arc<dyn Objects>, selection: &Selection) -> String {
    let mut out = Vec::new();
    list(objects, selection, NOW, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn verified(objects: &Arc<dyn Objects>, selection: &Selection) -> (usize, String) {
    let mut out = Vec::new();
    let damaged = verify(objects, selection, &mut out).unwrap();
    (damaged, String::from_utf8(out).unwrap())
}

#[test]
fn checkpoints_are_listed_in_an_aligned_table() {
    let root = tempfile::tempdir().unwrap();
    let objects = store(root.path());
    let first = save(&objects, "flights", 1, &[]);
    save(&objects, "flights", 2, &first);
    Library::new(Arc::clone(&objects), "flights")
        .and_then(|library| library.put_shard(CheckpointId(3), &encode_shard(&image(3, None))))
        .unwrap();
    assert_eq!(
        listed(&objects, &Selection::default()),
        "\
job      number  age  epoch  sources  rows  bytes  kind   state
flights       3    -      -        -     -      -  -      no manifest: under way, or given up
flights       2   2h      3        0     0    240  delta  files there
flights       1   2h      3        0     0    226  full   files there, pinned
"
    );
    let one = listed(&objects, &of("flights", Some(1)));
    assert_eq!(one.lines().count(), 2, "{one}");
}

#[test]
fn what_is_damaged_is_named_and_counted() {
    let root = tempfile::tempdir().unwrap();
    let objects = store(root.path());
    let chain = save(&objects, "a", 1, &[]);
    save(&objects, "b", 1, &[]);
    assert_eq!(
        verified(&objects, &Selection::default()),
        (
            0,
            "a/checkpoint-000001: whole, 1 files, 226 bytes\n\
             b/checkpoint-000001: whole, 1 files, 226 bytes\n"
                .into()
        )
    );

    let path = root.path().join("a/checkpoint-000001").join(&chain[0].name);
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (damaged, text) = verified(&objects, &Selection::default());
    assert_eq!(damaged, 1);
    let named = format!(
        "a/checkpoint-000001: DAMAGED: {} is damaged at byte 0: its SHA-256 is not the manifest's",
        path.display()
    );
    assert_eq!(text.lines().next(), Some(named.as_str()));

    std::fs::remove_file(&path).unwrap();
    let text = listed(&objects, &of("a", None));
    assert!(
        text.contains("DAMAGED: shard 0: its server wrote"),
        "{text}"
    );
    assert_eq!(verified(&objects, &of("a", Some(1))).0, 1);
}

#[test]
fn one_that_was_asked_for_and_has_no_manifest_is_not_whole() {
    let root = tempfile::tempdir().unwrap();
    let objects = store(root.path());
    save(&objects, "a", 1, &[]);
    std::fs::remove_file(root.path().join("a/checkpoint-000001/manifest.bin")).unwrap();
    assert_eq!(verified(&objects, &of("a", None)).0, 0);
    assert_eq!(verified(&objects, &of("a", Some(1))).0, 1);
}

#[test]
fn where_nothing_is_that_is_said() {
    let root = tempfile::tempdir().unwrap();
    let objects = store(&root.path().join("nowhere"));
    let none = |selection| {
        list(&objects, &selection, NOW, &mut Vec::new())
            .unwrap_err()
            .to_string()
    };
    let place = root.path().join("nowhere");
    let place = place.display();
    assert_eq!(
        none(Selection::default()),
        format!("no checkpoint in {place}")
    );
    assert_eq!(
        none(of("flights", Some(3))),
        format!("no checkpoint 3 of job `flights` in {place}")
    );
    assert!(none(of("../x", None)).contains("plain file name"));
}
