//! Rows of VMs and disks, sorted.

use super::pages::{Asked, largest};
use super::sums::{found_of_read, quantiles};
use super::{Glance, Look, health};
use crate::answers::{destage, keeps, seconds};
use api::rows::{DiskRow, DiskRows, VmRow, VmRows};
use configuration::Name;
use serde::Deserialize;
use shard::RequestTimes;
use std::cmp::Ordering;
use units::number::real;
use utoipa::ToSchema;

/// By what VMs are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VmOrder {
    /// Those in trouble first, and then those whose slowest reads are slowest.
    #[default]
    Worst,
    /// By name.
    Name,
    /// The slowest reads, 99 in 100 of them, first.
    P99,
    /// The fewest hits first; those that have read nothing last.
    Hits,
    /// The most reads first.
    Reads,
    /// The most bytes that origins lack first.
    Dirty,
    /// The most flash first.
    Flash,
}

/// By what disks are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DiskOrder {
    /// Those in trouble first, and then those whose origins have waited longest.
    #[default]
    Worst,
    /// By name.
    Name,
    /// The most bytes that its origin lacks first.
    Dirty,
    /// What has waited longest first.
    Age,
}

impl Glance<'_> {
    /// Some VMs, those of `known` without a disk among them.
    pub(crate) fn vm_rows(&self, known: &[Name], order: VmOrder, asked: &Asked) -> VmRows {
        let vms = self.by_vm(known).into_iter();
        let found = vms.filter(|(name, _)| asked.finds(name.as_str()));
        let mut rows: Vec<VmRow> = found.map(|(name, looks)| vm_row(name, &looks)).collect();
        rows.sort_by(|a, b| vm_order(order, a, b));
        let page = asked.page(rows, |row| row.name.as_str());
        VmRows {
            total: page.total,
            next: page.last_before_more().map(|row| row.name.clone()),
            rows: page.rows,
        }
    }

    /// Some disks; only those that keep something from their origins, or may, if `back`.
    pub(crate) fn disk_rows(&self, back: bool, order: DiskOrder, asked: &Asked) -> DiskRows {
        let looks = self
            .looks()
            .filter(|look| asked.finds(look.entry.config.name.as_str()));
        let rows = looks.map(disk_row);
        let mut rows: Vec<DiskRow> = rows.filter(|row| !back || row.destage.is_some()).collect();
        rows.sort_by(|a, b| disk_order(order, a, b));
        let page = asked.page(rows, |row| row.name.as_str());
        DiskRows {
            total: page.total,
            next: page.last_before_more().map(|row| row.name.clone()),
            rows: page.rows,
        }
    }
}

fn vm_row(name: &Name, looks: &[Look<'_>]) -> VmRow {
    let (mut times, mut found, mut blocks) = (RequestTimes::default(), 0, 0);
    let (mut reads, mut writes, mut dirty_bytes, mut cached_blocks) = (0, 0, 0, 0);
    for (disk, _) in looks.iter().filter_map(|look| look.served) {
        times.guest.read.add(&disk.guest_latency.read);
        times.origin.read.add(&disk.origin_latency.read);
        let (hits, read) = found_of_read(disk);
        found += hits;
        blocks += read;
        reads += disk.stats.read_requests;
        writes += disk.stats.write_requests;
        dirty_bytes += disk.dirty.distinct.get();
        cached_blocks += disk.stats.cached_blocks;
    }
    let findings = looks.iter().filter_map(|look| health::of_disk(*look));
    let worst = findings.max_by_key(|finding| finding.severity);
    VmRow {
        name: name.clone(),
        disks: looks.len() as u64,
        trouble: worst.map(|finding| finding.sentence),
        read_requests: reads,
        write_requests: writes,
        hit_ratio: (blocks > 0).then(|| real(found) / real(blocks)),
        read: quantiles(&times.guest.read),
        origin_read: quantiles(&times.origin.read),
        dirty_bytes,
        cached_blocks,
    }
}

fn vm_order(order: VmOrder, a: &VmRow, b: &VmRow) -> Ordering {
    let by_p99 = || {
        largest(
            (&a.read.p99_seconds, &a.name),
            (&b.read.p99_seconds, &b.name),
        )
    };
    let misses = |row: &VmRow| row.hit_ratio.map_or(-1.0, |ratio| 1.0 - ratio);
    match order {
        VmOrder::Worst => trouble_first(a.trouble.as_ref(), b.trouble.as_ref()).then_with(by_p99),
        VmOrder::Name => a.name.cmp(&b.name),
        VmOrder::P99 => by_p99(),
        VmOrder::Hits => largest((&misses(a), &a.name), (&misses(b), &b.name)),
        VmOrder::Reads => largest((&a.read_requests, &a.name), (&b.read_requests, &b.name)),
        VmOrder::Dirty => largest((&a.dirty_bytes, &a.name), (&b.dirty_bytes, &b.name)),
        VmOrder::Flash => largest((&a.cached_blocks, &a.name), (&b.cached_blocks, &b.name)),
    }
}

fn trouble_first(a: Option<&String>, b: Option<&String>) -> Ordering {
    b.is_some().cmp(&a.is_some())
}

fn disk_row(look: Look<'_>) -> DiskRow {
    let config = &look.entry.config;
    let trouble = health::of_disk(look).map(|finding| finding.sentence);
    let bare = DiskRow {
        name: config.name.clone(),
        vm: look.entry.vm(),
        state: look.entry.phase.state(),
        write_policy: config.write_policy,
        trouble,
        destage: None,
        dirty_bytes: 0,
        log_bytes: 0,
        log_bytes_max: None,
        oldest_seconds: None,
        destaged_bytes: 0,
        stalled_writes: 0,
    };
    let Some((disk, now)) = look.served else {
        return bare;
    };
    let (dirty, keeps) = (&disk.dirty, keeps(disk));
    DiskRow {
        write_policy: disk.policy.into(),
        destage: keeps.then(|| destage(dirty.state, now).0),
        dirty_bytes: dirty.distinct.get(),
        log_bytes: dirty.logged.get(),
        log_bytes_max: keeps.then(|| disk.write_back.dirty_max.get()),
        oldest_seconds: dirty.oldest.map(seconds),
        destaged_bytes: dirty.destaged.get(),
        stalled_writes: dirty.stalls,
        ..bare
    }
}

fn disk_order(order: DiskOrder, a: &DiskRow, b: &DiskRow) -> Ordering {
    let age = |row: &DiskRow| row.oldest_seconds.unwrap_or(-1.0);
    let by_age = || largest((&age(a), &a.name), (&age(b), &b.name));
    match order {
        DiskOrder::Worst => trouble_first(a.trouble.as_ref(), b.trouble.as_ref()).then_with(by_age),
        DiskOrder::Name => a.name.cmp(&b.name),
        DiskOrder::Dirty => largest((&a.dirty_bytes, &a.name), (&b.dirty_bytes, &b.name)),
        DiskOrder::Age => by_age(),
    }
}
