//! Means and standard deviations of the columns that are standardized.

use std::sync::Arc;

use windlass_common::config::{Column, ConfigError, DataConfig, NumericColumn, Transform};
use windlass_common::key::FieldSeed;
use windlass_common::split::Split;

use super::input::Input;
use super::labels::LabelRule;
use super::split_reader::{ReadPlan, SplitReader};
use crate::error::{Error, Result};

/// How many rows are measured.
const ROWS: usize = 100_000;
/// How many are parsed at once.
const BATCH: usize = 4096;

/// Fills in the mean and the standard deviation of each standardized column that does not say
/// them, measured on the first 100,000 rows of the training files in their order.
///
/// The deviation is that of the population. Missing values do not count; a constant column gets
/// the deviation 1. Bad rows are dropped, or end the read, as they do in training.
///
/// # Errors
/// Files that cannot be read, or a column without a value in those rows.
pub fn with_statistics(
    config: &DataConfig,
    labels: LabelRule,
    training: &Input,
) -> Result<DataConfig> {
    let mut filled = config.clone();
    let mut columns: Vec<_> = filled
        .numeric
        .iter_mut()
        .enumerate()
        .filter_map(|(place, column)| match column {
            Column::Numeric(column) if is_unmeasured(column) => Some((place, column)),
            _ => None,
        })
        .collect();
    if columns.is_empty() {
        return Ok(filled);
    }
    let places: Vec<_> = columns
        .iter()
        .map(|(place, column)| (config.categorical.len() + place, column.name.clone()))
        .collect();
    let moments = measure(raw(config), labels, training, &places)?;
    for ((_, column), moments) in columns.iter_mut().zip(moments) {
        let Some((mean, std)) = moments.mean_and_std() else {
            return Err(Error::Config(ConfigError::Invalid {
                key: "data.numeric".into(),
                rule: format!(
                    "`{}` has no value in the first {ROWS} rows to measure; give its mean and std",
                    column.name
                ),
            }));
        };
        column.mean.get_or_insert(mean);
        column.std.get_or_insert(std);
    }
    Ok(filled)
}

fn is_unmeasured(column: &NumericColumn) -> bool {
    column.transform == Transform::Standardize && (column.mean.is_none() || column.std.is_none())
}

/// The same reading, with the values of unmeasured columns as they are.
fn raw(config: &DataConfig) -> DataConfig {
    let mut raw = config.clone();
    for column in &mut raw.numeric {
        match column {
            Column::Numeric(column) if is_unmeasured(column) => {
                column.transform = Transform::Identity;
            }
            _ => {}
        }
    }
    raw
}

/// Measures columns, each given by its field and its name.
fn measure(
    data: DataConfig,
    labels: LabelRule,
    training: &Input,
    columns: &[(usize, String)],
) -> Result<Vec<Moments>> {
    let plan = Arc::new(ReadPlan { data, labels });
    let numbers: Vec<_> = columns
        .iter()
        .map(|(field, name)| (*field, FieldSeed::new(name).number()))
        .collect();
    let mut moments = vec![Moments::default(); columns.len()];
    let mut left = ROWS;
    for ((path, file), index) in training.paths.iter().zip(&training.files).zip(0u32..) {
        let whole = Split {
            file: index,
            start: 0,
            end: file.bytes,
        };
        let mut reader = SplitReader::open(&plan, path, file, whole, None)?;
        while left > 0
            && let Some(batch) = reader.next_batch(left.min(BATCH))?
        {
            left -= batch.len();
            for i in 0..batch.len() {
                // Every column has one feature a row: feature j of a row is that of field j.
                let first = batch.features(i).start;
                for (&(field, number), moments) in numbers.iter().zip(&mut moments) {
                    if batch.keys[first + field] == number {
                        moments.add(f64::from(batch.values[first + field]));
                    }
                }
            }
        }
    }
    Ok(moments)
}

/// Mean and squared deviations so far (Welford 1962: stable in one pass).
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, x: f64) {
        self.count += 1.0;
        let before = x - self.mean;
        self.mean += before / self.count;
        self.squares += before * (x - self.mean);
    }

    fn mean_and_std(self) -> Option<(f64, f64)> {
        if self.count == 0.0 {
            return None;
        }
        let std = (self.squares / self.count).sqrt();
        Some((self.mean, if std > 0.0 { std } else { 1.0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{TempFile, csv_config};
    use super::*;

    fn config(columns: &[&str]) -> DataConfig {
        let numeric = columns.iter().map(|name| {
            Column::Numeric(NumericColumn {
                name: (*name).into(),
                transform: Transform::Standardize,
                ..NumericColumn::default()
            })
        });
        DataConfig {
            categorical: vec!["c".into()],
            numeric: numeric.collect(),
            ..csv_config()
        }
    }

    fn measured(config: &DataConfig, texts: &[&str]) -> Result<Vec<(Option<f64>, Option<f64>)>> {
        let files: Vec<_> = texts
            .iter()
            .map(|text| TempFile::new("a.csv", text.as_bytes()))
            .collect();
        let input = Input {
            files: files.iter().map(|file| file.input.clone()).collect(),
            paths: files.iter().map(|file| file.path.clone()).collect(),
        };
        let filled = with_statistics(config, LabelRule::Binary, &input)?;
        Ok(filled
            .numeric
            .iter()
            .map(|column| match column {
                Column::Numeric(column) => (column.mean, column.std),
                Column::Plain(_) => (None, None),
            })
            .collect())
    }

    /// The textbook's example: 2, 4, 4, 4, 5, 5, 7, 9 have mean 5 and deviation 2.
    #[test]
    fn columns_are_measured_over_all_files() {
        let texts = [
            "late,c,x,k\n0,a,2,3\n0,a,4,3\n0,a,4,3\n1,a,,3\n",
            "k,x,c,late\n3,4,a,1\n3,5,a,1\n3,5,a,1\n3,7,a,1\n3,9,a,1\n",
        ];
        let found = measured(&config(&["x", "k"]), &texts).unwrap();
        let (mean, std) = found[0];
        // Eight steps of rounding, each by at most half of 2^-52 of a number below 16.
        assert!((mean.unwrap() - 5.0).abs() < 1e-13 && (std.unwrap() - 2.0).abs() < 1e-13);
        assert_eq!(found[1], (Some(3.0), Some(1.0)), "a constant column");
    }

    #[test]
    fn what_the_config_says_is_kept() {
        let mut config = config(&["x"]);
        let text = "late,c,x\n0,a,1\n0,a,3\n";
        config.numeric = vec![Column::Numeric(NumericColumn {
            name: "x".into(),
            transform: Transform::Standardize,
            mean: Some(10.0),
            std: None,
        })];
        assert_eq!(
            measured(&config, &[text]).unwrap(),
            [(Some(10.0), Some(1.0))]
        );
        config.numeric = vec![Column::Plain("x".into())];
        assert_eq!(measured(&config, &[text]).unwrap(), [(None, None)]);
    }

    #[test]
    fn only_the_first_rows_are_measured() {
        let mut text = String::from("late,c,x\n");
        text.push_str(&"0,a,1\n".repeat(ROWS));
        text.push_str("0,a,999\n");
        assert_eq!(
            measured(&config(&["x"]), &[&text]).unwrap(),
            [(Some(1.0), Some(1.0))]
        );
    }

    #[test]
    fn a_column_without_values_is_an_error() {
        let error = measured(&config(&["x"]), &["late,c,x\n0,a,\n"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "data.numeric: `x` has no value in the first 100000 rows to measure; give its mean and \
             std"
        );
    }
}
