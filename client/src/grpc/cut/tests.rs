use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use windlass_common::exchange::Answer;
use windlass_common::id::{JobId, Lineage, PushId, Seq, SourceId};
use windlass_common::key::Key;
use windlass_common::shard::ShardCount;

use super::*;

const DIMS: [usize; 3] = [1, 3, 700];

/// Limits with chunks of 32 KiB.
fn small() -> Limits {
    Limits::with_message(Limits::MIN_MESSAGE)
}

fn dim(table: TableId) -> usize {
    DIMS[usize::from(table.0)]
}

/// A row that tells which key and which weight of which table it is.
fn row(table: TableId, key: Key) -> impl Iterator<Item = f32> {
    (0..dim(table)).map(move |i| (key.0 % 997) as f32 + 1000.0 * i as f32 + f32::from(table.0))
}

fn rows(table: TableId, set: &ShardedKeys) -> Vec<f32> {
    set.keys().iter().flat_map(|&k| row(table, k)).collect()
}

/// Answers as a server does whose shards' clocks are their numbers, and later higher.
fn serve(pull: &Pull, later: u64) -> Pulled {
    let mut shards: Vec<_> = pull.sets.iter().flat_map(|s| s.shards()).collect();
    shards.sort_unstable();
    shards.dedup();
    Pulled {
        clocks: shards
            .into_iter()
            .map(|&s| (s, Clock(u64::from(s.0) + later)))
            .collect(),
        tables: pull
            .tables
            .iter()
            .map(|&(t, set)| rows(t, &pull.sets[set]))
            .collect(),
    }
}

prop_compose! {
    fn set(most: usize)(keys in btree_set(any::<u64>(), 0..=most), bits in 0u32..8) -> Arc<ShardedKeys> {
        let keys: Vec<_> = keys.into_iter().map(Key).collect();
        let (grouped, _) = ShardedKeys::group(&keys, ShardCount::new(1 << bits).unwrap());
        Arc::new(grouped)
    }
}

prop_compose! {
    fn sets_and_tables(most: usize)(
        sets in vec(set(most), 1..4), tables in vec(any::<prop::sample::Index>(), 0..=3),
    ) -> (Vec<Arc<ShardedKeys>>, Vec<(TableId, usize)>) {
        let tables = (0..).map(TableId).zip(tables.iter().map(|i| i.index(sets.len()))).collect();
        (sets, tables)
    }
}

