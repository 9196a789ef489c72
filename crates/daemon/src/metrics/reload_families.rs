//! The metrics of reading the configuration again, with the names that Prometheus has for its own.

use super::encode::{Number, Scrape};
use super::family::{Family, Read, Series};

/// A series without labels.
fn one(out: &mut Vec<Series<'_>>, value: Number) {
    out.push(Series {
        labels: Vec::new(),
        value,
    });
}

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "config_last_reload_successful",
        unit: None,
        help: "Whether the last attempt to read the configuration again found it sound: 1 or 0",
        labels: &[],
        read: Read::Gauge(|scrape: &Scrape, out| {
            one(out, Number::Whole(scrape.reload.is_successful.into()));
        }),
    },
    Family {
        name: "config_last_reload_success_timestamp",
        unit: Some("seconds"),
        help: "When a sound configuration was read last, since 1970",
        labels: &[],
        read: Read::Gauge(|scrape: &Scrape, out| {
            one(out, Number::Real(scrape.reload.success_seconds));
        }),
    },
    Family {
        name: "config_reload_pending",
        unit: None,
        help: "Differences between the configuration that was read last and what the daemon runs with: a restart or a command is needed",
        labels: &[],
        read: Read::Gauge(|scrape: &Scrape, out| {
            one(out, Number::Whole(scrape.reload.pending));
        }),
    },
];
