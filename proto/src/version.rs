//! Which versions of the protocol this build speaks.

use tonic::metadata::{MetadataMap, MetadataValue};

use crate::error::{ErrorKind, WireError};
use crate::v1::ProtocolRange;

/// The versions that this build speaks.
pub const SPOKEN: ProtocolRange = ProtocolRange { min: 1, max: 1 };

/// The metadata key that names the caller's versions on the data plane, `MIN-MAX`.
pub const METADATA: &str = "windlass-protocol";

/// Finds the newest version that both sides speak.
///
/// # Errors
/// [`ErrorKind::Version`], naming both ranges, when there is none.
pub fn agree(theirs: ProtocolRange) -> Result<u32, WireError> {
    let newest = SPOKEN.max.min(theirs.max);
    if newest >= SPOKEN.min.max(theirs.min) {
        return Ok(newest);
    }
    Err(WireError::new(
        ErrorKind::Version,
        format!(
            "the caller speaks protocol versions {}-{}, this side {}-{}; run the same release of \
             windlass on both",
            theirs.min, theirs.max, SPOKEN.min, SPOKEN.max
        ),
    ))
}

/// Writes [`SPOKEN`] into a request's metadata.
pub fn announce(metadata: &mut MetadataMap) {
    announce_range(metadata, SPOKEN);
}

/// Writes a range into a request's metadata.
pub fn announce_range(metadata: &mut MetadataMap, range: ProtocolRange) {
    // Digits and a dash are always a valid value.
    if let Ok(value) = MetadataValue::try_from(format!("{}-{}", range.min, range.max)) {
        metadata.insert(METADATA, value);
    }
}

/// Reads a request's metadata and finds the newest version that both sides speak.
///
/// # Errors
/// [`ErrorKind::Version`] when there is none, or the caller names none.
pub fn agree_by_metadata(metadata: &MetadataMap) -> Result<u32, WireError> {
    let announced = metadata.get(METADATA).and_then(|v| v.to_str().ok());
    let range = announced.and_then(|text| {
        let (min, max) = text.split_once('-')?;
        Some(ProtocolRange {
            min: min.parse().ok()?,
            max: max.parse().ok()?,
        })
    });
    match range {
        Some(range) => agree(range),
        None => Err(WireError::new(
            ErrorKind::Version,
            format!(
                "the caller names no protocol versions (metadata `{METADATA}`: MIN-MAX), this side \
                 speaks {}-{}",
                SPOKEN.min, SPOKEN.max
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_taken() {
        let range = |min, max| agree(ProtocolRange { min, max });
        assert_eq!(range(1, 1), Ok(1));
        assert_eq!(range(0, 9), Ok(1));
        let error = range(7, 9).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Version);
        assert!(error.message.contains("7-9") && error.message.contains("1-1"));
        assert!(range(0, 0).is_err());
        assert!(range(9, 1).is_err(), "an empty range has no version");
    }

    #[test]
    fn what_is_announced_is_agreed_on() {
        let mut metadata = MetadataMap::new();
        assert!(agree_by_metadata(&metadata).is_err());
        announce(&mut metadata);
        assert_eq!(agree_by_metadata(&metadata), Ok(SPOKEN.max));
        for bad in ["", "1", "one-two", "1-", "-1", "1-1-1"] {
            metadata.insert(METADATA, bad.parse().unwrap());
            let error = agree_by_metadata(&metadata).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Version, "{bad}");
        }
    }
}
