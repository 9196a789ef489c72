//! `[disk.write_back]`: how writes reach the origin later, and whether a cache has room for what
//! its disks may keep from their origins.

use super::change::change;
use super::model::{Config, DiskConfig};
use super::text::{Switch, Text};
use super::words::{DestageOrder, Name, WritePolicy};
use super::{Fault, check};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use units::{Bytes, Duration};
use utoipa::ToSchema;

/// The least that a disk's dirty log may be: some segments, since it fills them one by one.
pub const DIRTY_LEAST: Bytes = Bytes::mib(16);
/// What part of the flash all dirty logs together may take: one in so many. The rest is for clean
/// blocks and for what reclaim needs.
const DIRTY_PART: u64 = 2;

/// `[disk.write_back]`: how writes reach the origin if `write_policy` is `back`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WriteBackConfig {
    /// In which order.
    pub order: DestageOrder,
    /// The longest that the dirty log may be.
    #[schema(value_type = String, example = "1GiB")]
    pub dirty_max: Text<Bytes>,
    /// The longest that bytes may wait for the origin.
    #[schema(value_type = String, example = "30s")]
    pub age_max: Text<Duration>,
    /// How long no guest must have asked for anything before bytes go to the origin.
    #[schema(value_type = String, example = "2s")]
    pub idle_after: Text<Duration>,
    /// The most that goes to the origin.
    #[schema(value_type = String, example = "off")]
    pub rate: Text<Switch<PerSecond>>,
    /// The longest that a write may wait for room.
    #[schema(value_type = String, example = "1min")]
    pub stall_max: Text<Duration>,
}

impl Default for WriteBackConfig {
    fn default() -> Self {
        let cache::WriteBack {
            order,
            dirty_max,
            age_max,
            idle_after,
            rate,
            stall_max,
        } = cache::WriteBack::default();
        Self {
            order: order.into(),
            dirty_max: Text(dirty_max),
            age_max: Text(age_max),
            idle_after: Text(idle_after),
            rate: Text(rate.map_or(Switch::Off, |rate| Switch::On(PerSecond(rate)))),
            stall_max: Text(stall_max),
        }
    }
}

impl WriteBackConfig {
    /// The cache's word for it.
    pub fn settings(&self) -> cache::WriteBack {
        cache::WriteBack {
            order: self.order.into(),
            dirty_max: self.dirty_max.0,
            age_max: self.age_max.0,
            idle_after: self.idle_after.0,
            rate: self.rate.0.as_ref().map(|rate| rate.0),
            stall_max: self.stall_max.0,
        }
    }
}

change! {
    /// What to change of how a disk's writes reach its origin; what is not given stays as it is.
    WriteBackChange of WriteBackConfig {
        /// In which order.
        order: DestageOrder,
        /// The longest that the dirty log may be.
        #[schema(value_type = Option<String>, example = "4GiB")]
        dirty_max: Text<Bytes>,
        /// The longest that bytes may wait for the origin.
        #[schema(value_type = Option<String>, example = "30s")]
        age_max: Text<Duration>,
        /// How long no guest must have asked for anything before bytes go to the origin.
        #[schema(value_type = Option<String>, example = "2s")]
        idle_after: Text<Duration>,
        /// The most that goes to the origin, or `off`.
        #[schema(value_type = Option<String>, example = "50MiB/s")]
        rate: Text<Switch<PerSecond>>,
        /// The longest that a write may wait for room.
        #[schema(value_type = Option<String>, example = "1min")]
        stall_max: Text<Duration>,
    }
}

/// Bytes a second, written `50MiB/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerSecond(pub Bytes);

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

/// Why a text is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a rate: write bytes a second, such as 50MiB/s, or off")]
pub struct ParseRateError(String);

impl FromStr for PerSecond {
    type Err = ParseRateError;

    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let error = || ParseRateError(text.chars().take(80).collect());
        let bytes: Bytes = text
            .strip_suffix("/s")
            .and_then(|bytes| bytes.parse().ok())
            .ok_or_else(error)?;
        if bytes.is_zero() {
            return Err(error());
        }
        Ok(Self(bytes))
    }
}

/// What is wrong with a disk's write-back on its own; keys are relative to the disk.
pub(super) fn disk_faults(disk: &DiskConfig) -> Vec<Fault> {
    let mut faults = Vec::new();
    if disk.write_policy == WritePolicy::Back && (disk.read_only || disk.shared) {
        let message =
            "'back' is for disks that are written: this one is read-only or shared; remove this";
        faults.push(Fault::new("write_policy", message));
    }
    if let Some(size) = disk.size
        && disk.write_policy == WritePolicy::Back
        && !size.0.is_multiple_of(units::BLOCK_BYTES)
    {
        let message = format!(
            "'back' needs a size that is a multiple of 4KiB, and {} is not; use 'through'",
            size.0
        );
        faults.push(Fault::new("write_policy", message));
    }
    faults.extend(
        settings_faults(&disk.write_back)
            .into_iter()
            .map(|fault| Fault {
                key: format!("write_back.{}", fault.key),
                ..fault
            }),
    );
    faults
}

