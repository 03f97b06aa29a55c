//! Where the servers are: the newest map, and a connection to each address in it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use windlass_common::coordination::ShardMap;
use windlass_common::shard::ShardCount;

use crate::transport::Shards;

/// Makes connections to servers.
pub trait Connect: Send + Sync {
    /// Gives the shards of the server at `address`.
    ///
    /// It returns at once; a server that cannot be reached says so when it is asked.
    fn shards(&self, address: &str) -> Arc<dyn Shards>;
}

/// The newest map and the connections that were made for it.
pub(crate) struct Directory {
    connect: Arc<dyn Connect>,
    shards: ShardCount,
    // std Mutex: held to look something up, never across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    map: Arc<ShardMap>,
    servers: BTreeMap<String, Arc<dyn Shards>>,
}

impl Directory {
    /// Knows no server yet.
    pub(crate) fn new(connect: Arc<dyn Connect>, shards: ShardCount) -> Self {
        Self {
            connect,
            shards,
            state: Mutex::default(),
        }
    }

    /// Returns the newest map that was seen.
    pub(crate) fn map(&self) -> Arc<ShardMap> {
        Arc::clone(&self.lock().map)
    }

    /// Takes a map unless it is older than the one that is held, and returns the newer.
    ///
    /// # Errors
    /// What is wrong with a map that cannot be this job's.
    pub(crate) fn adopt(&self, map: ShardMap) -> Result<Arc<ShardMap>, String> {
        let (got, want) = (map.owners.len(), self.shards.len());
        if got != want && got != 0 {
            return Err(format!("its map has {got} shards, the job has {want}"));
        }
        let lost = |(server, _): &&(_, _)| !map.addresses.contains_key(server);
        if let Some((server, _)) = map.owners.iter().find(lost) {
            return Err(format!("its map has no address for server {server}"));
        }
        let mut state = self.lock();
        if map.epoch >= state.map.epoch {
            state
                .servers
                .retain(|address, _| map.addresses.values().any(|a| a == address));
            state.map = Arc::new(map);
        }
        Ok(Arc::clone(&state.map))
    }

    /// Returns the connection to an address, made when it is first wanted.
    pub(crate) fn at(&self, address: &str) -> Arc<dyn Shards> {
        let mut state = self.lock();
        if let Some(shards) = state.servers.get(address) {
            return Arc::clone(shards);
        }
        let shards = self.connect.shards(address);
        state.servers.insert(address.into(), Arc::clone(&shards));
        shards
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic elsewhere leaves both fields whole: each is replaced in one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use windlass_common::id::MapEpoch;

    use super::*;
    use crate::fake::{self, Cluster, Wires};

    fn directory(shards: u32) -> Directory {
        let cluster = Cluster::new(2, &[0, 1]);
        Directory::new(Arc::new(Wires(cluster)), ShardCount::new(shards).unwrap())
    }

    #[test]
    fn an_older_map_is_not_taken() {
        let directory = directory(4);
        let newer = fake::map(MapEpoch(7), &[0, 1, 0, 1]);
        directory.adopt(newer.clone()).unwrap();
        let held = directory.adopt(fake::map(MapEpoch(6), &[1; 4])).unwrap();
        assert_eq!(*held, newer);
    }

    #[test]
    fn a_map_of_another_shape_is_an_error() {
        let directory = directory(4);
        let refused = directory.adopt(fake::map(MapEpoch(1), &[0; 8]));
        assert_eq!(
            refused.unwrap_err(),
            "its map has 8 shards, the job has 4".to_string()
        );
        let mut nameless = fake::map(MapEpoch(1), &[0, 1, 0, 1]);
        nameless.addresses.pop_last();
        let refused = directory.adopt(nameless);
        assert_eq!(
            refused.unwrap_err(),
            "its map has no address for server 1".to_string()
        );
        assert!(directory.map().owners.is_empty());
    }

    #[test]
    fn a_connection_is_made_once_and_dropped_with_its_address() {
        let directory = directory(2);
        directory.adopt(fake::map(MapEpoch(1), &[0, 1])).unwrap();
        let first = directory.at(&fake::address(1));
        assert!(Arc::ptr_eq(&first, &directory.at(&fake::address(1))));
        directory.adopt(fake::map(MapEpoch(2), &[0, 0])).unwrap();
        assert!(!Arc::ptr_eq(&first, &directory.at(&fake::address(1))));
    }
}
