//! The shape of the house: who may know whom, how large a room is, and what no line may do.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use walkdir::WalkDir;

/// The most lines of a file before its tests.
const MOST_LINES: usize = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap()
}

/// Every Rust file of a crate's folder, with its text and its path from the root.
fn sources(folder: &str) -> Vec<(String, String)> {
    let root = root();
    let mut files: Vec<_> = WalkDir::new(root.join(folder))
        .sort_by_file_name()
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "rs"))
        .map(|entry| {
            let name = entry
                .path()
                .strip_prefix(&root)
                .unwrap()
                .display()
                .to_string();
            (name, std::fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no Rust file under {folder}");
    files
}

/// A file's lines before its unit tests, which come last.
fn production(text: &str) -> &str {
    let mut from = 0;
    while let Some(at) = text[from..].find("\n#[cfg(test)]\n").map(|at| from + at) {
        let declaration = text[at..].lines().nth(2).unwrap_or_default();
        if declaration.contains("mod ") && declaration.ends_with('{') {
            return &text[..at];
        }
        from = at + 1;
    }
    text
}

/// Whether a file is a module for tests alone: declared as such by the module that it is in.
fn is_test(file: &str) -> bool {
    let mut path = root().join(file).with_extension("");
    while path.file_name().is_some_and(|name| name != "src") {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        path.pop();
        let parents = [
            path.join("mod.rs"),
            path.join("lib.rs"),
            path.with_extension("rs"),
        ];
        let declares = |parent: &PathBuf| {
            let text = std::fs::read_to_string(parent).unwrap_or_default();
            text.contains(&format!("#[cfg(test)]\nmod {name};"))
        };
        if parents.iter().any(declares) {
            return true;
        }
    }
    false
}

/// Lines with comments taken away, so that prose may speak of what code may not do.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    production(text)
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.split("//").next().unwrap_or(line)))
}

/// The crates in the order of the arrows: each may know those before it.
const CRATES: [&str; 5] = ["common", "proto", "client", "server", "worker"];

#[test]
fn crates_know_only_those_before_them() {
    for (at, name) in CRATES.iter().enumerate() {
        let manifest = std::fs::read_to_string(root().join(name).join("Cargo.toml")).unwrap();
        for later in &CRATES[at..] {
            let package = format!("windlass-{later}");
            let listed = manifest
                .lines()
                .any(|l| l.starts_with(&format!("{package}.")));
            assert!(
                !listed,
                "{name} depends on {package}: the arrows go the other way"
            );
        }
    }
}

#[test]
fn common_knows_no_network_and_no_runtime() {
    let manifest = std::fs::read_to_string(root().join("common/Cargo.toml")).unwrap();
    for crate_name in ["tokio", "tonic", "prost", "hyper"] {
        assert!(
            !manifest.contains(&format!("\n{crate_name}")),
            "common depends on {crate_name}"
        );
    }
}

#[test]
fn only_proto_knows_protocol_buffers() {
    for name in ["common", "client", "server", "worker"] {
        let manifest = std::fs::read_to_string(root().join(name).join("Cargo.toml")).unwrap();
        assert!(!manifest.contains("\nprost"), "{name} depends on prost");
    }
}

#[test]
fn one_file_of_the_worker_knows_the_server() {
    for (file, text) in sources("worker/src") {
        let knows = code(&text).any(|(_, line)| line.contains("windlass_server"));
        assert!(
            !knows || file == "worker/src/embedded.rs",
            "{file} knows windlass_server"
        );
    }
}

