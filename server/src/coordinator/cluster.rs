//! What all jobs of a cluster share: its servers, the map's epoch, and random names.

use std::time::Duration;

use windlass_common::id::{Incarnation, LeaseId, MapEpoch};
use windlass_common::split::Draw;

use super::members::Servers;

/// The part of the coordinator that jobs lean on.
#[derive(Debug)]
pub(super) struct Cluster {
    /// How long a lease lasts without a renewal.
    pub(super) ttl: Duration,
    /// The servers that have ever joined.
    pub(super) servers: Servers,
    epoch: MapEpoch,
    nonce: u64,
    draw: Draw,
}

impl Cluster {
    /// Starts without servers. `draw` must differ between lives of the coordinator.
    pub(super) fn new(ttl: Duration, mut draw: Draw) -> Self {
        Self {
            ttl,
            servers: Servers::default(),
            epoch: MapEpoch(0),
            nonce: draw.bits(),
            draw,
        }
    }

    /// C0: goes on after an earlier life of the role, in a new epoch of the map.
    pub(super) fn resume(&mut self, epoch: MapEpoch, servers: Servers) {
        self.epoch = MapEpoch(epoch.0 + 1);
        self.servers = servers;
    }

    /// The map's version.
    pub(super) fn epoch(&self) -> MapEpoch {
        self.epoch
    }

    /// Begins a new version of the map.
    pub(super) fn raise(&mut self) {
        self.epoch.0 += 1;
    }

    /// C3: a server that saw a newer map than ours lived under an earlier life of this role; ours
    /// rises above it, for servers ignore maps that are older than one they saw.
    pub(super) fn rise_above(&mut self, seen: MapEpoch) {
        if seen > self.epoch {
            self.epoch.0 = seen.0 + 1;
        }
    }

    /// Names a new assignment of shards: no earlier one has this name, in no life of the role.
    pub(super) fn incarnation(&mut self) -> Incarnation {
        self.raise();
        Incarnation {
            epoch: self.epoch,
            nonce: self.nonce,
        }
    }

    /// Names a lease.
    pub(super) fn lease(&mut self) -> LeaseId {
        LeaseId(self.draw.bits())
    }
}
