//! What a run answers.

use crate::columns::{self, Value};
use crate::counters::Counters;
use crate::number::{ratio, real};
use crate::policy::Policy;
use crate::series::Series;
use hdrhistogram::Histogram;
use policy::admission::Refusals;
use serde::ser::{Serialize, SerializeMap, Serializer};
use trace::Volume;
use units::Bytes;

/// Everything about one run: a policy at a size over a trace.
///
/// As JSON it is an object with the keys of [`columns::COLUMNS`], then `volumes`, and `series` if samples
/// were asked for.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The trace, as it was given.
    pub trace: String,
    /// The policy, as it was given.
    pub policy: String,
    /// The admission in front of it, as it was given.
    pub admission: String,
    /// What divided the cache among VMs; `none` if nothing did, or the policy by itself.
    pub allocation: String,
    /// Which blocks were worth a frame of the memory in front; `none` without any.
    pub ram_policy: String,
    /// Frames of the memory in front.
    pub ram_blocks: u32,
    /// The size, as it was given.
    pub size: String,
    /// The size in blocks.
    pub size_blocks: u32,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// What writes do.
    pub write_policy: &'static str,
    /// What writes do to blocks that are not in the cache.
    pub write_miss: &'static str,
    /// Distinct blocks of the trace, whatever part of it warmed the cache.
    pub footprint_blocks: u32,
    /// What was counted.
    pub counters: Counters,
    /// The same for each volume, without reclaim, descriptors and destaging, which no volume asked for.
    pub volumes: Vec<VolumeResult>,
    /// What each VM had of it, if the cache was divided among VMs.
    pub vms: Vec<VmResult>,
    /// Accesses whose blocks admission kept out, by reason; the warm-up counts too.
    pub refused: Refusals,
    /// Memory of admission at the end, staged bytes included.
    pub admission_memory: Bytes,
    /// How full the cache was.
    pub used: UsedBlocks,
    /// How long requests took, if devices were modelled.
    pub latency: Option<LatencyResult>,
    /// Samples over time, if asked for.
    pub series: Option<Series>,
}

/// How full a cache was.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsedBlocks {
    /// Mean over the accesses.
    pub mean: f64,
    /// The most.
    pub peak: u32,
    /// At the end.
    pub end: u32,
    /// Dirty ones at the end.
    pub dirty_end: u32,
}

/// What was counted for one volume.
#[derive(Clone, Debug)]
pub struct VolumeResult {
    /// Which.
    pub volume: Volume,
    /// What.
    pub counters: Counters,
}

/// What a VM had of a cache that was divided, and what was counted for it.
#[derive(Clone, Debug)]
pub struct VmResult {
    /// Its name.
    pub vm: String,
    /// What was counted for its requests, those to base images too.
    pub counters: Counters,
    /// Blocks that it might hold, at the end.
    pub share_blocks: u64,
    /// Blocks that it held, at the end.
    pub held_blocks: u64,
    /// Blocks that it was expected to want, where that was asked.
    pub demand_blocks: Option<u64>,
}

/// How long requests took on the modelled devices.
#[derive(Clone, Debug)]
pub struct LatencyResult {
    /// Reads and writes.
    pub all: Quantiles,
    /// Reads.
    pub reads: Quantiles,
    /// Writes.
    pub writes: Quantiles,
    /// Reads and writes answered a second.
    pub requests_per_s: f64,
    /// Bytes of them.
    pub bytes_per_s: f64,
    /// The distribution of all: (microseconds, part of the requests that took no longer).
    pub cumulative: Vec<(f64, f64)>,
}

/// A distribution of times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantiles {
    /// Mean.
    pub mean_us: f64,
    /// Half take no longer.
    pub p50_us: f64,
    /// 90 % take no longer.
    pub p90_us: f64,
    /// 95 % take no longer.
    pub p95_us: f64,
    /// 99 % take no longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Quantiles {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| real(histogram.value_at_quantile(quantile)) / 1000.0;
        Self {
            mean_us: histogram.mean() / 1000.0,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            max_us: real(histogram.max()) / 1000.0,
        }
    }
}

