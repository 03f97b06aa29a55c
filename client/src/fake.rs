//! A cluster in memory for tests: true windows and sums, and faults on order.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_common::coordination::{Progress, Register, Registered, ShardMap, Task};
use windlass_common::exchange::{Answer, Pull, Pulled, Push, Pushed};
use windlass_common::id::{
    Clock as ShardClock, Incarnation, JobId, LeaseId, Lineage, MapEpoch, ServerId, ShardId,
    TableId, WorkerId,
};
use windlass_common::key::Key;
use windlass_common::runtime::{BoxFuture, Clock};
use windlass_common::windows::{Verdict, Windows};
use windlass_proto::{ErrorKind, WireError};

use crate::connect::Connect;
use crate::retry::Waiting;
use crate::transport::{Answered, Control, Next, Shards};

/// The fake job's number.
pub(crate) const JOB: JobId = JobId(5);
/// The life of the fake job's state.
pub(crate) const LINEAGE: Lineage = Lineage(3);
/// Weights a row, by table.
pub(crate) const DIMS: [usize; 2] = [1, 3];

/// Where a server is.
pub(crate) fn address(server: u32) -> String {
    format!("http://127.0.0.1:{}", 7070 + server)
}

/// A map that gives each shard to the server that is listed for it.
pub(crate) fn map(epoch: MapEpoch, owners: &[u32]) -> ShardMap {
    ShardMap {
        epoch,
        lineage: LINEAGE,
        owners: owners
            .iter()
            .map(|&s| (ServerId(s), Incarnation { epoch, nonce: 1 }))
            .collect(),
        addresses: owners.iter().map(|&s| (ServerId(s), address(s))).collect(),
    }
}

/// Time that passes only, and at once, when somebody sleeps.
#[derive(Clone, Default)]
pub(crate) struct FakeClock {
    now: Arc<Mutex<Duration>>,
    /// What clients were waiting for at each sleep.
    pub(crate) told: Arc<Mutex<Vec<Option<String>>>>,
    pub(crate) waiting: Waiting,
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        *self.now.lock().unwrap()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let this = self.clone();
        Box::pin(async move {
            this.told.lock().unwrap().push(this.waiting.text());
            *this.now.lock().unwrap() += time;
        })
    }
}

/// What happens to one request to a server or the coordinator.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It is done, and the answer is lost.
    LoseAnswer,
    /// It is done, and the answer never comes.
    Hang,
    /// It is refused.
    Refuse(ErrorKind),
    /// Just before it, a shard moves to another server.
    Move(ShardId, u32),
}

/// One shard: what was added to each row, and the windows.
#[derive(Default)]
pub(crate) struct Shard {
    pub(crate) windows: Windows,
    pub(crate) clock: u64,
    pub(crate) sums: BTreeMap<(TableId, Key), Vec<f32>>,
    pub(crate) installed: Option<(Lineage, Vec<u8>)>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) map: ShardMap,
    /// All shards, whoever owns them: a move costs nothing here.
    pub(crate) shards: BTreeMap<ShardId, Shard>,
    /// Faults to come, by server; the coordinator's are under [`COORDINATOR`].
    pub(crate) faults: BTreeMap<u32, VecDeque<Fault>>,
    /// The pushes that reached a server.
    pub(crate) pushes: Vec<(u32, Push)>,
    /// The map that the coordinator learns after so many questions for it.
    pub(crate) later: Option<(u32, ShardMap)>,
}

/// The coordinator's place among the faults.
pub(crate) const COORDINATOR: u32 = u32::MAX;

/// The cluster: the coordinator, and a [`Server`] for each number.
pub(crate) struct Cluster(pub(crate) Mutex<State>);

impl Cluster {
    /// Starts servers `0..servers` that own shards as listed.
    pub(crate) fn new(servers: u32, owners: &[u32]) -> Arc<Self> {
        let mut map = map(MapEpoch(1), owners);
        map.addresses = (0..servers).map(|s| (ServerId(s), address(s))).collect();
        Arc::new(Self(Mutex::new(State {
            map,
            ..State::default()
        })))
    }

    /// Orders faults for the next requests to a server.
    pub(crate) fn order(&self, server: u32, faults: impl IntoIterator<Item = Fault>) {
        let mut state = self.0.lock().unwrap();
        state.faults.entry(server).or_default().extend(faults);
    }

    /// Does a request under the fault that is due.
    fn serve<'a, T: Send + 'a>(
        &'a self,
        server: u32,
        work: impl FnOnce(&mut State) -> Result<T, WireError>,
    ) -> Answered<'a, T> {
        let mut state = self.0.lock().unwrap();
        let fault = state.faults.entry(server).or_default().pop_front();
        match fault {
            Some(Fault::Refuse(kind)) => {
                return Box::pin(async move { Err(WireError::new(kind, "as ordered")) });
            }
            Some(Fault::Move(shard, to)) => state.give(shard, to),
            _ => (),
        }
        let answer = work(&mut state);
        match fault {
            Some(Fault::LoseAnswer) => {
                Box::pin(async { Err(WireError::new(ErrorKind::Unavailable, "connection reset")) })
            }
            Some(Fault::Hang) => Box::pin(pending()),
            _ => Box::pin(async { answer }),
        }
    }
}

impl State {
    /// Moves a shard and raises the map's version.
    pub(crate) fn give(&mut self, shard: ShardId, to: u32) {
        self.map.epoch.0 += 1;
        self.map.owners[usize::from(shard.0)].0 = ServerId(to);
    }

    fn owns(&self, server: u32, shard: ShardId) -> bool {
        self.map.owners[usize::from(shard.0)].0 == ServerId(server)
    }

