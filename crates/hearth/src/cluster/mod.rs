//! `hearth cluster`: all hosts and disks of the cluster that a host is in, and what holds for all of them.

pub mod args;
mod settings;

use crate::terminal::exit::CliError;
use crate::terminal::{Side, Table, quantity, shown};
use api::client::{Client, Method};
use api::cluster::{ClusterDisk, ClusterStatus};
use args::{Cluster, What};
use executor::Settings;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// What stands where nobody is.
const NOBODY: &str = "-";

/// Does what was asked, and returns what to print.
pub(crate) async fn run(client: &Client, json: bool, of: &Cluster) -> Result<Vec<u8>, CliError> {
    let path = "/v1/cluster/settings";
    match &of.what {
        What::Status => {
            let status: ClusterStatus = client.get("/v1/cluster").await?;
            shown(json, &status, write)
        }
        What::Settings => {
            let found: Settings = client.get(path).await?;
            shown(json, &found, settings::write)
        }
        What::Set(set) => {
            let changed: Settings = client
                .send(Method::POST, path, Some(&settings::change(set)?))
                .await?;
            shown(json, &changed, settings::write)
        }
    }
}

/// Writes the cluster.
fn write(out: &mut String, status: &ClusterStatus) -> fmt::Result {
    let ClusterStatus {
        cluster,
        here,
        store,
        hosts,
        disks,
    } = status;
    writeln!(out, "cluster     {cluster}, store {}", store.kind)?;
    writeln!(out, "here        {here}")?;
    if let Some(problem) = &store.problem {
        writeln!(out, "problem     {problem}")?;
        if let Some(remedy) = &store.remedy {
            writeln!(out, "  try       {remedy}")?;
        }
        match store.age_seconds {
            Some(age) => writeln!(out, "seen        {} ago", quantity::time(age))?,
            None => return writeln!(out, "seen        never: the store has not answered yet"),
        }
    }
    let has = |host: &str| {
        let of_host = |disk: &&ClusterDisk| disk.host.as_deref() == Some(host);
        disks.iter().filter(of_host).count()
    };
    writeln!(out)?;
    let mut table = Table::new(&[
        ("host", Side::Left),
        ("version", Side::Left),
        ("flash", Side::Right),
        ("has", Side::Right),
        ("lists", Side::Right),
    ]);
    for host in hosts {
        table.row(vec![
            host.name.clone(),
            host.says.version.clone(),
            quantity::bytes(host.says.flash_bytes),
            has(&host.name).to_string(),
            host.says.disks.len().to_string(),
        ]);
    }
    for (silent, count) in silent(status) {
        table.row(vec![
            silent.to_owned(),
            "not heard of".to_owned(),
            NOBODY.to_owned(),
            count.to_string(),
            NOBODY.to_owned(),
        ]);
    }
    write!(out, "{table}")?;
    if disks.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    write!(out, "{}", disk_table(disks))
}

fn disk_table(disks: &[ClusterDisk]) -> Table {
    let mut table = Table::new(&[
        ("disk", Side::Left),
        ("vm", Side::Left),
        ("at", Side::Left),
        ("epoch", Side::Right),
        ("listed by", Side::Left),
    ]);
    let mut disks: Vec<_> = disks.iter().collect();
    disks.sort_by(|one, other| one.name.cmp(&other.name));
    for disk in disks {
        let epoch = disk.epoch.map(|epoch| epoch.to_string());
        let at = disk.host.as_deref().unwrap_or(NOBODY);
        let at = match &disk.may_go_to {
            Some(next) => format!("{at}, may go to {next}"),
            None => at.to_owned(),
        };
        table.row(vec![
            disk.name.clone(),
            disk.vm.clone(),
            at,
            epoch.unwrap_or_else(|| NOBODY.to_owned()),
            disk.lists.join(", "),
        ]);
    }
    table
}

/// Hosts that have disks and are not heard of, with how many they have.
fn silent(status: &ClusterStatus) -> BTreeMap<&str, usize> {
    let mut silent = BTreeMap::new();
    for host in status.disks.iter().filter_map(|disk| disk.host.as_deref()) {
        if status.hosts.iter().all(|heard| heard.name != host) {
            *silent.entry(host).or_default() += 1;
        }
    }
    silent
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::cluster::{ClusterHost, HostSays, StoreState};

    fn disk(name: &str, host: Option<&str>, epoch: Option<u64>) -> ClusterDisk {
        ClusterDisk {
            id: name.to_owned(),
            name: name.to_owned(),
            vm: "vm".to_owned(),
            host: host.map(str::to_owned),
            lists: vec!["node-a".to_owned()],
            epoch,
            ..ClusterDisk::default()
        }
    }

    #[test]
    fn a_host_that_is_not_heard_of_has_its_disks() {
        let mut status = ClusterStatus {
            cluster: "main".to_owned(),
            here: "node-a".to_owned(),
            store: StoreState {
                kind: "etcd".to_owned(),
                answers: true,
                problem: None,
                remedy: None,
                age_seconds: Some(0.0),
            },
            hosts: vec![ClusterHost {
                name: "node-a".to_owned(),
                says: HostSays {
                    version: "0.1.0".to_owned(),
                    flash_bytes: 1 << 30,
                    disks: Vec::new(),
                },
            }],
            disks: vec![
                disk("web", Some("node-a"), None),
                disk("db", Some("node-b"), Some(7)),
                disk("nobody", None, Some(2)),
            ],
        };
        let mut text = String::new();
        write(&mut text, &status).unwrap();
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().collect::<Vec<_>>()
        };
        assert_eq!(line("node-a"), ["node-a", "0.1.0", "1.00GiB", "1", "0"]);
        assert_eq!(
            line("node-b"),
            ["node-b", "not", "heard", "of", "-", "1", "-"]
        );
        assert_eq!(line("db"), ["db", "vm", "node-b", "7", "node-a"]);
        assert_eq!(line("nobody"), ["nobody", "vm", "-", "2", "node-a"]);

        status.store.problem = Some("no answer".to_owned());
        status.store.age_seconds = None;
        let mut text = String::new();
        write(&mut text, &status).unwrap();
        assert!(
            text.ends_with("never: the store has not answered yet\n"),
            "{text}"
        );
    }
}
