//! A server whose disk is full takes no pushes and says why, and goes on when there is space.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use windlass_common::split::Draw;
use windlass_tests::counts::{of_libsvm, total};
use windlass_tests::{Cluster, Worker};

/// Bytes of the disk, and how many of them something else takes.
const DISK: usize = 4 << 20;
const BALLAST: usize = 3 << 20;

/// A file system of its own in memory, as long as it lives.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts it, which only root may.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={DISK}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path())
            .output();
        let mounted = mount.is_ok_and(|output| output.status.success());
        mounted.then_some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: whoever still has a file open there is about to be killed.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// 2,000 examples of 20 keys: 2.4 MB of pushes in two epochs, in batches of 64.
fn examples() -> String {
    let mut draw = Draw::new(1, &[]);
    let mut text = String::new();
    for _ in 0..2000 {
        let keys: std::collections::BTreeSet<_> = (0..20).map(|_| draw.below(50_000)).collect();
        text.push('1');
        keys.iter()
            .for_each(|key| text.push_str(&format!(" {key}:1")));
        text.push('\n');
    }
    text
}

#[test]
fn a_job_on_a_full_disk_waits_says_why_and_counts_exactly_once_there_is_space() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("SKIPPED: a test of a full disk needs the right to mount one (root)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![7; BALLAST]).unwrap();
    let cluster = Cluster::with(
        1,
        &format!(
            "data_dir = \"{}\"\n[checkpoint]\nstore = \"{}\"\n",
            disk.path().join("data").display(),
            folder.path().join("checkpoints").display()
        ),
    );
    let text = examples();
    let data = folder.path().join("data.libsvm");
    std::fs::write(&data, &text).unwrap();
    let config = folder.path().join("train.toml");
    let lines = format!(
        "[job]\nname = \"count\"\n\n[data]\nformat = \"libsvm\"\ntrain = [\"{}\"]\n\n[model]\n\
         kind = \"count\"\n\n[train]\nepochs = 2\nbatch_size = 64\noutput = \"{}\"\n",
        data.display(),
        folder.path().join("model").display()
    );
    std::fs::write(&config, lines).unwrap();
    let running = Worker::new(folder.path(), &["train"], &config)
        .args(["--coordinator", cluster.coordinator()])
        .report(folder.path().join("report.json"))
        .start();
    cluster.wait_for("log cannot be written");
    cluster.wait_for("free space on this server's disk");
    std::fs::remove_file(&ballast).unwrap();

    let run = running.end().success();
    let expected = total(&of_libsvm(&text, 2));
    let report = run.report.as_ref().unwrap();
    assert_eq!(report["total"].as_u64().map(u128::from), Some(expected));
}
