//! Bad input gets one clear line that says what to do, a non-zero exit, and leaves nothing behind.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy knows tests by their attribute only"
)]

use std::io::Write;
use std::path::Path;

use tempfile::TempDir;
use windlass_tests::data::example;
use windlass_tests::{Cluster, Run, Worker};

const CONFIG: &str = r#"
[job]
name = "bad"

[data]
format = "csv"
train = ["train.csv"]
label = "y"
categorical = ["a"]
numeric = ["x"]

[model]
kind = "logistic"
"#;

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn train(folder: &Path) -> Run {
    Worker::new(folder, &["train"], Path::new("train.toml")).run()
}

/// The run fails with `code`, says each of `parts` in its one line, and has written no model.
fn refused(run: &Run, folder: &Path, code: i32, parts: &[&str]) {
    assert_eq!(
        run.code,
        Some(code),
        "stdout:\n{}\nstderr:\n{}",
        run.stdout,
        run.stderr
    );
    let lines: Vec<&str> = run.stderr.lines().filter(|l| !l.is_empty()).collect();
    assert_eq!(lines.len(), 1, "one line: {}", run.stderr);
    for part in parts {
        assert!(lines[0].contains(part), "`{part}` is not in: {}", lines[0]);
    }
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    let left = walkdir::WalkDir::new(folder.join("runs"))
        .into_iter()
        .filter_map(Result::ok);
    assert_eq!(
        left.filter(|e| e.file_type().is_file()).count(),
        0,
        "nothing half-written"
    );
}

/// Trains on one CSV file.
fn csv(rows: &str, code: i32, parts: &[&str]) {
    let folder = folder(&[
        ("train.toml", CONFIG.as_bytes()),
        ("train.csv", rows.as_bytes()),
    ]);
    refused(&train(folder.path()), folder.path(), code, parts);
}

#[test]
fn a_truncated_gzip_file_is_named() {
    let whole = std::fs::read(example("flights/2013-01.csv.gz")).unwrap();
    let config = std::fs::read_to_string(example("flights/train.toml")).unwrap();
    let config = config.replace("2013-0[1-9].csv.gz", "cut.csv.gz");
    let config: String = config
        .lines()
        .filter(|l| {
            !["validation", "test ", "early_stop"]
                .iter()
                .any(|w| l.starts_with(w))
        })
        .map(|l| format!("{l}\n"))
        .collect();
    let folder = folder(&[
        ("train.toml", config.as_bytes()),
        ("cut.csv.gz", &whole[..whole.len() / 2]),
    ]);
    refused(
        &train(folder.path()),
        folder.path(),
        1,
        &["cut.csv.gz", "gzip", "cut short"],
    );
}

#[test]
fn letters_for_a_number_are_placed() {
    csv("y,a,x\n1,p,1.5\n0,q,abc\n", 1, &["train.csv:3:5", "abc"]);
}

#[test]
fn a_label_that_the_loss_cannot_take_is_placed() {
    csv(
        "y,a,x\n1,p,1\n7,q,2\n",
        1,
        &["train.csv:3:1", "7", "0 and 1"],
    );
}

#[test]
fn an_unknown_column_is_named_with_those_there_are() {
    csv("y,aa,x\n1,p,1\n", 1, &["train.csv", "`a`", "aa"]);
}

#[test]
fn a_row_of_another_width_is_placed() {
    csv("y,a,x\n1,p,1\n1,p\n", 1, &["train.csv:3", "2", "3"]);
}

#[test]
fn bad_rows_can_be_skipped_and_are_counted() {
    let rows = "y,a,x\n1,p,1\n0,q,abc\n9,q,1\n0,q,2\n";
    let folder = folder(&[
        ("train.toml", CONFIG.as_bytes()),
        ("train.csv", rows.as_bytes()),
    ]);
    let run = Worker::new(folder.path(), &["train"], Path::new("train.toml"))
        .set("data.on_bad_row", "skip")
        .report(folder.path().join("report.json"))
        .run()
        .success();
    assert_eq!(
        (run.number("/examples"), run.number("/skipped")),
        (2.0, 2.0)
    );
}

