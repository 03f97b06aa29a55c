//! Sizes and times as people write them: "64MiB", "5s", "10m".

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A number of bytes, written "512", "64KiB", "1.5GiB" or "10MB".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(u64);

/// A length of time, written "250ms", "5s", "10m", "2h" or "7d".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(Duration);

/// How often something happens: by time, written "10m", or by what was learnt since, written
/// "5000000 examples".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Every {
    /// After so much time.
    Time(Span),
    /// After so many examples.
    Examples(u64),
}

const SIZES: [(&str, u64); 9] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TiB", 1 << 40),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
    ("", 1),
];

const SPANS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

impl Size {
    /// So many MiB.
    #[must_use]
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// So many bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Span {
    /// So many seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The length of time.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl Every {
    /// Whether it would never rest.
    #[must_use]
    pub fn is_zero(self) -> bool {
        matches!(self, Self::Time(Span(Duration::ZERO)) | Self::Examples(0))
    }
}

/// Reads `NUMBER UNIT` with at most three decimals, exactly.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let scale = units.iter().find(|(name, _)| *name == unit)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.len() > 3 || whole.is_empty() {
        return None;
    }
    let thousandths: u64 = format!("{fraction:0<3}").parse().ok()?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    whole.checked_add(scale.checked_mul(thousandths)? / 1000)
}

/// Writes with the largest unit that divides the number.
fn largest(value: u64, units: &[(&'static str, u64)]) -> (u64, &'static str) {
    let mut best = ("", 1);
    for &(name, scale) in units {
        if !name.is_empty() && value.is_multiple_of(scale) && scale >= best.1 {
            best = (name, scale);
        }
    }
    (value / best.1, best.0)
}

impl FromStr for Size {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        scaled(text, &SIZES).map(Self).ok_or_else(|| {
            format!("`{text}` is not a size such as \"64MiB\", \"512KiB\" or \"10MB\"")
        })
    }
}

impl FromStr for Every {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let examples = text
            .strip_suffix("examples")
            .and_then(|n| n.trim().parse().ok());
        match (examples, text.parse()) {
            (Some(examples), _) => Ok(Self::Examples(examples)),
            (None, Ok(span)) => Ok(Self::Time(span)),
            (None, Err(_)) => Err(format!(
                "`{text}` is neither a time such as \"10m\" nor a number of examples such as \
                 \"5000000 examples\""
            )),
        }
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(span) => span.fmt(f),
            Self::Examples(examples) => write!(f, "{examples} examples"),
        }
    }
}

impl FromStr for Span {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        scaled(text, &SPANS)
            .map(|ms| Self(Duration::from_millis(ms)))
            .ok_or_else(|| format!("`{text}` is not a time such as \"250ms\", \"5s\" or \"10m\""))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = largest(self.0, &[SIZES[7], SIZES[2], SIZES[1], SIZES[0], SIZES[3]]);
        write!(f, "{value}{unit}")
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let (value, unit) = largest(ms, &SPANS);
        write!(f, "{value}{unit}")
    }
}

macro_rules! as_text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    };
}

as_text!(Size);
as_text!(Span);
as_text!(Every);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_exactly() {
        let size = |t: &str| t.parse::<Size>().map(Size::bytes);
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("1.5 KiB"), Ok(1536));
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("10MB"), Ok(10_000_000));
        for bad in [
            "",
            "MiB",
            "1.2345MiB",
            "-1B",
            "5 apples",
            "99999999999TiB",
            ".",
        ] {
            assert!(size(bad).is_err(), "{bad}");
        }
        let span = |t: &str| t.parse::<Span>().map(Span::duration);
        assert_eq!(span("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(span("10m"), Ok(Duration::from_secs(600)));
        assert!(span("10").is_err());
    }

    #[test]
    fn what_is_written_is_read_back() {
        for bytes in [0, 1, 1000, 1024, 1536, 64 << 20, (1 << 40) + (1 << 30)] {
            let size = Size(bytes);
            assert_eq!(size.to_string().parse(), Ok(size), "{size}");
        }
        for ms in [0, 1, 999, 1000, 90_000, 3_600_000, 86_400_000] {
            let span = Span(Duration::from_millis(ms));
            assert_eq!(span.to_string().parse(), Ok(span), "{span}");
        }
    }
}
