//! Reading a checkpoint.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::coordination::History;
use crate::error::Error;
use crate::id::{Boot, CheckpointId, Clock, ShardId};
use crate::interval_set::IntervalSet;
use crate::runtime::{Disk, FolderObjects, Objects, is_plain};

use super::library::number_of;
use super::manifest::MAX_FILE_BYTES;
use super::merge::builds_on;
use super::writer::MANIFEST;
use super::{
    Base, FormatError, Manifest, ManifestFile, Mark, ShardImage, ShardSummary, decode_shard,
    encode_shard, inspect_shard, merge,
};

/// A folder that has a good manifest; its files are checked as they are read.
#[derive(Clone)]
pub struct Checkpoint {
    objects: Arc<dyn Objects>,
    /// In the objects; `""` when they are the folder itself.
    folder: String,
    /// The same as a path, for people.
    place: PathBuf,
    manifest: Manifest,
}

/// The file below another in a chain.
struct Below<'a> {
    file: &'a ManifestFile,
    mark: Mark,
    clock: Clock,
}

impl Checkpoint {
    /// Reads the manifest in a folder of a store.
    ///
    /// # Errors
    /// [`FormatError::Unpublished`] without a manifest, another [`Error::Format`] for a bad one, or
    /// what the store says.
    pub fn open(objects: Arc<dyn Objects>, folder: &str) -> Result<Self, Error> {
        let place = Path::new(&objects.to_string()).join(folder);
        Self::read(objects, folder.into(), place)
    }

