//! Answers about VMs and base images as text.

use crate::api::vms::{ImageRead, ImageStatus, VmStatus, Vms};
use crate::cli::quantity;
use crate::cli::table::{Side, Table, facts};
use crate::config::Name;
use std::fmt::{self, Write};

/// `hearth vm list`.
pub(super) fn list(out: &mut String, vms: &Vms) -> fmt::Result {
    let mut table = Table::new(&[
        ("vm", Side::Left),
        ("disks", Side::Right),
        ("held", Side::Right),
        ("read hits", Side::Right),
        ("flash written", Side::Right),
        ("images", Side::Left),
    ]);
    for vm in &vms.vms {
        let images: Vec<&str> = vm.images.iter().map(|used| used.image.as_str()).collect();
        table.row(vec![
            vm.name.to_string(),
            vm.disks.len().to_string(),
            blocks(vm.counters.cached_blocks),
            hits(vm.counters.read_block_hits, vm.counters.read_block_misses),
            quantity::bytes(vm.counters.flash_written_bytes),
            images.join(","),
        ]);
    }
    write!(out, "{table}")?;
    if vms.images.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[
        ("image", Side::Left),
        ("vms", Side::Right),
        ("held", Side::Right),
        ("read hits", Side::Right),
        ("flash written", Side::Right),
        ("saved by sharing", Side::Right),
    ]);
    for image in &vms.images {
        let counters = &image.counters;
        table.row(vec![
            image.name.to_string(),
            image.readers.len().to_string(),
            blocks(image.cached_blocks),
            hits(counters.read_block_hits, counters.read_block_misses),
            quantity::bytes(counters.flash_written_bytes),
            blocks(image.saved_blocks),
        ]);
    }
    write!(out, "\n{table}")
}

fn blocks(count: u64) -> String {
    quantity::bytes(count.saturating_mul(units::BLOCK_BYTES))
}

fn hits(hits: u64, misses: u64) -> String {
    quantity::percent(hits, hits + misses)
}

/// `hearth vm show` of a VM.
pub(super) fn vm(out: &mut String, vm: &VmStatus) -> fmt::Result {
    let names: Vec<&str> = vm.disks.iter().map(Name::as_str).collect();
    let counters = &vm.counters;
    facts(
        out,
        &[
            ("vm", vm.name.to_string()),
            (
                "disks",
                if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                },
            ),
            ("settings", settings(vm)),
            ("held", blocks(counters.cached_blocks)),
            (
                "read hits",
                hits(counters.read_block_hits, counters.read_block_misses),
            ),
            (
                "flash written",
                quantity::bytes(counters.flash_written_bytes),
            ),
            ("origin read", quantity::bytes(counters.origin_read_bytes)),
        ],
    )?;
    let used = vm
        .images
        .iter()
        .map(|used| (used.export.as_str(), &used.read));
    reads(out, "export", used)
}

fn settings(vm: &VmStatus) -> String {
    let settings = &vm.settings;
    let ceiling = settings
        .ceiling_bytes
        .map_or("none".to_owned(), quantity::bytes);
    let changed = if vm.changed.is_empty() {
        String::new()
    } else {
        format!(" (set while running: {})", vm.changed.join(", "))
    };
    format!(
        "weight {}, floor {}, ceiling {ceiling}{changed}",
        settings.weight,
        quantity::bytes(settings.floor_bytes)
    )
}

/// `hearth vm show` of a base image.
pub(super) fn image(out: &mut String, image: &ImageStatus) -> fmt::Result {
    let counters = &image.counters;
    facts(
        out,
        &[
            ("image", image.name.to_string()),
            ("cache", image.cache.to_string()),
            (
                "held",
                format!("{}, once for all VMs", blocks(image.cached_blocks)),
            ),
            (
                "read hits",
                hits(counters.read_block_hits, counters.read_block_misses),
            ),
            (
                "flash written",
                quantity::bytes(counters.flash_written_bytes),
            ),
            ("origin read", quantity::bytes(counters.origin_read_bytes)),
            (
                "saved by sharing",
                format!("{} not read from the origin", blocks(image.saved_blocks)),
            ),
        ],
    )?;
    let readers = image.readers.iter();
    reads(
        out,
        "vm",
        readers.map(|reader| (reader.vm.as_str(), &reader.read)),
    )
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
