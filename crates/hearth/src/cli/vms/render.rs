//! Answers about VMs and base images as text.

use super::{curve, guest};
use crate::terminal::quantity;
use crate::terminal::{Side, Table, facts};
use api::vms::{ImageRead, ImageStatus, Prefetch, Share, VmCounters, VmStatus, Vms, WriteBudget};
use configuration::Name;
use std::fmt::{self, Write};
use units::number::real;

/// A line of `hearth vm list`: sums over caches.
#[derive(Default)]
struct Line {
    demand: u64,
    predicted: Option<f64>,
    share: u64,
    held: u64,
    reads: u64,
    flash_hits: u64,
    memory_hits: u64,
    written: u64,
    budget: Option<u64>,
    refused: u64,
}

impl Line {
    fn of<'a>(shares: impl IntoIterator<Item = &'a Share>) -> Self {
        let mut line = Self::default();
        for share in shares {
            line.demand += share.demand.reused_blocks;
            if let Some(predicted) = share.demand.predicted_blocks {
                line.predicted = Some(line.predicted.unwrap_or(0.0) + predicted);
            }
            line.share += share.share_blocks;
            line.held += share.held_blocks;
            line.reads += share.blocks.reads;
            line.flash_hits += share.blocks.flash_hits;
            line.memory_hits += share.blocks.memory_hits;
            line.written += share.flash_written_day_bytes;
            if let Some(budget) = &share.write_budget {
                line.budget = Some(line.budget.unwrap_or(0) + budget.bytes_per_day);
            }
            line.refused += share.admission.refused_blocks.values().sum::<u64>();
        }
        line
    }

    fn cells(&self) -> [String; 8] {
        let written = quantity::bytes(self.written);
        [
            blocks(self.demand),
            self.predicted.map_or("-".to_owned(), real_blocks),
            blocks(self.share),
            blocks(self.held),
            quantity::percent(self.flash_hits, self.reads),
            quantity::percent(self.memory_hits, self.reads),
            match self.budget {
                Some(budget) => format!("{written}/{}", quantity::bytes(budget)),
                None => written,
            },
            quantity::count(real(self.refused)),
        ]
    }
}

const COLUMNS: [(&str, Side); 8] = [
    ("demand", Side::Right),
    ("next", Side::Right),
    ("share", Side::Right),
    ("held", Side::Right),
    ("hits", Side::Right),
    ("ram", Side::Right),
    ("written a day", Side::Right),
    ("refused", Side::Right),
];

/// `hearth vm list`.
pub(super) fn list(out: &mut String, vms: &Vms) -> fmt::Result {
    let mut table = Table::new(&columns(("vm", Side::Left), ("disks", Side::Right)));
    for vm in &vms.vms {
        let mut cells = vec![vm.name.to_string(), vm.disks.len().to_string()];
        if vm.shares.is_empty() {
            cells.extend(without_policy(vm.counters.cached_blocks));
        } else {
            cells.extend(Line::of(&vm.shares).cells());
        }
        table.row(cells);
    }
    write!(out, "{table}")?;
    if vms.images.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&columns(("image", Side::Left), ("vms", Side::Right)));
    for image in &vms.images {
        let mut cells = vec![image.name.to_string(), image.readers.len().to_string()];
        match &image.share {
            Some(share) => cells.extend(Line::of([share]).cells()),
            None => cells.extend(without_policy(image.cached_blocks)),
        }
        table.row(cells);
    }
    write!(out, "\n{table}")
}

fn columns(first: (&'static str, Side), second: (&'static str, Side)) -> Vec<(&'static str, Side)> {
    [first, second].into_iter().chain(COLUMNS).collect()
}

/// A line of somebody whose cache has no policy, or has not answered: only what it holds is known.
fn without_policy(held: u64) -> impl Iterator<Item = String> {
    let dash = || "-".to_owned();
    let cells = [
        dash(),
        dash(),
        dash(),
        blocks(held),
        dash(),
        dash(),
        dash(),
        dash(),
    ];
    cells.into_iter()
}

fn blocks(count: u64) -> String {
    quantity::bytes(count.saturating_mul(units::BLOCK_BYTES))
}

fn real_blocks(count: f64) -> String {
    let whole = std::time::Duration::try_from_secs_f64(count.max(0.0));
    blocks(whole.map_or(u64::MAX, |whole| whole.as_secs()))
}

