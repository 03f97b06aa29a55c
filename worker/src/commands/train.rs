//! `windlass-worker train`: learns a job to its end and keeps its model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_common::config::TrainConfig;
use windlass_common::coordination::History;
use windlass_common::format::{Checkpoint, folder_name, newest};
use windlass_common::runtime::Disk;

use super::session::{Ended, Machine, Order, work};
use crate::counted::Counted;
use crate::error::Error;
use crate::job::Job;
use crate::progress::{counted, note, results, say};
use crate::report::Report;
use crate::trainer::{State, Storage};

/// What the command line says beside the config.
#[derive(Clone, Debug, Default)]
pub struct TrainOptions {
    /// Forget what was trained before.
    pub fresh: bool,
    /// Where to write the report.
    pub report: Option<PathBuf>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The job is finished.
    Finished,
    /// It was asked to stop before.
    Stopped,
}

/// Trains, or continues to train. `folder` is that of the config file.
///
/// # Errors
/// Whatever keeps the job from its end; each error is one line that says what to do.
pub async fn train(
    machine: &Machine,
    config: TrainConfig,
    folder: &Path,
    options: TrainOptions,
) -> Result<Ending, Error> {
    if let Some(report) = &options.report {
        must_have_folder(report)?;
    }
    let job = Job::new(config, folder)?;
    let disk = Arc::clone(&machine.disk);
    let output = job.config.output();
    let found = if options.fresh {
        None
    } else {
        checkpoint(&disk, &output, &job)?
    };
    if let Some((checkpoint, history)) = found
        .as_ref()
        .map(|checkpoint| (checkpoint, &checkpoint.manifest().history))
        .filter(|(_, history)| history.is_settled(job.config.train.epochs))
    {
        let (epochs, place) = (history.epochs, output.display());
        note(&if history.stopped_early {
            format!(
                "already trained, stopped early with the model after epoch {epochs} in {place}: start anew with --fresh"
            )
        } else {
            format!(
                "already trained, the model after epoch {epochs} is in {place}: raise train.epochs to go on, or start anew with --fresh"
            )
        });
        let counted = job.counts().then(|| Counted::of_checkpoint(checkpoint));
        let ended = Ended {
            history: None,
            state: State::default(),
            seconds: 0.0,
            counted: counted.transpose()?,
        };
        return finish(&job, &output, history, &ended, &options);
    }
    let found = found.map(|checkpoint| checkpoint.manifest().history.clone());
    if let Some(history) = &found {
        note(&format!(
            "continuing after epoch {} in {}",
            history.epochs,
            output.display()
        ));
    }
    let order = Order {
        name: job.config.job.name.clone(),
        plan: job.steering(),
        fresh: options.fresh,
        checkpoint: found,
        storage: Storage {
            disk,
            folder: output.clone(),
            pinned: None,
            job: job.config.job.name.clone(),
            schema: job.schema.clone(),
            recipe: job.recipe.clone(),
            config: job.config.to_toml(),
            target: job.config.train.epochs,
        },
    };
    let ended = work(machine, &job, order).await?;
    match &ended.history {
        Some(history) => finish(&job, &output, history, &ended, &options),
        None => {
            note(&stopped(&job, &machine.disk, &output)?);
            Ok(Ending::Stopped)
        }
    }
}

fn finish(
    job: &Job,
    output: &Path,
    history: &History,
    ended: &Ended,
    options: &TrainOptions,
) -> Result<Ending, Error> {
    say(&match &ended.counted {
        Some(counts) => counted(counts),
        None => results(history).trim_end().to_owned(),
    });
    let place = output.join(folder_name(history.epochs));
    say(&if place.exists() {
        format!(
            "model after epoch {} in {}",
            history.epochs,
            place.display()
        )
    } else {
        format!(
            "model after epoch {} is kept by the worker that began the job",
            history.epochs
        )
    });
    if let Some(path) = &options.report {
        let counted = ended.counted.as_ref();
        Report::new(&job.config, history, &ended.state, ended.seconds, counted).write(path)?;
    }
    Ok(Ending::Finished)
}

/// Checks that a file can be put where it is wanted, before hours are spent on what is to be in it.
fn must_have_folder(file: &Path) -> Result<(), Error> {
    let folder = Path::new(".").join(file.parent().unwrap_or(Path::new("")));
    std::fs::metadata(&folder)
        .map(drop)
        .map_err(|source| Error::Io {
            path: folder,
            source,
        })
}

/// What is left of a run that was stopped.
fn stopped(job: &Job, disk: &Arc<dyn Disk>, output: &Path) -> Result<String, Error> {
    if job.config.cluster.is_some() {
        return Ok("stopped; the job goes on with its other workers".into());
    }
    Ok(match newest(disk, output)?.checkpoint {
        Some(kept) => {
            let (epochs, place) = (kept.manifest().history.epochs, kept.folder().display());
            format!("stopped; the model after epoch {epochs} is in {place}, train again to go on")
        }
        None => "stopped; no epoch was finished, so nothing is kept".into(),
    })
}

/// The newest whole checkpoint in the output folder, if it is of this job.
fn checkpoint(disk: &Arc<dyn Disk>, output: &Path, job: &Job) -> Result<Option<Checkpoint>, Error> {
    let found = newest(disk, output)?;
    for (path, error) in &found.damaged {
        note(&format!("{} is left out: {error}", path.display()));
    }
    let Some(checkpoint) = found.checkpoint else {
        if !found.damaged.is_empty() {
            note("no whole checkpoint is left; training begins anew");
        }
        return Ok(None);
    };
    let manifest = checkpoint.manifest();
    job.schema.must_equal(&manifest.schema)?;
    job.recipe.must_equal(&manifest.recipe)?;
    Ok(Some(checkpoint))
}
