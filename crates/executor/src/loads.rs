//! The loads of all hosts as the store has them, with what moves and operators add: what plans are made of.

use crate::hosts::heard;
use crate::planned::Planned;
use crate::records::Recorded;
use crate::settings::Settings;
use placement::limits::REPORT_VERSION;
use placement::moving::Stage;
use placement::{FindingReport, FleetReport, HostLoad, HostReport, UnderWayReport, VmReport};
use std::collections::BTreeMap;
use store::{Everything, Key, Revision, Store, StoreError, everything, keys};
use units::errors::chain;
use units::{Duration, Instant};

/// Every host's report, with its revision.
pub(crate) type Loads = BTreeMap<String, (Revision, HostReport)>;

/// For how long a VM stays after a move of it was cancelled or rolled back: what was in the way is mostly there still.
const STAYS_FOR: Duration = Duration::from_secs(3600);

/// The reports of the hosts that are heard of. A report outlives its host by some windows.
///
/// # Errors
/// If the store does not answer.
pub(crate) async fn loads(store: &dyn Store) -> Result<Loads, StoreError> {
    let found = everything(store, &keys::LOADS.prefix()).await?;
    let (heard, _) = heard(store).await?;
    let mut loads = understood(&found);
    loads.retain(|host, _| heard.contains(host));
    Ok(loads)
}

fn understood(found: &Everything) -> Loads {
    let reports = found.entries.iter().filter_map(|entry| {
        let report = read(&entry.key, &entry.value)?;
        Some((report.host.clone(), (entry.revision, report)))
    });
    reports.collect()
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

/// The fleet that a plan is made of.
pub(crate) fn fleet(
    loads: &Loads,
    moves: &[Recorded],
    planned: &[(Revision, Planned)],
    settings: &Settings,
    now: Instant,
) -> FleetReport {
    let mut hosts: Vec<HostReport> = loads.values().map(|(_, report)| report.clone()).collect();
    let came = came(moves);
    for vm in hosts.iter_mut().flat_map(|host| &mut host.vms) {
        let is_pinned = settings.pins.iter().any(|pin| pin.as_str() == vm.vm);
        vm.pinned = vm.pinned || is_pinned;
        add_move(vm, &came);
    }
    let under_way = moves.iter().filter(|one| is_under_way(one, loads, now));
    let found = planned.iter().filter_map(|(_, planned)| {
        Some(FindingReport {
            host: planned.proposed.to.clone(),
            vm: planned.proposed.vm.clone(),
            at_s: planned.found_at_s?,
            compared: planned.found?,
        })
    });
    FleetReport {
        version: REPORT_VERSION,
        at_s: now.as_nanos() / 1_000_000_000,
        hosts,
        under_way: under_way.map(report_of).collect(),
        found: found.collect(),
    }
}

/// When each VM has come to its host, in seconds since 1970, as far as a record says.
fn came(moves: &[Recorded]) -> BTreeMap<&str, u64> {
    let done = moves.iter().map(|one| &one.record);
    let done = done.filter(|record| record.stage == Stage::Done);
    done.map(|record| (record.vm.as_str(), record.since.as_nanos() / 1_000_000_000))
        .collect()
}

/// A daemon that was restarted does not know any more when its VMs came; the record does.
fn add_move(vm: &mut VmReport, came: &BTreeMap<&str, u64>) {
    vm.moved_at_s = vm.moved_at_s.max(came.get(vm.vm.as_str()).copied());
}

/// A move that is done counts until both hosts have said their loads without and with the VM, one that was rolled back for
/// [`STAYS_FOR`].
fn is_under_way(of: &Recorded, loads: &Loads, now: Instant) -> bool {
    let has_said = |host: &str| match loads.get(host) {
        Some((revision, _)) => *revision > of.revision,
        // It is gone, and nothing is planned with it.
        None => true,
    };
    match of.record.stage {
        Stage::RolledBack(_) => now.since(of.record.since) < STAYS_FOR,
        Stage::Done => !has_said(of.record.from.as_str()) || !has_said(of.record.to.as_str()),
        _ => true,
    }
}

fn report_of(of: &Recorded) -> UnderWayReport {
    let record = &of.record;
    UnderWayReport {
        vm: record.vm.clone(),
        from: record.from.clone(),
        to: record.to.clone(),
        failed: matches!(record.stage, Stage::Failed(_) | Stage::RolledBack(_)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::recorded;
    use placement::moving::Cause;

    fn text(host: &str, capacity: i64) -> String {
        format!(
            r#"{{"version":1,"host":"{host}","capacity_bytes":{capacity},"free":{{"cpu_millis":1,"memory_bytes":1}},
            "hit_us":1.0,"miss_us":2.0,"bandwidth_bytes":1,"slowdown":0.1,
            "vms":[{{"vm":"v","rwss_bytes":1,"curve":[],"reads_per_second":0.0}}]}}"#
        )
    }

    #[test]
    fn a_load_counts_if_its_host_says_it_and_it_makes_sense() {
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

    fn said(host: &str, revision: u64) -> (String, (Revision, HostReport)) {
        let report = checked(host, text(host, 4096).as_bytes()).unwrap();
        (host.to_owned(), (Revision(revision), report))
    }

    #[test]
    fn a_move_that_is_done_counts_until_both_hosts_have_said_their_loads_again() {
        let mut done = recorded("w", ("a", "b"), Stage::Done);
        done.revision = Revision(10);
        let loads = |a, b| Loads::from([said("a", a), said("b", b)]);
        let counts = |of: &Recorded, loads: &Loads, seconds| {
            is_under_way(of, loads, placement::instant_of_seconds(seconds))
        };
        assert!(counts(&done, &loads(11, 9), 0));
        assert!(counts(&done, &loads(9, 11), 0));
        assert!(!counts(&done, &loads(11, 12), 0));
        done.record.stage = Stage::RolledBack(Cause::Late);
        assert!(counts(&done, &loads(11, 12), 3599));
        assert!(!counts(&done, &loads(1, 1), 3600));
        assert!(report_of(&done).failed);
        done.record.stage = Stage::Failed(Cause::Late);
        assert!(counts(&done, &loads(11, 12), 10_000));
        assert!(report_of(&done).failed);
    }

    #[test]
    fn pins_and_moves_are_added_to_what_hosts_say() {
        let loads = Loads::from([said("a", 1)]);
        let mut done = recorded("v", ("b", "a"), Stage::Done);
        done.record.since = placement::instant_of_seconds(70);
        let pins = [crate::testkit::name("v")].into();
        let settings = Settings {
            pins,
            ..Settings::default()
        };
        let now = placement::instant_of_seconds(100);
        let fleet = fleet(&loads, &[done], &[], &settings, now);
        let vm = &fleet.hosts[0].vms[0];
        assert!(vm.pinned);
        assert_eq!(vm.moved_at_s, Some(70));
        assert_eq!(fleet.at_s, 100);
    }
}
