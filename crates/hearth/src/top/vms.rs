//! What VMs and base images did between two looks, and what they have of the flash.

use super::interval::Look;
use crate::terminal::Side;
use crate::terminal::quantity::{self, bytes, count, percent, rate};
use api::resources::{Resources, VmUsage};
use api::vms::{Share, Vms};
use serde::Serialize;
use std::collections::BTreeMap;
use units::number::real;

/// What a VM or image did on a cache, by second, and what it has there now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VmRow {
    /// Its name.
    pub vm: String,
    /// `vm` or `image`.
    pub kind: &'static str,
    /// The cache.
    pub cache: String,
    /// Blocks read.
    pub reads_per_second: f64,
    /// Blocks read that were on flash.
    pub flash_hit_blocks: u64,
    /// Blocks read that were in memory: staged.
    pub memory_hit_blocks: u64,
    /// Blocks read that were in neither.
    pub miss_blocks: u64,
    /// Blocks that it used again within its window.
    pub demand_blocks: u64,
    /// Flash that it is to have.
    pub share_blocks: u64,
    /// Flash that it has.
    pub held_blocks: u64,
    /// Bytes written to flash for it, whatever for.
    pub flash_written_bytes_per_second: f64,
    /// Blocks that were not let in.
    pub refused_blocks_per_second: f64,
    /// Share of the host's processors that the VM's processes use, 0 to 1, on all caches; none unless a monitor says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// Memory of the host that they have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// A sample that is older than so many of its own times is of a monitor that has stopped,
const SAMPLES_LATE_MAX: f64 = 3.0;
/// unless it is younger than this: on a busy host a monitor that reads often may be late.
const AGE_SECONDS_MIN: f64 = 10.0;

/// What each VM uses, if a monitor says so now.
fn used(resources: &Resources) -> BTreeMap<&str, &VmUsage> {
    let (Some(age), Some(last)) = (resources.age_seconds, resources.samples.last()) else {
        return BTreeMap::new();
    };
    let is_fresh = age <= (SAMPLES_LATE_MAX * last.seconds).max(AGE_SECONDS_MIN);
    let vms = last.vms.iter().filter(|vm| is_fresh && vm.processes > 0);
    vms.map(|vm| (vm.vm.as_str(), vm)).collect()
}

type Key<'a> = (&'a str, &'static str, &'a str);

fn shares(vms: &Vms) -> BTreeMap<Key<'_>, &Share> {
    let of_vms = vms.vms.iter().flat_map(|vm| {
        let shares = vm.shares.iter();
        shares.map(|share| ((vm.name.as_str(), "vm", share.cache.as_str()), share))
    });
    let of_images = vms.images.iter().filter_map(|image| {
        let share = image.share.as_ref()?;
        Some(((image.name.as_str(), "image", share.cache.as_str()), share))
    });
    of_vms.chain(of_images).collect()
}

/// A row of each VM and image on each cache, the most reads first. One that is new, or whose counters
/// began again, counts from zero.
pub(super) fn between(before: &Vms, now: &Look, seconds: f64) -> Vec<VmRow> {
    let (before, used) = (shares(before), used(&now.resources));
    let rows = shares(&now.vms).into_iter().map(|(key, share)| {
        let used = used.get(key.0).filter(|_| key.1 == "vm");
        VmRow {
            cpu_share: used.map(|vm| vm.cpu_share),
            memory_bytes: used.map(|vm| vm.memory_bytes),
            ..row(key, before.get(&key).copied(), share, seconds)
        }
    });
    let mut rows: Vec<VmRow> = rows.collect();
    rows.sort_by(|a, b| b.reads_per_second.total_cmp(&a.reads_per_second));
    rows
}

fn row(key: Key<'_>, before: Option<&Share>, now: &Share, seconds: f64) -> VmRow {
    let change = |of: fn(&Share) -> u64| of(now).saturating_sub(before.map_or(0, of));
    let rate = |of: fn(&Share) -> u64| real(change(of)) / seconds;
    let flash = change(|share| share.blocks.flash_hits);
    let memory = change(|share| share.blocks.memory_hits);
    let (vm, kind, cache) = key;
    VmRow {
        vm: vm.to_owned(),
        kind,
        cache: cache.to_owned(),
        reads_per_second: rate(|share| share.blocks.reads),
        flash_hit_blocks: flash,
        memory_hit_blocks: memory,
        miss_blocks: change(|share| share.blocks.reads).saturating_sub(flash + memory),
        demand_blocks: now.demand.reused_blocks,
        share_blocks: now.share_blocks,
        held_blocks: now.held_blocks,
        flash_written_bytes_per_second: rate(|share| share.flash_written_bytes.total()),
        refused_blocks_per_second: rate(|share| share.admission.refused_blocks.values().sum()),
        cpu_share: None,
        memory_bytes: None,
    }
}

