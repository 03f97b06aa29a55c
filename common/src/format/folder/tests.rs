use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::format::samples::{image, manifest};
use crate::format::{CheckpointWriter, Manifest, ShardImage, decode_shard, encode_shard};
use crate::id::{Clock, ShardId};
use crate::runtime::{File, StdDisk};

/// A disk that fails after a number of operations, and from then on: a process that dies there.
struct Dying {
    left: AtomicUsize,
}

impl Dying {
    fn step(&self) -> io::Result<()> {
        let step = |left: usize| left.checked_sub(1);
        match self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, step)
        {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("died")),
        }
    }
}

impl Disk for Dying {
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        StdDisk.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.step()?;
        StdDisk.create(path)
    }

    fn change(&self, change: Change<'_>) -> io::Result<()> {
        self.step()?;
        StdDisk.change(change)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        StdDisk.list(folder)
    }
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(StdDisk)
}

fn shard(shard: u16, clock: u64) -> ShardImage {
    ShardImage {
        shard: ShardId(shard),
        clock: Clock(clock),
        ..image()
    }
}

/// Saves a checkpoint of two shards with this clock.
fn save(disk: Arc<dyn Disk>, root: &Path, name: &str, clock: u64) -> Result<Checkpoint, Error> {
    let writer = CheckpointWriter::begin(disk, root, name)?;
    let put = |s: u16| {
        writer
            .put_shard(ShardId(s), &encode_shard(&shard(s, clock)))
            .map(|(file, _)| file)
    };
    let files = vec![put(0)?, put(1)?];
    writer.finish(&manifest(files))
}

fn clock(checkpoint: &Checkpoint) -> u64 {
    let bytes = checkpoint.shard(ShardId(1)).unwrap();
    decode_shard(&bytes, Path::new("x")).unwrap().clock.0
}

/// The newest one's folder and clock, and how many damaged ones were reported.
fn found(root: &Path) -> (Option<(String, u64)>, usize) {
    let Newest {
        checkpoint,
        damaged,
    } = newest(&disk(), root).unwrap();
    let name = |c: &Checkpoint| c.folder().file_name().unwrap().to_str().unwrap().to_owned();
    (checkpoint.map(|c| (name(&c), clock(&c))), damaged.len())
}

#[test]
fn what_is_saved_is_opened() {
    let root = tempfile::tempdir().unwrap();
    let saved = save(disk(), &root.path().join("a/b"), "epoch-000001", 5).unwrap();
    let opened = Checkpoint::open_folder(&disk(), &root.path().join("a/b/epoch-000001")).unwrap();
    assert_eq!(opened.manifest(), saved.manifest());
    assert_eq!(
        opened.shard(ShardId(0)).unwrap(),
        encode_shard(&shard(0, 5))
    );
    assert_eq!(opened.manifest().chains[0][0].rows, 4);
    opened.verify().unwrap();
    assert!(matches!(
        opened.shard(ShardId(2)),
        Err(Error::Format(FormatError::NoShard { shards: 2, .. }))
    ));
}

#[test]
fn several_threads_put_shards() {
    let root = tempfile::tempdir().unwrap();
    let writer = CheckpointWriter::begin(disk(), root.path(), "best").unwrap();
    let files = std::thread::scope(|scope| {
        let put = |s: u16| {
            writer
                .put_shard(ShardId(s), &encode_shard(&shard(s, 1)))
                .map(|(file, _)| file)
        };
        let threads = [0, 1].map(|s| scope.spawn(move || put(s).unwrap()));
        threads.map(|thread| thread.join().unwrap())
    });
    writer
        .finish(&manifest(files.into()))
        .unwrap()
        .verify()
        .unwrap();
}

