//! The coordinator as a whole: one state, five questions.

use std::collections::BTreeMap;
use std::time::Duration;

use tracing::info;
use windlass_client::transport::Next;
use windlass_common::coordination::{
    Assigned, Progress, Register, Registered, Report, ShardMap, Task,
};
use windlass_common::id::{JobId, LeaseId, MapEpoch, WorkerId};
use windlass_common::split::Draw;
use windlass_proto::{ErrorKind, WireError};

use super::bounds;
use super::checkpoints::Saving;
use super::cluster::Cluster;
use super::job::{Job, Meeting, Stored};
use super::members::Sender;
use super::phase::Phase;

/// The most jobs that a cluster leads at once.
pub const MAX_JOBS: usize = 1024;

/// How many jobs that are gone are remembered, so that their workers are told why.
const MAX_GONE: usize = 1024;

/// Why a job is dropped: somebody began it anew.
const REPLACED: &str = "was replaced by a new one of that name";

/// Why a job is dropped: nobody is there any more.
const DESERTED: &str = "was dropped after its workers had left";

/// A map's epoch beyond this is not one that rose step by step; taking it would end the numbers.
const MAX_EPOCH: MapEpoch = MapEpoch(1 << 60);

/// What may be set of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a lease lasts without a renewal, above 0. 10s: a worker that is gone costs that
    /// long once, and one that is slow renews many times before.
    pub lease: Duration,
    /// How jobs are saved; `None` without a store for checkpoints.
    pub saving: Option<Saving>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            saving: None,
        }
    }
}

/// The state of the coordinator role.
///
/// It is memory only; who keeps it makes [`record`](Self::record) durable. A new life without one
/// knows no jobs. Names never repeat between lives, so nothing old can be taken for new.
#[derive(Debug)]
pub struct Coordinator {
    saving: Option<Saving>,
    pub(super) cluster: Cluster,
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) names: BTreeMap<String, JobId>,
    gone: BTreeMap<JobId, WireError>,
    last_job: JobId,
}

