//! Rules of `[data]`.

use std::collections::HashSet;

use super::require;
use crate::config::{
    Column, ConfigError, CriteoNumbers, DataConfig, Format, NumericColumn, Transform,
};
use crate::human::Size;
use crate::tally::Task;

impl DataConfig {
    pub(super) fn validate(&self, task: Task) -> Result<(), ConfigError> {
        require(
            !self.train.is_empty(),
            "data.train",
            || "there is nothing to train on: name files, such as [\"train/*.csv.gz\"]",
        )?;
        for (key, size) in [
            ("data.split_size", self.split_size),
            ("data.max_line", Some(self.max_line)),
        ] {
            let holds = size.is_none_or(|size| size > Size::default());
            require(holds, key, || "must be above 0")?;
        }
        self.validate_format()?;
        if self.format != Format::Csv {
            return Ok(());
        }
        self.validate_text()?;
        self.validate_label(task)?;
        self.validate_features()?;
        self.validate_crosses()
    }

    /// Refuses keys that the format does not look at.
    fn validate_format(&self) -> Result<(), ConfigError> {
        let default = Self::default();
        let of_csv = [
            ("label", self.label.is_some()),
            ("positive", self.positive.is_some()),
            ("weight", self.weight.is_some()),
            ("categorical", !self.categorical.is_empty()),
            ("numeric", !self.numeric.is_empty()),
            ("crosses", !self.crosses.is_empty()),
            ("delimiter", self.delimiter != default.delimiter),
            ("header", self.header != default.header),
            ("columns", !self.columns.is_empty()),
            ("missing", self.missing != default.missing),
            ("trim", self.trim != default.trim),
        ];
        let of_csv = of_csv.map(|(key, set)| (key, set, Format::Csv));
        let numbers = self.criteo_numbers != CriteoNumbers::default();
        let of_criteo = [("criteo_numbers", numbers, Format::Criteo)];
        for (key, set, format) in of_csv.into_iter().chain(of_criteo) {
            require(
                !set || self.format == format,
                &format!("data.{key}"),
                || {
                    let (wanted, is) = (format.name(), self.format.name());
                    format!(
                        "is for {wanted}, and data.format is {is}: drop it, or set data.format = \
                     \"{wanted}\""
                    )
                },
            )?;
        }
        Ok(())
    }

    /// Checks how lines are cut into named columns.
    fn validate_text(&self) -> Result<(), ConfigError> {
        let delimiter = self.delimiter;
        let holds = delimiter.is_ascii() && !['\n', '\r', '"'].contains(&delimiter);
        require(holds, "data.delimiter", || {
            format!("{delimiter:?} is not one ASCII character other than a quote or a line's end")
        })?;
        require(
            self.header || !self.columns.is_empty(),
            "data.columns",
            || "without a header the columns need names: list them in order, or set data.header = true",
        )?;
        let mut seen = HashSet::new();
        for (i, name) in self.columns.iter().enumerate() {
            require(seen.insert(name), &format!("data.columns[{i}]"), || {
                format!("`{name}` is named twice")
            })?;
        }
        Ok(())
    }

    fn validate_label(&self, task: Task) -> Result<(), ConfigError> {
        let Some(label) = &self.label else {
            return require(
                false,
                "data.label",
                || "csv needs the column that is learnt: set data.label",
            );
        };
        self.require_column(label, "data.label")?;
        if let Some(weight) = &self.weight {
            self.require_column(weight, "data.weight")?;
            require(weight != label, "data.weight", || {
                format!("`{weight}` is the label")
            })?;
        }
        let fits = self.positive.is_none() || task == Task::Binary;
        require(
            fits,
            "data.positive",
            || "only models with a binary label (logistic, fm) have positives: drop it",
        )
    }