fn hits(hits: u64, misses: u64) -> String {
    quantity::percent(hits, hits + misses)
}

/// `hearth vm show` of a VM.
pub(super) fn vm(out: &mut String, vm: &VmStatus) -> fmt::Result {
    let names: Vec<&str> = vm.disks.iter().map(Name::as_str).collect();
    let disks = if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    };
    let lines = [
        ("vm", vm.name.to_string()),
        ("disks", disks),
        ("settings", settings(vm)),
    ];
    let mut lines = lines.to_vec();
    if !vm.changed.is_empty() {
        lines.push(("", format!("set while running: {}", vm.changed.join(", "))));
    }
    lines.push(("memory", in_memory(&vm.counters)));
    if let Some(guest) = &vm.guest {
        lines.extend(guest::lines(guest));
    }
    facts(out, &lines)?;
    for of in &vm.shares {
        share(out, of)?;
    }
    if vm.shares.is_empty() {
        let counters = &vm.counters;
        let lines = [
            ("held", blocks(counters.cached_blocks)),
            (
                "read hits",
                hits(counters.read_block_hits, counters.read_block_misses),
            ),
            (
                "flash written",
                quantity::bytes(counters.flash_written_bytes),
            ),
        ];
        facts(out, &lines)?;
    }
    let used = vm.images.iter();
    reads(
        out,
        "export",
        used.map(|used| (used.export.as_str(), &used.read)),
    )
}

/// What is had of one cache, and why.
fn share(out: &mut String, share: &Share) -> fmt::Result {
    writeln!(out, "\non cache {}", share.cache)?;
    let mut lines = Vec::new();
    if let Some(error) = &share.error {
        lines.push(("  CLOSED", format!("nothing enters the flash: {error}")));
    }
    lines.extend([
        ("  demand", demand(share)),
        ("  share", held(share)),
        ("  reads", found(share)),
        ("  admission", admission(share)),
        ("  written", written(share)),
    ]);
    if let Some(of) = &share.prefetch {
        lines.push(("  prefetch", prefetched(of)));
        lines.push(("", not_fetched(of)));
    }
    // Without a monitor nobody weighs.
    if (share.memory_weight - 1.0).abs() > 1e-6 {
        let weight = share.memory_weight;
        lines.push((
            "  memory",
            format!("reads weigh {weight:.2} for `hot = \"frequency\"`, of a mean of 1"),
        ));
    }
    if let Some(left) = &share.write_budget {
        lines.push(("  budget", budget(left)));
    }
    facts(out, &lines)?;
    refusals(out, share)?;
    curve::draw(out, share)
}

fn demand(share: &Share) -> String {
    let demand = &share.demand;
    let next = match (demand.predicted_blocks, demand.prediction_error) {
        (Some(next), Some(error)) => {
            let off = error * 100.0;
            format!("{} foreseen (off by {off:.0}% so far)", real_blocks(next))
        }
        (Some(next), None) => format!("{} foreseen", real_blocks(next)),
        (None, _) => "nothing foreseen before the first window has ended".to_owned(),
    };
    format!(
        "{} used again of {} used in {}; {next}",
        blocks(demand.reused_blocks),
        blocks(demand.working_set_blocks),
        quantity::time(demand.window_seconds),
    )
}

fn held(share: &Share) -> String {
    format!(
        "{}, target {}; {} held",
        blocks(share.share_blocks),
        blocks(share.target_blocks),
        blocks(share.held_blocks)
    )
}

fn found(share: &Share) -> String {
    let of = &share.blocks;
    let mut text = format!(
        "{} blocks, {} found on flash, {} in memory",
        of.reads,
        quantity::percent(of.flash_hits, of.reads),
        quantity::percent(of.memory_hits, of.reads)
    );
    if of.image_reads > 0 {
        let found = quantity::percent(of.image_hits, of.image_reads);
        // Writing to a string does not fail.
        let _ = write!(text, "; {} of base images, {found} found", of.image_reads);
    }
    text
}

/// What was read from memory, by why it was there.
fn in_memory(of: &VmCounters) -> String {
    let kinds = [
        (of.read_block_staged_hits, "staged"),
        (of.read_block_hot_hits, "hot"),
        (of.read_block_ahead_hits, "ahead"),
    ];
    let blocks: u64 = kinds.iter().map(|(blocks, _)| blocks).sum();
    let kinds = kinds.map(|(blocks, kind)| format!("{blocks} {kind}"));
    format!("{blocks} blocks read from memory: {}", kinds.join(", "))
}

