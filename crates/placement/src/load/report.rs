//! A host's load as it is published: plain numbers, checked when they become a [`HostLoad`].

use super::{Costs, HostLoad, VmLoad, instant_of_seconds};
use crate::curve::{Curve, CurveError};
use crate::limits::{
    LATENCY_US_MAX, ORIGINS_MAX, READS_PER_SECOND_MAX, REPORT_VERSION, SIZE_MAX, VMS_MAX,
    WINDOWS_MAX,
};
use crate::name::{Name, NameError};
use serde::{Deserialize, Serialize};
use units::Bytes;

/// What a host publishes of one window. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostReport {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// The host's name.
    pub host: String,
    /// The size of its flash.
    pub capacity_bytes: u64,
    /// The part of the flash that is held back for surges.
    #[serde(default = "reserve")]
    pub reserve: f64,
    /// Demand of the windows before this one, the newest first.
    #[serde(default)]
    pub demand_before_bytes: Vec<u64>,
    /// What it has left for VMs that come.
    pub free: Resources,
    /// The origins that it reaches. A VM without origins runs anywhere.
    #[serde(default)]
    pub origins: Vec<String>,
    /// Mean latency of a read from flash, in microseconds.
    pub hit_us: f64,
    /// Mean latency of a read from the origin, in microseconds.
    pub miss_us: f64,
    /// What a move's transfer gets, bytes a second.
    pub bandwidth_bytes: u64,
    /// By what part the latency of the neighbours rises during a transfer, as last measured.
    pub slowdown: f64,
    /// Its VMs.
    pub vms: Vec<VmReport>,
}

/// What a host publishes of one of its VMs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmReport {
    /// The VM's name.
    pub vm: String,
    /// Predicted reuse working set of the next window.
    pub rwss_bytes: u64,
    /// What of its cache the origin lacks.
    #[serde(default)]
    pub dirty_bytes: u64,
    /// What it takes of a host.
    #[serde(default)]
    pub needs: Resources,
    /// Sizes in bytes with their miss ratios, growing, at most 16.
    pub curve: Vec<(u64, f64)>,
    /// Its reads in a second.
    pub reads_per_second: f64,
    /// The part of its reads that the flash answered in this window.
    #[serde(default)]
    pub hits: Option<f64>,
    /// When it last came from another host, in seconds since the Unix epoch.
    #[serde(default)]
    pub moved_at_s: Option<u64>,
    /// It must not be moved.
    #[serde(default)]
    pub pinned: bool,
    /// VMs of one group run on different hosts.
    #[serde(default)]
    pub group: Option<String>,
    /// The origins that its disks are on.
    #[serde(default)]
    pub origins: Vec<String>,
}

/// Processors and memory, free at a host or needed by a VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Thousandths of a processor.
    pub cpu_millis: u64,
    /// Memory.
    pub memory_bytes: u64,
}

/// Why a host's report is not believed.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ReportError {
    /// From another release.
    #[error(
        "a load of version {0}; this release reads version {REPORT_VERSION}: update the older of the two"
    )]
    Version(u32),
    /// A name is none.
    #[error("{of}: {source}")]
    Name {
        /// Whose.
        of: String,
        /// Why.
        source: NameError,
    },
    /// A number is out of its range.
    #[error("{of}: {field} is {value}: write {range}")]
    Number {
        /// Whose.
        of: String,
        /// Which.
        field: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        range: &'static str,
    },
    /// A curve is none.
    #[error("VM {vm}: {source}")]
    Curve {
        /// Whose.
        vm: String,
        /// Why.
        source: CurveError,
    },
    /// A list is too long.
    #[error("{of}: {count} {what}, at most {limit}")]
    TooMany {
        /// Whose.
        of: String,
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// One VM is listed twice.
    #[error("host {host} lists the VM {vm} twice: leave one out")]
    VmTwice {
        /// The host.
        host: String,
        /// The VM.
        vm: String,
    },
}

const fn reserve() -> f64 {
    0.1
}

