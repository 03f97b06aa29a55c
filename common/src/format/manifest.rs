//! A checkpoint's manifest: what the job is, how far it is, and which files hold its shards.
//!
//! One header frame with magic `WL-MANIF` and version 1, whose payload is `Record` below, in the
//! order of its fields; nothing follows it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bincode::{Decode, Encode};

use crate::coordination::{EpochMetrics, History, Recipe};
use crate::id::{Epoch, Lineage};
use crate::schema::JobSchema;
use crate::split::InputFile;

use super::FormatError;
use super::header::Format;
use super::reader::Reader;
use super::schema::SchemaRecord;

/// The largest payload of a manifest: far above 4,096 files and the longest history.
const MAX_BYTES: usize = 1 << 28;

/// The largest manifest, with its frame.
pub(super) const MAX_FILE_BYTES: u64 = MAX_BYTES as u64 + 18;

const FORMAT: Format<MAX_BYTES> = Format {
    magic: *b"WL-MANIF",
    version: 1,
    other: "this is not a manifest",
};

/// What a checkpoint says about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The job's name.
    pub job: String,
    /// The life of the job's state.
    pub lineage: Lineage,
    /// The version of the program that wrote it, as in `CARGO_PKG_VERSION`.
    pub windlass: String,
    /// The effective configuration of the job, TOML.
    pub config: String,
    /// The tables, with every setting.
    pub schema: JobSchema,
    /// What shaped its batches: a job goes on from a checkpoint only with the same.
    pub recipe: Recipe,
    /// Epochs and metrics.
    pub history: History,
    /// The shards' files, in the order of shards, one each.
    pub files: Vec<ManifestFile>,
}

/// One shard's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// Its name in the checkpoint's folder.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: [u8; 32],
    /// Its rows, over all tables.
    pub rows: u64,
}

#[derive(Encode, Decode)]
struct Record {
    job: String,
    lineage: u64,
    windlass: String,
    config: String,
    schema: SchemaRecord,
    recipe: RecipeRecord,
    history: HistoryRecord,
    files: Vec<FileRecord>,
}

#[derive(Encode, Decode)]
struct RecipeRecord {
    files: Vec<InputRecord>,
    split_bytes: u64,
    batch_size: u32,
    shuffle: u32,
    seed: u64,
    reading: [u8; 32],
}

#[derive(Encode, Decode)]
struct InputRecord {
    name: String,
    bytes: u64,
    digest: [u8; 32],
    divisible: bool,
}

#[derive(Encode, Decode)]
struct HistoryRecord {
    epochs: u32,
    progress: Vec<EpochRecord>,
    test: BTreeMap<String, f64>,
    finished: bool,
    stopped_early: bool,
}

#[derive(Encode, Decode)]
struct EpochRecord {
    epoch: u32,
    train: BTreeMap<String, f64>,
    validation: BTreeMap<String, f64>,
}

#[derive(Encode, Decode)]
struct FileRecord {
    name: String,
    bytes: u64,
    sha256: [u8; 32],
    rows: u64,
}

impl Manifest {
    /// Writes the manifest; `name` is the file's, for errors.
    ///
    /// # Errors
    /// [`FormatError`] when [`decode`](Self::decode) would not accept it.
    pub fn encode(&self, name: &Path) -> Result<Vec<u8>, FormatError> {
        let files = self.files.iter().cloned().map(|file| FileRecord {
            name: file.name,
            bytes: file.bytes,
            sha256: file.sha256,
            rows: file.rows,
        });
        let bytes = FORMAT.encode(&Record {
            job: self.job.clone(),
            lineage: self.lineage.0,
            windlass: self.windlass.clone(),
            config: self.config.clone(),
            schema: SchemaRecord::of(&self.schema),
            recipe: RecipeRecord::of(self.recipe.clone()),
            history: HistoryRecord::of(self.history.clone()),
            files: files.collect(),
        })?;
        // A checkpoint that cannot be opened is worth nothing, so it is tried before it is written.
        Self::decode(&bytes, name)?;
        Ok(bytes)
    }

