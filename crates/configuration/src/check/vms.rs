//! Contradictions among VMs, and between them and the disks.

use super::{cache_of, meant};
use crate::fault::Fault;
use crate::model::{Config, DiskConfig};
use crate::text::Switch;
use crate::vm::{VmConfig, WEIGHT_MAX};
use crate::words::Name;
use policy::admission::budget::Rate;
use policy::replacement::Fraction;
use std::collections::{BTreeMap, BTreeSet};
use units::{DiskSlot, TenantSlot};

pub(super) fn faults(config: &Config, faults: &mut Vec<Fault>) {
    let mut names: BTreeMap<&Name, usize> = BTreeMap::new();
    for (at, vm) in config.vms.iter().enumerate() {
        let key = |rest: &str| format!("vm[{at}].{rest}");
        if let Some(first) = names.insert(&vm.name, at) {
            let message = format!("'{}' is the name of vm[{first}] already", vm.name);
            faults.push(Fault::new(key("name"), message));
        }
        faults.extend(vm_faults(vm).into_iter().map(|fault| Fault {
            key: key(&fault.key),
            ..fault
        }));
        images(vm, &config.disks, &key("images"), faults);
    }
    two_meanings(config, faults);
    too_many(config, faults);
}

/// What a cache can tell apart has bounds: disks, and those who have a share of it.
fn too_many(config: &Config, faults: &mut Vec<Fault>) {
    for (at, cache) in config.caches.iter().enumerate() {
        let is_here =
            |disk: &&DiskConfig| cache_of(config, disk).is_ok_and(|of| of.name == cache.name);
        let disks = config.disks.iter().filter(is_here);
        let (images, own): (Vec<&DiskConfig>, Vec<&DiskConfig>) =
            disks.partition(|disk| disk.shared);
        let names: BTreeSet<&Name> = images.iter().map(|image| &image.name).collect();
        let reads_here = |vm: &&VmConfig| vm.images.iter().any(|image| names.contains(image));
        let readers = config.vms.iter().filter(reads_here).map(|vm| &vm.name);
        let vms: BTreeSet<&Name> = own
            .iter()
            .map(|disk| disk.tenant())
            .chain(readers)
            .collect();
        let key = || format!("cache[{at}]");
        let count = own.len() + images.len();
        if let Some(more) = count.checked_sub(DiskSlot::COUNT).filter(|more| *more > 0) {
            let message = format!(
                "has {count} disks, and a cache can have {}: move {more} of them to another cache",
                DiskSlot::COUNT
            );
            faults.push(Fault::new(key(), message));
        } else if let Some(message) = too_many_tenants(vms.len(), images.len()) {
            faults.push(Fault::new(key(), message));
        }
    }
}

/// What is wrong with dividing a cache among so many VMs and base images, if they are too many.
pub fn too_many_tenants(vms: usize, images: usize) -> Option<String> {
    let more = (vms + images).checked_sub(TenantSlot::COUNT)?;
    (more > 0).then(|| {
        format!(
            "{vms} VMs + {images} base images = {} have a share of this cache, and it can be divided among \
             {}: move {more} of them, with their disks, to another cache",
            vms + images,
            TenantSlot::COUNT
        )
    })
}

/// What is wrong with a VM's settings on their own; keys are relative to it.
pub fn vm_faults(vm: &VmConfig) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !(1..=WEIGHT_MAX).contains(&vm.weight) {
        let message = format!("must be between 1 and {WEIGHT_MAX}; 100 is usual");
        faults.push(Fault::new("weight", message));
    }
    if let Switch::On(rate) = vm.write_budget.0
        && is_nothing(rate)
    {
        faults.push(Fault::new("write_budget", NO_BUDGET));
    }
    if let Switch::On(ceiling) = vm.ceiling.0 {
        let floor = vm.floor.0;
        if ceiling.is_zero() {
            faults.push(Fault::new(
                "ceiling",
                "leaves the VM no flash at all; write \"off\" for no ceiling",
            ));
        } else if floor > ceiling {
            let message = format!(
                "the floor of {floor} is above the ceiling of {ceiling}: lower the floor or raise the ceiling"
            );
            faults.push(Fault::new("floor", message));
        }
    }
    faults
}

/// Why a budget of nothing is refused.
pub(super) const NO_BUDGET: &str = "a write budget of nothing lets nothing into the flash: give more, such as \"200GiB/day\", or \"off\"";

/// Whether a rate stops all writes.
pub(super) fn is_nothing(rate: Rate) -> bool {
    match rate {
        Rate::PerDay(bytes) | Rate::PerSecond(bytes) => bytes.is_zero(),
        Rate::Dwpd(times) => times == Fraction::ZERO,
    }
}

fn images(vm: &VmConfig, disks: &[DiskConfig], key: &str, faults: &mut Vec<Fault>) {
    for (at, image) in vm.images.iter().enumerate() {
        if vm.images[..at].contains(image) {
            faults.push(Fault::new(key, format!("'{image}' is there twice")));
            continue;
        }
        match disks.iter().find(|disk| disk.name == *image) {
            Some(disk) if disk.shared => {}
            Some(_) => {
                let message = format!(
                    "the disk '{image}' is not shared: write `shared = true` in its [[disk]] section"
                );
                faults.push(Fault::new(key, message));
            }
            None => {
                let shared = disks.iter().filter(|disk| disk.shared);
                let known = shared.map(|disk| disk.name.as_str());
                let message = format!("there is no shared disk '{image}'; {}", meant(image, known));
                faults.push(Fault::new(key, message));
            }
        }
    }
}

