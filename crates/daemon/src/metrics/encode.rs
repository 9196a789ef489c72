//! From a snapshot to the text that Prometheus reads.

use super::family::{Family, Kind, Read, Series, families};
use crate::cluster::ClusterNumbers;
use crate::own_process::ProcessFigures;
use crate::page_access::Denied;
use crate::reload::ReloadFigures;
use api::drives::FlashDrives;
use api::resources::Resources;
use api::roaming::RoamingDisks;
use api::types::{Disks, Latency, Status};
use api::vms::Vms;
use events::EventKind;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::fmt;
use telemetry::SpanCounts;

/// The media type of [`render`]'s text: `OpenMetrics`.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper ends of the histograms' buckets in seconds, 1-2-5 steps from a flash hit in a hot
/// loop to the longest that an origin may take by default.
pub(super) const BUCKET_SECONDS: [f64; 22] = [
    10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2,
    0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
];

/// Those of the histograms of each disk, where they are wanted: fewer, since there may be hundreds of
/// disks with five histograms each.
pub(super) const DISK_BUCKET_SECONDS: [f64; 10] = [
    50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 5e-3, 20e-3, 0.1, 1.0, 10.0,
];

/// All metrics of a scrape.
///
/// # Panics
/// Never: writing to a string does not fail.
pub(crate) fn render(scrape: Scrape) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)
        .expect("writing to a string does not fail");
    text
}

/// What a scrape shows.
#[derive(Clone, Debug)]
pub(crate) struct Scrape {
    pub(crate) status: Status,
    pub(crate) disks: Disks,
    pub(crate) vms: Vms,
    pub(crate) roaming: RoamingDisks,
    pub(crate) resources: Resources,
    /// How many events of each kind there were.
    pub(crate) events: BTreeMap<EventKind, u64>,
    /// The drives under the caches.
    pub(crate) drives: FlashDrives,
    /// What the daemon's process uses, if the system says so.
    pub(crate) process: Option<ProcessFigures>,
    /// How the last reload ended.
    pub(crate) reload: ReloadFigures,
    /// Requests to change something through the page that were denied, by reason.
    pub(crate) page_denied: [u64; Denied::REASONS.len()],
    /// What has become of spans, if there are any.
    pub(crate) spans: Option<SpanCounts>,
    /// What this host has observed of its cluster, if it is in one.
    pub(crate) cluster: Option<ClusterNumbers>,
    /// Whether each disk is told of in detail.
    pub(crate) disk_details: bool,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in families() {
            self.family(family, &mut encoder)?;
        }
        Ok(())
    }
}

impl Scrape {
    fn family(&self, family: &Family, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        match family.read {
            Read::Counter(read) => self.series(family, read, Number::encode_counter, encoder),
            Read::Gauge(read) => self.series(family, read, Number::encode_gauge, encoder),
            Read::Histogram(read) => self.series(family, read, Buckets::encode, encoder),
        }
    }

