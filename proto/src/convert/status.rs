//! How a cluster is.

use std::time::Duration;

use windlass_common::id::{CheckpointId, JobId, Lineage, MapEpoch, ServerId};
use windlass_common::status::{ClusterStatus, JobStatus, ServerStatus};

use super::{milliseconds, required};
use crate::error::WireError;
use crate::limits::{self, at_most};
use crate::v1;

impl From<ClusterStatus> for v1::StatusResponse {
    fn from(status: ClusterStatus) -> Self {
        Self {
            epoch: status.epoch.0,
            servers: status.servers.into_iter().map(Into::into).collect(),
            jobs: status.jobs.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::StatusResponse> for ClusterStatus {
    type Error = WireError;

    fn try_from(message: v1::StatusResponse) -> Result<Self, WireError> {
        at_most("servers", message.servers.len(), limits::SERVERS)?;
        at_most("jobs", message.jobs.len(), limits::JOBS)?;
        let servers = message.servers.into_iter().map(TryInto::try_into);
        let jobs = message.jobs.into_iter().map(TryInto::try_into);
        Ok(Self {
            epoch: MapEpoch(message.epoch),
            servers: servers.collect::<Result<_, _>>()?,
            jobs: jobs.collect::<Result<_, _>>()?,
        })
    }
}

impl From<ServerStatus> for v1::ServerStatus {
    fn from(status: ServerStatus) -> Self {
        Self {
            server: status.server.0,
            address: status.address,
            silent_ms: status.silent.map(milliseconds),
            health: Some(status.health.into()),
        }
    }
}

impl TryFrom<v1::ServerStatus> for ServerStatus {
    type Error = WireError;

    fn try_from(message: v1::ServerStatus) -> Result<Self, WireError> {
        Ok(Self {
            server: ServerId(message.server),
            address: limits::name("servers.address", message.address)?,
            silent: message.silent_ms.map(Duration::from_millis),
            health: message.health.unwrap_or_default().try_into()?,
        })
    }
}

impl From<JobStatus> for v1::JobStatus {
    fn from(status: JobStatus) -> Self {
        let owners = status.owners.into_iter();
        Self {
            job: status.job.0,
            name: status.name,
            phase: status.phase,
            lineage: status.lineage.0,
            owners: owners.map(|(server, shards)| (server.0, shards)).collect(),
            unreported: status.unreported,
            leased: status.leased,
            progress: Some(status.progress.into()),
            closed: status.closed,
            saved: status
                .saved
                .map(|(checkpoint, age)| v1::job_status::Finished {
                    checkpoint: checkpoint.0,
                    age_ms: milliseconds(age),
                }),
            saving: status
                .saving
                .map(|(checkpoint, shards)| v1::job_status::UnderWay {
                    checkpoint: checkpoint.0,
                    shards,
                }),
        }
    }
}

impl TryFrom<v1::JobStatus> for JobStatus {
    type Error = WireError;

    fn try_from(message: v1::JobStatus) -> Result<Self, WireError> {
        at_most("jobs.owners", message.owners.len(), limits::SERVERS)?;
        let owners = message.owners.into_iter();
        let mut owners: Vec<_> = owners.map(|(server, n)| (ServerId(server), n)).collect();
        owners.sort_unstable();
        let saved = |f: v1::job_status::Finished| {
            (CheckpointId(f.checkpoint), Duration::from_millis(f.age_ms))
        };
        Ok(Self {
            job: JobId(message.job),
            name: limits::name("jobs.name", message.name)?,
            phase: limits::name("jobs.phase", message.phase)?,
            lineage: Lineage(message.lineage),
            owners,
            unreported: message.unreported,
            leased: message.leased,
            progress: required("jobs.progress", message.progress)?.try_into()?,
            closed: message.closed,
            saved: message.saved.map(saved),
            saving: message
                .saving
                .map(|u| (CheckpointId(u.checkpoint), u.shards)),
        })
    }
}
