//! A delta put onto the copy that it builds on.

use std::path::Path;

use crate::id::Clock;

use super::{Base, FormatError, Mark, ShardImage, TableImage};

/// Puts a delta onto its base: its rows replace or add, its deleted keys go, and windows, clock and
/// mark become its own. Rows come sorted by key; `name` is the delta's file, for errors.
///
/// # Errors
/// [`FormatError::Misfit`] when `base` is not the full copy that the delta names, or is of another
/// shard, lineage or shape.
pub fn merge(base: ShardImage, delta: ShardImage, name: &Path) -> Result<ShardImage, FormatError> {
    check(&base, &delta).map_err(|rule| FormatError::Misfit {
        path: name.into(),
        rule,
    })?;
    let tables = base.tables.iter().zip(&delta.tables);
    Ok(ShardImage {
        base: None,
        tables: tables
            .map(|(base, delta)| merge_table(base, delta))
            .collect(),
        ..delta
    })
}

/// Checks that a file builds on the copy with this mark and clock; an error says why it does not.
pub(super) fn builds_on(mark: Mark, clock: Clock, base: Option<Base>) -> Result<(), String> {
    let Some(base) = base else {
        return Err("is a full file above another in its chain".into());
    };
    if (base.mark, base.clock) == (mark, clock) {
        return Ok(());
    }
    let copy = |mark: Mark, clock| {
        let Mark { boot, lsn } = mark;
        format!("the copy at record {lsn}, clock {clock} of life {boot}")
    };
    Err(format!(
        "builds on {}, the file below it is {}",
        copy(base.mark, base.clock),
        copy(mark, clock)
    ))
}

fn check(base: &ShardImage, delta: &ShardImage) -> Result<(), String> {
    builds_on(base.mark, base.clock, delta.base)?;
    if base.base.is_some() {
        return Err("builds on a delta that is not merged".into());
    }
    if (base.shard, base.lineage) != (delta.shard, delta.lineage) {
        return Err(format!(
            "is of shard {}, lineage {}; the file below it is of shard {}, lineage {}",
            delta.shard, delta.lineage, base.shard, base.lineage
        ));
    }
    let shapes = |image: &ShardImage| -> Vec<_> {
        let shape = |table: &TableImage| (table.dim, table.slots);
        image.tables.iter().map(shape).collect()
    };
    if shapes(base) != shapes(delta) {
        return Err("has other tables than the file below it".into());
    }
    let holds = |t: &TableImage| {
        let rows = t.keys.len();
        rows.checked_mul(t.dim + t.slots) == Some(t.rows.len())
            && (t.used.is_empty() || t.used.len() == rows)
    };
    if !base.tables.iter().chain(&delta.tables).all(holds) {
        return Err("or the file below it has rows that do not fit their keys".into());
    }
    let ages = |t: &TableImage| (!t.keys.is_empty()).then_some(!t.used.is_empty());
    let differ = |(a, b)| ages(a).zip(ages(b)).is_some_and(|(a, b)| a != b);
    if base.tables.iter().zip(&delta.tables).any(differ) {
        return Err("or the file below it lacks the times of its rows' last use".into());
    }
    Ok(())
}

