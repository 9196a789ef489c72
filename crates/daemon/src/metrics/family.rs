//! What a metric is, and how the table of all metrics is written.

use super::encode::{Snapshot, Value};
use api::types::{CacheStatus, DiskStatus};

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
    /// Its kind.
    pub kind: Kind,
    /// What it means.
    pub help: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
    pub(super) read: Read,
}

impl Family {
    const fn new(
        kind: Kind,
        name: &'static str,
        unit: Option<&'static str>,
        help: &'static str,
        labels: &'static [&'static str],
        read: Read,
    ) -> Self {
        Self {
            name,
            unit,
            kind,
            help,
            labels,
            read,
        }
    }

    /// The name as it is exported.
    pub fn full_name(&self) -> String {
        let mut name = format!("hearth_{}", self.name);
        if let Some(unit) = self.unit {
            name.push('_');
            name.push_str(unit);
        }
        if self.kind == Kind::Counter {
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
        .chain(super::write_back_families::FAMILIES)
        .chain(super::vm_families::FAMILIES)
}

/// One series of a metric.
#[derive(Debug)]
pub(super) struct Series<'a> {
    pub(super) labels: Vec<(&'static str, &'a str)>,
    pub(super) value: Value<'a>,
}

/// A series of each cache, with one more label if wanted.
pub(super) fn caches<'a>(
    snapshot: &'a Snapshot,
    out: &mut Vec<Series<'a>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a CacheStatus) -> Value<'a>,
) {
    some_caches(snapshot, out, extra, |cache| Some(value(cache)));
}

/// A series of each cache that has this value, with one more label if wanted.
pub(super) fn some_caches<'a>(
    snapshot: &'a Snapshot,
    out: &mut Vec<Series<'a>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a CacheStatus) -> Option<Value<'a>>,
) {
    for cache in &snapshot.status.caches {
        let Some(value) = value(cache) else { continue };
        let mut labels = vec![("cache", cache.name.as_str())];
        labels.extend(extra);
        out.push(Series { labels, value });
    }
}

/// A series of each disk, with one more label if wanted.
pub(super) fn disks<'a>(
    snapshot: &'a Snapshot,
    out: &mut Vec<Series<'a>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a DiskStatus) -> Value<'a>,
) {
    some_disks(snapshot, out, extra, |disk| Some(value(disk)));
}

/// As [`some_disks`], where disks are told of in detail.
pub(super) fn detailed_disks<'a>(
    snapshot: &'a Snapshot,
    out: &mut Vec<Series<'a>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a DiskStatus) -> Option<Value<'a>>,
) {
    if snapshot.disk_details {
        some_disks(snapshot, out, extra, value);
    }
}

/// A series of each disk that has this value, with one more label if wanted.
pub(super) fn some_disks<'a>(
    snapshot: &'a Snapshot,
    out: &mut Vec<Series<'a>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a DiskStatus) -> Option<Value<'a>>,
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

/// How the values of a metric are read from a snapshot.
type Read = for<'a> fn(&'a Snapshot, &mut Vec<Series<'a>>);

pub(super) const fn counter(
    name: &'static str,
    unit: Option<&'static str>,
    help: &'static str,
    labels: &'static [&'static str],
    read: Read,
) -> Family {
    Family::new(Kind::Counter, name, unit, help, labels, read)
}

pub(super) const fn gauge(
    name: &'static str,
    unit: Option<&'static str>,
    help: &'static str,
    labels: &'static [&'static str],
    read: Read,
) -> Family {
    Family::new(Kind::Gauge, name, unit, help, labels, read)
}

pub(super) const fn histogram(
    name: &'static str,
    unit: Option<&'static str>,
    help: &'static str,
    labels: &'static [&'static str],
    read: Read,
) -> Family {
    Family::new(Kind::Histogram, name, unit, help, labels, read)
}
