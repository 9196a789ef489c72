//! The book's page of the metrics.

use super::NOTICE;
use daemon::metrics::{Kind, families};
use std::fmt::Write;

pub(super) fn page() -> String {
    let mut page = format!("# Metrics\n\n{NOTICE}\n");
    page.push_str(
        "`GET /metrics` at `daemon.metrics_address` and on the admin socket answers in the OpenMetrics\n\
         text format. Units are base units and the last word of a name; counters end in `_total`. There\n\
         are no ratios: divide sums of hits by sums of lookups, for example\n\n\
         ```text\n\
         sum(rate(hearth_disk_read_block_hits_total[5m])) / sum(rate(hearth_disk_read_blocks_total[5m]))\n\
         ```\n\n\
         Counters of a cache begin with the daemon, those of a disk with its attachment. Time is counted\n\
         apart for the guests' requests, the flash and the origins: of a cache in 22 buckets from 10 us to 100 s,\n\
         of a disk as a sum. The questions behind that: *are guests of this host slow, and is it the flash or\n\
         the storage?* The histograms of the cache tell. *Which disk is it?* The one with the highest mean.\n\n\
         ```text\n\
         # the time that 99 in 100 reads of a host take at most\n\
         histogram_quantile(0.99, sum by (le) (rate(hearth_cache_guest_request_seconds_bucket{op=\"read\"}[5m])))\n\
         # the five disks with the slowest reads, by their mean\n\
         topk(5, rate(hearth_disk_request_seconds_total{op=\"read\"}[5m]) / rate(hearth_disk_requests_total{op=\"read\"}[5m]))\n\
         ```\n\n\
         (Discards and write-zeroes are writes in all times; among `disk_requests` they are `erase`.) For a closer\n\
         look at one disk, `hearth top` and `hearth disk show` have its 99th percentile. Alerts on a percentile of\n\
         each disk need `daemon.metrics_disk_details`: its histograms have 10 buckets from 50 us to 10 s. A busy\n\
         disk under write-back has 39 series without that and 109 with it, and 500 of them an answer of 2.1 MB and of\n\
         6.6 MB.\n\n\
         A disk has times of an op once there was one, metrics of vhost-user once a VM has used it so, and\n\
         metrics of write-back while it is under it; counters of write-back stay until it is detached.\n\n\
         What every program tells of its process, `process_*`, has the names that Prometheus' conventions give it.\n\n\
         | metric | type | labels | meaning |\n|---|---|---|---|\n",
    );
    for family in families() {
        let kind = match family.kind() {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        writeln!(
            page,
            "| `{}` | {kind} | {} | {} |",
            family.full_name(),
            family.labels.join(", "),
            family.help
        )
        .expect("writing to a string does not fail");
    }
    page
}