    /// Reads a manifest and checks all of it; `name` is the file's, for errors.
    ///
    /// # Errors
    /// [`FormatError`] with the file's name, for any byte that is not as it was written, a schema
    /// that no server could hold, or files that are not one a shard in the same folder.
    pub fn decode(bytes: &[u8], name: &Path) -> Result<Self, FormatError> {
        let mut reader = Reader::new(bytes, name);
        let record: Record = FORMAT.decode(&mut reader)?;
        if reader.left() > 0 {
            return Err(reader.damaged(reader.at(), "bytes follow the end of the manifest"));
        }
        record.manifest().map_err(|rule| FormatError::Manifest {
            path: name.into(),
            rule,
        })
    }
}

impl Record {
    /// Puts the manifest together; an error says which rule is broken.
    fn manifest(self) -> Result<Manifest, String> {
        let schema = self.schema.schema()?;
        schema.validate().map_err(|e| e.to_string())?;
        let (files, shards) = (self.files.len(), schema.shards.len());
        if files != shards {
            return Err(format!("lists {files} files for {shards} shards"));
        }
        let mut names = BTreeSet::new();
        for FileRecord { name, .. } in &self.files {
            if !is_plain(name) {
                return Err(format!(
                    "file `{name}` must be a plain name in the same folder"
                ));
            }
            if !names.insert(name) {
                return Err(format!("file `{name}` is listed twice"));
            }
        }
        let files = self.files.into_iter().map(|file| ManifestFile {
            name: file.name,
            bytes: file.bytes,
            sha256: file.sha256,
            rows: file.rows,
        });
        Ok(Manifest {
            job: self.job,
            lineage: Lineage(self.lineage),
            windlass: self.windlass,
            config: self.config,
            schema,
            recipe: self.recipe.recipe(),
            history: self.history.history(),
            files: files.collect(),
        })
    }
}

/// Whether a name stays in its folder and is not hidden there.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

impl RecipeRecord {
    fn of(recipe: Recipe) -> Self {
        let input = |file: InputFile| InputRecord {
            name: file.name,
            bytes: file.bytes,
            digest: file.digest,
            divisible: file.divisible,
        };
        Self {
            files: recipe.files.into_iter().map(input).collect(),
            split_bytes: recipe.split_bytes,
            batch_size: recipe.batch_size,
            shuffle: recipe.shuffle,
            seed: recipe.seed,
            reading: recipe.reading,
        }
    }

    fn recipe(self) -> Recipe {
        let input = |file: InputRecord| InputFile {
            name: file.name,
            bytes: file.bytes,
            digest: file.digest,
            divisible: file.divisible,
        };
        Recipe {
            files: self.files.into_iter().map(input).collect(),
            split_bytes: self.split_bytes,
            batch_size: self.batch_size,
            shuffle: self.shuffle,
            seed: self.seed,
            reading: self.reading,
        }
    }
}

impl HistoryRecord {
    fn of(history: History) -> Self {
        let epoch = |metrics: EpochMetrics| EpochRecord {
            epoch: metrics.epoch.0,
            train: metrics.train,
            validation: metrics.validation,
        };
        Self {
            epochs: history.epochs,
            progress: history.progress.into_iter().map(epoch).collect(),
            test: history.test,
            finished: history.finished,
            stopped_early: history.stopped_early,
        }
    }

    fn history(self) -> History {
        let epoch = |metrics: EpochRecord| EpochMetrics {
            epoch: Epoch(metrics.epoch),
            train: metrics.train,
            validation: metrics.validation,
        };
        History {
            epochs: self.epochs,
            progress: self.progress.into_iter().map(epoch).collect(),
            test: self.test,
            finished: self.finished,
            stopped_early: self.stopped_early,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::samples::manifest;

    fn file(name: &str) -> ManifestFile {
        ManifestFile {
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
            manifest.history.epochs = epochs;
            manifest.history.test = test;
            manifest.history.finished = finished;
            manifest.history.stopped_early = stopped_early;
            for (file, (bytes, sha256, rows)) in manifest.files.iter_mut().zip(files) {
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
        one.files.pop();
        assert_eq!(rule(&one), "lists 1 files for 2 shards");
        let mut outside = whole();
        outside.files[1].name = "../b".into();
        assert_eq!(
            rule(&outside),
            "file `../b` must be a plain name in the same folder"
        );
        let mut twice = whole();
        twice.files[1].name = "a".into();
        assert_eq!(rule(&twice), "file `a` is listed twice");
        let mut shapeless = whole();
        shapeless.schema.tables[0].dim = 0;
        assert!(rule(&shapeless).contains("linear"));
    }
}
