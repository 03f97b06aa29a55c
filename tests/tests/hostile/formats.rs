//! What lies on disks: checkpoints, logs, and what a server and a coordinator know.

use std::collections::BTreeMap;
use std::path::Path;

use windlass_common::coordination::{Plan, Purpose, Recipe};
use windlass_common::format::log::{Scan, sweep};
use windlass_common::format::{
    ClusterState, HeldShards, JobState, Manifest, PublishedState, Stage, decode_shard,
    inspect_shard, merge,
};
use windlass_common::id::{Boot, CheckpointId, JobId, Lineage, Lsn, MapEpoch, ShardId, WorkerId};
use windlass_common::interval_set::IntervalSet;
use windlass_common::tally::Metric;

use crate::feed::Target;

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../common/tests/fixtures/v1");
    std::fs::read(folder.join(name)).unwrap()
}

pub(crate) fn targets() -> Vec<Target> {
    let shards = [
        "checkpoint-000011/0001-full.shard",
        "checkpoint-000012/0000-full.shard",
        "checkpoint-000012/0001-delta.shard",
    ];
    vec![
        Target {
            name: "segment",
            read: segment,
            // What follows is left of a write that failed.
            samples: vec![fixture("log/0000000001.log")[..309].to_vec()],
            repair: repair_segment,
        },
        Target {
            name: "manifest",
            read: |bytes| said(Manifest::decode(bytes, Path::new("manifest.bin"))),
            samples: vec![manifest_bytes()],
            repair: repair_frame,
        },
        Target {
            name: "shard",
            read: shard,
            samples: shards.map(fixture).into(),
            repair: repair_frame,
        },
        Target {
            name: "state",
            read: |bytes| said(ClusterState::decode(bytes, Path::new("coordinator.state"))),
            samples: vec![state().encode().unwrap()],
            repair: repair_frame,
        },
        Target {
            name: "held",
            read: |bytes| said(HeldShards::decode(bytes, Path::new("held"))),
            samples: vec![held().encode().unwrap()],
            repair: repair_frame,
        },
    ]
}

fn said<T>(read: Result<T, impl std::fmt::Display>) -> Result<(), String> {
    read.map(drop).map_err(|error| error.to_string())
}

fn manifest_bytes() -> Vec<u8> {
    fixture("checkpoint-000012/manifest.bin")
}

fn segment(bytes: &[u8]) -> Result<(), String> {
    said(sweep(bytes, 0, Lsn(0)))?;
    let path = Path::new("0000000001.log");
    let mut scan = Scan::begin(bytes, path).map_err(|error| error.to_string())?;
    while let Some(group) = scan.group(None).map_err(|error| error.to_string())? {
        for entry in group.entries() {
            let entry = entry.map_err(|error| error.to_string())?;
            said(entry.decode())?;
        }
    }
    Ok(())
}

fn shard(bytes: &[u8]) -> Result<(), String> {
    let path = Path::new("0001.shard");
    let inspected = said(inspect_shard(bytes, path));
    let image = decode_shard(bytes, path).map_err(|error| error.to_string());
    assert_eq!(
        inspected.is_ok(),
        image.is_ok(),
        "a file is whole for both that read it, or for neither"
    );
    let image = image?;
    // Whatever it builds on.
    let base = decode_shard(&fixture("checkpoint-000011/0001-full.shard"), path).unwrap();
    drop(merge(base, image, path));
    Ok(())
}

fn held() -> HeldShards {
    let shards = (0..4).map(|shard| (ShardId(shard), Lineage(1)));
    HeldShards(shards.collect::<BTreeMap<_, _>>())
}

fn state() -> ClusterState {
    let manifest = Manifest::decode(&manifest_bytes(), Path::new("manifest.bin")).unwrap();
    let recipe: Recipe = manifest.recipe;
    let job = JobState {
        job: JobId(1),
        name: manifest.job,
        schema: manifest.schema,
        plan: Plan {
            epochs: 3,
            validation: recipe.files.clone(),
            test: recipe.files.clone(),
            metric: Metric::LogLoss,
            patience: Some(2),
            servers: 2,
            workers: 2,
            purpose: Purpose::Train,
        },
        recipe,
        config: manifest.config,
        creator: WorkerId(5),
        fresh: false,
        lineage: Lineage(3),
        origin: Some(CheckpointId(11)),
        owners: Vec::new(),
        target: 2,
        history: manifest.history,
        stage: Stage::Training,
        last_checkpoint: CheckpointId(12),
        best: None,
        published: vec![PublishedState {
            checkpoint: CheckpointId(12),
            root: CheckpointId(11),
            taken: 5,
            complete: IntervalSet::below(4),
        }],
    };
    ClusterState {
        epoch: MapEpoch(4),
        servers: vec![
            ("http://a:1".into(), Boot(1)),
            ("http://b:1".into(), Boot(2)),
        ],
        jobs: vec![job],
    }
}

/// Bytes of a frame before its payload.
const FRAME: usize = 18;

fn number(bytes: &[u8]) -> usize {
    u32::from_le_bytes(bytes.try_into().unwrap()) as usize
}

/// Makes the checksum of the frame at the beginning right, and gives where the frame ends.
fn repair_header(bytes: &mut [u8]) -> Option<usize> {
    let end = FRAME.checked_add(number(bytes.get(10..14)?))?;
    let payload = bytes.get(FRAME..end)?;
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..14]);
    crc.update(payload);
    let crc = crc.finalize();
    bytes[14..FRAME].copy_from_slice(&crc.to_le_bytes());
    Some(end)
}

fn repair_frame(bytes: &mut [u8]) {
    repair_header(bytes);
}

/// The frame's checksum, and those of the groups behind it.
fn repair_segment(bytes: &mut [u8]) {
    let Some(mut at) = repair_header(bytes) else {
        return;
    };
    while let Some(head) = bytes.get(at..at + 24) {
        let Some(end) = (at + 24).checked_add(number(&head[4..8])) else {
            return;
        };
        let Some(payload) = bytes.get(at + 24..end) else {
            return;
        };
        let mut crc = crc32fast::Hasher::new();
        crc.update(&head[..20]);
        crc.update(payload);
        let crc = crc.finalize();
        bytes[at + 20..at + 24].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
}
