//! Every byte of every file changed, and every cut of it: found, named, and made good.

use std::path::{Path, PathBuf};

use windlass_common::format::log::SegmentHeader;
use windlass_common::format::{Base, ShardImage, checkpoint_folder, encode_shard};
use windlass_common::id::CheckpointId;

use crate::disk::MemDisk;
use crate::life::{Life, PUSHES, SHARDS, Told, library, publish};

/// A file with one byte changed, or cut.
struct Damage {
    what: String,
    /// Where the first byte is that is not as it was.
    at: usize,
    bytes: Vec<u8>,
}

fn every_damage(path: &Path, bytes: &[u8]) -> Vec<Damage> {
    let flip = |at: usize| {
        let mut changed = bytes.to_vec();
        changed[at] ^= 1 << (at % 8);
        Damage {
            what: format!("{}: byte {at} changed", path.display()),
            at,
            bytes: changed,
        }
    };
    let cut = |at: usize| Damage {
        what: format!("{}: cut to {at} bytes", path.display()),
        at,
        bytes: bytes[..at].to_vec(),
    };
    let places = 0..bytes.len();
    places.clone().map(flip).chain(places.map(cut)).collect()
}

/// A copy on another one, as a file of checkpoint 1, that has every row.
fn delta(on: &ShardImage, image: ShardImage) -> ShardImage {
    let base = Base {
        checkpoint: CheckpointId(1),
        mark: on.mark,
        clock: on.clock,
    };
    ShardImage {
        base: Some(base),
        ..image
    }
}

/// Checkpoint 1 with two pushes, and checkpoint 2 with four, whose files build on those of 1.
async fn two_checkpoints(disk: &MemDisk) {
    let life = Life::begin(disk, 1, false);
    life.push(0).await.unwrap();
    life.push(1).await.unwrap();
    let full = SHARDS.map(|shard| life.image(shard));
    let library = library(disk);
    let put = |number, image: &ShardImage| {
        let put = library.put_shard(CheckpointId(number), &encode_shard(image));
        put.unwrap().0
    };
    let first = full.each_ref().map(|image| put(1, image));
    publish(disk, 1, first.iter().map(|f| vec![f.clone()]).collect());
    life.push(2).await.unwrap();
    life.push(3).await.unwrap();
    let mut chains = Vec::new();
    for (on, mut below) in full.iter().zip(first) {
        below.folder = checkpoint_folder(CheckpointId(1));
        let delta = delta(on, life.image(on.shard));
        chains.push(vec![below, put(2, &delta)]);
    }
    publish(disk, 2, chains);
}

/// All pushes come once more, as from workers that learn again what is lacking.
async fn learn_again(life: &Life, what: &str) {
    for seq in 0..PUSHES {
        life.push(seq).await.unwrap();
    }
    assert_eq!(life.held().await, [PUSHES; 2], "{what}");
}

#[tokio::test(start_paused = true)]
async fn s4_a_damaged_checkpoint_is_named_and_each_shard_falls_back_by_itself() {
    let disk = MemDisk::default();
    two_checkpoints(&disk).await;
    assert_eq!(Life::begin(&disk, 2, false).held().await, [4, 4]);
    let files = disk.files("store");
    assert_eq!(files.len(), 6, "{:?}", files.keys());
    for (path, bytes) in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let newer = path.parent().unwrap().ends_with("checkpoint-000002");
        // A chain is no better than the file that it begins with.
        let left = if newer { 2 } else { 0 };
        let expected = match name {
            "manifest.bin" if newer => [2, 2],
            "manifest.bin" => [4, 4],
            of_first if of_first.starts_with("0000-") => [left, 4],
            _ => [4, left],
        };
        for damage in every_damage(&path, &bytes) {
            let copy = disk.copy();
            copy.put(&path, damage.bytes);
            let (life, told) = Told::during(|| Life::begin(&copy, 2, false));
            assert_eq!(life.held().await, expected, "{}", damage.what);
            let place = path.display().to_string();
            assert!(told.contains(&place), "{}: {told}", damage.what);
            assert!(told.contains("at byte "), "{}: {told}", damage.what);
            learn_again(&life, &damage.what).await;
        }
    }
}

/// Where each push's group ends.
type Ends = Vec<(PathBuf, usize)>;

fn newest_segment(disk: &MemDisk) -> (PathBuf, usize) {
    let (path, bytes) = disk.files("data/log").pop_last().unwrap();
    (path, bytes.len())
}

/// A server that lost its disk: it went on from a checkpoint of two pushes, and logged one more in
/// one life and three in the next.
async fn two_logged_lives(disk: &MemDisk) -> Ends {
    two_checkpoints(disk).await;
    disk.lose("store/clicks/checkpoint-000002");
    let mut ends = Ends::new();
    for (boot, pushes) in [(2, 2..3), (3, 3..PUSHES)] {
        let life = Life::begin(disk, boot, true);
        for seq in pushes {
            life.push(seq).await.unwrap();
            ends.push(newest_segment(disk));
        }
    }
    ends
}

#[tokio::test(start_paused = true)]
async fn s4_a_damaged_log_is_named_and_good_up_to_the_last_whole_group() {
    let disk = MemDisk::default();
    let ends = two_logged_lives(&disk).await;
    assert_eq!(Life::begin(&disk.copy(), 4, true).held().await, [6, 6]);
    let files = disk.files("data/log");
    assert_eq!(files.len(), 2, "{:?}", files.keys());
    for (path, bytes) in files {
        for damage in every_damage(&path, &bytes) {
            let copy = disk.copy();
            let is_cut = damage.bytes.len() < bytes.len();
            copy.put(&path, damage.bytes);
            let (life, told) = Told::during(|| Life::begin(&copy, 4, true));
            let whole =
                |end: &&(PathBuf, usize)| end.0 < path || (end.0 == path && end.1 <= damage.at);
            let expected = 2 + ends.iter().filter(whole).count() as u64;
            assert_eq!(life.held().await, [expected; 2], "{}", damage.what);
            let place = path.display().to_string();
            // A newest segment that ends behind its header or a group is one that a crash may leave:
            // it lacks nothing that was promised, as far as anybody can tell.
            let at_a_border = damage.at as u64 == SegmentHeader::BYTES
                || ends.contains(&(path.clone(), damage.at));
            if !(is_cut && at_a_border && newest_segment(&disk).0 == path) {
                assert!(told.contains(&place), "{}: {told}", damage.what);
                assert!(told.contains("at byte "), "{}: {told}", damage.what);
            }
            learn_again(&life, &damage.what).await;
            drop(life);
            let again = Life::begin(&copy, 5, true);
            assert_eq!(
                again.held().await,
                [PUSHES; 2],
                "restarted: {}",
                damage.what
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s5_damaged_copies_on_the_own_disk_are_named_and_replaced() {
    let disk = MemDisk::default();
    two_logged_lives(&disk).await;
    let files = disk.files("data/shards");
    assert_eq!(files.len(), 3, "{:?}", files.keys());
    for (path, bytes) in files {
        for damage in every_damage(&path, &bytes) {
            let copy = disk.copy();
            copy.put(&path, damage.bytes);
            let (life, told) = Told::during(|| Life::begin(&copy, 4, true));
            // The checkpoint in the store is as good a start for the log.
            assert_eq!(life.held().await, [PUSHES; 2], "{}", damage.what);
            let place = path.display().to_string();
            assert!(told.contains(&place), "{}: {told}", damage.what);
            assert!(told.contains("at byte "), "{}: {told}", damage.what);
        }
    }
}
