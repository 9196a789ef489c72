//! The metrics of the daemon's own process, under the names that Prometheus' conventions give them in every program.

use super::encode::{Number, Scrape};
use super::family::{Family, Read, Series};
use crate::own_process::ProcessFigures;

/// A series without labels, if the system says so.
fn one(
    scrape: &Scrape,
    out: &mut Vec<Series<'_>>,
    value: impl Fn(ProcessFigures) -> Option<Number>,
) {
    out.extend(scrape.process.and_then(value).map(|value| Series {
        labels: Vec::new(),
        value,
    }));
}

/// A gauge that is a field of [`ProcessFigures`].
macro_rules! gauge {
    ($name:literal, $unit:expr, $help:literal, $field:ident) => {
        Family {
            name: $name,
            unit: $unit,
            help: $help,
            labels: &[],
            read: Read::Gauge(|scrape, out| {
                one(scrape, out, |process| Some(Number::Whole(process.$field)));
            }),
        }
    };
}

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "process_start_time",
        unit: Some("seconds"),
        help: "When the daemon's process began, since 1970",
        labels: &[],
        read: Read::Gauge(|scrape, out| {
            one(scrape, out, |process| {
                Some(Number::Real(process.started_seconds))
            });
        }),
    },
    Family {
        name: "process_cpu",
        unit: Some("seconds"),
        help: "Seconds of a processor that the daemon has used, of all its threads together",
        labels: &[],
        read: Read::Counter(|scrape, out| {
            one(scrape, out, |process| {
                Some(Number::Real(process.cpu_seconds))
            });
        }),
    },
    gauge!("process_threads", None, "The daemon's threads", threads),
    gauge!(
        "process_virtual_memory",
        Some("bytes"),
        "The daemon's address space",
        virtual_bytes
    ),
    gauge!(
        "process_resident_memory",
        Some("bytes"),
        "Memory of the host that the daemon has",
        resident_bytes
    ),
    gauge!(
        "process_open_fds",
        None,
        "File descriptors that the daemon has open",
        open_fds
    ),
    Family {
        name: "process_max_fds",
        unit: None,
        help: "File descriptors that the daemon may have open; absent without a limit",
        labels: &[],
        read: Read::Gauge(|scrape, out| {
            one(scrape, out, |process| process.max_fds.map(Number::Whole));
        }),
    },
];
