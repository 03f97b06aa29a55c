//! `windlass-worker evaluate`: scores held-out files with a saved model, here or on a cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_common::config::{ConfigError, ModelKind, TrainConfig};
use windlass_common::coordination::{History, Plan, Purpose};
use windlass_common::format::{Checkpoint, newest};
use windlass_common::runtime::Disk;

use super::session::{Machine, Order, random, work};
use super::train::Ending;
use crate::error::Error;
use crate::job::Job;
use crate::progress::{note, results, say};
use crate::report::Report;
use crate::trainer::Storage;

/// What the command line says beside the config.
#[derive(Clone, Debug, Default)]
pub struct EvaluateOptions {
    /// The checkpoint, or a folder of checkpoints. Without it the job's output folder.
    pub checkpoint: Option<PathBuf>,
    /// Where to write the report.
    pub report: Option<PathBuf>,
}

/// Scores the validation and test files of the config. `folder` is that of the config file.
///
/// The model is restored into a job of its own, `NAME.evaluate-RANDOM`, so a job that is being
/// trained on the same cluster is not touched.
///
/// # Errors
/// No checkpoint, a damaged one, or one of other tables than the config's; bad input.
pub async fn evaluate(
    machine: &Machine,
    config: TrainConfig,
    folder: &Path,
    options: EvaluateOptions,
) -> Result<Ending, Error> {
    if config.model.kind == ModelKind::Count {
        let key = "model.kind".into();
        let rule = "count predicts nothing that could be scored: read the counts with \
                    windlass-worker export"
            .into();
        return Err(ConfigError::Invalid { key, rule }.into());
    }
    let disk = Arc::clone(&machine.disk);
    let place = options
        .checkpoint
        .clone()
        .unwrap_or_else(|| config.output());
    let checkpoint = find(&disk, &place)?;
    let manifest = checkpoint.manifest().clone();
    let config = with_trained_statistics(config, &manifest.config)?;
    let job = Job::of_recipe(config, folder, manifest.recipe.clone())?;
    job.schema.must_equal(&manifest.schema)?;
    if job.inputs.validation.files.is_empty() && job.inputs.test.files.is_empty() {
        return Err(Error::NothingToScore);
    }
    let epochs = manifest.history.epochs;
    let name = format!("{}.evaluate-{:08x}", job.config.job.name, random()? >> 32);
    let order = Order {
        name: name.clone(),
        plan: Plan {
            epochs,
            // Its name is its own, so nobody else can join it.
            workers: 1,
            purpose: Purpose::Evaluate,
            ..job.steering()
        },
        fresh: false,
        checkpoint: Some(History {
            epochs,
            ..History::default()
        }),
        storage: Storage {
            disk,
            folder: place,
            pinned: Some(checkpoint.folder().to_owned()),
            job: name,
            schema: job.schema.clone(),
            recipe: job.recipe.clone(),
            config: manifest.config,
            target: manifest.target,
        },
    };
    let ended = work(machine, &job, order).await?;
    let Some(history) = ended.history else {
        note("stopped; nothing was changed");
        return Ok(Ending::Stopped);
    };
    say(results(&history).trim_end());
    if let Some(path) = &options.report {
        Report::new(&job.config, &history, &ended.state, ended.seconds, None).write(path)?;
    }
    Ok(Ending::Finished)
}

/// Opens a checkpoint's folder, or the newest whole one in a folder of checkpoints.
pub(super) fn find(disk: &Arc<dyn Disk>, place: &Path) -> Result<Checkpoint, Error> {
    if let Ok(checkpoint) = Checkpoint::open_folder(disk, place) {
        return Ok(checkpoint);
    }
    let found = newest(disk, place)?;
    for (path, error) in &found.damaged {
        note(&format!("{} is left out: {error}", path.display()));
    }
    found.checkpoint.ok_or_else(|| Error::NoCheckpoint {
        place: place.to_owned(),
    })
}

/// Takes means and deviations from the config that the model was trained with: columns must be
/// standardized as they were then, whatever the training files are now.
pub(super) fn with_trained_statistics(
    mut config: TrainConfig,
    trained: &str,
) -> Result<TrainConfig, Error> {
    let trained = TrainConfig::parse(Path::new("config of the checkpoint"), trained)?;
    config.data.take_statistics(&trained.data);
    Ok(config)
}
