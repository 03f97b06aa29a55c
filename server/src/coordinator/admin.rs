//! What people ask of the coordinator, and checkpoints that are ready for their manifest.

use std::collections::BTreeSet;
use std::time::Duration;

use tracing::info;
use windlass_common::format::Manifest;
use windlass_common::id::{CheckpointId, JobId, Lineage};
use windlass_common::status::{ClusterStatus, JobStatus};
use windlass_proto::{ErrorKind, WireError};

use super::checkpoints::{Checkpoints, Ready};
use super::cluster::Cluster;
use super::job::Job;
use super::phase::Phase;
use super::role::Coordinator;

/// A checkpoint of which every shard is saved, and that lacks its manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    pub(super) ready: Ready,
    /// What is to be written. Its time is the writer's to set.
    pub(super) manifest: Manifest,
    /// Those before it that must stay.
    pub(super) needed: BTreeSet<CheckpointId>,
}

/// A checkpoint's manifest is in the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// When, in milliseconds since the Unix epoch.
    pub(super) taken_ms: u64,
    /// Those needed before it that were found to be damaged or gone.
    pub(super) lost: BTreeSet<CheckpointId>,
}

impl Coordinator {
    /// Hands out a checkpoint that is ready to be published; each only once.
    pub fn take_publication(&mut self) -> Option<Publication> {
        let jobs = self.jobs.iter_mut();
        jobs.filter_map(|(&id, job)| job.take_publication(id))
            .next()
    }

    /// Takes note that a checkpoint's manifest is in the store, or why it is not.
    pub fn published(&mut self, publication: &Publication, published: Result<Published, String>) {
        let manifest = &publication.manifest;
        let Some(job) = self.jobs.get_mut(&manifest.job_id) else {
            return;
        };
        match published {
            Ok(published) => {
                info!(job = job.name, checkpoint = %manifest.number, "checkpoint published");
                job.published(&publication.ready, &published, &mut self.cluster);
            }
            Err(_) => {
                if let Some(checkpoints) = &mut job.checkpoints {
                    checkpoints.not_published(manifest.number);
                }
            }
        }
    }

    /// Takes note of the highest number that a checkpoint of this job has in the store.
    pub fn rise_above(&mut self, job: &str, taken: CheckpointId) {
        let job = self.names.get(job).and_then(|id| self.jobs.get_mut(id));
        if let Some(checkpoints) = job.and_then(|job| job.checkpoints.as_mut()) {
            checkpoints.rise_above(taken);
        }
    }

    /// The names of all jobs.
    #[must_use]
    pub fn job_names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    /// Tells how the cluster is. `now_ms` is the time since the Unix epoch.
    #[must_use]
    pub fn status(&self, now: Duration, now_ms: u64) -> ClusterStatus {
        let jobs = self.jobs.iter();
        ClusterStatus {
            epoch: self.cluster.epoch(),
            servers: self.cluster.servers.status(now),
            jobs: jobs
                .map(|(&id, job)| job.status(id, now_ms, self))
                .collect(),
        }
    }

    /// Asks for a checkpoint of a job now; its number.
    ///
    /// # Errors
    /// `UnknownJob`; `Invalid` for a job that is over, or a cluster without a store.
    pub fn save(&mut self, job: &str) -> Result<CheckpointId, WireError> {
        let job = self.named(job)?;
        match &mut job.checkpoints {
            Some(checkpoints) if matches!(job.phase, Phase::Training) => Ok(checkpoints.ask()),
            Some(_) => Err(job.refusal(ErrorKind::Invalid, "it is saved only while it learns")),
            None => Err(job.refusal(ErrorKind::Invalid, NO_STORE)),
        }
    }

