//! What `hearth recover` says.

use super::places::Place;
use crate::offline::recover::{Verified, sizes};
use crate::terminal::quantity;
use crate::terminal::{Side, Table};
use cache::LogReport;
use serde::Serialize;
use std::fmt::{self, Write};

/// What is on a flash.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    /// The flash.
    pub(super) flash: String,
    /// Which cache.
    pub(super) cache: String,
    /// A part of its tables is damaged.
    pub(super) in_doubt: bool,
    /// The disks whose origins may lack something.
    pub(super) disks: Vec<ListedLog>,
}

/// What is on flash of a disk.
#[derive(Debug, Serialize)]
pub(super) struct ListedLog {
    pub(super) disk: String,
    pub(super) id: String,
    pub(super) size_bytes: u64,
    pub(super) epoch: u64,
    pub(super) dirty_bytes: u64,
    pub(super) erased_bytes: u64,
    pub(super) intervals: u64,
    pub(super) encrypted: bool,
    pub(super) standing: Option<&'static str>,
    pub(super) locked: Option<String>,
    pub(super) owner: Option<ListedOwner>,
    pub(super) verified: Option<Verified>,
}

/// What the owner's record says.
#[derive(Debug, Serialize)]
pub(super) struct ListedOwner {
    path: String,
    epoch: u64,
    open: bool,
    cache: String,
    cache_name: String,
    host: String,
    /// The host that has the disk, if it roams.
    holder: Option<String>,
}

impl ListedLog {
    /// A log; the place of its disk is none if it is not known what the origin is.
    pub(super) fn new(log: &LogReport, uuid: u128, place: Option<&Place>) -> Self {
        let (dirty, erased) = sizes(log);
        let owner = place.and_then(|place| place.found.as_ref());
        Self {
            disk: log.name.clone(),
            id: log.id.to_string(),
            size_bytes: log.size.get(),
            epoch: log.epoch,
            dirty_bytes: dirty.get(),
            erased_bytes: erased.get(),
            intervals: log.records.last().map_or(0, |last| last.interval + 1),
            encrypted: log.key.is_some(),
            standing: place.map(|place| place.standing(log, uuid).word()),
            locked: log.locked.map(|reason| reason.to_string()),
            owner: owner.map(|owner| ListedOwner {
                path: owner.path.display().to_string(),
                epoch: owner.record.epoch,
                open: owner.record.open,
                cache: format!("{:032x}", owner.record.cache),
                cache_name: owner.cache_name.clone(),
                host: owner.host.clone(),
                holder: owner.holder.as_ref().map(|holder| holder.host.clone()),
            }),
            verified: None,
        }
    }
}

/// `hearth recover list` and `verify`.
pub(super) fn listed(out: &mut String, listed: &Listed) -> fmt::Result {
    if listed.disks.is_empty() {
        writeln!(out, "nothing on {} waits for an origin", listed.flash)?;
    } else {
        let mut table = Table::new(&[
            ("disk", Side::Left),
            ("dirty", Side::Right),
            ("erased", Side::Right),
            ("intervals", Side::Right),
            ("epoch", Side::Right),
            ("standing", Side::Left),
            ("bytes", Side::Left),
        ]);
        for log in &listed.disks {
            table.row(vec![
                if log.disk.is_empty() {
                    log.id.clone()
                } else {
                    log.disk.clone()
                },
                quantity::bytes(log.dirty_bytes),
                quantity::bytes(log.erased_bytes),
                log.intervals.to_string(),
                log.epoch.to_string(),
                log.standing.unwrap_or("origin unknown").to_owned(),
                bytes(log),
            ]);
        }
        write!(out, "{table}")?;
    }
    for log in &listed.disks {
        let holder = log.owner.as_ref().and_then(|owner| owner.holder.as_ref());
        if let (Some("kept"), Some(host)) = (log.standing, holder) {
            writeln!(
                out,
                "{} is kept for another host: '{host}' has the disk",
                log.disk
            )?;
        }
        if let Some(reason) = &log.locked {
            writeln!(out, "{} is locked: {reason}", log.disk)?;
        }
    }
    if listed.in_doubt {
        writeln!(out, "a part of the flash's tables is damaged")?;
    }
    Ok(())
}

fn bytes(log: &ListedLog) -> String {
    match &log.verified {
        None => "-".to_owned(),
        Some(found) if found.blocks_bad == 0 => "whole".to_owned(),
        Some(found) => format!(
            "{} of {} wrong",
            found.blocks_bad,
            found.blocks_bad + found.blocks_good
        ),
    }
}

/// What was done, or would be.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    /// `destage`, `export` or `drop`.
    pub(super) action: &'static str,
    pub(super) disk: String,
    pub(super) dry_run: bool,
    /// Bytes of blocks that were brought, written or given up.
    pub(super) bytes: u64,
    /// Blocks that were left out because they are not what was written.
    pub(super) blocks_bad: u64,
    /// Where to.
    pub(super) target: String,
    /// The period with which the owner's record was closed.
    pub(super) closed_epoch: Option<u64>,
}

/// The same in words.
pub(super) fn done(out: &mut String, done: &Done) -> fmt::Result {
    let bytes = quantity::bytes(done.bytes);
    let would = if done.dry_run { "would be " } else { "" };
    let Done { disk, target, .. } = done;
    match done.action {
        "drop" => writeln!(out, "{bytes} of {disk} {would}given up: {target}")?,
        "export" => writeln!(out, "{bytes} of {disk} {would}written to {target}")?,
        _ => writeln!(out, "{bytes} of {disk} {would}brought to {target}")?,
    }
    if done.blocks_bad > 0 {
        writeln!(
            out,
            "{} blocks are not what was written, and were left out",
            done.blocks_bad
        )?;
    }
    if let Some(epoch) = done.closed_epoch {
        writeln!(
            out,
            "its owner's record is closed with epoch {epoch}: what flash has of it is void"
        )?;
    }
    Ok(())
}