fn name() -> PushId {
    PushId {
        source: SourceId(5),
        seq: Seq(6),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_cut_pull_is_answered_as_a_whole_one((sets, tables) in sets_and_tables(2000)) {
        let whole = Pull { job: JobId(1), sets, tables, exactly_below: Some(SourceId(4)) };
        let (pulls, pieces) = pull(whole.clone(), dim, &small()).unwrap().split();
        for piece in &pulls {
            prop_assert_eq!(piece.exactly_below, whole.exactly_below);
            let message = windlass_proto::v1::Pulled::from(serve(piece, 0));
            let bytes: usize = message.tables.iter().map(bytes::Bytes::len).sum();
            prop_assert!(bytes <= small().chunk());
        }
        let answers = (0..).zip(&pulls).map(|(later, p)| serve(p, later)).collect();
        let joined = pieces.join(answers).unwrap();
        let expected = serve(&whole, 0);
        prop_assert_eq!(joined.tables, expected.tables);
        for ((shard, clock), (other, least)) in joined.clocks.iter().zip(&expected.clocks) {
            prop_assert_eq!(shard, other);
            prop_assert!(least <= clock);
        }
        prop_assert_eq!(joined.clocks.len(), expected.clocks.len());
    }

    /// A thousand keys a set: all three in one shard, with both tables, are at most
    /// 3 * 1000 * 16 + 1000 * 4 * (1 + 3) = 64,000 bytes, which a message of 64 KiB takes.
    #[test]
    fn a_cut_push_is_the_whole_one_in_parts((sets, tables) in sets_and_tables(1000)) {
        let mut cover: Vec<_> = sets.iter().flat_map(|s| s.shards()).copied().collect();
        cover.push(ShardId(4000));
        cover.sort_unstable();
        cover.dedup();
        let tables: Vec<_> = tables
            .into_iter()
            .filter(|(t, _)| dim(*t) < 700)
            .map(|(table, set)| TableGradients { table, set, gradients: rows(table, &sets[set]) })
            .collect();
        let whole = Push {
            job: JobId(1), lineage: Lineage(2), id: name(), end: false,
            cover: cover.clone(), sets, tables,
        };
        let parts = push(whole.clone(), &small()).unwrap();
        let covered: Vec<_> = parts.iter().flat_map(|p| p.cover.clone()).collect();
        prop_assert_eq!(covered, cover);
        for part in &parts {
            prop_assert_eq!((part.job, part.lineage, part.id), (whole.job, whole.lineage, whole.id));
            for table in &part.tables {
                prop_assert_eq!(&table.gradients, &rows(table.table, &part.sets[table.set]));
            }
        }
        for (i, set) in whole.sets.iter().enumerate() {
            let keys: Vec<_> = parts.iter().flat_map(|p| p.sets[i].keys()).copied().collect();
            prop_assert_eq!(&keys[..], set.keys());
        }
    }
}

fn one_shard(keys: u64) -> Arc<ShardedKeys> {
    let keys: Vec<_> = (0..keys).map(Key).collect();
    Arc::new(ShardedKeys::group(&keys, ShardCount::new(1).unwrap()).0)
}

#[test]
fn one_shards_part_beyond_a_message_is_refused_with_advice() {
    let set = one_shard(9000);
    let whole = Push {
        job: JobId(1),
        lineage: Lineage(1),
        id: name(),
        end: false,
        cover: vec![ShardId(0)],
        tables: vec![TableGradients {
            table: TableId(0),
            set: 0,
            gradients: vec![0.0; 9000],
        }],
        sets: vec![set],
    };
    let error = push(whole, &small()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
    assert!(
        error.message.contains("push 5/6: the part of shard 0"),
        "{error}"
    );
    assert!(error.message.contains("smaller batches"), "{error}");
}

#[test]
fn a_row_beyond_a_message_is_refused() {
    let whole = Pull {
        job: JobId(1),
        sets: vec![one_shard(2)],
        tables: vec![(TableId(0), 0)],
        exactly_below: None,
    };
    let error = pull(whole, |_| 65_536, &small()).err().unwrap();
    assert_eq!(error.kind, ErrorKind::TooLarge);
}

#[test]
fn answers_that_do_not_fit_are_refused() {
    let whole = Pull {
        job: JobId(1),
        sets: vec![one_shard(2)],
        tables: vec![(TableId(0), 0)],
        exactly_below: None,
    };
    let good = serve(&whole, 0);
    let join = |answer: Pulled| {
        let (_, pieces) = pull(whole.clone(), dim, &small()).unwrap().split();
        pieces.join(vec![answer])
    };
    assert!(join(good.clone()).is_ok());
    let short = Pulled {
        tables: vec![vec![1.0]],
        ..good.clone()
    };
    assert_eq!(join(short).unwrap_err().kind, ErrorKind::Internal);
    let other = Pulled {
        clocks: vec![(ShardId(1), Clock(0))],
        ..good
    };
    assert_eq!(join(other).unwrap_err().kind, ErrorKind::Internal);

    let answered = |shard| Pushed {
        answers: vec![(ShardId(shard), Answer::Duplicate)],
    };
    let covers = [vec![ShardId(3)], vec![ShardId(7)]];
    assert!(join_pushed(&covers, vec![answered(3), answered(7)]).is_ok());
    assert!(join_pushed(&covers, vec![answered(3)]).is_err());
    assert!(join_pushed(&covers, vec![answered(7), answered(3)]).is_err());
}
