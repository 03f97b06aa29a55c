//! How recipes and histories lie in the payloads of manifests and of the coordinator's state.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};

use crate::coordination::{EpochMetrics, History, Recipe};
use crate::id::Epoch;
use crate::split::InputFile;

#[derive(Encode, Decode)]
pub(super) struct RecipeRecord {
    pub(super) files: Vec<InputRecord>,
    pub(super) split_bytes: u64,
    pub(super) batch_size: u32,
    pub(super) shuffle: u32,
    pub(super) seed: u64,
    pub(super) reading: [u8; 32],
}

#[derive(Encode, Decode)]
pub(super) struct InputRecord {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) digest: [u8; 32],
    pub(super) divisible: bool,
}

#[derive(Encode, Decode)]
pub(super) struct HistoryRecord {
    pub(super) epochs: u32,
    pub(super) progress: Vec<EpochRecord>,
    pub(super) test: BTreeMap<String, f64>,
    pub(super) finished: bool,
    pub(super) stopped_early: bool,
}

#[derive(Encode, Decode)]
pub(super) struct EpochRecord {
    pub(super) epoch: u32,
    pub(super) train: BTreeMap<String, f64>,
    pub(super) validation: BTreeMap<String, f64>,
}

impl InputRecord {
    pub(super) fn of(file: InputFile) -> Self {
        Self {
            name: file.name,
            bytes: file.bytes,
            digest: file.digest,
            divisible: file.divisible,
        }
    }

    pub(super) fn input(self) -> InputFile {
        InputFile {
            name: self.name,
            bytes: self.bytes,
            digest: self.digest,
            divisible: self.divisible,
        }
    }
}

impl RecipeRecord {
    pub(super) fn of(recipe: Recipe) -> Self {
        Self {
            files: recipe.files.into_iter().map(InputRecord::of).collect(),
            split_bytes: recipe.split_bytes,
            batch_size: recipe.batch_size,
            shuffle: recipe.shuffle,
            seed: recipe.seed,
            reading: recipe.reading,
        }
    }

    pub(super) fn recipe(self) -> Recipe {
        Recipe {
            files: self.files.into_iter().map(InputRecord::input).collect(),
            split_bytes: self.split_bytes,
            batch_size: self.batch_size,
            shuffle: self.shuffle,
            seed: self.seed,
            reading: self.reading,
        }
    }
}

impl HistoryRecord {
    pub(super) fn of(history: History) -> Self {
        let epoch = |metrics: EpochMetrics| EpochRecord {
            epoch: metrics.epoch.0,
            train: metrics.train,
            validation: metrics.validation,
        };
        Self {
            epochs: history.epochs,
            progress: history.progress.into_iter().map(epoch).collect(),
            test: history.test,
            finished: history.finished,
            stopped_early: history.stopped_early,
        }
    }

    pub(super) fn history(self) -> History {
        let epoch = |metrics: EpochRecord| EpochMetrics {
            epoch: Epoch(metrics.epoch),
            train: metrics.train,
            validation: metrics.validation,
        };
        History {
            epochs: self.epochs,
            progress: self.progress.into_iter().map(epoch).collect(),
            test: self.test,
            finished: self.finished,
            stopped_early: self.stopped_early,
        }
    }
}