impl LatencyResult {
    pub(crate) fn of(times: &crate::latency::Times) -> Self {
        let mut all = times.reads.clone();
        // Both count nanoseconds with three digits and grow as needed, so that adding cannot fail.
        let added = all.add(&times.writes);
        assert!(added.is_ok(), "histograms of one shape can be added");
        let nanos = times.ended.saturating_sub(times.began.unwrap_or(0));
        let per_second = |count: u64| ratio(count, nanos) * 1e9;
        let mut seen = 0;
        let cumulative = all
            .iter_recorded()
            .map(|step| {
                seen += step.count_since_last_iteration();
                (
                    real(step.value_iterated_to()) / 1000.0,
                    ratio(seen, all.len()),
                )
            })
            .collect();
        Self {
            reads: Quantiles::of(&times.reads),
            writes: Quantiles::of(&times.writes),
            requests_per_s: per_second(all.len()),
            bytes_per_s: per_second(times.bytes),
            cumulative: thinned(cumulative),
            all: Quantiles::of(&all),
        }
    }
}

/// The points of a cumulative distribution that a picture shows: each is a step of at least a 1/400.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let last = points.last().copied();
    let mut shown: Vec<(f64, f64)> = Vec::new();
    for point in points {
        let is_step = shown.last().is_none_or(|shown| point.1 - shown.1 >= 0.0025);
        if is_step || last == Some(point) {
            shown.push(point);
        }
    }
    shown
}

impl RunResult {
    /// Hits by accesses.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.counters.hits(), self.counters.accesses())
    }

    /// The policy, with the admission in front of it unless that lets everything in, and what divides it.
    /// `daemon` names all three. With memory in front that comes first.
    pub fn method(&self) -> String {
        if self.ram_policy == "none" {
            return self.cache_method();
        }
        let (policy, blocks) = (&self.ram_policy, self.ram_blocks);
        format!("{policy} ({blocks}blk RAM) + {}", self.cache_method())
    }

    fn cache_method(&self) -> String {
        if self.policy == Policy::Daemon.to_string() {
            return self.policy.clone();
        }
        let mut method = match self.admission.as_str() {
            "always" => self.policy.clone(),
            admission => format!("{admission} + {}", self.policy),
        };
        if self.allocation != "none" {
            method = format!("{method}, {}", self.allocation);
        }
        method
    }

    /// Blocks written to flash for each access.
    pub fn flash_writes_per_access(&self) -> f64 {
        ratio(
            self.counters.flash_writes_blocks(),
            self.counters.accesses(),
        )
    }

    /// The size in bytes.
    pub fn size_bytes(&self) -> u64 {
        u64::from(self.size_blocks) * self.block_bytes
    }
}

impl Serialize for RunResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for column in columns::COLUMNS {
            map.serialize_entry(column.name, &(column.value)(self))?;
        }
        map.serialize_entry("volumes", &self.volumes)?;
        if self.refused.total() > 0 {
            let named = self.refused.iter().filter(|(_, count)| *count > 0);
            let refused: serde_json::Map<String, serde_json::Value> = named
                .map(|(reason, count)| (reason.name().to_owned(), count.into()))
                .collect();
            map.serialize_entry("refused", &refused)?;
        }
        if !self.vms.is_empty() {
            map.serialize_entry("vms", &self.vms)?;
        }
        if let Some(series) = &self.series {
            map.serialize_entry("series", series)?;
        }
        map.end()
    }
}

impl Serialize for VolumeResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("vm", &self.volume.vm)?;
        map.serialize_entry("volume", &self.volume.name)?;
        for (name, value) in columns::of_volume(&self.counters) {
            map.serialize_entry(name, &value)?;
        }
        map.end()
    }
}

