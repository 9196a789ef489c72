//! What is wrong with how writes reach origins, and whether there is room for what waits.

use super::cache_of;
use crate::fault::Fault;
use crate::model::{Config, DiskConfig};
use crate::text::Auto;
use crate::words::{Name, WritePolicy};
use crate::write_back::WriteBackConfig;
use units::{Bytes, Duration};

/// The least that a disk's dirty log may be.
pub const DIRTY_LEAST: Bytes = cache::WriteBack::DIRTY_LEAST;

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
    if let Auto::Fixed(bytes) = settings.dirty_max.0
        && bytes < DIRTY_LEAST
    {
        let message = format!(
            "{bytes} is less than {DIRTY_LEAST}, which is the least: the log fills whole segments"
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
pub fn room_faults(config: &Config, flash_of: impl Fn(&Name) -> Option<Bytes>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for cache in &config.caches {
        let disks = config.disks.iter().enumerate().filter(|(_, disk)| {
            disk.write_policy == WritePolicy::Back
                && cache_of(config, disk).is_ok_and(|of| of.name == cache.name)
        });
        let asked: Vec<(usize, &Name, Auto<Bytes>)> = disks
            .map(|(at, disk)| (at, &disk.name, disk.write_back.dirty_max.0))
            .collect();
        let Some((last, _, of_last)) = asked.last() else {
            continue;
        };
        let Some(flash) = flash_of(&cache.name) else {
            continue;
        };
        let asked: Vec<(&Name, Auto<Bytes>)> = asked.iter().map(|one| (one.1, one.2)).collect();
        if let Err(message) = dirty_max(*of_last, &cache.name, flash, &asked) {
            let key = format!("disk[{last}].write_back.dirty_max");
            faults.push(Fault::new(key, message));
        }
    }
    faults
}

/// How long the dirty log of a disk may be that says `own`, as one of those that `asked` names, all of
/// this cache. `auto` is a part of what those leave that say how much they want.
///
/// # Errors
/// Why there is no room for all, with the arithmetic.
pub fn dirty_max(
    own: Auto<Bytes>,
    cache: &Name,
    flash: Bytes,
    asked: &[(&Name, Auto<Bytes>)],
) -> Result<Bytes, String> {
    let room = cache::WriteBack::room_on(flash);
    let fixed: Vec<(&Name, Bytes)> = asked
        .iter()
        .filter_map(|(disk, bytes)| match bytes {
            Auto::Fixed(bytes) => Some((*disk, *bytes)),
            Auto::Auto => None,
        })
        .collect();
    let half = format!("{room}, which is half of the flash of cache '{cache}' ({flash})");
    let sum = fixed.iter().map(|(_, bytes)| bytes.get());
    let sum = Bytes::new(sum.fold(0, u64::saturating_add));
    if sum > room {
        return Err(format!(
            "the dirty_max of {} exceeds {half}",
            terms_of(&fixed, sum)
        ));
    }
    let autos = (asked.len() - fixed.len()) as u64;
    let left = room - sum;
    if autos > 0 && left.get() / autos < DIRTY_LEAST.get() {
        return Err(format!(
            "{left} of {half}, is left for {autos} disks without a dirty_max of their own, and {DIRTY_LEAST} for each is the least"
        ));
    }
    match own {
        Auto::Fixed(bytes) => Ok(bytes),
        Auto::Auto => Ok(cache::WriteBack::share_of(left, autos)),
    }
}

fn terms_of(fixed: &[(&Name, Bytes)], sum: Bytes) -> String {
    let terms: Vec<String> = fixed
        .iter()
        .map(|(disk, bytes)| format!("{disk} ({bytes})"))
        .collect();
    if terms.len() > 1 {
        format!("{} = {sum}", terms.join(" + "))
    } else {
        terms.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::write_back::PerSecond;

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
        let defaults = cache::WriteBack::default();
        let settings = WriteBackConfig::default().settings(defaults.dirty_max);
        assert_eq!(settings, defaults);
    }

    #[test]
    fn every_setting_reaches_the_cache() {
        let config = with(
            "write_policy='back'\n[disk.write_back]\norder='unordered'\ndirty_max='2GiB'\n\
             age_max='5s'\nidle_after='100ms'\nrate='50MiB/s'\nstall_max='3s'\n",
        );
        let disk = &config.unwrap().disks[0];
        let own = disk.write_back.dirty_max.0;
        assert_eq!(own, Auto::Fixed(Bytes::gib(2)));
        assert_eq!(disk.write_policy, WritePolicy::Back);
        assert_eq!(
            disk.write_back.settings(Bytes::gib(2)),
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

    fn room(flash: Bytes, asked: &[(&Name, Auto<Bytes>)]) -> Result<Bytes, String> {
        dirty_max(asked[asked.len() - 1].1, &name("c"), flash, asked)
    }

    #[test]
    fn dirty_logs_that_do_not_fit_are_refused_with_the_arithmetic() {
        let (a, b, fixed) = (name("a"), name("b"), |gib| Auto::Fixed(Bytes::gib(gib)));
        let half = [(&a, fixed(1)), (&b, fixed(1))];
        assert_eq!(room(Bytes::gib(4), &half), Ok(Bytes::gib(1)));
        let more = [(&a, fixed(1)), (&b, fixed(2))];
        assert_eq!(
            room(Bytes::gib(4), &more).unwrap_err(),
            "the dirty_max of a (1GiB) + b (2GiB) = 3GiB exceeds 2GiB, which is half of the flash of cache 'c' (4GiB)"
        );
        assert_eq!(
            room(Bytes::gib(1), &half[..1]).unwrap_err(),
            "the dirty_max of a (1GiB) exceeds 512MiB, which is half of the flash of cache 'c' (1GiB)"
        );
        let crowded = [(&a, Auto::Fixed(Bytes::mib(20))), (&b, Auto::Auto)];
        assert_eq!(
            room(Bytes::mib(64), &crowded).unwrap_err(),
            "12MiB of 32MiB, which is half of the flash of cache 'c' (64MiB), is left for 1 disks without a dirty_max of their own, and 16MiB for each is the least"
        );
    }

    #[test]
    fn a_disk_that_does_not_say_has_what_the_flash_allows() {
        let (a, b, auto) = (name("a"), name("b"), Auto::Auto);
        let one = |flash| room(flash, &[(&a, auto)]);
        assert_eq!(one(Bytes::mib(64)), Ok(Bytes::mib(16)));
        assert_eq!(one(Bytes::gib(1)), Ok(Bytes::mib(128)));
        assert_eq!(one(Bytes::gib(100)), Ok(Bytes::gib(1)));
        assert!(one(Bytes::mib(31)).is_err());
        let beside = [(&a, Auto::Fixed(Bytes::mib(412))), (&b, auto)];
        assert_eq!(room(Bytes::gib(1), &beside), Ok(Bytes::mib(25)));
        let nine = vec![(&a, auto); 9];
        assert_eq!(room(Bytes::gib(1), &nine), Ok(Bytes::mib(56)));
    }
}
