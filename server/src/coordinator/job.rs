//! A job: what it is, who is in it, and what is known of it.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_common::coordination::{
    Assignment, History, JobReport, Plan, Progress, Purpose, Recipe, Register, ShardMap,
};
use windlass_common::format::Manifest;
use windlass_common::id::{
    CheckpointId, Epoch, Incarnation, JobId, Lineage, ServerId, SourceId, WorkerId,
};
use windlass_common::interval_set::IntervalSet;
use windlass_common::schema::JobSchema;
use windlass_common::split::{Split, cut};
use windlass_common::tally::Tally;
use windlass_proto::{ErrorKind, WireError};

use super::checkpoints::{Checkpoints, Saving};
use super::cluster::Cluster;
use super::leases::{Leases, Work};
use super::members::Workers;
use super::occupancy::Tables;
use super::order::Orders;
use super::owners::Owners;
use super::phase::Phase;
use super::sources::Sources;
use super::storage::Kind;

/// A worker, or with it the keeper's place, is given up after this many leases' lengths of silence.
const SILENT_TTLS: u32 = 3;

/// A job that is over is kept this long after its last worker was heard of. 10 minutes: who asks
/// for more epochs on seeing the result finds the rows still there; later they are read from the
/// checkpoint again, and a long-lived cluster does not fill with jobs that nobody goes on with.
const KEPT: Duration = Duration::from_secs(600);

/// The training metrics of the epoch that is being learnt.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    counted: IntervalSet,
    /// The sum over the sources that were counted.
    pub(super) tally: Tally,
}

impl Learnt {
    /// Counts what a source's worker measured; only the first counts.
    pub(super) fn count(&mut self, source: SourceId, tally: &Tally) {
        if !self.counted.contains(source.0) {
            self.counted.insert(source.0);
            self.tally.merge(tally);
        }
    }
}

/// How a registration meets a job of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    /// The worker joins.
    Join,
    /// The job was finished, and goes on with the worker's plan.
    Resume,
    /// A new job takes this one's place.
    Replace,
}

/// One job's state.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) schema: JobSchema,
    pub(super) recipe: Recipe,
    pub(super) plan: Plan,
    /// Who registered it.
    pub(super) creator: WorkerId,
    pub(super) fresh: bool,
    /// The effective config of the worker that began it, for manifests.
    pub(super) config: String,
    /// N4: the life of its state.
    pub(super) lineage: Lineage,
    /// N4: the checkpoint in the store that the lineage begins with.
    pub(super) origin: Option<CheckpointId>,
    pub(super) owners: Owners,
    pub(super) workers: Workers,
    pub(super) leases: Leases,
    /// The cut of the training files.
    pub(super) splits: Vec<Split>,
    pub(super) orders: Orders,
    pub(super) sources: Sources,
    pub(super) phase: Phase,
    /// What its checkpoints tell; `epochs` are those in the best one.
    pub(super) history: History,
    /// Counts the changes of the history.
    pub(super) told: u64,
    /// How many epochs the rows hold once all wanted sources are complete.
    pub(super) target: u32,
    pub(super) learnt: Learnt,
    /// How many boards there have been.
    pub(super) boards: u32,
    /// Its checkpoints in the cluster's store, if the cluster has one.
    pub(super) checkpoints: Option<Checkpoints>,
    pub(super) occupancy: Tables,
}

/// What the cluster's store holds under the name of a job that begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// The newest whole checkpoint.
    pub newest: Option<Manifest>,
    /// The highest number that any has, whole or not.
    pub last: CheckpointId,
}

