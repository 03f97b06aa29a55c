//! What a job that counts has counted: the sum over all rows, read from every shard.

use std::path::Path;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use windlass_client::client::Client;
use windlass_common::count;
use windlass_common::format::{Checkpoint, ShardImage, decode_shard};
use windlass_common::id::{ShardId, SourceId};
use windlass_common::key::Key;
use windlass_common::runtime::{Pool, offload};

use crate::error::Error;

/// Shards that are held at the same time: enough to hide a round trip.
const AT_ONCE: usize = 4;

/// The sum of a job's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Occurrences of all keys.
    pub total: u128,
    /// Keys that occur.
    pub rows: u64,
}

impl Counted {
    /// Adds up what the servers hold of a finished job: exactly the sources below `end`.
    ///
    /// # Errors
    /// [`Error::Lost`] when a shard holds anything else, [`Error::NoCount`], and whatever keeps a
    /// shard from being read.
    pub async fn of_servers(
        client: &Client,
        pool: &dyn Pool,
        end: SourceId,
    ) -> Result<Self, Error> {
        stream::iter(client.shards().all())
            .map(|shard| of_server(client, pool, shard, end))
            .buffer_unordered(AT_ONCE)
            .try_fold(
                Self::default(),
                |sum, shard| async move { Ok(sum.plus(shard)) },
            )
            .await
    }

    /// Adds up what a checkpoint holds.
    ///
    /// # Errors
    /// [`Error::Common`] for a file that is not whole, [`Error::NoCount`].
    pub fn of_checkpoint(checkpoint: &Checkpoint) -> Result<Self, Error> {
        let mut sum = Self::default();
        for shard in checkpoint.manifest().schema.shards.all() {
            let image = decode(&checkpoint.shard(shard)?, checkpoint.folder())?;
            sum = sum.plus(Self::of_image(&image)?);
        }
        Ok(sum)
    }

    fn of_image(image: &ShardImage) -> Result<Self, Error> {
        let mut sum = Self::default();
        for table in &image.tables {
            let rows = table.rows.chunks_exact((table.dim + table.slots).max(1));
            for (&key, row) in table.keys.iter().zip(rows) {
                let total = read(key, &row[..table.dim])?;
                sum = sum.plus(Self { total, rows: 1 });
            }
        }
        Ok(sum)
    }

    /// No sum overflows: there are fewer than 2^56 rows, each below 2^72.
    fn plus(self, other: Self) -> Self {
        Self {
            total: self.total + other.total,
            rows: self.rows + other.rows,
        }
    }
}

/// Reads a row's count.
///
/// # Errors
/// [`Error::NoCount`] for a row that is none.
pub fn read(key: Key, row: &[f32]) -> Result<u128, Error> {
    count::read(row).ok_or_else(|| Error::NoCount {
        key,
        row: row.to_vec(),
    })
}

async fn of_server(
    client: &Client,
    pool: &dyn Pool,
    shard: ShardId,
    end: SourceId,
) -> Result<Counted, Error> {
    let bytes = client.snapshot(shard).await?;
    let add_up = move || {
        let image = decode(&bytes, Path::new("a server's snapshot"))?;
        // C12: a server that lost its memory after the job's end would be taken for one that
        // counted less.
        if !image.windows.exactly_below(end) {
            return Err(Error::Lost { shard });
        }
        Counted::of_image(&image)
    };
    let what = "adding up the counts";
    offload(pool, add_up)
        .await
        .ok_or(Error::Panicked { what })?
}

fn decode(bytes: &[u8], name: &Path) -> Result<ShardImage, Error> {
    Ok(decode_shard(bytes, name).map_err(windlass_common::Error::from)?)
}

#[cfg(test)]
mod tests {
    use windlass_common::format::TableImage;

    use super::*;

    fn image(rows: &[[f32; 3]]) -> ShardImage {
        ShardImage {
            tables: vec![TableImage {
                dim: 3,
                slots: 0,
                keys: (10..).map(Key).take(rows.len()).collect(),
                rows: rows.concat(),
                ..TableImage::default()
            }],
            ..ShardImage::default()
        }
    }

    #[test]
    fn rows_are_added_up_limb_by_limb() {
        let counted =
            Counted::of_image(&image(&[[7.0, 0.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 3.0]]));
        let total = 7 + 1 + (2 << 24) + (3u128 << 48);
        assert_eq!(counted.unwrap(), Counted { total, rows: 3 });
    }

    #[test]
    fn a_row_that_is_no_count_is_named() {
        let error = Counted::of_image(&image(&[[7.0, 0.0, 0.0], [0.5, 0.0, 0.0]])).unwrap_err();
        assert!(
            matches!(error, Error::NoCount { key: Key(11), .. }),
            "{error}"
        );
        assert!(error.to_string().contains("000000000000000b"), "{error}");
    }
}
