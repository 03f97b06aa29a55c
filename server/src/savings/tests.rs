use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_common::exchange::{Push, TableGradients};
use windlass_common::format::log::Record;
use windlass_common::format::{encode_shard, merge};
use windlass_common::id::{JobId, Lineage, Lsn, PushId, Seq, ShardId, SourceId, TableId};
use windlass_common::init::Init;
use windlass_common::key::Key;
use windlass_common::optimizer::{Adagrad, OptimizerSpec};
use windlass_common::residency::{Admission, Eviction};
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::{ShardCount, ShardedKeys};

use proptest::prelude::*;

use super::*;
use crate::apply::apply;

fn schema() -> JobSchema {
    schema_with(None, Eviction::default())
}

fn schema_with(admission: Option<Admission>, eviction: Eviction) -> JobSchema {
    let adagrad = OptimizerSpec::Adagrad(Adagrad::default());
    let init = Init::Normal { std: 0.1 };
    JobSchema {
        shards: ShardCount::new(1).unwrap(),
        seed: 1,
        tables: vec![TableSchema {
            admission,
            eviction,
            ..TableSchema::new("factors", 2, init, adagrad)
        }],
    }
}

fn new() -> Shard {
    Shard::new(ShardId(0), Lineage(1), &schema())
}

/// Gives each key a gradient that depends on the push's number.
fn push(shard: &mut Shard, seq: u64, keys: &[u64]) {
    let keys: Vec<Key> = keys.iter().copied().map(Key).collect();
    let (set, _) = ShardedKeys::group(&keys, schema().shards);
    let part = TableGradients {
        table: TableId(0),
        set: 0,
        gradients: vec![0.25 + seq as f32; 2 * set.len()],
    };
    let push = Push {
        job: JobId(1),
        lineage: Lineage(1),
        id: PushId {
            source: SourceId(0),
            seq: Seq(seq),
        },
        end: false,
        cover: vec![ShardId(0)],
        sets: vec![Arc::new(set)],
        tables: vec![part],
    };
    apply(shard, &Record::of(&push, ShardId(0)), None).unwrap();
    shard.logged = Lsn(seq + 1);
}

fn order(checkpoint: u64, base: Option<u64>) -> SaveOrder {
    SaveOrder {
        checkpoint: CheckpointId(checkpoint),
        base: base.map(CheckpointId),
        gentle: true,
    }
}

/// Takes a copy and notes that it reached the store.
fn save(shard: &mut Shard, order: SaveOrder) -> Copy {
    let copy = shard.copy(order, Boot(7));
    let mut chain = copy.below.clone();
    chain.push(ManifestFile {
        folder: format!("checkpoint-{:06}", order.checkpoint.0),
        name: "0000.shard".into(),
        bytes: 1,
        sha256: [0; 32],
        rows: 1,
    });
    shard.copied(order.checkpoint, copy.image.mark, &chain);
    copy
}

/// What a full copy would be now, byte for byte.
fn full(shard: &Shard) -> Vec<u8> {
    let mark = Mark {
        boot: Boot(7),
        lsn: shard.logged,
    };
    encode_shard(&ShardImage {
        mark,
        ..shard.image()
    })
}

fn merged(base: ShardImage, delta: &Copy) -> ShardImage {
    merge(base, delta.image.clone(), std::path::Path::new("delta")).unwrap()
}

const MANY: &[u64] = &[1, 2, 3, 4, 5, 6, 7, 8];

#[test]
fn a_delta_has_only_what_changed_and_makes_the_full_copy_to_the_bit() {
    let mut shard = new();
    push(&mut shard, 0, MANY);
    let first = save(&mut shard, order(1, None));
    push(&mut shard, 1, &[2, 9]);
    let second = save(&mut shard, order(2, Some(1)));
    assert_eq!(second.image.tables[0].keys.len(), 2);
    assert_eq!(second.below.len(), 1);
    let base = merged(first.image, &second);
    assert_eq!(encode_shard(&base), full(&shard));
    push(&mut shard, 2, &[1]);
    let third = save(&mut shard, order(3, Some(2)));
    assert_eq!(third.below.len(), 2);
    assert_eq!(encode_shard(&merged(base, &third)), full(&shard));
}

