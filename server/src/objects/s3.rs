//! Objects in a bucket of S3, or of a store that speaks its language.

use std::fmt::{self, Display};
use std::future::Future;
use std::io;
use std::path::Path as FilePath;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{Error as StoreError, MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use tokio::runtime::{Builder, Runtime};
use windlass_common::Error;
use windlass_common::runtime::{Objects, require_name};

/// A larger object is sent in parts; each is retried alone, and all become the object at once.
const WHOLE_BYTES: usize = 64 << 20;
/// The size of a part; the last may be smaller. A store takes at most 10,000 of them.
const PART_BYTES: usize = 32 << 20;
/// Parts on their way at the same time, and objects that are being removed.
const AT_ONCE: usize = 4;

/// Objects under a prefix of a bucket.
///
/// Credentials, region and endpoint come from the usual variables (`AWS_ACCESS_KEY_ID`,
/// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`), else from the
/// machine's role; an `http://` endpoint needs `AWS_ALLOW_HTTP=true`. A request that fails for a
/// while is tried again for up to three minutes.
///
/// Calls block on a runtime of its own, so they must not be made from an async task.
pub struct S3Objects {
    store: AmazonS3,
    /// `s3://BUCKET/PREFIX`.
    place: String,
    /// The prefix, which may be empty.
    root: Path,
    /// There until the drop.
    runtime: Option<Runtime>,
}

impl S3Objects {
    /// Opens `s3://BUCKET` or `s3://BUCKET/PREFIX`; nothing is asked of the store yet.
    ///
    /// # Errors
    /// In words: a place of another form, or an environment that does not fit together.
    pub fn open(place: &str) -> Result<Self, String> {
        let place = place.trim_end_matches('/');
        let rest = place.strip_prefix("s3://").unwrap_or_default();
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = prefix.is_empty() || require_name(prefix).is_ok();
        let root = Path::parse(prefix).ok().filter(|_| is_plain);
        let Some(root) = root.filter(|_| !bucket.is_empty()) else {
            return Err("must be s3://BUCKET or s3://BUCKET/PREFIX".into());
        };
        // The crates that speak TLS here have no provider of their own, so that there is one in the
        // process. An error says that somebody has installed one before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .build()
            .map_err(|e| e.to_string())?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("s3")
            .enable_all()
            .build()
            .map_err(|e| e.to_string())?;
        Ok(Self {
            store,
            place: place.into(),
            root,
            runtime: Some(runtime),
        })
    }

    /// Checks an object's name and puts the prefix before it.
    fn location(&self, name: &str) -> Result<Path, Error> {
        require_name(name)?;
        let full = match self.root.as_ref() {
            "" => name.to_owned(),
            root => format!("{root}/{name}"),
        };
        Path::parse(full).map_err(|_| Error::ObjectName { name: name.into() })
    }

    /// Waits for an answer of the store.
    fn wait<T>(
        &self,
        name: &str,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Error> {
        let answered = match &self.runtime {
            Some(runtime) => runtime.block_on(answer).map_err(io::Error::other),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        answered.map_err(|source| Error::Io {
            path: FilePath::new(&self.place).join(name),
            source,
        })
    }
}

impl Drop for S3Objects {
    fn drop(&mut self) {
        // A runtime that is dropped in an async task would wait there, and panics instead.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Display for S3Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

impl Objects for S3Objects {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let location = self.location(name)?;
        self.wait(name, async {
            if bytes.len() <= WHOLE_BYTES {
                let payload = PutPayload::from(Bytes::copy_from_slice(bytes));
                return self.store.put(&location, payload).await.map(drop);
            }
            let mut upload = self.store.put_multipart(&location).await?;
            let sent = put_parts(&mut *upload, bytes).await;
            if sent.is_err() {
                // The error that is told is the first one. Parts that stay are no object.
                let _ = upload.abort().await;
            }
            sent
        })
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let location = self.location(name)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.wait(name, async {
            let found = match self.store.get(&location).await {
                Err(error) if is_no_object(&error) => return Ok(None),
                found => found?,
            };
            // Memory grows with the bytes that come, not with the limit.
            let mut bytes = Vec::new();
            let mut parts = found.into_stream();
            while bytes.len() < limit
                && let Some(part) = parts.try_next().await?
            {
                bytes.extend_from_slice(&part[..part.len().min(limit - bytes.len())]);
            }
            Ok(Some(bytes))
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        let location = match folder {
            "" => self.root.clone(),
            folder => self.location(folder)?,
        };
        let listed = self.wait(folder, self.store.list_with_delimiter(Some(&location)))?;
        let objects = listed.objects.iter().map(|object| &object.location);
        let mut names: Vec<String> = objects
            .chain(&listed.common_prefixes)
            .filter_map(Path::filename)
            .filter(|name| require_name(name).is_ok())
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let location = self.location(name)?;
        self.wait(name, async {
            let inside = self.store.list(Some(&location)).map_ok(|o| o.location);
            let removed = stream::iter([Ok(location.clone())])
                .chain(inside)
                .try_for_each_concurrent(AT_ONCE, async |location| {
                    match self.store.delete(&location).await {
                        Err(error) if is_no_object(&error) => Ok(()),
                        removed => removed,
                    }
                });
            removed.await
        })
    }
}

/// Sends all parts and makes them the object.
async fn put_parts(upload: &mut dyn MultipartUpload, bytes: &[u8]) -> Result<(), StoreError> {
    // A part is numbered when it is begun, which is in order; it is copied when its turn comes.
    stream::iter(bytes.chunks(PART_BYTES))
        .map(|part| upload.put_part(Bytes::copy_from_slice(part).into()))
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    upload.complete().await.map(drop)
}

/// Whether the store says that there is no such object; that there is no such bucket is an error.
fn is_no_object(error: &StoreError) -> bool {
    matches!(error, StoreError::NotFound { source, .. } if !source.to_string().contains("NoSuchBucket"))
}
