//! The store of checkpoints that a config names: a folder, or with the feature `s3` a bucket.

#[cfg(feature = "s3")]
mod s3;

#[cfg(feature = "s3")]
pub use s3::S3Objects;

use std::sync::Arc;

use windlass_common::id::Boot;
use windlass_common::runtime::{Disk, FolderObjects, Objects};

use crate::error::Error;

/// Opens a store by its place in a config: `s3://BUCKET/PREFIX`, else the path of a folder. `life`
/// is the writer's own (see [`FolderObjects::new`]).
///
/// # Errors
/// [`Error::NoStore`] for a place that this build cannot reach, [`Error::Store`] for a bucket that
/// its environment does not fit. Nothing is read yet: what cannot be reached is told by the first
/// call.
pub fn open_store(disk: Arc<dyn Disk>, place: &str, life: Boot) -> Result<Arc<dyn Objects>, Error> {
    match place.split_once("://") {
        None => Ok(Arc::new(FolderObjects::new(disk, place.into(), life))),
        #[cfg(feature = "s3")]
        Some(("s3", _)) => match S3Objects::open(place) {
            Ok(objects) => Ok(Arc::new(objects)),
            Err(why) => Err(Error::Store {
                place: place.to_owned(),
                why,
            }),
        },
        Some((scheme, _)) => Err(Error::NoStore {
            scheme: scheme.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use windlass_common::runtime::StdDisk;

    use super::*;

    #[test]
    fn a_place_is_a_folder_or_of_a_kind_that_is_known() {
        let open = |place| {
            open_store(Arc::new(StdDisk), place, Boot(1)).map(|objects| objects.to_string())
        };
        assert_eq!(open("data/checkpoints").unwrap(), "data/checkpoints");
        assert!(matches!(
            open("gs://bucket/x"),
            Err(Error::NoStore { scheme }) if scheme == "gs"
        ));
        #[cfg(not(feature = "s3"))]
        assert!(matches!(open("s3://bucket/x"), Err(Error::NoStore { .. })));
        #[cfg(feature = "s3")]
        assert!(matches!(open("s3://"), Err(Error::Store { .. })));
    }
}
