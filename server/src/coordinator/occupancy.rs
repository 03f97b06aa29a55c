//! How full a job's servers and tables are, for the eyes of people; nothing is decided by it.

use std::collections::BTreeMap;

use windlass_common::id::ServerId;
use windlass_common::residency::Occupancy;

use super::cluster::Cluster;
use super::job::Job;

/// What each server told of its tables last, in the schema's order.
#[derive(Debug, Default)]
pub(super) struct Tables(BTreeMap<ServerId, Vec<Occupancy>>);

impl Tables {
    /// Takes a server's word.
    pub(super) fn hear(&mut self, server: ServerId, tables: Vec<Occupancy>) {
        self.0.insert(server, tables);
    }
}

impl Job {
    /// The rows of each owner's shards, by its address.
    pub(super) fn rows_by_server(&self, cluster: &Cluster) -> BTreeMap<String, u64> {
        let rows = self.sources.rows_by_owner(&self.owners);
        let named = |(server, rows)| (cluster.servers.address(server).to_owned(), rows);
        rows.into_iter().map(named).collect()
    }

    /// How full each table is, over all owners, by its name.
    pub(super) fn tables(&self) -> BTreeMap<String, Occupancy> {
        let names = self.schema.tables.iter().map(|table| table.name.clone());
        let mut tables: Vec<(String, Occupancy)> =
            names.map(|name| (name, Occupancy::default())).collect();
        for server in self.sources.rows_by_owner(&self.owners).keys() {
            let told = self.occupancy.0.get(server).into_iter().flatten();
            for ((_, sum), &table) in tables.iter_mut().zip(told) {
                sum.add(table);
            }
        }
        tables.into_iter().collect()
    }
}
