//! Questions to the coordinator of a running cluster: `status`, `checkpoint create` and
//! `checkpoint restore`.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use windlass_client::transport::Admin;
use windlass_common::id::{CheckpointId, ServerId};
use windlass_common::runtime::Clock;
use windlass_common::status::{ClusterStatus, JobStatus};
use windlass_proto::WireError;

use super::checkpoint::say;
use super::status::status;
use crate::error::Error;

/// How often it is looked whether a checkpoint is there.
const LOOK: Duration = Duration::from_millis(200);

/// A coordinator that is asked, and where it is for messages.
pub struct Asked {
    admin: Arc<dyn Admin>,
    address: String,
}

impl Asked {
    /// Takes the coordinator and its address.
    #[must_use]
    pub fn new(admin: Arc<dyn Admin>, address: &str) -> Self {
        Self {
            admin,
            address: address.into(),
        }
    }

    /// Prints how the cluster is.
    ///
    /// # Errors
    /// No coordinator there; output that cannot be written.
    pub async fn show(&self, out: &mut dyn Write) -> Result<(), Error> {
        say(out, status(&self.status().await?).trim_end())
    }

    /// Begins a checkpoint of a job and waits until it is in the store; says which silent servers
    /// that waits for.
    ///
    /// # Errors
    /// What the coordinator says; a job that ends or is put back meanwhile.
    pub async fn create(
        &self,
        clock: &dyn Clock,
        job: &str,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let asked = self.admin.save(job.to_owned()).await;
        let asked = asked.map_err(|source| self.error(source))?;
        let (mut lineage, mut told) = (None, BTreeSet::new());
        loop {
            let cluster = self.status().await?;
            let Some(status) = cluster.jobs.iter().find(|j| j.name == job) else {
                return Err(given_up(job, asked, "is gone"));
            };
            if let Some((saved, _)) = status.saved.filter(|s| s.0 >= asked) {
                let done = format!("checkpoint {saved} of job `{job}` is in the store");
                return say(out, &done);
            }
            if *lineage.get_or_insert(status.lineage) != status.lineage {
                return Err(given_up(job, asked, "was put back to an earlier one"));
            }
            for (server, silent) in silent_owners(&cluster, status) {
                if told.insert(server.to_owned()) {
                    let seconds = silent.as_secs();
                    let waits = format!("waiting for server {server}, silent for {seconds}s");
                    say(out, &waits)?;
                }
            }
            clock.sleep(LOOK).await;
        }
    }

    /// Puts a job back to one of its checkpoints.
    ///
    /// # Errors
    /// What the coordinator says.
    pub async fn restore(
        &self,
        job: &str,
        checkpoint: CheckpointId,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let restored = self.admin.restore(job.to_owned(), checkpoint).await;
        restored.map_err(|source| self.error(source))?;
        say(
            out,
            &format!(
                "job `{job}` goes on from checkpoint {checkpoint}; what it had learnt since is \
                 undone"
            ),
        )
    }

    async fn status(&self) -> Result<ClusterStatus, Error> {
        let status = self.admin.status().await;
        status.map_err(|source| self.error(source))
    }

    fn error(&self, source: WireError) -> Error {
        Error::Coordinator {
            address: self.address.clone(),
            source,
        }
    }
}

fn given_up(job: &str, checkpoint: CheckpointId, why: &'static str) -> Error {
    Error::NotSaved {
        job: job.into(),
        checkpoint,
        why,
    }
}

/// The servers that have shards of a job and have been silent for too long, and how long.
fn silent_owners<'a>(
    cluster: &'a ClusterStatus,
    job: &JobStatus,
) -> impl Iterator<Item = (&'a str, Duration)> {
    let owners: BTreeSet<ServerId> = job.owners.iter().map(|owner| owner.0).collect();
    let servers = cluster.servers.iter();
    servers.filter_map(move |server| {
        let silent = server.silent.filter(|_| owners.contains(&server.server))?;
        Some((server.address.as_str(), silent))
    })
}

#[cfg(test)]
mod tests;
