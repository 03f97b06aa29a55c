//! What can be wrong with a configuration, and where it stands.

use std::fmt;
use std::path::PathBuf;

/// Where a setting was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole: what is meant is not in it.
    File {
        /// The file.
        path: PathBuf,
    },
    /// A place in the file. Lines and columns (characters, not bytes) count from 1.
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        name: String,
    },
    /// An argument `--set KEY=VALUE`.
    Set {
        /// `KEY=VALUE`, as it was given.
        text: String,
    },
}

/// A configuration that cannot be used; the message is one line, names the place and says what to
/// do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no such file.
    #[error("{}: no such file; write it, or name the right one", path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{}", OneLine(format_args!("{place}: {message}")))]
    Syntax {
        /// Where reading stopped.
        place: Place,
        /// What the parser says.
        message: String,
    },
    /// An override that names no key.
    #[error("{}", OneLine(format_args!("{place}: {rule}")))]
    Override {
        /// The override.
        place: Place,
        /// The rule.
        rule: &'static str,
    },
    /// A key that does not exist.
    #[error("{}", OneLine(format_args!("{place}: unknown key `{key}`; {hint}")))]
    UnknownKey {
        /// Where it stands.
        place: Place,
        /// Its dotted name.
        key: String,
        /// The nearest key, or all that there are.
        hint: String,
    },
    /// A value of the wrong type, or one that breaks a rule, where it was set.
    #[error("{}", OneLine(format_args!("{place}: {key}: {rule}")))]
    Value {
        /// Where it stands, or the nearest section around it.
        place: Place,
        /// Dotted name of the key.
        key: String,
        /// The rule.
        rule: String,
    },
    /// A value that breaks a rule, in a configuration that was not read from a file.
    #[error("{}", OneLine(format_args!("{key}: {rule}")))]
    Invalid {
        /// Dotted name of the key.
        key: String,
        /// The rule.
        rule: String,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path } => write!(f, "{}", path.display()),
            Self::Line { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Environment { name } => f.write_str(name),
            Self::Set { text } => write!(f, "--set {text}"),
        }
    }
}

/// Finds the word that was most likely meant: at most a third of its letters differ (swapped
/// neighbours count once), whatever its case and its dashes.
pub(super) fn nearest<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase().replace('-', "_");
    let (distance, best) = words
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&word, known), *known))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= word.chars().count() / 3).then_some(best)
}

/// Writes control characters as escapes, so that a value with a line break stays on its line.
struct OneLine<'a>(fmt::Arguments<'a>);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::write(&mut Escape(f), self.0)
    }
}

struct Escape<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escape<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if c.is_control() {
                write!(self.0, "{}", c.escape_default())?;
            } else {
                self.0.write_char(c)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_or_none() {
        let words = ["batch_size", "epochs", "l1", "l2"];
        let check = |word, expected| assert_eq!(nearest(word, &words), expected, "{word}");
        check("bathc_size", Some("batch_size"));
        check("Batch-Size", Some("batch_size"));
        check("epoch", Some("epochs"));
        check("lr", None);
        check("", None);
        check("momentum", None);
    }

    #[test]
    fn a_line_break_in_a_value_does_not_break_the_line() {
        let error = ConfigError::Invalid {
            key: "job.name".into(),
            rule: "`a\nb` is no name".into(),
        };
        assert_eq!(error.to_string(), "job.name: `a\\nb` is no name");
    }
}
