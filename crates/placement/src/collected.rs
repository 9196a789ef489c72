//! The loads of a fleet at one time, as a file has them.

use crate::fleet::{Fleet, FleetError, UnderWay};
use crate::found::{Compared, Finding};
use crate::limits::REPORT_VERSION;
use crate::load::{HostLoad, HostReport, ReportError, instant_of_seconds};
use crate::name::Name;
use serde::{Deserialize, Serialize};
use units::Instant;

/// The loads of all hosts of a fleet, with what is under way and what moves found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetReport {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// When it was collected, in seconds since the Unix epoch.
    pub at_s: u64,
    /// Each host's load.
    pub hosts: Vec<HostReport>,
    /// Moves under way.
    #[serde(default)]
    pub under_way: Vec<UnderWayReport>,
    /// What earlier moves found.
    #[serde(default)]
    pub found: Vec<FindingReport>,
}

/// A move under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnderWayReport {
    /// The VM.
    pub vm: Name,
    /// Where it was.
    pub from: Name,
    /// Where it goes.
    pub to: Name,
    /// It has failed, and nobody has cleared it.
    #[serde(default)]
    pub failed: bool,
}

/// What a move found at its target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindingReport {
    /// The target.
    pub host: Name,
    /// The VM.
    pub vm: Name,
    /// When, in seconds since the Unix epoch.
    pub at_s: u64,
    /// The figures.
    #[serde(flatten)]
    pub compared: Compared,
}

/// Why a file is not a fleet.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum FleetReportError {
    /// A host's report is refused, or the file's version.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The hosts do not fit together.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// A finding has a number that is none.
    #[error("what was found of VM {0}: hits are numbers from 0 to 1")]
    Found(Name),
}

impl FleetReport {
    /// When it was collected.
    pub const fn at(&self) -> Instant {
        instant_of_seconds(self.at_s)
    }

    /// The fleet, checked.
    ///
    /// # Errors
    /// If a report is refused, or a host is there twice.
    pub fn into_fleet(self) -> Result<Fleet, FleetReportError> {
        if self.version != REPORT_VERSION {
            return Err(ReportError::Version(self.version).into());
        }
        let hosts = self.hosts.into_iter().map(HostLoad::try_from);
        let hosts = hosts.collect::<Result<_, _>>()?;
        let under_way = self.under_way.into_iter().map(|one| UnderWay {
            vm: one.vm,
            from: one.from,
            to: one.to,
            has_failed: one.failed,
        });
        let is_ratio = |hits: f64| (0.0..=1.0).contains(&hits);
        let mut found = Vec::with_capacity(self.found.len());
        for one in self.found {
            let compared = one.compared;
            if !is_ratio(compared.hits_expected) || !compared.hits_found.is_none_or(is_ratio) {
                return Err(FleetReportError::Found(one.vm));
            }
            found.push(Finding {
                host: one.host,
                vm: one.vm,
                at: instant_of_seconds(one.at_s),
                compared,
            });
        }
        Ok(Fleet::new(hosts, under_way.collect(), found)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{host, vm};

    #[test]
    fn a_file_is_a_fleet_or_says_why_it_is_none() {
        let report = FleetReport {
            version: REPORT_VERSION,
            at_s: 7_200,
            hosts: vec![host("a", 100, &[vm("v", 10)])],
            under_way: Vec::new(),
            found: Vec::new(),
        };
        let text = serde_json::to_string(&report).unwrap();
        let read: FleetReport = serde_json::from_str(&text).unwrap();
        assert_eq!(read.into_fleet().unwrap().hosts().len(), 1);
        let twice = FleetReport {
            hosts: vec![report.hosts[0].clone(); 2],
            ..report.clone()
        };
        let error = twice.into_fleet().unwrap_err().to_string();
        assert!(
            error.starts_with("the load of host a is there twice"),
            "{error}"
        );
        let newer = FleetReport {
            version: 2,
            ..report
        };
        assert!(
            newer
                .into_fleet()
                .unwrap_err()
                .to_string()
                .contains("version 2")
        );
    }
}