/// A VM and a base image each have a share of the flash under their name.
fn two_meanings(config: &Config, faults: &mut Vec<Fault>) {
    for (at, image) in config.disks.iter().enumerate() {
        if !image.shared {
            continue;
        }
        let is_vm = config.vms.iter().any(|vm| vm.name == image.name)
            || config
                .disks
                .iter()
                .any(|disk| !disk.shared && disk.vm.as_ref().unwrap_or(&disk.name) == &image.name);
        if is_vm {
            let message = format!(
                "'{}' is the name of a VM too; each has a share of its own, so rename one",
                image.name
            );
            faults.push(Fault::new(format!("disk[{at}].name"), message));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use std::ops::Range;

    const CACHE: &str = "[[cache]]\nname = 'a'\npath = '/a'\n";
    const IMAGE: &str = "[[disk]]\nname = 'debian'\nshared = true\norigin = { file = '/d' }\n";

    fn expect(text: &str, line: usize, key: &str, words: &str) {
        let faults = parse(&format!("{CACHE}{text}")).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        let fault = &faults[0];
        assert_eq!(
            (fault.line, fault.key.as_str()),
            (Some(line), key),
            "{fault:?}"
        );
        assert!(fault.message.contains(words), "{fault:?}");
    }

    #[test]
    fn a_vm_with_every_setting_is_sound() {
        let vm = "[[vm]]\nname = 'web'\nweight = 3\nfloor = '1GiB'\nceiling = '1GiB'\nimages = ['debian']\n";
        let config = parse(&format!("{CACHE}{IMAGE}{vm}")).unwrap();
        assert_eq!(config.vms[0].images.len(), 1);
    }

    #[test]
    fn a_floor_above_the_ceiling_is_refused_with_both() {
        expect(
            "[[vm]]\nname = 'web'\nfloor = '60GiB'\nceiling = '50GiB'\n",
            6,
            "vm[0].floor",
            "the floor of 60GiB is above the ceiling of 50GiB",
        );
        expect(
            "[[vm]]\nname = 'w'\nceiling = '0B'\n",
            6,
            "vm[0].ceiling",
            "no flash",
        );
        expect(
            "[[vm]]\nname = 'w'\nweight = 0\n",
            6,
            "vm[0].weight",
            "between 1 and 10000",
        );
    }

    #[test]
    fn an_image_is_a_shared_disk() {
        let vm = "[[vm]]\nname = 'web'\nimages = ['debain']\n";
        expect(
            &format!("{IMAGE}{vm}"),
            10,
            "vm[0].images",
            "did you mean 'debian'?",
        );
        let own = IMAGE.replace("shared = true", "shared = false");
        let vm = vm.replace("debain", "debian");
        expect(&format!("{own}{vm}"), 10, "vm[0].images", "is not shared");
        let twice = vm.replace("['debian']", "['debian', 'debian']");
        expect(&format!("{IMAGE}{twice}"), 10, "vm[0].images", "twice");
    }

    fn disks(numbers: Range<usize>, cache: &str) -> String {
        let head = format!("[[disk]]\ncache = '{cache}'");
        let disk = |n| format!("{head}\nname = 'd{n}'\norigin = {{ file = '/d{n}' }}\n");
        numbers.map(disk).collect()
    }

    #[test]
    fn a_cache_is_divided_among_1024_vms_and_images_and_no_more() {
        // Each disk is a VM of its own name; the others have no disk here and read the image.
        let readers = |count| {
            let vm = |n| format!("[[vm]]\nname = 'v{n}'\nimages = ['debian']\n");
            let vms: String = (0..count).map(vm).collect();
            format!("{IMAGE}{}{vms}", disks(0..1000, "a"))
        };
        let config = parse(&format!("{CACHE}{}", readers(23))).unwrap();
        assert_eq!(config.vms.len(), 23);
        expect(
            &readers(24),
            1,
            "cache[0]",
            "1024 VMs + 1 base images = 1025 have a share of this cache, and it can be divided among 1024: \
             move 1 of them",
        );
        // Those that have nothing to do with this cache do not count.
        let stranger = |n| format!("[[vm]]\nname = 's{n}'\n");
        let strangers: String = (0..1100).map(stranger).collect();
        assert!(parse(&format!("{CACHE}{strangers}")).is_ok());
    }

    #[test]
    fn a_cache_has_1024_disks_and_no_more() {
        let both = "[[cache]]\nname = 'b'\npath = '/b'\n";
        let split = disks(0..1024, "a") + &disks(1024..2048, "b");
        assert!(parse(&format!("{CACHE}{both}{split}")).is_ok());
        expect(
            &disks(0..1026, "a"),
            1,
            "cache[0]",
            "has 1026 disks, and a cache can have 1024: move 2 of them",
        );
    }

    #[test]
    fn a_name_is_a_vm_or_an_image() {
        expect(
            &format!("[[vm]]\nname = 'debian'\n{IMAGE}"),
            7,
            "disk[0].name",
            "rename one",
        );
        let vm = IMAGE.replace("shared = true", "shared = true\nvm = 'web'");
        expect(&vm, 7, "disk[0].vm", "no VM's own");
    }
}
