//! The coordinator's state: what a later life of the role must know (see `protocol` rules C0 to C9).
//!
//! One header frame with magic `WL-STATE` and version 1, whose payload is `Record` below, in the
//! order of its fields; nothing follows it. It is small: no splits, no leases, no reports.

use std::path::Path;

use bincode::{Decode, Encode};

use crate::coordination::{History, Plan, Purpose, Recipe};
use crate::id::{Boot, CheckpointId, Incarnation, JobId, Lineage, MapEpoch, ServerId, WorkerId};
use crate::interval_set::IntervalSet;
use crate::schema::JobSchema;
use crate::tally::Metric;

use super::FormatError;
use super::header::Format;
use super::reader::Reader;
use super::records::{HistoryRecord, InputRecord, RecipeRecord};
use super::schema::SchemaRecord;

/// The largest payload of a state.
const MAX_BYTES: usize = 1 << 28;

/// The largest state, with its frame.
pub const MAX_STATE_BYTES: u64 = MAX_BYTES as u64 + 18;

const FORMAT: Format<MAX_BYTES> = Format {
    magic: *b"WL-STATE",
    version: 1,
    other: "this is not a coordinator's state",
};

/// What the coordinator role keeps over restarts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterState {
    /// The map's version.
    pub epoch: MapEpoch,
    /// The servers by their numbers: address, and the life that was heard of last.
    pub servers: Vec<(String, Boot)>,
    /// The jobs.
    pub jobs: Vec<JobState>,
}

/// One job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobState {
    /// Its number.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Its tables.
    pub schema: JobSchema,
    /// Its generation (rule N2).
    pub recipe: Recipe,
    /// Its steering.
    pub plan: Plan,
    /// The config that its checkpoints tell, TOML.
    pub config: String,
    /// Who registered it.
    pub creator: WorkerId,
    /// Whether it was begun with `--fresh`.
    pub fresh: bool,
    /// The life of its state.
    pub lineage: Lineage,
    /// The checkpoint that the lineage began with.
    pub origin: Option<CheckpointId>,
    /// The owner of each shard; empty before the first assignment.
    pub owners: Vec<(ServerId, Incarnation)>,
    /// How many epochs are wanted.
    pub target: u32,
    /// What its checkpoints tell.
    pub history: History,
    /// Where it is on its way.
    pub stage: Stage,
    /// The highest number that a checkpoint was ordered under.
    pub last_checkpoint: CheckpointId,
    /// The checkpoint of the best epoch.
    pub best: Option<CheckpointId>,
    /// The newest published checkpoints of this lineage, its origin included, oldest first.
    pub published: Vec<PublishedState>,
}

/// Where a job is on its way, as far as a later life must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Servers or workers are missing; then a worker's checkpoint is restored first, or not.
    Gathering {
        /// Whether it is.
        restore: bool,
    },
    /// Epoch by epoch.
    Training,
    /// Back to the best epoch, then to the end.
    Finishing,
    /// Nothing is left to be done.
    Done,
    /// It cannot go on.
    Failed {
        /// Why, and what to do.
        message: String,
    },
}

/// A published checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedState {
    /// Its number.
    pub checkpoint: CheckpointId,
    /// The oldest checkpoint whose files it needs: itself, if all of its files are full.
    pub root: CheckpointId,
    /// When it was published, in milliseconds since the Unix epoch.
    pub taken: u64,
    /// Sources that are complete in each of its files.
    pub complete: IntervalSet,
}

#[derive(Encode, Decode)]
struct Record {
    epoch: u64,
    servers: Vec<(String, u64)>,
    jobs: Vec<JobRecord>,
}

#[derive(Encode, Decode)]
struct JobRecord {
    job: u64,
    name: String,
    schema: SchemaRecord,
    recipe: RecipeRecord,
    plan: PlanRecord,
    config: String,
    creator: u64,
    fresh: bool,
    lineage: u64,
    origin: Option<u64>,
    /// Server, map epoch and nonce.
    owners: Vec<(u32, u64, u64)>,
    target: u32,
    history: HistoryRecord,
    stage: StageRecord,
    last_checkpoint: u64,
    best: Option<u64>,
    published: Vec<PublishedRecord>,
}

#[derive(Encode, Decode)]
struct PlanRecord {
    epochs: u32,
    validation: Vec<InputRecord>,
    test: Vec<InputRecord>,
    /// The metric's name.
    metric: String,
    patience: Option<u32>,
    servers: u32,
    workers: u32,
    evaluates: bool,
}

#[derive(Encode, Decode)]
enum StageRecord {
    Gathering { restore: bool },
    Training,
    Finishing,
    Done,
    Failed { message: String },
}

#[derive(Encode, Decode)]
struct PublishedRecord {
    checkpoint: u64,
    root: u64,
    taken: u64,
    /// First and one past the last of each range.
    complete: Vec<(u64, u64)>,
}

impl ClusterState {
    /// Writes the state.
    ///
    /// # Errors
    /// [`FormatError::HeaderTooLong`] when no reader would accept it.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let servers = self.servers.iter().cloned();
        FORMAT.encode(&Record {
            epoch: self.epoch.0,
            servers: servers.map(|(address, boot)| (address, boot.0)).collect(),
            jobs: self.jobs.iter().cloned().map(JobRecord::of).collect(),
        })
    }

    /// Reads a state and checks all of it; `name` is the file's, for errors.
    ///
    /// # Errors
    /// [`FormatError`] with the file's name, for any byte that is not as it was written, or a state
    /// that no coordinator could be in.
    pub fn decode(bytes: &[u8], name: &Path) -> Result<Self, FormatError> {
        let mut reader = Reader::new(bytes, name);
        let record: Record = FORMAT.decode(&mut reader)?;
        if reader.left() > 0 {
            return Err(reader.damaged(reader.at(), "bytes follow the end of the state"));
        }
        let servers = record.servers.len();
        let job = |job: JobRecord| {
            job.state(servers).map_err(|rule| FormatError::State {
                path: name.into(),
                rule,
            })
        };
        let of = record.servers.into_iter();
        Ok(Self {
            epoch: MapEpoch(record.epoch),
            servers: of.map(|(address, boot)| (address, Boot(boot))).collect(),
            jobs: record.jobs.into_iter().map(job).collect::<Result<_, _>>()?,
        })
    }
}