    /// Puts a job back to one of its checkpoints (rule N4): what was learnt since is undone.
    ///
    /// # Errors
    /// `UnknownJob`; `Mismatch` for a checkpoint of another schema or input; `Invalid` while the job
    /// has no owners yet, and in a cluster without a store.
    pub fn restore(&mut self, manifest: Manifest) -> Result<Lineage, WireError> {
        let id = self.names.get(&manifest.job);
        let job = id.and_then(|id| self.jobs.get_mut(id));
        let job = job.ok_or_else(|| no_job(&manifest.job))?;
        if job.checkpoints.is_none() {
            return Err(job.refusal(ErrorKind::Invalid, NO_STORE));
        }
        if job.owners.is_empty() {
            return Err(job.refusal(ErrorKind::Invalid, "its shards have no servers yet"));
        }
        let same = manifest.schema.must_equal(&job.schema);
        if let Err(error) = same.and_then(|()| manifest.recipe.must_equal(&job.recipe)) {
            return Err(job.refusal(ErrorKind::Mismatch, &error.to_string()));
        }
        info!(job = job.name, checkpoint = %manifest.number, "job is put back");
        job.put_back(manifest, &mut self.cluster);
        Ok(job.lineage)
    }

    /// Checks that there is a job of this name.
    ///
    /// # Errors
    /// `UnknownJob`.
    pub(super) fn must_lead(&mut self, name: &str) -> Result<(), WireError> {
        self.named(name).map(|_| ())
    }

    fn named(&mut self, name: &str) -> Result<&mut Job, WireError> {
        let job = self.names.get(name).and_then(|id| self.jobs.get_mut(id));
        job.ok_or_else(|| no_job(name))
    }
}

const NO_STORE: &str = "this cluster writes no checkpoints: set data_dir in the servers' configs";

fn no_job(name: &str) -> WireError {
    let why = format!("no job `{name}` in this cluster; `windlass-server status` lists them");
    WireError::new(ErrorKind::UnknownJob, why)
}

impl Job {
    fn take_publication(&mut self, id: JobId) -> Option<Publication> {
        let limit = self.sources.limit().0;
        let checkpoints = self.checkpoints.as_mut()?;
        let ready = checkpoints.take_ready(limit)?;
        let manifest = Manifest {
            job: self.name.clone(),
            job_id: id,
            number: ready.checkpoint,
            lineage: self.lineage,
            taken_ms: 0,
            pinned: ready.pinned,
            windlass: env!("CARGO_PKG_VERSION").into(),
            config: self.config.clone(),
            schema: self.schema.clone(),
            recipe: self.recipe.clone(),
            target: self.target,
            history: self.history.clone(),
            complete: ready.complete.clone(),
            chains: ready.chains.clone(),
        };
        let needed = checkpoints.needed().chain(self.origin).collect();
        Some(Publication {
            ready,
            manifest,
            needed,
        })
    }

    /// N4: what is wanted becomes what the checkpoint wanted, else what was undone would be opened
    /// again.
    fn put_back(&mut self, manifest: Manifest, cluster: &mut Cluster) {
        self.target = manifest.target;
        self.history = manifest.history;
        self.told += 1;
        // Whoever is at work is refused from now on: it is in another lineage.
        self.leases.clear();
        self.sources.return_all();
        self.sources.want(self.target);
        self.begin_lineage_with(manifest.number, manifest.complete, cluster);
        self.phase = Phase::Training;
    }

    fn refusal(&self, kind: ErrorKind, why: &str) -> WireError {
        WireError::new(kind, format!("job `{}`: {why}", self.name))
    }

    fn status(&self, id: JobId, now_ms: u64, coordinator: &Coordinator) -> JobStatus {
        let checkpoints = self.checkpoints.as_ref();
        let newest = checkpoints.and_then(Checkpoints::newest);
        let age = |taken: u64| Duration::from_millis(now_ms.saturating_sub(taken));
        JobStatus {
            job: id,
            name: self.name.clone(),
            phase: self.phase.in_words().into(),
            lineage: self.lineage,
            owners: self.owners.counts(),
            unreported: self.sources.unreported(),
            leased: u32::try_from(self.leases.training()).unwrap_or(u32::MAX),
            progress: self.progress(&coordinator.cluster),
            closed: checkpoints.map_or(0, |c| c.held_by_both().len()),
            saved: newest.map(|p| (p.checkpoint, age(p.taken))),
            saving: checkpoints.and_then(Checkpoints::under_way),
        }
    }
}
