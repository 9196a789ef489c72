//! From the shards' words about VMs and base images to those of the API.

use super::answers::found;
use super::exports::image_export;
use super::flash_size::FlashSize;
use super::guest_sockets::GuestSockets;
use super::ledger::{Account, Ledger};
use super::policies::PolicyBook;
use super::registry::Entry;
use super::share_answers::{self, About};
use super::vms::VmBook;
use api::guests::GuestStatus;
use api::vms::{
    ImageRead, ImageReader, ImageStatus, ImageUse, PolicyStatus, Share, VmCounters, VmSettings,
    VmStatus, Vms,
};
use configuration::{Name, PolicyChange, VmConfig};
use shard::ShardStatus;
use std::collections::{BTreeMap, BTreeSet};
use tenancy::Report;
use units::{BLOCK_BYTES, TenantSlot};

/// All that is known at a moment.
pub(super) struct Seen<'a> {
    /// Every disk.
    pub(super) entries: &'a [Entry],
    /// The shards that answered, by the name of their cache.
    pub(super) shards: &'a BTreeMap<Name, Box<ShardStatus>>,
    /// What operators want.
    pub(super) book: &'a VmBook,
    /// What was written.
    pub(super) ledger: &'a Ledger,
    /// The agents in guests.
    pub(super) guests: &'a GuestSockets,
}

impl Seen<'_> {
    /// Every VM and base image.
    pub(super) fn all(&self) -> Vms {
        let mut names: BTreeSet<Name> = self.book.names().into_iter().collect();
        let own = self.entries.iter().filter(|entry| !entry.config.shared);
        names.extend(own.map(Entry::vm));
        Vms {
            vms: names.iter().map(|name| self.vm(name)).collect(),
            images: self.images(),
        }
    }

    /// Every base image.
    pub(super) fn images(&self) -> Vec<ImageStatus> {
        let images = self.entries.iter().filter(|entry| entry.config.shared);
        images.map(|entry| self.image(entry)).collect()
    }

    /// One VM, of which nothing may be known but its name.
    pub(super) fn vm(&self, name: &Name) -> VmStatus {
        let settings = self.book.settings(name);
        let own = self.entries.iter();
        let own: Vec<&Entry> = own.filter(|entry| entry.is_of(name)).collect();
        let mut counters = VmCounters::default();
        for entry in &own {
            if let Some(served) = self.served(entry) {
                add(&mut counters, served);
            }
        }
        let images = settings
            .images
            .iter()
            .map(|image| self.image_use(image, name));
        VmStatus {
            name: name.clone(),
            disks: own.iter().map(|entry| entry.config.name.clone()).collect(),
            images: images.collect(),
            changed: self.book.change_of(name).keys(),
            counters,
            settings: shown(&settings),
            shares: self.shares(name, &own),
            guest: self.guest(name, &own),
        }
    }

    /// The agent in a VM's guest, with what is known of the VM's disks by its word.
    fn guest(&self, name: &Name, own: &[&Entry]) -> Option<GuestStatus> {
        let mut guest = self.guests.of(name)?;
        for disk in own.iter().filter_map(|entry| self.served(entry)) {
            let (hinted, hints) = (&disk.hinted, &mut guest.hints);
            hints.ranges += hinted.ranges;
            hints.keep_out_bytes += hinted.kept_out_blocks * BLOCK_BYTES;
            hints.wanted_bytes += hinted.wanted_blocks * BLOCK_BYTES;
            hints.kept_out_blocks += disk.stats.kept_out_blocks;
        }
        Some(guest)
    }

    /// What a VM has of each cache that it has disks on.
    fn shares(&self, vm: &Name, own: &[&Entry]) -> Vec<Share> {
        let mut caches: Vec<&Name> = own.iter().map(|entry| &entry.cache).collect();
        caches.sort();
        caches.dedup();
        let shares = caches.into_iter();
        shares
            .filter_map(|cache| {
                let of_cache = own.iter().filter(|entry| entry.cache == *cache);
                let held = of_cache.filter_map(|entry| self.served(entry));
                let held_blocks = held.map(|disk| disk.stats.cached_blocks).sum();
                self.share(cache, vm, held_blocks)
            })
            .collect()
    }

    /// What a VM or image has of a cache; none while the cache has no policy or does not answer.
    fn share(&self, cache: &Name, name: &Name, held_blocks: u64) -> Option<Share> {
        let shard = self.shards.get(cache)?;
        let tenant = shard
            .tenants
            .iter()
            .find(|tenant| tenant.name == name.as_str())?;
        let report = report_of(shard, tenant.slot)?;
        let account = (cache.to_string(), Some(name.to_string()));
        let about = About {
            cache,
            error: tenant.error.clone(),
            held_blocks,
            foreseen: shard.foreseen.get(&tenant.slot).copied(),
            memory_weight: tenant.memory_weight.to_f64(),
            written_day_bytes: self.ledger.last_day(&account, report.counts.wrote.total()),
            name: &|slot| name_of(shard, slot),
        };
        Some(share_answers::share(report, about))
    }

    fn image_use(&self, image: &Name, vm: &Name) -> ImageUse {
        let entry = self
            .entries
            .iter()
            .find(|entry| entry.config.name == *image);
        let read = entry.and_then(|entry| self.reads(entry).remove(vm.as_str()));
        ImageUse {
            image: image.clone(),
            export: image_export(image, vm),
            read: read.unwrap_or_default(),
        }
    }

    fn image(&self, entry: &Entry) -> ImageStatus {
        let name = &entry.config.name;
        let mut reads = self.reads(entry);
        let may = self.book.names().into_iter();
        let mut vms: BTreeSet<Name> = may.filter(|vm| self.book.may_read(vm, name)).collect();
        // One that may no longer has read before.
        vms.extend(reads.keys().filter_map(|vm| vm.parse().ok()));
        let readers = vms.into_iter().map(|vm| ImageReader {
            read: reads.remove(vm.as_str()).unwrap_or_default(),
            vm,
        });
        let readers: Vec<ImageReader> = readers.collect();
        let mut counters = VmCounters::default();
        if let Some(served) = self.served(entry) {
            add(&mut counters, served);
        }
        ImageStatus {
            name: name.clone(),
            cache: entry.cache.clone(),
            cached_blocks: counters.cached_blocks,
            saved_blocks: readers.iter().map(|reader| reader.read.saved_blocks).sum(),
            readers,
            counters,
            share: self.share(&entry.cache, name, counters.cached_blocks),
        }
    }

    /// What each VM has read of an image, by the VM's name.
    fn reads(&self, entry: &Entry) -> BTreeMap<String, ImageRead> {
        let (Some(shard), Some(served)) = (self.shards.get(&entry.cache), self.served(entry))
        else {
            return BTreeMap::new();
        };
        let views = served.views.iter();
        views
            .filter_map(|(slot, stats)| {
                let read = ImageRead {
                    read_requests: stats.read_requests,
                    read_bytes: stats.read_bytes,
                    read_block_hits: stats.read_block_hits,
                    read_block_misses: stats.read_block_misses,
                    seen_blocks: stats.blocks_seen,
                    saved_blocks: stats.blocks_found,
                };
                Some((name_of(shard, *slot)?, read))
            })
            .collect()
    }

    fn served(&self, entry: &Entry) -> Option<&shard::DiskStatus> {
        let shard = self.shards.get(&entry.cache)?;
        shard.disks.iter().find(|disk| disk.id == entry.id)
    }
}

