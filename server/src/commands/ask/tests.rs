use std::collections::VecDeque;
use std::future::ready;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use windlass_client::transport::Answered;
use windlass_common::coordination::{Health, Progress};
use windlass_common::id::{JobId, Lineage};
use windlass_common::status::ServerStatus;
use windlass_proto::ErrorKind;

use super::*;

/// A coordinator that gives checkpoint 5 when it is asked to save, and shows one status after the
/// other; at the end nobody is there any more.
struct Scripted(Mutex<VecDeque<ClusterStatus>>);

impl Admin for Scripted {
    fn status(&self) -> Answered<'_, ClusterStatus> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = WireError::new(ErrorKind::Unavailable, "Connection refused");
        Box::pin(ready(left.pop_front().ok_or(gone)))
    }

    fn save(&self, _: String) -> Answered<'_, CheckpointId> {
        Box::pin(ready(Ok(CheckpointId(5))))
    }

    fn restore(&self, job: String, _: CheckpointId) -> Answered<'_, Lineage> {
        let why = format!("no job `{job}`");
        Box::pin(ready(Err(WireError::new(ErrorKind::UnknownJob, why))))
    }
}

struct NoTime;

impl Clock for NoTime {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(ready(()))
    }
}

/// Server 0 has all shards of job `clicks`; server 1 has none and is silent.
fn cluster(silent: Option<u64>, lineage: u64, saved: u64) -> ClusterStatus {
    let server = |id, silent: Option<u64>| ServerStatus {
        server: ServerId(id),
        address: format!("http://s{id}:7070"),
        silent: silent.map(Duration::from_secs),
        health: Health::default(),
    };
    ClusterStatus {
        servers: vec![server(0, silent), server(1, Some(90))],
        jobs: vec![JobStatus {
            job: JobId(1),
            name: "clicks".into(),
            phase: "training".into(),
            lineage: Lineage(lineage),
            owners: vec![(ServerId(0), 16)],
            unreported: 0,
            leased: 0,
            progress: Progress::default(),
            closed: 0,
            saved: Some((CheckpointId(saved), Duration::ZERO)),
            saving: None,
        }],
        ..ClusterStatus::default()
    }
}

fn asked(statuses: impl Into<VecDeque<ClusterStatus>>) -> Asked {
    Asked::new(
        Arc::new(Scripted(Mutex::new(statuses.into()))),
        "http://c:7070",
    )
}

/// What `create` prints, and how it ends.
fn created(statuses: impl Into<VecDeque<ClusterStatus>>) -> (String, Result<(), String>) {
    let mut out = Vec::new();
    let asked = asked(statuses);
    let ended = asked.create(&NoTime, "clicks", &mut out).now_or_never();
    let ended = ended.unwrap().map_err(|error| error.to_string());
    (String::from_utf8(out).unwrap(), ended)
}

#[test]
fn a_checkpoint_that_waits_for_a_silent_server_says_so_once() {
    let statuses = [
        cluster(None, 1, 4),
        cluster(Some(6), 1, 4),
        cluster(Some(7), 1, 4),
        cluster(None, 1, 5),
    ];
    let said = "waiting for server http://s0:7070, silent for 6s\n\
                checkpoint 5 of job `clicks` is in the store\n";
    assert_eq!(created(statuses), (said.into(), Ok(())));
}

#[test]
fn one_that_will_never_come_is_not_waited_for() {
    let end = |second| created([cluster(None, 1, 4), second]).1.unwrap_err();
    assert_eq!(
        end(cluster(None, 2, 3)),
        "checkpoint 5 of job `clicks` was given up: the job was put back to an earlier one"
    );
    assert_eq!(
        end(ClusterStatus::default()),
        "checkpoint 5 of job `clicks` was given up: the job is gone"
    );
}

#[test]
fn an_answer_that_does_not_come_names_the_coordinator_once() {
    let silent = created([cluster(None, 1, 4)]).1;
    let expected = "coordinator http://c:7070: Connection refused";
    assert_eq!(silent, Err(expected.into()));
    let (nobody, mut out) = (asked([]), Vec::new());
    let shown = nobody.show(&mut out).now_or_never().unwrap();
    assert_eq!(shown.unwrap_err().to_string(), expected);
    let refused = nobody.restore("x", CheckpointId(1), &mut out);
    assert_eq!(
        refused.now_or_never().unwrap().unwrap_err().to_string(),
        "coordinator http://c:7070: no job `x`"
    );
}