impl Coordinator {
    /// Starts without servers and jobs. The seed must be random in each life of the process: the
    /// names of assignments, leases and jobs come from it.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        let mut draw = Draw::new(seed, &[]);
        // Jobs count up from a random number: a server that outlived the last coordinator must not
        // take a new job for one that it still holds.
        let last_job = JobId((draw.bits() >> 32) << 16);
        Self {
            saving: settings.saving,
            cluster: Cluster::new(settings.lease, draw),
            jobs: BTreeMap::new(),
            names: BTreeMap::new(),
            gone: BTreeMap::new(),
            last_job,
        }
    }

    /// Lets a worker join a job, or creates it in a cluster that stores nothing.
    ///
    /// # Errors
    /// As [`register_with`](Self::register_with).
    pub fn register(&mut self, register: Register, now: Duration) -> Result<Registered, WireError> {
        self.register_with(register, Stored::default(), now)
    }

    /// Lets a worker join a job, or creates it from what the cluster's store holds of it.
    ///
    /// # Errors
    /// `Invalid` and `TooLarge` for what no job may be, `Mismatch` where the worker's schema or
    /// recipe is not the job's, with both sides.
    pub fn register_with(
        &mut self,
        register: Register,
        stored: Stored,
        now: Duration,
    ) -> Result<Registered, WireError> {
        let worker = register.worker;
        let id = match self.admit(&register, now)? {
            Some(id) => id,
            None => self.create(register, stored)?,
        };
        self.enter(id, worker, now)
    }

    /// Lets a worker join a job that is led already; `None` if a job is to begin, so that the store
    /// must be asked first what it holds of it. Then nothing has changed.
    ///
    /// # Errors
    /// As [`register_with`](Self::register_with).
    pub(super) fn join(
        &mut self,
        register: &Register,
        now: Duration,
    ) -> Result<Option<Registered>, WireError> {
        let id = self.admit(register, now)?;
        id.map(|id| self.enter(id, register.worker, now))
            .transpose()
    }

    /// The number of the job that began last: while it stays, none has begun.
    pub(super) fn last_job(&self) -> JobId {
        self.last_job
    }

    /// Takes what a worker gives back, and tells it what to do next.
    ///
    /// # Errors
    /// `UnknownJob` for a job that is gone; a job's own error once it has failed.
    pub fn next(&mut self, next: Next, now: Duration) -> Result<(Task, Progress), WireError> {
        let (id, leaving) = (next.job, next.leaving);
        let job = lookup(&mut self.jobs, &self.gone, id)?;
        let answer = job.next(next, &mut self.cluster, now);
        if leaving && job.is_deserted(now) {
            self.remove(id, DESERTED);
        }
        answer
    }

    /// Lets a lease last longer; `false` if it had run out.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub fn renew(
        &mut self,
        job: JobId,
        worker: WorkerId,
        lease: LeaseId,
        now: Duration,
    ) -> Result<(bool, Progress), WireError> {
        lookup(&mut self.jobs, &self.gone, job)?.renew(worker, lease, &mut self.cluster, now)
    }

    /// Tells where a job's shards are.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub fn map(&mut self, job: JobId, now: Duration) -> Result<ShardMap, WireError> {
        let job = lookup(&mut self.jobs, &self.gone, job)?;
        job.pass_time(&mut self.cluster, now);
        match &job.phase {
            Phase::Failed(error) => Err(error.clone()),
            _ => Ok(job.map(&self.cluster)),
        }
    }

    /// Takes a server's word (rule S8) and tells it what to hold.
    ///
    /// # Errors
    /// `TooLarge` for an address, a count of servers or a map's epoch beyond the limits.
    pub fn report(&mut self, report: Report, now: Duration) -> Result<Assigned, WireError> {
        if report.seen > MAX_EPOCH {
            let why = format!("a map's epoch of {} is beyond the limit", report.seen);
            return Err(WireError::new(ErrorKind::TooLarge, why));
        }
        let (server, sender) = self.cluster.servers.hear(&report, now)?;
        self.cluster.rise_above(report.seen);
        if sender == Sender::New {
            info!(%server, address = report.address, "server joins");
        }
        if sender == Sender::Restarted {
            // C1: its memory is gone. Its shards are assigned anew, and what it said is forgotten.
            info!(%server, address = report.address, "server has restarted");
            let incarnation = self.cluster.incarnation();
            for job in self.jobs.values_mut() {
                job.reincarnate(server, incarnation);
            }
        }
        // C2: a report that was overtaken by a later one of the same life says nothing.
        if sender != Sender::Late {
            for told in report.jobs {
                if let Some(job) = self.jobs.get_mut(&told.job) {
                    job.hear(server, told);
                }
            }
        }
        self.pass_time(now);
        for job in self.jobs.values_mut() {
            job.assign(&mut self.cluster, now);
        }
        let assignment = |(&id, job): (&JobId, &Job)| job.assignment(id, server);
        Ok(Assigned {
            server,
            epoch: self.cluster.epoch(),
            jobs: self.jobs.iter().filter_map(assignment).collect(),
        })
    }

    /// Finds the job that a registration joins; `None` if it is to be created.
    fn admit(&mut self, register: &Register, now: Duration) -> Result<Option<JobId>, WireError> {
        bounds::validate(register)?;
        self.pass_time(now);
        let Some(&id) = self.names.get(&register.job) else {
            return Ok(None);
        };
        let job = lookup(&mut self.jobs, &self.gone, id)?;
        match job.meet(register)? {
            Meeting::Join => Ok(Some(id)),
            Meeting::Resume => {
                info!(
                    job = register.job,
                    epochs = register.plan.epochs,
                    "job goes on"
                );
                job.resume(register);
                Ok(Some(id))
            }
            Meeting::Replace => Ok(None),
        }
    }

    fn enter(
        &mut self,
        id: JobId,
        worker: WorkerId,
        now: Duration,
    ) -> Result<Registered, WireError> {
        let job = lookup(&mut self.jobs, &self.gone, id)?;
        job.workers.hear(worker, now)?;
        job.assign(&mut self.cluster, now);
        Ok(Registered {
            job: id,
            map: job.map(&self.cluster),
        })
    }

    /// Begins a job, in the place of one of that name if there is one.
    fn create(&mut self, register: Register, mut stored: Stored) -> Result<JobId, WireError> {
        if let Some(&id) = self.names.get(&register.job) {
            // A checkpoint that is under way has a number, and may have nothing in the store yet.
            let last = self.jobs.get(&id).and_then(Job::last_checkpoint);
            stored.last = stored.last.max(last.unwrap_or_default());
            self.remove(id, REPLACED);
        }
        if self.jobs.len() >= MAX_JOBS {
            let why = format!(
                "job `{}`: this cluster leads {MAX_JOBS} jobs, the most it can; use another or \
                 restart it",
                register.job
            );
            return Err(WireError::new(ErrorKind::TooLarge, why));
        }
        let job = Job::new(register, stored, self.saving)?;
        self.last_job.0 += 1;
        let id = self.last_job;
        info!(job = job.name, %id, "job begins");
        self.names.insert(job.name.clone(), id);
        self.jobs.insert(id, job);
        Ok(id)
    }

    /// Lets leases run out, silent workers go, and jobs that nobody will miss.
    fn pass_time(&mut self, now: Duration) {
        let mut deserted = Vec::new();
        for (&id, job) in &mut self.jobs {
            job.pass_time(&mut self.cluster, now);
            if job.is_deserted(now) {
                deserted.push(id);
            }
        }
        for id in deserted {
            self.remove(id, DESERTED);
        }
    }

    /// Drops a job; its workers are told why, and servers see it missing.
    fn remove(&mut self, id: JobId, why: &str) {
        let Some(job) = self.jobs.remove(&id) else {
            return;
        };
        info!(job = job.name, %id, why, "job is dropped");
        self.names.remove(&job.name);
        let why = match job.phase {
            Phase::Failed(error) => error,
            _ => {
                let why = format!("job `{}` {why}; start again", job.name);
                WireError::new(ErrorKind::UnknownJob, why)
            }
        };
        self.gone.insert(id, why);
        if self.gone.len() > MAX_GONE {
            self.gone.pop_first();
        }
    }
}

/// Finds a job, or says what became of it.
pub(super) fn lookup<'a>(
    jobs: &'a mut BTreeMap<JobId, Job>,
    gone: &BTreeMap<JobId, WireError>,
    id: JobId,
) -> Result<&'a mut Job, WireError> {
    jobs.get_mut(&id).ok_or_else(|| match gone.get(&id) {
        Some(why) => why.clone(),
        None => {
            let why =
                format!("no job has number {id} in this life of the coordinator; start again");
            WireError::new(ErrorKind::UnknownJob, why)
        }
    })
}
