//! The store in a bucket, against a server that speaks S3 (`moto_server` of moto, from PyPI).
//!
//! `WINDLASS_MOTO` names that program; `.ci/run` installs it. Without it the test says so loudly and
//! passes: it can prove nothing then.
#![cfg(feature = "s3")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_common::Error;
use windlass_common::id::Boot;
use windlass_common::runtime::{Objects, StdDisk};
use windlass_server::objects::open_store;

/// How long the store may take to start; it is asked every 20 ms.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store in a process of its own.
struct Moto {
    process: Child,
    address: String,
}

impl Moto {
    fn start(program: &str) -> Self {
        // The port is free when it is asked for; nothing else on this machine asks in between.
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .unwrap()
            .port();
        let process = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let moto = Self {
            process,
            address: format!("127.0.0.1:{port}"),
        };
        let deadline = Instant::now() + PATIENCE;
        while !moto.answers() {
            assert!(Instant::now() < deadline, "{program} does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        moto
    }

    fn answers(&self) -> bool {
        TcpStream::connect(&self.address).is_ok()
    }

    fn create_bucket(&self, name: &str) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let address = &self.address;
        write!(
            stream,
            "PUT /{name} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, \
             SignedHeaders=host, Signature=0\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.lines().next().unwrap().contains("200"), "{answer}");
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn open(place: &str) -> Arc<dyn Objects> {
    open_store(Arc::new(StdDisk), place, Boot(1)).unwrap()
}

/// What [`what_is_put_is_read_listed_and_removed`] does, in a process with the store's variables:
/// they are read from the environment, which a test must not change for the others.
const INSIDE: &str = "WINDLASS_MOTO_ADDRESS";

#[test]
fn what_is_put_is_read_listed_and_removed() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let Ok(program) = std::env::var("WINDLASS_MOTO") else {
        eprintln!("SKIPPED: nothing is known about S3 without WINDLASS_MOTO=path/to/moto_server");
        return;
    };
    let moto = Moto::start(&program);
    moto.create_bucket("bucket");
    let run = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "what_is_put_is_read_listed_and_removed",
            "--nocapture",
        ])
        .envs([
            (INSIDE, moto.address.as_str()),
            ("AWS_ACCESS_KEY_ID", "k"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL", &format!("http://{}", moto.address)),
            ("AWS_ALLOW_HTTP", "true"),
        ])
        .status()
        .unwrap();
    assert!(run.success());
}

fn inside() {
    let store = open("s3://bucket/team/a");
    assert_eq!(store.to_string(), "s3://bucket/team/a");
    assert_eq!(store.list("").unwrap(), [""; 0]);
    assert_eq!(store.read("job/a", 9).unwrap(), None);

    store.put("job/checkpoint-000001/b", b"second").unwrap();
    store.put("job/checkpoint-000001/a", b"first").unwrap();
    store.put("job/x", b"").unwrap();
    assert_eq!(store.read("job/x", 9).unwrap().unwrap(), b"");
    store.put("job/x", b"again").unwrap();
    let read = |name, limit| store.read(name, limit).unwrap().unwrap();
    assert_eq!(read("job/checkpoint-000001/b", 6), b"second");
    assert_eq!(read("job/x", 99), b"again");
    assert_eq!(read("job/x", 2), b"ag");
    assert_eq!(store.list("").unwrap(), ["job"]);
    assert_eq!(store.list("job").unwrap(), ["checkpoint-000001", "x"]);
    assert_eq!(store.list("job/checkpoint-000001").unwrap(), ["a", "b"]);
    // A name is no folder for names that begin with it.
    store.put("job/checkpoint-0000010/c", b"other").unwrap();

    // Beyond 64 MiB an object is sent in parts.
    let large: Vec<u8> = (0..(65u32 << 20)).map(|i| i.to_le_bytes()[2]).collect();
    store.put("job/large", &large).unwrap();
    assert!(read("job/large", u64::MAX) == large);

    for _ in 0..2 {
        store.remove("job/checkpoint-000001").unwrap();
        store.remove("job/x").unwrap();
    }
    assert_eq!(store.list("job").unwrap(), ["checkpoint-0000010", "large"]);
    assert_eq!(read("job/checkpoint-0000010/c", 9), b"other");
    assert!(matches!(
        store.put("../x", b""),
        Err(Error::ObjectName { .. })
    ));

    // Another prefix of the bucket is another store, and no prefix is all of it.
    assert_eq!(open("s3://bucket/team/b").list("").unwrap(), [""; 0]);
    assert_eq!(open("s3://bucket").list("team/a").unwrap(), ["job"]);

    // A bucket that is not there is not an empty one.
    let missing = open("s3://nowhere/team");
    let path = Path::new("s3://nowhere/team/a");
    let is_io = |e: Error| matches!(e, Error::Io { path: named, .. } if named == path);
    assert!(is_io(missing.read("a", 9).unwrap_err()));
    assert!(is_io(missing.list("a").unwrap_err()));
    assert!(is_io(missing.put("a", b"x").unwrap_err()));
}
