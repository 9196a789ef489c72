//! A replay's figures, under fio's JSON keys where fio has them.

use super::{Answered, Kind, ReplayOutcome, ReplaySettings};
use crate::report::{Times, per_second};
use serde::Serialize;
use units::number::{count_near, real};

/// What `--json` prints of a replay.
#[derive(Debug, Serialize)]
pub struct ReplayReport {
    /// Program and version.
    #[serde(rename = "hearth version")]
    pub version: String,
    /// Seconds since 1970 at the end.
    pub timestamp: u64,
    /// What was loaded.
    pub target: String,
    /// How fast the trace's clock went: a number of times, or `max`.
    pub speed: String,
    /// Requests that were in flight at most.
    pub iodepth: u64,
    /// Requests of the trace that were begun.
    pub begun_requests: u64,
    /// Those of them that began more than a millisecond after they were due.
    pub late_requests: u64,
    /// How long after they were due those were begun.
    pub late_ns: Times,
    /// Requests that the target knows none of the kind of.
    pub unknown_requests: u64,
    /// The error number that ended it; 0 for none.
    pub error: i32,
    /// Milliseconds that it took.
    pub runtime: u64,
    /// Processor time in user mode, in percent of the time it took.
    pub usr_cpu: f64,
    /// Processor time in the kernel, in percent of the time it took.
    pub sys_cpu: f64,
    /// Reads.
    pub read: KindReport,
    /// Writes.
    pub write: KindReport,
    /// Flushes.
    pub sync: KindReport,
    /// Discards.
    pub trim: KindReport,
    /// Write-zeroes.
    pub write_zeroes: KindReport,
}

/// Requests of one kind that were answered.
#[derive(Debug, Serialize)]
pub struct KindReport {
    /// Requests.
    pub total_ios: u64,
    /// Their bytes.
    pub io_bytes: u64,
    /// Bytes a second.
    pub bw_bytes: u64,
    /// Requests a second.
    pub iops: f64,
    /// From the time each was due to its answer.
    pub lat_ns: Times,
    /// From the submission of each to its answer.
    pub clat_ns: Times,
}

impl KindReport {
    fn new(answered: &Answered, elapsed_ns: u64) -> Self {
        let requests = answered.latency.count();
        Self {
            total_ios: requests,
            io_bytes: answered.bytes,
            bw_bytes: count_near(per_second(answered.bytes, elapsed_ns)),
            iops: per_second(requests, elapsed_ns),
            lat_ns: Times::new(&answered.latency),
            clat_ns: Times::new(&answered.service),
        }
    }
}

/// The report of a replay.
pub fn replay_report(
    settings: &ReplaySettings,
    outcome: &ReplayOutcome,
    timestamp: u64,
    version: &str,
) -> ReplayReport {
    let elapsed_ns = outcome.elapsed_ns;
    let kind = |kind| KindReport::new(outcome.of(kind), elapsed_ns);
    let percent = |nanos: u64| 100.0 * real(nanos) / real(elapsed_ns.max(1));
    ReplayReport {
        version: version.to_owned(),
        timestamp,
        target: settings.target.to_string(),
        speed: settings.speed.to_string(),
        iodepth: settings.iodepth as u64,
        begun_requests: outcome.begun_requests,
        late_requests: outcome.late_requests,
        late_ns: Times::new(&outcome.lateness),
        unknown_requests: outcome.unknown_requests,
        error: outcome.error.as_ref().map_or(0, crate::JobError::number),
        runtime: elapsed_ns / 1_000_000,
        usr_cpu: percent(outcome.usage.user_ns),
        sys_cpu: percent(outcome.usage.system_ns),
        read: kind(Kind::Read),
        write: kind(Kind::Write),
        sync: kind(Kind::Flush),
        trim: kind(Kind::Discard),
        write_zeroes: kind(Kind::WriteZeroes),
    }
}