    fn validate_features(&self) -> Result<(), ConfigError> {
        let any = !self.categorical.is_empty() || !self.numeric.is_empty();
        require(
            any,
            "data.categorical",
            || "csv needs features: name columns in data.categorical or data.numeric",
        )?;
        let categorical = self.categorical.iter().map(String::as_str).enumerate();
        let categorical = categorical.map(|(i, name)| (format!("data.categorical[{i}]"), name));
        let numeric = self.numeric.iter().map(Column::name).enumerate();
        let numeric = numeric.map(|(i, name)| (format!("data.numeric[{i}]"), name));
        let mut seen = HashSet::new();
        for (key, name) in categorical.chain(numeric) {
            require(!name.is_empty(), &key, || "needs the name of a column")?;
            require(seen.insert(name), &key, || {
                format!("`{name}` is declared twice")
            })?;
            require(self.label.as_deref() != Some(name), &key, || {
                format!("`{name}` is the label: a model that sees it learns nothing else")
            })?;
            require(self.weight.as_deref() != Some(name), &key, || {
                format!("`{name}` is the weight")
            })?;
            self.require_column(name, &key)?;
        }
        for (i, column) in self.numeric.iter().enumerate() {
            if let Column::Numeric(column) = column {
                validate_numeric(column, &format!("data.numeric[{i}]"))?;
            }
        }
        Ok(())
    }

    fn validate_crosses(&self) -> Result<(), ConfigError> {
        for (i, parts) in self.crosses.iter().enumerate() {
            let key = format!("data.crosses[{i}]");
            require((2..=8).contains(&parts.len()), &key, || {
                format!("a cross has 2 to 8 columns, this one {}", parts.len())
            })?;
            for (j, part) in parts.iter().enumerate() {
                let key = format!("{key}[{j}]");
                require(!parts[..j].contains(part), &key, || {
                    format!("`{part}` is crossed with itself")
                })?;
                require(self.has_categories(part), &key, || {
                    format!(
                        "`{part}` has no categories: declare it in data.categorical, or in \
                         data.numeric with transform = \"bucket(WIDTH)\""
                    )
                })?;
            }
            require(
                !self.crosses[..i].contains(parts),
                &key,
                || "is declared twice",
            )?;
        }
        Ok(())
    }

    fn has_categories(&self, name: &str) -> bool {
        let bucket = |c: &Column| matches!(c.transform(), Transform::Bucket { .. });
        self.categorical.iter().any(|column| column == name)
            || self
                .numeric
                .iter()
                .any(|column| column.name() == name && bucket(column))
    }

    /// A name must be among `columns`, if there are any; a header is known only when it is read.
    fn require_column(&self, name: &str, key: &str) -> Result<(), ConfigError> {
        let known = self.columns.is_empty() || self.columns.iter().any(|column| column == name);
        require(known, key, || format!("`{name}` is not in data.columns"))
    }
}

