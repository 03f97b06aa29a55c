//! `windlass-server status`: how a cluster is, for people.

use std::fmt::Write;
use std::time::Duration;

use windlass_common::status::{ClusterStatus, JobStatus, ServerStatus};

use super::table::Table;

/// Writes the cluster's servers, its jobs, and how full the jobs' tables are, each as a table, and a
/// line for whatever is amiss.
#[must_use]
pub(super) fn status(cluster: &ClusterStatus) -> String {
    let mut text = if cluster.servers.is_empty() {
        "no server has joined yet\n".to_owned()
    } else {
        servers(cluster)
    };
    text.push('\n');
    if cluster.jobs.is_empty() {
        text.push_str("no jobs\n");
    } else {
        text.push_str(&jobs(cluster));
        text.push('\n');
        text.push_str(&tables(cluster));
    }
    let amiss: Vec<String> = cluster.servers.iter().filter_map(amiss).collect();
    if !amiss.is_empty() {
        text.push('\n');
    }
    for line in amiss {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

fn servers(cluster: &ClusterStatus) -> String {
    let titles = [
        "server",
        "state",
        "shards",
        "rows",
        "pushes",
        "duplicates",
        "log",
    ];
    let mut table = Table::new(&titles, 2..7);
    for server in &cluster.servers {
        let of_job = |job: &JobStatus| {
            let mut owners = job.owners.iter();
            owners.find(|o| o.0 == server.server).map_or(0, |o| o.1)
        };
        let rows_of = |job: &JobStatus| {
            let rows = job.progress.rows.get(&server.address);
            rows.copied().unwrap_or_default()
        };
        let jobs = &cluster.jobs;
        table.add([
            server.address.clone(),
            match server.silent {
                Some(silent) => format!("silent {}", age(silent)),
                None => "up".into(),
            },
            jobs.iter().map(of_job).sum::<u32>().to_string(),
            jobs.iter().map(rows_of).sum::<u64>().to_string(),
            server.health.applied.to_string(),
            server.health.duplicates.to_string(),
            server.health.log_bytes.map_or("-".into(), bytes),
        ]);
    }
    table.text()
}

fn jobs(cluster: &ClusterStatus) -> String {
    let titles = [
        "job",
        "state",
        "epoch",
        "splits",
        "leased",
        "closed",
        "workers",
        "checkpoint",
        "age",
    ];
    let mut table = Table::new(&titles, 2..9);
    for job in &cluster.jobs {
        let progress = &job.progress;
        let all: u32 = job.owners.iter().map(|o| o.1).sum();
        table.add([
            job.name.clone(),
            match job.unreported {
                0 => job.phase.clone(),
                n => format!("{}, {n} of {all} shards missing", job.phase),
            },
            format!("{}/{}", progress.epoch.0 + 1, progress.epochs),
            format!("{}/{}", progress.done, progress.splits),
            job.leased.to_string(),
            job.closed.to_string(),
            progress.workers.to_string(),
            match (job.saved, job.saving) {
                (saved, Some((number, shards))) => {
                    let saved = saved.map_or("none".into(), |s| s.0.to_string());
                    format!("{saved} ({number}: {shards}/{all} shards)")
                }
                (Some((number, _)), None) => number.to_string(),
                (None, None) => "-".into(),
            },
            job.saved.map_or("-".into(), |(_, old)| age(old)),
        ]);
    }
    table.text()
}

fn tables(cluster: &ClusterStatus) -> String {
    let titles = [
        "job", "table", "rows", "memory", "admitted", "refused", "evicted",
    ];
    let mut table = Table::new(&titles, 2..7);
    for job in &cluster.jobs {
        for (name, of) in &job.progress.tables {
            table.add([
                job.name.clone(),
                name.clone(),
                of.rows.to_string(),
                bytes(of.bytes),
                of.admitted().to_string(),
                of.refused.to_string(),
                of.evicted.to_string(),
            ]);
        }
    }
    table.text()
}

fn amiss(server: &ServerStatus) -> Option<String> {
    let trouble = server.health.trouble.as_ref()?;
    Some(format!("{}: {trouble}", server.address))
}

/// A length of time with one unit: what people want to know of an age.
fn age(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..120 => format!("{s}s"),
        s @ 120..7200 => format!("{}m", s / 60),
        s @ 7200..172_800 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes}B"),
        10_240..10_485_760 => format!("{}KiB", bytes >> 10),
        10_485_760..10_737_418_240 => format!("{}MiB", bytes >> 20),
        _ => format!("{}GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use windlass_common::coordination::{Health, Progress};
    use windlass_common::id::{CheckpointId, Epoch, JobId, Lineage, MapEpoch, ServerId};
    use windlass_common::residency::Occupancy;

    use super::*;

    #[test]
    fn a_cluster_is_shown_with_what_is_amiss() {
        let server = |id, silent, trouble: Option<&str>| ServerStatus {
            server: ServerId(id),
            address: format!("http://s{id}:7070"),
            silent,
            health: Health {
                applied: 1200,
                duplicates: 3,
                log_bytes: Some(70 << 20),
                trouble: trouble.map(Into::into),
                ..Health::default()
            },
        };
        let filled = Occupancy {
            rows: 900,
            bytes: 30 << 20,
            refused: 77,
            evicted: 100,
        };
        let cluster = ClusterStatus {
            epoch: MapEpoch(4),
            servers: vec![
                server(0, None, None),
                server(1, Some(Duration::from_secs(7)), Some("the disk is full")),
            ],
            jobs: vec![JobStatus {
                job: JobId(1),
                name: "clicks".into(),
                phase: "training".into(),
                lineage: Lineage(1),
                owners: vec![(ServerId(0), 128), (ServerId(1), 128)],
                unreported: 128,
                leased: 3,
                progress: Progress {
                    epoch: Epoch(1),
                    epochs: 5,
                    done: 40,
                    splits: 100,
                    workers: 3,
                    rows: BTreeMap::from([("http://s0:7070".into(), 900)]),
                    tables: BTreeMap::from([("linear".into(), filled)]),
                    history: Vec::new(),
                },
                closed: 80,
                saved: Some((CheckpointId(6), Duration::from_secs(300))),
                saving: Some((CheckpointId(7), 12)),
            }],
        };
        let expected = "\
server          state      shards  rows  pushes  duplicates    log
http://s0:7070  up            128   900    1200           3  70MiB
http://s1:7070  silent 7s     128     0    1200           3  70MiB

job     state                                 epoch  splits  leased  closed  workers              checkpoint  age
clicks  training, 128 of 256 shards missing     2/5  40/100       3      80        3  6 (7: 12/256 shards)   5m

job     table   rows  memory  admitted  refused  evicted
clicks  linear   900   30MiB      1000       77      100

http://s1:7070: the disk is full
";
        let squeezed = |text: &str| -> Vec<String> {
            let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            text.lines().map(words).collect()
        };
        assert_eq!(squeezed(&status(&cluster)), squeezed(expected));
        let empty = status(&ClusterStatus::default());
        assert_eq!(empty, "no server has joined yet\n\nno jobs\n");
    }
}
