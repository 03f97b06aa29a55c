#![allow(
    clippy::cast_possible_truncation,
    reason = "lengths in these tests are small"
)]

use std::borrow::Cow;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::Error;
use crate::format::FormatError;
use crate::id::{Boot, JobId, Lineage, Lsn, PushId, Seq, ShardId, SourceId, TableId};
use crate::key::Key;

const PATH: &str = "log/0000000007.log";

fn record(shard: u16, seq: u64, tables: Vec<(u16, Vec<u64>, Vec<f32>)>) -> Record<'static> {
    let table = |(table, keys, gradients): (u16, Vec<u64>, Vec<f32>)| TableRecord {
        table: TableId(table),
        keys: keys.into_iter().map(Key).collect(),
        gradients: Cow::Owned(gradients),
    };
    Record {
        job: JobId(3),
        shard: ShardId(shard),
        lineage: Lineage(2),
        id: PushId {
            source: SourceId(1 << 40),
            seq: Seq(seq),
        },
        end: tables.is_empty(),
        tables: tables.into_iter().map(table).collect(),
    }
}

fn table() -> impl Strategy<Value = (u16, Vec<u64>, Vec<f32>)> {
    (
        any::<u16>(),
        prop::collection::vec(any::<u64>(), 0..5),
        0usize..4,
    )
        .prop_map(|(table, keys, dim)| {
            let floats = (0..keys.len() * dim).map(|i| i as f32 - 1.5).collect();
            (table, keys, floats)
        })
}

fn records() -> impl Strategy<Value = Vec<Record<'static>>> {
    let one = (
        any::<u16>(),
        any::<u64>(),
        prop::collection::vec(table(), 0..4),
    )
        .prop_map(|(shard, seq, tables)| record(shard, seq, tables));
    prop::collection::vec(one, 1..6)
}

/// The bytes of a record by the table in `record.rs`, one field after the other.
fn plain(record: &Record<'_>) -> Vec<u8> {
    let mut rest = Vec::new();
    rest.extend(1u16.to_le_bytes());
    rest.extend(u16::from(record.end).to_le_bytes());
    rest.extend(record.shard.0.to_le_bytes());
    rest.extend(record.job.0.to_le_bytes());
    rest.extend(record.lineage.0.to_le_bytes());
    rest.extend(record.id.source.0.to_le_bytes());
    rest.extend(record.id.seq.0.to_le_bytes());
    rest.extend((record.tables.len() as u32).to_le_bytes());
    for table in &record.tables {
        rest.extend(table.table.0.to_le_bytes());
        rest.extend((table.keys.len() as u32).to_le_bytes());
        rest.extend((table.gradients.len() as u32).to_le_bytes());
        table
            .keys
            .iter()
            .for_each(|k| rest.extend(k.0.to_le_bytes()));
        table
            .gradients
            .iter()
            .for_each(|g| rest.extend(g.to_le_bytes()));
    }
    let mut bytes = (rest.len() as u32).to_le_bytes().to_vec();
    bytes.extend(rest);
    bytes
}

fn header() -> SegmentHeader {
    SegmentHeader {
        segment: SegmentNumber(7),
        boot: Boot(11),
        first: Lsn(100),
        previous: Some(Sealed {
            segment: SegmentNumber(5),
            bytes: 1234,
        }),
        cut: false,
    }
}

