//! Which of a job's checkpoints are kept, and how the others go.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::id::CheckpointId;

use super::writer::MANIFEST;
use super::{Entry, FormatError, Library, Manifest, checkpoint_folder};

/// The fewest whole checkpoints that are kept: a source is closed when both hold it (rules C6
/// `keep_two`, C7).
const FEWEST: usize = 2;

/// A file of a library: its folder and its name.
type File<'a> = (String, &'a str);

impl Library {
    /// Removes all but the newest `keep` whole checkpoints (at least two), those that are pinned or
    /// `needed`, and what these build on. Returns the numbers of the checkpoints that were removed.
    ///
    /// Whole are those whose files are all there and that are not among `damaged`: those that were
    /// found to be damaged when they were read. Manifests go first, so that whatever is cut short
    /// leaves files that nobody reads, for the next call. Files that no kept checkpoint lists go too,
    /// but not those of a checkpoint above the newest published one: it may be under way.
    ///
    /// # Errors
    /// What the store says. [`FormatError::Version`] when a newer windlass wrote a checkpoint: what
    /// that one builds on cannot be known, so nothing is removed.
    pub fn retain(
        &self,
        keep: usize,
        damaged: &BTreeSet<CheckpointId>,
        needed: &BTreeSet<CheckpointId>,
    ) -> Result<Vec<CheckpointId>, Error> {
        let plan = Plan::of(self, self.list()?, keep.max(FEWEST), damaged, needed)?;
        for &number in &plan.removed {
            let manifest = format!("{}/{MANIFEST}", self.folder(number));
            self.objects.remove(&manifest)?;
        }
        let listed: BTreeSet<File<'_>> = plan.kept.iter().flat_map(files).collect();
        for &number in &plan.swept {
            self.sweep(number, &listed)?;
        }
        Ok(plan.removed)
    }

    /// Whether a checkpoint's manifest can be read and the files that it lists are there.
    ///
    /// # Errors
    /// What the store says: one that cannot be reached is not one without the checkpoint.
    pub fn is_there(&self, number: CheckpointId) -> Result<bool, Error> {
        match self.open(number) {
            Ok(checkpoint) => has_files(self, checkpoint.manifest()),
            Err(Error::Format(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the files of a folder that are not listed, and the folder when none is.
    fn sweep(&self, number: CheckpointId, listed: &BTreeSet<File<'_>>) -> Result<(), Error> {
        let (own, folder) = (checkpoint_folder(number), self.folder(number));
        let names = self.objects.list(&folder)?;
        let is_kept = |name: &str| name == MANIFEST || listed.contains(&(own.clone(), name));
        if !names.iter().any(|name| is_kept(name)) {
            return self.objects.remove(&folder);
        }
        for name in names.iter().filter(|name| !is_kept(name)) {
            self.objects.remove(&format!("{folder}/{name}"))?;
        }
        Ok(())
    }
}

/// What is to be done with a library.
#[derive(Default)]
struct Plan {
    /// Manifests whose files stay.
    kept: Vec<Manifest>,
    /// Checkpoints whose manifests go.
    removed: Vec<CheckpointId>,
    /// Folders from which files go that no kept manifest lists.
    swept: Vec<CheckpointId>,
}

impl Plan {
    /// Decides about entries, newest first.
    fn of(
        library: &Library,
        entries: Vec<Entry>,
        keep: usize,
        damaged: &BTreeSet<CheckpointId>,
        needed: &BTreeSet<CheckpointId>,
    ) -> Result<Self, Error> {
        let mut plan = Self::default();
        let (mut whole, mut published) = (0, false);
        for Entry { number, checkpoint } in entries {
            // Those that came after the last one that is needed, whole or not, are kept.
            let old = whole >= keep;
            match checkpoint {
                Ok(checkpoint) => {
                    published = true;
                    let manifest = checkpoint.manifest().clone();
                    if old && !manifest.pinned && !needed.contains(&number) {
                        plan.removed.push(number);
                    } else {
                        if !damaged.contains(&number) && has_files(library, &manifest)? {
                            whole += 1;
                        }
                        plan.kept.push(manifest);
                    }
                    plan.swept.push(number);
                }
                // Above the newest published one it may be under way; below it was given up.
                Err(error) if error.is_unpublished() => {
                    if published {
                        plan.swept.push(number);
                    }
                }
                Err(error @ Error::Format(FormatError::Version { .. })) => return Err(error),
                // A damaged manifest does not say which files are its own: all of its folder stay
                // until it is old.
                Err(Error::Format(_)) if !old => {}
                Err(Error::Format(_)) => {
                    plan.removed.push(number);
                    plan.swept.push(number);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(plan)
    }
}

fn has_files(library: &Library, manifest: &Manifest) -> Result<bool, Error> {
    match library.must_have_files(manifest) {
        Ok(()) => Ok(true),
        Err(Error::Format(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn files(manifest: &Manifest) -> impl Iterator<Item = File<'_>> {
    let own = checkpoint_folder(manifest.number);
    manifest.files().map(move |(_, file)| {
        let folder = if file.folder.is_empty() {
            &own
        } else {
            &file.folder
        };
        (folder.clone(), file.name.as_str())
    })
}
