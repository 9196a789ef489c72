//! The book's page of the metrics.

use super::NOTICE;
use crate::metrics::{Kind, families};
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
         apart for the guest's requests, the flash and the origin: of a cache in 22 buckets from 10 us to 100 s, of each\n\
         disk in 10 from 50 us to 10 s. A disk has a histogram once it has something in it, and metrics of\n\
         write-back while it is under it; counters of write-back stay until it is detached.\n\n\
         | metric | type | labels | meaning |\n|---|---|---|---|\n",
    );
    for family in families() {
        let kind = match family.kind {
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
