use std::fmt::{self, Display};
use std::io;
use std::sync::Mutex;

use super::*;
use crate::format::samples::{base, delta, image, manifest, mark};
use crate::format::{ShardImage, encode_shard};
use crate::id::{Clock, Lineage, ShardId};

/// A store in memory that fails after a number of changes, and from then on.
struct Memory {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    left: Mutex<usize>,
}

impl Memory {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            objects: Mutex::default(),
            left: Mutex::new(usize::MAX),
        })
    }

    /// Allows so many changes from now on.
    fn fail_after(&self, changes: usize) {
        *self.left.lock().unwrap() = changes;
    }

    fn change(&self, name: &str) -> Result<(), Error> {
        let mut left = self.left.lock().unwrap();
        match left.checked_sub(1) {
            Some(fewer) => *left = fewer,
            None => {
                return Err(Error::Io {
                    path: Path::new("mem").join(name),
                    source: io::Error::other("the store is gone"),
                });
            }
        }
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        self.objects.lock().unwrap().keys().cloned().collect()
    }

    /// Changes the bytes of an object, behind everybody's back.
    fn spoil(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        change(self.objects.lock().unwrap().get_mut(name).unwrap());
    }
}

impl Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mem")
    }
}

impl Objects for Memory {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.change(name)?;
        self.objects
            .lock()
            .unwrap()
            .insert(name.into(), bytes.into());
        Ok(())
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let objects = self.objects.lock().unwrap();
        let limit = usize::try_from(limit).unwrap();
        let read = |bytes: &Vec<u8>| bytes[..bytes.len().min(limit)].to_vec();
        Ok(objects.get(name).map(read))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        let objects = self.objects.lock().unwrap();
        let prefix = if folder.is_empty() {
            String::new()
        } else {
            format!("{folder}/")
        };
        let names = objects.keys().filter_map(|name| name.strip_prefix(&prefix));
        let names: BTreeSet<_> = names.map(|name| name.split('/').next().unwrap()).collect();
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.change(name)?;
        let folder = format!("{name}/");
        let mut objects = self.objects.lock().unwrap();
        objects.retain(|object, _| object != name && !object.starts_with(&folder));
        Ok(())
    }
}

fn library(store: &Arc<Memory>) -> Library {
    Library::new(Arc::clone(store) as _, "flights").unwrap()
}

fn shard(shard: u16, clock: u64) -> ShardImage {
    ShardImage {
        shard: ShardId(shard),
        mark: mark(clock),
        clock: Clock(clock),
        ..image()
    }
}

fn id(number: u64) -> CheckpointId {
    CheckpointId(number)
}

/// Puts both shards of a checkpoint; their clock is its number.
fn put(library: &Library, number: u64) -> Result<Manifest, Error> {
    let put = |s: u16| library.put_shard(id(number), &encode_shard(&shard(s, number)));
    let files = vec![put(0)?.0, put(1)?.0];
    Ok(Manifest {
        number: id(number),
        ..manifest(files)
    })
}

fn save(library: &Library, number: u64) -> Result<Manifest, Error> {
    let manifest = put(library, number)?;
    library.publish(&manifest)?;
    Ok(manifest)
}

/// A checkpoint that has a delta on the newest file of shard 0, and a full file of shard 1.
fn save_delta(library: &Library, number: u64, below: &Manifest) -> Manifest {
    let image = library
        .open(below.number)
        .and_then(|below| below.image(ShardId(0)))
        .unwrap();
    let delta = ShardImage {
        shard: ShardId(0),
        mark: mark(number),
        clock: Clock(number),
        base: Some(base(below.number.0, &image)),
        windows: image.windows.clone(),
        ..delta()
    };
    let mut manifest = put(library, number).unwrap();
    let (file, _) = library
        .put_shard(id(number), &encode_shard(&delta))
        .unwrap();
    let mut chain = below.chains[0].clone();
    for link in chain.iter_mut().filter(|link| link.folder.is_empty()) {
        link.folder = checkpoint_folder(below.number);
    }
    chain.push(file);
    manifest.chains[0] = chain;
    library.publish(&manifest).unwrap();
    manifest
}

/// The newest one's clock, and the folders that were found to be damaged.
fn newest(library: &Library) -> (Option<u64>, Vec<PathBuf>) {
    let found = library.newest().unwrap();
    let clock = found.checkpoint.map(|c| c.image(ShardId(1)).unwrap().clock);
    let damaged = found.damaged.into_iter().map(|(path, _)| path).collect();
    (clock.map(|clock| clock.0), damaged)
}