/// The columns: heading, width, side.
pub(super) const COLUMNS: [(&str, u16, Side); 12] = [
    ("vm", 16, Side::Left),
    ("cache", 10, Side::Left),
    ("blocks/s", 9, Side::Right),
    ("hit", 6, Side::Right),
    ("ram", 6, Side::Right),
    ("demand", 8, Side::Right),
    ("share", 8, Side::Right),
    ("held", 8, Side::Right),
    ("flash w/s", 9, Side::Right),
    ("refused/s", 9, Side::Right),
    ("cpu", 6, Side::Right),
    ("mem", 8, Side::Right),
];

/// The columns of which a monitor tells.
const OF_MONITOR: [usize; 2] = [10, 11];

/// The columns by what a viewer would miss most; a narrow terminal has as many as fit.
const BY_WORTH: [usize; 12] = [0, 2, 3, 6, 7, 10, 11, 5, 8, 9, 4, 1];

/// The columns that these rows have, by what a viewer would miss most.
pub(super) fn by_worth(rows: &[VmRow]) -> Vec<usize> {
    let is_told = rows.iter().any(|row| row.cpu_share.is_some());
    let columns = BY_WORTH.into_iter();
    columns
        .filter(|at| is_told || !OF_MONITOR.contains(at))
        .collect()
}

pub(super) fn cells(row: &VmRow) -> [String; 12] {
    let read = row.flash_hit_blocks + row.memory_hit_blocks + row.miss_blocks;
    let size = |blocks: u64| bytes(blocks.saturating_mul(units::BLOCK_BYTES));
    let dash = || "-".to_owned();
    let name = match row.kind {
        "image" => format!("{} (image)", row.vm),
        _ => row.vm.clone(),
    };
    [
        name,
        row.cache.clone(),
        count(row.reads_per_second),
        percent(row.flash_hit_blocks, read),
        percent(row.memory_hit_blocks, read),
        size(row.demand_blocks),
        size(row.share_blocks),
        size(row.held_blocks),
        rate(row.flash_written_bytes_per_second),
        count(row.refused_blocks_per_second),
        row.cpu_share.map_or_else(dash, quantity::share),
        row.memory_bytes.map_or_else(dash, bytes),
    ]
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the figures are chosen to be exact")]
mod tests {
    use super::super::interval::tests::two_looks;
    use super::*;
    use api::samples;

    #[test]
    fn a_vm_counts_what_it_did_in_the_interval() {
        let (look, mut now) = two_looks();
        let before = look.vms;
        let share = &mut now.vms.vms[0].shares[0];
        share.blocks.reads += 200;
        share.blocks.flash_hits += 150;
        share.blocks.memory_hits += 10;
        share.flash_written_bytes.reclaim += 8192;
        share
            .admission
            .refused_blocks
            .insert("budget".to_owned(), 6);
        let rows = between(&before, &now, 2.0);
        assert_eq!(rows.len(), 2);
        let row = &rows[0];
        assert_eq!((row.vm.as_str(), row.kind), ("web", "vm"));
        assert_eq!(row.reads_per_second, 100.0);
        let hits = (row.flash_hit_blocks, row.memory_hit_blocks, row.miss_blocks);
        assert_eq!(hits, (150, 10, 40));
        assert_eq!(row.flash_written_bytes_per_second, 4096.0);
        assert_eq!(row.refused_blocks_per_second, 3.0);
        assert_eq!(rows[1].kind, "image");
        assert_eq!(rows[1].reads_per_second, 0.0);
    }

    #[test]
    fn what_a_vm_uses_is_shown_while_a_monitor_runs() {
        let (before, mut now) = two_looks();
        let columns = |look: &Look| by_worth(&between(&before.vms, look, 1.0)).len();
        assert_eq!(columns(&now), COLUMNS.len() - 2);
        now.resources = samples::resources();
        now.resources.samples[0].vms[0].vm = "web".to_owned();
        assert_eq!(columns(&now), COLUMNS.len());
        let mut rows = between(&before.vms, &now, 1.0);
        rows.sort_by_key(|row| row.kind != "vm");
        let of = |row: &VmRow| (row.kind, row.cpu_share, row.memory_bytes);
        let expected = [("vm", Some(0.125), Some(4 << 30)), ("image", None, None)];
        assert_eq!([of(&rows[0]), of(&rows[1])], expected);
        assert_eq!(cells(&rows[0])[10..], ["12.5%", "4.00GiB"]);
        now.resources.age_seconds = Some(60.0);
        assert_eq!(columns(&now), COLUMNS.len() - 2, "it has stopped");
    }
}
