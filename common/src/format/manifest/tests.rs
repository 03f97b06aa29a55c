use proptest::prelude::*;

use super::*;
use crate::format::samples::manifest;

fn file(name: &str) -> ManifestFile {
    ManifestFile {
        folder: String::new(),
        name: name.into(),
        bytes: 12,
        sha256: [7; 32],
        rows: 3,
    }
}

fn whole() -> Manifest {
    manifest(vec![file("a"), file("b")])
}

fn rule(manifest: &Manifest) -> String {
    match manifest.encode(Path::new("m")) {
        Err(FormatError::Manifest { rule, .. }) => rule,
        other => panic!("not refused: {other:?}"),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        job in ".*",
        config in ".*",
        (epochs, lineage, seed) in any::<(u32, u64, u64)>(),
        (finished, stopped_early) in any::<(bool, bool)>(),
        test in prop::collection::btree_map(".*", -1e9..1e9, 0..4),
        files in prop::array::uniform2((any::<u64>(), any::<[u8; 32]>(), any::<u64>())),
    ) {
        let mut manifest = whole();
        manifest.job = job;
        manifest.config = config;
        manifest.lineage = Lineage(lineage);
        manifest.schema.seed = seed;
        manifest.number = CheckpointId(lineage ^ 1);
        manifest.job_id = JobId(seed ^ 1);
        manifest.taken_ms = seed ^ 2;
        manifest.target = epochs ^ 1;
        manifest.pinned = !finished;
        manifest.complete.insert(u64::from(epochs));
        manifest.history.epochs = epochs;
        manifest.history.test = test;
        manifest.history.finished = finished;
        manifest.history.stopped_early = stopped_early;
        for (file, (bytes, sha256, rows)) in manifest.chains.iter_mut().flatten().zip(files) {
            (file.bytes, file.sha256, file.rows) = (bytes, sha256, rows);
        }
        let bytes = manifest.encode(Path::new("m")).unwrap();
        prop_assert_eq!(Manifest::decode(&bytes, Path::new("m")).unwrap(), manifest);
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Manifest::decode(&bytes, Path::new("m")).is_err());
    }

    /// Any payload with a good checksum.
    #[test]
    fn any_payload_is_read_without_a_panic(words in prop::collection::vec(0u64..4, 0..60)) {
        struct Raw(Vec<u64>);
        impl Encode for Raw {
            fn encode<E: bincode::enc::Encoder>(
                &self,
                encoder: &mut E,
            ) -> Result<(), bincode::error::EncodeError> {
                self.0.iter().try_for_each(|word| word.encode(encoder))
            }
        }
        let bytes = FORMAT.encode(&Raw(words)).unwrap();
        prop_assert!(Manifest::decode(&bytes, Path::new("m")).is_err());
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let whole = whole().encode(Path::new("m")).unwrap();
    let damaged = |bytes: &[u8]| {
        matches!(
            Manifest::decode(bytes, Path::new("m")),
            Err(FormatError::Damaged { path, .. }) if path == Path::new("m")
        )
    };
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            assert!(damaged(&bytes), "bit {bit} of byte {at}");
        }
        assert!(damaged(&whole[..at]), "cut at {at}");
    }
    assert!(damaged(&[whole.as_slice(), &[0]].concat()));
}

#[test]
fn what_could_not_be_opened_is_not_written() {
    let mut one = whole();
    one.chains.pop();
    assert_eq!(rule(&one), "lists files of 1 shards, the job has 2");
    one.chains.push(Vec::new());
    assert_eq!(rule(&one), "lists no file of shard 1");
    let mut outside = whole();
    outside.chains[1][0].name = "../b".into();
    assert_eq!(
        rule(&outside),
        "file `../b` in `` must be a plain name in a folder beside the manifest's"
    );
    let mut above = whole();
    above.chains[1][0].folder = "..".into();
    assert_eq!(
        rule(&above),
        "file `b` in `..` must be a plain name in a folder beside the manifest's"
    );
    let mut twice = whole();
    twice.chains[1][0].name = "a".into();
    assert_eq!(rule(&twice), "file `a` in `` is listed twice");
    // The same name in another folder is another file.
    twice.chains[1][0].folder = "checkpoint-000001".into();
    assert!(twice.encode(Path::new("m")).is_ok());
    let mut shapeless = whole();
    shapeless.schema.tables[0].dim = 0;
    assert!(rule(&shapeless).contains("linear"));
}
