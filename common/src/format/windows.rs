//! The windows' section of a shard file.
//!
//! Little-endian `u64` words: first four for each open source (number; `next`; `above`; the END
//! push's number or [`NO_END`]), sources ascending; then two for each range of complete sources
//! (first; one past the last), ascending, with gaps between them.

use std::collections::BTreeMap;

use crate::id::{Seq, SourceId};
use crate::interval_set::IntervalSet;
use crate::windows::{MAX_OPEN, WIDTH, Window, Windows};

use super::FormatError;
use super::reader::{Reader, words};

/// Stands for "the END push has not come". No push has this number: `next` is above all of them.
const NO_END: u64 = u64::MAX;

/// Bytes of an open source.
const OPEN_BYTES: u64 = 32;
/// Bytes of a range.
const RANGE_BYTES: u64 = 16;

/// How long the section is, without its checksum.
pub(super) fn section_bytes(open: u64, ranges: u64) -> Option<u64> {
    open.checked_mul(OPEN_BYTES)?
        .checked_add(ranges.checked_mul(RANGE_BYTES)?)
}

/// Appends the section's bytes.
pub(super) fn put(windows: &Windows, out: &mut Vec<u8>) {
    let mut put = |word: u64| out.extend_from_slice(&word.to_le_bytes());
    for (source, window) in windows.open() {
        put(source.0);
        put(window.next.0);
        put(window.above);
        put(window.end.map_or(NO_END, |end| end.0));
    }
    for range in windows.complete().ranges() {
        put(range.start);
        put(range.end);
    }
}

/// Takes the section and checks that windows can be in this state.
pub(super) fn take(
    reader: &mut Reader<'_>,
    open: usize,
    bytes: usize,
) -> Result<Windows, FormatError> {
    let start = reader.at();
    if open > MAX_OPEN {
        return Err(reader.damaged(start, "more sources are open than a shard may have"));
    }
    let section = reader.section(bytes, "the windows' checksum differs")?;
    let mut words = words(section);
    let mut word = || words.next().unwrap_or(NO_END);

    let mut windows = BTreeMap::new();
    for i in 0..open {
        let source = SourceId(word());
        let window = Window {
            next: Seq(word()),
            above: word(),
            end: Some(word()).filter(|&end| end != NO_END).map(Seq),
        };
        let at = start + 32 * i;
        if windows.last_key_value().is_some_and(|(&s, _)| s >= source) {
            return Err(reader.damaged(at, "open sources do not ascend"));
        }
        if let Err(what) = check(&window) {
            return Err(reader.damaged(at, what));
        }
        windows.insert(source, window);
    }

    let ranges_at = start + 32 * open;
    let ranges = (0..(bytes - 32 * open) / 16).map(|_| word()..word());
    let Ok(complete) = IntervalSet::from_ranges(ranges.collect()) else {
        let what = "ranges of complete sources are empty, or do not ascend with gaps between them";
        return Err(reader.damaged(ranges_at, what));
    };
    if windows.keys().any(|source| complete.contains(source.0)) {
        return Err(reader.damaged(ranges_at, "a source is both open and complete"));
    }
    Ok(Windows::from_parts(windows, complete))
}

/// Says what is impossible about a window.
fn check(window: &Window) -> Result<(), &'static str> {
    let next = window.next.0;
    if window.above & 1 != 0 {
        return Err("a window's `next` is applied already");
    }
    if next > u64::MAX - WIDTH {
        return Err("a window's `next` is beyond any push");
    }
    // END is applied itself, and the last of its source: it is the highest bit.
    let ends_with =
        |end: u64| end > next && end - next < WIDTH && window.above >> (end - next) == 1;
    match window.end {
        Some(end) if !ends_with(end.0) => Err("a window's END is not its highest applied push"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(next: u64, above: u64, end: Option<u64>) -> Window {
        Window {
            next: Seq(next),
            above,
            end: end.map(Seq),
        }
    }

    #[test]
    fn only_states_that_pushes_lead_to_are_accepted() {
        for good in [
            window(0, 0, None),
            window(5, 0b110, None),
            window(5, 1 << 63, Some(68)),
            window(u64::MAX - 64, 2, None),
        ] {
            assert_eq!(check(&good), Ok(()), "{good:?}");
        }
        for bad in [
            window(0, 1, None),
            window(u64::MAX - 63, 2, None),
            window(5, 0, Some(4)),
            window(5, 0, Some(5)),
            window(5, 0b10, Some(7)),
            window(5, 0b1010, Some(6)),
            window(5, 1 << 63, Some(69)),
        ] {
            assert!(check(&bad).is_err(), "{bad:?}");
        }
    }
}
