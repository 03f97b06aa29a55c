//! Criteo's click logs: a label, 13 numbers `I1..I13`, 26 categories `C1..C26`, tab-separated.

use memchr::memchr_iter;
use windlass_common::batch::Batch;
use windlass_common::config::CriteoNumbers;
use windlass_common::key::Key;

use super::features::{Feature, Reading, Rule};
use super::labels::Labels;
use super::number::Decimal;
use super::parser::{BadField, Parsed, RowParser};

const NUMBERS: u16 = 13;
const CATEGORIES: u16 = 26;
const FIELDS: usize = 1 + NUMBERS as usize + CATEGORIES as usize;

/// Reads Criteo's lines; an empty field is missing. The fields of features are 0 to 38.
#[derive(Debug)]
pub(super) struct CriteoParser {
    labels: Labels,
    features: Vec<Feature>,
    decimal: Decimal,
}

impl CriteoParser {
    /// Reads lines whose labels follow a rule and whose numbers become what the config says.
    pub(super) fn new(labels: Labels, numbers: CriteoNumbers) -> Self {
        let rule = match numbers {
            CriteoNumbers::Log1p => Rule::Log1p,
            CriteoNumbers::Bucket => Rule::SquaredLog,
        };
        let number = |i: u16| Feature::new(&format!("I{}", i + 1), i, rule);
        let category = |i: u16| Feature::new(&format!("C{}", i + 1), NUMBERS + i, Rule::Name);
        Self {
            labels,
            features: (0..NUMBERS)
                .map(number)
                .chain((0..CATEGORIES).map(category))
                .collect(),
            decimal: Decimal::default(),
        }
    }

    /// Hands each feature of a line to `visit`.
    fn each(
        &mut self,
        line: &[u8],
        bounds: &Bounds,
        mut visit: impl FnMut(&Feature, Reading<'_>),
    ) -> Result<(), BadField> {
        for (i, feature) in self.features.iter().enumerate() {
            let text = bounds.text(line, i + 1);
            let reading = if text.is_empty() {
                Reading::Missing
            } else {
                let read = feature.read(text, &mut self.decimal);
                read.map_err(|what| BadField::at(bounds.starts[i + 1], what))?
            };
            visit(feature, reading);
        }
        Ok(())
    }
}

impl RowParser for CriteoParser {
    fn parse(&mut self, line: &[u8], out: &mut Batch) -> Result<Parsed, BadField> {
        if line.is_empty() {
            return Ok(Parsed::Nothing);
        }
        let bounds = Bounds::of(line)?;
        let label = self.labels.read(bounds.text(line, 0));
        let label = label.map_err(|what| BadField::at(0, what))?;
        self.each(line, &bounds, |feature, reading| feature.push(reading, out))?;
        out.finish_example(label, 1.0);
        Ok(Parsed::Example)
    }

    fn describe(&mut self, line: &[u8], visit: &mut dyn FnMut(Key, &str)) -> Result<(), BadField> {
        if line.is_empty() {
            return Ok(());
        }
        let mut name = String::new();
        self.each(line, &Bounds::of(line)?, |feature, reading| {
            name.clear();
            feature.describe(reading, &mut name);
            visit(feature.key(reading), &name);
        })
    }
}

/// Where a line's 40 fields begin; a tab, or the line's end, is before the next one.
struct Bounds {
    starts: [usize; FIELDS + 1],
}

impl Bounds {
    fn of(line: &[u8]) -> Result<Self, BadField> {
        let mut starts = [0; FIELDS + 1];
        let mut count = 0;
        for end in memchr_iter(b'\t', line).chain([line.len()]) {
            count += 1;
            if count <= FIELDS {
                starts[count] = end + 1;
            }
        }
        if count == FIELDS {
            return Ok(Self { starts });
        }
        let at = if count < FIELDS {
            line.len()
        } else {
            starts[FIELDS]
        };
        let what = format!("the row has {count} fields, Criteo's format has {FIELDS}");
        Err(BadField::at(at, what))
    }

    fn text<'a>(&self, line: &'a [u8], field: usize) -> &'a [u8] {
        &line[self.starts[field]..self.starts[field + 1] - 1]
    }
}

#[cfg(test)]
mod tests {
    use windlass_common::key::FieldSeed;

    use super::super::fixture::{describe, parse};
    use super::super::labels::LabelRule;
    use super::*;

    fn parser(numbers: CriteoNumbers) -> CriteoParser {
        CriteoParser::new(Labels::numbers(LabelRule::Binary), numbers)
    }

    /// `label`, then these numbers and categories, and as many empty fields as are wanted.
    fn line(label: &str, numbers: &[&str], categories: &[&str]) -> String {
        let mut fields = vec![""; FIELDS];
        fields[0] = label;
        fields[1..=numbers.len()].copy_from_slice(numbers);
        fields[14..14 + categories.len()].copy_from_slice(categories);
        fields.join("\t")
    }

    #[test]
    fn a_row_has_39_features_with_the_keys_that_every_language_computes() {
        let line = line("1", &["3", "-1", ""], &["68fd1e64", ""]);
        let batch = parse(&mut parser(CriteoNumbers::Bucket), line.as_bytes()).unwrap();
        let field = FieldSeed::new;
        assert_eq!(batch.labels, [1.0]);
        assert_eq!(batch.fields, (0..39).collect::<Vec<u16>>());
        assert_eq!(batch.values, [1.0; 39]);
        assert_eq!(batch.keys[0], field("I1").value(b"1"));
        assert_eq!(batch.keys[1], field("I2").value(b"SP-1"));
        assert_eq!(batch.keys[2], field("I3").missing());
        assert_eq!(batch.keys[13], Key(0xbb7b_4148_340a_c23e));
        assert_eq!(batch.keys[38], field("C26").missing());
    }

    #[test]
    fn logarithms_are_weights_of_their_column() {
        let line = line("0", &["0", "1.718281828459045", ""], &[]);
        let batch = parse(&mut parser(CriteoNumbers::Log1p), line.as_bytes()).unwrap();
        assert_eq!(batch.values[..3], [0.0, 1.0, 1.0]);
        assert_eq!(batch.keys[1], FieldSeed::new("I2").number());
        assert_eq!(batch.keys[2], FieldSeed::new("I3").missing());
    }

    #[test]
    fn features_are_described() {
        let line = line("?", &["3"], &["68fd1e64"]);
        let names = describe(&mut parser(CriteoNumbers::Bucket), line.as_bytes()).unwrap();
        assert_eq!(names.len(), 39);
        assert_eq!(names[0].1, "I1=1");
        assert_eq!(names[1].1, "I2=(missing)");
        assert_eq!(
            names[13],
            (Key(0xbb7b_4148_340a_c23e), "C1=68fd1e64".to_owned())
        );
        let names = describe(&mut parser(CriteoNumbers::Log1p), line.as_bytes()).unwrap();
        assert_eq!(names[0].1, "I1");
    }

    #[test]
    fn bad_fields_are_named_with_their_place() {
        let bad = |line: &str| {
            let bad = parse(&mut parser(CriteoNumbers::Bucket), line.as_bytes()).unwrap_err();
            (bad.column, bad.what)
        };
        let number = line("1", &["3", "x"], &[]);
        assert_eq!(bad(&number), (5, "I2 `x` is not a number".into()));
        assert_eq!(
            bad("1\t2"),
            (4, "the row has 2 fields, Criteo's format has 40".into())
        );
        let long = line("1", &[], &[]) + "\tx\ty";
        assert_eq!(
            bad(&long),
            (42, "the row has 42 fields, Criteo's format has 40".into())
        );
    }
}
