//! Disks that are full, disks that fail, and stores that fail midway.

use std::time::Duration;

use tonic::Code;
use windlass_common::format::FormatError;
use windlass_common::id::CheckpointId;
use windlass_proto::ErrorKind;

use crate::disk::MemDisk;
use crate::life::{Life, PUSHES, library, publish};

/// Longer than whatever is tried again waits.
const LATER: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_pushes_and_answers_pulls_until_space_returns() {
    let disk = MemDisk::default();
    let life = Life::begin(&disk, 1, true);
    life.push(0).await.unwrap();
    // The first finds out when it is in the rows already; the others are not let in.
    disk.state().room = Some(10);
    for seq in 1..4 {
        let refused = life.push(seq).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Busy, "{refused}");
        assert!(refused.message.contains("free space"), "{refused}");
        assert_eq!(tonic::Status::from(refused).code(), Code::ResourceExhausted);
        assert_eq!(life.counts().await, [2.0; 2]);
    }
    let trouble = life.store.health().trouble.unwrap();
    assert!(trouble.contains("data/log/0000000001.log"), "{trouble}");
    tokio::time::sleep(LATER).await;
    assert_eq!(life.push(1).await.unwrap_err().kind, ErrorKind::Busy);

    disk.state().room = None;
    tokio::time::sleep(LATER).await;
    assert_eq!(life.store.health().trouble, None);
    for seq in 0..PUSHES {
        life.push(seq).await.unwrap();
    }
    assert_eq!(life.held().await, [PUSHES; 2]);
    drop(life);
    assert_eq!(Life::begin(&disk, 2, true).held().await, [PUSHES; 2]);
}

#[tokio::test(start_paused = true)]
async fn after_a_sync_that_failed_no_push_is_taken_until_a_restart() {
    let disk = MemDisk::default();
    let life = Life::begin(&disk, 1, true);
    life.push(0).await.unwrap();
    disk.state().failing_sync = true;
    for seq in 1..4 {
        let refused = life.push(seq).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Unavailable, "{refused}");
        for part in [
            "data/log/0000000001.log",
            "input/output",
            "restart this server",
        ] {
            assert!(refused.message.contains(part), "{part}: {refused}");
        }
        assert_eq!(life.counts().await, [2.0; 2]);
        tokio::time::sleep(LATER).await;
    }
    let trouble = life.store.health().trouble.unwrap();
    assert!(trouble.contains("restart this server"), "{trouble}");
    // What is in memory and perhaps not in the log is no lie, and may be saved.
    publish(&disk, 1, life.saved(1).await);
    drop(life);

    let again = Life::begin(&disk, 2, true);
    assert_eq!(again.held().await, [2; 2]);
    for seq in 0..PUSHES {
        again.push(seq).await.unwrap();
    }
    assert_eq!(again.held().await, [PUSHES; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_midway_leaves_the_checkpoint_before_it_whole() {
    let disk = MemDisk::default();
    let life = Life::begin(&disk, 1, false);
    life.push(0).await.unwrap();
    publish(&disk, 1, life.saved(1).await);
    life.push(1).await.unwrap();
    for (number, steps) in (2u64..).zip(0..) {
        disk.state().left = Some(("store".into(), steps));
        let failed = tokio::select! {
            biased;
            _ = life.saved(number) => None,
            trouble = trouble(&life) => Some(trouble),
        };
        let Some(trouble) = failed else {
            assert!(
                steps > 8,
                "two files are written, synced and renamed in {steps} steps"
            );
            break;
        };
        for part in [
            &format!("checkpoint {number} "),
            "store/clicks",
            "it is gone",
        ] {
            assert!(trouble.contains(part), "{part}: {trouble}");
        }
        // Pushes and pulls do not depend on it.
        life.push(0).await.unwrap();
        assert_eq!(life.counts().await, [2.0; 2]);
        let newest = library(&disk).newest().unwrap();
        assert_eq!(
            newest.checkpoint.unwrap().manifest().number,
            CheckpointId(number - 1)
        );
        assert!(newest.damaged.is_empty());
        let unpublished = library(&disk).open(CheckpointId(number)).err().unwrap();
        let expected = FormatError::Unpublished {
            path: format!("store/clicks/checkpoint-{number:06}").into(),
        };
        assert_eq!(unpublished.to_string(), expected.to_string());

        // The same order is carried out when the store is back.
        disk.state().left = None;
        tokio::time::sleep(LATER).await;
        assert_eq!(life.saver.trouble(), None);
        publish(&disk, number, life.saved(number).await);
        let restored = Life::begin(&disk, 1 + number, false);
        assert_eq!(restored.held().await, [2; 2]);
    }
}

async fn trouble(life: &Life) -> String {
    loop {
        if let Some(trouble) = life.saver.trouble() {
            return trouble;
        }
        tokio::task::yield_now().await;
    }
}
