//! From a column's text to its feature: categories, numbers, transforms, crosses.

use std::fmt::Write as _;

use windlass_common::batch::Batch;
use windlass_common::key::{FieldSeed, Key};

use super::number::{Decimal, float, floor, narrow};
use super::parser::shown;

/// What is made of a column's text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    /// The text names a category.
    Name,
    /// The number as it is.
    Identity,
    /// sign(x) ln(1 + |x|).
    Log1p,
    /// A category: floor(x / width) in decimal.
    Bucket {
        /// Above 0.
        width: f64,
    },
    /// (x - mean) / std.
    Standardize {
        /// The mean.
        mean: f64,
        /// The standard deviation, above 0.
        std: f64,
    },
    /// A category: floor(ln(x)^2) in decimal above 2, `SP` and floor(x) up to 2, as the
    /// winners of Criteo's contest had it (Juan, Zhuang, Chin 2014). The letters keep 1 apart from
    /// 3 and 4, whose logarithms are 1 when they are squared and rounded down.
    SquaredLog,
}

/// What a column says in one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reading<'a> {
    /// Nothing: its own feature, with value 1.
    Missing,
    /// A category with this name, with value 1.
    Name(&'a [u8]),
    /// A number, the value of the column's one feature.
    Number(f32),
}

/// A column that becomes a feature.
#[derive(Clone, Debug)]
pub(super) struct Feature {
    name: String,
    field: u16,
    rule: Rule,
    seed: FieldSeed,
    number: Key,
    missing: Key,
}

/// A combination of columns that is a feature of its own, with value 1.
#[derive(Clone, Debug)]
pub(super) struct Cross {
    field: u16,
    seed: FieldSeed,
    /// The columns' places among the features, at most [`FieldSeed::MAX_PARTS`].
    pub(super) parts: Vec<usize>,
}

impl Feature {
    /// Makes a feature of a column, in a field of its own.
    pub(super) fn new(name: &str, field: u16, rule: Rule) -> Self {
        let seed = FieldSeed::new(name);
        Self {
            name: name.to_owned(),
            field,
            rule,
            seed,
            number: seed.number(),
            missing: seed.missing(),
        }
    }

    /// The column's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Reads a text that is not missing. A bucket's name is written into `decimal`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read<'a>(
        &self,
        text: &'a [u8],
        decimal: &'a mut Decimal,
    ) -> Result<Reading<'a>, String> {
        if self.rule == Rule::Name {
            return Ok(Reading::Name(text));
        }
        let x = float(text).ok_or_else(|| self.not_a_number(text))?;
        let reading = match self.rule {
            Rule::Name => Some(Reading::Name(text)),
            Rule::Identity => narrow(x).map(Reading::Number),
            Rule::Log1p => narrow(x.abs().ln_1p().copysign(x)).map(Reading::Number),
            Rule::Standardize { mean, std } => narrow((x - mean) / std).map(Reading::Number),
            Rule::Bucket { width } => {
                floor(x / width).map(|bucket| Reading::Name(decimal.write(b"", bucket)))
            }
            Rule::SquaredLog => {
                let (prefix, number) = if x > 2.0 {
                    (&b""[..], x.ln().powi(2))
                } else {
                    (&b"SP"[..], x)
                };
                floor(number).map(|bucket| Reading::Name(decimal.write(prefix, bucket)))
            }
        };
        reading.ok_or_else(|| format!("{} {} is out of range", self.name, shown(text)))
    }

    /// The row of a reading.
    pub(super) fn key(&self, reading: Reading<'_>) -> Key {
        match reading {
            Reading::Missing => self.missing,
            Reading::Name(name) => self.seed.value(name),
            Reading::Number(_) => self.number,
        }
    }

    /// Appends a reading to the example that is being written.
    pub(super) fn push(&self, reading: Reading<'_>, out: &mut Batch) {
        let value = match reading {
            Reading::Number(value) => value,
            Reading::Missing | Reading::Name(_) => 1.0,
        };
        out.push_feature(self.field, self.key(reading), value);
    }

    /// Appends a reading's name to `out`: `COLUMN=CATEGORY`, `COLUMN` or `COLUMN=(missing)`.
    pub(super) fn describe(&self, reading: Reading<'_>, out: &mut String) {
        out.push_str(&self.name);
        match reading {
            Reading::Missing => out.push_str("=(missing)"),
            Reading::Name(name) => push_text(name, out),
            Reading::Number(_) => {}
        }
    }

    /// Appends a cross's part to `out`. Of a number it is the text that takes part.
    pub(super) fn describe_part(&self, reading: Reading<'_>, text: &[u8], out: &mut String) {
        self.describe(reading, out);
        if matches!(reading, Reading::Number(_)) {
            push_text(text, out);
        }
    }

    /// The row of a cross's part. A number takes part as the category that its text names.
    pub(super) fn part(&self, reading: Reading<'_>, text: &[u8]) -> Key {
        match reading {
            Reading::Number(_) => self.seed.value(text),
            Reading::Missing | Reading::Name(_) => self.key(reading),
        }
    }

    fn not_a_number(&self, text: &[u8]) -> String {
        let hint = if float(text.trim_ascii()).is_some() {
            "; data.trim = true drops the blanks around it"
        } else {
            ""
        };
        format!("{} {} is not a number{hint}", self.name, shown(text))
    }
}

