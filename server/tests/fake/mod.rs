//! A server's shards and a coordinator in memory, with just enough behaviour to be asked.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_client::transport::{Admin, Answered, Control, Membership, Next, Shards};
use windlass_common::coordination::{
    Assigned, Progress, Register, Registered, Report, ShardMap, Task,
};
use windlass_common::exchange::{Answer, Pull, Pulled, Push, Pushed, TableGradients};
use windlass_common::id::*;
use windlass_common::key::Key;
use windlass_common::shard::{ShardCount, ShardedKeys};
use windlass_common::status::ClusterStatus;
use windlass_proto::{ErrorKind, WireError};
use windlass_server::durable::Durable;

/// Weights a row of table 0 and of table 1.
pub const DIMS: [usize; 2] = [1, 16];

/// Asking for this job never ends.
pub const STALLED: JobId = JobId(999);

/// Asking for job `KINDS + i` is refused with the `i`-th kind.
pub const KINDS: u64 = 1000;

pub const ALL_KINDS: [ErrorKind; 13] = [
    ErrorKind::Invalid,
    ErrorKind::Mismatch,
    ErrorKind::Version,
    ErrorKind::UnknownJob,
    ErrorKind::Moved,
    ErrorKind::NotExact,
    ErrorKind::StaleLineage,
    ErrorKind::TooLarge,
    ErrorKind::Damaged,
    ErrorKind::Busy,
    ErrorKind::Unavailable,
    ErrorKind::Deadline,
    ErrorKind::Internal,
];

/// Rows that pushes add to; each push counts once a shard.
#[derive(Default)]
pub struct FakeShards {
    pub state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    pub rows: HashMap<(TableId, Key), Vec<f32>>,
    pub applied: BTreeSet<(ShardId, PushId)>,
    pub clocks: BTreeMap<ShardId, u64>,
    /// How many keys each pull asked for.
    pub pulls: Vec<usize>,
    /// What each push covered, and whether it was an END.
    pub pushes: Vec<(Vec<ShardId>, bool)>,
    pub installed: BTreeMap<(JobId, ShardId), (Lineage, Vec<u8>)>,
}

fn refusal(job: JobId) -> Result<(), WireError> {
    let kind = job
        .0
        .checked_sub(KINDS)
        .and_then(|k| usize::try_from(k).ok());
    match kind.and_then(|k| ALL_KINDS.get(k)) {
        Some(&kind) => Err(WireError::new(kind, format!("refused: {kind:?}"))),
        None => Ok(()),
    }
}

impl State {
    fn pull(&mut self, pull: &Pull) -> Pulled {
        self.pulls.push(pull.sets.iter().map(|s| s.len()).sum());
        let shards: BTreeSet<_> = pull.sets.iter().flat_map(|s| s.shards()).copied().collect();
        let clock = |s: ShardId| Clock(self.clocks.get(&s).copied().unwrap_or(0));
        let rows = |&(table, set): &(TableId, usize)| {
            let born = vec![0.0; DIMS[usize::from(table.0)]];
            let keys = pull.sets[set].keys().iter();
            keys.flat_map(|&k| self.rows.get(&(table, k)).unwrap_or(&born).clone())
                .collect()
        };
        Pulled {
            clocks: shards.into_iter().map(|s| (s, clock(s))).collect(),
            tables: pull.tables.iter().map(rows).collect(),
        }
    }

    fn push(&mut self, push: &Push) -> Pushed {
        self.pushes.push((push.cover.clone(), push.end));
        let fresh: BTreeSet<_> = push
            .cover
            .iter()
            .copied()
            .filter(|&shard| self.applied.insert((shard, push.id)))
            .collect();
        for part in &push.tables {
            let set = &push.sets[part.set];
            let dim = DIMS[usize::from(part.table.0)];
            for (i, shard) in set.shards().iter().enumerate() {
                for at in set.range(i).filter(|_| fresh.contains(shard)) {
                    let gradient = &part.gradients[at * dim..(at + 1) * dim];
                    let row = self.rows.entry((part.table, set.keys()[at]));
                    let row = row.or_insert_with(|| vec![0.0; dim]);
                    row.iter_mut().zip(gradient).for_each(|(w, g)| *w += g);
                }
            }
        }
        let answers = push.cover.iter().map(|&shard| {
            let clock = self.clocks.entry(shard).or_default();
            if fresh.contains(&shard) {
                *clock += 1;
                let before = Clock(*clock - 1);
                (shard, Answer::Applied { before })
            } else {
                (shard, Answer::Duplicate)
            }
        });
        Pushed {
            answers: answers.collect(),
        }
    }
}

