use proptest::prelude::*;

use super::*;
use crate::format::samples::{delta, image, images, sorted};
use crate::format::shard_header::Column;

fn decode(bytes: &[u8]) -> Result<ShardImage, FormatError> {
    decode_shard(bytes, Path::new("ckpt/0007.shard"))
}

fn header(tables: Vec<TableHeader>) -> Header {
    Header {
        shard: 0,
        lineage: 0,
        mark: MarkRecord::default(),
        clock: 0,
        base: 0,
        base_mark: MarkRecord::default(),
        base_clock: 0,
        body_bytes: 0,
        open: 0,
        ranges: 0,
        tables,
    }
}

/// Where the error says that the damage is; the name must be there too.
#[track_caller]
fn place<T: std::fmt::Debug>(result: Result<T, FormatError>) -> usize {
    match result {
        Err(FormatError::Damaged { path, offset, .. }) => {
            assert_eq!(path, Path::new("ckpt/0007.shard"));
            usize::try_from(offset).unwrap()
        }
        other => panic!("not found to be damaged: {other:?}"),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_sorted(image in images()) {
        let bytes = encode_shard(&image);
        prop_assert_eq!(decode(&bytes).unwrap(), sorted(&image));
        let summary = inspect_shard(&bytes, Path::new("x")).unwrap();
        prop_assert_eq!(summary.shard, image.shard);
        prop_assert_eq!(summary.lineage, image.lineage);
        prop_assert_eq!(summary.mark, image.mark);
        prop_assert_eq!(summary.base, image.base);
        prop_assert_eq!(summary.clock, image.clock);
        let rows: usize = image.tables.iter().map(|t| t.keys.len()).sum();
        prop_assert_eq!(summary.rows, rows as u64);
    }

    #[test]
    fn equal_content_gives_equal_bytes(image in images()) {
        prop_assert_eq!(encode_shard(&image), encode_shard(&sorted(&image)));
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(&bytes).is_err());
    }

    /// Headers with good checksums that say anything, in front of anything.
    #[test]
    fn hostile_headers_are_refused_without_a_panic(
        numbers in prop::array::uniform8(prop_oneof![0u64..4, any::<u64>()]),
        (dim, slots) in (any::<u32>(), 0u32..4),
        honest in any::<bool>(),
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let [open, ranges, rows, body_bytes, ..] = numbers;
        let [.., deleted, base, sketch, _] = numbers;
        let mut table = TableHeader {
            dim, slots, rows, deleted, sketch, ..TableHeader::of(&TableImage::default(), false)
        };
        table.columns = table.expected(base > 0, rows > 0 && honest);
        let tables = vec![table];
        let mut header = Header {
            base, body_bytes, open, ranges, ..header(tables)
        };
        if honest {
            header.body_bytes = header.sections_bytes().unwrap_or(body_bytes);
        }
        let mut bytes = FORMAT.encode(&header).unwrap();
        bytes.extend_from_slice(&body);
        prop_assert!(decode(&bytes).is_err());
        prop_assert!(inspect_shard(&bytes, Path::new("x")).is_err());
    }

    #[test]
    fn many_changed_bytes_are_found(
        image in images(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let whole = encode_shard(&image);
        let mut bytes = whole.clone();
        for (at, byte) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        prop_assume!(bytes != whole);
        prop_assert!(decode(&bytes).is_err());
    }
}

#[test]
fn every_flipped_bit_is_found_at_or_before_its_place() {
    for whole in [encode_shard(&image()), encode_shard(&delta())] {
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                assert!(place(decode(&bytes)) <= at, "bit {bit} of byte {at}");
                assert!(place(inspect_shard(&bytes, Path::new("ckpt/0007.shard"))) <= at);
            }
        }
    }
}

#[test]
fn every_cut_is_found_at_or_before_its_place() {
    for whole in [encode_shard(&image()), encode_shard(&delta())] {
        for cut in 0..whole.len() {
            assert!(place(decode(&whole[..cut])) <= cut, "cut at {cut}");
        }
    }
}

#[test]
fn bytes_after_the_end_are_found_there() {
    let mut bytes = encode_shard(&image());
    let end = bytes.len();
    bytes.push(0);
    assert_eq!(place(decode(&bytes)), end);
}

#[test]
fn damage_in_a_section_is_told_at_its_start() {
    let image = ShardImage {
        tables: vec![image().tables.swap_remove(0)],
        ..ShardImage::default()
    };
    let mut bytes = encode_shard(&image);
    let TableImage {
        slots, ref keys, ..
    } = image.tables[0];
    let behind = 4 * keys.len() + 4 + image.tables[0].sketch.len() + 4;
    let slots_at = bytes.len() - (4 * slots * keys.len() + 4) - behind;
    bytes[slots_at + 5] ^= 1;
    assert_eq!(place(decode(&bytes)), slots_at);
}

#[test]
fn the_bits_of_a_nan_survive() {
    let bits = 0x7fa0_1234;
    let mut image = image();
    image.tables[0].rows[0] = f32::from_bits(bits);
    let read = decode(&encode_shard(&image)).unwrap();
    assert!(read.tables[0].rows.iter().any(|v| v.to_bits() == bits));
}

#[test]
fn a_column_of_a_later_time_is_refused_by_its_number() {
    let mut table = TableHeader::of(&image().tables[0], false);
    table.columns.push(Column {
        kind: 9,
        row_bytes: 4,
    });
    let error = decode(&FORMAT.encode(&header(vec![table])).unwrap()).unwrap_err();
    assert!(matches!(
        error,
        FormatError::UnknownColumn {
            table: 0,
            kind: 9,
            ..
        }
    ));
    assert!(
        error
            .to_string()
            .starts_with("ckpt/0007.shard: table 0 has a column of kind 9")
    );
}

#[test]
fn keys_that_do_not_ascend_are_refused_at_their_place() {
    let table = TableImage {
        dim: 0,
        slots: 0,
        keys: vec![Key(1), Key(2)],
        ..TableImage::default()
    };
    let mut bytes = encode_shard(&ShardImage {
        tables: vec![table],
        ..ShardImage::default()
    });
    // From the end: three checksums, of which two are of empty columns, and two keys.
    let keys_at = bytes.len() - 12 - 16;
    bytes.copy_within(keys_at..keys_at + 8, keys_at + 8);
    let crc = crc32fast::hash(&bytes[keys_at..keys_at + 16]);
    bytes[keys_at + 16..keys_at + 20].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(place(decode(&bytes)), keys_at + 8);
}

/// Only a delta can say that keys are gone.
#[test]
fn deleted_keys_without_a_base_are_refused() {
    for column in [false, true] {
        let mut table = TableHeader::of(&TableImage::default(), column);
        table.deleted = 1;
        let bytes = FORMAT.encode(&header(vec![table])).unwrap();
        assert_eq!(place(decode(&bytes)), 0);
    }
}

#[test]
fn a_key_that_is_deleted_and_has_a_row_is_refused_at_its_place() {
    let mut delta = delta();
    delta.tables.truncate(1);
    delta.tables[0].deleted = vec![Key(5), Key(20)];
    let bytes = encode_shard(&delta);
    // From the end: the sketch, two last uses, and two keys, of which the second is the one.
    let behind = (4 + 4) + (2 * 4 + 4) + 4;
    assert_eq!(place(decode(&bytes)), bytes.len() - behind - 8);
}

#[test]
fn a_base_without_a_checkpoint_is_refused() {
    let half = Header {
        base_clock: 1,
        ..header(Vec::new())
    };
    assert_eq!(place(decode(&FORMAT.encode(&half).unwrap())), 0);
}
