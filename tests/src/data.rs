//! Real data: what ships with the project, and what is found through `WINDLASS_TEST_DATA`.

use std::io::Write;
use std::path::{Path, PathBuf};

/// A file of data that may not be shipped, or `None` where `WINDLASS_TEST_DATA` is not set.
///
/// Then a line on the real standard error says that the test was skipped.
///
/// # Panics
/// When the variable is set and the file is not there.
pub fn external(test: &str, file: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("WINDLASS_TEST_DATA") else {
        // Not `eprintln!`, which the test harness would keep to itself.
        let _ = writeln!(
            std::io::stderr(),
            "skipped {test}: WINDLASS_TEST_DATA is not set"
        );
        return None;
    };
    let path = Path::new(&folder).join(file);
    assert!(
        path.exists(),
        "WINDLASS_TEST_DATA is set, and {} is not there",
        path.display()
    );
    Some(path)
}

/// A folder under `examples/`.
pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples")
        .join(name)
}

/// Divides a text file's rows into `train` and `test` in `folder`: every fifth row (index % 5 == 4)
/// is a test row. A header goes to both.
///
/// # Panics
/// When a file cannot be read or written.
pub fn every_fifth(source: &Path, header: bool, folder: &Path) {
    let text = std::fs::read_to_string(source)
        .unwrap_or_else(|error| panic!("reading {}: {error}", source.display()));
    let mut lines = text.lines();
    let head = if header { lines.next() } else { None };
    let (mut train, mut test) = (String::new(), String::new());
    for out in [&mut train, &mut test] {
        out.extend(head.into_iter().flat_map(|h| [h, "\n"]));
    }
    for (row, line) in lines.enumerate() {
        let out = if row % 5 == 4 { &mut test } else { &mut train };
        out.push_str(line);
        out.push('\n');
    }
    for (name, content) in [("train", train), ("test", test)] {
        std::fs::write(folder.join(name), content)
            .unwrap_or_else(|error| panic!("writing {name}: {error}"));
    }
}
