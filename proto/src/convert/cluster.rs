//! Who holds what: the shard map, servers' reports and their assignments.

use std::ops::Range;

use windlass_common::coordination::{
    Assigned, Assignment, JobReport, Report, ShardMap, ShardReport,
};
use windlass_common::id::{
    Boot, CheckpointId, Clock, Incarnation, JobId, Lineage, MapEpoch, Seq, ServerId, ShardId,
    SourceId,
};
use windlass_common::interval_set::IntervalSet;
use windlass_common::residency::Occupancy;
use windlass_common::schema::MAX_TABLES;

use super::required;
use crate::error::WireError;
use crate::limits::{self, at_most, invalid};
use crate::{v1, version};

impl From<Incarnation> for v1::Incarnation {
    fn from(incarnation: Incarnation) -> Self {
        Self {
            epoch: incarnation.epoch.0,
            nonce: incarnation.nonce,
        }
    }
}

impl From<v1::Incarnation> for Incarnation {
    fn from(message: v1::Incarnation) -> Self {
        Self {
            epoch: MapEpoch(message.epoch),
            nonce: message.nonce,
        }
    }
}

impl From<ShardMap> for v1::ShardMap {
    fn from(map: ShardMap) -> Self {
        Self {
            epoch: map.epoch.0,
            lineage: map.lineage.0,
            owners: map
                .owners
                .into_iter()
                .map(|(server, incarnation)| v1::Owner {
                    server: server.0,
                    incarnation: Some(incarnation.into()),
                })
                .collect(),
            addresses: map.addresses.into_iter().map(|(s, a)| (s.0, a)).collect(),
        }
    }
}

impl TryFrom<v1::ShardMap> for ShardMap {
    type Error = WireError;

    fn try_from(message: v1::ShardMap) -> Result<Self, WireError> {
        at_most("map.owners", message.owners.len(), limits::SHARDS)?;
        at_most("map.addresses", message.addresses.len(), limits::SERVERS)?;
        Ok(Self {
            epoch: MapEpoch(message.epoch),
            lineage: Lineage(message.lineage),
            owners: message
                .owners
                .into_iter()
                .map(|owner| {
                    let incarnation = required("map.owners.incarnation", owner.incarnation)?;
                    Ok((ServerId(owner.server), incarnation.into()))
                })
                .collect::<Result<_, WireError>>()?,
            addresses: message
                .addresses
                .into_iter()
                .map(|(server, address)| {
                    Ok((ServerId(server), limits::name("map.addresses", address)?))
                })
                .collect::<Result<_, WireError>>()?,
        })
    }
}