impl TryFrom<HostReport> for HostLoad {
    type Error = ReportError;

    fn try_from(report: HostReport) -> Result<Self, ReportError> {
        if report.version != REPORT_VERSION {
            return Err(ReportError::Version(report.version));
        }
        let host = name(&report.host, || "a host".to_owned())?;
        let of = format!("host {host}");
        count(&of, "VMs", report.vms.len(), VMS_MAX)?;
        count(
            &of,
            "windows before",
            report.demand_before_bytes.len(),
            WINDOWS_MAX,
        )?;
        let costs = Costs {
            hit_us: number(&of, "hit_us", report.hit_us, LATENCY_US_MAX)?,
            miss_us: number(&of, "miss_us", report.miss_us, LATENCY_US_MAX)?,
            bandwidth: positive(&of, "bandwidth_bytes", report.bandwidth_bytes)?,
            slowdown: number(&of, "slowdown", report.slowdown, 10.0)?,
        };
        let reserve = number(&of, "reserve", report.reserve, 0.9)?;
        // A window's demand is a sum over VMs, so it may be larger than any one size.
        let before = report.demand_before_bytes.iter();
        let before = before.map(|bytes| Bytes::new(*bytes)).collect();
        let mut vms: Vec<VmLoad> = report.vms.iter().map(checked).collect::<Result<_, _>>()?;
        vms.sort_by(|one, other| one.vm.cmp(&other.vm));
        if let Some(pair) = vms.windows(2).find(|pair| pair[0].vm == pair[1].vm) {
            return Err(ReportError::VmTwice {
                host: host.to_string(),
                vm: pair[0].vm.to_string(),
            });
        }
        Ok(Self {
            capacity: positive(&of, "capacity_bytes", report.capacity_bytes)?,
            origins: origins(&of, &report.origins)?,
            free: report.free,
            host,
            reserve,
            before,
            costs,
            vms,
        })
    }
}

fn checked(report: &VmReport) -> Result<VmLoad, ReportError> {
    let vm = name(&report.vm, || "a VM".to_owned())?;
    let of = format!("VM {vm}");
    let group = report
        .group
        .as_deref()
        .map(|group| name(group, || format!("group of {of}")));
    let curve = Curve::new(&report.curve).map_err(|source| ReportError::Curve {
        vm: vm.to_string(),
        source,
    })?;
    let hits = report
        .hits
        .map(|hits| number(&of, "hits", hits, 1.0))
        .transpose()?;
    Ok(VmLoad {
        rwss: size(&of, "rwss_bytes", report.rwss_bytes)?,
        dirty: size(&of, "dirty_bytes", report.dirty_bytes)?,
        reads_per_second: number(
            &of,
            "reads_per_second",
            report.reads_per_second,
            READS_PER_SECOND_MAX,
        )?,
        origins: origins(&of, &report.origins)?,
        moved: report.moved_at_s.map(instant_of_seconds),
        pinned: report.pinned,
        needs: report.needs,
        group: group.transpose()?,
        hits,
        curve,
        vm,
    })
}

fn name(text: &str, of: impl Fn() -> String) -> Result<Name, ReportError> {
    Name::new(text).map_err(|source| ReportError::Name { of: of(), source })
}

fn origins(of: &str, texts: &[String]) -> Result<Vec<Name>, ReportError> {
    count(of, "origins", texts.len(), ORIGINS_MAX)?;
    let names = texts
        .iter()
        .map(|text| name(text, || format!("an origin of {of}")));
    let mut names: Vec<Name> = names.collect::<Result<_, _>>()?;
    names.sort();
    names.dedup();
    Ok(names)
}

fn count(of: &str, what: &'static str, count: usize, limit: usize) -> Result<(), ReportError> {
    if count <= limit {
        return Ok(());
    }
    Err(ReportError::TooMany {
        of: of.to_owned(),
        what,
        count,
        limit,
    })
}

