//! What a label and a weight may be.

use super::number::{float, narrow, small_float};
use super::parser::shown;

/// Which labels a loss takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelRule {
    /// 0 and 1; -1 and +1 are read as 0 and 1.
    Binary,
    /// Whole numbers from 0, below the number of classes.
    Classes(u32),
    /// Any finite number.
    Real,
}

impl std::fmt::Display for LabelRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Binary => write!(f, "0 and 1, or -1 and +1"),
            Self::Classes(n) => write!(f, "whole numbers from 0 to {}", n.saturating_sub(1)),
            Self::Real => write!(f, "finite numbers"),
        }
    }
}

/// Reads labels and weights.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    rule: LabelRule,
    positive: Option<Vec<u8>>,
}

impl Labels {
    /// Reads labels that are numbers.
    pub(super) fn numbers(rule: LabelRule) -> Self {
        Self {
            rule,
            positive: None,
        }
    }

    /// Reads one name as 1 and every other as 0, where a name is given; else numbers.
    pub(super) fn names(rule: LabelRule, positive: Option<&str>) -> Self {
        Self {
            rule,
            positive: positive.map(|name| name.as_bytes().to_vec()),
        }
    }

    /// Reads a label.
    ///
    /// # Errors
    /// What is wrong with it, and which labels the loss takes.
    pub(super) fn read(&self, text: &[u8]) -> Result<f32, String> {
        if let Some(positive) = &self.positive {
            return Ok(f32::from(u8::from(text == positive.as_slice())));
        }
        let Some(value) = float(text) else {
            return Err(format!(
                "label {} is not a number; {}",
                shown(text),
                self.taken()
            ));
        };
        let label = match self.rule {
            LabelRule::Binary if value == 1.0 => Some(1.0),
            LabelRule::Binary if value == 0.0 || value == -1.0 => Some(0.0),
            LabelRule::Classes(n)
                if value >= 0.0 && value < f64::from(n) && value.fract() == 0.0 =>
            {
                narrow(value)
            }
            LabelRule::Real => narrow(value),
            LabelRule::Binary | LabelRule::Classes(_) => None,
        };
        label.ok_or_else(|| format!("label {} is out of range; {}", shown(text), self.taken()))
    }

    /// Reads an example's weight: finite, 0 or more.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn weight(text: &[u8]) -> Result<f32, String> {
        small_float(text)
            .filter(|&weight| weight >= 0.0)
            .ok_or_else(|| format!("weight {} is not a number of 0 or more", shown(text)))
    }

    fn taken(&self) -> String {
        format!("the loss takes {}", self.rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_what_the_loss_takes() {
        let read = |rule, text: &str| Labels::numbers(rule).read(text.as_bytes());
        for (text, label) in [
            ("0", 0.0),
            ("1", 1.0),
            ("-1", 0.0),
            ("+1", 1.0),
            ("1.0", 1.0),
        ] {
            assert_eq!(read(LabelRule::Binary, text), Ok(label), "{text}");
        }
        assert_eq!(read(LabelRule::Classes(10), "9"), Ok(9.0));
        assert_eq!(read(LabelRule::Real, "-2.5"), Ok(-2.5));
        for (rule, text, what) in [
            (
                LabelRule::Binary,
                "2",
                "label `2` is out of range; the loss takes 0 and 1, or -1 and +1",
            ),
            (
                LabelRule::Binary,
                "yes",
                "label `yes` is not a number; the loss takes 0 and 1, or -1 and +1",
            ),
            (
                LabelRule::Classes(10),
                "10",
                "label `10` is out of range; the loss takes whole numbers from 0 to 9",
            ),
            (
                LabelRule::Classes(10),
                "0.5",
                "label `0.5` is out of range; the loss takes whole numbers from 0 to 9",
            ),
            (
                LabelRule::Real,
                "nan",
                "label `nan` is not a number; the loss takes finite numbers",
            ),
            (
                LabelRule::Real,
                "1e39",
                "label `1e39` is out of range; the loss takes finite numbers",
            ),
        ] {
            assert_eq!(read(rule, text), Err(what.into()));
        }
    }

    #[test]
    fn a_name_counts_as_one_and_the_rest_as_zero() {
        let labels = Labels::names(LabelRule::Binary, Some(">50K"));
        assert_eq!(labels.read(b">50K"), Ok(1.0));
        assert_eq!(labels.read(b"<=50K"), Ok(0.0));
    }

    #[test]
    fn weights_are_not_negative() {
        assert_eq!(Labels::weight(b"0"), Ok(0.0));
        assert_eq!(Labels::weight(b"2.5"), Ok(2.5));
        for text in ["-1", "nan", "inf", "x", ""] {
            let what = format!("weight `{text}` is not a number of 0 or more");
            assert_eq!(Labels::weight(text.as_bytes()), Err(what));
        }
    }
}