fn validate_numeric(column: &NumericColumn, key: &str) -> Result<(), ConfigError> {
    let standardize = column.transform == Transform::Standardize;
    for (field, value) in [("mean", column.mean), ("std", column.std)] {
        let key = format!("{key}.{field}");
        require(
            value.is_none() || standardize,
            &key,
            || "is for transform = \"standardize\": set that, or drop it",
        )?;
        let holds = value.is_none_or(|v| v.is_finite() && (field == "mean" || v > 0.0));
        require(holds, &key, || match field {
            "mean" => "must be finite",
            _ => "must be above 0",
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::load::tests::check;

    /// A CSV job; its sixth line is the one that is wrong.
    #[track_caller]
    fn check_csv(line: &str, expected: &str) {
        let text = format!(
            "[data]\nformat = \"csv\"\ntrain = [\"a.csv\"]\nlabel = \"y\"\n\
             categorical = [\"a\", \"b\"]\n{line}\n"
        );
        check(&text, &format!("train.toml:6:{expected}"));
    }

    #[test]
    fn keys_of_another_format_are_refused() {
        let csv = "is for csv, and data.format is libsvm: drop it, or set data.format = \"csv\"";
        for line in [
            "label = \"y\"",
            "positive = \"1\"",
            "weight = \"w\"",
            "categorical = [\"a\"]",
            "numeric = [\"a\"]",
            "crosses = [[\"a\", \"b\"]]",
            "delimiter = \"\\t\"",
            "header = false",
            "columns = [\"a\"]",
            "missing = []",
            "trim = true",
        ] {
            let key = line.split(' ').next().unwrap();
            let text = format!("[data]\ntrain = [\"a\"]\n{line}\n");
            check(&text, &format!("train.toml:3:1: data.{key}: {csv}"));
        }
        check_csv(
            "criteo_numbers = \"log1p\"",
            "1: data.criteo_numbers: is for criteo, and data.format is csv: drop it, or set \
             data.format = \"criteo\"",
        );
    }

    #[test]
    fn csv_needs_a_label_and_features() {
        check(
            "[data]\nformat = \"csv\"\ntrain = [\"a\"]\n",
            "train.toml:1:2: data.label: csv needs the column that is learnt: set data.label",
        );
        check(
            "[data]\nformat = \"csv\"\ntrain = [\"a\"]\nlabel = \"y\"\n",
            "train.toml:1:2: data.categorical: csv needs features: name columns in \
             data.categorical or data.numeric",
        );
    }

    #[test]
    fn lines_can_be_cut_into_named_columns() {
        check_csv(
            "delimiter = \"ä\"",
            "1: data.delimiter: 'ä' is not one ASCII character other than a quote or a line's end",
        );
        check(
            "[data]\nformat = \"csv\"\ntrain = [\"a\"]\nheader = false\n",
            "train.toml:1:2: data.columns: without a header the columns need names: list them in \
             order, or set data.header = true",
        );
        check_csv(
            "columns = [\"y\", \"a\", \"b\", \"a\"]",
            "27: data.columns[3]: `a` is named twice",
        );
        let text = "[data]\nformat = \"csv\"\ntrain = [\"a\"]\nlabel = \"y\"\ncategorical = [\n\
                    \"a\",\n\"b\"]\ncolumns = [\"y\", \"a\"]\n";
        check(
            text,
            "train.toml:7:1: data.categorical[1]: `b` is not in data.columns",
        );
    }

    #[test]
    fn a_column_has_one_purpose() {
        check_csv(
            "numeric = [\"c\", \"b\"]",
            "17: data.numeric[1]: `b` is declared twice",
        );
        check_csv(
            "numeric = [\"y\"]",
            "12: data.numeric[0]: `y` is the label: a model that sees it learns nothing else",
        );
        check_csv(
            "numeric = [{ transform = \"log1p\" }]",
            "12: data.numeric[0]: needs the name of a column",
        );
        check_csv("weight = \"y\"", "1: data.weight: `y` is the label");
        let text = "[data]\nformat = \"csv\"\ntrain = [\"a\"]\nlabel = \"y\"\nweight = \"w\"\n\
                    categorical = [\"w\"]\n";
        check(
            text,
            "train.toml:6:16: data.categorical[0]: `w` is the weight",
        );
    }

    #[test]
    fn positives_are_for_binary_labels() {
        check_csv(
            "positive = \"1\"\n[model]\nkind = \"linear\"",
            "1: data.positive: only models with a binary label (logistic, fm) have positives: drop \
             it",
        );
    }

    #[test]
    fn standardizing_needs_a_width_and_its_transform() {
        check_csv(
            "numeric = [{ name = \"c\", transform = \"standardize\", std = 0 }]",
            "53: data.numeric[0].std: must be above 0",
        );
        check_csv(
            "numeric = [{ name = \"c\", mean = 1.0 }]",
            "26: data.numeric[0].mean: is for transform = \"standardize\": set that, or drop it",
        );
    }

    #[test]
    fn crosses_are_of_two_to_eight_columns_with_categories() {
        check_csv(
            "crosses = [[\"a\", \"b\"], [\"a\"]]",
            "24: data.crosses[1]: a cross has 2 to 8 columns, this one 1",
        );
        check_csv(
            "crosses = [[\"a\", \"a\"]]",
            "18: data.crosses[0][1]: `a` is crossed with itself",
        );
        check_csv(
            "crosses = [[\"a\", \"c\"]]\nnumeric = [\"c\"]",
            "18: data.crosses[0][1]: `c` has no categories: declare it in data.categorical, or in \
             data.numeric with transform = \"bucket(WIDTH)\"",
        );
        check_csv(
            "crosses = [[\"a\", \"b\"], [\"a\", \"b\"]]",
            "24: data.crosses[1]: is declared twice",
        );
    }

    #[test]
    fn sizes_are_above_0() {
        check_csv("max_line = \"0B\"", "1: data.max_line: must be above 0");
        check_csv("split_size = \"0B\"", "1: data.split_size: must be above 0");
    }
}
