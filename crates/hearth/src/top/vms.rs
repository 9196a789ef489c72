//! What VMs and base images did between two looks, and what they have of the flash.

use crate::terminal::Side;
use crate::terminal::quantity::{bytes, count, percent, rate};
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
pub(super) fn between(before: &Vms, now: &Vms, seconds: f64) -> Vec<VmRow> {
    let before = shares(before);
    let mut rows: Vec<VmRow> = shares(now)
        .into_iter()
        .map(|(key, share)| row(key, before.get(&key).copied(), share, seconds))
        .collect();
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
    }
}

/// The columns: heading, width, side.
pub(super) const COLUMNS: [(&str, u16, Side); 10] = [
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
];

/// The columns by what a viewer would miss most; a narrow terminal has as many as fit.
pub(super) const BY_WORTH: [usize; 10] = [0, 2, 3, 6, 7, 5, 8, 9, 4, 1];

pub(super) fn cells(row: &VmRow) -> [String; 10] {
    let read = row.flash_hit_blocks + row.memory_hit_blocks + row.miss_blocks;
    let size = |blocks: u64| bytes(blocks.saturating_mul(units::BLOCK_BYTES));
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
    ]
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the figures are chosen to be exact")]
mod tests {
    use super::*;
    use api::samples;

    #[test]
    fn a_vm_counts_what_it_did_in_the_interval() {
        let before = samples::vms();
        let mut now = before.clone();
        let share = &mut now.vms[0].shares[0];
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
}
