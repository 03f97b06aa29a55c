//! Disks that are full, fail, or were damaged.

use super::super::commit::Progress;
use super::*;

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_pushes_until_there_is_space_and_loses_none() {
    for room in 0..2 * (SegmentHeader::BYTES + GROUP) {
        let disk = MemDisk::default();
        let life = Life::begin(&disk, small());
        life.push(0, 0).await;
        let used: usize = disk.files().values().map(Vec::len).sum();
        let capacity = used + room as usize;
        disk.state().capacity = Some(capacity);
        // Pushes until one is not acknowledged, and what comes before it is refused.
        let mut number = 1;
        let refused = loop {
            life.log.append(&record(0, number)).unwrap();
            match life.log.synced(life.log.appended()).await {
                Ok(()) => number += 1,
                Err(error) => break error,
            }
        };
        let line = refused.to_string();
        assert!(
            line.contains("data/log/000000000") && line.contains("free space"),
            "{line}"
        );
        assert_eq!(WireError::from(refused).kind, ErrorKind::Busy);
        assert!(ErrorKind::Busy.may_be_retried());
        assert!(matches!(life.log.admit().await, Err(Error::LogFull { .. })));
        assert_eq!(life.log.state().trouble, Some(line));
        life.log.synced(Lsn(number)).await.unwrap();
        // One that was admitted before.
        life.log.append(&record(0, number + 1)).unwrap();

        // A crash now finds what was acknowledged, and calls nothing damaged.
        let after = Life::begin(&disk.crash(&mut Rng(room)), small());
        assert!(after.recovered.damage.is_none(), "{:?}", after.recovered);
        assert_eq!(after.replayed().len() as u64, number, "room {room}");
        drop(after);

        // Tries do not eat up the little space that there may be.
        tokio::time::sleep(Duration::from_secs(10)).await;
        let names_when_full = names(&disk).len();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(names(&disk).len(), names_when_full);

        disk.state().capacity = Some(capacity + 1000);
        let mended = |now: &Progress| now.trouble.is_none().then_some(());
        life.log.progress.until(mended).await;
        life.log.admit().await.unwrap();
        life.push(0, number + 2).await;
        let expected: Vec<_> = (0..=number + 2).map(|n| (Lsn(n + 1), n)).collect();
        assert_eq!(life.replayed(), expected, "room {room}");
        let again = Life::begin(&disk.copy(), small());
        assert_eq!(again.replayed(), expected, "room {room}");
        assert!(again.recovered.damage.is_none() && again.recovered.torn.is_none());
    }
}