impl Shards for FakeShards {
    fn pull(&self, pull: Pull) -> Answered<'_, Pulled> {
        Box::pin(async move {
            if pull.job == STALLED {
                std::future::pending::<()>().await;
            }
            refusal(pull.job)?;
            Ok(self.state.lock().unwrap().pull(&pull))
        })
    }

    fn push(&self, push: Push) -> Answered<'_, Pushed> {
        Box::pin(async move {
            refusal(push.job)?;
            // Others run before it is applied: what comes after it must wait nevertheless.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            Ok(self.state.lock().unwrap().push(&push))
        })
    }

    fn snapshot(&self, job: JobId, shard: ShardId) -> Answered<'_, Vec<u8>> {
        Box::pin(async move {
            refusal(job)?;
            let state = self.state.lock().unwrap();
            Ok(state
                .installed
                .get(&(job, shard))
                .map_or(vec![], |(_, s)| s.clone()))
        })
    }

    fn install(
        &self,
        job: JobId,
        shard: ShardId,
        lineage: Lineage,
        snapshot: Vec<u8>,
    ) -> Answered<'_, ()> {
        Box::pin(async move {
            refusal(job)?;
            let mut state = self.state.lock().unwrap();
            state.installed.insert((job, shard), (lineage, snapshot));
            Ok(())
        })
    }
}

/// The default: an answer waits for what `push` waits for.
impl Durable for FakeShards {}

/// Answers with what it was asked, where it can.
#[derive(Default)]
pub struct FakeCoordinator;

impl Control for FakeCoordinator {
    fn register(&self, register: Register) -> Answered<'_, Registered> {
        Box::pin(async move {
            Ok(Registered {
                job: JobId(register.worker.0),
                map: ShardMap::default(),
            })
        })
    }

    fn next(&self, next: Next) -> Answered<'_, (Task, Progress)> {
        Box::pin(async move {
            let wait = Task::Wait {
                reason: format!("{:?}", next.done),
                retry: Duration::from_millis(next.job.0),
                missing: true,
            };
            Ok((wait, Progress::default()))
        })
    }

    fn renew(
        &self,
        job: JobId,
        worker: WorkerId,
        lease: LeaseId,
    ) -> Answered<'_, (bool, Progress)> {
        Box::pin(async move { Ok((job.0 + worker.0 == lease.0, Progress::default())) })
    }

    fn map(&self, job: JobId) -> Answered<'_, ShardMap> {
        Box::pin(async move {
            refusal(job)?;
            Ok(ShardMap {
                epoch: MapEpoch(job.0),
                ..ShardMap::default()
            })
        })
    }
}

impl Membership for FakeCoordinator {
    fn report(&self, report: Report) -> Answered<'_, Assigned> {
        Box::pin(async move {
            Ok(Assigned {
                server: ServerId(3),
                epoch: report.seen,
                jobs: vec![],
            })
        })
    }
}

impl Admin for FakeCoordinator {
    fn status(&self) -> Answered<'_, ClusterStatus> {
        Box::pin(async move { Ok(ClusterStatus::default()) })
    }

    fn save(&self, job: String) -> Answered<'_, CheckpointId> {
        Box::pin(async move { Ok(CheckpointId(job.len() as u64)) })
    }

    fn restore(&self, _: String, checkpoint: CheckpointId) -> Answered<'_, Lineage> {
        Box::pin(async move { Ok(Lineage(checkpoint.0)) })
    }
}

/// Keys `0..count` in 8 shards.
pub fn keys(count: u64) -> Arc<ShardedKeys> {
    let keys: Vec<_> = (0..count).map(Key).collect();
    Arc::new(ShardedKeys::group(&keys, ShardCount::new(8).unwrap()).0)
}

pub fn pull(job: JobId, set: &Arc<ShardedKeys>) -> Pull {
    Pull {
        job,
        sets: vec![Arc::clone(set)],
        tables: vec![(TableId(0), 0), (TableId(1), 0)],
        exactly_below: None,
    }
}

/// A push that adds to each weight the number of its key.
pub fn push(seq: u64, set: &Arc<ShardedKeys>) -> Push {
    let table = |table: u16| TableGradients {
        table: TableId(table),
        set: 0,
        gradients: weights(TableId(table), set),
    };
    Push {
        job: JobId(1),
        lineage: Lineage(1),
        id: PushId {
            source: SourceId(1),
            seq: Seq(seq),
        },
        end: false,
        cover: (0..8).map(ShardId).collect(),
        sets: vec![Arc::clone(set)],
        tables: vec![table(0), table(1)],
    }
}

/// What [`push`] makes of new rows.
pub fn weights(table: TableId, set: &ShardedKeys) -> Vec<f32> {
    let dim = DIMS[usize::from(table.0)];
    let keys = set.keys().iter();
    keys.flat_map(|k| std::iter::repeat_n(k.0 as f32, dim))
        .collect()
}