impl JobRecord {
    fn of(job: JobState) -> Self {
        let owner =
            |(server, as_of): (ServerId, Incarnation)| (server.0, as_of.epoch.0, as_of.nonce);
        Self {
            job: job.job.0,
            name: job.name,
            schema: SchemaRecord::of(&job.schema),
            recipe: RecipeRecord::of(job.recipe),
            plan: PlanRecord::of(job.plan),
            config: job.config,
            creator: job.creator.0,
            fresh: job.fresh,
            lineage: job.lineage.0,
            origin: job.origin.map(|c| c.0),
            owners: job.owners.into_iter().map(owner).collect(),
            target: job.target,
            history: HistoryRecord::of(job.history),
            stage: StageRecord::of(job.stage),
            last_checkpoint: job.last_checkpoint.0,
            best: job.best.map(|c| c.0),
            published: job.published.into_iter().map(PublishedRecord::of).collect(),
        }
    }

    /// Puts the job together; an error says which rule is broken.
    fn state(self, servers: usize) -> Result<JobState, String> {
        let schema = self.schema.schema()?;
        schema.validate().map_err(|e| e.to_string())?;
        let owners = self.owners.len();
        if owners != 0 && owners != schema.shards.len() {
            let (name, shards) = (&self.name, schema.shards.len());
            return Err(format!(
                "job `{name}` has {owners} owners for {shards} shards"
            ));
        }
        if let Some(owner) = self.owners.iter().find(|o| o.0 as usize >= servers) {
            let (name, server) = (&self.name, owner.0);
            return Err(format!("job `{name}` is on server {server} of {servers}"));
        }
        let owner = |(server, epoch, nonce)| {
            let epoch = MapEpoch(epoch);
            (ServerId(server), Incarnation { epoch, nonce })
        };
        Ok(JobState {
            job: JobId(self.job),
            name: self.name,
            schema,
            recipe: self.recipe.recipe(),
            plan: self.plan.plan()?,
            config: self.config,
            creator: WorkerId(self.creator),
            fresh: self.fresh,
            lineage: Lineage(self.lineage),
            origin: self.origin.map(CheckpointId),
            owners: self.owners.into_iter().map(owner).collect(),
            target: self.target,
            history: self.history.history(),
            stage: self.stage.stage(),
            last_checkpoint: CheckpointId(self.last_checkpoint),
            best: self.best.map(CheckpointId),
            published: self
                .published
                .into_iter()
                .map(PublishedRecord::state)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl PlanRecord {
    fn of(plan: Plan) -> Self {
        Self {
            epochs: plan.epochs,
            validation: plan.validation.into_iter().map(InputRecord::of).collect(),
            test: plan.test.into_iter().map(InputRecord::of).collect(),
            metric: plan.metric.name().into(),
            patience: plan.patience,
            servers: plan.servers,
            workers: plan.workers,
            evaluates: plan.purpose == Purpose::Evaluate,
        }
    }

    fn plan(self) -> Result<Plan, String> {
        let metric = Metric::ALL.into_iter().find(|m| m.name() == self.metric);
        Ok(Plan {
            epochs: self.epochs,
            validation: self
                .validation
                .into_iter()
                .map(InputRecord::input)
                .collect(),
            test: self.test.into_iter().map(InputRecord::input).collect(),
            metric: metric.ok_or_else(|| format!("there is no metric `{}`", self.metric))?,
            patience: self.patience,
            servers: self.servers,
            workers: self.workers,
            purpose: if self.evaluates {
                Purpose::Evaluate
            } else {
                Purpose::Train
            },
        })
    }
}

impl StageRecord {
    fn of(stage: Stage) -> Self {
        match stage {
            Stage::Gathering { restore } => Self::Gathering { restore },
            Stage::Training => Self::Training,
            Stage::Finishing => Self::Finishing,
            Stage::Done => Self::Done,
            Stage::Failed { message } => Self::Failed { message },
        }
    }

    fn stage(self) -> Stage {
        match self {
            Self::Gathering { restore } => Stage::Gathering { restore },
            Self::Training => Stage::Training,
            Self::Finishing => Stage::Finishing,
            Self::Done => Stage::Done,
            Self::Failed { message } => Stage::Failed { message },
        }
    }
}

impl PublishedRecord {
    fn of(published: PublishedState) -> Self {
        let ranges = published.complete.ranges().iter();
        Self {
            checkpoint: published.checkpoint.0,
            root: published.root.0,
            taken: published.taken,
            complete: ranges.map(|r| (r.start, r.end)).collect(),
        }
    }

    fn state(self) -> Result<PublishedState, String> {
        let ranges = self.complete.into_iter().map(|(start, end)| start..end);
        Ok(PublishedState {
            checkpoint: CheckpointId(self.checkpoint),
            root: CheckpointId(self.root),
            taken: self.taken,
            complete: IntervalSet::from_ranges(ranges.collect()).map_err(|e| e.to_string())?,
        })
    }
}

#[cfg(test)]
mod tests;
