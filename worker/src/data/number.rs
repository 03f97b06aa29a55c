//! Numbers from bytes, without allocation, and whole numbers back to bytes.

/// Powers of ten that an `f64` holds exactly, as far as short decimals need them.
const POWERS: [f64; 17] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
];

/// Reads a finite number, correctly rounded, as `str::parse` does.
pub(super) fn float(text: &[u8]) -> Option<f64> {
    if let Some(value) = short_decimal(text) {
        return Some(value);
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// Reads a number that a 32-bit float can hold; of its two roundings the first is to 64 bits.
pub(super) fn small_float(text: &[u8]) -> Option<f32> {
    float(text).and_then(narrow)
}

/// Rounds to 32 bits; `None` beyond their range.
#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to the nearest 32-bit float is what is wanted, and overflow is caught"
)]
pub(super) fn narrow(value: f64) -> Option<f32> {
    let narrow = value as f32;
    narrow.is_finite().then_some(narrow)
}

/// Rounds down to a whole number; `None` where that has no 64 bits.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the range is checked: -2^63 and 2^63 are exact as f64"
)]
pub(super) fn floor(value: f64) -> Option<i64> {
    let whole = value.floor();
    let limit = 9_223_372_036_854_775_808.0;
    (-limit <= whole && whole < limit).then_some(whole as i64)
}

/// Reads decimal digits alone.
pub(super) fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Reads `-?digits[.digits]` of up to 16 characters whose digits are at most 2^53.
///
/// Both the digits and the power of ten are exact then, so that one division rounds once
/// (Clinger 1990, "How to read floating point numbers accurately": the fast path).
fn short_decimal(text: &[u8]) -> Option<f64> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if text.len() > 16 {
        return None;
    }
    let (mut digits, mut count, mut decimals) = (0u64, 0usize, None);
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            digits = digits * 10 + u64::from(digit);
            count += 1;
        } else if byte == b'.' && decimals.is_none() {
            decimals = Some(count);
        } else {
            return None;
        }
    }
    if count == 0 || digits > 1 << 53 {
        return None;
    }
    let value = digits as f64 / POWERS[count - decimals.unwrap_or(count)];
    Some(if negative { -value } else { value })
}

/// Room for a whole number in decimal behind a short prefix.
#[derive(Clone, Debug, Default)]
pub(super) struct Decimal {
    bytes: [u8; 24],
}

impl Decimal {
    /// Writes a number behind a prefix of at most 4 bytes.
    pub(super) fn write(&mut self, prefix: &[u8], number: i64) -> &[u8] {
        debug_assert!(prefix.len() <= 4, "19 digits and a sign leave 4 bytes");
        let mut at = self.bytes.len();
        let mut rest = number.unsigned_abs();
        loop {
            at -= 1;
            self.bytes[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            at -= 1;
            self.bytes[at] = b'-';
        }
        for &byte in prefix.iter().rev() {
            at -= 1;
            self.bytes[at] = byte;
        }
        &self.bytes[at..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check_like_the_standard_library(text: &str) {
        let expected = text.parse::<f64>().ok().filter(|x| x.is_finite());
        let found = float(text.as_bytes());
        assert_eq!(
            found.map(f64::to_bits),
            expected.map(f64::to_bits),
            "{text:?}"
        );
    }

    #[test]
    fn odd_spellings_are_read_like_the_standard_library_does() {
        for text in [
            "0",
            "-0",
            "1.",
            ".5",
            "-.5",
            ".",
            "-",
            "",
            "+1",
            "1e5",
            "1e400",
            "nan",
            "inf",
            "--1",
            "1.2.3",
            "9007199254740993",
            "9007199254740992",
            "0.1",
            "12.658579999999999",
            " 1",
            "0x10",
            "1_000",
            "0000000000000000001",
            "123456789012345.6",
        ] {
            check_like_the_standard_library(text);
        }
    }

    proptest! {
        #[test]
        fn decimals_are_read_like_the_standard_library_does(
            text in "[-+]?[0-9]{0,20}\\.?[0-9]{0,20}(e-?[0-9]{1,3})?",
        ) {
            check_like_the_standard_library(&text);
        }

        #[test]
        fn any_float_is_read_back(value in prop::num::f64::NORMAL) {
            prop_assert_eq!(float(value.to_string().as_bytes()), Some(value));
        }

        #[test]
        fn whole_numbers_are_read_and_written_like_the_standard_library_does(
            number: i64,
            text in "[0-9]{0,22}",
        ) {
            let mut decimal = Decimal::default();
            let expected = format!("SP{number}");
            prop_assert_eq!(decimal.write(b"SP", number), expected.as_bytes());
            prop_assert_eq!(whole(text.as_bytes()), text.parse().ok());
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(whole(b"+1"), None);
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(whole(b"18446744073709551616"), None);
        assert_eq!(small_float(b"3.5e38"), None);
        assert_eq!(small_float(b"0.1"), Some(0.1));
        assert_eq!(floor(-1.5), Some(-2));
        assert_eq!(floor(9.3e18), None);
        assert_eq!(
            Decimal::default().write(b"", i64::MIN),
            b"-9223372036854775808"
        );
    }
}
