//! Files that are whole or not there.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Writes a file under a hidden name beside its place and moves it there when it is whole.
///
/// # Errors
/// What `write` returns, or [`Error::Io`]; then the place is as it was.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), Error>,
) -> Result<(), Error> {
    let partial = partial(path);
    let io = |source: io::Error| Error::Io {
        path: path.to_owned(),
        source,
    };
    let mut file = BufWriter::new(File::create(&partial).map_err(io)?);
    let written = write(&mut file).and_then(|()| file.flush().map_err(io));
    let moved = written.and_then(|()| std::fs::rename(&partial, path).map_err(io));
    if moved.is_err() {
        // The error that is told is the first one.
        let _ = std::fs::remove_file(&partial);
    }
    moved
}

fn partial(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.partial"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_finished_leaves_its_place_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let put = |text: &[u8]| {
            write_whole(&path, |file| {
                file.write_all(text).unwrap();
                if text.is_empty() {
                    Err(Error::NothingToScore)
                } else {
                    Ok(())
                }
            })
        };
        put(b"one").unwrap();
        assert!(put(b"").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        put(b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }
}