fn merge_table(base: &TableImage, delta: &TableImage) -> TableImage {
    let mut deleted = delta.deleted.clone();
    deleted.sort_unstable();
    let mut merged = TableImage {
        dim: base.dim,
        slots: base.slots,
        sketch: delta.sketch.clone(),
        turnover: delta.turnover,
        ..TableImage::default()
    };
    let mut put = |from: &TableImage, row: usize| {
        let width = from.dim + from.slots;
        merged.keys.push(from.keys[row]);
        merged
            .rows
            .extend_from_slice(&from.rows[row * width..][..width]);
        merged.used.extend(from.used.get(row));
    };
    let mut new = delta.by_key().into_iter().peekable();
    for old in base.by_key() {
        let key = base.keys[old];
        while let Some(row) = new.next_if(|&row| delta.keys[row] < key) {
            put(delta, row);
        }
        let replaced = new.peek().is_some_and(|&row| delta.keys[row] == key);
        if !replaced && deleted.binary_search(&key).is_err() {
            put(base, old);
        }
    }
    new.for_each(|row| put(delta, row));
    merged
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::format::samples::{base, delta, image, mark};
    use crate::format::{decode_shard, encode_shard};
    use crate::id::{CheckpointId, Lineage, ShardId};
    use crate::key::Key;

    const NAME: &str = "ckpt/0007.shard";

    /// The plain twin of a table with one float a row.
    type Plain = BTreeMap<u64, f32>;

    /// What happens to a row between two copies: it is written, or deleted.
    type Events = Vec<(u64, Option<f32>)>;

    fn table(rows: &Plain, deleted: &[u64]) -> TableImage {
        TableImage {
            dim: 1,
            slots: 0,
            // Not in the order of keys: the order of an image means nothing.
            keys: rows.keys().rev().copied().map(Key).collect(),
            rows: rows.values().rev().copied().collect(),
            used: rows.values().rev().map(|row| row.to_bits()).collect(),
            deleted: deleted.iter().rev().copied().map(Key).collect(),
            ..TableImage::default()
        }
    }

    fn full(at: u64, rows: &Plain) -> ShardImage {
        ShardImage {
            mark: mark(at),
            clock: Clock(at),
            tables: vec![table(rows, &[])],
            ..image()
        }
    }

    proptest! {
        /// Any history, cut into any number of deltas, with the files in between.
        #[test]
        fn a_base_and_its_deltas_are_the_full_shard_to_the_byte(
            first in prop::collection::btree_map(0u64..20, -9f32..9.0, 0..12),
            parts in prop::collection::vec(
                prop::collection::vec((0u64..20, prop::option::of(-9f32..9.0)), 0..12), 0..4),
        ) {
            let mut plain: Plain = first;
            let mut merged = full(0, &plain);
            for (at, events) in (1u64..).zip::<Vec<Events>>(parts) {
                let mut changed: BTreeMap<u64, Option<f32>> = BTreeMap::new();
                for (key, value) in events {
                    changed.insert(key, value);
                    match value {
                        Some(value) => plain.insert(key, value),
                        None => plain.remove(&key),
                    };
                }
                let rows = changed.iter().filter_map(|(&k, &v)| Some((k, v?))).collect();
                let deleted: Vec<u64> =
                    changed.iter().filter(|(_, v)| v.is_none()).map(|(&k, _)| k).collect();
                let delta = ShardImage {
                    base: Some(base(at, &merged)),
                    tables: vec![table(&rows, &deleted)],
                    ..full(at, &plain)
                };
                let read = decode_shard(&encode_shard(&delta), Path::new(NAME)).unwrap();
                merged = merge(merged, read, Path::new(NAME)).unwrap();
                prop_assert_eq!(encode_shard(&merged), encode_shard(&full(at, &plain)));
            }
        }
    }

    #[test]
    fn rows_windows_clock_and_mark_become_the_deltas() {
        let merged = merge(image(), delta(), Path::new(NAME)).unwrap();
        let keys: Vec<u64> = merged.tables[0].keys.iter().map(|key| key.0).collect();
        assert_eq!(keys, [20, 25, 30]);
        assert_eq!(
            merged.tables[0].rows,
            [7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 0.0, 1.0, 2.0]
        );
        assert_eq!(merged.tables[0].used, [6, 5, 1]);
        let (table, of_delta) = (&merged.tables[0], &delta().tables[0]);
        assert_eq!(table.sketch, of_delta.sketch);
        assert_eq!(table.turnover, of_delta.turnover);
        assert_eq!(merged.tables[1], image().tables[1]);
        assert_eq!(
            (&merged.windows, merged.clock, merged.mark, merged.base),
            (&delta().windows, delta().clock, delta().mark, None)
        );
    }

    #[test]
    fn what_does_not_build_on_the_base_is_refused() {
        let rule = |base: ShardImage, delta: ShardImage| match merge(base, delta, Path::new(NAME)) {
            Err(FormatError::Misfit { path, rule }) if path == Path::new(NAME) => rule,
            other => panic!("not refused: {other:?}"),
        };
        assert_eq!(
            rule(image(), image()),
            "is a full file above another in its chain"
        );
        let saved_again = ShardImage {
            mark: mark(41),
            ..image()
        };
        assert_eq!(
            rule(saved_again, delta()),
            "builds on the copy at record 40, clock 11 of life 77, the file below it is the copy \
             at record 41, clock 11 of life 77"
        );
        let unmerged = ShardImage {
            base: Some(Base {
                checkpoint: CheckpointId(1),
                ..Base::default()
            }),
            ..image()
        };
        assert!(rule(unmerged, delta()).contains("not merged"));
        for other in [
            ShardImage {
                lineage: Lineage(4),
                ..image()
            },
            ShardImage {
                shard: ShardId(8),
                ..image()
            },
        ] {
            assert!(rule(other, delta()).starts_with("is of shard 7, lineage 3; "));
        }
        let mut wider = image();
        wider.tables[0].dim = 3;
        wider.tables[0].slots = 0;
        assert_eq!(
            rule(wider, delta()),
            "has other tables than the file below it"
        );
        let mut short = image();
        short.tables[0].rows.pop();
        assert!(rule(short, delta()).contains("do not fit their keys"));
        let mut aged = image();
        aged.tables[0].used = vec![1, 2];
        assert!(rule(aged, delta()).contains("do not fit their keys"));
        let mut ageless = image();
        ageless.tables[0].used.clear();
        assert!(rule(ageless, delta()).contains("last use"));
    }
}
