//! The file that holds what of the coordinator outlives its process.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_common::failpoint;
use windlass_common::format::{ClusterState, MAX_STATE_BYTES};
use windlass_common::runtime::{Change, Disk, at, create_folders};

use crate::error::Error;

/// `DATA_DIR/coordinator.state`. Replaced as a whole: a reader finds the old one or the new one.
#[derive(Clone)]
pub struct StateFile {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
}

impl StateFile {
    /// Names the file in a data folder.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, data_dir: &Path) -> Self {
        Self {
            disk,
            folder: data_dir.to_owned(),
        }
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join("coordinator.state")
    }

    /// Reads the state; `None` if there is none yet.
    ///
    /// # Errors
    /// [`Error::Common`] for a file that cannot be read or is damaged: going on without it would
    /// forget jobs.
    pub fn load(&self) -> Result<Option<ClusterState>, Error> {
        let path = self.path();
        let mut bytes = Vec::new();
        let file = match self.disk.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(at(&path))?,
        };
        file.take(MAX_STATE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(at(&path))?;
        let state = ClusterState::decode(&bytes, &path).map_err(windlass_common::Error::from)?;
        Ok(Some(state))
    }

    /// Replaces the state; it is on the disk when this returns.
    ///
    /// # Errors
    /// [`Error::Common`] from the disk; the old state is in place then.
    pub fn save(&self, state: &ClusterState) -> Result<(), Error> {
        let (path, new) = (self.path(), self.folder.join(".coordinator.state.new"));
        let bytes = state.encode().map_err(windlass_common::Error::from)?;
        // The folder's own name has to be on the disk too, or the state is lost with it.
        create_folders(&*self.disk, &self.folder)?;
        let write = || {
            let mut file = self.disk.create(&new)?;
            failpoint::reached("state-write-before");
            file.write_all(&bytes)?;
            failpoint::reached("state-sync-before");
            file.sync()?;
            drop(file);
            failpoint::reached("state-rename-before");
            self.disk.change(Change::Rename(&new, &path))?;
            failpoint::reached("state-rename-after");
            self.disk.change(Change::SyncFolder(&self.folder))
        };
        Ok(write().map_err(at(&path))?)
    }
}