/// Which of a crate's modules (or crates) the files of a module may not mention.
const ARROWS: [(&str, &[&str]); 6] = [
    (
        "worker/src/model",
        &[
            "windlass_client",
            "windlass_proto",
            "tokio",
            "crate::trainer",
            "async ",
        ],
    ),
    (
        "worker/src/data",
        &[
            "windlass_client",
            "windlass_proto",
            "tokio",
            "crate::trainer",
            "crate::model",
        ],
    ),
    (
        "server/src/table",
        &[
            "crate::apply",
            "crate::store",
            "crate::service",
            "tokio",
            "tonic",
        ],
    ),
    (
        "server/src/optimizer",
        &[
            "crate::table",
            "crate::apply",
            "crate::store",
            "tokio",
            "tonic",
        ],
    ),
    (
        "server/src/coordinator",
        &["crate::store", "crate::service", "crate::table", "tonic"],
    ),
    (
        "server/src/service",
        &["crate::table", "crate::optimizer", "crate::apply"],
    ),
];

#[test]
fn arrows_inside_crates_go_one_way() {
    for (module, forbidden) in ARROWS {
        for (file, text) in sources(module) {
            for (number, line) in code(&text) {
                for word in forbidden {
                    assert!(!line.contains(word), "{file}:{number} knows {word}: {line}");
                }
            }
        }
    }
}

#[test]
fn bincode_is_used_in_one_module() {
    for crate_name in CRATES {
        for (file, text) in sources(&format!("{crate_name}/src")) {
            let calls = code(&text).any(|(_, line)| {
                line.contains("bincode::decode")
                    || line.contains("bincode::encode")
                    || line.contains("bincode::config")
            });
            assert!(
                !calls || file == "common/src/format/header.rs",
                "{file} calls bincode"
            );
        }
    }
}

fn all() -> Vec<(String, String)> {
    [
        "common", "proto", "client", "server", "worker", "benches", "tests",
    ]
    .iter()
    .flat_map(|c| sources(&format!("{c}/src")))
    .filter(|(file, _)| !is_test(file))
    .collect()
}

#[test]
fn a_file_is_a_room() {
    for (file, text) in all() {
        let lines = production(&text).lines().count();
        assert!(
            lines <= MOST_LINES,
            "{file} has {lines} lines before its tests: has it a second purpose?"
        );
        assert!(
            text.starts_with("//!"),
            "{file} does not say what it is for in its first line"
        );
        for word in ["util", "helper", "manager", "base"] {
            let stem = Path::new(&file).file_stem().unwrap().to_str().unwrap();
            assert!(
                !stem
                    .split('_')
                    .any(|part| part.trim_end_matches('s') == word),
                "{file}: a name that says nothing"
            );
        }
    }
}

#[test]
fn no_production_line_unwraps() {
    for (file, text) in all().into_iter().filter(|(f, _)| !f.starts_with("tests/")) {
        for (number, line) in code(&text) {
            for word in [
                ".unwrap()",
                "todo!(",
                "unimplemented!(",
                "dbg!(",
                "thread::sleep",
            ] {
                assert!(!line.contains(word), "{file}:{number}: {}", line.trim());
            }
        }
    }
}

#[test]
fn unsafe_code_says_why_it_is_sound() {
    for (file, text) in all() {
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in
            code(&text).filter(|(_, l)| l.contains("unsafe {") || l.contains("unsafe impl"))
        {
            let above = lines[..number - 1].iter().rev().take(6);
            assert!(
                above
                    .clone()
                    .any(|l| l.trim_start().starts_with("// SAFETY:")),
                "{file}:{number}: no // SAFETY: above `{}`",
                line.trim()
            );
        }
    }
}

#[test]
fn only_test_builds_have_failpoints() {
    // Without the edges of tests the features of a normal build are what is resolved.
    let packages = |edges: &str| {
        let tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["tree", "--workspace", "--prefix=none", "--edges", edges])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(tree.status.success(), "cargo tree failed: {tree:?}");
        String::from_utf8(tree.stdout).unwrap()
    };
    let stops = |packages: String| packages.lines().any(|line| line.starts_with("fail v"));
    assert!(stops(packages("normal,build,dev")));
    assert!(!stops(packages("normal,build")));
}
