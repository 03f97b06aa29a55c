use std::collections::BTreeSet;

use proptest::prelude::*;
use windlass_common::format::{ShardImage, encode_shard};
use windlass_common::init::Init;
use windlass_common::optimizer::{Adagrad, OptimizerSpec};
use windlass_common::residency::{Admission, Eviction, LEAST_ROWS};

use super::*;

const DIM: usize = 2;

/// Rows of [`budget`].
const ROWS: usize = 128;

const _: () = assert!(ROWS as u64 == LEAST_ROWS, "the smallest budget");

fn one_shard() -> ShardCount {
    ShardCount::new(1).unwrap()
}

fn plain() -> TableSchema {
    let adagrad = OptimizerSpec::Adagrad(Adagrad::default());
    TableSchema::new("factors", 2, Init::Normal { std: 0.1 }, adagrad)
}

/// Twice a key before it has a row.
fn admitting() -> TableSchema {
    let admission = Some(Admission {
        sightings: 2,
        sketch_bytes: 1 << 16,
    });
    TableSchema {
        admission,
        ..plain()
    }
}

/// Room for [`ROWS`], of 4 floats: 16 bytes, 20 of the index and a half.
fn budget() -> Eviction {
    Eviction {
        max_bytes: Some((LEAST_ROWS * 73).div_ceil(2)),
        ttl: None,
    }
}

fn evicting(eviction: Eviction) -> TableSchema {
    TableSchema {
        eviction,
        ..plain()
    }
}

fn new(schema: &TableSchema) -> Table {
    schema
        .eviction
        .validate(4, schema.admission, one_shard())
        .unwrap();
    Table::new(schema, 1, one_shard())
}

/// One push of the shard that has only this table.
fn push(table: &mut Table, step: u64, keys: impl IntoIterator<Item = u64>) {
    let keys: Vec<Key> = keys.into_iter().map(Key).collect();
    let gradients = |key: &Key| [key.0 as f32 + 1.0, step as f32];
    let gradients: Vec<f32> = keys.iter().flat_map(gradients).collect();
    table.apply(&keys, &gradients, Clock(step));
    table.pass_time(Clock(step), ShardId(0));
}

fn row(table: &Table, key: u64) -> [u32; DIM] {
    let mut out = [f32::NAN; DIM];
    table.read(&[Key(key)], &mut out);
    out.map(f32::to_bits)
}

fn keys(table: &Table) -> BTreeSet<u64> {
    table.index.iter().map(|entry| entry.key.0).collect()
}

/// Everything that the table is, in an order of its own.
fn bytes(table: &Table) -> Vec<u8> {
    encode_shard(&ShardImage {
        tables: vec![table.image()],
        ..ShardImage::default()
    })
}

#[test]
fn a_key_has_a_row_from_its_last_wanted_sighting_on() {
    let schema = admitting();
    let (mut table, initial) = (new(&schema), row(&new(&schema), 7));
    push(&mut table, 1, [7]);
    assert_eq!((table.len(), row(&table, 7)), (0, initial));
    assert_eq!(table.residency.refused, 1);
    push(&mut table, 2, [7]);
    assert_eq!(table.len(), 1);
    // The push that admits it counts, the one before does not.
    let mut other = new(&plain());
    push(&mut other, 2, [7]);
    assert_eq!(row(&table, 7), row(&other, 7));
    assert_eq!(table.residency.refused, 1);
}

