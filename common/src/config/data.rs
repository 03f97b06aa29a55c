//! `[data]`: where examples come from and how a line becomes one.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::human::Size;

/// `[data]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// How the files are written.
    pub format: Format,
    /// Training files: globs, relative to the config. Sorted by name; `.gz` is read as gzip.
    pub train: Vec<String>,
    /// Files scored after every epoch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub validation: Vec<String>,
    /// Files scored once, at the end, with the weights that are kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub test: Vec<String>,

    /// CSV: the column that is learnt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// CSV: the label's value that counts as 1; every other counts as 0. Without it labels are
    /// numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positive: Option<String>,
    /// CSV: the column with each example's weight. Without it every weight is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// CSV: columns whose values are names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categorical: Vec<String>,
    /// CSV: columns whose values are numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub numeric: Vec<Column>,
    /// CSV: combinations of 2 to 8 declared columns, each a categorical feature of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crosses: Vec<Vec<String>>,
    /// CSV: the byte between fields.
    pub delimiter: char,
    /// CSV: whether the first line of each file names the columns.
    pub header: bool,
    /// CSV: the columns' names where there is no header, or other names for those of the header.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// CSV: values that mean "not known". The empty one: two delimiters side by side.
    pub missing: Vec<String>,
    /// CSV: whether blanks around values are dropped.
    pub trim: bool,

    /// Criteo: how its 13 numbers become features: `log1p` (a weight times ln(1 + x)) or
    /// `bucket` (a category of floor(ln(x)^2), as the winners of the Kaggle contest had it).
    pub criteo_numbers: CriteoNumbers,

    /// What a bad row does: `error` stops with its place, `skip` drops and counts it.
    pub on_bad_row: OnBadRow,
    /// Rows that are shuffled together inside a split; 0 keeps the file's order. 100000: about
    /// 30 MB of rows with 39 features.
    pub shuffle: u32,
    /// About how many bytes of plain text a split has. Without it what gives 32 splits, and four
    /// for each of `cluster.workers`, at least 64KiB and at most 64MiB. Compressed files are always
    /// one split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_size: Option<Size>,
    /// The longest line that is read. A longer one is a bad row.
    pub max_line: Size,
}

/// `data.format`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// `label index:value ...`
    #[default]
    Libsvm,
    /// `label field:index:value ...`
    Libffm,
    /// Separated values, one example a line.
    Csv,
    /// Criteo's click logs: label, 13 numbers, 26 hexadecimal categories, tab-separated.
    Criteo,
}

impl Format {
    /// The name in a config.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Libsvm => "libsvm",
            Self::Libffm => "libffm",
            Self::Csv => "csv",
            Self::Criteo => "criteo",
        }
    }
}

/// A numeric column: its name alone, or with a transform.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Column {
    /// The value as it is.
    Plain(String),
    /// The value transformed.
    Numeric(NumericColumn),
}

/// `{ name = "distance", transform = "log1p" }`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NumericColumn {
    /// The column.
    pub name: String,
    /// What is done to its value: `identity`, `log1p` (sign(x) ln(1 + |x|)), `bucket(WIDTH)` (a
    /// category of floor(x / WIDTH)) or `standardize` ((x - mean) / std).
    pub transform: Transform,
    /// Standardize: the mean; measured on the training files where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Standardize: the standard deviation; measured where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub std: Option<f64>,
}

/// What is done to a numeric value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Transform {
    /// Nothing.
    #[default]
    Identity,
    /// sign(x) ln(1 + |x|).
    Log1p,
    /// A category of floor(x / width).
    Bucket {
        /// Width of a bucket, above 0.
        width: f64,
    },
    /// (x - mean) / std.
    Standardize,
}

/// How Criteo's 13 numbers are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CriteoNumbers {
    /// A weight times sign(x) ln(1 + |x|).
    Log1p,
    /// A category: floor(ln(x)^2) above 2, the number itself up to 2.
    #[default]
    Bucket,
}

/// `data.on_bad_row`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBadRow {
    /// Stop and name file, line and column.
    #[default]
    Error,
    /// Drop the row and count it.
    Skip,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            format: Format::default(),
            train: Vec::new(),
            validation: Vec::new(),
            test: Vec::new(),
            label: None,
            positive: None,
            weight: None,
            categorical: Vec::new(),
            numeric: Vec::new(),
            crosses: Vec::new(),
            delimiter: ',',
            header: true,
            columns: Vec::new(),
            missing: vec![String::new()],
            trim: false,
            criteo_numbers: CriteoNumbers::default(),
            on_bad_row: OnBadRow::default(),
            shuffle: 100_000,
            split_size: None,
            max_line: Size::from_mib(1),
        }
    }
}

impl Column {
    /// The column's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Plain(name) => name,
            Self::Numeric(column) => &column.name,
        }
    }

    /// What is done to its value.
    #[must_use]
    pub fn transform(&self) -> Transform {
        match self {
            Self::Plain(_) => Transform::Identity,
            Self::Numeric(column) => column.transform,
        }
    }
}

// By hand: an untagged derive says of any mistake only that no variant matched.
impl<'de> Deserialize<'de> for Column {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Column;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a column's name or { name = ..., transform = ... }")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Column, E> {
                Ok(Column::Plain(name.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Column, A::Error> {
                NumericColumn::deserialize(MapAccessDeserializer::new(map)).map(Column::Numeric)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl Serialize for Transform {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Identity => serializer.serialize_str("identity"),
            Self::Log1p => serializer.serialize_str("log1p"),
            Self::Bucket { width } => serializer.collect_str(&format_args!("bucket({width})")),
            Self::Standardize => serializer.serialize_str("standardize"),
        }
    }
}

impl<'de> Deserialize<'de> for Transform {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let width = text
            .strip_prefix("bucket(")
            .and_then(|rest| rest.strip_suffix(')'));
        match (text.as_str(), width.map(|w| w.trim().parse::<f64>())) {
            ("identity", _) => Ok(Self::Identity),
            ("log1p", _) => Ok(Self::Log1p),
            ("standardize", _) => Ok(Self::Standardize),
            (_, Some(Ok(width))) if width.is_finite() && width > 0.0 => Ok(Self::Bucket { width }),
            _ => Err(de::Error::custom(format!(
                "`{text}` is no transform: use \"identity\", \"log1p\", \"standardize\" or \
                 \"bucket(WIDTH)\" with a width above 0"
            ))),
        }
    }
}

impl DataConfig {
    /// Takes the means and deviations of standardized columns from `trained`, by the columns'
    /// names: what a model was trained with, whatever the training files are now.
    pub fn take_statistics(&mut self, trained: &Self) {
        for column in &mut self.numeric {
            let Column::Numeric(mine) = column else {
                continue;
            };
            let theirs = trained.numeric.iter().find_map(|column| match column {
                Column::Numeric(column) if column.name == mine.name => Some(column),
                _ => None,
            });
            if let (Transform::Standardize, Some(theirs)) = (mine.transform, theirs) {
                mine.mean = theirs.mean.or(mine.mean);
                mine.std = theirs.std.or(mine.std);
            }
        }
    }
}