    /// Reads the manifest in a folder of a disk.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_folder(disk: &Arc<dyn Disk>, folder: &Path) -> Result<Self, Error> {
        let (objects, name) = Self::objects(disk, folder);
        Self::read(objects, name, folder.into())
    }

    /// Takes a checkpoint that was just written.
    pub(super) fn written(disk: &Arc<dyn Disk>, folder: &Path, manifest: Manifest) -> Self {
        let (objects, name) = Self::objects(disk, folder);
        Self {
            objects,
            folder: name,
            place: folder.into(),
            manifest,
        }
    }

    /// Looks at a folder from above where its name allows it, so that a chain's other folders are
    /// seen beside it.
    fn objects(disk: &Arc<dyn Disk>, folder: &Path) -> (Arc<dyn Objects>, String) {
        let name = folder.file_name().and_then(|name| name.to_str());
        let (root, name) = match (folder.parent(), name.filter(|name| is_plain(name))) {
            (Some(parent), Some(name)) if parent.as_os_str().is_empty() => (Path::new("."), name),
            (Some(parent), Some(name)) => (parent, name),
            _ => (folder, ""),
        };
        // Folders on a disk have one writer at a time, so its life need not be told.
        let objects = FolderObjects::new(Arc::clone(disk), root.into(), Boot(0));
        (Arc::new(objects), name.into())
    }

    fn read(objects: Arc<dyn Objects>, folder: String, place: PathBuf) -> Result<Self, Error> {
        let path = place.join(MANIFEST);
        let Some(bytes) = objects.read(&inside(&folder, MANIFEST), MAX_FILE_BYTES + 1)? else {
            return Err(FormatError::Unpublished { path: place }.into());
        };
        Ok(Self {
            manifest: Manifest::decode(&bytes, &path)?,
            objects,
            folder,
            place,
        })
    }

    /// What it says about itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Where it lies.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.place
    }

    /// Reads a shard as the bytes of a full file, for [`decode_shard`]: lengths and SHA-256 are
    /// those of the manifest. Deltas are merged.
    ///
    /// # Errors
    /// As [`image`](Self::image).
    pub fn shard(&self, shard: ShardId) -> Result<Vec<u8>, Error> {
        let [file] = self.chain(shard)? else {
            return Ok(encode_shard(&self.image(shard)?));
        };
        Ok(self.checked(shard, file, None)?.0)
    }

    /// Reads a shard, its deltas merged.
    ///
    /// # Errors
    /// [`FormatError::NoShard`], [`FormatError::Missing`], [`FormatError::Damaged`] or
    /// [`FormatError::Misfit`] with the file's name; what the store says.
    pub fn image(&self, shard: ShardId) -> Result<ShardImage, Error> {
        let chain = self.chain(shard)?;
        let mut merged: Option<(&ManifestFile, ShardImage)> = None;
        for file in chain {
            let path = self.path(file);
            let next = decode_shard(&self.bytes(file)?, &path)?;
            let below = merged.as_ref().map(|(file, image)| Below {
                file,
                mark: image.mark,
                clock: image.clock,
            });
            self.check(shard, &path, &ShardSummary::of(&next), below)?;
            merged = Some(match merged {
                None => (file, next),
                Some((_, base)) => (file, merge(base, next, &path)?),
            });
        }
        let (_, image) = merged.ok_or_else(|| self.no_shard(shard))?;
        Ok(image)
    }

    /// Checks every byte of every file of every chain, one after the other, and that the manifest
    /// says no more and no less than they do (rule C6, `files_only`).
    ///
    /// # Errors
    /// What is wrong with the first that is not whole.
    pub fn verify(&self) -> Result<(), Error> {
        let mut complete: Option<IntervalSet> = None;
        for shard in self.manifest.schema.shards.all() {
            let mut below: Option<Below<'_>> = None;
            let mut newest = None;
            for file in self.chain(shard)? {
                let (_, summary) = self.checked(shard, file, below)?;
                below = Some(Below {
                    file,
                    mark: summary.mark,
                    clock: summary.clock,
                });
                newest = Some(summary);
            }
            let newest = newest.ok_or_else(|| self.no_shard(shard))?;
            let of_shard = newest.windows.complete();
            complete = Some(match complete {
                None => of_shard.clone(),
                Some(so_far) => so_far.intersection(of_shard),
            });
        }
        if complete.as_ref() != Some(&self.manifest.complete) {
            return Err(FormatError::Manifest {
                path: self.place.join(MANIFEST),
                rule: format!(
                    "says that the sources {:?} are complete, its files say {:?}",
                    self.manifest.complete.ranges(),
                    complete.unwrap_or_default().ranges()
                ),
            }
            .into());
        }
        Ok(())
    }

    /// Replaces the history in the manifest, at once; the rest is kept.
    ///
    /// # Errors
    /// What the store says; the old manifest is in place then.
    pub fn reseal(&mut self, history: History) -> Result<(), Error> {
        self.replace(Manifest {
            history,
            ..self.manifest.clone()
        })
    }

    /// Puts another manifest in place of the one that is there.
    pub(super) fn replace(&mut self, manifest: Manifest) -> Result<(), Error> {
        let bytes = manifest.encode(&self.place.join(MANIFEST))?;
        self.objects.put(&inside(&self.folder, MANIFEST), &bytes)?;
        self.manifest = manifest;
        Ok(())
    }

    fn chain(&self, shard: ShardId) -> Result<&[ManifestFile], Error> {
        let chain = self.manifest.chains.get(usize::from(shard.0));
        Ok(chain.ok_or_else(|| self.no_shard(shard))?)
    }

    fn no_shard(&self, shard: ShardId) -> FormatError {
        FormatError::NoShard {
            path: self.place.join(MANIFEST),
            shard,
            shards: self.manifest.chains.len(),
        }
    }

    /// Where a file of a chain lies, for people.
    fn path(&self, file: &ManifestFile) -> PathBuf {
        let own = &self.place;
        match file.folder.as_str() {
            "" => own.join(&file.name),
            sibling => own.with_file_name(sibling).join(&file.name),
        }
    }

    /// Reads a file of which length and SHA-256 are the manifest's.
    fn bytes(&self, file: &ManifestFile) -> Result<Vec<u8>, Error> {
        let folder = match (file.folder.as_str(), self.folder.rsplit_once('/')) {
            ("", _) => self.folder.clone(),
            (sibling, Some((parent, _))) => inside(parent, sibling),
            (sibling, None) => sibling.to_owned(),
        };
        let path = self.path(file);
        let limit = file.bytes.saturating_add(1);
        let Some(bytes) = self.objects.read(&inside(&folder, &file.name), limit)? else {
            return Err(FormatError::Missing { path }.into());
        };
        let damaged = |offset, what| FormatError::Damaged { path, offset, what };
        let found = bytes.len() as u64;
        if found < file.bytes {
            return Err(damaged(found, "the file ends before the manifest's length").into());
        }
        if found > file.bytes {
            return Err(damaged(file.bytes, "bytes follow after the manifest's length").into());
        }
        if Sha256::digest(&bytes)[..] != file.sha256 {
            return Err(damaged(0, "its SHA-256 is not the manifest's").into());
        }
        Ok(bytes)
    }

    /// Reads a file and checks that it is the one that its place in the chain asks for.
    fn checked(
        &self,
        shard: ShardId,
        file: &ManifestFile,
        below: Option<Below<'_>>,
    ) -> Result<(Vec<u8>, ShardSummary), Error> {
        let (path, bytes) = (self.path(file), self.bytes(file)?);
        let summary = inspect_shard(&bytes, &path)?;
        self.check(shard, &path, &summary, below)?;
        if summary.rows != file.rows {
            let (found, said) = (summary.rows, file.rows);
            let rule = format!("has {found} rows, the manifest says {said}");
            return Err(FormatError::Misfit { path, rule }.into());
        }
        Ok((bytes, summary))
    }

    fn check(
        &self,
        shard: ShardId,
        path: &Path,
        found: &ShardSummary,
        below: Option<Below<'_>>,
    ) -> Result<(), FormatError> {
        let misfit = |rule| FormatError::Misfit {
            path: path.into(),
            rule,
        };
        if found.shard != shard {
            return Err(FormatError::WrongShard {
                path: path.into(),
                found: found.shard,
                expected: shard,
            });
        }
        if found.lineage != self.manifest.lineage {
            let (found, said) = (found.lineage, self.manifest.lineage);
            return Err(misfit(format!(
                "is of lineage {found}, the manifest of {said}"
            )));
        }
        match (below, found.base) {
            (None, None) => Ok(()),
            (None, Some(Base { checkpoint, .. })) => Err(misfit(format!(
                "is a delta on checkpoint {checkpoint}, and the first file of its chain"
            ))),
            (Some(below), base) => {
                builds_on(below.mark, below.clock, base).map_err(misfit)?;
                let (said, lies) = (base.map(|base| base.checkpoint), self.number(below.file));
                if said != lies {
                    let number = |n: Option<CheckpointId>| n.unwrap_or_default();
                    return Err(misfit(format!(
                        "builds on checkpoint {}, the file below it is of {}",
                        number(said),
                        number(lies)
                    )));
                }
                Ok(())
            }
        }
    }

    /// The checkpoint that a file of a chain was written for.
    fn number(&self, file: &ManifestFile) -> Option<CheckpointId> {
        match file.folder.as_str() {
            "" => Some(self.manifest.number),
            sibling => number_of(sibling),
        }
    }
}

/// Names an object in a folder, which is the root when it is `""`.
fn inside(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}
