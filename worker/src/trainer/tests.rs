use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tempfile::TempDir;
use windlass_client::runtime::{TokioClock, TokioPool};
use windlass_client::transport::{Answered, Control, Next, Shards};
use windlass_client::{ClientSettings, Connect};
use windlass_common::config::TrainConfig;
use windlass_common::coordination::{Progress, Register, Registered, ShardMap};
use windlass_common::exchange::{Answer, Pull, Pulled, Push, Pushed};
use windlass_common::id::{JobId, Lineage, Seq, ShardId, WorkerId};
use windlass_common::runtime::StdDisk;
use windlass_proto::WireError;

use super::*;
use crate::embedded::{Direct, Embedded};
use crate::job::Job;

/// One split of three batches.
const EXAMPLES: u64 = 12;

const CONFIG: &str = "[data]\nformat = \"libsvm\"\ntrain = [\"part.svm\"]\n\n\
                      [model]\nkind = \"logistic\"\n\n[train]\nbatch_size = 4\n";

/// What happens to pushes on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Free,
    /// The shards lack what was before the second batch, as it seems the first time.
    Gap,
    /// The END arrives, and its acknowledgement waits.
    Slow,
}

/// Servers in this process, and what a worker asks of them.
struct Cluster {
    embedded: Arc<Embedded>,
    asked: Mutex<Vec<Next>>,
    /// What a worker that leaves is told.
    refusal: Option<&'static str>,
    way: watch::Sender<Way>,
    /// Whether the END has arrived.
    ended: watch::Sender<bool>,
}

impl Cluster {
    /// How the leases came back, in order.
    fn outcomes(&self) -> Vec<Outcome> {
        let asked = self.asked.lock().unwrap();
        let done = asked.iter().filter_map(|next| next.done.clone());
        done.map(|(_, outcome)| outcome).collect()
    }
}

impl Control for Cluster {
    fn register(&self, register: Register) -> Answered<'_, Registered> {
        self.embedded.register(register)
    }

    fn next(&self, next: Next) -> Answered<'_, (Task, Progress)> {
        self.asked.lock().unwrap().push(next.clone());
        let refusal = self.refusal.filter(|_| next.leaving);
        Box::pin(async move {
            let answer = self.embedded.next(next).await?;
            match refusal {
                Some(why) => Err(WireError::new(ErrorKind::Mismatch, why)),
                None => Ok(answer),
            }
        })
    }

    fn renew(&self, job: JobId, of: WorkerId, lease: LeaseId) -> Answered<'_, (bool, Progress)> {
        self.embedded.renew(job, of, lease)
    }

    fn map(&self, job: JobId) -> Answered<'_, ShardMap> {
        self.embedded.map(job)
    }
}

struct Wires(Arc<Cluster>);

struct Wire {
    cluster: Arc<Cluster>,
    shards: Arc<dyn Shards>,
}

impl Connect for Wires {
    fn shards(&self, address: &str) -> Arc<dyn Shards> {
        Arc::new(Wire {
            cluster: Arc::clone(&self.0),
            shards: Direct(Arc::clone(&self.0.embedded)).shards(address),
        })
    }
}

impl Shards for Wire {
    fn pull(&self, pull: Pull) -> Answered<'_, Pulled> {
        self.shards.pull(pull)
    }

    fn push(&self, push: Push) -> Answered<'_, Pushed> {
        let way = *self.cluster.way.borrow();
        if way == Way::Gap && push.id.seq == Seq(1) {
            let _before = self.cluster.way.send_replace(Way::Free);
            let gap = Answer::Gap { next: Seq(0) };
            let answers = push.cover.iter().map(|&shard| (shard, gap)).collect();
            return Box::pin(async move { Ok(Pushed { answers }) });
        }
        Box::pin(async move {
            let end = push.end;
            let pushed = self.shards.push(push).await?;
            if end {
                let _before = self.cluster.ended.send_replace(true);
                let mut way = self.cluster.way.subscribe();
                way.wait_for(|way| *way != Way::Slow).await.unwrap();
            }
            Ok(pushed)
        })
    }

    fn snapshot(&self, job: JobId, shard: ShardId) -> Answered<'_, Vec<u8>> {
        self.shards.snapshot(job, shard)
    }

    fn install(&self, job: JobId, shard: ShardId, l: Lineage, of: Vec<u8>) -> Answered<'_, ()> {
        self.shards.install(job, shard, l, of)
    }
}

struct Fixture {
    trainer: Trainer,
    cluster: Arc<Cluster>,
    folder: TempDir,
    _stop: watch::Sender<bool>,
}

