//! Counts in rows of floats: exact whole numbers below 2^72.
//!
//! A row of a counting table has three weights, its limbs: the count in base 2^24, least first. A
//! binary32 holds every whole number up to 2^24, so no limb is ever rounded. A gradient of such a
//! row is what is to be added, in the same form.

/// Weights of a row that counts.
pub const LIMBS: usize = 3;

/// What a limb is below: 2^24, up to which binary32 holds every whole number.
pub const BASE: u32 = 1 << 24;

const BITS: u32 = BASE.trailing_zeros();

/// Reads a row's count; `None` where a limb is not a whole number in `0..2^24`, or there are not
/// three of them.
#[must_use]
pub fn read(row: &[f32]) -> Option<u128> {
    sum(row, BASE - 1)
}

/// Reads what a gradient adds; `None` where a limb is not a whole number in `0..=2^24`, or there
/// are not three of them.
///
/// 2^24 itself is allowed, so that a sum of ones that stops there in binary32 is still one.
#[must_use]
pub fn read_gradient(gradient: &[f32]) -> Option<u128> {
    sum(gradient, BASE)
}

/// Writes a count as limbs. Shape: `[3]`.
///
/// From 2^72 the last limb is 2^24, which [`read`] refuses: a count too large to be held is never
/// taken for a smaller one.
#[expect(
    clippy::cast_possible_truncation,
    reason = "each limb is at most 2^24 where it is narrowed"
)]
pub fn write(count: u128, row: &mut [f32]) {
    let mut rest = count;
    let last = row.len().saturating_sub(1);
    for (i, limb) in row.iter_mut().enumerate() {
        let kept = if i == last {
            rest.min(BASE.into())
        } else {
            rest % u128::from(BASE)
        };
        *limb = kept as u32 as f32;
        rest >>= BITS;
    }
}

fn sum(limbs: &[f32], most: u32) -> Option<u128> {
    if limbs.len() != LIMBS {
        return None;
    }
    limbs.iter().rev().try_fold(0, |sum, &limb| {
        Some((sum << BITS) + u128::from(whole(limb, most)?))
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number from 0 to `most`"
)]
fn whole(limb: f32, most: u32) -> Option<u32> {
    // NaN and the infinities are in no range.
    ((0.0..=most as f32).contains(&limb) && limb.fract() == 0.0).then_some(limb as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LARGEST: u128 = (1 << 72) - 1;

    fn written(count: u128) -> [f32; LIMBS] {
        let mut row = [f32::NAN; LIMBS];
        write(count, &mut row);
        row
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(count in 0..=LARGEST, bits in 0u32..73) {
            let count = count >> bits;
            prop_assert_eq!(read(&written(count)), Some(count));
            prop_assert_eq!(read_gradient(&written(count)), Some(count));
        }
    }

    #[test]
    fn limbs_are_in_base_two_to_the_24_least_first() {
        assert_eq!(written(0), [0.0, 0.0, 0.0]);
        assert_eq!(written(16_777_215), [16_777_215.0, 0.0, 0.0]);
        assert_eq!(written(1 << 24), [0.0, 1.0, 0.0]);
        assert_eq!(written((1 << 48) + (5 << 24) + 7), [7.0, 5.0, 1.0]);
        assert_eq!(written(LARGEST), [16_777_215.0; 3]);
    }

    #[test]
    fn a_count_that_is_too_large_is_no_count() {
        assert_eq!(written(LARGEST + 1), [0.0, 0.0, 16_777_216.0]);
        for count in [LARGEST + 1, LARGEST + 2, u128::MAX] {
            assert_eq!(read(&written(count)), None);
        }
    }

    #[test]
    fn what_is_no_whole_number_is_no_count() {
        for limb in [-1.0, 0.5, 1e-30, f32::NAN, f32::INFINITY, 16_777_218.0] {
            for place in 0..LIMBS {
                let mut row = [1.0; LIMBS];
                row[place] = limb;
                assert_eq!((read(&row), read_gradient(&row)), (None, None), "{row:?}");
            }
        }
        assert_eq!(read(&[1.0, 1.0]), None);
        assert_eq!(read(&[1.0; 4]), None);
    }

    #[test]
    fn a_gradient_may_have_a_full_limb_and_a_row_may_not() {
        let full = [16_777_216.0, 0.0, 0.0];
        assert_eq!(read_gradient(&full), Some(1 << 24));
        assert_eq!(read(&full), None);
    }
}