fn prefetched(of: &Prefetch) -> String {
    let known = of.used_blocks + of.wasted_blocks;
    let told = match of.told_blocks {
        0 => String::new(),
        some => format!(" ({some} when the guest was told)"),
    };
    format!(
        "{} blocks: {} used{told}, {} wasted, precision {}; {} of memory",
        of.fetched_blocks,
        of.used_blocks,
        of.wasted_blocks,
        quantity::percent(of.used_blocks, known),
        quantity::bytes(of.memory_bytes)
    )
}

/// The guesses that came to nothing, by why.
fn not_fetched(of: &Prefetch) -> String {
    format!(
        "{} guesses refused by price, {} dropped for the VM's own reads",
        of.refused_guesses, of.dropped_guesses
    )
}

fn admission(share: &Share) -> String {
    let of = &share.admission;
    format!(
        "{}: {} blocks let in ({} to fill), {} staged, {} of those dropped; {} of memory",
        of.policy,
        of.admitted_blocks,
        of.filled_blocks,
        of.staged_blocks,
        of.dropped_blocks,
        quantity::bytes(of.staging_bytes)
    )
}

fn written(share: &Share) -> String {
    let of = &share.flash_written_bytes;
    let causes = of
        .causes()
        .map(|(cause, bytes)| format!("{cause} {}", quantity::bytes(bytes)));
    format!(
        "{} ({}); {} in the last day",
        quantity::bytes(of.total()),
        causes.join(", "),
        quantity::bytes(share.flash_written_day_bytes)
    )
}

pub(in crate::cli) fn budget(budget: &WriteBudget) -> String {
    let per_day = quantity::bytes(budget.bytes_per_day);
    if budget.debt_bytes > 0 {
        let debt = quantity::bytes(budget.debt_bytes);
        return format!(
            "{per_day} a day; {debt} over it, so nothing is let in until that is made up for"
        );
    }
    format!(
        "{per_day} a day, at most {} at once; {} left now",
        quantity::bytes(budget.burst_bytes),
        quantity::bytes(budget.left_bytes)
    )
}

/// What each reason means to an operator.
const REASONS: [(&str, &str); 7] = [
    ("first-touch", "was not used often enough yet"),
    ("sequential", "belongs to a long sequential run"),
    ("budget", "the write budget is used up"),
    ("too-cold", "is used less than what it would push out"),
    ("too-late", "would come back only after it had left again"),
    ("write", "was written, and the policy looks at reads only"),
    (
        "unread",
        "was on flash and written again, and its copies there were not read",
    ),
];

fn refusals(out: &mut String, share: &Share) -> fmt::Result {
    let refused = &share.admission.refused_blocks;
    let all: u64 = refused.values().sum();
    if all == 0 {
        return Ok(());
    }
    let mut table = Table::new(&[
        ("  refused", Side::Left),
        ("blocks", Side::Right),
        ("", Side::Right),
        ("", Side::Left),
    ]);
    let mut rows: Vec<_> = refused.iter().filter(|(_, blocks)| **blocks > 0).collect();
    rows.sort_by(|a, b| b.1.cmp(a.1));
    for (reason, blocks) in rows {
        let meaning = REASONS.iter().find(|(name, _)| name == reason);
        table.row(vec![
            format!("  {reason}"),
            blocks.to_string(),
            quantity::percent(*blocks, all),
            meaning.map_or("", |(_, meaning)| meaning).to_owned(),
        ]);
    }
    write!(out, "\n{table}")
}

fn settings(vm: &VmStatus) -> String {
    let settings = &vm.settings;
    let size = |bytes: Option<u64>| bytes.map_or("none".to_owned(), quantity::bytes);
    let mut text = format!(
        "weight {}, floor {}, ceiling {}, write budget {}, admission {}",
        settings.weight,
        quantity::bytes(settings.floor_bytes),
        size(settings.ceiling_bytes),
        settings.write_budget.as_deref().unwrap_or("none"),
        settings.admission.as_deref().unwrap_or("the cache's"),
    );
    if settings.high_priority {
        text.push_str(", high priority");
    }
    text
}

