//! `hearth overview`: whether all is well, what to do if not, and what the cache is worth.

use crate::terminal::facts;
use crate::terminal::quantity;
use api::events::Severity;
use api::overview::{Overview, Quantiles};
use std::fmt::{self, Write};
use units::BLOCK_BYTES;
use units::number::real;

/// An overview as text.
pub(super) fn write(out: &mut String, seen: &Overview) -> fmt::Result {
    let health = &seen.health;
    writeln!(out, "{}", health.sentence)?;
    if let Some(remedy) = &health.remedy {
        writeln!(out, "  do: {remedy}")?;
    }
    for finding in health.findings.iter().skip(1) {
        let severity = match finding.severity {
            Severity::Info => "note",
            Severity::Warning => "warning",
            Severity::Problem => "problem",
        };
        writeln!(out, "{severity}: {}", finding.sentence)?;
        writeln!(out, "  do: {}", finding.remedy)?;
    }
    if health.more > 0 {
        writeln!(out, "{} more are not shown", health.more)?;
    }
    writeln!(out)?;
    facts(out, &figures(seen))
}

fn figures(seen: &Overview) -> Vec<(&'static str, String)> {
    let bytes = quantity::bytes;
    let (reads, dirty, flash) = (&seen.reads, &seen.dirty, &seen.flash);
    let oldest = dirty.oldest_seconds.map_or_else(String::new, |oldest| {
        format!(", the oldest for {}", quantity::time(oldest))
    });
    let budget = flash
        .budget_day_bytes
        .map_or_else(String::new, |budget| format!(" of {}", bytes(budget)));
    let blocks = |blocks: u64| bytes(blocks.saturating_mul(BLOCK_BYTES));
    vec![
        (
            "origin reads saved",
            format!(
                "{}: {} read, {} from origins",
                part(reads.saved_ratio()),
                bytes(reads.bytes),
                bytes(reads.origin_bytes)
            ),
        ),
        ("hits of reads", part(reads.hit_ratio())),
        ("guests' reads", times(&seen.latency.guest_read)),
        ("origins' reads", times(&seen.latency.origin_read)),
        ("guests' writes", times(&seen.latency.guest_write)),
        ("origins' writes", times(&seen.latency.origin_write)),
        (
            "waiting for origins",
            format!(
                "{} of {}{oldest}",
                bytes(dirty.bytes),
                quantity::counted(dirty.disks, "disk")
            ),
        ),
        (
            "written in a day",
            format!("{}{budget}", bytes(flash.written_day_bytes)),
        ),
        (
            "on flash",
            format!(
                "{} of {}",
                blocks(flash.cached_blocks),
                blocks(flash.blocks_max)
            ),
        ),
        (
            "serving",
            format!(
                "{} of {}, {}",
                quantity::counted(seen.disks, "disk"),
                quantity::counted(seen.vms, "VM"),
                quantity::counted(seen.images, "base image")
            ),
        ),
    ]
}

fn part(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1}%", 100.0 * ratio))
}

fn times(of: &Quantiles) -> String {
    if of.count == 0 {
        return "-".to_owned();
    }
    format!(
        "p50 {} p99 {} of {:.0}",
        quantity::time(of.p50_seconds),
        quantity::time(of.p99_seconds),
        real(of.count)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::events::About;
    use api::overview::{DirtySums, Finding, FlashSums, Health, LatencySums, ReadSums};

    #[test]
    fn trouble_comes_before_the_figures_with_what_to_do() {
        let finding = |sentence: &str| Finding {
            severity: Severity::Problem,
            about: About::default(),
            sentence: sentence.to_owned(),
            remedy: "mend it".to_owned(),
        };
        let seen = Overview {
            health: Health {
                severity: Severity::Problem,
                sentence: "Disk 'a' is locked. One more thing is wrong.".to_owned(),
                remedy: Some("look at it".to_owned()),
                findings: vec![finding("Disk 'a' is locked."), finding("Disk 'b' waits.")],
                more: 0,
            },
            cluster: None,
            version: "0".to_owned(),
            uptime_seconds: 1.0,
            disks: 2,
            vms: 1,
            images: 0,
            reads: ReadSums {
                blocks: 4,
                found_blocks: 1,
                bytes: 1 << 20,
                origin_bytes: 1 << 18,
            },
            latency: LatencySums::default(),
            dirty: DirtySums::default(),
            flash: FlashSums::default(),
        };
        let mut text = String::new();
        write(&mut text, &seen).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "  do: look at it");
        assert_eq!(lines[2..4], ["problem: Disk 'b' waits.", "  do: mend it"]);
        assert!(
            text.contains("75.0%: 1.00MiB read, 256KiB from origins"),
            "{text}"
        );
    }
}
