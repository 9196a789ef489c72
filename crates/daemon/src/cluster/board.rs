//! Where hosts say what their VMs want of their flash, and where all of that is read.

use super::Cluster;
use crate::system::seconds_since_1970;
use api::problem::ProblemKind;
use api::types::Problem;
use placement::limits::REPORT_VERSION;
use placement::{FleetReport, HostLoad, HostReport};
use std::time::Duration;
use store::{Key, Leased, StoreError, everything, keys};
use units::Bytes;
use units::errors::chain;

/// How long a report counts at least. A host of longer windows has three of them.
const COUNTS_FOR: Duration = Duration::from_mins(15);

/// This host's place for its reports.
pub(crate) struct LoadBoard {
    cluster: Cluster,
    bandwidth: Bytes,
    /// Once something was said.
    place: Option<Leased>,
}

impl LoadBoard {
    pub(super) fn new(cluster: Cluster, bandwidth: Bytes) -> Self {
        Self {
            cluster,
            bandwidth,
            place: None,
        }
    }

    /// What this host is called.
    pub(crate) fn here(&self) -> &str {
        &self.cluster.here
    }

    /// What a move's transfer gets in a second.
    pub(crate) fn bandwidth(&self) -> Bytes {
        self.bandwidth
    }

    /// Says this window's report. It counts for three windows, [`COUNTS_FOR`] at least.
    ///
    /// # Errors
    /// What the store says.
    pub(crate) async fn say(
        &mut self,
        report: &HostReport,
        window: Duration,
    ) -> Result<(), StoreError> {
        let invalid = |error: &dyn std::error::Error| StoreError::Invalid(chain(error));
        let value = serde_json::to_vec(report).map_err(|error| invalid(&error))?;
        let place = match &mut self.place {
            Some(place) => place,
            none => {
                let key = keys::load(&self.cluster.here).map_err(|error| invalid(&error))?;
                none.insert(Leased::new(key))
            }
        };
        let ttl = COUNTS_FOR.max(3 * window);
        // What is not there now is said again with the next window.
        let _is_there = place.say(&*self.cluster.store, value, ttl).await?;
        Ok(())
    }
}

/// The reports of all hosts, for a plan.
///
/// # Errors
/// If the store does not answer.
pub(super) async fn all(cluster: &Cluster) -> Result<FleetReport, Problem> {
    let loads = everything(&*cluster.store, &keys::LOADS.prefix()).await;
    let loads = loads.map_err(|error| {
        Problem::new(ProblemKind::Failed, chain(&error)).with_remedy(error.remedy())
    })?;
    let reports = loads.entries.iter();
    let hosts = reports.filter_map(|entry| read(&entry.key, &entry.value));
    Ok(FleetReport {
        version: REPORT_VERSION,
        at_s: seconds_since_1970(),
        hosts: hosts.collect(),
        under_way: Vec::new(),
        found: Vec::new(),
    })
}

/// A report, unless it is of another release, makes no sense, or names another host than its key does.
fn read(key: &Key, value: &[u8]) -> Option<HostReport> {
    let host = key.below(&keys::LOADS.prefix())?;
    match checked(host, value) {
        Ok(report) => Some(report),
        Err(why) => {
            tracing::warn!(host, why, "the load of a host does not count");
            None
        }
    }
}

fn checked(host: &str, value: &[u8]) -> Result<HostReport, String> {
    let report: HostReport = serde_json::from_slice(value).map_err(|error| chain(&error))?;
    if report.host != host {
        return Err(format!("it says that it is of '{}'", report.host));
    }
    let load = HostLoad::try_from(report.clone());
    load.map(|_| report).map_err(|error| chain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_counts_if_its_host_says_it_and_it_makes_sense() {
        let text = |host: &str, capacity: i64| {
            format!(
                r#"{{"version":1,"host":"{host}","capacity_bytes":{capacity},"free":{{"cpu_millis":1,"memory_bytes":1}},
                "hit_us":1.0,"miss_us":2.0,"bandwidth_bytes":1,"slowdown":0.1,"vms":[]}}"#
            )
        };
        assert!(checked("node-a", text("node-a", 4096).as_bytes()).is_ok());
        for wrong in [
            text("node-b", 4096),
            text("node-a", 0),
            text("node-a", -1),
            String::new(),
        ] {
            assert!(checked("node-a", wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