#[test]
fn a_checkpoint_that_was_given_up_is_no_base() {
    let mut shard = new();
    push(&mut shard, 0, MANY);
    let first = save(&mut shard, order(1, None));
    push(&mut shard, 1, &[2]);
    save(&mut shard, order(2, Some(1)));
    push(&mut shard, 2, &[3]);
    // 2 was never published: what it has is in this one too.
    let third = save(&mut shard, order(3, Some(1)));
    assert_eq!(third.image.tables[0].keys.len(), 2);
    assert_eq!(encode_shard(&merged(first.image, &third)), full(&shard));
}

#[test]
fn a_copy_that_did_not_reach_the_store_is_no_base() {
    let mut shard = new();
    push(&mut shard, 0, MANY);
    let first = save(&mut shard, order(1, None));
    push(&mut shard, 1, &[2]);
    shard.copy(order(2, Some(1)), Boot(7));
    let again = save(&mut shard, order(2, Some(1)));
    assert_eq!(encode_shard(&merged(first.image, &again)), full(&shard));
    let mut new = new();
    new.copy(order(1, None), Boot(7));
    assert_eq!(new.copy(order(2, Some(1)), Boot(7)).image.base, None);
}

#[test]
fn where_most_rows_changed_the_copy_is_full() {
    let mut shard = new();
    push(&mut shard, 0, MANY);
    save(&mut shard, order(1, None));
    push(&mut shard, 1, &MANY[..5]);
    let second = save(&mut shard, order(2, Some(1)));
    assert_eq!((second.image.base, second.below.len()), (None, 0));
    assert_eq!(save(&mut shard, order(3, Some(9))).image.base, None);
}

proptest! {
    /// Whatever is saved, published and lost in between: a chain makes the full copy.
    #[test]
    fn any_chain_makes_the_full_copy(
        steps in prop::collection::vec((prop::collection::btree_set(0u64..40, 1..8), 0u8..4), 1..20),
    ) {
        chain_makes_the_full_copy(new(), steps)?;
    }

    /// The same where keys are refused and rows go: 160 rows have room, of 4 floats each.
    #[test]
    fn any_chain_makes_the_full_copy_of_rows_that_come_and_go(
        steps in prop::collection::vec((prop::collection::btree_set(0u64..400, 1..60), 0u8..4), 1..30),
        (ttl, bounded, admits) in (prop::option::of(1u64..20), any::<bool>(), any::<bool>()),
    ) {
        let admission = Admission { sightings: 2, sketch_bytes: 64 };
        let eviction = Eviction { ttl, max_bytes: bounded.then_some(160 * 37 + 64) };
        let schema = schema_with(admits.then_some(admission), eviction);
        schema.validate().unwrap();
        chain_makes_the_full_copy(Shard::new(ShardId(0), Lineage(1), &schema), steps)?;
    }
}

fn chain_makes_the_full_copy(
    mut shard: Shard,
    steps: Vec<(BTreeSet<u64>, u8)>,
) -> Result<(), TestCaseError> {
    let (mut seq, mut published, mut held) = (0, None, None);
    for (checkpoint, (keys, fate)) in (1u64..).zip(steps) {
        push(&mut shard, seq, &keys.into_iter().collect::<Vec<_>>());
        seq += 1;
        if fate == 0 {
            shard.copy(order(checkpoint, published), Boot(7));
            continue;
        }
        let copy = save(&mut shard, order(checkpoint, published));
        let whole = match copy.image.base {
            None => copy.image.clone(),
            Some(_) => merged(ShardImage::clone(held.as_ref().unwrap()), &copy),
        };
        prop_assert_eq!(encode_shard(&whole), full(&shard));
        if fate > 1 {
            (published, held) = (Some(checkpoint), Some(whole));
        }
    }
    Ok(())
}
