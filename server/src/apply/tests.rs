use std::sync::Arc;

use windlass_common::id::{Lineage, PushId, Seq, ShardId, TableId};
use windlass_common::init::Init;
use windlass_common::key::Key;
use windlass_common::optimizer::{OptimizerSpec, Sgd};
use windlass_common::residency::Admission;
use windlass_common::shard::{ShardCount, ShardedKeys};
use windlass_common::windows::WIDTH;

use super::*;

/// One shard and a counter: sgd with learning rate 1 adds up -g exactly.
fn schema() -> JobSchema {
    JobSchema {
        shards: ShardCount::new(1).unwrap(),
        seed: 1,
        tables: vec![TableSchema::new(
            "count",
            1,
            Init::Zeros,
            OptimizerSpec::Sgd(Sgd {
                learning_rate: 1.0,
                l2: 0.0,
            }),
        )],
    }
}

fn shard() -> Shard {
    Shard::new(ShardId(0), Lineage(1), &schema())
}

/// Adds 1 to key 5.
fn push(seq: u64) -> Push {
    let (keys, _) = ShardedKeys::group(&[Key(5)], schema().shards);
    Push {
        job: Default::default(),
        lineage: Lineage(1),
        id: PushId {
            source: SourceId(3),
            seq: Seq(seq),
        },
        end: false,
        cover: vec![ShardId(0)],
        sets: vec![Arc::new(keys)],
        tables: vec![TableGradients {
            table: TableId(0),
            set: 0,
            gradients: vec![-1.0],
        }],
    }
}

fn end(seq: u64) -> Push {
    Push {
        end: true,
        sets: Vec::new(),
        tables: Vec::new(),
        ..push(seq)
    }
}

fn attempt(shard: &mut Shard, push: &Push) -> Result<Answer, Error> {
    let part = Record::of(push, shard.id);
    apply(shard, &part, None)
}

fn count(shard: &Shard) -> f32 {
    let mut out = [f32::NAN];
    shard.tables[0].read(&[Key(5)], &mut out);
    out[0]
}

fn applied(before: u64) -> Answer {
    Answer::Applied {
        before: Clock(before),
    }
}

/// What the shard answers, when it does not refuse.
fn offer(shard: &mut Shard, push: &Push) -> Answer {
    check(push, &schema()).unwrap();
    attempt(shard, push).unwrap()
}

#[track_caller]
fn assert_unchanged(shard: &Shard, before: &Shard) {
    assert_eq!(shard.image(), before.image());
}

#[test]
fn a1_a_push_that_comes_twice_counts_once() {
    let mut shard = shard();
    assert_eq!(offer(&mut shard, &push(0)), applied(0));
    let before = shard.clone();
    assert_eq!(offer(&mut shard, &push(0)), Answer::Duplicate);
    assert_unchanged(&shard, &before);
    assert_eq!(count(&shard), 1.0);
}

#[test]
fn a1_a_complete_source_takes_nothing_more() {
    let mut shard = shard();
    offer(&mut shard, &push(0));
    offer(&mut shard, &end(1));
    for late in [push(0), end(1), push(900)] {
        assert_eq!(offer(&mut shard, &late), Answer::Duplicate);
    }
    assert_eq!(count(&shard), 1.0);
}

#[test]
fn a2_a_gap_changes_nothing() {
    let mut shard = shard();
    offer(&mut shard, &push(0));
    let before = shard.clone();
    let gap = Answer::Gap { next: Seq(1) };
    assert_eq!(offer(&mut shard, &push(1 + WIDTH)), gap);
    assert_unchanged(&shard, &before);
}

#[test]
fn a3_rows_mark_and_clock_change_together() {
    let mut shard = shard();
    assert_eq!(offer(&mut shard, &push(1)), applied(0));
    assert_eq!(offer(&mut shard, &push(0)), applied(1));
    assert_eq!(shard.clock, Clock(2));
    assert_eq!(shard.windows.open()[&SourceId(3)].next, Seq(2));
    assert_eq!(count(&shard), 2.0);
}

