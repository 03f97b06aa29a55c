//! Questions to the coordinator of a running cluster: `status`, `checkpoint create` and
//! `checkpoint restore`.

use std::io::Write;
use std::time::Duration;

use windlass_client::transport::Admin;
use windlass_common::id::CheckpointId;
use windlass_common::runtime::Clock;
use windlass_proto::{ErrorKind, WireError};

use super::checkpoint::say;
use super::status::status;
use crate::error::Error;

/// How often it is looked whether a checkpoint is there.
const LOOK: Duration = Duration::from_millis(200);

/// Prints how the cluster is.
///
/// # Errors
/// No coordinator there; output that cannot be written.
pub async fn show(admin: &dyn Admin, out: &mut dyn Write) -> Result<(), Error> {
    let cluster = admin
        .status()
        .await
        .map_err(|source| Error::Left { source })?;
    say(out, status(&cluster).trim_end())
}

/// Begins a checkpoint of a job and waits until it is in the store.
///
/// # Errors
/// What the coordinator says; a job that ends or goes back meanwhile.
pub async fn create(
    admin: &dyn Admin,
    clock: &dyn Clock,
    job: &str,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let asked = admin.save(job.to_owned()).await;
    let asked = asked.map_err(|source| Error::Left { source })?;
    loop {
        let cluster = admin
            .status()
            .await
            .map_err(|source| Error::Left { source })?;
        let Some(status) = cluster.jobs.into_iter().find(|j| j.name == job) else {
            let why = format!("job `{job}` is gone");
            let source = WireError::new(ErrorKind::UnknownJob, why);
            return Err(Error::Left { source });
        };
        if let Some((saved, _)) = status.saved.filter(|s| s.0 >= asked) {
            return say(
                out,
                &format!("checkpoint {saved} of job `{job}` is in the store"),
            );
        }
        clock.sleep(LOOK).await;
    }
}

/// Puts a job back to one of its checkpoints.
///
/// # Errors
/// What the coordinator says.
pub async fn restore(
    admin: &dyn Admin,
    job: &str,
    checkpoint: CheckpointId,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let restored = admin.restore(job.to_owned(), checkpoint).await;
    restored.map_err(|source| Error::Left { source })?;
    say(
        out,
        &format!(
            "job `{job}` goes on from checkpoint {checkpoint}; what it had learnt since is undone"
        ),
    )
}