/// What is wrong with settings on their own; keys are relative to them.
pub fn settings_faults(settings: &WriteBackConfig) -> Vec<Fault> {
    let mut faults = Vec::new();
    if settings.dirty_max.0 < DIRTY_LEAST {
        let message = format!(
            "{} is less than {DIRTY_LEAST}, which is the least: the log fills whole segments",
            settings.dirty_max.0
        );
        faults.push(Fault::new("dirty_max", message));
    }
    for (key, value) in [
        ("age_max", settings.age_max),
        ("idle_after", settings.idle_after),
        ("stall_max", settings.stall_max),
    ] {
        if value.0 == Duration::ZERO {
            faults.push(Fault::new(key, "must not be zero"));
        }
    }
    faults
}

/// The disks of a configuration that may keep more from their origins than their cache has room
/// for. `flash_of` tells the size of a cache's flash, if it is known.
pub(super) fn room_faults(
    config: &Config,
    flash_of: impl Fn(&Name) -> Option<Bytes>,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for cache in &config.caches {
        let disks = config.disks.iter().enumerate().filter(|(_, disk)| {
            disk.write_policy == WritePolicy::Back
                && check::cache_of(config, disk).is_ok_and(|of| of.name == cache.name)
        });
        let asked: Vec<(usize, &Name, Bytes)> = disks
            .map(|(at, disk)| (at, &disk.name, disk.write_back.dirty_max.0))
            .collect();
        let Some((last, ..)) = asked.last() else {
            continue;
        };
        let Some(flash) = flash_of(&cache.name) else {
            continue;
        };
        let asked: Vec<(&Name, Bytes)> = asked.iter().map(|one| (one.1, one.2)).collect();
        if let Some(message) = too_dirty(&cache.name, flash, &asked) {
            let key = format!("disk[{last}].write_back.dirty_max");
            faults.push(Fault::new(key, message));
        }
    }
    faults
}

/// Why disks may not keep so much from their origins on a cache with this flash, with the
/// arithmetic; none if they may.
pub(crate) fn too_dirty(cache: &Name, flash: Bytes, asked: &[(&Name, Bytes)]) -> Option<String> {
    let room = Bytes::new(flash.get() / DIRTY_PART);
    let sum = asked.iter().map(|(_, bytes)| bytes.get());
    let sum = Bytes::new(sum.fold(0, u64::saturating_add));
    if sum <= room {
        return None;
    }
    let terms: Vec<String> = asked
        .iter()
        .map(|(disk, bytes)| format!("{disk} ({bytes})"))
        .collect();
    let sum = if terms.len() > 1 {
        format!("{} = {sum}", terms.join(" + "))
    } else {
        terms.concat()
    };
    Some(format!(
        "the dirty_max of {sum} exceeds {room}, which is half of the flash of cache '{cache}' ({flash})"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn with(lines: &str) -> Result<Config, Vec<Fault>> {
        parse(&format!(
            "[[cache]]\nname='c'\npath='/c'\n[[disk]]\nname='d'\norigin={{file='/o'}}\n{lines}"
        ))
    }

    fn only(lines: &str) -> (String, String) {
        let mut faults = with(lines).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        let fault = faults.remove(0);
        (fault.key, fault.message)
    }

    #[test]
    fn the_defaults_are_the_caches() {
        let settings = WriteBackConfig::default().settings();
        assert_eq!(settings, cache::WriteBack::default());
    }

    #[test]
    fn every_setting_reaches_the_cache() {
        let config = with(
            "write_policy='back'\n[disk.write_back]\norder='unordered'\ndirty_max='2GiB'\n\
             age_max='5s'\nidle_after='100ms'\nrate='50MiB/s'\nstall_max='3s'\n",
        );
        let disk = &config.unwrap().disks[0];
        assert_eq!(disk.write_policy, WritePolicy::Back);
        assert_eq!(
            disk.write_back.settings(),
            cache::WriteBack {
                order: cache::DestageOrder::Unordered,
                dirty_max: Bytes::gib(2),
                age_max: Duration::from_secs(5),
                idle_after: Duration::from_millis(100),
                rate: Some(Bytes::mib(50)),
                stall_max: Duration::from_secs(3),
            }
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(
            only("write_policy='back'\nread_only=true\n").0,
            "disk[0].write_policy"
        );
        let (key, message) = only("write_policy='back'\nsize='1025KiB'\n");
        assert_eq!(key, "disk[0].write_policy");
        assert!(message.contains("multiple of 4KiB"), "{message}");
        let (key, message) = only("[disk.write_back]\ndirty_max='1MiB'\n");
        assert_eq!(key, "disk[0].write_back.dirty_max");
        assert!(message.contains("less than 16MiB"), "{message}");
        for text in ["50MiB", "0B/s", "50MiB/h", ""] {
            assert!(text.parse::<PerSecond>().is_err(), "{text}");
        }
    }

    #[test]
    fn dirty_logs_that_do_not_fit_are_refused_with_the_arithmetic() {
        let (a, b) = (name("a"), name("b"));
        let half = [(&a, Bytes::gib(1)), (&b, Bytes::gib(1))];
        assert_eq!(too_dirty(&name("c"), Bytes::gib(4), &half), None);
        let more = [(&a, Bytes::gib(1)), (&b, Bytes::gib(2))];
        assert_eq!(
            too_dirty(&name("c"), Bytes::gib(4), &more).unwrap(),
            "the dirty_max of a (1GiB) + b (2GiB) = 3GiB exceeds 2GiB, which is half of the flash of cache 'c' (4GiB)"
        );
        assert_eq!(
            too_dirty(&name("c"), Bytes::gib(1), &half[..1]).unwrap(),
            "the dirty_max of a (1GiB) exceeds 512MiB, which is half of the flash of cache 'c' (1GiB)"
        );
    }
}
