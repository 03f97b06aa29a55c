use std::fs;
use std::sync::Mutex;

use super::*;
use crate::runtime::{File, StdDisk};

fn objects(root: &Path) -> FolderObjects {
    FolderObjects::new(Arc::new(StdDisk), root.into(), Boot(7))
}

/// A disk that does so many changes and no more, and notes them.
struct Limited {
    left: Mutex<usize>,
    done: Mutex<Vec<String>>,
}

impl Limited {
    fn new(steps: usize) -> Self {
        Self {
            left: Mutex::new(steps),
            done: Mutex::default(),
        }
    }

    fn step(&self, what: String) -> io::Result<()> {
        let mut left = self.left.lock().unwrap();
        *left = left
            .checked_sub(1)
            .ok_or_else(|| io::Error::other("no more"))?;
        self.done.lock().unwrap().push(what);
        Ok(())
    }
}

impl Disk for Limited {
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        StdDisk.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = StdDisk.create(path)?;
        self.step("create".into())?;
        Ok(file)
    }

    fn change(&self, change: Change<'_>) -> io::Result<()> {
        let name = format!("{change:?}");
        self.step(name.split('(').next().unwrap().into())?;
        StdDisk.change(change)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        StdDisk.list(folder)
    }
}

fn is_io<T>(result: Result<T, Error>, path: &Path) -> bool {
    matches!(result, Err(Error::Io { path: named, .. }) if named == path)
}

#[test]
fn what_is_put_is_read_and_listed() {
    let root = tempfile::tempdir().unwrap();
    let store = objects(&root.path().join("made/by/the first"));
    assert_eq!(store.list("").unwrap(), [""; 0]);
    assert_eq!(store.read("job/a", 9).unwrap(), None);
    store.put("job/checkpoint/b", b"second").unwrap();
    store.put("job/checkpoint/a", b"first").unwrap();
    store.put("job/x", b"").unwrap();
    store.put("job/x", b"again").unwrap();
    assert_eq!(
        store.read("job/checkpoint/b", 6).unwrap().unwrap(),
        b"second"
    );
    assert_eq!(store.read("job/x", 99).unwrap().unwrap(), b"again");
    assert_eq!(store.read("job/x", 2).unwrap().unwrap(), b"ag");
    assert_eq!(store.list("").unwrap(), ["job"]);
    assert_eq!(store.list("job").unwrap(), ["checkpoint", "x"]);
    assert_eq!(store.list("job/checkpoint").unwrap(), ["a", "b"]);
    // There is nothing in an object.
    assert_eq!(store.list("job/x").unwrap(), [""; 0]);
    assert_eq!(store.read("job/x/y", 9).unwrap(), None);
    assert_eq!(
        store.to_string(),
        root.path().join("made/by/the first").to_str().unwrap()
    );
}

#[test]
fn an_object_or_a_folder_is_removed_and_what_is_not_there_too() {
    let root = tempfile::tempdir().unwrap();
    let store = objects(root.path());
    for name in ["a/1", "a/2", "b/1"] {
        store.put(name, b"x").unwrap();
    }
    fs::write(root.path().join("a/.left.partial"), "x").unwrap();
    assert_eq!(store.list("a").unwrap(), ["1", "2"]);
    store.remove("b/1").unwrap();
    store.remove("a").unwrap();
    store.remove("a").unwrap();
    store.remove("a/1").unwrap();
    assert!(!root.path().join("a").exists());
    assert_eq!(store.read("b/1", 9).unwrap(), None);
}

#[test]
fn names_that_leave_the_root_or_are_hidden_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let store = objects(root.path());
    for name in ["", "/", "a/", "/a", "a//b", "..", "a/../b", ".a", "a\\b"] {
        let refused =
            |r: Result<(), Error>| matches!(r, Err(Error::ObjectName { name: n }) if n == name);
        assert!(refused(store.put(name, b"")), "{name}");
        assert!(refused(store.read(name, 1).map(drop)), "{name}");
        assert!(refused(store.remove(name)), "{name}");
        assert!(
            name.is_empty() || refused(store.list(name).map(drop)),
            "{name}"
        );
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn a_store_that_cannot_be_read_is_not_an_empty_one() {
    struct Unreachable;
    impl Disk for Unreachable {
        fn open(&self, _: &Path) -> io::Result<Box<dyn File>> {
            Err(io::ErrorKind::HostUnreachable.into())
        }
        fn create(&self, _: &Path) -> io::Result<Box<dyn File>> {
            Err(io::ErrorKind::HostUnreachable.into())
        }
        fn change(&self, _: Change<'_>) -> io::Result<()> {
            Err(io::ErrorKind::HostUnreachable.into())
        }
        fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
            Err(io::ErrorKind::HostUnreachable.into())
        }
    }
    let store = FolderObjects::new(Arc::new(Unreachable), "/mnt/store".into(), Boot(1));
    let path = Path::new("/mnt/store/a/b");
    assert!(is_io(store.put("a/b", b"x"), path));
    assert!(is_io(store.read("a/b", 1), path));
    assert!(is_io(store.list("a/b"), path));
    assert!(is_io(store.remove("a/b"), path));
}

/// Puts over an object, stopped before each of its steps. The fault-free run is the last.
#[test]
fn a_put_that_fails_at_any_step_leaves_the_old_object_or_the_new_one() {
    let mut outcomes = Vec::new();
    for steps in 0.. {
        let root = tempfile::tempdir().unwrap();
        objects(root.path()).put("a/b", b"old").unwrap();
        let disk = Arc::new(Limited::new(steps));
        let store = FolderObjects::new(Arc::clone(&disk) as _, root.path().into(), Boot(8));
        let put = store.put("a/b", b"new");
        outcomes.push(store.read("a/b", 9).unwrap().unwrap());
        assert_eq!(store.list("a").unwrap(), ["b"], "after {steps} steps");
        if put.is_ok() {
            assert_eq!(
                *disk.done.lock().unwrap(),
                ["create", "Rename", "SyncFolder"]
            );
            break;
        }
        assert!(is_io(put, &root.path().join("a/b")));
    }
    assert!(outcomes.contains(&b"old".to_vec()) && outcomes.contains(&b"new".to_vec()));
    assert!(outcomes.is_sorted_by_key(|bytes| bytes == b"new"));
}

#[test]
fn the_names_of_new_folders_are_synced_too() {
    let root = tempfile::tempdir().unwrap();
    let disk = Arc::new(Limited::new(99));
    let store = FolderObjects::new(Arc::clone(&disk) as _, root.path().join("r"), Boot(8));
    store.put("a/b", b"x").unwrap();
    assert_eq!(
        *disk.done.lock().unwrap(),
        [
            "CreateFolder",
            "SyncFolder",
            "SyncFolder",
            "create",
            "Rename",
            "SyncFolder"
        ]
    );
}
