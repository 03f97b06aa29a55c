//! `windlass-server checkpoint`: what lies in a store, and whether it is whole.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use windlass_common::format::{Checkpoint, Entry, Library, Manifest, checkpoint_folder};
use windlass_common::human::Span;
use windlass_common::id::CheckpointId;
use windlass_common::runtime::Objects;

use super::table::Table;
use crate::error::Error;

/// Which checkpoints of a store are meant.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// A job; without it all.
    pub job: Option<String>,
    /// A checkpoint of it; without it all.
    pub number: Option<CheckpointId>,
}

/// The titles of the table; numbers are set to the right.
const TITLES: [&str; 9] = [
    "job", "number", "age", "epoch", "sources", "rows", "bytes", "kind", "state",
];
/// The columns that hold numbers.
const NUMBERS: std::ops::Range<usize> = 1..7;

/// Prints a line for each checkpoint, newest first. Only manifests are read, and whether their files
/// are there; `now` is the time since the Unix epoch.
///
/// The epoch is the one that was learnt, or had been learnt last. Rows and bytes are those of the files that were written for the checkpoint: a delta's are few.
///
/// # Errors
/// A store that cannot be read, [`Error::NoCheckpoint`] if there is none, output that cannot be
/// written.
pub fn list(
    objects: &Arc<dyn Objects>,
    selection: &Selection,
    now: Duration,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let mut table = Table::new(&TITLES, NUMBERS);
    for (library, entry) in select(objects, selection)? {
        table.add(line(&library, &entry, now));
    }
    say(out, table.text().trim_end())
}

/// Reads every byte of the checkpoints and prints what each is; returns how many are not whole. One
/// that was never finished is said to be so and does not count.
///
/// # Errors
/// As [`list`].
pub fn verify(
    objects: &Arc<dyn Objects>,
    selection: &Selection,
    out: &mut dyn Write,
) -> Result<usize, Error> {
    let mut damaged = 0;
    for (library, entry) in select(objects, selection)? {
        let name = format!("{}/{}", library.job(), checkpoint_folder(entry.number));
        let text = match entry.checkpoint {
            Err(ref error) if error.is_unpublished() && selection.number.is_none() => {
                format!("{name}: no manifest: under way, or given up")
            }
            Err(error) => {
                damaged += 1;
                format!("{name}: DAMAGED: {error}")
            }
            Ok(checkpoint) => match checkpoint.verify() {
                Ok(()) => format!("{name}: whole, {}", extent(&checkpoint)),
                Err(error) => {
                    damaged += 1;
                    format!("{name}: DAMAGED: {error}")
                }
            },
        };
        say(out, &text)?;
    }
    Ok(damaged)
}

/// The checkpoints that are meant, at least one.
fn select(
    objects: &Arc<dyn Objects>,
    selection: &Selection,
) -> Result<Vec<(Library, Entry)>, Error> {
    let jobs = match &selection.job {
        Some(job) => vec![job.clone()],
        None => Library::jobs(&**objects)?,
    };
    let mut found = Vec::new();
    for job in jobs {
        let library = Library::new(Arc::clone(objects), &job)?;
        let wanted = |entry: &Entry| selection.number.is_none_or(|n| n == entry.number);
        for entry in library.list()?.into_iter().filter(wanted) {
            found.push((library.clone(), entry));
        }
    }
    if found.is_empty() {
        let what = match (&selection.job, selection.number) {
            (Some(job), Some(number)) => format!("checkpoint {number} of job `{job}`"),
            (Some(job), None) => format!("checkpoint of job `{job}`"),
            _ => "checkpoint".into(),
        };
        return Err(Error::NoCheckpoint {
            what,
            place: objects.to_string(),
        });
    }
    Ok(found)
}

fn line(library: &Library, entry: &Entry, now: Duration) -> [String; TITLES.len()] {
    let dash = || "-".to_owned();
    let (job, number) = (library.job().to_owned(), entry.number.to_string());
    let manifest = match &entry.checkpoint {
        Ok(checkpoint) => checkpoint.manifest(),
        Err(error) => {
            let state = if error.is_unpublished() {
                "no manifest: under way, or given up".into()
            } else {
                format!("DAMAGED: {error}")
            };
            let [age, epoch, sources, rows, bytes, kind] = std::array::from_fn(|_| dash());
            return [job, number, age, epoch, sources, rows, bytes, kind, state];
        }
    };
    let folder = checkpoint_folder(manifest.number);
    let own = || {
        let files = manifest.files();
        files.filter(|(_, file)| file.folder.is_empty() || file.folder == folder)
    };
    let state = match library.must_have_files(manifest) {
        Ok(()) if manifest.pinned => "files there, pinned".into(),
        Ok(()) => "files there".into(),
        Err(error) => format!("DAMAGED: {error}"),
    };
    [
        job,
        number,
        age(manifest, now),
        manifest.target.to_string(),
        manifest.complete.len().to_string(),
        own().map(|(_, file)| file.rows).sum::<u64>().to_string(),
        own().map(|(_, file)| file.bytes).sum::<u64>().to_string(),
        kind(manifest),
        state,
    ]
}

/// Whether files were written in full.
fn kind(manifest: &Manifest) -> String {
    let deltas = manifest
        .chains
        .iter()
        .filter(|chain| chain.len() > 1)
        .count();
    match deltas {
        0 => "full".into(),
        all if all == manifest.chains.len() => "delta".into(),
        some => format!("{some} of {} delta", manifest.chains.len()),
    }
}

/// How long ago it was taken, in its largest unit.
fn age(manifest: &Manifest, now: Duration) -> String {
    let seconds = now
        .saturating_sub(Duration::from_millis(manifest.taken_ms))
        .as_secs();
    let unit = [86_400, 3600, 60]
        .into_iter()
        .find(|&unit| seconds >= 2 * unit);
    let unit = unit.unwrap_or(1);
    if seconds == 0 {
        return "0s".into();
    }
    Span::from_secs(seconds / unit * unit).to_string()
}

fn extent(checkpoint: &Checkpoint) -> String {
    let (mut files, mut bytes) = (0u64, 0u64);
    for (_, file) in checkpoint.manifest().files() {
        files += 1;
        bytes = bytes.saturating_add(file.bytes);
    }
    format!("{files} files, {bytes} bytes")
}

pub(super) fn say(out: &mut dyn Write, line: &str) -> Result<(), Error> {
    writeln!(out, "{line}").map_err(|source| Error::Output { source })
}

#[cfg(test)]
mod tests;
