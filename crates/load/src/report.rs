//! Figures under fio's JSON keys, so that one script reads both.
//!
//! What fio has and this has not (`slat_ns`, latency bins, device utilisation) is left out. There
//! is one time for each request, from its submission to the moment its completion was taken in,
//! and both `clat_ns` and `lat_ns` are it. It is fio's `lat`; fio's `clat` begins when the system
//! call of the submission has returned.

use crate::outcome::{JobOutcome, Outcome, Tally, Verified};
use crate::{Histogram, PERCENTILES, Settings};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use units::number::real;
use workload::Direction;

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Program and version.
    #[serde(rename = "hearth version")]
    pub version: String,
    /// Seconds since 1970 at the end.
    pub timestamp: u64,
    /// What was loaded.
    pub target: String,
    /// The jobs, or all as one.
    pub jobs: Vec<JobReport>,
}

/// A job's figures.
#[derive(Debug, Serialize)]
pub struct JobReport {
    /// Its name.
    pub jobname: String,
    /// The error number that ended it; 0 for none.
    pub error: i32,
    /// Seconds that it took.
    pub elapsed: u64,
    /// Reads.
    pub read: DirectionReport,
    /// Writes.
    pub write: DirectionReport,
    /// Trims.
    pub trim: DirectionReport,
    /// Syncs.
    pub sync: SyncReport,
    /// Milliseconds that it took.
    pub job_runtime: u64,
    /// Processor time in user mode, in percent of the time it took.
    pub usr_cpu: f64,
    /// Processor time in the kernel, in percent of the time it took.
    pub sys_cpu: f64,
    /// Switches of threads.
    pub ctx: u64,
    /// Page faults that read.
    pub majf: u64,
    /// Page faults that did not.
    pub minf: u64,
    /// What verification found, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyReport>,
}

/// Figures of a direction.
#[derive(Debug, Serialize)]
pub struct DirectionReport {
    /// Bytes moved.
    pub io_bytes: u64,
    /// The same in KiB.
    pub io_kbytes: u64,
    /// Bytes a second.
    pub bw_bytes: u64,
    /// The same in KiB.
    pub bw: u64,
    /// Requests a second.
    pub iops: f64,
    /// Milliseconds that it took.
    pub runtime: u64,
    /// Requests.
    pub total_ios: u64,
    /// Times of the requests.
    pub clat_ns: Times,
    /// The same.
    pub lat_ns: Times,
}

/// Figures of syncs.
#[derive(Debug, Serialize)]
pub struct SyncReport {
    /// How many.
    pub total_ios: u64,
    /// Their times.
    pub lat_ns: Times,
}

/// Times in nanoseconds.
#[derive(Debug, Serialize)]
pub struct Times {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub stddev: f64,
    /// How many.
    #[serde(rename = "N")]
    pub count: u64,
    /// Times by percent; none if there are no requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentile: Option<Percentiles>,
}

/// Times by percent, with keys as fio writes them (`"99.000000"`).
#[derive(Debug)]
pub struct Percentiles(pub Vec<(f64, u64)>);

impl Serialize for Percentiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (percent, nanos) in &self.0 {
            map.serialize_entry(&format!("{percent:.6}"), nanos)?;
        }
        map.end()
    }
}

/// What verification found.
#[derive(Debug, Serialize)]
pub struct VerifyReport {
    /// Blocks that were right.
    pub right: u64,
    /// Blocks that were wrong.
    pub wrong: u64,
    /// Blocks of which nothing was known.
    pub unknown: u64,
    /// The first wrong ones, in words.
    pub findings: Vec<String>,
}

impl Times {
    pub(crate) fn new(histogram: &Histogram) -> Self {
        let by_percent = |percent| (percent, histogram.percentile(percent));
        let percentile = || Percentiles(PERCENTILES.map(by_percent).to_vec());
        Self {
            min: histogram.least(),
            max: histogram.most(),
            mean: histogram.mean(),
            stddev: histogram.deviation(),
            count: histogram.count(),
            percentile: (histogram.count() > 0).then(percentile),
        }
    }
}