fn numbers(library: &Library) -> Vec<u64> {
    let entries = library.list().unwrap();
    entries.iter().map(|entry| entry.number.0).collect()
}

#[test]
fn what_is_published_is_listed_and_read() {
    let store = Memory::new();
    let library = library(&store);
    assert!(library.list().unwrap().is_empty());
    assert_eq!(newest(&library), (None, Vec::new()));
    let first = save(&library, 1).unwrap();
    let second = save(&library, 2).unwrap();
    put(&Library::new(Arc::clone(&store) as _, "other").unwrap(), 7).unwrap();

    assert_eq!(Library::jobs(&*store).unwrap(), ["flights", "other"]);
    assert_eq!(numbers(&library), [2, 1]);
    let opened = library.open(id(2)).unwrap();
    assert_eq!(opened.manifest(), &second);
    assert_eq!(
        opened.shard(ShardId(1)).unwrap(),
        encode_shard(&shard(1, 2))
    );
    assert_eq!(library.open(id(1)).unwrap().manifest(), &first);
    assert_eq!(newest(&library), (Some(2), Vec::new()));
}

#[test]
fn a_repeated_save_is_another_file_and_the_same_copy_is_the_same() {
    let store = Memory::new();
    let library = library(&store);
    let name = |clock| {
        let bytes = encode_shard(&shard(1, clock));
        library.put_shard(id(3), &bytes).unwrap().0.name
    };
    assert_eq!(name(1), name(1));
    assert_ne!(name(1), name(2));
    assert!(name(1).starts_with("0001-") && name(1).ends_with(".shard"));
    let (folder, nonce) = (library.folder(id(3)), name(1).len());
    assert_eq!((folder.as_str(), nonce), ("flights/checkpoint-000003", 27));
}

/// Every byte of every object of the newest checkpoint, and every shorter length.
#[test]
fn every_flip_and_every_cut_is_named_and_the_one_before_is_taken() {
    let store = Memory::new();
    let library = library(&store);
    save(&library, 1).unwrap();
    save(&library, 2).unwrap();
    let folder = PathBuf::from("mem/flights/checkpoint-000002");
    let found = |name: &str, what: &str| {
        assert_eq!(
            newest(&library),
            (Some(1), vec![folder.clone()]),
            "{name}: {what}"
        );
        let damaged = library.newest().unwrap().damaged;
        let said = damaged[0].1.to_string();
        assert!(said.contains(name), "{name}: {what}: {said}");
    };
    for name in store.names().iter().filter(|name| name.contains("000002")) {
        let whole = store.read(name, u64::MAX).unwrap().unwrap();
        for at in 0..whole.len() {
            store.spoil(name, |bytes| bytes[at] ^= 1 << (at % 8));
            found(name, &format!("byte {at}"));
            store.spoil(name, |bytes| *bytes = whole[..at].to_vec());
            found(name, &format!("cut at {at}"));
            store.spoil(name, |bytes| *bytes = whole.clone());
        }
        store.spoil(name, |bytes| bytes.push(0));
        found(name, "a byte more");
        store.spoil(name, |bytes| {
            bytes.pop();
        });
        if name.ends_with(".shard") {
            store.remove(name).unwrap();
            found(name, "missing");
            store.put(name, &whole).unwrap();
        }
    }
    assert_eq!(newest(&library), (Some(2), Vec::new()));
    store
        .remove("flights/checkpoint-000002/manifest.bin")
        .unwrap();
    assert_eq!(newest(&library), (Some(1), Vec::new()));
    let entries = library.list().unwrap();
    assert!(matches!(
        &entries[0].checkpoint,
        Err(Error::Format(FormatError::Unpublished { path })) if *path == folder
    ));
}

/// The save is stopped before each of its changes. The fault-free run is the last.
#[test]
fn a_store_that_fails_midway_leaves_the_previous_one_whole_and_no_manifest() {
    for changes in 0.. {
        let store = Memory::new();
        let library = library(&store);
        save(&library, 1).unwrap();
        store.fail_after(changes);
        let saved = save(&library, 2);
        let published = store.names().iter().any(|name| name.contains("2/manifest"));
        assert_eq!(saved.is_ok(), published, "after {changes} changes");
        if saved.is_ok() {
            assert_eq!(changes, 3);
            assert_eq!(newest(&library), (Some(2), Vec::new()));
            break;
        }
        assert_eq!(newest(&library), (Some(1), Vec::new()));
        // What was left over does not hinder the next, and goes with the one after.
        store.fail_after(usize::MAX);
        save(&library, 3).unwrap();
        library
            .retain(2, &BTreeSet::new(), &BTreeSet::new())
            .unwrap();
        assert_eq!(numbers(&library), [3, 1], "after {changes} changes");
    }
}

