//! The seam fits a simulation: turmoil's network, time and disk stand in for the real ones.
#![allow(clippy::unwrap_used, reason = "a test panics when something is wrong")]

mod fake;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{Stream, stream};
use turmoil::fs::shim::std::fs;
use turmoil::net::{TcpListener, TcpStream};
use windlass_client::grpc::{Connector, Options};
use windlass_client::runtime::{Io, Network, TokioClock};
use windlass_common::exchange::{Answer, Pushed};
use windlass_common::id::{JobId, TableId};
use windlass_common::runtime::{BoxFuture, Change, Clock, Disk, File};
use windlass_proto::Limits;
use windlass_server::service::router;

use fake::{FakeShards, keys, pull, push, weights};

const PORT: u16 = 7070;

struct SimulatedNetwork;

impl Network for SimulatedNetwork {
    fn connect(&self, address: &str) -> BoxFuture<'_, io::Result<Box<dyn Io>>> {
        let address = address.to_owned();
        Box::pin(async move { Ok(Box::new(TcpStream::connect(address).await?) as Box<dyn Io>) })
    }
}

fn incoming(listener: TcpListener) -> impl Stream<Item = io::Result<TcpStream>> {
    stream::unfold(listener, async |listener| {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    })
}

/// What happened, and when in simulated time.
type Trace = Vec<(Duration, String)>;

/// Pulls and pushes across a partition that heals; returns the trace.
fn partition(seed: u64) -> Trace {
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(Duration::from_secs(120))
        .build();
    let shards = Arc::new(FakeShards::default());
    sim.host("server", move || {
        let shards = Arc::clone(&shards);
        async move {
            let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
            let router = router(shards, None, Limits::default(), 4);
            router
                .serve(incoming(listener), std::future::pending())
                .await?;
            Ok(())
        }
    });
    let trace = Arc::new(Mutex::new(Trace::new()));
    let recorded = Arc::clone(&trace);
    sim.client("worker", async move {
        let note = |what: String| recorded.lock().unwrap().push((turmoil::elapsed(), what));
        let clock = Arc::new(TokioClock::new());
        let options = Options {
            deadline: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(1),
            keepalive_interval: Duration::from_secs(1),
            keepalive_timeout: Duration::from_secs(1),
            ..Options::default()
        };
        let connector =
            Connector::new(Arc::new(SimulatedNetwork), Arc::clone(&clock) as _, options);
        let server = connector.shards(&format!("http://server:{PORT}"));
        let set = keys(20);
        note(format!("{:?}", server.push(push(0, &set)).await?));

        turmoil::partition("worker", "server");
        let mut failures = 0;
        let pushed: Pushed = loop {
            match server.push(push(1, &set)).await {
                Ok(pushed) => break pushed,
                Err(error) => {
                    assert!(error.kind.may_be_retried(), "{error:?}");
                    note(error.to_string());
                    failures += 1;
                }
            }
            if failures == 4 {
                turmoil::repair("worker", "server");
            }
            clock.sleep(Duration::from_millis(100)).await;
        };
        assert!(failures >= 4, "the partition was felt");
        note(format!("{pushed:?}"));
        let counted =
            |answer: &Answer| matches!(answer, Answer::Applied { .. } | Answer::Duplicate);
        assert!(pushed.answers.iter().all(|(_, answer)| counted(answer)));

        let pulled = server.pull(pull(JobId(1), &set)).await?;
        let twice: Vec<f32> = weights(TableId(0), &set).iter().map(|w| 2.0 * w).collect();
        assert_eq!(
            pulled.tables[0], twice,
            "each of the two pushes counts once"
        );
        note("pulled".into());
        Ok(())
    });
    sim.run().unwrap();
    drop(sim);
    Arc::into_inner(trace).unwrap().into_inner().unwrap()
}

#[test]
fn a_push_is_retried_across_a_partition_and_counts_once() {
    let trace = partition(7);
    assert!(trace.len() >= 7, "{trace:#?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    assert_eq!(partition(11), partition(11));
}

/// The disk of the simulated host that asks.
struct SimulatedDisk;

struct SimulatedFile(fs::File);

impl Read for SimulatedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for SimulatedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl File for SimulatedFile {
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(SimulatedFile(fs::File::open(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(SimulatedFile(fs::File::create(path)?)))
    }

    fn change(&self, change: Change<'_>) -> io::Result<()> {
        match change {
            Change::CreateFolder(path) => fs::create_dir_all(path),
            Change::Rename(from, to) => fs::rename(from, to),
            Change::RemoveFile(path) => fs::remove_file(path),
            Change::RemoveFolder(path) => fs::remove_dir_all(path),
            Change::SyncFolder(path) => fs::sync_dir(path),
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

fn write(disk: &dyn Disk, path: &str, text: &str, sync: bool) -> io::Result<()> {
    let mut file = disk.create(Path::new(path))?;
    file.write_all(text.as_bytes())?;
    if sync { file.sync() } else { Ok(()) }
}

fn read(disk: &dyn Disk, path: &str) -> io::Result<String> {
    let mut text = String::new();
    disk.open(Path::new(path))?.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn a_crash_loses_what_was_not_synced_and_nothing_else() {
    let folder = Path::new("/data/job");
    let mut sim = turmoil::Builder::new().build();
    let crashed = Arc::new(AtomicBool::new(false));
    let is_second_life = Arc::clone(&crashed);
    let (done, mut is_done) = tokio::sync::watch::channel(0);
    let done = Arc::new(done);
    sim.host("server", move || {
        let (second, done) = (is_second_life.load(Ordering::SeqCst), Arc::clone(&done));
        async move {
            let disk = SimulatedDisk;
            if second {
                assert_eq!(disk.list(folder)?, [folder.join("synced")]);
                assert_eq!(read(&disk, "/data/job/synced")?, "kept");
            } else {
                disk.change(Change::CreateFolder(folder))?;
                disk.change(Change::SyncFolder(Path::new("/")))?;
                disk.change(Change::SyncFolder(Path::new("/data")))?;
                write(&disk, "/data/job/new", "kept", true)?;
                let (new, synced) = (folder.join("new"), folder.join("synced"));
                disk.change(Change::Rename(&new, &synced))?;
                disk.change(Change::SyncFolder(folder))?;
                write(&disk, "/data/job/unsynced", "lost", false)?;
                assert_eq!(read(&disk, "/data/job/unsynced")?, "lost");
                assert_eq!(disk.list(folder)?.len(), 2);
            }
            done.send_modify(|lives| *lives += 1);
            std::future::pending().await
        }
    });
    let mut after = is_done.clone();
    sim.client("first", async move {
        is_done.wait_for(|lives| *lives == 1).await?;
        Ok(())
    });
    sim.run().unwrap();
    sim.crash("server");
    crashed.store(true, Ordering::SeqCst);
    sim.bounce("server");
    sim.client("second", async move {
        after.wait_for(|lives| *lives == 2).await?;
        Ok(())
    });
    sim.run().unwrap();
}
