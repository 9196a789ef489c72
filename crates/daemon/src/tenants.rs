//! From an operator's words about VMs and caches to those of the tenancy, and the arithmetic of what
//! cannot be.
//!
//! The tenancy counts in segments and knows tenants by slots; people have names and bytes. So what is
//! promised to VMs is added up here first, and what is refused is refused in their words. Whatever else
//! the tenancy refuses it says itself.

use super::flash_size::FlashSize;
use configuration::{DiskConfig, Name, PolicyConfig, Spare, VmConfig, Window, WritePolicy};
use mrc::Writes;
use policy::admission::budget::{Budget, BudgetError};
use policy::demand::{Reuses, WindowSettings, Windows};
use policy::replacement::Fraction;
use tenancy::{Capacity, Settings, SettingsError, Tenancy, TenantSettings};
use units::errors::chain;
use units::{Bytes, Instant, TenantSlot};

/// What a cache's policy is to the tenancy; none if it is switched off.
///
/// # Errors
/// If the write budget is nothing, or more than can be counted.
pub(crate) fn settings(
    policy: &PolicyConfig,
    flash: FlashSize,
) -> Result<Option<Settings>, BudgetError> {
    if !policy.enabled {
        return Ok(None);
    }
    let budget = policy.write_budget.0.as_ref();
    let budget: Option<Budget> = budget.map(|rate| rate.budget(flash.device)).transpose()?;
    Ok(Some(Settings {
        admission: policy.admission.0.clone(),
        fill: policy.fill,
        staging: policy
            .staging
            .0
            .bytes(flash.capacity.bytes(), policy.memory.0),
        frames: match policy.frames.0 {
            configuration::Auto::Auto => None,
            configuration::Auto::Fixed(bytes) => Some(bytes),
        },
        hot: policy.hot.0.clone(),
        prefetch: policy.prefetch.0.clone(),
        budget,
        allocation: policy.allocation.0.clone(),
        spare: match policy.spare {
            Spare::Lent => tenancy::Spare::Lent,
            Spare::Idle => tenancy::Spare::Idle,
            Spare::Strict => tenancy::Spare::Strict,
        },
        // Checked with the configuration.
        reuses: Reuses::new(policy.reuses.into()).unwrap_or(Reuses::ONE),
        window: match policy.window.0 {
            Window::Fixed(time) => tenancy::Window::Fixed(time),
            Window::Auto => tenancy::Window::Knee {
                lengths: Windows::ladder(),
                settings: WindowSettings::default(),
            },
        },
        prediction: policy.prediction.0.clone(),
        hysteresis: fraction(policy.hysteresis.clamp(0.0, 1.0)),
        memory: policy.memory.0,
        ..Settings::default()
    }))
}

/// A number as a fraction, to the nearest millionth.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number below zero is zero, and one above 4294 is that"
)]
pub(crate) fn fraction(part: f64) -> Fraction {
    Fraction::millionths((part * 1e6).round() as u32)
}

/// What a VM is to the tenancy of one cache, with its own disks on that cache.
///
/// # Errors
/// If its write budget is nothing, or more than can be counted.
pub(crate) fn tenant(
    vm: &VmConfig,
    disks: &[&DiskConfig],
    flash: FlashSize,
) -> Result<TenantSettings, BudgetError> {
    let budget = vm.write_budget.0.as_ref();
    let goes_around = |disk: &&DiskConfig| disk.write_policy == WritePolicy::Around;
    Ok(TenantSettings {
        floor: vm.floor.0,
        ceiling: vm.ceiling.0.as_ref().copied(),
        weight: vm.weight,
        high_priority: vm.high_priority,
        budget: budget.map(|rate| rate.budget(flash.device)).transpose()?,
        admission: vm.admission.0.as_ref().cloned(),
        writes: if !disks.is_empty() && disks.iter().all(goes_around) {
            Writes::Invalidate
        } else {
            Writes::Allocate
        },
        ..TenantSettings::default()
    })
}

/// Tries a cache's policy and its VMs' settings on a tenancy of their own.
///
/// # Errors
/// What the tenancy refuses, in its words.
pub(crate) fn refused(
    policy: &PolicyConfig,
    flash: FlashSize,
    vms: &[VmConfig],
) -> Result<(), String> {
    let Some(settings) = settings(policy, flash).map_err(|error| chain(&error))? else {
        return Ok(());
    };
    let said = |error: SettingsError| chain(&error);
    let mut tenancy = Tenancy::<u64>::new(settings, flash.capacity, Instant::ZERO).map_err(said)?;
    let mut left = Vec::new();
    if let Some(message) = configuration::too_many_tenants(vms.len(), 0) {
        return Err(message);
    }
    // A slot is made for a VM only, never for the one behind the last.
    for (vm, slot) in vms.iter().zip((0..).map(TenantSlot::new)) {
        let tenant = tenant(vm, &[], flash).map_err(|error| format!("{}: {error}", vm.name))?;
        let attached = tenancy.attach(slot, tenant, &mut left);
        attached.map_err(|error| format!("{}: {}", vm.name, chain(&error)))?;
    }
    Ok(())
}