fn size(of: &str, field: &'static str, bytes: u64) -> Result<Bytes, ReportError> {
    if bytes <= SIZE_MAX.get() {
        return Ok(Bytes::new(bytes));
    }
    Err(out_of_range(
        of,
        field,
        &bytes.to_string(),
        "at most 1PiB, in bytes",
    ))
}

fn positive(of: &str, field: &'static str, bytes: u64) -> Result<Bytes, ReportError> {
    let bytes = size(of, field, bytes)?;
    if !bytes.is_zero() {
        return Ok(bytes);
    }
    Err(out_of_range(of, field, "0", "a size above zero"))
}

/// A number from 0 to `limit`. What is not a number is in no range.
fn number(of: &str, field: &'static str, value: f64, limit: f64) -> Result<f64, ReportError> {
    if (0.0..=limit).contains(&value) {
        return Ok(value);
    }
    let range = match field {
        "hits" => "a number from 0 to 1",
        "reserve" => "a number from 0 to 0.9",
        "slowdown" => "a part from 0 to 10",
        "reads_per_second" => "a number from 0 to 1e9",
        _ => "microseconds from 0 to 1e7",
    };
    Err(out_of_range(of, field, &value.to_string(), range))
}

fn out_of_range(of: &str, field: &'static str, value: &str, range: &'static str) -> ReportError {
    ReportError::Number {
        of: of.to_owned(),
        field,
        value: value.to_owned(),
        range,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{host, vm};

    fn refusal(change: impl FnOnce(&mut HostReport)) -> String {
        let mut report = host("a", 100, &[vm("v", 10)]);
        change(&mut report);
        HostLoad::try_from(report).unwrap_err().to_string()
    }

    #[test]
    fn bad_input_is_refused_with_its_place_and_a_remedy() {
        let text = refusal(|host| host.version = 2);
        assert!(text.contains("this release reads version 1"), "{text}");
        let text = refusal(|host| host.host = String::new());
        assert_eq!(text, "a host: a name is empty: give it at least one letter");
        let text = refusal(|host| host.capacity_bytes = 0);
        assert_eq!(text, "host a: capacity_bytes is 0: write a size above zero");
        let text = refusal(|host| host.miss_us = f64::NAN);
        assert!(text.starts_with("host a: miss_us is NaN"), "{text}");
        let text = refusal(|host| host.vms[0].rwss_bytes = u64::MAX);
        assert!(text.starts_with("VM v: rwss_bytes is 1844"), "{text}");
        let text = refusal(|host| host.vms[0].reads_per_second = f64::INFINITY);
        assert!(text.contains("reads_per_second is inf"), "{text}");
        let text = refusal(|host| host.vms[0].hits = Some(-0.1));
        assert!(text.contains("hits is -0.1"), "{text}");
        let text = refusal(|host| host.vms[0].curve = vec![(1, 0.5)]);
        assert!(text.starts_with("VM v: a size of 1 bytes"), "{text}");
        let text = refusal(|host| host.vms.push(vm("v", 1)));
        assert_eq!(text, "host a lists the VM v twice: leave one out");
        let text = refusal(|host| host.vms = vec![vm("v", 1); VMS_MAX + 1]);
        assert_eq!(text, "host a: 1025 VMs, at most 1024");
    }

    #[test]
    fn a_report_is_read_as_it_is_written() {
        let report = host("a", 100, &[vm("v", 10), vm("w", 20)]);
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<HostReport>(&text).unwrap(), report);
        let unknown = text.replacen("\"host\"", "\"hots\":1,\"host\"", 1);
        let error = serde_json::from_str::<HostReport>(&unknown).unwrap_err();
        assert!(error.to_string().contains("unknown field `hots`"));
    }

    #[test]
    fn sums_of_the_largest_sizes_fit() {
        let mut report = host("a", 100, &[]);
        for number in 0..VMS_MAX {
            let mut vm = vm(&format!("v{number}"), 0);
            vm.rwss_bytes = SIZE_MAX.get();
            report.vms.push(vm);
        }
        let load = HostLoad::try_from(report).unwrap();
        assert_eq!(load.demand().get(), SIZE_MAX.get() * 1024);
    }
}