impl Job {
    /// Creates a job from a registration that was found valid.
    ///
    /// It begins with the newest checkpoint of the cluster's store, else with the one that the
    /// worker offers, else with nothing.
    ///
    /// # Errors
    /// `Mismatch` when the store's checkpoint is of another job.
    pub(super) fn new(
        register: Register,
        stored: Stored,
        saving: Option<Saving>,
    ) -> Result<Self, WireError> {
        let splits = cut(&register.recipe.files, register.recipe.split_bytes);
        let count = u32::try_from(splits.len()).unwrap_or(u32::MAX);
        let trains = register.plan.purpose == Purpose::Train && !register.fresh;
        let stored_newest = stored.newest.filter(|_| trains);
        if let Some(manifest) = &stored_newest {
            continues(&register, manifest)?;
        }
        // A checkpoint without an epoch in it holds nothing that is worth restoring.
        let offered = register
            .checkpoint
            .filter(|history| !register.fresh && history.epochs > 0);
        let (lineage, origin, target, mut history) = match (stored_newest, offered) {
            (Some(manifest), _) => (
                Lineage(manifest.lineage.0 + 1),
                Some(manifest.number),
                manifest.target,
                manifest.history,
            ),
            (None, Some(history)) => (Lineage(2), None, history.epochs, history),
            (None, None) => (Lineage(1), None, 0, History::default()),
        };
        let phase = if history.is_settled(register.plan.epochs) {
            Phase::Done
        } else {
            open_again(&mut history);
            Phase::Gathering {
                restore: origin.is_none() && history.epochs > 0,
            }
        };
        let shards = register.schema.shards.len();
        let mut sources = Sources::new(shards, count);
        sources.want(target);
        // What an evaluation holds is in a checkpoint already.
        let saving = saving.filter(|_| register.plan.purpose == Purpose::Train);
        Ok(Self {
            name: register.job,
            schema: register.schema,
            orders: Orders::new(register.recipe.seed, count),
            recipe: register.recipe,
            plan: register.plan,
            creator: register.worker,
            fresh: register.fresh,
            config: register.config,
            lineage,
            origin,
            owners: Owners::default(),
            workers: Workers::default(),
            leases: Leases::default(),
            splits,
            sources,
            phase,
            target,
            history,
            told: 0,
            learnt: Learnt::default(),
            boards: 0,
            checkpoints: saving.map(|saving| Checkpoints::new(saving, shards, stored.last)),
            occupancy: Tables::default(),
        })
    }

    /// Decides what becomes of a registration under this job's name.
    ///
    /// # Errors
    /// `Mismatch` that names the first difference in schema or recipe.
    pub(super) fn meet(&self, register: &Register) -> Result<Meeting, WireError> {
        if matches!(self.phase, Phase::Failed(_)) {
            return Ok(Meeting::Replace);
        }
        let agreed = self.agrees(register);
        if register.fresh {
            // All workers of a launch say --fresh: the first creates the job, the others join it,
            // however late. Once it is over, or nobody is there, it is another launch that asks.
            let under_way = !self.phase.is_over() && self.workers.count() > 0;
            let joins = self.fresh && under_way && agreed.is_ok();
            return Ok(if joins {
                Meeting::Join
            } else {
                Meeting::Replace
            });
        }
        agreed?;
        let settled = self.history.is_settled(register.plan.epochs);
        if !matches!(self.phase, Phase::Done) || settled {
            return Ok(Meeting::Join);
        }
        // A job that was done from its checkpoint has no rows to go on from.
        Ok(if self.owners.is_empty() {
            Meeting::Replace
        } else {
            Meeting::Resume
        })
    }

    fn agrees(&self, register: &Register) -> Result<(), WireError> {
        let schema = register.schema.must_equal(&self.schema);
        schema
            .and_then(|()| register.recipe.must_equal(&self.recipe))
            .map_err(|e| WireError::new(ErrorKind::Mismatch, e.to_string()))
    }

    /// Goes on after the end, for more epochs.
    pub(super) fn resume(&mut self, register: &Register) {
        self.plan = register.plan.clone();
        self.creator = register.worker;
        self.fresh = false;
        open_again(&mut self.history);
        self.told += 1;
        // Those who saw the end have gone; who is still there asks again and is counted again.
        self.workers = Workers::default();
        self.phase = Phase::Gathering { restore: false };
    }

    /// Lets leases run out and silent workers go.
    pub(super) fn pass_time(&mut self, cluster: &mut Cluster, now: Duration) {
        for work in self.leases.expire(now) {
            self.lapse(work, cluster);
        }
        let silent = now.saturating_sub(SILENT_TTLS * cluster.ttl);
        self.workers.forget_before(silent);
        self.require_creator();
        if let (Phase::Training, Some(checkpoints)) = (&self.phase, &mut self.checkpoints) {
            checkpoints.pass_time(now);
        }
    }

    /// Whether nobody will miss the job: its workers have gone, and it was an evaluation, or it was
    /// over and nobody has come back for [`KEPT`].
    pub(super) fn is_deserted(&self, now: Duration) -> bool {
        let kept = match self.plan.purpose {
            Purpose::Evaluate => Duration::ZERO,
            Purpose::Train if self.phase.is_over() => KEPT,
            Purpose::Train => return false,
        };
        self.workers.count() == 0 && now.saturating_sub(self.workers.last_heard()) >= kept
    }

    /// Ends a job whose first checkpoint is to be restored by a worker that is gone: no other
    /// worker has it.
    pub(super) fn require_creator(&mut self) {
        let restoring = match &self.phase {
            Phase::Gathering { restore } => *restore,
            Phase::Storing(storing) => storing.kind == Kind::RestoreFirst,
            _ => false,
        };
        if restoring && self.workers.keeper() != Some(self.creator) {
            self.lose_restorer();
        }
    }

