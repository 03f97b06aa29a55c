//! Messages, decoded and taken into the vocabulary.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use windlass_client::transport::Next;
use windlass_common::coordination::{
    Assigned, Health, History, JobReport, Outcome, Plan, Progress, Purpose, Recipe, Register,
    Report, ShardReport, Task,
};
use windlass_common::exchange::{Answer, Pull, Pulled, Push, Pushed, TableGradients};
use windlass_common::format::ManifestFile;
use windlass_common::id::{
    Boot, CheckpointId, Clock, Incarnation, JobId, LeaseId, Lineage, MapEpoch, PushId, Seq,
    ShardId, SourceId, TableId, WorkerId,
};
use windlass_common::init::Init;
use windlass_common::interval_set::IntervalSet;
use windlass_common::key::Key;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::saving::Saved;
use windlass_common::schema::{JobSchema, TableSchema};
use windlass_common::shard::{ShardCount, ShardedKeys};
use windlass_common::split::InputFile;
use windlass_common::status::ClusterStatus;
use windlass_common::tally::{Metric, Tally};
use windlass_proto::chunks::{Assembly, cut};
use windlass_proto::codec::decode;
use windlass_proto::memory::Shaped;
use windlass_proto::v1::exchange_request::Ask;
use windlass_proto::v1::{exchange_response, install_request};
use windlass_proto::{Limits, v1};

use crate::feed::Target;

pub(crate) fn targets() -> Vec<Target> {
    let target = |name, read, samples| Target {
        name,
        read,
        samples,
        repair: |_| {},
    };
    let asked = |ask| v1::ExchangeRequest {
        id: 1,
        ask: Some(ask),
    };
    let answered = |answer| v1::ExchangeResponse {
        id: 1,
        answer: Some(answer),
    };
    let next = Next {
        job: JobId(1),
        worker: WorkerId(2),
        done: Some((LeaseId(3), Outcome::Trained(tally()))),
        leaving: false,
    };
    vec![
        target(
            "exchange_request",
            exchange_request,
            vec![
                asked(Ask::Pull(pull().into())).encode_to_vec(),
                asked(Ask::Push(push().into())).encode_to_vec(),
            ],
        ),
        target(
            "exchange_response",
            exchange_response,
            vec![
                answered(exchange_response::Answer::Pulled(pulled().into())).encode_to_vec(),
                answered(exchange_response::Answer::Pushed(pushed().into())).encode_to_vec(),
            ],
        ),
        target(
            "register",
            taken::<v1::RegisterRequest, Register>,
            vec![v1::RegisterRequest::from(register()).encode_to_vec()],
        ),
        target(
            "report",
            taken::<v1::ReportRequest, Report>,
            vec![v1::ReportRequest::from(report()).encode_to_vec()],
        ),
        target(
            "assigned",
            taken::<v1::ReportResponse, Assigned>,
            Vec::from([v1::ReportResponse::from(assigned()).encode_to_vec()]),
        ),
        target(
            "next",
            taken::<v1::NextRequest, Next>,
            vec![v1::NextRequest::from(next).encode_to_vec()],
        ),
        target(
            "task",
            taken::<v1::NextResponse, (Task, Progress)>,
            vec![v1::NextResponse::from((wait(), Progress::default())).encode_to_vec()],
        ),
        target(
            "status",
            taken::<v1::StatusResponse, ClusterStatus>,
            vec![v1::StatusResponse::from(ClusterStatus::default()).encode_to_vec()],
        ),
        target("install", install, vec![installation()]),
    ]
}

fn decoded<M: Message + Default + Shaped>(bytes: &[u8]) -> Result<M, String> {
    decode(bytes).map_err(|error| error.to_string())
}

/// Takes a message as a service or a client does.
fn taken<M, T>(bytes: &[u8]) -> Result<(), String>
where
    M: Message + Default + Shaped,
    T: TryFrom<M>,
    T::Error: std::fmt::Display,
{
    let taken = T::try_from(decoded::<M>(bytes)?);
    taken.map(drop).map_err(|error| error.to_string())
}

fn exchange_request(bytes: &[u8]) -> Result<(), String> {
    let taken = match decoded::<v1::ExchangeRequest>(bytes)?.ask {
        None => return Err("nothing is asked".into()),
        Some(Ask::Pull(pull)) => Pull::try_from(pull).map(drop),
        Some(Ask::Push(push)) => Push::try_from(push).map(drop),
    };
    taken.map_err(|error| error.to_string())
}

fn exchange_response(bytes: &[u8]) -> Result<(), String> {
    use exchange_response::Answer;
    let taken = match decoded::<v1::ExchangeResponse>(bytes)?.answer {
        None => return Err("nothing is answered".into()),
        Some(Answer::Pulled(pulled)) => Pulled::try_from(pulled).map(drop),
        Some(Answer::Pushed(pushed)) => Pushed::try_from(pushed).map(drop),
        Some(Answer::Failure(_)) => Ok(()),
    };
    taken.map_err(|error| error.to_string())
}

