//! The power goes at every step: what was acknowledged is there, and what is there was appended.

use super::*;

/// What a life did before the power went.
#[derive(Default)]
struct Diary {
    /// By lsn; those that came later in the same life are told from each other by their number.
    appended: BTreeMap<Lsn, u64>,
    acknowledged: Vec<Lsn>,
    /// Covered by a cut that was asked for: shard, and up to where.
    covered: Vec<(u16, Lsn)>,
}

/// Which shard a record is of: neighbours lie together, so that segments have shards of their own.
fn shard(number: u64) -> u16 {
    (number / 3 % 3) as u16
}

impl Diary {
    /// A life: groups of different sizes, new segments, and cuts at the front and in the middle.
    async fn live(&mut self, life: &Life, from: u64) {
        let earlier = self.covered.len();
        for number in from..from + 14 {
            let Ok(lsn) = life.log.append(&record(shard(number), number)) else {
                return;
            };
            self.appended.insert(lsn, number);
            if number % 4 != 1 {
                if life.log.synced(lsn).await.is_err() {
                    return;
                }
                self.acknowledged.push(lsn);
            }
            if number % 7 == 6 {
                let covered = if number % 2 == 0 { 0 } else { 1 };
                self.covered.push((covered, lsn));
                let coverage = |_, ShardId(shard)| {
                    // S7 `mark_life`: marks of earlier lives do not count.
                    let of = self.covered[earlier..].iter().filter(|c| c.0 == shard);
                    of.map(|c| Coverage::UpTo(c.1))
                        .next_back()
                        .unwrap_or(Coverage::Nothing)
                };
                if life.log.cut(coverage).is_err() {
                    return;
                }
            }
        }
    }

    fn is_covered(&self, lsn: Lsn, number: u64) -> bool {
        self.covered
            .iter()
            .any(|&(s, mark)| s == shard(number) && lsn <= mark)
    }

    /// Checks a log, and forgets what it has lost, as the server has.
    fn check(&mut self, life: &Life, what: &str) {
        let Recovered { last, damage, .. } = &life.recovered;
        assert!(damage.is_none(), "{what}: {damage:?}");
        let found: BTreeMap<_, _> = life.replayed().into_iter().collect();
        assert_eq!(life.replayed().len(), found.len());
        assert!(life.replayed().is_sorted(), "{what}");
        for (lsn, number) in &found {
            assert_eq!(
                self.appended.get(lsn),
                Some(number),
                "{what}: {lsn} was not appended"
            );
        }
        let lost =
            |lsn: &Lsn| !found.contains_key(lsn) && !self.is_covered(*lsn, self.appended[lsn]);
        let acknowledged: Vec<_> = self.acknowledged.iter().copied().filter(lost).collect();
        assert!(
            acknowledged.is_empty(),
            "{what}: lost {acknowledged:?} of {found:?}"
        );
        // No holes: nothing that is there comes after something that is lost.
        let end = found.keys().next_back().copied().unwrap_or_default();
        let holes: Vec<_> = self
            .appended
            .range(..end)
            .map(|p| *p.0)
            .filter(lost)
            .collect();
        assert!(holes.is_empty(), "{what}: holes at {holes:?} in {found:?}");
        assert!(*last >= end);
        self.appended.retain(|lsn, _| lsn <= last);
        self.covered.iter_mut().for_each(|c| c.1 = c.1.min(*last));
    }
}

/// Two lives, each ended by a crash after so many steps; returns whether the steps sufficed.
async fn die(seed: u64, steps: usize) -> bool {
    let mut rng = Rng(seed * 1000 + steps as u64);
    let mut diary = Diary::default();
    let mut disk = MemDisk::default();
    let mut alive = true;
    for life_number in 0..2 {
        let what = format!("seed {seed}, {steps} steps, life {life_number}");
        let life = Life::begin(&disk, small());
        diary.check(&life, &what);
        disk.state().steps = Some(steps);
        diary.live(&life, life_number * 14).await;
        alive &= disk.state().steps != Some(0);
        drop(life);
        disk = disk.crash(&mut rng);
    }
    let what = format!("seed {seed}, {steps} steps, at the end");
    let life = Life::begin(&disk, small());
    diary.check(&life, &what);
    // A third life without trouble keeps everything.
    for number in 28..31 {
        let lsn = life.push(shard(number), number).await;
        assert!(lsn > life.recovered.last);
        diary.appended.insert(lsn, number);
        diary.acknowledged.push(lsn);
    }
    drop(life);
    diary.check(&Life::begin(&disk.crash(&mut rng), small()), &what);
    alive
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_loses_nothing_that_was_acknowledged() {
    for seed in 0..20 {
        let mut steps = 0;
        while !die(seed, steps).await {
            steps += 1;
        }
        assert!(steps > 50, "the lives were longer than {steps} steps");
    }
}