#[test]
fn a3_a_push_without_keys_of_the_shard_counts_as_a_push() {
    let mut shard = shard();
    let empty = Push {
        sets: Vec::new(),
        tables: Vec::new(),
        ..push(0)
    };
    assert_eq!(offer(&mut shard, &empty), applied(0));
    assert_eq!(shard.clock, Clock(1));
    assert_eq!(offer(&mut shard, &push(0)), Answer::Duplicate);
}

/// The key that the push has is refused once; the batch counts all the same, and its name is taken.
#[test]
fn a3_a_push_to_a_key_that_is_not_admitted_counts() {
    let mut schema = schema();
    schema.tables[0].admission = Some(Admission {
        sightings: 3,
        sketch_bytes: 64,
    });
    let mut shard = Shard::new(ShardId(0), Lineage(1), &schema);
    assert_eq!(offer(&mut shard, &push(0)), applied(0));
    // A1: nor does a name that comes twice count as a sighting.
    assert_eq!(offer(&mut shard, &push(0)), Answer::Duplicate);
    assert_eq!(offer(&mut shard, &push(1)), applied(1));
    assert_eq!((shard.rows(), count(&shard)), (0, 0.0));
    assert_eq!(offer(&mut shard, &push(2)), applied(2));
    assert_eq!((shard.rows(), count(&shard)), (1, 1.0));
    assert_eq!(shard.clock, Clock(3));
}

#[test]
fn n3_an_end_marks_and_is_no_step() {
    let mut shard = shard();
    offer(&mut shard, &push(0));
    assert_eq!(offer(&mut shard, &end(1)), applied(1));
    assert_eq!(shard.clock, Clock(1));
    assert!(shard.windows.complete().contains(3));
}

#[test]
fn n3_a_push_beyond_the_end_is_refused() {
    let mut shard = shard();
    offer(&mut shard, &end(1));
    let before = shard.clone();
    assert!(matches!(
        attempt(&mut shard, &push(2)),
        Err(Error::BeyondEnd { end: Seq(1), .. })
    ));
    assert_unchanged(&shard, &before);
}

#[test]
fn n4_a_push_of_another_lineage_is_refused_even_when_it_was_applied() {
    let mut shard = shard();
    offer(&mut shard, &push(0));
    let before = shard.clone();
    for (seq, lineage) in [(0, 0), (0, 2), (1, 0), (1, 2)] {
        let other = Push {
            lineage: Lineage(lineage),
            ..push(seq)
        };
        assert!(matches!(
            attempt(&mut shard, &other),
            Err(Error::StaleLineage {
                held: Lineage(1),
                ..
            })
        ));
    }
    assert_unchanged(&shard, &before);
}

#[test]
fn n4_a_restore_begins_a_lineage_and_never_undoes_one() {
    let mut shard = shard();
    offer(&mut shard, &push(0));
    let image = shard.image();
    let restored = |lineage| Shard::from_image(&image, Lineage(lineage), &schema()).unwrap();
    offer(&mut shard, &push(1));
    let late = |shard: &mut Shard, lineage| {
        let before = shard.clone();
        let refused = shard.restore(restored(lineage));
        assert!(matches!(refused, Err(Error::RestoreTooLate { .. })));
        assert_unchanged(shard, &before);
    };
    late(&mut shard, 0);
    late(&mut shard, 1);
    shard.restore(restored(2)).unwrap();
    assert_eq!((shard.lineage, count(&shard)), (Lineage(2), 1.0));
    // Again, since the answer to the first was lost.
    shard.restore(restored(2)).unwrap();
    let next = Push {
        lineage: Lineage(2),
        ..push(1)
    };
    assert_eq!(attempt(&mut shard, &next).unwrap(), applied(1));
    late(&mut shard, 2);
    // A server that lost the shard begins the lineage empty, and is restored in it.
    let mut empty = Shard::new(ShardId(0), Lineage(2), &schema());
    empty.restore(restored(2)).unwrap();
    assert_eq!(count(&empty), 1.0);
}