/// What is wrong with what VMs are promised of one cache, if it is more than there is.
pub(crate) fn floors(cache: &Name, capacity: Capacity, vms: &[VmConfig]) -> Option<String> {
    let promised = vms.iter().filter(|vm| !vm.floor.0.is_zero());
    let promised: Vec<&VmConfig> = promised.collect();
    let sum: u64 = promised.iter().map(|vm| vm.floor.0.get()).sum();
    // As the tenancy counts: each floor is rounded up to segments.
    let segments: u64 = promised
        .iter()
        .map(|vm| capacity.segments_for(vm.floor.0))
        .sum();
    if segments <= u64::from(capacity.segments) {
        return None;
    }
    let each: Vec<String> = promised
        .iter()
        .map(|vm| format!("{} ({})", vm.name, vm.floor.0))
        .collect();
    let more = segments - u64::from(capacity.segments);
    let more = Bytes::new(more * capacity.segment_bytes());
    let there_is = format!(
        "the {} that cache '{cache}' has to divide",
        capacity.bytes()
    );
    // Without this what is to be given up would not be the difference of what is said.
    let whole = Bytes::new(segments * capacity.segment_bytes());
    let rounded = if whole.to_string() == Bytes::new(sum).to_string() {
        String::new()
    } else {
        let segment = Bytes::new(capacity.segment_bytes());
        format!(", {whole} in whole segments of {segment},")
    };
    if let [only] = promised[..] {
        return Some(format!(
            "the floor of {} ({}){rounded} exceeds {there_is}: lower it by {more}",
            only.name, only.floor.0
        ));
    }
    Some(format!(
        "the floors of {} = {}{rounded} exceed {there_is}: lower them by {more}",
        each.join(" + "),
        Bytes::new(sum),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use configuration::{Switch, Text, parse};

    const MIB: u64 = 1 << 20;

    /// 100 segments of 1 MiB.
    const FLASH: FlashSize = FlashSize {
        device: Bytes::mib(120),
        capacity: Capacity {
            segments: 100,
            segment_blocks: 256,
            checkpoint: Bytes::ZERO,
        },
    };

    fn vm(name: &str, floor: u64) -> VmConfig {
        let mut vm = VmConfig::new(name.parse().unwrap());
        vm.floor = Text(Bytes::new(floor));
        vm
    }

    #[test]
    fn the_defaults_are_those_that_the_simulator_takes_for_the_daemon() {
        let policy = PolicyConfig::default();
        let settings = settings(&policy, FLASH).unwrap().unwrap();
        assert_eq!(settings, tenancy::daemon::settings(FLASH.capacity.bytes()));
        let vm = VmConfig::new("web".parse().unwrap());
        assert_eq!(tenant(&vm, &[], FLASH).unwrap(), TenantSettings::default());
    }

    #[test]
    fn as_many_vms_are_tried_as_there_are_slots() {
        let policy = PolicyConfig {
            memory: Text(Bytes::gib(64)),
            ..PolicyConfig::default()
        };
        let flash = FlashSize {
            capacity: Capacity {
                segments: 4096,
                ..FLASH.capacity
            },
            ..FLASH
        };
        let vms: Vec<VmConfig> = (0..1025).map(|n| vm(&format!("v{n}"), 0)).collect();
        assert_eq!(refused(&policy, flash, &vms[..1024]), Ok(()));
        let said = refused(&policy, flash, &vms).unwrap_err();
        assert!(said.contains("1025 VMs + 0 base images = 1025"), "{said}");
    }

    #[test]
    fn drive_writes_are_of_the_whole_device() {
        let mut vm = vm("web", 0);
        vm.write_budget = Text(Switch::On("0.5DWPD".parse().unwrap()));
        let tenant = tenant(&vm, &[], FLASH).unwrap();
        assert_eq!(tenant.budget.unwrap().bytes_per_day(), Bytes::mib(60));
    }

    #[test]
    fn floors_above_the_capacity_are_added_up_by_name() {
        let cache = "main".parse().unwrap();
        let fits = [vm("web", 60 * MIB), vm("db", 40 * MIB), vm("mail", 0)];
        assert_eq!(floors(&cache, FLASH.capacity, &fits), None);
        let not = [vm("web", 60 * MIB), vm("db", 50 * MIB), vm("mail", 0)];
        let said = floors(&cache, FLASH.capacity, &not).unwrap();
        assert_eq!(
            said,
            "the floors of web (60MiB) + db (50MiB) = 110MiB exceed the 100MiB that cache 'main' has \
             to divide: lower them by 10MiB"
        );
        let said = floors(&cache, FLASH.capacity, &[vm("web", 130 * MIB)]).unwrap();
        assert!(
            said.starts_with("the floor of web (130MiB) exceeds the 100MiB that"),
            "{said}"
        );
        // A part of a segment takes a whole one, and what is to be given up is the difference.
        let above = [vm("web", 99 * MIB + 1), vm("db", 20 * MIB)];
        let said = floors(&cache, FLASH.capacity, &above).unwrap();
        assert!(
            said.contains(", 120MiB in whole segments of 1MiB, exceed the 100MiB")
                && said.ends_with("lower them by 20MiB"),
            "{said}"
        );
        let rounded = [vm("web", 99 * MIB + 1), vm("db", 1024)];
        let said = floors(&cache, FLASH.capacity, &rounded).unwrap();
        assert!(
            said.contains(", 101MiB in whole segments of 1MiB, exceed the 100MiB"),
            "{said}"
        );
    }

    #[test]
    fn a_vm_whose_disks_are_all_written_around_loses_what_it_writes() {
        let text = "[[cache]]\nname='c'\npath='/c'\n[[disk]]\nname='d'\nwrite_policy='around'\n\
                    origin={ file='/d' }\n[[disk]]\nname='e'\norigin={ file='/e' }\n";
        let disks = parse(text).unwrap().disks;
        let writes = |disks: &[&DiskConfig]| tenant(&vm("web", 0), disks, FLASH).unwrap().writes;
        assert_eq!(writes(&[&disks[0]]), Writes::Invalidate);
        assert_eq!(writes(&[&disks[0], &disks[1]]), Writes::Allocate);
    }
}
