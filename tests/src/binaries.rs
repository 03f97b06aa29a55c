//! The binaries under test.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, bail};
use serde_json::Value;

/// Where the built binaries lie.
#[derive(Debug)]
pub struct Binaries {
    /// `windlass-server`.
    pub server: PathBuf,
    /// `windlass-worker`.
    pub worker: PathBuf,
}

/// Builds both binaries, once a process, and tells where cargo says that they are.
///
/// `cargo test --workspace` alone need not build another package's binaries. Tests are asked for
/// too, because then dependencies have the features that they have in `cargo test`, and nothing is
/// compiled twice.
///
/// # Panics
/// When they cannot be built: no test can go on then.
pub fn binaries() -> &'static Binaries {
    static BUILT: OnceLock<Binaries> = OnceLock::new();
    BUILT.get_or_init(|| build().unwrap_or_else(|error| panic!("building the binaries: {error:#}")))
}

fn build() -> anyhow::Result<Binaries> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "build",
            "--quiet",
            "--message-format=json",
            "--workspace",
            "--bins",
            "--tests",
        ])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .context("starting cargo")?;
    if !output.status.success() {
        bail!(
            "cargo build failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let executable = |name: &str| {
        output
            .stdout
            .split(|&b| b == b'\n')
            .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
            .find(|m| m["target"]["name"] == name && m["profile"]["test"] == false)
            .and_then(|m| m["executable"].as_str().map(PathBuf::from))
            .with_context(|| format!("cargo names no executable {name}"))
    };
    Ok(Binaries {
        server: executable("windlass-server")?,
        worker: executable("windlass-worker")?,
    })
}