#[test]
fn bytes_of_another_shard_or_damaged_ones_are_not_written() {
    let root = tempfile::tempdir().unwrap();
    let writer = CheckpointWriter::begin(disk(), root.path(), "best").unwrap();
    let mut bytes = encode_shard(&shard(1, 1));
    assert!(matches!(
        writer.put_shard(ShardId(0), &bytes),
        Err(Error::Format(FormatError::WrongShard {
            found: ShardId(1),
            expected: ShardId(0),
            ..
        }))
    ));
    *bytes.last_mut().unwrap() ^= 1;
    assert!(matches!(
        writer.put_shard(ShardId(1), &bytes),
        Err(Error::Format(FormatError::Damaged { .. }))
    ));
    assert!(
        disk()
            .list(&root.path().join(".best.partial"))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_name_outside_the_root_is_refused() {
    let root = tempfile::tempdir().unwrap();
    for name in ["", ".", "..", "../x", "a/b", ".hidden"] {
        let refused = CheckpointWriter::begin(disk(), root.path(), name);
        assert!(
            matches!(refused, Err(Error::Format(FormatError::Name { .. }))),
            "{name}"
        );
        assert!(remove(&StdDisk, root.path(), name).is_err());
    }
}

/// The save that replaces is stopped before each of its steps. The fault-free run is the last.
#[test]
fn dying_at_any_step_leaves_the_old_or_the_new_one_whole() {
    let mut outcomes = Vec::new();
    for steps in 0.. {
        let root = tempfile::tempdir().unwrap();
        save(disk(), root.path(), "epoch-000002", 1).unwrap();
        let dying = Dying {
            left: AtomicUsize::new(steps),
        };
        let saved = save(Arc::new(dying), root.path(), "epoch-000002", 2);
        let (newest, damaged) = found(root.path());
        let (_, clock) = newest.unwrap_or_else(|| panic!("nothing is left after {steps} steps"));
        assert_eq!(damaged, 0, "after {steps} steps");
        outcomes.push(clock);
        // The next save clears what was left, and keeps what was whole.
        save(disk(), root.path(), "epoch-000001", 9).unwrap();
        assert_eq!(
            found(root.path()),
            (Some(("epoch-000002".into(), clock)), 0),
            "after {steps} steps"
        );
        assert_eq!(
            disk().list(root.path()).unwrap().len(),
            2,
            "after {steps} steps"
        );
        if saved.is_ok() {
            break;
        }
    }
    assert!(outcomes.is_sorted() && outcomes.first() == Some(&1) && outcomes.last() == Some(&2));
}

#[test]
fn a_writer_that_did_not_finish_is_ignored_and_cleared() {
    let root = tempfile::tempdir().unwrap();
    save(disk(), root.path(), "epoch-000001", 1).unwrap();
    let writer = CheckpointWriter::begin(disk(), root.path(), "epoch-000002").unwrap();
    writer
        .put_shard(ShardId(0), &encode_shard(&shard(0, 2)))
        .unwrap();
    drop(writer);
    assert!(root.path().join(".epoch-000002.partial").exists());
    assert_eq!(found(root.path()), (Some(("epoch-000001".into(), 1)), 0));
    CheckpointWriter::begin(disk(), root.path(), "epoch-000003").unwrap();
    assert!(!root.path().join(".epoch-000002.partial").exists());
}

#[test]
fn the_newest_whole_one_is_found_and_damaged_ones_are_told() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(found(&root.path().join("nowhere")), (None, 0));
    for epochs in [2, 10, 9] {
        save(disk(), root.path(), &folder_name(epochs), epochs.into()).unwrap();
    }
    fs::create_dir(root.path().join("epoch-11")).unwrap();
    fs::create_dir(root.path().join("epoch-00000x")).unwrap();
    assert_eq!(found(root.path()), (Some(("epoch-000010".into(), 10)), 0));

    let lost = root.path().join("epoch-000010/0001.shard");
    fs::remove_file(&lost).unwrap();
    assert_eq!(found(root.path()), (Some(("epoch-000009".into(), 9)), 1));
    let damaged = newest(&disk(), root.path()).unwrap().damaged;
    assert_eq!(damaged[0].0, root.path().join("epoch-000010"));
    assert!(damaged[0].1.to_string().contains(lost.to_str().unwrap()));
}

#[test]
fn what_is_wrong_with_a_file_is_named() {
    let root = tempfile::tempdir().unwrap();
    let checkpoint = save(disk(), root.path(), "epoch-000001", 1).unwrap();
    let path = checkpoint.folder().join("0001.shard");
    let whole = fs::read(&path).unwrap();
    let offset = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        match checkpoint.verify() {
            Err(Error::Format(FormatError::Damaged {
                path: found,
                offset,
                ..
            })) => {
                assert_eq!(found, path);
                offset
            }
            other => panic!("not found to be damaged: {other:?}"),
        }
    };
    let end = whole.len() as u64;
    assert_eq!(offset(&whole[..whole.len() - 1]), end - 1);
    assert_eq!(offset(&[whole.as_slice(), &[0; 9]].concat()), end);
    let mut flipped = whole.clone();
    flipped[20] ^= 1;
    assert_eq!(offset(&flipped), 0);
}

#[test]
fn a_seal_changes_the_history_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let mut checkpoint = save(disk(), root.path(), "epoch-000001", 1).unwrap();
    let before = checkpoint.manifest().clone();
    let mut history = before.history.clone();
    history.finished = true;
    history.test.insert("auc".into(), 0.875);
    checkpoint.reseal(history.clone()).unwrap();

    let opened = Checkpoint::open_folder(&disk(), checkpoint.folder()).unwrap();
    assert_eq!(opened.manifest(), &Manifest { history, ..before });
    assert_eq!(opened.manifest(), checkpoint.manifest());
    opened.verify().unwrap();
}

#[test]
fn a_removed_one_is_gone() {
    let root = tempfile::tempdir().unwrap();
    save(disk(), root.path(), "epoch-000001", 1).unwrap();
    remove(&StdDisk, root.path(), "epoch-000001").unwrap();
    assert!(disk().list(root.path()).unwrap().is_empty());
    assert!(matches!(
        remove(&StdDisk, root.path(), "epoch-000001"),
        Err(Error::Io { .. })
    ));
}