impl Serialize for VmResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("vm", &self.vm)?;
        map.serialize_entry("share_blocks", &self.share_blocks)?;
        map.serialize_entry("held_blocks", &self.held_blocks)?;
        if let Some(demand) = self.demand_blocks {
            map.serialize_entry("demand_blocks", &demand)?;
        }
        for (name, value) in columns::of_volume(&self.counters) {
            map.serialize_entry(name, &value)?;
        }
        map.end()
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Real(real) => serializer.serialize_f64(*real),
            Self::Absent => serializer.serialize_none(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run with counts that fit together.
    pub(crate) fn some_run(policy: &str, size_blocks: u32) -> RunResult {
        RunResult {
            trace: "some, trace".to_owned(),
            policy: policy.to_owned(),
            admission: "always".to_owned(),
            allocation: "none".to_owned(),
            ram_policy: "none".to_owned(),
            ram_blocks: 0,
            size: format!("{size_blocks}blk"),
            size_blocks,
            block_bytes: 4096,
            write_policy: "through",
            write_miss: "allocate",
            footprint_blocks: 900,
            counters: Counters {
                read_requests: 10,
                reads: 80,
                read_hits: 30,
                bytes: 80 * 4096,
                hit_bytes: 30 * 4096,
                origin_reads: 20,
                origin_read_bytes: 50 * 4096,
                flash_fill_blocks: 50,
                ..Counters::default()
            },
            volumes: Vec::new(),
            vms: Vec::new(),
            refused: Refusals::default(),
            admission_memory: Bytes::ZERO,
            used: UsedBlocks {
                mean: 41.5,
                peak: 50,
                end: 50,
                dirty_end: 0,
            },
            latency: Some(LatencyResult {
                all: Quantiles::default(),
                reads: Quantiles::default(),
                writes: Quantiles::default(),
                requests_per_s: 5.0,
                bytes_per_s: 20_480.0,
                cumulative: vec![(80.0, 0.4), (600.0, 1.0)],
            }),
            series: None,
        }
    }

    #[test]
    fn a_run_is_an_object_with_its_columns_in_order() {
        let text = serde_json::to_string(&some_run("lru", 100)).unwrap();
        let start = r#"{"trace":"some, trace","policy":"lru","size":"100blk","size_blocks":100,"#;
        assert!(text.starts_with(start), "{text}");
        assert!(
            text.contains(r#""misses":50,"miss_ratio":0.625,"#),
            "{text}"
        );
        assert!(text.ends_with(r#""volumes":[]}"#), "{text}");
    }

    #[test]
    fn quantiles_are_of_the_times_that_were_recorded() {
        let mut histogram = Histogram::new(3).unwrap();
        for micros in 1..=1000_u64 {
            histogram.record(micros * 1000).unwrap();
        }
        let quantiles = Quantiles::of(&histogram);
        for (value, expected) in [
            (quantiles.mean_us, 500.5),
            (quantiles.p50_us, 500.0),
            (quantiles.p90_us, 900.0),
            (quantiles.p95_us, 950.0),
            (quantiles.p99_us, 990.0),
        ] {
            assert!((value / expected - 1.0).abs() < 0.002, "{value} {expected}");
        }
    }

    #[test]
    fn a_thinned_distribution_keeps_its_ends() {
        let points: Vec<_> = (1..=10_000)
            .map(|n| (f64::from(n), f64::from(n) / 1e4))
            .collect();
        let shown = thinned(points);
        assert!((300..=402).contains(&shown.len()), "{}", shown.len());
        assert_eq!(shown.first(), Some(&(1.0, 1e-4)));
        assert_eq!(shown.last(), Some(&(1e4, 1.0)));
    }

    #[test]
    fn a_method_has_what_its_policy_does_not_name() {
        let mut run = some_run("segment-twin-clock", 1000);
        assert_eq!(run.method(), "segment-twin-clock");
        run.admission = "reuse-age".to_owned();
        run.allocation = "utility".to_owned();
        assert_eq!(run.method(), "reuse-age + segment-twin-clock, utility");
        run.policy = "daemon".to_owned();
        assert_eq!(run.method(), "daemon");
    }
}