impl From<Report> for v1::ReportRequest {
    fn from(report: Report) -> Self {
        Self {
            protocol: Some(version::SPOKEN),
            address: report.address,
            boot: report.boot.0,
            number: report.number,
            seen: report.seen.0,
            health: Some(report.health.into()),
            jobs: report.jobs.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::ReportRequest> for Report {
    type Error = WireError;

    fn try_from(message: v1::ReportRequest) -> Result<Self, WireError> {
        // First, for in another version the rest may mean something else.
        version::agree(message.protocol.unwrap_or_default())?;
        at_most("jobs", message.jobs.len(), limits::JOBS)?;
        Ok(Self {
            address: limits::name("address", message.address)?,
            boot: Boot(message.boot),
            number: message.number,
            seen: MapEpoch(message.seen),
            health: message.health.unwrap_or_default().try_into()?,
            jobs: message
                .jobs
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl From<JobReport> for v1::JobReport {
    fn from(report: JobReport) -> Self {
        Self {
            job: report.job.0,
            shards: report.shards.into_iter().map(Into::into).collect(),
            saved: report.saved.into_iter().map(Into::into).collect(),
            tables: report.tables.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Occupancy> for v1::Occupancy {
    fn from(table: Occupancy) -> Self {
        Self {
            rows: table.rows,
            bytes: table.bytes,
            refused: table.refused,
            evicted: table.evicted,
        }
    }
}

impl From<v1::Occupancy> for Occupancy {
    fn from(message: v1::Occupancy) -> Self {
        Self {
            rows: message.rows,
            bytes: message.bytes,
            refused: message.refused,
            evicted: message.evicted,
        }
    }
}

impl TryFrom<v1::JobReport> for JobReport {
    type Error = WireError;

    fn try_from(message: v1::JobReport) -> Result<Self, WireError> {
        at_most("jobs.shards", message.shards.len(), limits::SHARDS)?;
        at_most("jobs.saved", message.saved.len(), limits::SHARDS)?;
        at_most("jobs.tables", message.tables.len(), MAX_TABLES)?;
        Ok(Self {
            job: JobId(message.job),
            shards: message
                .shards
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            saved: message
                .saved
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            tables: message.tables.into_iter().map(Into::into).collect(),
        })
    }
}

impl From<ShardReport> for v1::ShardReport {
    fn from(report: ShardReport) -> Self {
        let complete = report.complete.ranges().iter();
        Self {
            shard: report.shard.0.into(),
            incarnation: Some(report.incarnation.into()),
            lineage: report.lineage.0,
            complete: complete.flat_map(|r| [r.start, r.end]).collect(),
            open: report
                .open
                .iter()
                .flat_map(|&(SourceId(source), Seq(seq))| [source, seq])
                .collect(),
            rows: report.rows,
            clock: report.clock.0,
        }
    }
}

impl TryFrom<v1::ShardReport> for ShardReport {
    type Error = WireError;

    fn try_from(message: v1::ShardReport) -> Result<Self, WireError> {
        let open = pairs("jobs.shards.open", &message.open)?
            .iter()
            .map(|&[source, seq]| {
                let source = limits::source("jobs.shards.open", source)?;
                Ok((source, limits::seq("jobs.shards.open", seq)?))
            })
            .collect::<Result<_, WireError>>()?;
        Ok(Self {
            shard: limits::shard("jobs.shards.shard", message.shard)?,
            incarnation: required("jobs.shards.incarnation", message.incarnation)?.into(),
            lineage: Lineage(message.lineage),
            complete: sources("jobs.shards.complete", &message.complete)?,
            open,
            rows: message.rows,
            clock: Clock(message.clock),
        })
    }
}

/// Takes ranges of sources.
pub(super) fn sources(field: &str, numbers: &[u64]) -> Result<IntervalSet, WireError> {
    let ranges = pairs(field, numbers)?
        .iter()
        .map(|&[start, end]| Ok(start..limits::below_2_63(field, end)?))
        .collect::<Result<Vec<Range<u64>>, WireError>>()?;
    IntervalSet::from_ranges(ranges).map_err(|e| invalid(field, e))
}

fn pairs<'a>(field: &str, numbers: &'a [u64]) -> Result<&'a [[u64; 2]], WireError> {
    let (pairs, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(invalid(field, "numbers come in pairs"));
    }
    at_most(field, pairs.len(), limits::RANGES)?;
    Ok(pairs)
}

impl From<Assigned> for v1::ReportResponse {
    fn from(assigned: Assigned) -> Self {
        Self {
            server: assigned.server.0,
            epoch: assigned.epoch.0,
            jobs: assigned.jobs.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::ReportResponse> for Assigned {
    type Error = WireError;

    fn try_from(message: v1::ReportResponse) -> Result<Self, WireError> {
        at_most("jobs", message.jobs.len(), limits::JOBS)?;
        Ok(Self {
            server: ServerId(message.server),
            epoch: MapEpoch(message.epoch),
            jobs: message
                .jobs
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl From<Assignment> for v1::Assignment {
    fn from(assignment: Assignment) -> Self {
        Self {
            job: assignment.job.0,
            name: assignment.name,
            lineage: assignment.lineage.0,
            schema: Some(assignment.schema.into()),
            shards: assignment
                .shards
                .into_iter()
                .map(|(shard, incarnation)| v1::AssignedShard {
                    shard: shard.0.into(),
                    incarnation: Some(incarnation.into()),
                })
                .collect(),
            origin: assignment.origin.map(|c| c.0),
            save: assignment.save.map(Into::into),
            settled: assignment.settled.map(|c| c.0),
        }
    }
}

impl TryFrom<v1::Assignment> for Assignment {
    type Error = WireError;

    fn try_from(message: v1::Assignment) -> Result<Self, WireError> {
        at_most("jobs.shards", message.shards.len(), limits::SHARDS)?;
        Ok(Self {
            job: JobId(message.job),
            name: limits::name("jobs.name", message.name)?,
            lineage: Lineage(message.lineage),
            schema: required("jobs.schema", message.schema)?.try_into()?,
            shards: message
                .shards
                .into_iter()
                .map(|assigned| {
                    let shard: ShardId = limits::shard("jobs.shards.shard", assigned.shard)?;
                    let incarnation = required("jobs.shards.incarnation", assigned.incarnation)?;
                    Ok((shard, incarnation.into()))
                })
                .collect::<Result<_, WireError>>()?,
            origin: message.origin.map(CheckpointId),
            save: message.save.map(Into::into),
            settled: message.settled.map(CheckpointId),
        })
    }
}
