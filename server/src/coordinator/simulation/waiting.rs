//! Workers for whom there is nothing to do: who is answered when, while no time passes.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use windlass_client::transport::{Answered, Control, Membership, Next};
use windlass_common::coordination::{
    Health, JobReport, Outcome, Progress, Report, ShardReport, Task,
};
use windlass_common::id::{Boot, Clock, JobId, LeaseId, MapEpoch, WorkerId};
use windlass_common::interval_set::IntervalSet;
use windlass_common::runtime::{self, BoxFuture};
use windlass_common::tally::Tally;

use super::world::Setup;
use crate::coordinator::{Coordinator, CoordinatorHandle, Settings};

const A: WorkerId = WorkerId(1);
const B: WorkerId = WorkerId(2);
const C: WorkerId = WorkerId(3);

const STILL: Still = Still { sleeps_end: false };

/// Time stands still: what sleeps never wakes, or at once.
struct Still {
    sleeps_end: bool,
}

impl runtime::Clock for Still {
    fn now(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        if self.sleeps_end {
            Box::pin(std::future::ready(()))
        } else {
            Box::pin(std::future::pending())
        }
    }
}

/// A coordinator, one server, and a job whose workers have joined.
struct Cluster {
    handle: CoordinatorHandle,
    job: JobId,
    shards: RefCell<Vec<ShardReport>>,
}

impl Cluster {
    /// The server has told that it holds nothing.
    fn new(splits: u32, epochs: u32, workers: &[WorkerId], clock: Still) -> Self {
        let coordinator = Coordinator::new(Settings::default(), 1);
        let mut cluster = Self {
            handle: CoordinatorHandle::new(coordinator, Arc::new(clock)),
            job: JobId(0),
            shards: RefCell::default(),
        };
        cluster.report(0);
        let mut setup = Setup::new(1, 2, epochs);
        setup.splits = splits;
        for &worker in workers {
            let registered = cluster.handle.register(setup.register(worker));
            cluster.job = now(registered).unwrap().job;
        }
        cluster.report(0);
        cluster.report(0);
        cluster
    }

    /// The server tells that it holds all sources below a number, and learns what it is to hold.
    fn report(&self, complete: u64) {
        let mut shards = self.shards.take();
        for shard in &mut shards {
            shard.complete = IntervalSet::below(complete);
        }
        let report = Report {
            address: "http://a".into(),
            boot: Boot(1),
            number: 1,
            seen: MapEpoch(0),
            health: Health::default(),
            jobs: vec![JobReport {
                job: self.job,
                shards,
                saved: Vec::new(),
                tables: Vec::new(),
            }],
        };
        let assigned = now(self.handle.report(report)).unwrap();
        let shards = assigned.jobs.into_iter().flat_map(|assignment| {
            let lineage = assignment.lineage;
            let shards = assignment.shards.into_iter();
            shards.map(move |(shard, incarnation)| ShardReport {
                shard,
                incarnation,
                lineage,
                complete: IntervalSet::default(),
                open: Vec::new(),
                rows: 0,
                clock: Clock(0),
            })
        });
        self.shards.replace(shards.collect());
    }

    fn asks(&self, worker: WorkerId) -> Question<'_> {
        self.question(worker, None, false)
    }

    fn gives_back(&self, worker: WorkerId, lease: LeaseId, outcome: Outcome) -> Question<'_> {
        self.question(worker, Some((lease, outcome)), false)
    }

    fn leaves(&self, worker: WorkerId) -> Question<'_> {
        self.question(worker, None, true)
    }

    fn question(
        &self,
        worker: WorkerId,
        done: Option<(LeaseId, Outcome)>,
        leaving: bool,
    ) -> Question<'_> {
        Question {
            answer: self.handle.next(Next {
                job: self.job,
                worker,
                done,
                leaving,
            }),
            wakes: Arc::default(),
        }
    }
}

/// A question that is on its way, and how often somebody has woken it.
struct Question<'a> {
    answer: Answered<'a, (Task, Progress)>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Question<'_> {
    fn poll(&mut self) -> Option<(Task, Progress)> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        match Pin::new(&mut self.answer).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => Some(answer.unwrap()),
            Poll::Pending => None,
        }
    }

    /// Polls, and there is no answer.
    fn is_held(&mut self) -> bool {
        self.poll().is_none()
    }

    /// Polls, and the answer is a split to learn.
    fn lease(&mut self) -> LeaseId {
        match self.poll() {
            Some((Task::Train(lease), _)) => lease.lease,
            other => panic!("no split but {other:?}"),
        }
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::Relaxed)
    }
}

fn now<T>(answer: Answered<'_, T>) -> Result<T, windlass_proto::WireError> {
    answer.now_or_never().expect("an answer at once")
}

fn trained(log_loss: f64) -> Outcome {
    Outcome::Trained(Tally {
        examples: 1,
        weight: 1.0,
        log_loss,
        ..Tally::default()
    })
}

