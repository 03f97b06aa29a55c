//! The store of checkpoints as a cloud has it: whole objects, durable at once, reached by every
//! server, and out of order now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_common::Error;
use windlass_common::format::decode_shard;
use windlass_common::runtime::{Objects, require_name};
use windlass_common::split::Draw;

use super::plan::Plan;
use super::world::World;

/// How many of a thousand calls fail.
const FAILING: u64 = 30;

/// Objects in memory. A clone shows the same ones.
#[derive(Clone)]
pub(super) struct Blobs {
    world: Arc<World>,
    // std's: held for a moment, never across an await.
    objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    /// What every copy of a shard in it must agree with.
    plan: Arc<Plan>,
    /// Those of which a bit has turned.
    damaged: Arc<Mutex<BTreeSet<String>>>,
    /// Whether calls may fail, and damage is seen.
    fails: bool,
}

impl Blobs {
    pub(super) fn new(world: Arc<World>, plan: Arc<Plan>) -> Self {
        Self {
            world,
            plan,
            objects: Arc::default(),
            damaged: Arc::default(),
            fails: true,
        }
    }

    /// The same objects, for the judge: it may always look, and sees what was stored.
    pub(super) fn open(&self) -> Arc<dyn Objects> {
        Arc::new(Self {
            fails: false,
            ..self.clone()
        })
    }

    /// Turns a bit in one of the files of the newest checkpoint.
    pub(super) fn damage(&self, draw: &mut Draw) {
        let objects = self.lock();
        let folder = |name: &str| name.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        let Some(newest) = objects.keys().next_back().and_then(|name| folder(name)) else {
            return;
        };
        let inside = objects
            .keys()
            .filter(|name| folder(name).as_ref() == Some(&newest));
        let inside: Vec<_> = inside.collect();
        let at = draw.below(inside.len() as u64);
        let name = inside[usize::try_from(at).unwrap_or(0)].clone();
        self.world.note("store", format_args!("damage {name}"));
        self.world.lose();
        self.damaged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name);
    }

    fn is_damaged(&self, name: &str) -> bool {
        let damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        self.fails && damaged.contains(name)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// I1: whatever is stored of a shard is true of its own windows.
    fn look(&self, name: &str, bytes: &[u8]) {
        let Ok(image) = decode_shard(bytes, Path::new(name)) else {
            return;
        };
        if let Err(error) = self.plan.truth.check(&image) {
            self.world
                .violated("store", format_args!("{name}: {error:#}"));
        }
    }

    fn fail(&self, name: &str) -> Result<(), Error> {
        if self.fails && self.world.trouble(FAILING) {
            self.world.note("store", format_args!("fails for {name}"));
            return Err(Error::Io {
                path: name.into(),
                source: io::Error::new(io::ErrorKind::TimedOut, "the store does not answer"),
            });
        }
        Ok(())
    }
}

impl Display for Blobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the simulated store")
    }
}

impl Objects for Blobs {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        require_name(name)?;
        self.fail(name)?;
        self.world.note("store", format_args!("put {name}"));
        self.look(name, bytes);
        self.lock().insert(name.into(), bytes.into());
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        damaged.remove(name);
        drop(damaged);
        // What failed may have been done.
        self.fail(name)
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        require_name(name)?;
        self.fail(name)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let objects = self.lock();
        let bytes = objects.get(name);
        let mut bytes = bytes.map(|bytes| bytes[..bytes.len().min(limit)].to_vec());
        if let Some(middle) = bytes.as_mut().and_then(|bytes| {
            let at = bytes.len() / 2;
            bytes.get_mut(at)
        }) && self.is_damaged(name)
        {
            *middle ^= 4;
        }
        Ok(bytes)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        self.fail(folder)?;
        let prefix = match folder {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        let objects = self.lock();
        let inside = objects.keys().filter_map(|name| name.strip_prefix(&prefix));
        let first = inside.filter_map(|rest| rest.split('/').next());
        let names: BTreeSet<String> = first.map(str::to_owned).collect();
        Ok(names.into_iter().collect())
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        require_name(name)?;
        self.fail(name)?;
        self.world.note("store", format_args!("remove {name}"));
        let inside = format!("{name}/");
        self.lock()
            .retain(|other, _| other != name && !other.starts_with(&inside));
        self.fail(name)
    }
}