/// `hearth vm show` of a base image.
pub(super) fn image(out: &mut String, image: &ImageStatus) -> fmt::Result {
    let mut lines = vec![
        ("image", image.name.to_string()),
        ("cache", image.cache.to_string()),
        (
            "held",
            format!("{}, once for all VMs", blocks(image.cached_blocks)),
        ),
        (
            "saved",
            format!(
                "{} that a VM would have read from the origin and another had brought in",
                blocks(image.saved_blocks)
            ),
        ),
        ("memory", in_memory(&image.counters)),
    ];
    let sharing = image
        .share
        .as_ref()
        .and_then(|share| share.sharing.as_ref());
    if let Some(sharing) = sharing {
        let saved = blocks(sharing.saved_blocks);
        let shared = blocks(sharing.shared_blocks);
        lines.push((
            "shared",
            format!(
                "{shared} are used by two VMs or more; copies for each would take {saved} more"
            ),
        ));
    }
    facts(out, &lines)?;
    let readers = image.readers.iter();
    reads(
        out,
        "vm",
        readers.map(|reader| (reader.vm.as_str(), &reader.read)),
    )?;
    if let Some(sharing) = sharing.filter(|sharing| !sharing.users.is_empty()) {
        let mut table = Table::new(&[
            ("vm", Side::Left),
            ("uses", Side::Right),
            ("with others", Side::Right),
            ("falls to it", Side::Right),
        ]);
        for user in &sharing.users {
            table.row(vec![
                user.vm.clone(),
                blocks(user.used_blocks),
                blocks(user.shared_blocks),
                real_blocks(user.portion_blocks),
            ]);
        }
        write!(out, "\n{table}")?;
    }
    match &image.share {
        Some(of) => share(out, of),
        None => Ok(()),
    }
}

/// What VMs have read of images, a line each.
fn reads<'a>(
    out: &mut String,
    of: &'static str,
    reads: impl Iterator<Item = (&'a str, &'a ImageRead)>,
) -> fmt::Result {
    let mut table = Table::new(&[
        (of, Side::Left),
        ("read", Side::Right),
        ("hits", Side::Right),
        ("different", Side::Right),
        ("found there", Side::Right),
    ]);
    let mut is_empty = true;
    for (name, read) in reads {
        is_empty = false;
        table.row(vec![
            name.to_owned(),
            quantity::bytes(read.read_bytes),
            hits(read.read_block_hits, read.read_block_misses),
            blocks(read.seen_blocks),
            blocks(read.saved_blocks),
        ]);
    }
    if is_empty {
        return Ok(());
    }
    write!(out, "\n{table}")
}

/// `hearth vm set`.
pub(super) fn set(out: &mut String, vm: &VmStatus) -> fmt::Result {
    writeln!(out, "{}: {}", vm.name, settings(vm))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::samples;

    fn text<T>(render: fn(&mut String, &T) -> fmt::Result, answer: &T) -> String {
        let mut out = String::new();
        render(&mut out, answer).unwrap();
        out
    }

    #[test]
    fn the_list_of_vms_looks_as_agreed() {
        let text = text(list, &samples::vms());
        assert_eq!(text, include_str!("snapshots/vm_list.txt"));
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }

    #[test]
    fn a_vm_looks_as_agreed_and_an_image_tells_what_sharing_saves() {
        let vms = samples::vms();
        let shown = text(vm, &vms.vms[0]);
        assert_eq!(shown, include_str!("snapshots/vm_show.txt"));
        let shown = text(image, &vms.images[0]);
        for words in [
            "held    469MiB, once for all VMs",
            "saved   273MiB that a VM would have read from the origin",
            "copies for each would take 586MiB more",
            "web  400MiB  90.0%     312MiB       273MiB",
            "web  312MiB       234MiB       137MiB",
            "on cache main",
        ] {
            assert!(shown.contains(words), "{words}\n{shown}");
        }
    }

    #[test]
    fn precision_is_of_blocks_of_which_is_known_what_became_of_them() {
        assert_eq!(Prefetch::precision_of(3, 1), Some(0.75));
        assert_eq!(Prefetch::precision_of(0, 5), Some(0.0));
        assert_eq!(Prefetch::precision_of(0, 0), None);
        let of = samples::share().prefetch.unwrap();
        assert!(of.precision.is_some_and(|part| part > 0.94), "{of:?}");
        assert!(prefetched(&of).contains("precision 94.2%"));
    }

    #[test]
    fn every_reason_of_a_refusal_is_explained() {
        for reason in policy::admission::Reason::ALL {
            assert!(
                REASONS.iter().any(|(name, _)| *name == reason.name()),
                "{reason:?}"
            );
        }
    }
}