proptest! {
    /// Keys below 100 have rows; the others are new, known or gone, at any place among them.
    #[test]
    fn keys_that_are_refused_leave_their_neighbours_right(
        pushes in prop::collection::vec(prop::collection::btree_set(0u64..10_000, 0..300), 1..8),
    ) {
        let (mut table, mut alone) = (new(&admitting()), new(&plain()));
        push(&mut table, 1, 0..100);
        push(&mut table, 2, 0..100);
        push(&mut alone, 2, 0..100);
        for (step, keys) in (3..).zip(pushes) {
            push(&mut alone, step, keys.iter().copied().filter(|&key| key < 100));
            push(&mut table, step, keys);
        }
        for key in 0..100 {
            prop_assert_eq!(row(&table, key), row(&alone, key));
        }
    }

    /// Keys below 40 are in every push, at any place among others that come, go, and come back: they
    /// are never the oldest of a table that has room for 1,280.
    #[test]
    fn keys_that_go_leave_their_neighbours_right(
        pushes in prop::collection::vec(prop::collection::btree_set(40u64..5000, 0..400), 1..12),
    ) {
        let ten = Eviction { max_bytes: budget().max_bytes.map(|bytes| 10 * bytes), ttl: None };
        let (mut table, mut alone) = (new(&evicting(ten)), new(&plain()));
        for (tick, others) in (1..).zip(pushes) {
            let mut keys: Vec<u64> = others.into_iter().chain(0..40).collect();
            // Among each other.
            keys.sort_unstable_by_key(|&key| Key(key).mix());
            push(&mut table, tick * TICK, keys);
            push(&mut alone, tick * TICK, 0..40);
        }
        for key in 0..40 {
            prop_assert_eq!(row(&table, key), row(&alone, key));
        }
    }
}

#[test]
fn a_key_that_comes_back_begins_anew() {
    let mut table = new(&evicting(budget()));
    push(&mut table, 1, [7]);
    push(&mut table, 2, [7]);
    push(&mut table, 1000, 100..1000);
    assert_eq!(row(&table, 7), row(&new(&plain()), 7));
    push(&mut table, 1001, [7, 8]);
    for key in [7, 8] {
        assert_eq!(row(&table, key), fresh(key, 1001));
    }
}

/// A row that was born in this push.
fn fresh(key: u64, step: u64) -> [u32; DIM] {
    let mut table = new(&plain());
    push(&mut table, step, [key]);
    row(&table, key)
}

#[test]
fn the_longest_unused_rows_make_room() {
    let mut table = new(&evicting(budget()));
    let rows = ROWS as u64 - 10;
    for key in 0..rows {
        push(&mut table, 1 + key * TICK, [key]);
    }
    // Used again, the oldest row is the youngest.
    push(&mut table, 1000 * TICK, [0]);
    push(&mut table, 1001 * TICK, 5000..5020);
    let gone = GROUP as u64;
    let left = (gone + 1..rows).chain([0]).chain(5000..5020);
    assert_eq!(keys(&table), left.collect());
    assert_eq!(table.residency.evicted, gone);
}

#[test]
fn a_budget_that_no_new_key_strains_is_left_alone() {
    let mut table = new(&evicting(budget()));
    push(&mut table, 1, 0..ROWS as u64 - GROUP as u64);
    for step in 2..50 {
        push(&mut table, step, 0..ROWS as u64 - GROUP as u64);
    }
    assert_eq!(table.residency.evicted, 0);
}

/// 300,000 keys of which the last half million bytes' worth stay, at several shapes. The other two
/// percent are rows that went to make room, and the slabs' and lists' own headers.
#[test]
fn a_budget_is_kept_within_two_percent_while_keys_keep_coming() {
    for (dim, max_bytes) in [(1, 1 << 20), (16, 2 << 20), (64, 4 << 20)] {
        let schema = TableSchema {
            dim,
            eviction: Eviction {
                ttl: None,
                max_bytes: Some(max_bytes),
            },
            ..plain()
        };
        let mut table = Table::new(&schema, 1, one_shard());
        table.copy(None);
        let mut full = false;
        for step in 1..600u64 {
            let keys: Vec<Key> = (step * 500..(step + 1) * 500).map(Key).collect();
            let gradients = vec![1.0; keys.len() * table.dim()];
            table.apply(&keys, &gradients, Clock(step));
            let share = table.bytes() as f64 / max_bytes as f64;
            full |= table.residency.evicted > 0;
            assert!(share < 1.02, "dim {dim}: {share}");
            assert!(!full || share > 0.98, "dim {dim}: {share}");
        }
        assert!(full);
    }
}

