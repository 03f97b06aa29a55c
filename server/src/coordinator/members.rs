//! Who belongs to the cluster and to a job, and who has been silent for too long.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_common::coordination::{Health, Report};
use windlass_common::id::{Boot, ServerId, WorkerId};
use windlass_common::status::ServerStatus;
use windlass_proto::{ErrorKind, WireError};

/// A server that reports every second is silent, and named to the user, after this long.
pub(super) const SERVER_SILENT: Duration = Duration::from_secs(5);

/// The most servers: as many as a job may have shards.
const MAX_SERVERS: usize = 4096;

/// The most workers of a job.
const MAX_WORKERS: usize = 1 << 16;

/// The longest address, in bytes.
const MAX_ADDRESS: usize = 512;

#[derive(Debug)]
struct Server {
    address: String,
    boot: Boot,
    number: u64,
    heard: Duration,
    health: Health,
    /// False until it has spoken in this life of the role.
    spoke: bool,
}

/// The servers, numbered in order of joining; an address is a server's name over restarts.
#[derive(Debug, Default)]
pub(super) struct Servers {
    by_id: Vec<Server>,
    by_address: BTreeMap<String, ServerId>,
}

/// What a report tells about its sender, before its content is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// An address that was not known.
    New,
    /// A known address, in a life that was not known: its memory is gone (rule C1).
    Restarted,
    /// The life that spoke last.
    Known,
    /// The life that spoke last, with a report older than one that has come (rule C2).
    Late,
}

impl Servers {
    /// Takes note of a report's sender.
    ///
    /// # Errors
    /// `TooLarge` for an address beyond the limits.
    pub(super) fn hear(
        &mut self,
        report: &Report,
        now: Duration,
    ) -> Result<(ServerId, Sender), WireError> {
        let Some(&id) = self.by_address.get(&report.address) else {
            return Ok((self.join(report, now)?, Sender::New));
        };
        let server = &mut self.by_id[id.0 as usize];
        server.heard = now;
        server.spoke = true;
        let sender = if server.boot != report.boot {
            Sender::Restarted
        } else if report.number < server.number {
            Sender::Late
        } else {
            Sender::Known
        };
        if sender != Sender::Late {
            server.boot = report.boot;
            server.number = report.number;
            server.health = report.health.clone();
        }
        Ok((id, sender))
    }

    fn join(&mut self, report: &Report, now: Duration) -> Result<ServerId, WireError> {
        let refuse = |why: String| Err(WireError::new(ErrorKind::TooLarge, why));
        if report.address.len() > MAX_ADDRESS {
            return refuse(format!(
                "a server's address has at most {MAX_ADDRESS} bytes"
            ));
        }
        let id = match u32::try_from(self.by_id.len()) {
            Ok(id) if self.by_id.len() < MAX_SERVERS => ServerId(id),
            _ => return refuse(format!("a cluster has at most {MAX_SERVERS} servers")),
        };
        self.by_id.push(Server {
            address: report.address.clone(),
            boot: report.boot,
            number: report.number,
            heard: now,
            health: report.health.clone(),
            spoke: true,
        });
        self.by_address.insert(report.address.clone(), id);
        Ok(id)
    }

    /// The servers that have been heard of lately, in order of joining.
    pub(super) fn alive(&self, now: Duration) -> Vec<ServerId> {
        (0u32..)
            .zip(&self.by_id)
            .filter(|(_, s)| s.spoke && now.saturating_sub(s.heard) <= SERVER_SILENT)
            .map(|(id, _)| ServerId(id))
            .collect()
    }

    /// Takes what an earlier life of the role knew. A server is given the usual time to speak
    /// before it is silent.
    pub(super) fn known(servers: Vec<(String, Boot)>, now: Duration) -> Self {
        let mut known = Self::default();
        for (id, (address, boot)) in (0u32..).zip(servers) {
            known.by_address.insert(address.clone(), ServerId(id));
            known.by_id.push(Server {
                address,
                boot,
                number: 0,
                heard: now,
                health: Health::default(),
                spoke: false,
            });
        }
        known
    }

    /// Every server's address and the life that spoke last.
    pub(super) fn lives(&self) -> impl Iterator<Item = (&str, Boot)> {
        self.by_id.iter().map(|s| (s.address.as_str(), s.boot))
    }

    /// How every server is.
    pub(super) fn status(&self, now: Duration) -> Vec<ServerStatus> {
        let ids = (0u32..).map(ServerId).zip(&self.by_id);
        ids.map(|(id, server)| ServerStatus {
            server: id,
            address: server.address.clone(),
            silent: self.silence(id, now),
            health: server.health.clone(),
        })
        .collect()
    }

    /// Where a server is reached.
    pub(super) fn address(&self, id: ServerId) -> &str {
        &self.by_id[id.0 as usize].address
    }

