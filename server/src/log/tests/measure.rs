//! How much a real disk takes.

use std::time::Instant;

use windlass_client::runtime::TokioPool;
use windlass_common::runtime::StdDisk;

use super::*;

/// Pushes of 4,096 keys of dim 16 over 256 shards, a few at once, each waiting for the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it measures the disk; run it with --ignored --nocapture, in a release build"]
async fn pushes_a_second() {
    const PUSHES: usize = 400;
    for at_once in [1, 4, 16, 64] {
        let folder = std::env::temp_dir().join(format!("windlass-log-{}", std::process::id()));
        let (log, _) = Log::open(Arc::new(StdDisk), &folder, BOOT, Settings::default()).unwrap();
        let running = Arc::clone(&log);
        let writer = tokio::spawn(async move { running.run(&TokioPool, &TokioClock::new()).await });
        let mut push = record(0, 0);
        push.tables[0].keys = vec![Key(1); 16].into();
        push.tables[0].gradients = vec![0.5; 256].into();
        let bytes = (256 * PUSHES) as f64 * push.bytes() as f64;
        let push = Arc::new(push);
        let began = Instant::now();
        let tasks: Vec<_> = (0..at_once)
            .map(|_| {
                let (log, push) = (Arc::clone(&log), Arc::clone(&push));
                tokio::spawn(async move {
                    for _ in 0..PUSHES / at_once {
                        log.admit().await.unwrap();
                        for _ in 0..256 {
                            log.append(&push).unwrap();
                        }
                        log.synced(log.appended()).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let seconds = began.elapsed().as_secs_f64();
        let groups = log.state().groups;
        eprintln!(
            "{at_once} at once: {:.0} MB/s, {:.0} pushes/s, {:.0} groups/s, {:.2} s",
            bytes / seconds / 1e6,
            PUSHES as f64 / seconds,
            groups as f64 / seconds,
            seconds,
        );
        writer.abort();
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
