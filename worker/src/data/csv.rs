//! Separated values: columns by name, quotes as RFC 4180 has them, one example a line.

use windlass_common::batch::Batch;
use windlass_common::config::{Column, ConfigError, DataConfig, Transform};
use windlass_common::key::{FieldSeed, Key};

use super::features::{Cross, Feature, Reading, Rule};
use super::fields::Fields;
use super::header::{Header, delimiter};
use super::labels::{LabelRule, Labels};
use super::number::Decimal;
use super::parser::{BadField, Parsed, RowParser};
use crate::error::{Error, Result};

/// Reads CSV lines. Fields of features: the categorical columns, the numeric ones, the crosses.
#[derive(Debug)]
pub(super) struct CsvParser {
    fields: Fields,
    width: usize,
    label: usize,
    labels: Labels,
    weight: Option<usize>,
    missing: Vec<Vec<u8>>,
    /// Features with the places of their columns.
    features: Vec<(usize, Feature)>,
    crosses: Vec<Cross>,
    /// For each feature its key as part of a cross, in the row that is being read.
    parts: Vec<Key>,
    decimal: Decimal,
}

impl CsvParser {
    /// Finds the config's columns in a file.
    ///
    /// # Errors
    /// A column that the file does not have, or settings that cannot be followed.
    pub(super) fn new(
        config: &DataConfig,
        rule: LabelRule,
        header: Option<&Header>,
    ) -> Result<Self> {
        let header = header.ok_or_else(|| invalid("data.columns", "must be known for CSV"))?;
        let label = config.label.as_deref();
        let label = label.ok_or_else(|| invalid("data.label", "must name a column"))?;
        let weight = config.weight.as_deref();
        let features = features_of(config, header)?;
        Ok(Self {
            fields: Fields::new(delimiter(config)?, config.trim),
            width: header.columns.len(),
            label: header.position(label, "data.label")?,
            labels: Labels::names(rule, config.positive.as_deref()),
            weight: weight
                .map(|column| header.position(column, "data.weight"))
                .transpose()?,
            missing: config
                .missing
                .iter()
                .map(|text| text.as_bytes().to_vec())
                .collect(),
            crosses: crosses_of(config, &features)?,
            parts: vec![Key::default(); features.len()],
            features,
            decimal: Decimal::default(),
        })
    }

    /// Cuts the line; false where it is blank.
    fn cut(&mut self, line: &[u8]) -> Result<bool, BadField> {
        if line.is_empty() {
            return Ok(false);
        }
        self.fields.cut(line)?;
        if self.fields.len() == self.width {
            return Ok(true);
        }
        let what = format!(
            "the row has {} fields, the file has {} columns",
            self.fields.len(),
            self.width
        );
        // To blame is the first field too many, or the line's early end.
        Err(if self.fields.len() > self.width {
            self.fields.blame(self.width, what)
        } else {
            BadField::at(line.len(), what)
        })
    }

    /// Reads the label and the weight of the line that was cut.
    fn target(&self, line: &[u8]) -> Result<(f32, f32), BadField> {
        let blame = |column| move |what| self.fields.blame(column, what);
        let text = self.fields.text(line, self.label);
        if is_missing(&self.missing, text) {
            return Err(blame(self.label)("the label is missing".to_owned()));
        }
        let label = self.labels.read(text).map_err(blame(self.label))?;
        let weight = match self.weight {
            Some(column) => {
                Labels::weight(self.fields.text(line, column)).map_err(blame(column))?
            }
            None => 1.0,
        };
        Ok((label, weight))
    }
}

impl RowParser for CsvParser {
    fn parse(&mut self, line: &[u8], out: &mut Batch) -> Result<Parsed, BadField> {
        if !self.cut(line)? {
            return Ok(Parsed::Nothing);
        }
        let (label, weight) = self.target(line)?;
        let crossed = !self.crosses.is_empty();
        for (i, (column, feature)) in self.features.iter().enumerate() {
            let text = self.fields.text(line, *column);
            let reading = reading(feature, text, &self.missing, &mut self.decimal)
                .map_err(|what| self.fields.blame(*column, what))?;
            feature.push(reading, out);
            if crossed {
                self.parts[i] = feature.part(reading, text);
            }
        }
        for cross in &self.crosses {
            cross.push(cross.key(|i| self.parts[i]), out);
        }
        out.finish_example(label, weight);
        Ok(Parsed::Example)
    }