/// What a shard's tenancy says of a tenant; none if it is off or the tenant has no disk there.
fn report_of(shard: &ShardStatus, slot: TenantSlot) -> Option<&Report> {
    shard.reports.iter().find(|report| report.tenant == slot)
}

fn name_of(shard: &ShardStatus, slot: TenantSlot) -> Option<String> {
    let tenant = shard.tenants.iter().find(|tenant| tenant.slot == slot)?;
    Some(tenant.name.clone())
}

/// The accounts of a shard that [`Ledger`] keeps.
pub(super) fn accounts(cache: &Name, shard: &ShardStatus) -> Vec<(Account, u64)> {
    let all = shard.stats.flash_written.total();
    let each = shard.reports.iter().filter_map(|report| {
        let name = name_of(shard, report.tenant)?;
        Some(((cache.to_string(), Some(name)), report.counts.wrote.total()))
    });
    each.chain([((cache.to_string(), None), all)]).collect()
}

/// A cache's policy and how it does.
pub(super) fn policy(
    cache: &Name,
    shard: &ShardStatus,
    flash: Option<FlashSize>,
    book: &PolicyBook,
    ledger: &Ledger,
) -> PolicyStatus {
    let settings = book.settings(cache);
    let host = shard.host.as_ref();
    let mut accounts = accounts(cache, shard);
    let written = accounts.pop();
    PolicyStatus {
        settings: PolicyChange::of(&settings),
        changed: book.change_of(cache).keys(),
        error: shard.cache.error.clone(),
        capacity_blocks: flash.map_or(0, |flash| flash.capacity.blocks()),
        // No demand is an empty sum, which is minus zero.
        load: host.map_or(0.0, |host| host.load.abs()),
        flash_written_day_bytes: written
            .map_or(0, |(account, bytes)| ledger.last_day(&account, bytes)),
        write_budget: host
            .and_then(|host| host.budget.as_ref())
            .map(share_answers::budget),
        memory_bytes: host.map_or(0, |host| host.memory.get()),
        saved_blocks: host.map_or(0, |host| host.saved_by_sharing_blocks),
    }
}

fn shown(settings: &VmConfig) -> VmSettings {
    VmSettings {
        weight: settings.weight,
        floor_bytes: settings.floor.0.get(),
        ceiling_bytes: settings.ceiling.0.as_ref().map(|bytes| bytes.get()),
        write_budget: settings.write_budget.0.as_ref().map(ToString::to_string),
        admission: settings.admission.0.as_ref().map(ToString::to_string),
        high_priority: settings.high_priority,
    }
}

fn add(counters: &mut VmCounters, disk: &shard::DiskStatus) {
    let stats = &disk.stats;
    counters.read_requests += stats.read_requests;
    counters.write_requests += stats.write_requests;
    counters.read_block_hits += found(stats);
    counters.read_block_staged_hits += stats.read_block_staged_hits;
    counters.read_block_hot_hits += stats.read_block_hot_hits;
    counters.read_block_ahead_hits += stats.read_block_ahead_hits;
    counters.read_block_misses += stats.read_block_misses;
    counters.origin_read_bytes += stats.origin_read_bytes;
    counters.flash_written_bytes += stats.flash_written_bytes;
    counters.cached_blocks += stats.cached_blocks;
}