    /// How long a server has been silent, if that is too long.
    pub(super) fn silence(&self, id: ServerId, now: Duration) -> Option<Duration> {
        let silent = now.saturating_sub(self.by_id[id.0 as usize].heard);
        (silent > SERVER_SILENT).then_some(silent)
    }
}

/// The workers of one job. The keeper is the one that writes and reads its checkpoints.
#[derive(Debug, Default)]
pub(super) struct Workers {
    heard: BTreeMap<WorkerId, Duration>,
    oldest: BTreeSet<(Duration, WorkerId)>,
    last_heard: Duration,
    keeper: Option<WorkerId>,
}

impl Workers {
    /// Takes note of a worker; the first, and the first after a keeper is gone, becomes the keeper.
    ///
    /// # Errors
    /// `TooLarge` for more workers than a job may have.
    pub(super) fn hear(&mut self, id: WorkerId, now: Duration) -> Result<(), WireError> {
        if let Some(before) = self.heard.get(&id) {
            self.oldest.remove(&(*before, id));
        } else if self.heard.len() >= MAX_WORKERS {
            let why = format!("a job has at most {MAX_WORKERS} workers");
            return Err(WireError::new(ErrorKind::TooLarge, why));
        }
        self.heard.insert(id, now);
        self.oldest.insert((now, id));
        self.last_heard = now;
        self.keeper.get_or_insert(id);
        Ok(())
    }

    /// Forgets a worker that leaves.
    pub(super) fn forget(&mut self, id: WorkerId) {
        if let Some(heard) = self.heard.remove(&id) {
            self.oldest.remove(&(heard, id));
        }
        if self.keeper == Some(id) {
            self.keeper = None;
        }
    }

    /// Forgets the workers that were last heard of before `moment`.
    pub(super) fn forget_before(&mut self, moment: Duration) {
        while let Some(&(heard, id)) = self.oldest.first()
            && heard < moment
        {
            self.forget(id);
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.heard.len()).unwrap_or(u32::MAX)
    }

    /// When any of them was last heard of, those that have gone included.
    pub(super) fn last_heard(&self) -> Duration {
        self.last_heard
    }

    /// Whose the checkpoints are.
    pub(super) fn keeper(&self) -> Option<WorkerId> {
        self.keeper
    }
}

#[cfg(test)]
mod tests {
    use windlass_common::id::MapEpoch;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn report(address: &str, boot: u64, number: u64) -> Report {
        Report {
            address: address.into(),
            boot: Boot(boot),
            number,
            seen: MapEpoch(0),
            health: Health::default(),
            jobs: Vec::new(),
        }
    }

    #[test]
    fn c2_a_report_with_a_lower_number_is_late_and_changes_nothing() {
        let mut servers = Servers::default();
        let mut hear = |boot, number| servers.hear(&report("a", boot, number), SECOND).unwrap().1;
        assert_eq!(hear(1, 5), Sender::New);
        assert_eq!(hear(1, 5), Sender::Known);
        assert_eq!(hear(1, 4), Sender::Late);
        assert_eq!(hear(1, 5), Sender::Known);
        assert_eq!(hear(2, 1), Sender::Restarted);
        assert_eq!(hear(2, 2), Sender::Known);
    }

    #[test]
    fn an_address_keeps_its_number_over_restarts() {
        let mut servers = Servers::default();
        let mut hear = |address, boot| servers.hear(&report(address, boot, 0), SECOND).unwrap().0;
        assert_eq!(hear("a", 1), ServerId(0));
        assert_eq!(hear("b", 2), ServerId(1));
        assert_eq!(hear("a", 3), ServerId(0));
        assert_eq!(servers.address(ServerId(1)), "b");
    }

    #[test]
    fn a_server_is_silent_after_five_seconds() {
        let mut servers = Servers::default();
        servers.hear(&report("a", 1, 0), SECOND).unwrap();
        assert_eq!(servers.silence(ServerId(0), 6 * SECOND), None);
        assert_eq!(servers.silence(ServerId(0), 7 * SECOND), Some(6 * SECOND));
        assert!(servers.alive(7 * SECOND).is_empty());
    }

    #[test]
    fn the_keeper_is_the_first_worker_until_it_is_silent_or_leaves() {
        let (a, b) = (WorkerId(9), WorkerId(3));
        let mut workers = Workers::default();
        workers.hear(a, SECOND).unwrap();
        workers.hear(b, 2 * SECOND).unwrap();
        assert_eq!((workers.keeper(), workers.count()), (Some(a), 2));
        workers.forget_before(2 * SECOND);
        assert_eq!((workers.keeper(), workers.count()), (None, 1));
        workers.hear(b, 3 * SECOND).unwrap();
        assert_eq!(workers.keeper(), Some(b));
        workers.forget(b);
        assert_eq!((workers.keeper(), workers.count()), (None, 0));
        assert_eq!(workers.last_heard(), 3 * SECOND);
    }
}