#[test]
fn a_file_of_a_server_with_another_store_is_named_before_anything_is_published() {
    let store = Memory::new();
    let library = library(&store);
    let mut manifest = put(&library, 1).unwrap();
    let elsewhere = Library::new(Memory::new(), "flights").unwrap();
    manifest.chains[1] = vec![
        elsewhere
            .put_shard(id(1), &encode_shard(&shard(1, 9)))
            .unwrap()
            .0,
    ];
    let error = library.publish(&manifest).err().unwrap();
    let path = format!(
        "mem/flights/checkpoint-000001/{}",
        manifest.chains[1][0].name
    );
    assert_eq!(
        error.to_string(),
        format!(
            "shard 1: its server wrote {path}, and it is not there for the server that publishes \
             the checkpoint; all servers must reach the same store: set `checkpoint.store` of each \
             to it"
        )
    );
    assert!(!store.names().iter().any(|name| name.ends_with(MANIFEST)));
}

#[test]
fn what_is_not_this_jobs_or_has_no_number_is_not_published() {
    let store = Memory::new();
    let library = library(&store);
    let whole = put(&library, 1).unwrap();
    for wrong in [
        Manifest {
            job: "other".into(),
            ..whole.clone()
        },
        Manifest {
            number: id(0),
            ..whole.clone()
        },
    ] {
        let refused = library.publish(&wrong).err();
        assert!(matches!(
            refused,
            Some(Error::Format(FormatError::Misfit { .. }))
        ));
    }
    // A folder that was renamed by hand says so.
    library.publish(&whole).unwrap();
    let bytes = whole.encode(Path::new("m")).unwrap();
    store
        .put("flights/checkpoint-000002/manifest.bin", &bytes)
        .unwrap();
    let error = library.open(id(2)).err().unwrap().to_string();
    assert_eq!(
        error,
        "mem/flights/checkpoint-000002/manifest.bin is of checkpoint 1 of job `flights`"
    );
    assert!(Library::new(store, "../flights").is_err());
}

#[test]
fn a_chain_is_read_as_one_full_file_and_verified_link_by_link() {
    let store = Memory::new();
    let library = library(&store);
    let first = save(&library, 1).unwrap();
    let second = save_delta(&library, 2, &first);
    let third = save_delta(&library, 3, &second);
    let checkpoint = library.open(id(3)).unwrap();
    checkpoint.verify().unwrap();
    assert_eq!(third.chains[0].len(), 3);
    let merged = checkpoint.image(ShardId(0)).unwrap();
    assert_eq!((merged.clock, merged.base), (Clock(3), None));
    assert_eq!(
        checkpoint.shard(ShardId(0)).unwrap(),
        encode_shard(&merged),
        "deltas are merged"
    );

    let broken = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = third.clone();
        change(&mut manifest);
        let bytes = manifest.encode(Path::new("m")).unwrap();
        store
            .put("flights/checkpoint-000003/manifest.bin", &bytes)
            .unwrap();
        let checkpoint = library.open(id(3)).unwrap();
        let verified = checkpoint.verify().unwrap_err().to_string();
        let reads = checkpoint.shard(ShardId(0)).map_err(|e| e.to_string());
        // That the manifest promises too much shows only when all shards are read.
        assert!(reads == Err(verified.clone()) || verified.contains("sources"));
        verified
    };
    let said = broken(&|m| drop(m.chains[0].remove(1)));
    assert!(said.contains("builds on the copy at record 2"), "{said}");
    let said = broken(&|m| drop(m.chains[0].drain(..2)));
    assert!(said.ends_with("is a delta on checkpoint 2, and the first file of its chain"));
    let said = broken(&|m| m.chains.swap(0, 1));
    assert!(said.ends_with("holds shard 1, not shard 0"), "{said}");
    let said = broken(&|m| m.lineage = Lineage(4));
    assert!(
        said.ends_with("is of lineage 3, the manifest of 4"),
        "{said}"
    );
    let said = broken(&|m| m.complete.insert(3));
    assert!(
        said.ends_with("says that the sources [2..4] are complete, its files say [2..3]"),
        "{said}"
    );
}