    fn series<'a, V>(
        &'a self,
        family: &Family,
        read: fn(&'a Self, &mut Vec<Series<'a, V>>),
        encode: fn(&V, &mut MetricEncoder<'_>) -> fmt::Result,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let mut series = Vec::new();
        read(self, &mut series);
        if series.is_empty() {
            return Ok(());
        }
        let unit = family.unit.map(|unit| Unit::Other(unit.to_owned()));
        let kind = match family.kind() {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        };
        let name = family.prefixed_name();
        let mut metric = encoder.encode_descriptor(&name, family.help, unit.as_ref(), kind)?;
        for Series { labels, value } in &series {
            if labels.is_empty() {
                encode(value, &mut metric)?;
            } else {
                encode(value, &mut metric.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

/// The value of one series of a counter or a gauge.
#[derive(Debug)]
pub(super) enum Number {
    /// A count.
    Whole(u64),
    /// A measurement.
    Real(f64),
}

impl Number {
    fn encode_counter(&self, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(count) => metric.encode_counter::<NoLabels, _, f64>(count, None),
            Self::Real(sum) => metric.encode_counter::<NoLabels, _, f64>(sum, None),
        }
    }

    fn encode_gauge(&self, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(count) => metric.encode_gauge(&i64::try_from(*count).unwrap_or(i64::MAX)),
            Self::Real(value) => metric.encode_gauge(value),
        }
    }
}

/// The value of one series of a histogram, and the upper ends of its buckets in seconds.
#[derive(Debug)]
pub(super) struct Buckets<'a>(pub(super) &'a Latency, pub(super) &'static [f64]);

impl Buckets<'_> {
    fn encode(&self, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        let Self(latency, ends) = self;
        let counts = buckets(latency, ends);
        metric.encode_histogram::<NoLabels>(latency.sum_seconds, latency.count, &counts, None)
    }
}

type NoLabels = Vec<(String, String)>;

/// The histogram in Prometheus' buckets. A bucket of ours that reaches over an end of theirs
/// counts as the longer time.
fn buckets(latency: &Latency, ends: &[f64]) -> Vec<(f64, u64)> {
    let all = ends.iter().copied().chain([f64::INFINITY]);
    let mut buckets: Vec<(f64, u64)> = all.map(|end| (end, 0)).collect();
    for bucket in &latency.buckets {
        // A relative millionth forgives that both ends were rounded to floating point.
        let at = buckets
            .iter()
            .position(|(end, _)| bucket.to_seconds <= end * (1.0 + 1e-6));
        buckets[at.unwrap_or(ends.len())].1 += bucket.count;
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::drives::CacheDrives;
    use api::samples;

    /// A cache on a drive that says all that a drive can say.
    fn worn_cache() -> CacheDrives {
        let drive = serde_json::json!({
            "device": "/dev/nvme0n1", "kind": "nvme", "model": null, "is_rotational": false,
            "has_volatile_cache": true, "concerns": [], "told_seconds_ago": null, "written": null,
            "smart": { "state": "known", "passed": true, "critical_warnings": [],
                "used_percent": 93, "spare_percent": 80, "spare_threshold_percent": 10,
                "temperature_celsius": 41, "media_errors": 2, "unsafe_shutdowns": 7,
                "written_bytes": 512_000, "power_on_hours": 9 },
        });
        CacheDrives {
            cache: "main".parse().unwrap(),
            path: "/flash.img".to_owned(),
            no_drive: None,
            drives: vec![serde_json::from_value(drive).unwrap()],
        }
    }

    fn scrape(disk_details: bool) -> Scrape {
        Scrape {
            status: samples::status(),
            disks: samples::disks(),
            vms: samples::vms(),
            roaming: samples::roaming(),
            resources: samples::resources(),
            events: BTreeMap::from([(EventKind::OriginLost, 3)]),
            process: Some(ProcessFigures {
                started_seconds: 1_795_842_000.5,
                resident_bytes: 268_435_456,
                max_fds: Some(65536),
                ..ProcessFigures::default()
            }),
            drives: FlashDrives {
                age_seconds: Some(1.0),
                caches: vec![worn_cache()],
            },
            reload: ReloadFigures {
                is_successful: true,
                success_seconds: 1_795_842_000.5,
                pending: 2,
            },
            page_denied: [0; Denied::REASONS.len()],
            spans: Some(SpanCounts {
                delivered: 40,
                dropped: 2,
            }),
            cluster: Some(ClusterNumbers::sample()),
            disk_details,
        }
    }

    fn lines() -> String {
        render(scrape(false))
    }

    #[test]
    fn names_end_in_their_unit_and_counters_in_total() {
        let text = lines();
        for line in [
            "hearth_flash_written_bytes_total{cache=\"main\",cause=\"fill\"} 5368709120",
            "hearth_config_last_reload_successful 1",
            "hearth_config_last_reload_success_timestamp_seconds 1795842000.5",
            "hearth_config_reload_pending 2",
            "hearth_telemetry_spans_total{result=\"delivered\"} 40",
            "hearth_telemetry_spans_total{result=\"dropped\"} 2",
            "hearth_disk_requests_total{disk=\"web-1\",vm=\"web-1\",cache=\"main\",op=\"read\"} 12000",
            "hearth_disk_read_block_hits_total{disk=\"web-1\",vm=\"web-1\",cache=\"main\"} 22000",
            "hearth_disk_read_blocks_total{disk=\"web-1\",vm=\"web-1\",cache=\"main\"} 24000",
            "hearth_cache_segments{cache=\"main\",state=\"free\"} 40",
            "hearth_cache_bypassed{cache=\"main\"} 0",
            "hearth_disk_attached{disk=\"db\",vm=\"database\",cache=\"main\"} 0",
            "hearth_vm_share_blocks{vm=\"web\",kind=\"vm\",cache=\"main\"} 1048576",
            "hearth_vm_refused_blocks_total{vm=\"web\",kind=\"vm\",cache=\"main\",reason=\"sequential\"} 40000",
            "hearth_vm_write_budget_day_bytes{vm=\"web\",kind=\"vm\",cache=\"main\"} 214748364800",
            "hearth_image_saved_blocks_total{image=\"debian-12\",cache=\"main\"} 70000",
            "hearth_link_session{peer=\"node-b\"} 1",
            "hearth_link_sessions_total{peer=\"node-b\"} 3",
            "hearth_roaming_disks{role=\"owner\"} 1",
            "hearth_roaming_disks{role=\"in-doubt\"} 0",
            "hearth_hand_overs_total{disk=\"web-1\",vm=\"web-1\",cache=\"main\",outcome=\"taken\"} 2",
            "hearth_hand_over_held_seconds_count{outcome=\"taken\"} 12",
            "hearth_host_reading_age_seconds 2.0",
            "hearth_host_cpu_seconds_total{state=\"idle\"} 79200.0",
            "hearth_host_network_bytes_total 5368709120",
            "hearth_vm_cpu_seconds_total{vm=\"web-1\"} 12.5",
            "hearth_vm_resident_memory_bytes{vm=\"web-1\"} 4294967296",
            "hearth_events_total{kind=\"origin-lost\"} 3",
            "hearth_events_total{kind=\"origin-back\"} 0",
            "process_start_time_seconds 1795842000.5",
            "process_cpu_seconds_total 0.0",
            "process_resident_memory_bytes 268435456",
            "process_max_fds 65536",
            "hearth_cluster_store_answers 1",
            "hearth_cluster_hosts{state=\"missing\"} 1",
            "hearth_cluster_moves{role=\"target\",stage=\"migrating\"} 1",
            "hearth_cluster_moves_ended_total{outcome=\"done\"} 4",
            "hearth_cluster_move_seconds_total{outcome=\"done\"} 90.0",
            "hearth_cluster_flash_missing_bytes 1073741824",
            "hearth_build_info{version=\"0.1.0\"} 1",
            "# UNIT hearth_uptime_seconds seconds",
            "hearth_uptime_seconds 93784.5",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    fn find(text: &str, line: &str) {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }

    #[test]
    fn histograms_count_every_operation_once() {
        let text = render(scrape(true));
        for name in ["hearth_cache_guest_request", "hearth_guest_request"] {
            let labels = if name.contains("cache") {
                "cache=\"main\",op=\"read\""
            } else {
                "disk=\"web-1\",vm=\"web-1\",cache=\"main\",op=\"read\""
            };
            find(&text, &format!("{name}_seconds_count{{{labels}}} 12000"));
            for (end, count) in [("0.0001", 11998), ("0.005", 12000), ("+Inf", 12000)] {
                let bucket = format!("{name}_seconds_bucket{{le=\"{end}\",{labels}}} {count}");
                find(&text, &bucket);
            }
        }
    }

    #[test]
    fn a_mean_can_be_had_of_each_disk_and_buckets_if_they_are_wanted() {
        let text = lines();
        let labels = "disk=\"web-1\",vm=\"web-1\",cache=\"main\",op=\"read\"";
        find(
            &text,
            &format!("hearth_disk_request_seconds_total{{{labels}}} 1.2"),
        );
        find(
            &text,
            &format!("hearth_disk_requests_total{{{labels}}} 12000"),
        );
        find(
            &text,
            &format!("hearth_disk_origin_requests_total{{{labels}}} 1500"),
        );
    }

    #[test]
    fn what_is_told_only_in_detail_says_so() {
        let plain = lines();
        let detailed = render(scrape(true));
        for family in families() {
            let heading = format!("# TYPE {} ", family.full_name().trim_end_matches("_total"));
            assert!(detailed.contains(&heading), "{heading}");
            let says_so = family.help.contains("daemon.metrics_disk_details");
            assert_eq!(plain.contains(&heading), !says_so, "{heading}");
        }
    }

    /// The most series of a busy disk with limits, under write-back and over vhost-user: 500 of them make 2 MB.
    const SERIES_OF_A_DISK_MAX: usize = 43;
    /// The same in detail.
    const DETAILED_SERIES_OF_A_DISK_MAX: usize = 113;

    #[test]
    fn a_disk_has_few_series() {
        let mut disks = samples::disks();
        let busy = disks.disks.iter().find(|disk| disk.write_back.is_some());
        let one = busy.unwrap().clone();
        assert!(one.vhost_user.requests_taken > 0 && one.latency.origin_write.count > 0);
        disks.disks = (0..500)
            .map(|number| {
                let name = format!("disk-of-customer-{number:03}");
                let name: configuration::Name = name.parse().unwrap();
                let mut disk = one.clone();
                (disk.vm, disk.name) = (name.clone(), name);
                disk
            })
            .collect();
        for (details, most) in [
            (false, SERIES_OF_A_DISK_MAX),
            (true, DETAILED_SERIES_OF_A_DISK_MAX),
        ] {
            let text = render(Scrape {
                disks: disks.clone(),
                ..scrape(details)
            });
            let of_one = |line: &&str| line.contains("disk=\"disk-of-customer-007\"");
            let series = text.lines().filter(of_one).count();
            println!("{} bytes, {series} series of a disk", text.len());
            assert!(
                series <= most,
                "{series} series of a disk, {most} are the most"
            );
        }
    }

    #[test]
    fn a_disk_that_another_host_has_does_not_wait_here() {
        let mut disks = samples::disks();
        disks.disks[0].state = api::types::DiskState::Standby;
        let name = disks.disks[0].name.to_string();
        let text = render(Scrape {
            disks,
            ..scrape(false)
        });
        for series in ["hearth_disk_attached", "hearth_origin_connected"] {
            assert!(!text.contains(&format!("{series}{{disk=\"{name}\"")));
            assert!(text.contains(&format!("{series}{{disk=")), "of others");
        }
    }

    #[test]
    fn a_disk_that_nobody_uses_has_no_histograms_and_none_of_write_back() {
        let mut disks = samples::disks();
        disks.disks.truncate(1);
        disks.disks[0].latency = api::types::DiskLatency::default();
        disks.disks[0].write_back = None;
        let text = render(Scrape {
            disks: disks.clone(),
            ..scrape(false)
        });
        assert!(!text.contains("hearth_disk_request_seconds_total{"));
        assert!(!text.contains("hearth_disk_destaged_bytes_total"));
        // A counter does not go away with write-back.
        disks.disks[0].counters.destaged_bytes = 4096;
        let text = render(Scrape {
            disks,
            ..scrape(false)
        });
        assert!(text.contains("hearth_disk_destaged_bytes_total{"), "{text}");
        assert!(!text.contains("hearth_disk_dirty_bytes"));
    }

    #[test]
    fn no_metric_is_a_ratio() {
        for family in families() {
            assert!(!family.name.contains("ratio"), "{}", family.name);
            assert!(!family.name.contains("percent"), "{}", family.name);
        }
    }

    #[test]
    fn every_family_appears_once_under_its_name() {
        let text = render(scrape(true));
        for family in families() {
            let heading = format!("# TYPE {} ", family.full_name().trim_end_matches("_total"));
            assert_eq!(text.matches(&heading).count(), 1, "{heading}\n{text}");
        }
    }
}