/// Messages of an installation, each behind its length.
fn install(mut bytes: &[u8]) -> Result<(), String> {
    let mut assembly: Option<Assembly> = None;
    while !bytes.is_empty() {
        let length = prost::decode_length_delimiter(&mut bytes);
        let length = length.map_err(|error| error.to_string())?;
        let message = bytes.split_off(..length).ok_or("cut short")?;
        let message = decoded::<v1::InstallRequest>(message)?;
        match (message.part, &mut assembly) {
            (Some(install_request::Part::Chunk(chunk)), Some(assembly)) => {
                assembly.add(&chunk).map_err(|error| error.to_string())?;
            }
            (Some(install_request::Part::Chunk(chunk)), None) => {
                let mut begun = Assembly::new(chunk.total, &Limits::default())
                    .map_err(|error| error.to_string())?;
                begun.add(&chunk).map_err(|error| error.to_string())?;
                assembly = Some(begun);
            }
            _ => {}
        }
    }
    let assembly = assembly.ok_or("no chunk")?;
    assembly
        .finish()
        .map(drop)
        .map_err(|error| error.to_string())
}

fn installation() -> Vec<u8> {
    let header = v1::InstallHeader {
        job: 1,
        shard: 2,
        lineage: 3,
        ..v1::InstallHeader::default()
    };
    let parts = std::iter::once(install_request::Part::Header(header));
    let parts = parts.chain(cut(vec![7; 100], 40).map(install_request::Part::Chunk));
    let message = |part| v1::InstallRequest { part: Some(part) };
    parts
        .flat_map(|part| message(part).encode_length_delimited_to_vec())
        .collect()
}

fn keys() -> Arc<ShardedKeys> {
    let keys: Vec<_> = (0..20).map(Key).collect();
    Arc::new(ShardedKeys::group(&keys, ShardCount::new(8).unwrap()).0)
}

fn pull() -> Pull {
    Pull {
        job: JobId(1),
        sets: vec![keys()],
        tables: vec![(TableId(0), 0), (TableId(1), 0)],
        exactly_below: Some(SourceId(5)),
    }
}

fn pulled() -> Pulled {
    Pulled {
        clocks: (0..8).map(|shard| (ShardId(shard), Clock(3))).collect(),
        tables: vec![vec![0.5; 20], vec![0.25; 40]],
    }
}

fn push() -> Push {
    Push {
        job: JobId(1),
        lineage: Lineage(1),
        id: PushId {
            source: SourceId(4),
            seq: Seq(5),
        },
        end: false,
        cover: (0..8).map(ShardId).collect(),
        sets: vec![keys()],
        tables: vec![TableGradients {
            table: TableId(0),
            set: 0,
            gradients: vec![0.5; 20],
        }],
    }
}

fn pushed() -> Pushed {
    let answers = [
        Answer::Applied { before: Clock(4) },
        Answer::Duplicate,
        Answer::Gap { next: Seq(3) },
        Answer::Moved,
    ];
    Pushed {
        answers: (0..).map(ShardId).zip(answers).collect(),
    }
}

fn file(name: &str) -> InputFile {
    InputFile {
        name: name.into(),
        bytes: 1000,
        digest: [1; 32],
        divisible: true,
    }
}

fn tally() -> Tally {
    let mut tally = Tally::default();
    for i in 0..10u8 {
        tally.add_binary(f32::from(i), 0.5, f32::from(i % 2), 1.0);
    }
    tally
}

fn register() -> Register {
    Register {
        job: "flights".into(),
        worker: WorkerId(1),
        schema: JobSchema {
            shards: ShardCount::new(8).unwrap(),
            seed: 1,
            tables: vec![TableSchema::new(
                "linear",
                1,
                Init::default(),
                OptimizerSpec::default(),
            )],
        },
        recipe: Recipe {
            files: vec![file("a"), file("b")],
            split_bytes: 10,
            batch_size: 512,
            shuffle: 0,
            seed: 3,
            reading: [0; 32],
        },
        plan: Plan {
            epochs: 2,
            validation: vec![file("v")],
            test: vec![file("t")],
            metric: Metric::LogLoss,
            patience: Some(2),
            servers: 1,
            workers: 1,
            purpose: Purpose::Train,
        },
        fresh: false,
        checkpoint: Some(History::default()),
        config: "[train]\n".into(),
    }
}

fn report() -> Report {
    let shard = |shard| ShardReport {
        shard: ShardId(shard),
        incarnation: Incarnation {
            epoch: MapEpoch(1),
            nonce: 7,
        },
        lineage: Lineage(1),
        complete: IntervalSet::from_ranges(vec![0..4, 6..9]).unwrap(),
        open: vec![(SourceId(5), Seq(3))],
        rows: 10,
        clock: Clock(9),
    };
    Report {
        address: "http://127.0.0.1:1".into(),
        boot: Boot(1),
        number: 2,
        seen: MapEpoch(3),
        health: Health::default(),
        jobs: vec![JobReport {
            job: JobId(1),
            shards: (0..4).map(shard).collect(),
            saved: vec![Saved {
                checkpoint: CheckpointId(2),
                shard: ShardId(1),
                lineage: Lineage(1),
                clock: Clock(9),
                complete: IntervalSet::below(4),
                open: 1,
                chain: vec![ManifestFile {
                    folder: String::new(),
                    name: "0001.shard".into(),
                    bytes: 100,
                    sha256: [3; 32],
                    rows: 4,
                }],
            }],
            tables: Vec::new(),
        }],
    }
}

fn assigned() -> Assigned {
    Assigned {
        server: windlass_common::id::ServerId(1),
        epoch: MapEpoch(3),
        jobs: Vec::new(),
    }
}

fn wait() -> Task {
    Task::Wait {
        reason: "waiting".into(),
        retry: Duration::from_millis(5),
        missing: true,
    }
}
