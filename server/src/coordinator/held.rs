//! Questions of workers for whom there is nothing to do: they are held until there is news, and not
//! sent away to ask again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use windlass_client::transport::Next;
use windlass_common::coordination::{Progress, Task};
use windlass_common::id::{JobId, WorkerId};
use windlass_proto::WireError;

use super::handle::{CoordinatorHandle, Place};
use super::news::News;
use super::role::Coordinator;

/// The questions that are held, by job.
///
/// Looking for news costs O(jobs in which somebody is held) a question, whatever is leased.
#[derive(Debug, Default)]
pub(super) struct Held {
    rooms: BTreeMap<JobId, Room>,
    last: u64,
}

#[derive(Debug)]
struct Room {
    /// Those who are held have been told of it.
    news: Option<News>,
    // Not tokio's `watch`: it wakes in an order of chance, and simulations repeat.
    bell: Arc<Notify>,
    /// The number of each worker's question.
    held: BTreeMap<WorkerId, u64>,
}

/// The place of one question that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    /// Of the question.
    pub(super) job: JobId,
    /// Who asks.
    pub(super) worker: WorkerId,
    number: u64,
}

impl Held {
    /// Gives a worker's question a place; an earlier one of that worker loses its own.
    pub(super) fn seat(&mut self, job: JobId, worker: WorkerId, coordinator: &Coordinator) -> Seat {
        self.last += 1;
        let number = self.last;
        let room = self.rooms.entry(job).or_insert_with(|| Room {
            news: coordinator.news(job),
            bell: Arc::default(),
            held: BTreeMap::new(),
        });
        room.held.insert(worker, number);
        Seat {
            job,
            worker,
            number,
        }
    }

    /// Whether a question is still to be held: its worker has asked no other one since.
    pub(super) fn has(&self, seat: Seat) -> bool {
        let room = self.rooms.get(&seat.job);
        room.is_some_and(|room| room.held.get(&seat.worker) == Some(&seat.number))
    }

    /// Frees the place of a question.
    pub(super) fn free(&mut self, seat: Seat) {
        if self.has(seat) {
            self.release(seat.job, seat.worker);
        }
    }

    /// Frees the place of whatever question of a worker is held.
    pub(super) fn release(&mut self, job: JobId, worker: WorkerId) {
        if let Some(room) = self.rooms.get_mut(&job) {
            room.held.remove(&worker);
            if room.held.is_empty() {
                self.rooms.remove(&job);
            }
        }
    }

    /// Listens for news from this moment on; `None` if there is some since `told`.
    pub(super) fn listen(&self, job: JobId, told: Option<News>) -> Option<OwnedNotified> {
        let room = self.rooms.get(&job)?;
        (!is_news(room.news, told)).then(|| Arc::clone(&room.bell).notified_owned())
    }

    /// Rings where something has come that those who are held wait for.
    pub(super) fn ring(&mut self, coordinator: &Coordinator) {
        for (&job, room) in &mut self.rooms {
            let news = coordinator.news(job);
            let rings = is_news(news, room.news);
            room.news = news;
            if rings {
                room.bell.notify_waiters();
            }
        }
    }
}

/// What a worker that asks for work is told.
pub(super) type ToldNext = Result<(Task, Progress), WireError>;

impl Place {
    /// Asks for work, and tells what there was to be known then.
    pub(super) fn next(&mut self, next: Next, now: Duration) -> (ToldNext, Option<News>) {
        let job = next.job;
        let answer = self.coordinator.next(next, now);
        (answer, self.coordinator.news(job))
    }
}

impl CoordinatorHandle {
    /// Holds the question of a worker whose answer is to wait, until there is something for it, at
    /// most for the time of that `Wait`. One that comes of it is over: its worker may ask again at
    /// once. `told` is what there was to be known when the answer was given.
    pub(super) async fn hold(
        &self,
        question: Next,
        mut told: Option<News>,
        mut answer: ToldNext,
    ) -> Result<ToldNext, WireError> {
        let Ok((Task::Wait { retry, .. }, _)) = &answer else {
            return Ok(answer);
        };
        let mut end = self.clock.sleep(*retry);
        let sitting = self.sit(&question);
        let mut ended = false;
        while !ended && matches!(answer, Ok((Task::Wait { .. }, _))) {
            let rung = self.lock().held.listen(question.job, told);
            if let Some(rung) = rung {
                ended = tokio::select! {
                    // In this order, so that a simulation repeats.
                    biased;
                    () = rung => false,
                    () = &mut end => true,
                };
            }
            let again = self
                .ask_at(|place, now| {
                    let seated = place.held.has(sitting.seat);
                    seated.then(|| place.next(question.clone(), now))
                })
                .await?;
            // Without a seat the worker has asked anew, and hears this no more.
            let Some(again) = again else { break };
            (answer, told) = again;
        }
        if let Ok((Task::Wait { retry, .. }, _)) = &mut answer {
            *retry = Duration::ZERO;
        }
        Ok(answer)
    }

    fn sit(&self, question: &Next) -> Sitting<'_> {
        let place = &mut *self.lock();
        let (job, worker) = (question.job, question.worker);
        Sitting {
            seat: place.held.seat(job, worker, &place.coordinator),
            handle: self,
        }
    }
}

/// A question that is held; it gives its seat up when it is answered or dropped.
struct Sitting<'a> {
    handle: &'a CoordinatorHandle,
    seat: Seat,
}

impl Drop for Sitting<'_> {
    fn drop(&mut self) {
        self.handle.lock().held.free(self.seat);
    }
}

/// The question of a worker that has nothing to give back.
pub(super) fn asked(job: JobId, worker: WorkerId) -> Next {
    Next {
        job,
        worker,
        done: None,
        leaving: false,
    }
}

/// A job that is gone is news: its workers are told why.
fn is_news(now: Option<News>, told: Option<News>) -> bool {
    match (now, told) {
        (Some(now), Some(told)) => now.is_more_than(&told),
        (now, told) => now != told,
    }
}
