//! The metrics of the drives under the caches. A drive under two caches has a series of each.

use super::encode::{Number, Scrape};
use super::family::{Family, Read, Series};
use api::drives::FlashDrive;
use drives::{DriveKind, Health};

const DRIVE: &[&str] = &["cache", "device"];

/// A series of each drive that has this number.
fn of<'a>(
    scrape: &'a Scrape,
    out: &mut Vec<Series<'a>>,
    value: impl Fn(&'a FlashDrive) -> Option<Number>,
) {
    for cache in &scrape.drives.caches {
        for flash in &cache.drives {
            let Some(value) = value(flash) else { continue };
            let device = flash.drive.device.as_str();
            let labels = vec![("cache", cache.cache.as_str()), ("device", device)];
            out.push(Series { labels, value });
        }
    }
}

/// The same for what the drive says of its health.
fn says<'a>(
    scrape: &'a Scrape,
    out: &mut Vec<Series<'a>>,
    value: impl Fn(&'a Health) -> Option<u64>,
) {
    of(scrape, out, |flash| {
        let health = flash.drive.smart.health()?;
        value(health).map(Number::Whole)
    });
}

/// A gauge or counter of what a drive says.
macro_rules! says {
    ($kind:ident, $name:literal, $unit:expr, $help:literal, $value:expr) => {
        Family {
            name: $name,
            unit: $unit,
            help: $help,
            labels: DRIVE,
            read: Read::$kind(|scrape, out| says(scrape, out, $value)),
        }
    };
}

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "flash_drive_smart_known",
        unit: None,
        help: "Whether the drive has said something of its health: 1 or 0",
        labels: DRIVE,
        read: Read::Gauge(|scrape, out| {
            of(scrape, out, |flash| {
                let is_known = flash.drive.smart.health().is_some();
                Some(Number::Whole(is_known.into()))
            });
        }),
    },
    Family {
        name: "flash_drive_volatile_cache",
        unit: None,
        help: "Whether the drive has a write cache that loses its content with the power: 1 or 0; absent if the kernel does not know, and for virtual disks",
        labels: DRIVE,
        read: Read::Gauge(|scrape, out| {
            of(scrape, out, |flash| {
                let is_volatile = flash.drive.has_volatile_cache?;
                let is_real = matches!(flash.drive.kind, DriveKind::Nvme | DriveKind::Scsi);
                let is_volatile = is_real.then_some(is_volatile)?;
                Some(Number::Whole(is_volatile.into()))
            });
        }),
    },
    Family {
        name: "flash_drive_concerns",
        unit: None,
        help: "What is the matter with the drive, as `hearth cache health` lists it: how many things",
        labels: DRIVE,
        read: Read::Gauge(|scrape, out| {
            of(scrape, out, |flash| {
                Some(Number::Whole(flash.concerns.len() as u64))
            });
        }),
    },
    says!(
        Gauge,
        "flash_drive_failing",
        None,
        "Whether the drive fails its own judgement or reports a critical warning: 1 or 0",
        |health| {
            let fails = health.passed == Some(false) || !health.critical_warnings.is_empty();
            Some(fails.into())
        }
    ),
    says!(
        Gauge,
        "flash_drive_used",
        Some("percent"),
        "The part of the drive's endurance that is used; may be above 100",
        |health| health.used_percent
    ),
    says!(
        Gauge,
        "flash_drive_spare",
        Some("percent"),
        "Spare blocks that the drive has left",
        |health| health.spare_percent
    ),
    says!(
        Gauge,
        "flash_drive_spare_threshold",
        Some("percent"),
        "Below which the drive's spare blocks are too few",
        |health| health.spare_threshold_percent
    ),
    says!(
        Gauge,
        "flash_drive_temperature",
        Some("celsius"),
        "The drive's temperature, where that is not below zero",
        |health| u64::try_from(health.temperature_celsius?).ok()
    ),
    says!(
        Counter,
        "flash_drive_media_errors",
        None,
        "Errors of the medium that the drive could not correct, since it was made",
        |health| health.media_errors
    ),
    says!(
        Counter,
        "flash_drive_unsafe_shutdowns",
        None,
        "Times that the drive lost power without being told before, since it was made",
        |health| health.unsafe_shutdowns
    ),
    says!(
        Counter,
        "flash_drive_written",
        Some("bytes"),
        "Bytes that hosts wrote to the drive since it was made; its own copies inside are not among them",
        |health| health.written_bytes
    ),
];
