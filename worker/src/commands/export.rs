//! `windlass-worker export`: a saved model as text, a row a line.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_common::config::TrainConfig;
use windlass_common::format::{Checkpoint, TableImage, decode_shard};
use windlass_common::key::Key;
use windlass_common::optimizer::OptimizerSpec;
use windlass_common::runtime::Disk;
use windlass_common::schema::TableSchema;

use super::evaluate::{find, with_trained_statistics};
use crate::counted;
use crate::data::{Input, ReadPlan};
use crate::error::Error;
use crate::job::labels;
use crate::progress::note;
use crate::whole_file::write_whole;

/// What the command line says beside the config.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// The checkpoint, or a folder of checkpoints. Without it the job's output folder.
    pub checkpoint: Option<PathBuf>,
    /// Print the optimizer's slots too.
    pub slots: bool,
    /// The file to write. Without it standard output.
    pub output: Option<PathBuf>,
}

/// Prints `TABLE<tab>KEY<tab>WEIGHTS` and, if asked, `<tab>SLOTS`; numbers are separated by blanks
/// and read back to the same floats. A row that counts has its count there, one integer.
///
/// A key is written as the input named it where the training files still say so, else as sixteen
/// hexadecimal digits. Rows come in the order of shards and keys, table after table in each.
///
/// # Errors
/// No checkpoint, or a damaged one; a row that should be a count and is none; a file that cannot be
/// written.
pub fn export(
    disk: &Arc<dyn Disk>,
    config: TrainConfig,
    folder: &Path,
    options: &ExportOptions,
) -> Result<(), Error> {
    let place = options
        .checkpoint
        .clone()
        .unwrap_or_else(|| config.output());
    let checkpoint = find(disk, &place)?;
    let config = with_trained_statistics(config, &checkpoint.manifest().config)?;
    let names = names(&config, folder);
    match &options.output {
        Some(path) => write_whole(path, |file| {
            write_rows(&checkpoint, &names, options.slots, file).map_err(|e| e.at(path))
        }),
        None => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            match write_rows(&checkpoint, &names, options.slots, &mut out) {
                // A reader that has seen enough, such as `head`.
                Err(Written::Io(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
                written => written.map_err(|e| e.at(Path::new("standard output"))),
            }
        }
    }
}

enum Written {
    Io(std::io::Error),
    Unreadable(Error),
}

impl From<std::io::Error> for Written {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl Written {
    /// Names the file that could not be written.
    fn at(self, path: &Path) -> Error {
        match self {
            Self::Io(source) => Error::Io {
                path: path.to_owned(),
                source,
            },
            Self::Unreadable(error) => error,
        }
    }
}

fn write_rows(
    checkpoint: &Checkpoint,
    names: &HashMap<Key, String>,
    slots: bool,
    writer: &mut impl Write,
) -> Result<(), Written> {
    let schema = &checkpoint.manifest().schema;
    for shard in schema.shards.all() {
        let unreadable = |e: windlass_common::Error| Written::Unreadable(e.into());
        let bytes = checkpoint.shard(shard).map_err(unreadable)?;
        let image = decode_shard(&bytes, checkpoint.folder())
            .map_err(|e| Written::Unreadable(windlass_common::Error::from(e).into()))?;
        for (table, rows) in schema.tables.iter().zip(&image.tables) {
            write_table(table, rows, names, slots, writer)?;
        }
    }
    writer.flush().map_err(Written::Io)
}

fn write_table(
    table: &TableSchema,
    image: &TableImage,
    names: &HashMap<Key, String>,
    slots: bool,
    writer: &mut impl Write,
) -> Result<(), Written> {
    let stride = image.dim + image.slots;
    for (key, row) in image
        .keys
        .iter()
        .zip(image.rows.chunks_exact(stride.max(1)))
    {
        write!(writer, "{}\t", table.name)?;
        match names.get(key) {
            Some(name) => write!(writer, "{name}")?,
            None => write!(writer, "{key}")?,
        }
        let (weights, state) = row.split_at(image.dim);
        if table.optimizer == OptimizerSpec::Count {
            let count = counted::read(*key, weights).map_err(Written::Unreadable)?;
            write!(writer, "\t{count}")?;
        } else {
            write_floats(weights, writer)?;
        }
        if slots && !state.is_empty() {
            write_floats(state, writer)?;
        }
        writeln!(writer)?;
    }
    Ok(())
}

fn write_floats(values: &[f32], writer: &mut impl Write) -> std::io::Result<()> {
    for (i, value) in values.iter().enumerate() {
        let before = if i == 0 { '\t' } else { ' ' };
        write!(writer, "{before}{value}")?;
    }
    Ok(())
}

/// What the training files call their features; tabs and line breaks inside become blanks.
fn names(config: &TrainConfig, folder: &Path) -> HashMap<Key, String> {
    let mut names = HashMap::from([(Key::BIAS, "(bias)".to_owned())]);
    let plan = Arc::new(ReadPlan {
        data: config.data.clone(),
        labels: labels(config),
    });
    let read = Input::discover(&config.data.train, folder).and_then(|input| {
        input.describe(&plan, &mut |key, name| {
            names
                .entry(key)
                .or_insert_with(|| name.replace(['\t', '\n', '\r'], " "));
        })
    });
    if let Err(error) = read {
        note(&format!(
            "keys are shown as hashes where no name is known: {error}"
        ));
    }
    names
}
