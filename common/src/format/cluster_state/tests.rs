use proptest::prelude::*;

use super::*;
use crate::format::Manifest;
use crate::format::samples::manifest;
use crate::id::Boot;

fn state() -> ClusterState {
    let Manifest {
        schema,
        recipe,
        history,
        ..
    } = manifest(Vec::new());
    let as_of = Incarnation {
        epoch: MapEpoch(7),
        nonce: 99,
    };
    let validation = recipe.files.clone();
    ClusterState {
        epoch: MapEpoch(8),
        servers: vec![
            ("http://a:1".into(), Boot(1)),
            ("http://b:1".into(), Boot(2)),
        ],
        jobs: vec![JobState {
            job: JobId(3),
            name: "flights".into(),
            schema,
            recipe,
            plan: Plan {
                epochs: 4,
                validation,
                test: Vec::new(),
                metric: Metric::LogLoss,
                patience: Some(2),
                servers: 2,
                workers: 3,
                purpose: Purpose::Train,
            },
            config: "[job]\n".into(),
            creator: WorkerId(5),
            fresh: true,
            lineage: Lineage(2),
            origin: Some(CheckpointId(6)),
            owners: vec![(ServerId(1), as_of), (ServerId(0), as_of)],
            target: 2,
            history,
            stage: Stage::Training,
            last_checkpoint: CheckpointId(11),
            best: Some(CheckpointId(6)),
            published: vec![PublishedState {
                checkpoint: CheckpointId(10),
                root: CheckpointId(9),
                taken: 1234,
                complete: IntervalSet::below(5),
            }],
        }],
    }
}

fn rule(state: &ClusterState) -> String {
    match ClusterState::decode(&state.encode().unwrap(), Path::new("s")) {
        Err(FormatError::State { rule, .. }) => rule,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn what_is_written_is_read_back_in_every_stage() {
    let failed = Stage::Failed {
        message: "why".into(),
    };
    for stage in [
        Stage::Gathering { restore: true },
        Stage::Training,
        Stage::Finishing,
        Stage::Done,
        failed,
    ] {
        let mut state = state();
        state.jobs[0].stage = stage;
        let bytes = state.encode().unwrap();
        assert_eq!(ClusterState::decode(&bytes, Path::new("s")).unwrap(), state);
    }
}

#[test]
fn every_flip_and_every_cut_is_found_and_named() {
    let bytes = state().encode().unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let error = ClusterState::decode(&damaged, Path::new("the/state")).unwrap_err();
        assert!(error.to_string().contains("the/state"), "{error}");
        assert!(ClusterState::decode(&bytes[..at], Path::new("s")).is_err());
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(ClusterState::decode(&longer, Path::new("s")).is_err());
}

#[test]
fn a_state_that_no_coordinator_could_be_in_is_refused() {
    let mut few = state();
    few.jobs[0].owners.pop();
    assert_eq!(rule(&few), "job `flights` has 1 owners for 2 shards");
    let mut nobody = state();
    nobody.servers.pop();
    assert_eq!(rule(&nobody), "job `flights` is on server 1 of 1");
}

proptest! {
    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(ClusterState::decode(&bytes, Path::new("s")).is_err());
    }
}
