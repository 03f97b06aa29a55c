use windlass_common::human::Span;
use windlass_common::id::Clock;

use super::*;

const SHARDS: u16 = 2;
const SECOND: Duration = Duration::from_secs(1);

fn checkpoints(every: Every) -> Checkpoints {
    let saving = Saving {
        every,
        full_every: 3,
    };
    Checkpoints::new(saving, usize::from(SHARDS), CheckpointId(0))
}

fn every_ten_seconds() -> Checkpoints {
    checkpoints(Every::Time(Span::from_secs(10)))
}

/// What a server saved of a shard, in files of these checkpoints' folders.
fn saved(order: SaveOrder, shard: u16, below: u64, folders: &[&str]) -> Saved {
    let file = |folder: &&str| ManifestFile {
        folder: (*folder).into(),
        name: format!("{shard}"),
        bytes: 1,
        sha256: [0; 32],
        rows: 1,
    };
    Saved {
        checkpoint: order.checkpoint,
        shard: ShardId(shard),
        lineage: Lineage(1),
        clock: Clock(1),
        complete: IntervalSet::below(below),
        open: 0,
        chain: folders.iter().map(file).collect(),
    }
}

/// Saves all shards of the checkpoint that is under way, full, and publishes it.
fn publish(checkpoints: &mut Checkpoints, below: u64) -> Option<Cause> {
    publish_on(checkpoints, below, &[""])
}

fn publish_on(checkpoints: &mut Checkpoints, below: u64, folders: &[&str]) -> Option<Cause> {
    let order = checkpoints.order().unwrap();
    let of = |shard| saved(order, shard, below, folders);
    checkpoints.hear((0..SHARDS).map(of).collect(), Lineage(1));
    let ready = checkpoints.take_ready(below)?;
    checkpoints.published_now(&ready, 0)
}

#[test]
fn one_is_due_after_a_time_or_after_examples() {
    let mut timed = every_ten_seconds();
    timed.pass_time(SECOND);
    timed.pass_time(10 * SECOND);
    assert_eq!(timed.order(), None);
    timed.pass_time(11 * SECOND);
    assert_eq!(timed.order().unwrap().checkpoint, CheckpointId(1));

    let mut counted = checkpoints(Every::Examples(100));
    counted.learnt(99);
    counted.pass_time(SECOND);
    assert_eq!(counted.order(), None);
    counted.learnt(1);
    counted.pass_time(SECOND);
    assert!(counted.order().unwrap().gentle);
}

#[test]
fn c6_it_is_ready_when_every_shard_has_a_file_and_holds_what_all_files_hold() {
    let mut checkpoints = every_ten_seconds();
    checkpoints.require(Cause::End);
    let order = checkpoints.order().unwrap();
    let stale = SaveOrder {
        checkpoint: CheckpointId(9),
        ..order
    };
    checkpoints.hear(
        vec![saved(order, 0, 5, &[""]), saved(stale, 1, 5, &[""])],
        Lineage(1),
    );
    let other_life = vec![saved(order, 1, 5, &[""])];
    checkpoints.hear(other_life, Lineage(2));
    assert_eq!(checkpoints.under_way(), Some((CheckpointId(1), 1)));
    assert_eq!(checkpoints.take_ready(5), None);
    checkpoints.hear(vec![saved(order, 1, 3, &[""])], Lineage(1));
    let ready = checkpoints.take_ready(5).unwrap();
    assert_eq!(ready.complete, IntervalSet::below(3));
    // Once; again only if it could not be written.
    assert_eq!(checkpoints.take_ready(5), None);
    checkpoints.not_published(ready.checkpoint);
    assert_eq!(checkpoints.take_ready(5), Some(ready));
}

#[test]
fn c5_the_best_is_given_up_if_a_shard_is_not_exactly_at_the_border() {
    let mut checkpoints = every_ten_seconds();
    checkpoints.require(Cause::Best);
    let order = checkpoints.order().unwrap();
    checkpoints.hear(
        vec![saved(order, 0, 5, &[""]), saved(order, 1, 4, &[""])],
        Lineage(1),
    );
    assert_eq!(checkpoints.take_ready(5), None);
    assert_eq!((checkpoints.order(), checkpoints.best()), (None, None));
    checkpoints.require(Cause::Best);
    assert_eq!(publish(&mut checkpoints, 5), Some(Cause::Best));
    assert_eq!(checkpoints.best(), Some(CheckpointId(2)));
}