/// A segment with these groups.
fn segment(groups: &[Vec<Record<'static>>]) -> Vec<u8> {
    let mut bytes = header().encode().unwrap();
    let mut next = header().first;
    for records in groups {
        let mut group = GroupBuilder::new(next, vec![9; 100]);
        for record in records {
            let lsn = group.next();
            assert_eq!(group.push(record).unwrap(), lsn);
        }
        next = group.next();
        bytes.extend_from_slice(group.finish());
    }
    bytes
}

/// The records up to the first error, and the error.
type Read = (Vec<(Lsn, Record<'static>)>, Option<Error>);

fn read(bytes: &[u8], until: Option<u64>) -> Read {
    let mut records = Vec::new();
    let mut scan = match Scan::begin(bytes, Path::new(PATH)) {
        Ok(scan) => scan,
        Err(error) => return (records, Some(error)),
    };
    loop {
        match scan.group(until) {
            Ok(Some(group)) => {
                for entry in group.entries() {
                    let decoded = entry.and_then(|e| Ok((e.lsn, e.decode()?)));
                    match decoded {
                        Ok(pair) => records.push(pair),
                        Err(error) => return (records, Some(error.into())),
                    }
                }
            }
            Ok(None) => return (records, None),
            Err(error) => return (records, Some(error)),
        }
    }
}

#[track_caller]
fn place(error: Option<Error>) -> u64 {
    match error {
        Some(Error::Format(FormatError::Damaged { path, offset, .. })) => {
            assert_eq!(path, Path::new(PATH));
            offset
        }
        other => panic!("not found to be damaged: {other:?}"),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_with_its_lsns(
        groups in prop::collection::vec(records(), 0..4)
    ) {
        let bytes = segment(&groups);
        let expected: Vec<_> = (100..).map(Lsn).zip(groups.concat()).collect();
        for until in [None, Some(bytes.len() as u64)] {
            let (records, error) = read(&bytes, until);
            prop_assert!(error.is_none(), "{error:?}");
            prop_assert_eq!(&records, &expected);
        }
    }

    #[test]
    fn a_group_is_its_records_one_after_the_other(records in records()) {
        let mut group = GroupBuilder::new(Lsn(1), Vec::new());
        for record in &records {
            group.push(record).unwrap();
            prop_assert_eq!(record.bytes(), plain(record).len() as u64);
        }
        let payload: Vec<u8> = records.iter().flat_map(plain).collect();
        prop_assert_eq!(&group.finish()[24..], &payload[..]);
    }

    /// Payloads with good checksums that say anything.
    #[test]
    fn hostile_records_are_refused_without_a_panic(
        records in records(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut payload: Vec<u8> = records.iter().flat_map(plain).collect();
        for (at, byte) in &changes {
            let at = at.index(payload.len());
            payload[at] = *byte;
        }
        let mut bytes = header().encode().unwrap();
        let mut head = b"WLGR".to_vec();
        head.extend((payload.len() as u32).to_le_bytes());
        head.extend((records.len() as u32).to_le_bytes());
        head.extend(100u64.to_le_bytes());
        let crc = crc32fast::hash(&[&head[..], &payload].concat());
        head.extend(crc.to_le_bytes());
        bytes.extend([head, payload].concat());
        let (_, error) = read(&bytes, None);
        match error {
            // A changed key or gradient is as good as another.
            None => {}
            Some(Error::Format(
                FormatError::Damaged { offset, .. } | FormatError::UnknownRecord { offset, .. },
            )) => prop_assert!((83..=bytes.len() as u64).contains(&offset), "{offset}"),
            Some(other) => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read(&bytes, None).1.is_some());
        let mut behind = segment(&[]);
        let good = behind.len() as u64;
        behind.extend(&bytes);
        let (records, error) = read(&behind, None);
        prop_assert!(records.is_empty());
        if !bytes.is_empty() {
            prop_assert_eq!(place(error), good);
        }
    }
}

fn two_groups() -> [Vec<Record<'static>>; 2] {
    let row = (1, vec![5, 6], vec![0.5, -0.5, 2.0, 4.0]);
    [
        vec![
            record(1, 0, vec![row.clone(), (2, vec![], vec![])]),
            record(2, 1, vec![]),
        ],
        vec![record(1, 1, vec![row])],
    ]
}

/// Every byte of the segment belongs to the header or to one of the two groups, which begin here.
fn begins(bytes: &[u8]) -> [usize; 3] {
    let first: usize = two_groups()[0].iter().map(|r| r.bytes() as usize).sum();
    let second = 59 + 24 + first;
    assert_eq!(
        bytes.len() as u64,
        second as u64 + 24 + two_groups()[1][0].bytes()
    );
    [0, 59, second]
}

#[test]
fn every_flipped_bit_is_found_in_its_group_and_what_is_before_it_is_read() {
    let whole = segment(&two_groups());
    let begins = begins(&whole);
    for at in 0..whole.len() {
        let part = begins.iter().rposition(|&begin| begin <= at).unwrap();
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            for until in [None, Some(whole.len() as u64)] {
                let (records, error) = read(&bytes, until);
                let offset = place(error);
                assert!(offset as usize >= begins[part], "bit {bit} of byte {at}");
                assert!(offset as usize <= at, "bit {bit} of byte {at}");
                assert_eq!(records.len(), [0, 0, 2][part], "bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn every_cut_of_a_sealed_segment_is_found_and_of_an_open_one_but_at_a_groups_end() {
    let whole = segment(&two_groups());
    let begins = begins(&whole);
    for cut in 0..whole.len() {
        let (records, error) = read(&whole[..cut], Some(whole.len() as u64));
        assert!(place(error) as usize <= cut);
        let (open, error) = read(&whole[..cut], None);
        assert_eq!(open, records);
        assert_eq!(error.is_none(), begins[1..].contains(&cut), "cut at {cut}");
    }
}

#[test]
fn whole_groups_behind_damage_are_found() {
    let whole = segment(&two_groups());
    let [_, first, second] = begins(&whole);
    let mut bytes = whole.clone();
    bytes[first + 30] ^= 1;
    let behind = |bytes: &[u8], from: usize, next| sweep(bytes, from as u64, Lsn(next)).unwrap();
    let all = whole.len() as u64;
    let found = |next: Option<u64>| Sweep {
        bytes: all,
        next: next.map(Lsn),
    };
    assert_eq!(behind(&bytes, first, 100), found(Some(103)));
    // A torn end has nothing behind it.
    bytes[second + 30] ^= 1;
    assert_eq!(behind(&bytes, first, 100), found(None));
    assert_eq!(behind(&bytes, second, 102), found(None));
    // An lsn that so few bytes cannot have come to is not the log's.
    assert_eq!(behind(&whole, first, 50), found(None));
}

#[test]
fn a_length_that_lies_takes_no_memory() {
    let mut group = GroupBuilder::new(Lsn(100), Vec::new());
    group.push(&record(1, 0, vec![])).unwrap();
    let mut bytes = segment(&[]);
    let mut head = group.finish()[..24].to_vec();
    for payload in [256u32 << 20, (256 << 20) + 1, u32::MAX] {
        head[4..8].copy_from_slice(&payload.to_le_bytes());
        let lie = [&bytes[..], &head].concat();
        assert_eq!(place(read(&lie, None).1), 59);
    }
    bytes.truncate(30);
    bytes[10..14].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(place(read(&bytes, None).1), 10);
}

#[test]
fn a_record_of_the_future_is_named_by_its_number() {
    let mut payload = plain(&record(1, 0, vec![]));
    payload[4] = 2;
    let mut head = b"WLGR".to_vec();
    head.extend((payload.len() as u32).to_le_bytes());
    head.extend(1u32.to_le_bytes());
    head.extend(100u64.to_le_bytes());
    head.extend(crc32fast::hash(&[&head[..], &payload].concat()).to_le_bytes());
    let bytes = [segment(&[]), head, payload].concat();
    assert!(matches!(
        read(&bytes, None).1,
        Some(Error::Format(FormatError::UnknownRecord {
            offset: 83,
            kind: 2,
            flags: 1,
            ..
        }))
    ));
}

#[test]
fn a_group_has_16_mib_or_one_record_of_at_most_256() {
    let keys = |bytes: usize| record(1, 0, vec![(0, vec![0; bytes / 8], vec![])]);
    let mut group = GroupBuilder::new(Lsn(1), Vec::new());
    let half = keys(MAX_GROUP_BYTES / 2 - 56);
    assert_eq!(half.bytes(), MAX_GROUP_BYTES as u64 / 2);
    group.push(&half).unwrap();
    assert!(group.has_room(&half));
    assert!(!group.has_room(&keys(MAX_GROUP_BYTES / 2)));
    assert!(GroupBuilder::new(Lsn(1), Vec::new()).has_room(&keys(MAX_GROUP_BYTES)));
    let most = MAX_RECORD_BYTES as u64;
    let before = group.bytes();
    assert!(matches!(
        group.push(&keys(MAX_RECORD_BYTES)),
        Err(FormatError::RecordTooLong { limit, .. }) if limit == most
    ));
    assert_eq!((group.bytes(), group.next()), (before, Lsn(2)));
}

#[test]
fn a_header_is_as_long_as_it_says_and_belongs_to_its_file() {
    let bytes = header().encode().unwrap();
    assert_eq!(bytes.len() as u64, SegmentHeader::BYTES);
    let scan = Scan::begin(&bytes[..], Path::new(PATH)).unwrap();
    assert_eq!(
        (scan.header(), scan.end(), scan.next()),
        (&header(), 59, Lsn(100))
    );
    assert!(Scan::begin(&bytes[..], Path::new("0000000008.log")).is_err());
    for (name, number) in [
        ("a/0000000007.log", Some(7)),
        ("12345678901.log", Some(12_345_678_901)),
        ("0000000000.log", None),
        ("7.log", None),
        ("+000000007.log", None),
        (".0000000007.log.partial", None),
    ] {
        assert_eq!(
            SegmentNumber::of(Path::new(name)),
            number.map(SegmentNumber),
            "{name}"
        );
    }
}
