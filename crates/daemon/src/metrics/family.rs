//! What a metric is, and how the table of all metrics is written.

use super::encode::{Buckets, Number, Scrape};
use api::types::{CacheStatus, DiskState, DiskStatus};

/// What kind of metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; begins again with the daemon or the attachment.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// A metric.
#[derive(Debug)]
pub struct Family {
    /// Its name without prefix, unit and `_total`.
    pub name: &'static str,
    /// Its unit, if it has one: the name's last word.
    pub unit: Option<&'static str>,
    /// What it means.
    pub help: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Its kind, and where its values come from.
    pub(super) read: Read,
}

/// How the series of a metric are read from a snapshot, for each kind of metric.
#[derive(Debug)]
pub(super) enum Read {
    Counter(ReadNumbers),
    Gauge(ReadNumbers),
    Histogram(for<'a> fn(&'a Scrape, &mut Vec<Series<'a, Buckets<'a>>>)),
}

/// Appends the series of a counter or a gauge.
type ReadNumbers = for<'a> fn(&'a Scrape, &mut Vec<Series<'a>>);

impl Family {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self.read {
            Read::Counter(_) => Kind::Counter,
            Read::Gauge(_) => Kind::Gauge,
            Read::Histogram(_) => Kind::Histogram,
        }
    }

    /// The name with its prefix, without unit and `_total`. What every program tells of its process, `process_*`, has
    /// no prefix of the program.
    pub(super) fn prefixed_name(&self) -> String {
        if self.name.starts_with("process_") {
            return self.name.to_owned();
        }
        format!("hearth_{}", self.name)
    }

    /// The name as it is exported.
    pub fn full_name(&self) -> String {
        let mut name = self.prefixed_name();
        if let Some(unit) = self.unit {
            name.push('_');
            name.push_str(unit);
        }
        if self.kind() == Kind::Counter {
            name.push_str("_total");
        }
        name
    }
}

/// Every metric, in the order in which they are shown.
pub fn families() -> impl Iterator<Item = &'static Family> {
    super::families::FAMILIES
        .iter()
        .chain(super::latency_families::FAMILIES)
        .chain(super::front_end_families::FAMILIES)
        .chain(super::limit_families::FAMILIES)
        .chain(super::scrub_families::FAMILIES)
        .chain(super::write_back_families::FAMILIES)
        .chain(super::roaming_families::FAMILIES)
        .chain(super::vm_families::FAMILIES)
        .chain(super::guest_families::FAMILIES)
        .chain(super::resource_families::FAMILIES)
        .chain(super::drive_families::FAMILIES)
        .chain(super::event_families::FAMILIES)
        .chain(super::process_families::FAMILIES)
        .chain(super::reload_families::FAMILIES)
        .chain(super::page_families::FAMILIES)
        .chain(super::telemetry_families::FAMILIES)
        .chain(super::cluster_families::FAMILIES)
}

/// One series of a metric.
#[derive(Debug)]
pub(super) struct Series<'a, V = Number> {
    pub(super) labels: Vec<(&'static str, &'a str)>,
    pub(super) value: V,
}

/// A series of each cache, with one more label if wanted.
pub(super) fn caches<'a, V>(
    snapshot: &'a Scrape,
    out: &mut Vec<Series<'a, V>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a CacheStatus) -> V,
) {
    some_caches(snapshot, out, extra, |cache| Some(value(cache)));
}

/// A series of each cache that has this value, with one more label if wanted.
pub(super) fn some_caches<'a, V>(
    snapshot: &'a Scrape,
    out: &mut Vec<Series<'a, V>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a CacheStatus) -> Option<V>,
) {
    for cache in &snapshot.status.caches {
        let Some(value) = value(cache) else { continue };
        let mut labels = vec![("cache", cache.name.as_str())];
        labels.extend(extra);
        out.push(Series { labels, value });
    }
}

/// A series of each disk, with one more label if wanted.
pub(super) fn disks<'a, V>(
    snapshot: &'a Scrape,
    out: &mut Vec<Series<'a, V>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a DiskStatus) -> V,
) {
    some_disks(snapshot, out, extra, |disk| Some(value(disk)));
}

/// A series of each disk that this host serves or should serve: none of one that another host has.
pub(super) fn disks_here<'a, V>(
    snapshot: &'a Scrape,
    out: &mut Vec<Series<'a, V>>,
    value: impl Fn(&'a DiskStatus) -> V,
) {
    some_disks(snapshot, out, None, |disk| {
        (disk.state != DiskState::Standby).then(|| value(disk))
    });
}

/// As [`some_disks`], where disks are told of in detail.
pub(super) fn detailed_disks<'a, V>(
    snapshot: &'a Scrape,
    out: &mut Vec<Series<'a, V>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a DiskStatus) -> Option<V>,
) {
    if snapshot.disk_details {
        some_disks(snapshot, out, extra, value);
    }
}

/// A series of each disk that has this value, with one more label if wanted.
pub(super) fn some_disks<'a, V>(
    snapshot: &'a Scrape,
    out: &mut Vec<Series<'a, V>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a DiskStatus) -> Option<V>,
) {
    for disk in &snapshot.disks.disks {
        let Some(value) = value(disk) else { continue };
        let mut labels = vec![
            ("disk", disk.name.as_str()),
            ("vm", disk.vm.as_str()),
            ("cache", disk.cache.as_str()),
        ];
        labels.extend(extra);
        out.push(Series { labels, value });
    }
}
