//! What a worker may ask for: a registration within the limits.

use windlass_common::coordination::Register;
use windlass_common::split::{InputFile, MAX_SPLITS};
use windlass_proto::{ErrorKind, WireError};

/// Checks a registration by itself, before memory is taken for it.
///
/// # Errors
/// `Invalid` for a name, schema or plan that no job may have, `TooLarge` for more than
/// [`MAX_SPLITS`] splits.
pub(super) fn validate(register: &Register) -> Result<(), WireError> {
    let invalid = |why: String| Err(WireError::new(ErrorKind::Invalid, why));
    let name = register.job.as_str();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || name.len() > 128 || !name.chars().all(plain) {
        return invalid(format!(
            "job name `{name}`: a name has 1 to 128 letters, digits, _ - or ."
        ));
    }
    if let Err(error) = register.schema.validate() {
        return invalid(error.to_string());
    }
    if register.plan.epochs == 0 {
        return invalid(format!("job `{name}`: train.epochs must be 1 or more"));
    }
    if register.recipe.files.is_empty() {
        return invalid(format!("job `{name}`: there are no training files"));
    }
    let inputs = [
        ("data.train", &register.recipe.files),
        ("data.validation", &register.plan.validation),
        ("data.test", &register.plan.test),
    ];
    for (what, files) in inputs {
        let splits = count_splits(files, register.recipe.split_bytes);
        if splits > MAX_SPLITS as u64 {
            let why = format!(
                "job `{name}`: {what} has {splits} splits, at most {MAX_SPLITS} can be led; make \
                 splits larger or files fewer"
            );
            return Err(WireError::new(ErrorKind::TooLarge, why));
        }
    }
    Ok(())
}

/// How many splits [`cut`](windlass_common::split::cut) would make, without making them.
fn count_splits(files: &[InputFile], split_bytes: u64) -> u64 {
    let pieces = |f: &InputFile| match f.divisible {
        true => f.bytes.div_ceil(split_bytes.max(1)).max(1),
        false => 1,
    };
    files.iter().map(pieces).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use windlass_common::split::cut;

    use super::*;

    fn file(name: &str, bytes: u64, divisible: bool) -> InputFile {
        InputFile {
            name: name.into(),
            bytes,
            digest: [7; 32],
            divisible,
        }
    }

    proptest! {
        #[test]
        fn splits_are_counted_as_they_are_cut(
            sizes in prop::collection::vec((0u64..1000, any::<bool>()), 0..5),
            split_bytes in 0u64..300,
        ) {
            let files: Vec<_> = sizes.iter().map(|&(b, d)| file("x", b, d)).collect();
            let expected = cut(&files, split_bytes).len() as u64;
            prop_assert_eq!(count_splits(&files, split_bytes), expected);
        }
    }

    #[test]
    fn sizes_near_the_largest_number_do_not_wrap() {
        let files = vec![file("x", u64::MAX, true); 3];
        assert_eq!(count_splits(&files, 1), u64::MAX);
    }
}
