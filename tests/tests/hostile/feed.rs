//! Feeding a target, and what becomes of an input that fails.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use windlass_common::split::Draw;

use crate::mutate::{any_bytes, mutate};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The most memory that one input may take.
const MOST: usize = 64 << 20;

/// One target at a time: memory is counted for the process.
static TURN: Mutex<()> = Mutex::new(());

/// Code that reads what comes from outside.
pub(crate) struct Target {
    /// Its name, and that of its corpus.
    pub(crate) name: &'static str,
    /// Reads an input. What it makes of it does not matter; a good sample is accepted.
    pub(crate) read: fn(&[u8]) -> Result<(), String>,
    /// Inputs that are accepted.
    pub(crate) samples: Vec<Vec<u8>>,
    /// Makes checksums right that a change has made wrong.
    pub(crate) repair: fn(&mut [u8]),
}

/// Feeds a target its corpus, its samples, and for a while what is made of them.
pub(crate) fn feed(target: &Target, seed: u64, time: Duration) {
    let _turn = TURN.lock().unwrap_or_else(|broken| broken.into_inner());
    let name = target.name;
    for sample in &target.samples {
        let read = catch_unwind(|| (target.read)(sample));
        assert_eq!(read.unwrap(), Ok(()), "{name}: a good sample is refused");
    }
    let mut material = target.samples.clone();
    for path in corpus(name) {
        let bytes = fs::read(&path).unwrap();
        if let Err(why) = survives(target, &bytes) {
            panic!("{name}: {}: {why}", path.display());
        }
        material.push(bytes);
    }
    let mut draw = Draw::new(seed, &[name.len() as u64, u64::from(name.as_bytes()[0])]);
    let (began, mut tried) = (Instant::now(), 0u64);
    while began.elapsed() < time {
        let mut input = match draw.below(8) {
            0 => any_bytes(&mut draw),
            _ => mutate(&material, &mut draw),
        };
        if draw.below(4) > 0 {
            (target.repair)(&mut input);
        }
        tried += 1;
        if let Err(why) = survives(target, &input) {
            let path = keep(target, input);
            panic!("{name}: {why}; kept as {}", path.display());
        }
    }
    println!("{name}: {tried} inputs");
}

/// Feeds one input.
///
/// # Panics
/// When it panics or takes too much memory.
pub(crate) fn must_survive(target: &Target, input: &[u8]) {
    let _turn = TURN.lock().unwrap_or_else(|broken| broken.into_inner());
    if let Err(why) = survives(target, input) {
        let start = &input[..input.len().min(32)];
        panic!(
            "{}: {} bytes, {start:02x?}..: {why}",
            target.name,
            input.len()
        );
    }
}

/// Reads an input; an error if it panics or takes too much memory.
fn survives(target: &Target, input: &[u8]) -> Result<(), String> {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let read = catch_unwind(AssertUnwindSafe(|| (target.read)(input)));
    let taken = MEMORY.peak_usage().saturating_sub(before);
    if read.is_err() {
        return Err("it panics".into());
    }
    if taken > MOST {
        return Err(format!("it takes {taken} bytes of memory"));
    }
    Ok(())
}

/// Makes an input that fails smaller as long as it fails, and writes it into the corpus.
fn keep(target: &Target, mut input: Vec<u8>) -> PathBuf {
    let mut piece = input.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < input.len() {
            let mut less = input[..at].to_vec();
            less.extend(&input[(at + piece).min(input.len())..]);
            (target.repair)(&mut less);
            if survives(target, &less).is_err() {
                input = less;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    let digest = crc32fast::hash(&input);
    let path = folder(target.name).join(format!("{digest:08x}.bin"));
    fs::create_dir_all(folder(target.name)).unwrap();
    fs::write(&path, input).unwrap();
    path
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name)
}

fn corpus(name: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder(name)) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
