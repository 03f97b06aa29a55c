//! Sources that were closed (rule C7), and what becomes of one that a shard has lost all the same:
//! it takes more damage than is promised, two checkpoints and the servers' own copies.

use tracing::warn;
use windlass_common::id::{ShardId, SourceId};
use windlass_proto::ErrorKind;

use super::cluster::Cluster;
use super::job::Job;
use super::phase::Phase;

impl Job {
    /// C8: says that a source which was closed is learnt again; without its input it could not be.
    pub(super) fn tell_if_closed(&self, source: SourceId) {
        if let Some(shard) = self.lost(source) {
            warn!(job = self.name, %source, %shard, "a closed source is lost, and learnt again");
        }
    }

    /// Takes a source back whose input a worker could not read.
    ///
    /// C8: if it was closed, the input may be gone for good, and the job ends with an error. Others
    /// that are there try it first: the files may be theirs, or what failed was this one's machine.
    pub(super) fn unreadable(&mut self, source: SourceId, why: &str, cluster: &Cluster) {
        self.sources.rest(source);
        let Some(shard) = self.lost(source) else {
            return;
        };
        if self.workers.count() > 1 {
            return;
        }
        let owner = self.owners.of(shard);
        let address = owner.map_or("", |(server, _)| cluster.servers.address(server));
        let why = format!(
            "shard {shard} on server {address} has lost source {source}, which two checkpoints held, \
             and nobody can read its input again: {why}; put the input back, or begin anew with \
             --fresh"
        );
        self.fail(ErrorKind::Mismatch, &why);
    }

    /// C8: takes the end of a job back of which a shard has lost a part since: whoever asks for the
    /// job next learns that part again. Silence would call it done for good.
    pub(super) fn take_end_back(&mut self) {
        let over = matches!(self.phase, Phase::Done) && self.checkpoints.is_some();
        if !over || self.sources.unreported() > 0 {
            return;
        }
        if let Some(source) = self.sources.first_lacking() {
            let shard = self.sources.lacking(source).map(|shard| shard.0);
            let job = &self.name;
            warn!(job, %source, shard, "job is not done any more: two checkpoints held what is lost");
            self.phase = Phase::Closing;
        }
    }

    /// The first shard that lacks a source which was closed.
    fn lost(&self, source: SourceId) -> Option<ShardId> {
        let checkpoints = self.checkpoints.as_ref()?;
        let closed = checkpoints.was_closed(source);
        closed.then(|| self.sources.lacking(source)).flatten()
    }
}
