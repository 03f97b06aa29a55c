//! What of the coordinator outlives its process (rules C0 to C9), and how a later life goes on.

use std::time::Duration;

use tracing::info;
use windlass_common::coordination::Purpose;
use windlass_common::format::{ClusterState, JobState, Stage};
use windlass_common::id::{CheckpointId, JobId, Lineage, MapEpoch};
use windlass_common::split::cut;
use windlass_proto::{ErrorKind, WireError};

use super::checkpoints::Checkpoints;
use super::job::{Job, Learnt};
use super::leases::Leases;
use super::members::{Servers, Workers};
use super::occupancy::Tables;
use super::order::Orders;
use super::owners::Owners;
use super::phase::Phase;
use super::role::{Coordinator, Settings};
use super::sources::Sources;
use super::storage::Kind;

/// Changes whenever something changes that [`Coordinator::record`] tells: cheap to make, so that it
/// can be compared after every question.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stamp {
    epoch: MapEpoch,
    servers: usize,
    jobs: Vec<JobStamp>,
}

#[derive(Clone, Debug, PartialEq)]
struct JobStamp {
    job: JobId,
    lineage: Lineage,
    target: u32,
    epochs: (u32, u32),
    /// Of its history.
    changes: (u64, usize, bool),
    stage: std::mem::Discriminant<Stage>,
    checkpoints: (CheckpointId, CheckpointId, Option<CheckpointId>),
}

impl Coordinator {
    /// Goes on after an earlier life of the role, with what that one recorded.
    ///
    /// C0: the map gets a new epoch; the caller makes [`record`](Self::record) durable before
    /// anybody is answered. Leases, reports and checkpoints under way are forgotten: they are asked
    /// for again.
    #[must_use]
    pub fn resume(settings: Settings, seed: u64, state: ClusterState, now: Duration) -> Self {
        let mut coordinator = Self::new(settings, seed);
        let servers = Servers::known(state.servers, now);
        coordinator.cluster.resume(state.epoch, servers);
        for job in state.jobs {
            info!(job = job.name, id = %job.job, "job goes on after a restart");
            coordinator.names.insert(job.name.clone(), job.job);
            let id = job.job;
            let job = Job::resumed(job, &settings, now);
            coordinator.jobs.insert(id, job);
        }
        coordinator
    }

    /// Tells what a later life must know. Evaluations are not in it: they are begun again.
    #[must_use]
    pub fn record(&self) -> ClusterState {
        let servers = self.cluster.servers.lives();
        ClusterState {
            epoch: self.cluster.epoch(),
            servers: servers
                .map(|(address, boot)| (address.to_owned(), boot))
                .collect(),
            jobs: self
                .jobs
                .iter()
                .filter(|(_, job)| job.plan.purpose == Purpose::Train)
                .map(|(&id, job)| job.record(id))
                .collect(),
        }
    }

    /// Tells whether a new [`record`](Self::record) is needed.
    pub(super) fn stamp(&self) -> Stamp {
        Stamp {
            epoch: self.cluster.epoch(),
            servers: self.cluster.servers.lives().count(),
            jobs: self.jobs.iter().map(|(&id, job)| job.stamp(id)).collect(),
        }
    }
}

impl Job {
    fn resumed(state: JobState, settings: &Settings, now: Duration) -> Self {
        let splits = cut(&state.recipe.files, state.recipe.split_bytes);
        let count = u32::try_from(splits.len()).unwrap_or(u32::MAX);
        let shards = state.schema.shards.len();
        let mut sources = Sources::new(shards, count);
        sources.want(state.target);
        let mut workers = Workers::default();
        if let Stage::Gathering { restore: true } = state.stage {
            // Only the creator has what is to be restored: it is given the time to come back.
            // A job without workers has room for one.
            let _ = workers.hear(state.creator, now);
        }
        let checkpoints = settings.saving.map(|saving| {
            let mut checkpoints = Checkpoints::new(saving, shards, state.last_checkpoint);
            checkpoints.resume(state.best, state.published);
            checkpoints
        });
        Self {
            name: state.name,
            schema: state.schema,
            orders: Orders::new(state.recipe.seed, count),
            recipe: state.recipe,
            plan: state.plan,
            creator: state.creator,
            fresh: state.fresh,
            config: state.config,
            lineage: state.lineage,
            origin: state.origin,
            owners: Owners::known(state.owners),
            workers,
            leases: Leases::default(),
            splits,
            sources,
            phase: Phase::resumed(state.stage),
            target: state.target,
            history: state.history,
            told: 0,
            learnt: Learnt::default(),
            boards: 0,
            checkpoints,
            occupancy: Tables::default(),
        }
    }

    fn record(&self, id: JobId) -> JobState {
        let checkpoints = self.checkpoints.as_ref();
        JobState {
            job: id,
            name: self.name.clone(),
            schema: self.schema.clone(),
            recipe: self.recipe.clone(),
            plan: self.plan.clone(),
            config: self.config.clone(),
            creator: self.creator,
            fresh: self.fresh,
            lineage: self.lineage,
            origin: self.origin,
            owners: self.owners.as_slice().to_vec(),
            target: self.target,
            history: self.history.clone(),
            stage: self.phase.stage(),
            last_checkpoint: checkpoints.map_or(CheckpointId(0), Checkpoints::last),
            best: checkpoints.and_then(Checkpoints::best),
            published: checkpoints.map_or(Vec::new(), |c| c.published().to_vec()),
        }
    }

    fn stamp(&self, job: JobId) -> JobStamp {
        let test = &self.history.test;
        let checkpoints = self.checkpoints.as_ref();
        let newest = checkpoints.and_then(|c| c.newest()).map(|p| p.checkpoint);
        JobStamp {
            job,
            lineage: self.lineage,
            target: self.target,
            epochs: (self.history.epochs, self.plan.epochs),
            changes: (self.told, test.len(), self.history.finished),
            stage: std::mem::discriminant(&self.phase.stage()),
            checkpoints: (
                checkpoints.map_or(CheckpointId(0), Checkpoints::last),
                newest.unwrap_or_default(),
                checkpoints.and_then(Checkpoints::best),
            ),
        }
    }
}

impl Phase {
    fn resumed(stage: Stage) -> Self {
        match stage {
            Stage::Gathering { restore } => Self::Gathering { restore },
            Stage::Training => Self::Training,
            Stage::Finishing => Self::Returning,
            Stage::Done => Self::Done,
            Stage::Failed { message } => {
                Self::Failed(WireError::new(ErrorKind::UnknownJob, message))
            }
        }
    }

    fn stage(&self) -> Stage {
        match self {
            Self::Gathering { restore } => Stage::Gathering { restore: *restore },
            Self::Storing(storing) if storing.kind == Kind::RestoreFirst => {
                Stage::Gathering { restore: true }
            }
            Self::Storing(storing) if storing.kind == Kind::Save => Stage::Training,
            Self::Training | Self::Validating(_) | Self::Pinning => Stage::Training,
            Self::Storing(_) | Self::Returning | Self::Testing(_) | Self::Closing => {
                Stage::Finishing
            }
            Self::Done => Stage::Done,
            Self::Failed(error) => Stage::Failed {
                message: error.message.clone(),
            },
        }
    }
}
