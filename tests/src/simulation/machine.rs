//! A simulated host as the program sees it: turmoil's network, clock and disk, and a pool that takes
//! its time and no thread.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use turmoil::fs::shim::std::fs;
use turmoil::net::{TcpListener, TcpStream};
use windlass_client::runtime::{Io, Network};
use windlass_common::runtime::{BoxFuture, Change, Disk, File, Job, Pool, WallClock};

use super::world::World;

/// Where every server listens.
pub(super) const PORT: u16 = 7070;

/// The address of a server by its host's name.
pub(super) fn url(host: &str) -> String {
    format!("http://{host}:{PORT}")
}

/// Turmoil's network.
pub(super) struct SimulatedNetwork;

impl Network for SimulatedNetwork {
    fn connect(&self, address: &str) -> BoxFuture<'_, io::Result<Box<dyn Io>>> {
        let address = address.to_owned();
        Box::pin(async move { Ok(Box::new(TcpStream::connect(address).await?) as Box<dyn Io>) })
    }
}

/// The connections that come in.
pub(super) fn incoming(listener: TcpListener) -> impl Stream<Item = io::Result<TcpStream>> {
    stream::unfold(listener, async |listener| {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    })
}

/// Work takes some time before it is done, or after: a crash may come in between.
pub(super) struct SlowPool {
    pub(super) world: Arc<World>,
    pub(super) longest: Duration,
}

impl Pool for SlowPool {
    fn run(&self, job: Job) -> BoxFuture<'static, ()> {
        let delay = || self.world.delay(self.longest);
        let (before, after) = (delay(), delay());
        // Some work is slow, as on a busy disk.
        let factor = if self.world.trouble(20) { 20 } else { 1 };
        Box::pin(async move {
            tokio::time::sleep(before * factor).await;
            job();
            tokio::time::sleep(after * factor).await;
        })
    }
}

/// A calendar that stands still, so that what is stored is the same in every run.
pub(super) struct FixedWall;

impl WallClock for FixedWall {
    fn unix_ms(&self) -> u64 {
        1_700_000_000_000
    }
}

/// How many of a thousand calls to a disk fail.
const FAILING: u64 = 2;

/// The disk of the simulated host that asks. A crash loses what was not synced, and some calls fail.
#[derive(Clone)]
pub(super) struct SimulatedDisk {
    pub(super) world: Arc<World>,
    pub(super) host: String,
}

impl SimulatedDisk {
    fn fail(&self, what: &str) -> io::Result<()> {
        if self.world.loses && self.world.trouble(FAILING) {
            self.world
                .note(&self.host, format_args!("the disk fails to {what}"));
            self.world.lose();
            return Err(io::Error::other(format!("the disk fails to {what}")));
        }
        Ok(())
    }
}

struct SimulatedFile {
    file: fs::File,
    disk: SimulatedDisk,
}

impl Read for SimulatedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Write for SimulatedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.fail("write")?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl File for SimulatedFile {
    fn sync(&mut self) -> io::Result<()> {
        self.disk.fail("sync")?;
        self.file.sync_data()
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let (file, disk) = (fs::File::open(path)?, self.clone());
        Ok(Box::new(SimulatedFile { file, disk }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.fail("create")?;
        let (file, disk) = (fs::File::create(path)?, self.clone());
        Ok(Box::new(SimulatedFile { file, disk }))
    }

    fn change(&self, change: Change<'_>) -> io::Result<()> {
        // Turmoil knows files by their names: a file that takes the place of one whose rename is not
        // synced would be written into that one. So a sync of names that fails has been done.
        if !matches!(change, Change::SyncFolder(_)) {
            self.fail("change")?;
        }
        match change {
            Change::CreateFolder(path) => fs::create_dir_all(path),
            Change::Rename(from, to) => fs::rename(from, to),
            Change::RemoveFile(path) => fs::remove_file(path),
            Change::RemoveFolder(path) => fs::remove_dir_all(path),
            Change::SyncFolder(path) => {
                fs::sync_dir(path)?;
                self.fail("sync names")
            }
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut paths = fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }
}

/// Puts an empty disk in the place of a host's; it is not there before the first start.
///
/// Folder by folder, each synced: else a later crash brings files back whose folder is gone.
pub(super) fn wipe(folder: &Path) -> io::Result<()> {
    clear(folder);
    match fs::read_dir(folder).map(Iterator::count) {
        Ok(left @ 1..) => Err(io::Error::other(format!("{left} of the old disk are left"))),
        _ => Ok(()),
    }
}

/// What fails is looked at when all is done: names may be listed of which a crash has undone the
/// rename.
fn clear(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        clear(&path);
        let _ = fs::remove_file(path);
    }
    let _ = fs::sync_dir(folder);
    let _ = fs::remove_dir_all(folder);
    let _ = fs::sync_dir(folder.parent().unwrap_or(folder));
}

/// Keeps a copy of a file, or puts it back in the file's place if there is one.
pub(super) fn keep_or_put_back(file: &Path, put_back: bool) -> io::Result<()> {
    let copy = file.with_extension("copy");
    let (from, to) = if put_back {
        (&*copy, file)
    } else {
        (file, &*copy)
    };
    let bytes = match fs::read(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        bytes => bytes?,
    };
    let mut new = fs::File::create(to)?;
    new.write_all(&bytes)?;
    new.sync_data()?;
    fs::sync_dir(to.parent().unwrap_or(to))
}