    fn require(&self, server: u32, shard: ShardId) -> Result<(), WireError> {
        if self.owns(server, shard) {
            Ok(())
        } else {
            Err(WireError::new(ErrorKind::Moved, "not mine"))
        }
    }

    fn pull(&mut self, server: u32, pull: &Pull) -> Result<Pulled, WireError> {
        let mut clocks = BTreeMap::new();
        for &shard in pull.sets.iter().flat_map(|set| set.shards()) {
            self.require(server, shard)?;
            let state = self.shards.entry(shard).or_default();
            if pull
                .exactly_below
                .is_some_and(|end| !state.windows.exactly_below(end))
            {
                return Err(WireError::new(ErrorKind::NotExact, "not yet"));
            }
            clocks.insert(shard, ShardClock(state.clock));
        }
        let rows = |&(table, set): &(TableId, usize)| {
            let keys = pull.sets[set].iter();
            keys.flat_map(|(shard, keys)| keys.iter().map(move |&key| (shard, key)))
                .flat_map(|(shard, key)| {
                    let row = self.shards[&shard].sums.get(&(table, key));
                    row.cloned()
                        .unwrap_or_else(|| vec![0.0; DIMS[usize::from(table.0)]])
                })
                .collect()
        };
        Ok(Pulled {
            tables: pull.tables.iter().map(rows).collect(),
            clocks: clocks.into_iter().collect(),
        })
    }

    fn push(&mut self, server: u32, push: Push) -> Result<Pushed, WireError> {
        self.pushes.push((server, push.clone()));
        if push.lineage != LINEAGE {
            return Err(WireError::new(ErrorKind::StaleLineage, "restored since"));
        }
        let mut answers = Vec::new();
        for &shard in &push.cover {
            let answer = if self.owns(server, shard) {
                self.shards.entry(shard).or_default().push(shard, &push)
            } else {
                Answer::Moved
            };
            answers.push((shard, answer));
        }
        Ok(Pushed { answers })
    }
}

impl Shard {
    fn push(&mut self, shard: ShardId, push: &Push) -> Answer {
        match self.windows.judge(push.id, push.end) {
            Verdict::Apply => (),
            Verdict::Duplicate => return Answer::Duplicate,
            Verdict::Gap { next } => return Answer::Gap { next },
            verdict => panic!("{}: {verdict:?}", push.id),
        }
        for table in &push.tables {
            let set = &push.sets[table.set];
            let Ok(at) = set.shards().binary_search(&shard) else {
                continue;
            };
            let dim = DIMS[usize::from(table.table.0)];
            for place in set.range(at) {
                let gradient = &table.gradients[place * dim..(place + 1) * dim];
                let key = (table.table, set.keys()[place]);
                let row = self.sums.entry(key).or_insert_with(|| vec![0.0; dim]);
                row.iter_mut().zip(gradient).for_each(|(w, g)| *w += g);
            }
        }
        self.windows.mark(push.id, push.end);
        self.clock += 1;
        Answer::Applied {
            before: ShardClock(self.clock - 1),
        }
    }
}

/// One server of the cluster.
struct Server {
    cluster: Arc<Cluster>,
    number: u32,
}

impl Shards for Server {
    fn pull(&self, pull: Pull) -> Answered<'_, Pulled> {
        self.cluster
            .serve(self.number, |state| state.pull(self.number, &pull))
    }

    fn push(&self, push: Push) -> Answered<'_, Pushed> {
        self.cluster
            .serve(self.number, |state| state.push(self.number, push))
    }

    fn snapshot(&self, _: JobId, shard: ShardId) -> Answered<'_, Vec<u8>> {
        self.cluster.serve(self.number, |state| {
            state.require(self.number, shard)?;
            Ok(shard.0.to_le_bytes().to_vec())
        })
    }

    fn install(
        &self,
        _: JobId,
        shard: ShardId,
        lineage: Lineage,
        snapshot: Vec<u8>,
    ) -> Answered<'_, ()> {
        self.cluster.serve(self.number, |state| {
            state.require(self.number, shard)?;
            state.shards.entry(shard).or_default().installed = Some((lineage, snapshot));
            Ok(())
        })
    }
}

/// The way to the cluster's servers.
pub(crate) struct Wires(pub(crate) Arc<Cluster>);

impl Connect for Wires {
    fn shards(&self, at: &str) -> Arc<dyn Shards> {
        let number = (0..100).find(|&s| address(s) == at).unwrap();
        Arc::new(Server {
            cluster: Arc::clone(&self.0),
            number,
        })
    }
}

impl Control for Cluster {
    fn register(&self, _: Register) -> Answered<'_, Registered> {
        self.serve(COORDINATOR, |state| {
            Ok(Registered {
                job: JOB,
                map: state.map.clone(),
            })
        })
    }

    fn next(&self, next: Next) -> Answered<'_, (Task, Progress)> {
        self.serve(COORDINATOR, |_| {
            let wait = Task::Wait {
                reason: format!("{} of job {}", next.worker, next.job),
                retry: Duration::ZERO,
                missing: false,
            };
            Ok((wait, Progress::default()))
        })
    }

    fn renew(&self, _: JobId, _: WorkerId, lease: LeaseId) -> Answered<'_, (bool, Progress)> {
        self.serve(COORDINATOR, |_| Ok((lease.0 == 1, Progress::default())))
    }

    fn map(&self, _: JobId) -> Answered<'_, ShardMap> {
        self.serve(COORDINATOR, |state| {
            if let Some((questions, map)) = &mut state.later {
                if *questions == 0 {
                    state.map = map.clone();
                } else {
                    *questions -= 1;
                }
            }
            Ok(state.map.clone())
        })
    }
}