impl Fixture {
    /// A worker that has joined a job of one epoch.
    async fn start(way: Way, refusal: Option<&'static str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lines = (0..EXAMPLES).map(|n| format!("{} {n}:1\n", n % 2));
        std::fs::write(folder.path().join("part.svm"), lines.collect::<String>()).unwrap();
        let config = TrainConfig::parse(Path::new("train.toml"), CONFIG).unwrap();
        let job = Job::new(config, folder.path()).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::new());
        let pool: Arc<dyn Pool> = Arc::new(TokioPool);
        let cluster = Arc::new(Cluster {
            embedded: Embedded::new(Arc::clone(&clock), Arc::clone(&pool)),
            asked: Mutex::default(),
            refusal,
            way: watch::channel(way).0,
            ended: watch::channel(false).0,
        });
        let live = Arc::new(Live::new(job.step.tally()));
        let settings = ClientSettings {
            coordinator: "in this process".into(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            patience: Duration::from_secs(30),
            waiting: live.waiting.clone(),
        };
        let register = Register {
            job: "one".into(),
            worker: WorkerId(1),
            schema: job.schema.clone(),
            recipe: job.recipe.clone(),
            plan: job.steering(),
            fresh: false,
            checkpoint: None,
            config: String::new(),
        };
        let client = Client::register(
            Arc::<Cluster>::clone(&cluster),
            Arc::new(Wires(Arc::clone(&cluster))),
            Arc::clone(&clock),
            register,
            settings,
        );
        let (stopper, stop) = watch::channel(false);
        let trainer = Trainer {
            client: Arc::new(client.await.unwrap()),
            step: job.step.clone(),
            plan: Arc::clone(&job.plan),
            inputs: job.inputs.clone(),
            pace: job.pace(),
            storage: Storage {
                disk: Arc::new(StdDisk),
                folder: folder.path().join("run"),
                pinned: None,
                job: "one".into(),
                schema: job.schema.clone(),
                recipe: job.recipe.clone(),
                config: String::new(),
                target: 1,
            },
            live,
            clock,
            pool,
            stop,
        };
        Self {
            trainer,
            cluster,
            folder,
            _stop: stopper,
        }
    }

    fn input(&self) -> PathBuf {
        self.folder.path().join("part.svm")
    }
}

fn learnt(outcome: &Outcome) -> Option<u64> {
    match outcome {
        Outcome::Trained(tally) => Some(tally.examples),
        _ => None,
    }
}

#[tokio::test]
async fn w3_a_lease_is_given_back_over_a_gap_and_the_split_is_learnt_again() {
    let fixture = Fixture::start(Way::Gap, None).await;
    let history = fixture.trainer.run().await.unwrap().unwrap();
    assert_eq!(history.epochs, 1);
    let outcomes = fixture.cluster.outcomes();
    let Outcome::Abandoned(why) = &outcomes[0] else {
        panic!("{outcomes:?}");
    };
    assert!(why.contains("0/1"), "{why}");
    // The first batch is there; the second time it is left out, or found applied already.
    assert!(learnt(&outcomes[1]).is_some(), "{outcomes:?}");
    assert!(
        !outcomes[1..]
            .iter()
            .any(|o| matches!(o, Outcome::Abandoned(_)))
    );
}

#[tokio::test]
async fn w4_a_lease_is_given_back_as_finished_when_all_is_acknowledged() {
    let fixture = Fixture::start(Way::Slow, None).await;
    let (cluster, trainer) = (&fixture.cluster, &fixture.trainer);
    let watching = async {
        let mut ended = cluster.ended.subscribe();
        ended.wait_for(|ended| *ended).await.unwrap();
        // Time enough to give it back.
        for _ in 0..100 {
            trainer.client.map().await.unwrap();
        }
        assert_eq!(cluster.outcomes(), [], "the END is not acknowledged");
        let _before = cluster.way.send_replace(Way::Free);
    };
    let (ended, ()) = tokio::join!(trainer.run(), watching);
    assert_eq!(ended.unwrap().unwrap().epochs, 1);
    assert_eq!(learnt(&cluster.outcomes()[0]), Some(EXAMPLES));
}

#[tokio::test]
async fn c8_a_split_whose_file_is_gone_is_given_back_as_unreadable() {
    let fixture = Fixture::start(Way::Free, None).await;
    std::fs::remove_file(fixture.input()).unwrap();
    let error = fixture.trainer.run().await.unwrap_err().to_string();
    let path = fixture.input().display().to_string();
    assert!(error.starts_with(&path), "{error}");
    assert_eq!(fixture.cluster.outcomes(), [Outcome::Unreadable(error)]);
    let asked = fixture.cluster.asked.lock().unwrap();
    assert!(asked.last().unwrap().leaving);
}

#[tokio::test]
async fn c8_where_the_job_ends_over_an_input_that_is_gone_the_worker_says_why() {
    let fixture = Fixture::start(Way::Free, Some("shard 3 has lost source 7")).await;
    std::fs::remove_file(fixture.input()).unwrap();
    let error = fixture.trainer.run().await.unwrap_err().to_string();
    assert!(error.contains("shard 3 has lost source 7"), "{error}");
}
