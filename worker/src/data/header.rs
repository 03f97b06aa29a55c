//! The names of a CSV file's columns.

use std::path::{Path, PathBuf};

use windlass_common::config::{ConfigError, DataConfig, Format};
use windlass_common::split::{InputFile, Split};

use super::fields::Fields;
use super::lines::{Line, Lines};
use crate::error::{Error, Result};

/// The columns of a file, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The file.
    pub path: PathBuf,
    /// Its columns, from left to right.
    pub columns: Vec<String>,
}

impl Header {
    /// Learns a CSV file's columns: from its first line, from the config, or from the first line
    /// under the config's names. Other formats have no header.
    ///
    /// # Errors
    /// A file that cannot be read, that has no first line, or that has another number of columns
    /// than the config names.
    pub fn read(config: &DataConfig, path: &Path, input: &InputFile) -> Result<Option<Self>> {
        if config.format != Format::Csv {
            return Ok(None);
        }
        let mut columns = config.columns.clone();
        if config.header {
            let found = first_line(config, path, input)?;
            if columns.is_empty() {
                columns = found;
            } else if columns.len() != found.len() {
                return Err(Error::HeaderLength {
                    path: path.to_owned(),
                    found: found.len(),
                    named: columns.len(),
                });
            }
        } else if columns.is_empty() {
            return Err(Error::Config(ConfigError::Invalid {
                key: "data.columns".into(),
                rule: "must name the columns where data.header is false".into(),
            }));
        }
        Ok(Some(Self {
            path: path.to_owned(),
            columns,
        }))
    }

    /// Finds a column that the config names under `key`.
    ///
    /// # Errors
    /// A column that the file does not have, or has twice.
    pub(super) fn position(&self, column: &str, key: &'static str) -> Result<usize> {
        let mut places = (0..self.columns.len()).filter(|&i| self.columns[i] == column);
        match (places.next(), places.next()) {
            (Some(place), None) => Ok(place),
            (Some(_), Some(_)) => Err(Error::AmbiguousColumn {
                path: self.path.clone(),
                column: column.to_owned(),
                key,
            }),
            (None, _) => Err(Error::UnknownColumn {
                path: self.path.clone(),
                column: column.to_owned(),
                key,
                columns: self.nearest_first(column),
            }),
        }
    }

    fn nearest_first(&self, column: &str) -> String {
        const SHOWN: usize = 20;
        let mut names: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        names.sort_by_cached_key(|name| strsim::damerau_levenshtein(name, column));
        let more = names.len().saturating_sub(SHOWN);
        names.truncate(SHOWN);
        let listed = names.join(", ");
        if more == 0 {
            listed
        } else {
            format!("{listed} and {more} more")
        }
    }
}

/// The byte between fields.
///
/// # Errors
/// A delimiter of more than one byte, or one that lines or quotes need.
pub(super) fn delimiter(config: &DataConfig) -> Result<u8> {
    u8::try_from(config.delimiter)
        .ok()
        .filter(|byte| byte.is_ascii() && !b"\"\r\n".contains(byte))
        .ok_or_else(|| {
            Error::Config(ConfigError::Invalid {
                key: "data.delimiter".into(),
                rule: format!(
                    "must be one ASCII character other than a quote or a line break, not {:?}",
                    config.delimiter
                ),
            })
        })
}

fn first_line(config: &DataConfig, path: &Path, input: &InputFile) -> Result<Vec<String>> {
    let whole = Split {
        file: 0,
        start: 0,
        end: input.bytes,
    };
    let mut lines = Lines::open(path, input, whole, config.max_line)?;
    let bad = |column, what| Error::BadRow {
        path: path.to_owned(),
        line: 1,
        column,
        what,
    };
    let line = match lines.next_line()? {
        Some(Line::Whole(line)) => line,
        Some(Line::TooLong(what)) => return Err(bad(1, what)),
        None => {
            return Err(Error::NoHeader {
                path: path.to_owned(),
            });
        }
    };
    let mut fields = Fields::new(delimiter(config)?, config.trim);
    fields
        .cut(line)
        .map_err(|field| bad(field.column, field.what))?;
    Ok((0..fields.len())
        .map(|i| String::from_utf8_lossy(fields.text(line, i)).into_owned())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{TempFile, csv_config};
    use super::*;

    fn read(config: &DataConfig, text: &str) -> Result<Header> {
        let file = TempFile::new("a.csv", text.as_bytes());
        Header::read(config, &file.path, &file.input).map(Option::unwrap)
    }

    #[test]
    fn columns_come_from_the_first_line_or_the_config() {
        let mut config = csv_config();
        let text = "\u{feff}late,\"carrier\"\r\n1,UA\r\n";
        assert_eq!(read(&config, text).unwrap().columns, ["late", "carrier"]);
        config.columns = vec!["a".into(), "b".into()];
        assert_eq!(read(&config, text).unwrap().columns, ["a", "b"]);
        config.header = false;
        assert_eq!(read(&config, "").unwrap().columns, ["a", "b"]);
    }

    #[test]
    fn a_header_that_does_not_fit_is_refused() {
        let mut config = csv_config();
        let error = read(&config, "").unwrap_err().to_string();
        assert!(error.ends_with("a.csv: it is empty, and its first line must name the columns"));
        config.columns = vec!["a".into()];
        let error = read(&config, "a,b\n").unwrap_err().to_string();
        assert!(error.ends_with("a.csv: its header names 2 columns, data.columns names 1"));
        config.columns.clear();
        config.header = false;
        assert_eq!(
            read(&config, "a,b\n").unwrap_err().to_string(),
            "data.columns: must name the columns where data.header is false"
        );
    }

    #[test]
    fn an_unknown_column_is_told_with_the_nearest_names_first() {
        let header = Header {
            path: "a.csv".into(),
            columns: ["late", "carrier", "origin", "dest", "dest"]
                .map(String::from)
                .into(),
        };
        assert_eq!(header.position("carrier", "data.label").unwrap(), 1);
        assert_eq!(
            header
                .position("carier", "data.categorical")
                .unwrap_err()
                .to_string(),
            "a.csv: there is no column `carier` (data.categorical); its columns are carrier, late, \
             origin, dest, dest"
        );
        assert_eq!(
            header
                .position("dest", "data.label")
                .unwrap_err()
                .to_string(),
            "a.csv: two columns are named `dest` (data.label)"
        );
    }

    #[test]
    fn a_delimiter_is_one_byte_of_its_own() {
        let mut config = csv_config();
        assert_eq!(delimiter(&config).unwrap(), b',');
        for bad in ['"', '\n', 'é', '→'] {
            config.delimiter = bad;
            assert!(delimiter(&config).is_err(), "{bad:?}");
        }
    }
}
