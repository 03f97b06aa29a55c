//! The servers of the simulated cluster: they report, obey, save and come back.

use std::collections::BTreeMap;

use windlass_common::coordination::{Assigned, Health, JobReport, Report, ShardReport};
use windlass_common::id::{Boot, Clock, Incarnation, JobId, Lineage, MapEpoch, ServerId, ShardId};
use windlass_common::saving::{self, SaveOrder};
use windlass_common::split::Draw;
use windlass_common::windows::Windows;

use super::store::Store;
use super::world::{Rows, World};

/// One shard's state: the rows and the windows that tell what is in them.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    pub(super) rows: Rows,
    pub(super) windows: Windows,
    pub(super) lineage: Lineage,
    pub(super) incarnation: Incarnation,
}

pub(super) struct Server {
    pub(super) id: Option<ServerId>,
    pub(super) up: bool,
    pub(super) jobs: BTreeMap<JobId, BTreeMap<ShardId, Shard>>,
    /// What it is to save, and what it has saved for that.
    pub(super) save: Option<(JobId, SaveOrder)>,
    pub(super) saved: BTreeMap<ShardId, saving::Saved>,
    pub(super) address: String,
    pub(super) boot: Boot,
    pub(super) number: u64,
    pub(super) seen: MapEpoch,
}

impl World {
    /// A server reports and obeys the answer (rule S3).
    pub(super) fn speak(&mut self, s: usize) {
        if let Some(store) = &mut self.store {
            self.servers[s].save_one(store, &mut self.draw);
        }
        let server = &mut self.servers[s];
        server.number += 1;
        let saved_of = |job: JobId| match server.save {
            Some((of, _)) if of == job => server.saved.values().cloned().collect(),
            _ => Vec::new(),
        };
        let tell = |(&shard, held): (&ShardId, &Shard)| ShardReport {
            shard,
            incarnation: held.incarnation,
            lineage: held.lineage,
            complete: held.windows.complete().clone(),
            open: held
                .windows
                .open()
                .iter()
                .map(|(&s, w)| (s, w.next))
                .collect(),
            rows: held.rows.len() as u64,
            clock: Clock(0),
        };
        let jobs = server.jobs.iter().map(|(&job, shards)| JobReport {
            job,
            shards: shards.iter().map(tell).collect(),
            saved: saved_of(job),
            tables: Vec::new(),
        });
        let report = Report {
            address: server.address.clone(),
            boot: server.boot,
            number: server.number,
            seen: server.seen,
            health: Health::default(),
            jobs: jobs.collect(),
        };
        self.sent.push(report.clone());
        let assigned = self.coordinator.report(report, self.now).unwrap();
        self.write_down();
        self.servers[s].obey(assigned, self.store.as_ref());
        self.publish();
    }
}

impl Server {
    /// Saves one more shard of what is ordered (rule S6).
    fn save_one(&mut self, store: &mut Store, draw: &mut Draw) {
        let Some((job, order)) = self.save else {
            return;
        };
        let shards = self.jobs.get(&job).into_iter().flatten();
        let open = shards.filter(|(shard, _)| !self.saved.contains_key(shard));
        if let Some((&shard, held)) = open.into_iter().next() {
            let saved = store.save(order, shard, held, draw.bits());
            self.saved.insert(shard, saved);
        }
    }

    /// S3: keeps a shard that is in memory and adopts its incarnation, makes a missing one, drops
    /// one that is not its own.
    fn obey(&mut self, assigned: Assigned, store: Option<&Store>) {
        self.id = Some(assigned.server);
        if assigned.epoch < self.seen {
            return;
        }
        self.seen = assigned.epoch;
        let mut jobs = BTreeMap::new();
        for assignment in assigned.jobs {
            let mut before = self.jobs.remove(&assignment.job).unwrap_or_default();
            if let Some(save) = assignment.save {
                if self.save != Some((assignment.job, save)) {
                    self.saved.clear();
                }
                self.save = Some((assignment.job, save));
            } else if self.save.is_some_and(|s| s.0 == assignment.job) {
                self.save = None;
                self.saved.clear();
            }
            let (job, lineage, origin) = (assignment.job, assignment.lineage, assignment.origin);
            let stays = |held: &Shard| held.lineage >= lineage || origin.is_none();
            let shards = assignment.shards.into_iter().map(|(shard, incarnation)| {
                let held = before.remove(&shard).filter(stays);
                let stored = || store?.newest(job, lineage, origin, shard);
                let held = held.or_else(stored).unwrap_or(Shard {
                    rows: Rows::new(),
                    windows: Windows::default(),
                    lineage,
                    incarnation,
                });
                // A stored one comes into the lineage that it is for.
                let adopted = Shard {
                    incarnation,
                    lineage: held.lineage.max(if origin.is_some() {
                        lineage
                    } else {
                        held.lineage
                    }),
                    ..held
                };
                (shard, adopted)
            });
            jobs.insert(assignment.job, shards.collect());
        }
        self.jobs = jobs;
    }
}
