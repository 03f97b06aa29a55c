//! What must be true when a worker is told that its job is done.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use windlass_client::Client;
use windlass_client::transport::Admin;
use windlass_common::format::{Checkpoint, Library, ShardImage, decode_shard};
use windlass_common::runtime::{Clock, Objects};

use super::plan::{JOB, Plan};
use super::truth::rows;
use super::world::World;
use crate::counts::{Counts, total};

/// How long servers may take in calm to hold all of a job that is done.
const SOON: Duration = Duration::from_secs(60);

/// Looks at the ends of jobs for one worker.
pub(super) struct Judge<'a> {
    pub(super) world: &'a World,
    pub(super) host: &'a str,
    pub(super) plan: &'a Plan,
    pub(super) objects: Arc<dyn Objects>,
}

impl Judge<'_> {
    /// I4: at the moment when a worker is told so, two checkpoints hold all of the job, each row
    /// exact, and share no file.
    pub(super) fn done_is_durable(&self) {
        match self.two_hold_all() {
            Ok(()) => self.world.note(self.host, "two checkpoints hold all"),
            Err(error) => {
                let what = format!("done, and not closed: {error:#}");
                self.world.violated(self.host, what);
            }
        }
    }

    fn two_hold_all(&self) -> Result<()> {
        let library = Library::new(Arc::clone(&self.objects), JOB)?;
        let whole = library
            .list()?
            .into_iter()
            .filter_map(|e| e.checkpoint.ok());
        let exact: Vec<Checkpoint> = whole
            .filter(|checkpoint| self.is_all(checkpoint).is_ok())
            .collect();
        ensure!(exact.len() >= 2, "{} checkpoints hold all", exact.len());
        let files = |c: &Checkpoint| c.manifest().chains.concat();
        let (newest, older) = (files(&exact[0]), files(&exact[1]));
        // A file of the own folder has no folder's name: the two differ by their checkpoints.
        let shared = newest
            .iter()
            .find(|f| !f.folder.is_empty() && older.contains(f));
        ensure!(shared.is_none(), "the two share {shared:?}");
        Ok(())
    }

    fn is_all(&self, checkpoint: &Checkpoint) -> Result<()> {
        let shards = self.plan.job.schema.shards.all();
        let images = shards.map(|shard| Ok(checkpoint.image(shard)?));
        self.are_all(&images.collect::<Result<Vec<_>>>()?)
    }

    /// Checks that copies of all shards hold the whole job, each row exact.
    fn are_all(&self, images: &[ShardImage]) -> Result<()> {
        let end = self.plan.truth.end();
        let mut counts = Counts::new();
        for image in images {
            let windows = &image.windows;
            ensure!(
                windows.exactly_below(end),
                "shard {}: {windows:?}",
                image.shard
            );
            self.plan.truth.check(image)?;
            counts.extend(rows(image)?);
        }
        let (is, must) = (total(&counts), total(&self.plan.expected));
        ensure!(is == must, "the total is {is}, not {must}");
        ensure!(counts == self.plan.expected, "rows differ: {counts:?}");
        Ok(())
    }

    /// Waits until the servers hold all of the job, and looks at each row.
    ///
    /// A job that was taken up again from its last checkpoint is done without servers.
    ///
    /// # Errors
    /// A coordinator that has forgotten the job, or its end: then another life of the worker asks
    /// again.
    pub(super) async fn servers_are_right(
        &self,
        client: &Client,
        admin: &dyn Admin,
        clock: &dyn Clock,
    ) -> Result<()> {
        let began = clock.now();
        loop {
            let error = match self.look(client, admin).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            // A coordinator with an older state knows less than it has said, and C8 takes the end
            // back of a job of which more was damaged than is promised: the job ends again when
            // somebody asks again.
            let taken_back = is_taken_back(&error) && self.world.has_lost();
            if is_forgotten(&error) || self.world.has_aged() || taken_back {
                return Err(error);
            }
            if clock.now().saturating_sub(began) > SOON {
                let what = format!("done, and the servers do not hold it: {error:#}");
                self.world.violated(self.host, what);
                bail!("the servers are not right");
            }
            clock.sleep(Duration::from_millis(200)).await;
        }
    }

    async fn look(&self, client: &Client, admin: &dyn Admin) -> Result<()> {
        let status = admin.status().await?;
        let job = status.jobs.iter().find(|job| job.name == JOB);
        let phase = &job.context("the job is forgotten")?.phase;
        ensure!(phase == "done", "{NOT_DONE}, but {phase}");
        if client.map().await?.owners.is_empty() {
            return Ok(());
        }
        let mut images = Vec::new();
        for shard in client.shards().all() {
            let bytes = client.snapshot(shard).await?;
            let image = decode_shard(&bytes, Path::new("a server's copy"));
            let image = image.map_err(windlass_common::Error::from)?;
            if let Err(error) = self.plan.truth.check(&image) {
                self.world
                    .violated(self.host, format!("a server's {error:#}"));
            }
            images.push(image);
        }
        self.are_all(&images)
    }
}

const NOT_DONE: &str = "the job is not done any more";

fn is_taken_back(error: &anyhow::Error) -> bool {
    error.to_string().starts_with(NOT_DONE)
}

fn is_forgotten(error: &anyhow::Error) -> bool {
    error.is::<windlass_client::Error>() || error.to_string() == "the job is forgotten"
}