/// Else each try would leave a piece of the group behind, and fill the space that it waits for.
#[tokio::test(start_paused = true)]
async fn space_that_comes_bit_by_bit_suffices_in_the_end() {
    let disk = MemDisk::default();
    let life = Life::begin(&disk, small());
    life.push(0, 0).await;
    let used: usize = disk.files().values().map(Vec::len).sum();
    let lsn = life.log.append(&record(0, 1)).unwrap();
    for more in 0..=SegmentHeader::BYTES + GROUP {
        disk.state().capacity = Some(used + more as usize);
        tokio::time::sleep(2 * small().retry).await;
    }
    life.log.synced(lsn).await.unwrap();
    assert_eq!(life.replayed(), [(Lsn(1), 0), (lsn, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_fails_ends_the_log_until_a_restart() {
    let disk = MemDisk::default();
    let life = Life::begin(&disk, small());
    life.push(0, 0).await;
    disk.state().failing_sync = true;
    let lsn = life.log.append(&record(0, 1)).unwrap();
    let failed = life.log.synced(lsn).await.unwrap_err();
    let line = failed.to_string();
    assert!(
        line.contains("data/log/0000000001.log: input/output error"),
        "{line}"
    );
    assert!(line.contains("restart this server"), "{line}");
    assert!(WireError::from(failed).kind.may_be_retried());

    let syncs = disk.state().syncs;
    assert!(matches!(
        life.log.admit().await,
        Err(Error::LogFailed { .. })
    ));
    assert!(matches!(
        life.log.append(&record(0, 2)),
        Err(Error::LogFailed { .. })
    ));
    assert!(matches!(
        life.log.synced(Lsn(9)).await,
        Err(Error::LogFailed { .. })
    ));
    life.log.synced(Lsn(1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(disk.state().syncs, syncs, "no sync is tried again");
    assert_eq!(life.log.state().trouble, Some(line));

    let again = Life::begin(&disk.copy(), small());
    assert_eq!(again.replayed(), [(Lsn(1), 0)]);
    again.push(0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_that_nobody_writes_any_more() {
    let life = Life::begin(&MemDisk::default(), small());
    life.push(0, 0).await;
    life.writer.abort();
    let waiting = life.log.synced(Lsn(2)).await;
    assert!(matches!(waiting, Err(Error::WorkDropped)));
    assert!(matches!(
        life.log.append(&record(0, 1)),
        Err(Error::WorkDropped)
    ));
}

fn path(segment: u64) -> PathBuf {
    Path::new(FOLDER).join(SegmentNumber(segment).file_name())
}

/// Segments 1 and 2 with two groups each, of the records 0, 1 | 2 and 3 | 4, 5; the third was just
/// begun when the server died.
fn three_segments() -> [Vec<u8>; 3] {
    let mut segments: [Vec<u8>; 3] = Default::default();
    for number in 1..=3 {
        let previous = (number > 1).then(|| Sealed {
            segment: SegmentNumber(number - 1),
            bytes: segments[number as usize - 2].len() as u64,
        });
        let header = SegmentHeader {
            segment: SegmentNumber(number),
            boot: BOOT,
            first: Lsn(3 * number - 2),
            previous,
            cut: false,
        };
        let mut bytes = header.encode().unwrap();
        for records in [&[0, 1][..], &[2], &[3], &[4, 5]] {
            let mut group = GroupBuilder::new(Lsn(records[0] + 1), Vec::new());
            for &record_number in records {
                group.push(&record(0, record_number)).unwrap();
            }
            if number < 3 && records[0] / 3 == number - 1 {
                bytes.extend_from_slice(group.finish());
            }
        }
        segments[number as usize - 1] = bytes;
    }
    segments
}

/// Where each record's group begins: segment and byte.
const PLACES: [(u64, u64); 6] = [
    (1, 59),
    (1, 59),
    (1, 59 + 24 + 2 * RECORD),
    (2, 59),
    (2, 59 + GROUP),
    (2, 59 + GROUP),
];

/// Opens a log in which a file differs from `at` on, and checks what is told and what is left.
async fn check(disk: &MemDisk, segment: u64, at: u64, what: &str) {
    let life = Life::begin(disk, small());
    let Recovered { damage, torn, .. } = &life.recovered;
    let told = if segment == 3 { torn } else { damage };
    match told {
        Some(FormatError::Damaged {
            path: file, offset, ..
        }) => {
            assert_eq!(*file, path(segment), "{what}");
            assert!(*offset <= at, "{what}: told at {offset}");
        }
        other => panic!("{what}: {other:?}"),
    }
    let left = PLACES.iter().enumerate().filter(|&(i, &(s, begin))| {
        let next = PLACES[i..].iter().find(|p| **p != (s, begin));
        let end = match next {
            Some(&(same, end)) if same == s => end,
            _ => three_segments()[s as usize - 1].len() as u64,
        };
        s < segment || (s == segment && end <= at)
    });
    let mut expected: Vec<_> = left.map(|(i, _)| (Lsn(i as u64 + 1), i as u64)).collect();
    assert_eq!(life.replayed(), expected, "{what}");

    // What comes now is above all that was ever there, and is found again after a restart.
    let lsn = life.push(0, 100).await;
    assert!(lsn >= Lsn(7), "{what}: {lsn}");
    expected.push((lsn, 100));
    assert_eq!(life.replayed(), expected, "{what}");
    drop(life);
    let again = Life::begin(&disk.copy(), small());
    assert_eq!(again.replayed(), expected, "{what}");
    assert!(
        again.recovered.damage.is_none() && again.recovered.torn.is_none(),
        "{what}"
    );
    assert!(again.push(0, 101).await > lsn);
}

#[tokio::test(start_paused = true)]
async fn every_changed_byte_is_found_and_the_log_before_it_is_kept() {
    let whole = three_segments();
    for (i, bytes) in whole.iter().enumerate() {
        for at in 0..bytes.len() {
            let disk = MemDisk::default();
            for (other, bytes) in whole.iter().enumerate() {
                let mut bytes = bytes.clone();
                if other == i {
                    bytes[at] ^= 1 << (at % 8);
                }
                disk.put(path(other as u64 + 1), &bytes);
            }
            let what = format!("byte {at} of segment {}", i + 1);
            check(&disk, i as u64 + 1, at as u64, &what).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_cut_of_a_file_is_found_and_the_log_before_it_is_kept() {
    let whole = three_segments();
    for (i, bytes) in whole.iter().enumerate() {
        for cut in 0..bytes.len() {
            let disk = MemDisk::default();
            for (other, bytes) in whole.iter().enumerate() {
                let length = if other == i { cut } else { bytes.len() };
                disk.put(path(other as u64 + 1), &bytes[..length]);
            }
            let what = format!("segment {} cut at {cut}", i + 1);
            check(&disk, i as u64 + 1, cut as u64, &what).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_segment_between_others_is_damage() {
    let whole = three_segments();
    let disk = MemDisk::default();
    disk.put(path(1), &whole[0]);
    disk.put(path(3), &whole[2]);
    let life = Life::begin(&disk, small());
    match &life.recovered.damage {
        Some(FormatError::MissingSegment { path: file }) => assert_eq!(*file, path(2)),
        other => panic!("{other:?}"),
    }
    assert_eq!(life.replayed().len(), 3);
    assert_eq!(life.push(0, 100).await, Lsn(7));

    // Without older ones it was cut.
    let disk = MemDisk::default();
    disk.put(path(2), &whole[1]);
    disk.put(path(3), &whole[2]);
    let life = Life::begin(&disk, small());
    assert!(life.recovered.damage.is_none());
    assert_eq!(life.replayed(), [(Lsn(4), 3), (Lsn(5), 4), (Lsn(6), 5)]);
}

#[tokio::test(start_paused = true)]
async fn a_torn_end_is_told_and_damage_before_whole_groups_is_not_taken_for_one() {
    let [first, second, _] = three_segments();
    let torn_at = |change: &dyn Fn(&mut Vec<u8>)| {
        let disk = MemDisk::default();
        let mut last = second.clone();
        change(&mut last);
        disk.put(path(1), &first);
        disk.put(path(2), &last);
        let life = Life::begin(&disk, small());
        let Recovered { damage, torn, .. } = &life.recovered;
        (damage.is_some(), torn.is_some(), life.replayed().len())
    };
    assert_eq!(torn_at(&|_| ()), (false, false, 6));
    assert_eq!(
        torn_at(&|last| last.truncate(last.len() - 1)),
        (false, true, 4)
    );
    assert_eq!(
        torn_at(&|last| *last.last_mut().unwrap() ^= 1),
        (false, true, 4)
    );
    assert_eq!(torn_at(&|last| last.extend([0; 50])), (false, true, 6));
    assert_eq!(torn_at(&|last| last[59 + 30] ^= 1), (true, false, 3));
}

#[test]
fn a_log_of_a_newer_windlass_is_refused() {
    let [mut first, _, _] = three_segments();
    first[8] = 2;
    let crc = crc32fast::hash(&[&first[..14], &first[18..59]].concat());
    first[14..18].copy_from_slice(&crc.to_le_bytes());
    let disk = MemDisk::default();
    disk.put(path(1), &first);
    let refused = Log::open(disk.shared(), Path::new(FOLDER), BOOT, small());
    let line = refused.map(|_| ()).unwrap_err().to_string();
    assert!(line.contains("0000000001.log has version 2"), "{line}");
}