#[test]
fn a_report_that_cannot_be_put_anywhere_is_told_before_training() {
    let rows = "y,a,x\n1,p,1\n0,q,2\n";
    let folder = folder(&[
        ("train.toml", CONFIG.as_bytes()),
        ("train.csv", rows.as_bytes()),
    ]);
    let run = Worker::new(folder.path(), &["train"], Path::new("train.toml"))
        .report(folder.path().join("nowhere/report.json"))
        .run();
    refused(&run, folder.path(), 1, &["nowhere", "No such file"]);
}

/// Checks a config that is CONFIG with one line changed.
fn config(from: &str, to: &str, parts: &[&str]) {
    assert!(CONFIG.contains(from));
    let text = CONFIG.replace(from, to);
    let folder = folder(&[
        ("train.toml", text.as_bytes()),
        ("train.csv", b"y,a,x\n1,p,1\n"),
    ]);
    for command in [&["train"][..], &["config", "check"], &["config", "print"]] {
        let run = Worker::new(folder.path(), command, Path::new("train.toml")).run();
        refused(&run, folder.path(), 78, parts);
    }
}

#[test]
fn a_misspelt_key_is_placed_and_the_nearest_is_named() {
    config(
        "format =",
        "fromat =",
        &["train.toml:6:1", "fromat", "format"],
    );
}

#[test]
fn a_key_that_is_missing_is_named() {
    config("label = \"y\"\n", "", &["data.label"]);
    config("train = [\"train.csv\"]\n", "", &["data.train"]);
}

#[test]
fn a_value_of_the_wrong_kind_is_placed() {
    config(
        "kind = \"logistic\"",
        "kind = \"logistc\"",
        &["train.toml:13:1", "logistc", "logistic"],
    );
}

#[test]
fn a_config_that_is_not_there_is_named() {
    let folder = folder(&[]);
    refused(&train(folder.path()), folder.path(), 78, &["train.toml"]);
}

#[test]
fn files_that_no_glob_finds_are_named() {
    let folder = folder(&[("train.toml", CONFIG.as_bytes())]);
    refused(&train(folder.path()), folder.path(), 1, &["train.csv"]);
}

#[test]
fn a_server_that_is_not_there_is_looked_for_and_given_up() {
    let folder = folder(&[
        ("train.toml", CONFIG.as_bytes()),
        ("train.csv", b"y,a,x\n1,p,1\n"),
    ]);
    // A port that was free a moment ago, and that nobody listens at.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let run = Worker::new(folder.path(), &["train"], Path::new("train.toml"))
        .args(["--coordinator", &format!("http://{free}")])
        .set("cluster.connect_timeout", "1s")
        .run();
    refused(
        &run,
        folder.path(),
        1,
        &[&format!("http://{free}"), "connect_timeout"],
    );
}

#[test]
fn a_table_of_another_dim_is_refused_with_both_sides() {
    let fm = CONFIG.replace("kind = \"logistic\"", "kind = \"fm\"");
    let rows = b"y,a,x\n1,p,1\n0,q,2\n";
    let folder = folder(&[("train.toml", fm.as_bytes()), ("train.csv", rows)]);
    let cluster = Cluster::start(1);
    let worker = |factors: u32, output: &str| {
        Worker::new(folder.path(), &["train"], Path::new("train.toml"))
            .args(["--coordinator", cluster.coordinator()])
            .set("model.factors", factors)
            .set("train.output", output)
            .run()
    };
    let _ = worker(8, "kept").success();
    let run = worker(16, "runs/other");
    refused(&run, folder.path(), 1, &["factors", "16", "8", "--fresh"]);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut config = tempfile::NamedTempFile::new().unwrap();
    writeln!(config, "listen = \"{address}\"").unwrap();
    let run = std::process::Command::new(&windlass_tests::binaries().server)
        .arg("run")
        .arg(config.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains(&address) && stderr.contains("listen"),
        "{stderr}"
    );
}
