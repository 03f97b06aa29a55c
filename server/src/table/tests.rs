use std::collections::BTreeMap;

use proptest::prelude::*;
use windlass_common::format::TableImage;
use windlass_common::init::Init;
use windlass_common::optimizer::{Adagrad, Adam, Ftrl, Momentum, OptimizerSpec, Sgd};

use super::*;
use crate::error::Error;

const DIM: usize = 3;

fn schema(optimizer: OptimizerSpec) -> TableSchema {
    TableSchema::new("factors", 3, Init::Normal { std: 0.1 }, optimizer)
}

fn table(schema: &TableSchema) -> Table {
    Table::new(schema, 1, ShardCount::default())
}

fn optimizers() -> [OptimizerSpec; 7] {
    [
        OptimizerSpec::Sgd(Sgd::default()),
        OptimizerSpec::Momentum(Momentum::default()),
        OptimizerSpec::Adagrad(Adagrad::default()),
        OptimizerSpec::RowwiseAdagrad(Adagrad::default()),
        OptimizerSpec::Adam(Adam::default()),
        OptimizerSpec::Ftrl(Ftrl::default()),
        OptimizerSpec::Count,
    ]
}

fn gradients(keys: &[Key]) -> Vec<f32> {
    let of = |key: &Key| {
        (0..3u16)
            .map(|i| f32::from(i) - (key.0 % 7) as f32 / 4.0)
            .collect()
    };
    keys.iter().flat_map::<Vec<f32>, _>(of).collect()
}

fn read(table: &Table, keys: &[Key]) -> Vec<u32> {
    let mut out = vec![f32::NAN; keys.len() * DIM];
    table.read(keys, &mut out);
    out.into_iter().map(f32::to_bits).collect()
}

proptest! {
    /// The twin is a map of rows, worked one after the other.
    #[test]
    fn behaves_like_a_map_of_rows(
        pushes in prop::collection::vec(prop::collection::btree_set(0u64..400, 0..200), 1..8),
        kind in 0usize..7,
    ) {
        let schema = schema(optimizers()[kind].clone());
        let (dim, width) = (DIM, DIM + schema.slots());
        let mut table = table(&schema);
        let initializer = Initializer::new(schema.init, 1, &schema.name);
        let optimizer = Optimizer::new(schema.optimizer.clone());
        let mut twin: BTreeMap<Key, Vec<f32>> = BTreeMap::new();
        for (step, push) in (1..).map(Clock).zip(pushes) {
            let keys: Vec<Key> = push.into_iter().map(Key).collect();
            let gradients = gradients(&keys);
            table.apply(&keys, &gradients, step);
            for (&key, gradient) in keys.iter().zip(gradients.chunks(dim)) {
                let row = twin.entry(key).or_insert_with(|| {
                    let mut row = vec![0.0; width];
                    let (weights, slots) = row.split_at_mut(dim);
                    initializer.fill(key, weights);
                    optimizer.born(weights, slots);
                    row
                });
                let (weights, slots) = row.split_at_mut(dim);
                optimizer.at(step).row(weights, slots, gradient);
            }
        }
        prop_assert_eq!(table.len(), twin.len());
        let keys: Vec<Key> = (0..450).map(Key).collect();
        let expected = keys.iter().flat_map(|&key| {
            let mut initial = vec![0.0; dim];
            initializer.fill(key, &mut initial);
            twin.get(&key).map_or(initial, |row| row[..dim].to_vec())
        });
        prop_assert_eq!(read(&table, &keys), expected.map(f32::to_bits).collect::<Vec<_>>());
        let image = table.image();
        for (key, row) in image.keys.iter().zip(image.rows.chunks(width)) {
            prop_assert_eq!(Some(row), twin.get(key).map(Vec::as_slice));
        }
    }
}

#[test]
fn a_read_creates_nothing() {
    let table = table(&schema(optimizers()[2].clone()));
    let before = table.bytes();
    read(&table, &(0..1000).map(Key).collect::<Vec<_>>());
    assert!(table.is_empty());
    assert_eq!(table.bytes(), before);
}

