//! The store as a transport: the client's questions answered without a wire.

use std::sync::Arc;

use rayon::prelude::*;
use tokio::sync::oneshot;
use tracing::warn;
use windlass_client::transport::{Answered, Shards};
use windlass_common::exchange::{Answer, Pull, Pulled, Push, Pushed};
use windlass_common::format::log::Record;
use windlass_common::id::{JobId, Lineage, ShardId};

use crate::activity::Activity;
use crate::durable::{Durable, Release, Worked};
use crate::effort::Effort;
use crate::error::Error;
use crate::store::{Job, Store};
use crate::{apply, read, snapshot};

impl Shards for Store {
    fn pull(&self, pull: Pull) -> Answered<'_, Pulled> {
        Box::pin(async move {
            let job = self.job(pull.job)?;
            let effort = read::check(&pull, job.schema())?;
            let pulled = self
                .run(effort, move || read::read(&job, &pull, effort))
                .await??;
            self.activity.count_pull();
            Ok(pulled)
        })
    }

    fn push(&self, push: Push) -> Answered<'_, Pushed> {
        Box::pin(async move {
            let Worked { pushed, release } = self.work(push).await?;
            if let Some(release) = release {
                release.await?;
            }
            Ok(pushed)
        })
    }

    fn snapshot(&self, job: JobId, shard: ShardId) -> Answered<'_, Vec<u8>> {
        Box::pin(async move {
            let job = self.job(job)?;
            self.run_long(move || Ok(snapshot::encode(&job.image(shard)?)))
                .await?
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
            let job = self.job(job)?;
            job.must_own(shard)?;
            let activity = Arc::clone(&self.activity);
            self.run_long(move || {
                let image = snapshot::decode(&snapshot, shard)?;
                if image.shard != shard {
                    let image = image.shard;
                    return Err(Error::ImageOfOther { shard, image }.into());
                }
                job.replace(lineage, &image)?;
                activity.ring();
                Ok(())
            })
            .await?
        })
    }
}

impl Durable for Store {
    fn work(&self, push: Push) -> Answered<'_, Worked> {
        Box::pin(async move {
            let job = self.job(push.job)?;
            if let Err(error) = apply::check(&push, job.schema()) {
                if matches!(error, Error::NotFinite { .. }) {
                    self.activity.count_not_finite();
                    warn!(job = %push.job, push = %push.id, %error, "push refused");
                }
                return Err(error.into());
            }
            if let Some(log) = self.backing.log() {
                log.admit().await?;
            }
            let effort = effort_of(&push);
            let activity = Arc::clone(&self.activity);
            let pushed = self
                .run(effort, move || push_to_all(&job, &push, effort, &activity))
                .await??;
            let release = self.backing.disk.as_ref().map(|disk| {
                // S2: an answer to a duplicate too rests on what is in memory now.
                let (log, lsn) = (Arc::clone(&disk.log), disk.log.appended());
                let release: Release = Box::pin(async move { Ok(log.synced(lsn).await?) });
                release
            });
            Ok(Worked { pushed, release })
        })
    }
}

impl Store {
    /// Runs work here if it is short, else in the pool.
    async fn run<T: Send + 'static>(
        &self,
        effort: Effort,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        if effort.is_long() {
            self.run_long(work).await
        } else {
            Ok(work())
        }
    }

    async fn run_long<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move || {
            // Nobody waits when the caller is gone; the work counts all the same.
            let _ = answer.send(work());
        });
        self.pool.run(job).await;
        answered.await.map_err(|_| Error::WorkDropped)
    }
}

fn effort_of(push: &Push) -> Effort {
    let mut effort = Effort::default();
    for part in &push.tables {
        let rows = push.sets[part.set].len();
        effort.add(rows, part.gradients.len() / rows.max(1));
    }
    effort
}

/// Offers a checked push to every covered shard.
///
/// A shard's refusal does not keep the others from their part: the push has a name, so what is
/// applied stays applied and a retry counts once. The first refusal is the answer then.
fn push_to_all(
    job: &Job,
    push: &Push,
    effort: Effort,
    activity: &Activity,
) -> Result<Pushed, Error> {
    let one = |&shard: &ShardId| Ok((shard, push_to(job, push, shard, activity)?));
    // Shards share nothing, so the bits are the same either way.
    let answers: Vec<Result<_, Error>> = if effort.is_long() {
        push.cover.par_iter().map(one).collect()
    } else {
        push.cover.iter().map(one).collect()
    };
    let answers = answers.into_iter().collect::<Result<_, _>>()?;
    Ok(Pushed { answers })
}

fn push_to(job: &Job, push: &Push, shard: ShardId, activity: &Activity) -> Result<Answer, Error> {
    // S1: only what is listed and here is touched.
    let (answer, completed) = match job.lock(shard) {
        Ok(mut held) => {
            let part = Record::of(push, shard);
            let answer = apply::apply(&mut held, &part, job.log())?;
            (answer, held.windows.complete().contains(push.id.source.0))
        }
        Err(Error::Moved { .. }) => return Ok(Answer::Moved),
        Err(error) => return Err(error),
    };
    match answer {
        Answer::Applied { .. } => {
            activity.count_applied();
            if completed {
                activity.ring();
            }
        }
        Answer::Duplicate => activity.count_duplicate(),
        Answer::Gap { .. } | Answer::Moved => {}
    }
    Ok(answer)
}