pub(crate) fn per_second(count: u64, elapsed_ns: u64) -> f64 {
    real(count) * 1e9 / real(elapsed_ns.max(1))
}

impl DirectionReport {
    fn new(tally: &Tally, elapsed_ns: u64) -> Self {
        let requests = tally.times.count();
        let bytes_second = units::number::count_near(per_second(tally.bytes, elapsed_ns));
        Self {
            io_bytes: tally.bytes,
            io_kbytes: tally.bytes / 1024,
            bw_bytes: bytes_second,
            bw: bytes_second / 1024,
            iops: per_second(requests, elapsed_ns),
            runtime: if requests > 0 {
                elapsed_ns / 1_000_000
            } else {
                0
            },
            total_ios: requests,
            clat_ns: Times::new(&tally.times),
            lat_ns: Times::new(&tally.times),
        }
    }
}

impl VerifyReport {
    fn new(verified: &Verified) -> Self {
        Self {
            right: verified.right,
            wrong: verified.wrong,
            unknown: verified.unknown,
            findings: verified.findings.iter().map(ToString::to_string).collect(),
        }
    }
}

impl JobReport {
    fn new(name: &str, job: &JobOutcome) -> Self {
        let elapsed_ns = job.elapsed_ns;
        let direction = |direction: Direction| {
            DirectionReport::new(&job.directions[direction.index()], elapsed_ns)
        };
        let percent = |nanos: u64| 100.0 * real(nanos) / real(elapsed_ns.max(1));
        Self {
            jobname: name.to_owned(),
            error: job.error.as_ref().map_or(0, crate::JobError::number),
            elapsed: elapsed_ns.div_ceil(1_000_000_000),
            read: direction(Direction::Read),
            write: direction(Direction::Write),
            trim: direction(Direction::Trim),
            sync: SyncReport {
                total_ios: job.syncs.times.count(),
                lat_ns: Times::new(&job.syncs.times),
            },
            job_runtime: elapsed_ns / 1_000_000,
            usr_cpu: percent(job.usage.user_ns),
            sys_cpu: percent(job.usage.system_ns),
            ctx: job.usage.switches,
            majf: job.usage.major_faults,
            minf: job.usage.minor_faults,
            verify: job.verified.as_ref().map(VerifyReport::new),
        }
    }
}

/// The report of an outcome: each job, or all as one.
pub fn report(settings: &Settings, outcome: &Outcome, timestamp: u64, version: &str) -> Report {
    let jobs = outcome.jobs.iter();
    Report {
        version: version.to_owned(),
        timestamp,
        target: settings.target.to_string(),
        jobs: jobs
            .map(|job| JobReport::new(&settings.name, job))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_fio_s() {
        let mut job = JobOutcome {
            elapsed_ns: 2_000_000_000,
            ..JobOutcome::default()
        };
        for _ in 0..1000 {
            job.directions[0].bytes += 4096;
            job.directions[0].times.record(50_000);
        }
        job.usage.user_ns = 500_000_000;
        let outcome = Outcome { jobs: vec![job] };
        let settings = crate::settings::tests::settings();
        let report = report(&settings, &outcome, 7, "hearth-1");
        let json = serde_json::to_value(&report).unwrap();
        let job = &json["jobs"][0];
        assert_eq!(job["jobname"], "test");
        assert_eq!(job["error"], 0);
        assert_eq!(job["read"]["iops"], 500.0);
        assert_eq!(job["read"]["bw_bytes"], 2_048_000);
        assert_eq!(job["read"]["bw"], 2000);
        assert_eq!(job["read"]["total_ios"], 1000);
        assert_eq!(job["read"]["runtime"], 2000);
        assert_eq!(job["read"]["clat_ns"]["percentile"]["99.000000"], 50_000);
        assert_eq!(job["read"]["clat_ns"]["percentile"]["99.950000"], 50_000);
        assert_eq!(job["read"]["lat_ns"]["N"], 1000);
        assert_eq!(job["usr_cpu"], 25.0);
        assert_eq!(job["write"]["iops"], 0.0);
        assert!(job["write"]["clat_ns"].get("percentile").is_none());
    }
}