    /// Frees what was leased and is not done.
    pub(super) fn lapse(&mut self, work: Work, cluster: &mut Cluster) {
        match work {
            Work::Train(source) => self.sources.reopen(source),
            Work::Score { board, index } => {
                if let Some(board) = self.phase.board(board) {
                    board.reopen(index);
                }
            }
            Work::Storage => self.storage_lapsed(cluster),
        }
    }

    /// Assigns the shards for the first time, once enough servers are alive.
    pub(super) fn assign(&mut self, cluster: &mut Cluster, now: Duration) {
        if !self.owners.is_empty() || self.phase.is_over() {
            return;
        }
        let servers = cluster.servers.alive(now);
        if servers.len() >= self.plan.servers.max(1) as usize {
            self.owners = Owners::assign(self.schema.shards, &servers, cluster.incarnation());
        }
    }

    /// C1: assigns a server's shards to it anew after it has lost its memory.
    pub(super) fn reincarnate(&mut self, server: ServerId, as_of: Incarnation) {
        let shards = self.owners.renew(server, as_of);
        self.sources.forget(shards);
    }

    /// Takes a server's word about its shards, and what it has saved of them.
    pub(super) fn hear(&mut self, server: ServerId, told: JobReport) {
        for report in &told.shards {
            // C3 `adopt`: what is claimed as of a later map was given by a later life of this role.
            if self.owners.adopt(server, report.shard, report.incarnation) {
                self.lineage = self.lineage.max(report.lineage);
            }
        }
        self.sources
            .hear(server, told.shards, &self.owners, self.lineage);
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.hear(told.saved, self.lineage);
        }
        self.occupancy.hear(server, told.tables);
        self.take_end_back();
    }

    /// The highest number that a checkpoint of it in the store may have.
    pub(super) fn last_checkpoint(&self) -> Option<CheckpointId> {
        self.checkpoints.as_ref().map(Checkpoints::last)
    }

    /// What a server is to hold; `None` while nobody is to hold anything.
    pub(super) fn assignment(&self, job: JobId, server: ServerId) -> Option<Assignment> {
        if self.owners.is_empty() || matches!(self.phase, Phase::Failed(_)) {
            return None;
        }
        Some(Assignment {
            job,
            name: self.name.clone(),
            lineage: self.lineage,
            schema: self.schema.clone(),
            shards: self.owners.held_by(server).collect(),
            origin: self.origin,
            save: self.checkpoints.as_ref().and_then(Checkpoints::order),
            settled: self.settled(),
        })
    }

    /// S7 `cut_older`: what the older of the last two checkpoints covers of a log may go.
    fn settled(&self) -> Option<CheckpointId> {
        Some(self.checkpoints.as_ref()?.older()?.checkpoint)
    }

    /// Where the shards are.
    pub(super) fn map(&self, cluster: &Cluster) -> ShardMap {
        let owners = self.owners.as_slice().to_vec();
        let address = |id| (id, cluster.servers.address(id).to_owned());
        ShardMap {
            epoch: cluster.epoch(),
            lineage: self.lineage,
            addresses: owners.iter().map(|&(id, _)| address(id)).collect(),
            owners,
        }
    }

    /// How far the job is.
    pub(super) fn progress(&self, cluster: &Cluster) -> Progress {
        Progress {
            epoch: Epoch(self.target.saturating_sub(1)),
            epochs: self.plan.epochs,
            done: self.sources.done(),
            splits: self.sources.splits(),
            workers: self.workers.count(),
            history: self.history.progress.clone(),
            rows: self.rows_by_server(cluster),
            tables: self.tables(),
        }
    }
}

/// Checks that a worker's job is the one that a checkpoint of the store is of.
fn continues(register: &Register, manifest: &Manifest) -> Result<(), WireError> {
    let schema = register.schema.must_equal(&manifest.schema);
    schema
        .and_then(|()| register.recipe.must_equal(&manifest.recipe))
        .map_err(|error| {
            let (job, number) = (&register.job, manifest.number);
            let why =
                format!("job `{job}` has checkpoint {number} in the cluster's store: {error}");
            WireError::new(ErrorKind::Mismatch, why)
        })
}

/// Takes back what a history says of its job's end, because there is more to do. Else checkpoints
/// on the way would tell of an end that has not come, with the metrics of another epoch.
fn open_again(history: &mut History) {
    history.finished = false;
    history.test = BTreeMap::new();
}
