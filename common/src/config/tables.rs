//! `[tables.NAME]`: which keys of a table have rows.

use serde::{Deserialize, Serialize};

use crate::human::Size;
use crate::residency::{Admission, Eviction};

/// `[tables.NAME]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TableConfig {
    /// A key gets a row with the push that has it for the so-manieth time, `1..=255`; until then
    /// its gradients are dropped and it answers its initial value. Sightings are counted in a
    /// sketch, which may take a rare key for a more frequent one, and halves its counts once it has
    /// taken in eight for each of its bytes. 1: every key.
    pub admission: u32,
    /// Memory of the sketch, over all servers; a key in every two bytes is counted well.
    pub sketch: Size,
    /// A row goes when so many batches of the job came without its key, give or take a sixteenth.
    /// Without it rows stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
    /// The memory that the table may take, sketch and index included, over all servers. When it is
    /// full, the rows that were not pushed to for longest make room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<Size>,
}

impl Default for TableConfig {
    fn default() -> Self {
        Self {
            admission: 1,
            sketch: Size::from_mib(32),
            ttl: None,
            max_bytes: None,
        }
    }
}

impl TableConfig {
    /// When a key gets a row; `None` for every key's first push.
    #[must_use]
    pub fn admission(&self) -> Option<Admission> {
        (self.admission != 1).then(|| Admission {
            sightings: self.admission,
            sketch_bytes: self.sketch.bytes(),
        })
    }

    /// When a row goes.
    #[must_use]
    pub fn eviction(&self) -> Eviction {
        Eviction {
            ttl: self.ttl,
            max_bytes: self.max_bytes.map(Size::bytes),
        }
    }
}