#[test]
fn retention_keeps_the_newest_the_pinned_and_what_they_build_on() {
    let store = Memory::new();
    let library = library(&store);
    let none = BTreeSet::new();
    save(&library, 1).unwrap();
    library.pin(id(1), true).unwrap();
    let second = save(&library, 2).unwrap();
    save(&library, 3).unwrap();
    save_delta(&library, 4, &second);
    save(&library, 5).unwrap();
    // Under way: nobody knows of it but its servers.
    put(&library, 6).unwrap();

    assert_eq!(
        library.retain(2, &none, &BTreeSet::new()).unwrap(),
        [id(3), id(2)]
    );
    let second_left = format!("flights/checkpoint-000002/{}", second.chains[0][0].name);
    let left: Vec<_> = store
        .names()
        .into_iter()
        .filter(|name| name.contains("-000002/"))
        .collect();
    assert_eq!(left, [second_left]);
    assert_eq!(numbers(&library), [6, 5, 4, 2, 1]);
    for number in [5, 4, 1] {
        library.open(id(number)).unwrap().verify().unwrap();
    }
    assert_eq!(library.retain(2, &none, &BTreeSet::new()).unwrap(), []);

    library.pin(id(1), false).unwrap();
    save(&library, 6).unwrap();
    assert_eq!(
        library.retain(0, &none, &BTreeSet::new()).unwrap(),
        [id(4), id(1)]
    );
    assert_eq!(numbers(&library), [6, 5], "two are kept whatever is asked");
}

#[test]
fn retention_does_not_count_damaged_ones() {
    let store = Memory::new();
    let library = library(&store);
    let saved: Vec<_> = (1..=6).map(|n| save(&library, n).unwrap()).collect();
    // 6 is known to be damaged, 5 lacks a file, the manifest of 4 is damaged: 3 and 2 are whole.
    let lost = format!("flights/checkpoint-000005/{}", saved[4].chains[1][0].name);
    store.remove(&lost).unwrap();
    store.spoil("flights/checkpoint-000004/manifest.bin", |bytes| {
        bytes[20] ^= 1;
    });
    let known = BTreeSet::from([id(6)]);
    assert_eq!(
        library.retain(2, &known, &BTreeSet::new()).unwrap(),
        [id(1)]
    );
    assert_eq!(numbers(&library), [6, 5, 4, 3, 2]);
    assert_eq!(
        newest(&library).0,
        Some(6),
        "which nobody else knows to be damaged"
    );
    // Damaged ones go when they are old.
    save(&library, 7).unwrap();
    save(&library, 8).unwrap();
    assert_eq!(
        library.retain(2, &known, &BTreeSet::new()).unwrap(),
        [6, 5, 4, 3, 2].map(id),
        "all that is older than the two newest"
    );
    assert_eq!(numbers(&library), [8, 7]);
}

#[test]
fn retention_that_is_cut_short_never_leaves_a_manifest_without_its_files() {
    for changes in 0.. {
        let store = Memory::new();
        let library = library(&store);
        for number in 1..=4 {
            save(&library, number).unwrap();
        }
        store.fail_after(changes);
        let done = library
            .retain(2, &BTreeSet::new(), &BTreeSet::new())
            .is_ok();
        for entry in library.list().unwrap() {
            match entry.checkpoint {
                Ok(checkpoint) => checkpoint.verify().unwrap(),
                Err(error) => assert!(error.to_string().contains("never finished"), "{error}"),
            }
        }
        store.fail_after(usize::MAX);
        library
            .retain(2, &BTreeSet::new(), &BTreeSet::new())
            .unwrap();
        assert_eq!(numbers(&library), [4, 3], "after {changes} changes");
        if done {
            break;
        }
    }
}

#[test]
fn retention_removes_nothing_when_a_newer_windlass_wrote_one() {
    let store = Memory::new();
    let library = library(&store);
    for number in 1..=4 {
        save(&library, number).unwrap();
    }
    store.spoil("flights/checkpoint-000001/manifest.bin", |bytes| {
        bytes[8] = 2;
        let crc = crc32fast::hash(&[&bytes[..14], &bytes[18..]].concat());
        bytes[14..18].copy_from_slice(&crc.to_le_bytes());
    });
    let before = store.names();
    assert!(matches!(
        library.retain(2, &BTreeSet::new(), &BTreeSet::new()),
        Err(Error::Format(FormatError::Version { found: 2, .. }))
    ));
    assert_eq!(store.names(), before);
}
