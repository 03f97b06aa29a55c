//! What a server reports as saved, and what is on the disk then (rule S6).

use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_common::format::{ManifestFile, decode_shard};

use crate::disk::MemDisk;
use crate::life::{Life, SHARDS, assignment};

/// The path of a chain's last file in the store.
fn path(chain: &[ManifestFile]) -> PathBuf {
    let file = chain.last().unwrap();
    Path::new("store/clicks")
        .join(&file.folder)
        .join(&file.name)
}

/// What the server says that it has saved.
fn reported(life: &Life) -> usize {
    let mut jobs = life.store.report();
    life.saver.report(&mut jobs);
    jobs[0].saved.len()
}

#[tokio::test(start_paused = true)]
async fn s6_a_shard_is_reported_as_saved_when_its_file_is_on_the_disk() {
    let disk = MemDisk::default();
    let life = Life::begin(&disk, 1, false);
    life.push(0).await.unwrap();
    disk.state().failing_sync = true;
    life.saver.order(&[assignment(Some(1))]);
    while life.saver.trouble().is_none() {
        tokio::task::yield_now().await;
    }
    // Shards are saved together here; one of them met the sync that failed.
    let before_retry = reported(&life);
    assert!(before_retry < SHARDS.len());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let chains = life.saved(1).await;
    for (shard, chain) in SHARDS.into_iter().zip(&chains) {
        let bytes = disk.files("store").remove(&path(chain)).unwrap();
        let image = decode_shard(&bytes, &path(chain)).unwrap();
        // A6: rows and windows of one moment.
        assert_eq!((image.shard, image.clock.0), (shard, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn s6_a_shard_that_is_saved_again_is_another_file_with_its_own_mark() {
    let disk = MemDisk::default();
    let life = Life::begin(&disk, 1, true);
    life.push(0).await.unwrap();
    let first = life.saved(1).await;
    life.push(1).await.unwrap();
    // The order is taken back and given again, as by a coordinator that has forgotten it.
    life.saver.order(&[assignment(None)]);
    let second = life.saved(1).await;
    let files = disk.files("store");
    for (first, second) in first.iter().zip(&second) {
        assert_ne!(path(first), path(second));
        let mark = |path: PathBuf| {
            let image = decode_shard(&files[&path], &path).unwrap();
            (image.clock.0, image.mark)
        };
        let (first, second) = (mark(path(first)), mark(path(second)));
        assert_eq!((first.0, second.0), (1, 2));
        assert!(first.1.lsn < second.1.lsn, "{first:?} {second:?}");
        assert_eq!(first.1.boot, second.1.boot);
    }
}
