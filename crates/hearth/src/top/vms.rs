//! What VMs and base images did between two looks, and what they have of the flash.

use super::interval::Look;
use crate::terminal::Side;
use crate::terminal::quantity::{self, bytes, count, percent, rate};
use api::resources::{Resources, VmUsage};
use api::vms::{Prefetch, Share, Vms};
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
    /// Blocks read that were in memory.
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
    /// How many, by why.
    pub refused_blocks: BTreeMap<String, u64>,
    /// What became of guesses of what it reads next; none where nothing is guessed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Ahead>,
    /// Share of the host's processors that the VM's processes use, 0 to 1, on all caches; none unless a monitor says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// Memory of the host that they have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// What became of guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ahead {
    /// Blocks that were fetched into memory.
    pub fetched_blocks: u64,
    /// Fetched blocks that were read.
    pub used_blocks: u64,
    /// Fetched blocks that left unread.
    pub wasted_blocks: u64,
    /// Guesses that were not worth their price.
    pub refused_guesses: u64,
    /// Guesses that gave way to the VM's own reads.
    pub dropped_guesses: u64,
}

impl Ahead {
    fn between(before: Option<&Share>, now: &Share) -> Option<Self> {
        let (before, now) = (before.and_then(|share| share.prefetch), now.prefetch?);
        let change =
            |of: fn(&Prefetch) -> u64| of(&now).saturating_sub(before.as_ref().map_or(0, of));
        Some(Self {
            fetched_blocks: change(|of| of.fetched_blocks),
            used_blocks: change(|of| of.used_blocks),
            wasted_blocks: change(|of| of.wasted_blocks),
            refused_guesses: change(|of| of.refused_guesses),
            dropped_guesses: change(|of| of.dropped_guesses),
        })
    }
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
        refused_blocks: refused(before, now),
        prefetch: Ahead::between(before, now),
        cpu_share: None,
        memory_bytes: None,
    }
}

/// The blocks that were not let in, by why.
fn refused(before: Option<&Share>, now: &Share) -> BTreeMap<String, u64> {
    let reasons = now.admission.refused_blocks.iter();
    let changes = reasons.map(|(why, now)| {
        let before = before.and_then(|share| share.admission.refused_blocks.get(why));
        (why.clone(), now.saturating_sub(*before.unwrap_or(&0)))
    });
    changes.filter(|(_, blocks)| *blocks > 0).collect()
}

/// The columns: heading, width, side.
pub(super) const COLUMNS: [(&str, u16, Side); 17] = [
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
    ("mostly why", 12, Side::Left),
    ("ahead/s", 9, Side::Right),
    ("precision", 9, Side::Right),
    ("wasted/s", 9, Side::Right),
    ("unfetched/s", 11, Side::Right),
    ("cpu", 6, Side::Right),
    ("mem", 8, Side::Right),
];

/// The columns of which a monitor tells.
const OF_MONITOR: [usize; 2] = [15, 16];
/// The columns of guesses.
const OF_GUESSES: [usize; 4] = [11, 12, 13, 14];

/// The columns by what a viewer would miss most; a narrow terminal has as many as fit.
const BY_WORTH: [usize; 17] = [0, 2, 3, 6, 7, 15, 16, 5, 8, 9, 4, 12, 11, 13, 14, 10, 1];

/// The columns that these rows have, by what a viewer would miss most.
pub(super) fn by_worth(rows: &[VmRow]) -> Vec<usize> {
    let is_told = rows.iter().any(|row| row.cpu_share.is_some());
    let is_guessed = rows.iter().any(|row| row.prefetch.is_some());
    let columns = BY_WORTH.into_iter();
    columns
        .filter(|at| is_told || !OF_MONITOR.contains(at))
        .filter(|at| is_guessed || !OF_GUESSES.contains(at))
        .collect()
}

/// The cells of a row, for an interval of so many seconds.
pub(super) fn cells(row: &VmRow, seconds: f64) -> [String; 17] {
    let read = row.flash_hit_blocks + row.memory_hit_blocks + row.miss_blocks;
    let size = |blocks: u64| bytes(blocks.saturating_mul(units::BLOCK_BYTES));
    let dash = || "-".to_owned();
    let mostly = row.refused_blocks.iter().max_by_key(|(_, blocks)| **blocks);
    let guesses = |of: fn(&Ahead) -> u64| {
        let by_second = |prefetch| count(real(of(prefetch)) / seconds);
        row.prefetch.as_ref().map_or_else(dash, by_second)
    };
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
        mostly.map_or_else(dash, |(why, _)| why.clone()),
        guesses(|of| of.fetched_blocks),
        row.prefetch.map_or_else(dash, |of| {
            percent(of.used_blocks, of.used_blocks + of.wasted_blocks)
        }),
        guesses(|of| of.wasted_blocks),
        guesses(|of| of.refused_guesses + of.dropped_guesses),
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
        let refused = &mut share.admission.refused_blocks;
        refused.insert("budget".to_owned(), 6);
        let prefetch = share.prefetch.as_mut().unwrap();
        prefetch.fetched_blocks += 100;
        prefetch.used_blocks += 30;
        prefetch.wasted_blocks += 10;
        prefetch.refused_guesses += 6;
        prefetch.dropped_guesses += 2;
        let rows = between(&before, &now, 2.0);
        assert_eq!(rows.len(), 2);
        let row = &rows[0];
        assert_eq!((row.vm.as_str(), row.kind), ("web", "vm"));
        assert_eq!(row.reads_per_second, 100.0);
        let hits = (row.flash_hit_blocks, row.memory_hit_blocks, row.miss_blocks);
        assert_eq!(hits, (150, 10, 40));
        assert_eq!(row.flash_written_bytes_per_second, 4096.0);
        assert_eq!(row.refused_blocks_per_second, 3.0);
        let budget = BTreeMap::from([("budget".to_owned(), 6)]);
        assert_eq!(
            row.refused_blocks, budget,
            "what was refused before is not told"
        );
        let shown = ["budget", "50", "75.0%", "5", "4"];
        assert_eq!(cells(row, 2.0)[10..15], shown);
        assert_eq!(rows[1].kind, "image");
        assert_eq!(rows[1].reads_per_second, 0.0);
    }

    #[test]
    fn guesses_have_columns_where_something_is_guessed() {
        let (before, now) = two_looks();
        let mut rows = between(&before.vms, &now, 1.0);
        assert!(by_worth(&rows).contains(&OF_GUESSES[0]));
        for row in &mut rows {
            row.prefetch = None;
        }
        assert!(OF_GUESSES.iter().all(|at| !by_worth(&rows).contains(at)));
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
        assert_eq!(cells(&rows[0], 1.0)[15..], ["12.5%", "4.00GiB"]);
        now.resources.age_seconds = Some(60.0);
        assert_eq!(columns(&now), COLUMNS.len() - 2, "it has stopped");
    }
}