#[test]
fn a_batch_equals_its_rows_one_by_one() {
    let keys: Vec<Key> = (0..200).map(Key).collect();
    for optimizer in optimizers() {
        let schema = schema(optimizer);
        let (mut batch, mut single) = (table(&schema), table(&schema));
        for step in [Clock(1), Clock(2)] {
            let gradients = gradients(&keys);
            batch.apply(&keys, &gradients, step);
            for (key, gradient) in keys.chunks(1).zip(gradients.chunks(DIM)) {
                single.apply(key, gradient, step);
            }
        }
        assert_eq!(read(&batch, &keys), read(&single, &keys));
    }
}

#[test]
fn the_step_after_a_restore_is_the_same_to_the_last_bit() {
    let keys: Vec<Key> = (0..300).map(Key).collect();
    for optimizer in optimizers() {
        let schema = schema(optimizer);
        let mut saved = table(&schema);
        saved.apply(&keys[..250], &gradients(&keys[..250]), Clock(1));
        let image = saved.image();
        let mut restored = Table::from_image(&schema, 1, ShardCount::default(), &image).unwrap();
        assert_eq!(restored.image(), image);
        for table in [&mut saved, &mut restored] {
            table.apply(&keys, &gradients(&keys), Clock(2));
        }
        assert_eq!(restored.image(), saved.image());
    }
}

#[test]
fn a_count_goes_on_exactly_after_a_restore() {
    let schema = TableSchema {
        init: Init::Zeros,
        ..schema(OptimizerSpec::Count)
    };
    let key = [Key(5)];
    let mut saved = table(&schema);
    saved.apply(&key, &[16_777_215.0, 16_777_215.0, 0.0], Clock(1));
    let image = saved.image();
    assert_eq!((image.dim, image.slots), (DIM, 0));
    let mut restored = Table::from_image(&schema, 1, ShardCount::default(), &image).unwrap();
    restored.apply(&key, &[2.0, 0.0, 0.0], Clock(2));
    let expected = [1f32, 0.0, 1.0].map(f32::to_bits);
    assert_eq!(read(&restored, &key), expected);
}

#[test]
fn an_image_of_another_shape_is_refused_with_both_sides() {
    let adagrad = schema(optimizers()[2].clone());
    let sgd = table(&schema(optimizers()[0].clone())).image();
    let refused = Table::from_image(&adagrad, 1, ShardCount::default(), &sgd);
    assert!(
        matches!(&refused, Err(Error::ImageMismatch { what, image: 0, schema: 3 })
            if what == "slots of table `factors`")
    );
}

#[test]
fn an_image_that_contradicts_itself_is_refused() {
    let schema = schema(optimizers()[0].clone());
    let image = |keys: &[u64], floats| TableImage {
        dim: DIM,
        slots: 0,
        keys: keys.iter().copied().map(Key).collect(),
        rows: vec![0.0; floats],
        ..TableImage::default()
    };
    let load = |image| Table::from_image(&schema, 1, ShardCount::default(), &image);
    assert!(load(image(&[1, 2], 6)).is_ok());
    assert!(matches!(
        load(image(&[1, 2], 5)),
        Err(Error::ImageRows {
            keys: 2,
            floats: 5,
            width: 3,
            ..
        })
    ));
    assert!(matches!(
        load(image(&[4, 4], 6)),
        Err(Error::ImageKeyTwice { key: Key(4), .. })
    ));
}

/// A dense tensor of three blocks: keys are block numbers, and plain descent is w - lr g.
#[test]
fn a_dense_tensor_is_a_table_of_blocks() {
    const BLOCK: usize = 4096;
    let schema = TableSchema::new(
        "layer",
        4096,
        Init::Zeros,
        OptimizerSpec::Sgd(Sgd {
            learning_rate: 0.5,
            l2: 0.0,
        }),
    );
    let mut table = Table::new(&schema, 1, ShardCount::new(1).unwrap());
    let blocks = [Key(0), Key(1), Key(2)];
    let gradients: Vec<f32> = (0..3 * BLOCK).map(|i| (i % 1000) as f32).collect();
    table.apply(&blocks, &gradients, Clock(1));
    table.apply(&blocks[1..2], &gradients[BLOCK..2 * BLOCK], Clock(2));
    let mut out = vec![f32::NAN; 3 * BLOCK];
    table.read(&blocks, &mut out);
    for (i, (w, g)) in out.iter().zip(&gradients).enumerate() {
        let pushes = if i / BLOCK == 1 { 2.0 } else { 1.0 };
        assert_eq!(*w, -0.5 * g * pushes, "{i}");
    }
    assert_eq!(table.len(), 3);
}
