//! What the user sees: a bar on a terminal, plain lines elsewhere, and results at the end.

mod line;
mod table;
mod view;

use std::io::Write;

pub use table::{counted, results};
pub use view::View;

/// Writes a result to standard output.
pub fn say(text: &str) {
    // A closed pipe is the reader's choice, not an error of the work.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Writes a remark to standard error, where no result is.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