    fn describe(&mut self, line: &[u8], visit: &mut dyn FnMut(Key, &str)) -> Result<(), BadField> {
        if !self.cut(line)? {
            return Ok(());
        }
        let mut names = Vec::with_capacity(self.features.len());
        let mut name = String::new();
        for (i, (column, feature)) in self.features.iter().enumerate() {
            let text = self.fields.text(line, *column);
            let reading = reading(feature, text, &self.missing, &mut self.decimal)
                .map_err(|what| self.fields.blame(*column, what))?;
            name.clear();
            feature.describe(reading, &mut name);
            visit(feature.key(reading), &name);
            self.parts[i] = feature.part(reading, text);
            name.clear();
            feature.describe_part(reading, text, &mut name);
            names.push(name.clone());
        }
        for cross in &self.crosses {
            let parts: Vec<&str> = cross.parts.iter().map(|&i| names[i].as_str()).collect();
            visit(cross.key(|i| self.parts[i]), &parts.join(","));
        }
        Ok(())
    }
}

/// Reads what a feature's column says.
fn reading<'a>(
    feature: &Feature,
    text: &'a [u8],
    missing: &[Vec<u8>],
    decimal: &'a mut Decimal,
) -> Result<Reading<'a>, String> {
    if is_missing(missing, text) {
        return Ok(Reading::Missing);
    }
    feature.read(text, decimal)
}

fn is_missing(missing: &[Vec<u8>], text: &[u8]) -> bool {
    missing.iter().any(|name| name.as_slice() == text)
}

fn invalid(key: &str, rule: impl Into<String>) -> Error {
    Error::Config(ConfigError::Invalid {
        key: key.to_owned(),
        rule: rule.into(),
    })
}

fn field(place: usize) -> Result<u16> {
    u16::try_from(place).map_err(|_| {
        invalid(
            "data.categorical",
            "a row may have 65536 features, crosses included",
        )
    })
}

fn features_of(config: &DataConfig, header: &Header) -> Result<Vec<(usize, Feature)>> {
    let mut features = Vec::new();
    for name in &config.categorical {
        let column = header.position(name, "data.categorical")?;
        features.push((
            column,
            Feature::new(name, field(features.len())?, Rule::Name),
        ));
    }
    for numeric in &config.numeric {
        let column = header.position(numeric.name(), "data.numeric")?;
        let field = field(features.len())?;
        features.push((
            column,
            Feature::new(numeric.name(), field, rule_of(numeric)?),
        ));
    }
    Ok(features)
}

fn rule_of(column: &Column) -> Result<Rule> {
    let (mean, std) = match column {
        Column::Plain(_) => (None, None),
        Column::Numeric(numeric) => (numeric.mean, numeric.std),
    };
    Ok(match column.transform() {
        Transform::Identity => Rule::Identity,
        Transform::Log1p => Rule::Log1p,
        Transform::Bucket { width } => Rule::Bucket { width },
        Transform::Standardize => match (mean, std) {
            (Some(mean), Some(std)) if mean.is_finite() && std.is_finite() && std > 0.0 => {
                Rule::Standardize { mean, std }
            }
            _ => {
                let name = column.name();
                let rule = format!("`{name}` needs a finite mean and a std above 0");
                return Err(invalid("data.numeric", rule));
            }
        },
    })
}

fn crosses_of(config: &DataConfig, features: &[(usize, Feature)]) -> Result<Vec<Cross>> {
    let mut crosses = Vec::new();
    for columns in &config.crosses {
        if !(2..=FieldSeed::MAX_PARTS).contains(&columns.len()) {
            let rule = format!(
                "a cross has 2 to 8 columns, [{}] has not",
                columns.join(", ")
            );
            return Err(invalid("data.crosses", rule));
        }
        let place = |column: &String| {
            let found = features
                .iter()
                .position(|(_, feature)| feature.name() == column);
            found.ok_or_else(|| {
                let rule = format!(
                    "`{column}` is crossed but not declared; add it to data.categorical or \
                     data.numeric"
                );
                invalid("data.crosses", rule)
            })
        };
        let parts = columns.iter().map(place).collect::<Result<_>>()?;
        crosses.push(Cross::new(
            columns,
            field(features.len() + crosses.len())?,
            parts,
        ));
    }
    Ok(crosses)
}

#[cfg(test)]
mod tests;