#[test]
fn c7_a_source_is_closed_when_both_of_the_last_two_hold_it() {
    let mut checkpoints = every_ten_seconds();
    for (below, closed) in [(4, 0), (6, 4), (9, 6)] {
        checkpoints.require(Cause::End);
        publish(&mut checkpoints, below);
        assert_eq!(checkpoints.held_by_both(), IntervalSet::below(closed));
    }
    checkpoints.begin_lineage(None);
    assert!(checkpoints.held_by_both().is_empty());
}

#[test]
fn c9_a_delta_that_shares_its_base_does_not_count_as_the_second() {
    let mut checkpoints = every_ten_seconds();
    checkpoints.ask();
    checkpoints.pass_time(SECOND);
    publish(&mut checkpoints, 4);
    checkpoints.ask();
    checkpoints.pass_time(SECOND);
    let base = checkpoints.order().unwrap().base;
    assert_eq!(base, Some(CheckpointId(1)));
    publish_on(&mut checkpoints, 6, &["checkpoint-000001", ""]);
    assert!(checkpoints.held_by_both().is_empty());
    assert_eq!(checkpoints.older(), None);
    // The end is full, and with it the delta is the other one.
    checkpoints.require(Cause::End);
    assert_eq!(checkpoints.order().unwrap().base, None);
    publish(&mut checkpoints, 8);
    assert_eq!(checkpoints.held_by_both(), IntervalSet::below(6));
    assert_eq!(checkpoints.older().unwrap().checkpoint, CheckpointId(2));
}

#[test]
fn a_chain_is_as_long_as_the_config_says() {
    let mut checkpoints = every_ten_seconds();
    let mut bases = Vec::new();
    for number in 1..=7u64 {
        checkpoints.ask();
        checkpoints.pass_time(SECOND);
        let order = checkpoints.order().unwrap();
        bases.push(order.base.map(|base| base.0));
        let root = format!("checkpoint-{:06}", (number - 1) / 3 * 3 + 1);
        match order.base {
            Some(_) => publish_on(&mut checkpoints, 1, &[&root, ""]),
            None => publish(&mut checkpoints, 1),
        };
    }
    assert_eq!(
        bases,
        [None, Some(1), Some(2), None, Some(4), Some(5), None]
    );
}

#[test]
fn what_is_required_now_replaces_what_was_only_due() {
    let mut checkpoints = every_ten_seconds();
    checkpoints.ask();
    checkpoints.pass_time(SECOND);
    checkpoints.require(Cause::Best);
    checkpoints.require(Cause::Best);
    let order = checkpoints.order().unwrap();
    assert_eq!((order.checkpoint, order.gentle), (CheckpointId(2), false));
    checkpoints.rise_above(CheckpointId(40));
    checkpoints.require(Cause::End);
    assert_eq!(checkpoints.last(), CheckpointId(41));
}

/// Two held all, and one of them is damaged: what is left closes nothing, and none builds on it.
#[test]
fn c7_a_checkpoint_that_is_lost_closes_nothing() {
    let mut checkpoints = every_ten_seconds();
    for below in [4, 4] {
        checkpoints.require(Cause::End);
        publish(&mut checkpoints, below);
    }
    assert_eq!(checkpoints.held_by_both(), IntervalSet::below(4));
    checkpoints.forget(&BTreeSet::from([CheckpointId(2)]));
    assert!(checkpoints.held_by_both().is_empty());
    // C8: that it was closed is still known.
    assert!(checkpoints.was_closed(SourceId(3)));
    assert_eq!(checkpoints.newest().unwrap().checkpoint, CheckpointId(1));
    checkpoints.require(Cause::End);
    publish(&mut checkpoints, 4);
    assert_eq!(checkpoints.held_by_both(), IntervalSet::below(4));
}