#[test]
fn an_image_goes_in_as_it_came_out() {
    let mut shard = shard();
    offer(&mut shard, &push(0));
    let image = shard.image();
    let again = Shard::from_image(&image, Lineage(1), &schema()).unwrap();
    assert_eq!(again.image(), image);
}

#[test]
fn an_image_with_keys_of_another_shard_is_refused() {
    let mut image = shard().image();
    image.tables[0].keys.push(Key(5));
    image.tables[0].rows.push(0.0);
    let two = JobSchema {
        shards: ShardCount::new(2).unwrap(),
        ..schema()
    };
    image.shard = ShardId(1 - two.shards.shard_of(Key(5)).0);
    let refused = Shard::from_image(&image, Lineage(1), &two);
    assert!(matches!(
        refused,
        Err(Error::ImageForeignKey { key: Key(5), .. })
    ));
    image.tables.clear();
    let refused = Shard::from_image(&image, Lineage(1), &two);
    assert!(matches!(
        refused,
        Err(Error::ImageMismatch {
            image: 0,
            schema: 1,
            ..
        })
    ));
}

#[test]
fn a_push_that_breaks_a_rule_is_refused_with_its_name() {
    let refuse = |change: &dyn Fn(&mut Push), needle: &str| {
        let mut push = push(0);
        change(&mut push);
        let error = check(&push, &schema()).unwrap_err().to_string();
        assert!(error.contains(needle), "{error}");
    };
    refuse(&|p| p.id.source = SourceId(u64::MAX), "below 2^64 - 1");
    refuse(&|p| p.end = true, "an END has no rows");
    refuse(
        &|p| p.cover = vec![ShardId(0), ShardId(0)],
        "ascend strictly",
    );
    refuse(
        &|p| p.cover = vec![ShardId(0), ShardId(1)],
        "shard 1 does not exist: the job has 1",
    );
    refuse(&|p| p.cover.clear(), "among the covered ones");
    refuse(
        &|p| p.tables[0].table = TableId(1),
        "table 1 does not exist: the job has 1",
    );
    refuse(&|p| p.tables[0].set = 1, "set 1 of keys: the request has 1");
    refuse(
        &|p| p.tables[0].gradients.push(0.0),
        "2 gradients for 1 keys of dim 1",
    );
    refuse(
        &|p| p.tables.push(p.tables[0].clone()),
        "a table has one entry",
    );
    for (bad, name) in [
        (f32::NAN, "NaN"),
        (f32::INFINITY, "inf"),
        (f32::NEG_INFINITY, "-inf"),
    ] {
        let message = format!("table `count`: the gradient of key 0000000000000005 is {name}");
        refuse(&|p| p.tables[0].gradients[0] = bad, &message);
    }
}

#[test]
fn a_gradient_that_is_no_count_is_refused_before_anything_changes() {
    let table = TableSchema::new("count", 3, Init::Zeros, OptimizerSpec::Count);
    let schema = JobSchema {
        tables: vec![table],
        ..schema()
    };
    let push_of = |gradient: [f32; 3]| {
        let mut push = push(0);
        push.tables[0].gradients = gradient.to_vec();
        push
    };
    for gradient in [[1.0, 0.0, 0.0], [16_777_216.0, 0.0, 0.0], [0.0, 3.0, 1.0]] {
        assert!(check(&push_of(gradient), &schema).is_ok(), "{gradient:?}");
    }
    for gradient in [[0.5, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 16_777_218.0]] {
        let refused = check(&push_of(gradient), &schema);
        assert!(
            matches!(&refused, Err(Error::NoCount { table, key: Key(5), .. }) if table == "count"),
            "{refused:?}"
        );
    }
}