#[test]
fn a_row_goes_when_its_time_is_over_and_not_before() {
    for ttl in [1, 100, 3000] {
        let eviction = Eviction {
            ttl: Some(ttl),
            max_bytes: None,
        };
        let mut table = new(&evicting(eviction));
        push(&mut table, 1, [7]);
        push(&mut table, 5, [8]);
        let mut last = 0;
        for step in 6.. {
            push(&mut table, step, [9]);
            if keys(&table) == BTreeSet::from([9]) {
                last = step;
                break;
            }
            assert!(step < 10 * ttl + 100, "{:?}", keys(&table));
        }
        assert!(last > 5 + ttl, "ttl {ttl}: {last}");
        assert!(
            last <= 5 + ttl + ttl / SWEEPS + 2 * TICK + 1,
            "ttl {ttl}: {last}"
        );
    }
}

#[test]
fn shards_do_not_all_look_for_old_rows_at_the_same_push() {
    let schema = evicting(Eviction {
        ttl: Some(256 * SWEEPS),
        max_bytes: None,
    });
    let looks = |shard: u16| {
        let mut table = Table::new(&schema, 1, ShardCount::new(256).unwrap());
        table.apply(&[Key(1)], &[1.0; DIM], Clock(1));
        (10_000u64..).find(|&step| {
            table.pass_time(Clock(step), ShardId(shard));
            table.is_empty()
        })
    };
    let pushes: BTreeSet<_> = (0..256).map(looks).collect();
    assert_eq!(pushes.len(), 256);
}

proptest! {
    /// A5: from any copy on, the same pushes lead to the same bytes.
    #[test]
    fn a5_what_is_restored_admits_and_evicts_the_same(
        pushes in prop::collection::vec(prop::collection::btree_set(0u64..1500, 0..200), 2..12),
        copied in any::<prop::sample::Index>(),
        (ttl, bounded, admits) in (prop::option::of(1u64..60), any::<bool>(), any::<bool>()),
    ) {
        let sketch = if admits { 64 } else { 0 };
        let max_bytes = budget().max_bytes.map(|bytes| bytes + sketch);
        let schema = TableSchema {
            admission: admits.then_some(Admission { sightings: 2, sketch_bytes: 64 }),
            eviction: Eviction { ttl, max_bytes: max_bytes.filter(|_| bounded) },
            ..plain()
        };
        let mut table = new(&schema);
        let copied = copied.index(pushes.len());
        let mut restored = None;
        for (i, keys) in pushes.into_iter().enumerate() {
            // Seven pushes a step, so that ticks go by.
            let step = 7 * (i as u64 + 1);
            if i == copied {
                let image = table.image();
                restored = Some(Table::from_image(&schema, 1, one_shard(), &image).unwrap());
            }
            for table in restored.iter_mut().chain([&mut table]) {
                push(table, step, keys.iter().copied());
            }
        }
        prop_assert_eq!(bytes(&restored.unwrap()), bytes(&table));
    }
}

#[test]
fn an_image_without_what_the_schema_needs_is_refused() {
    let mut table = new(&plain());
    push(&mut table, 1, [7]);
    let refused = |schema: TableSchema, image: &TableImage| match Table::from_image(
        &schema,
        1,
        one_shard(),
        image,
    ) {
        Err(Error::ImageMismatch { what, .. }) => what,
        other => panic!("not refused: {other:?}"),
    };
    let what = refused(evicting(budget()), &table.image());
    assert_eq!(what, "times of last use of table `factors`");
    let mut sketched = table.image();
    sketched.sketch = vec![0; 64];
    for schema in [plain(), admitting()] {
        let what = refused(schema, &sketched);
        assert_eq!(what, "bytes of the sketch of table `factors`");
    }
}

#[test]
fn a_list_of_keys_that_went_does_not_grow_for_ever() {
    let mut table = new(&evicting(budget()));
    table.copy(None);
    for step in 1..40 {
        push(&mut table, step, step * 100..(step + 1) * 100);
        let changes = table.changes.as_ref().map_or(0, |changes| changes.gone());
        assert!(changes <= ROWS / LISTED);
    }
    assert!(!table.knows_changes());
    table.copy(None);
    assert!(table.knows_changes());
}
