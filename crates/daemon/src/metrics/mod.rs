//! Prometheus metrics: the API's answers under other names.
//!
//! Rules: base units (seconds, bytes, blocks of 4096 bytes), the unit last, counters end in
//! `_total`, and a ratio is never exported: hits and lookups are, so that they can be summed
//! over disks and hosts before they are divided. A disk or cache has the same labels on each
//! of its series.

mod cluster_families;
mod drive_families;
mod encode;
mod event_families;
mod families;
mod family;
mod front_end_families;
mod guest_families;
mod latency_families;
mod limit_families;
mod page_families;
mod process_families;
mod reload_families;
mod resource_families;
mod roaming_families;
mod scrub_families;
mod telemetry_families;
mod vm_families;
mod write_back_families;

pub(crate) use encode::{CONTENT_TYPE, Scrape, render};
pub use family::{Family, Kind, families};