impl Cross {
    /// Makes a cross of columns, in a field of its own. `parts` are their places.
    pub(super) fn new(columns: &[String], field: u16, parts: Vec<usize>) -> Self {
        Self {
            field,
            seed: FieldSeed::cross(columns),
            parts,
        }
    }

    /// The row of this combination of the parts' rows.
    pub(super) fn key(&self, part: impl Fn(usize) -> Key) -> Key {
        let mut keys = [Key::default(); FieldSeed::MAX_PARTS];
        for (key, &place) in keys.iter_mut().zip(&self.parts) {
            *key = part(place);
        }
        self.seed.combination(&keys[..self.parts.len()])
    }

    /// Appends the cross to the example that is being written.
    pub(super) fn push(&self, key: Key, out: &mut Batch) {
        out.push_feature(self.field, key, 1.0);
    }
}

fn push_text(text: &[u8], out: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(out, "={}", String::from_utf8_lossy(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: Rule, text: &str, expected: Result<Reading<'_>, &str>) {
        let feature = Feature::new("x", 0, rule);
        let mut decimal = Decimal::default();
        let found = feature.read(text.as_bytes(), &mut decimal);
        assert_eq!(found, expected.map_err(str::to_owned), "{rule:?} {text:?}");
    }

    #[test]
    fn transforms_follow_their_formulas() {
        let name = |text: &'static str| Ok(Reading::Name(text.as_bytes()));
        check(Rule::Name, "UA", name("UA"));
        check(Rule::Identity, "-1.5", Ok(Reading::Number(-1.5)));
        let e_minus_1 = "1.718281828459045";
        check(Rule::Log1p, e_minus_1, Ok(Reading::Number(1.0)));
        check(Rule::Log1p, "-1.718281828459045", Ok(Reading::Number(-1.0)));
        check(Rule::Log1p, "0", Ok(Reading::Number(0.0)));
        let bucket = Rule::Bucket { width: 100.0 };
        check(bucket, "1400", name("14"));
        check(bucket, "1399.9", name("13"));
        check(bucket, "-0.5", name("-1"));
        let standardize = Rule::Standardize {
            mean: 10.0,
            std: 4.0,
        };
        check(standardize, "12", Ok(Reading::Number(0.5)));
    }

    /// floor(ln(x)^2): ln 3 = 1.0986, ln 5 = 1.6094, ln 181 = 5.1985, ln 1382 = 7.2313.
    #[test]
    fn criteo_numbers_are_squared_logarithms() {
        for (text, category) in [
            ("-2", "SP-2"),
            ("0", "SP0"),
            ("1", "SP1"),
            ("2", "SP2"),
            ("3", "1"),
            ("5", "2"),
            ("181", "27"),
            ("1382", "52"),
        ] {
            check(
                Rule::SquaredLog,
                text,
                Ok(Reading::Name(category.as_bytes())),
            );
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        check(Rule::Identity, "abc", Err("x `abc` is not a number"));
        check(
            Rule::Identity,
            " 39",
            Err("x ` 39` is not a number; data.trim = true drops the blanks around it"),
        );
        check(Rule::Identity, "1e39", Err("x `1e39` is out of range"));
        check(
            Rule::Bucket { width: 1.0 },
            "1e19",
            Err("x `1e19` is out of range"),
        );
    }
}
