//! The folder of a server: one process at a time.

use std::fs::{File, TryLockError, create_dir_all};
use std::path::Path;

use crate::error::Error;

/// A folder that is this process's while the value lives.
#[derive(Debug)]
pub struct DataDir {
    /// The lock goes with the file's handle, and so with the process, however that ends.
    _lock: File,
}

impl DataDir {
    /// Makes the folder if there is none, and takes it.
    ///
    /// # Errors
    /// [`Error::DataDirTaken`] while another process has it; what the disk says.
    pub fn take(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("lock");
        let io = |source| windlass_common::Error::Io {
            path: path.clone(),
            source,
        };
        create_dir_all(folder).map_err(io)?;
        let lock = File::create(&path).map_err(io)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::DataDirTaken {
                folder: folder.into(),
            }),
            Err(TryLockError::Error(source)) => Err(io(source).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_process_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("data/server-0");
        let first = DataDir::take(&folder).unwrap();
        let second = DataDir::take(&folder).unwrap_err();
        assert!(matches!(second, Error::DataDirTaken { .. }), "{second}");
        drop(first);
        DataDir::take(&folder).unwrap();
    }
}