#[test]
fn a_worker_that_waits_is_answered_when_a_split_is_given_back() {
    let cluster = Cluster::new(1, 1, &[A, B], STILL);
    let lease = cluster.asks(A).lease();
    let mut waits = cluster.asks(B);
    assert!(waits.is_held());
    assert!(cluster.leaves(A).poll().is_some());
    assert_eq!(waits.wakes(), 1);
    assert_ne!(waits.lease(), lease);
}

#[test]
fn a_worker_that_waits_is_answered_when_the_next_epoch_begins() {
    let cluster = Cluster::new(1, 2, &[A, B], STILL);
    let lease = cluster.asks(A).lease();
    let mut waits = cluster.asks(B);
    assert!(waits.is_held());
    let mut asks_too = cluster.gives_back(A, lease, trained(1.0));
    assert!(asks_too.is_held(), "its owner has not confirmed it");
    cluster.report(1);
    // The first that is woken opens the epoch, and has its only split.
    waits.lease();
    assert!(asks_too.is_held());
}

#[test]
fn a_worker_that_waits_is_answered_when_the_others_have_come() {
    let cluster = Cluster::new(2, 1, &[A], STILL);
    let mut waits = cluster.asks(A);
    assert!(waits.is_held());
    let mut comes = cluster.asks(B);
    comes.lease();
    waits.lease();
}

#[test]
fn what_is_of_no_use_to_those_who_wait_does_not_wake_them() {
    let cluster = Cluster::new(2, 1, &[A, B, C], STILL);
    let (first, second) = (cluster.asks(A).lease(), cluster.asks(C).lease());
    let mut waits = cluster.asks(B);
    assert!(waits.is_held());
    cluster.report(0);
    assert!(now(cluster.handle.renew(cluster.job, A, first)).unwrap().0);
    let mut back = cluster.gives_back(C, second, trained(1.0));
    assert!(back.is_held());
    cluster.report(0);
    assert_eq!((waits.wakes(), back.wakes()), (0, 0));
}

/// Its last split's acknowledgements may still be on their way: it will have that to give back.
#[test]
fn a_worker_that_has_not_given_all_back_is_not_held() {
    let cluster = Cluster::new(1, 1, &[A, B], STILL);
    let lease = cluster.asks(A).lease();
    let Some((Task::Wait { retry, .. }, _)) = cluster.asks(A).poll() else {
        panic!("there is nothing to do");
    };
    assert!(retry > Duration::ZERO);
    assert!(cluster.gives_back(A, lease, trained(1.0)).is_held());
}

#[test]
fn a_wait_that_was_held_is_over() {
    let cluster = Cluster::new(1, 1, &[A, B], Still { sleeps_end: true });
    cluster.asks(A).lease();
    let Some((Task::Wait { reason, retry, .. }, _)) = cluster.asks(B).poll() else {
        panic!("there is nothing to do");
    };
    assert_eq!(reason, "waiting for 1 split that other workers hold");
    assert_eq!(retry, Duration::ZERO);
}

#[test]
fn what_is_given_back_counts_once_though_the_answer_is_lost_while_it_is_held() {
    let cluster = Cluster::new(2, 1, &[A, B], STILL);
    let (first, second) = (cluster.asks(A).lease(), cluster.asks(B).lease());
    let mut lost = cluster.gives_back(B, second, trained(4.0));
    assert!(lost.is_held());
    drop(lost);
    let mut again = cluster.gives_back(B, second, trained(4.0));
    assert!(again.is_held());
    let mut last = cluster.gives_back(A, first, trained(1.0));
    assert!(last.is_held());
    cluster.report(2);
    // The keeper, the first that registered, is to write the checkpoint.
    let Some((Task::Save(lease), _)) = last.poll() else {
        panic!("all is learnt");
    };
    let progress = &lease.history.progress;
    assert_eq!(progress[0].train["log_loss"], 2.5);
}

#[test]
fn a_worker_that_has_left_is_not_taken_back_by_its_question_that_was_held() {
    let cluster = Cluster::new(2, 1, &[A, B, C], STILL);
    let (first, second) = (cluster.asks(A).lease(), cluster.asks(C).lease());
    let mut held = cluster.asks(B);
    assert!(held.is_held());
    assert!(cluster.leaves(B).poll().is_some());
    let mut last = cluster.gives_back(A, first, Outcome::Abandoned(String::new()));
    assert!(last.is_held());
    cluster.report(0);
    let (task, progress) = last.poll().expect("it is open again");
    assert!(matches!(task, Task::Train(lease) if lease.lease != second));
    assert_eq!(progress.workers, 2);
    assert!(held.is_held(), "nobody rings for it");
}

#[test]
fn a_worker_that_asks_again_is_answered_once() {
    let cluster = Cluster::new(1, 1, &[A, B], STILL);
    cluster.asks(A).lease();
    let (mut before, mut again) = (cluster.asks(B), cluster.asks(B));
    assert!(before.is_held() && again.is_held());
    assert!(cluster.leaves(A).poll().is_some());
    assert!(before.is_held(), "nobody listens to it");
    again.lease();
}
