//! Who a disk is that is about to be attached, and what of it on flash is its own.

use super::State;
use crate::api::{ControlError, ControlOutcome, DropReason, OwnerRecord, Tenure, WritePolicy};
use crate::back::Back;
use crate::disks::{Disk, Disks};
use crate::flash_use::FlashUse;
use crate::guard::{Guard, holds};
use crate::jobs::{Jobs, Newcomer};
use crate::ownership::{Flashed, Verdict, judge};
use crate::tenants::{Tenants, Use};
use block_store::{DirtyDisk, LockReason, slots};
use flash_format::DISK_BYTES_MAX;
use flash_format::DiskEntry;
use std::num::NonZeroU64;
use units::{Bytes, DiskId, DiskSlot, SECTOR_BYTES};

/// Whether a slot is attached or about to be.
pub(crate) fn is_taken(disks: &Disks, jobs: &Jobs, slot: DiskSlot) -> bool {
    disks.get(slot).is_some() || jobs.attaches_at(slot)
}

/// The parts of a cache that say whether a disk may be attached, and where.
pub(crate) struct Candidate<'a> {
    jobs: &'a Jobs,
    flash: &'a FlashUse,
    disks: &'a mut Disks,
    tenants: &'a mut Tenants,
    /// The tag of the key that it comes with.
    key: Option<NonZeroU64>,
}

impl Candidate<'_> {
    /// Who the disk is, and what of it on flash is its own.
    ///
    /// # Errors
    /// If it may not be attached; then nothing has changed.
    pub(crate) fn judge(
        self,
        id: DiskId,
        name: String,
        tenant: &str,
        mut disk: Disk,
        fingerprint: Option<u128>,
        owner: Option<OwnerRecord>,
    ) -> Result<Newcomer, ControlError> {
        if !disk.size.is_multiple_of(SECTOR_BYTES) || disk.size > DISK_BYTES_MAX {
            return Err(ControlError::UnsupportedSize);
        }
        if disk.policy == WritePolicy::Back
            && let Some(error) = disk.why_not_back()
        {
            return Err(error);
        }
        let (slot, mut dropped) = self.slot_for(id, &disk, fingerprint)?;
        let (uuid, flashed) = self.flashed(slot, id);
        let verdict = self.verdict(slot, &disk, owner, uuid, flashed)?;
        let stands_by = disk.tenure == Tenure::Standby;
        let key = self.key;
        let flash = self.flash.with_logs();
        if flash.is_some_and(|flash| flash.facts().key_differs(slot, id, key)) {
            dropped = dropped.or(Some(DropReason::KeyChanged));
        }
        let is_open = !stands_by && owner.is_some_and(|record| record.open);
        let counts = verdict.serves_log();
        let serves = counts && flashed.dirty_epoch.is_some();
        let waits = is_open || serves;
        match dropped {
            // What the origin lacks may not fit any more, and what it has may be another's.
            Some(DropReason::SizeChanged) if waits && holds(Guard::SameSize) => {
                return Err(ControlError::SizeChanged);
            }
            Some(DropReason::OriginChanged) if serves => {
                return Err(ControlError::OriginChanged);
            }
            Some(DropReason::KeyChanged) if serves => {
                return Err(ControlError::OtherKey);
            }
            _ => {}
        }
        if let Some(reason) = verdict.why_drop()
            && !(reason == DropReason::OtherOwner && self.succeeds(id, &disk))
        {
            dropped = dropped.or(Some(reason));
        }
        let flash = self.flash.as_ref();
        let before = flash.and_then(|flash| flash.facts().disk_entry(slot));
        let takes_over = before.is_some_and(|entry| entry.id != id);
        if self.jobs.has_one_about(slot) {
            return Err(ControlError::Busy);
        }
        if serves && !self.flash.is_in_use() {
            return Err(ControlError::Locked(LockReason::FlashLost));
        }
        if serves && disk.read_only {
            // Nobody could bring them to the origin.
            let bytes = self.flash.dirty_bytes(slot);
            return Err(ControlError::Dirty { bytes });
        }
        let record = self.record_of(&mut disk, owner, flashed, serves);
        disk.tenant = self.disks.hold_tenant(self.tenants, tenant, Use::Disk)?;
        Ok(Newcomer {
            slot,
            id,
            name,
            disk,
            dropped,
            takes_over,
            void: !counts && (!stands_by || holds(Guard::LeftoversFirst)),
            key,
            fingerprint,
            record,
        })
    }

    /// What becomes of what is on flash of a disk.
    ///
    /// # Errors
    /// If that is not known here, or may be needed.
    fn verdict(
        &self,
        slot: DiskSlot,
        disk: &Disk,
        owner: Option<OwnerRecord>,
        uuid: u128,
        flashed: Flashed,
    ) -> Result<Verdict, ControlError> {
        if disk.tenure != Tenure::Standby {
            return judge(owner, uuid, flashed);
        }
        let has_log = flashed.dirty_epoch.is_some() || flashed.locked.is_some();
        if has_log && !is_of_another(owner, uuid) {
            let bytes = self.flash.dirty_bytes(slot);
            return Err(ControlError::Dirty { bytes });
        }
        Ok(Verdict::Drop(DropReason::OtherOwner))
    }

    /// Whether what is cached of a disk was kept right while it was another host's.
    fn succeeds(&self, id: DiskId, disk: &Disk) -> bool {
        disk.tenure == Tenure::Successor && self.disks.was_standby(id)
    }

    /// The slot that a disk has or gets, and why what is cached of it cannot be served, if so.
    fn slot_for(
        &self,
        id: DiskId,
        disk: &Disk,
        fingerprint: Option<u128>,
    ) -> Result<(DiskSlot, Option<DropReason>), ControlError> {
        // It may have no slot in the tables yet.
        if self.jobs.attaches(id) {
            return Err(ControlError::AlreadyAttached);
        }
        let Some(flash) = self.flash.as_ref() else {
            let slot = self.bypassed_slot(id)?;
            // Nothing is cached, but what the failed flash has of it may wait for an origin as it was.
            let entry = self
                .flash
                .with_logs()
                .and_then(|failed| failed.facts().disk_entry(slot));
            let differs = entry.is_some_and(|entry| entry.id == id && entry.size > disk.size);
            return Ok((slot, differs.then_some(DropReason::SizeChanged)));
        };
        match flash.facts().slot_of(id) {
            Some(slot) if self.is_taken(slot) => Err(ControlError::AlreadyAttached),
            Some(slot) => {
                let entry = flash.facts().disk_entry(slot);
                let dropped = entry.and_then(|entry| why_drop(entry, disk.size, fingerprint));
                Ok((slot, dropped))
            }
            None => {
                let vacant = flash.facts().vacant_slot(|slot| self.is_taken(slot));
                Ok((vacant.ok_or(ControlError::TooManyDisks)?, None))
            }
        }
    }

    fn bypassed_slot(&self, id: DiskId) -> Result<DiskSlot, ControlError> {
        if self.disks.has(id) {
            return Err(ControlError::AlreadyAttached);
        }
        slots()
            // What has failed may have bytes that the origin of the slot's last disk lacks.
            .find(|slot| !self.is_taken(*slot) && !self.flash.has_dirty(*slot))
            .ok_or(ControlError::TooManyDisks)
    }

    /// What the flash knows of the disk, and which cache it is.
    fn flashed(&self, slot: DiskSlot, id: DiskId) -> (u128, Flashed) {
        let Some(flash) = self.flash.with_logs() else {
            return (0, Flashed::default());
        };
        let Some(entry) = flash
            .facts()
            .disk_entry(slot)
            .filter(|entry| entry.id == id)
        else {
            return (flash.facts().uuid(), Flashed::default());
        };
        let dirty = flash.dirty_logs().get(slot);
        let full = dirty.filter(|dirty| !dirty.log().is_empty());
        let flashed = Flashed {
            epoch: entry.epoch,
            dirty_epoch: full.map(DirtyDisk::epoch),
            locked: match dirty {
                Some(dirty) => dirty.locked(),
                // Where its log might be could not be read.
                None => entry.in_doubt.then_some(LockReason::Unbelievable),
            },
        };
        (flash.facts().uuid(), flashed)
    }

    /// Begins a period of the disk, if it may be written. Returns what is to be recorded of it,
    /// whatever its policy: of most origins nobody else can tell a cache that has missed writes.
    fn record_of(
        &self,
        disk: &mut Disk,
        owner: Option<OwnerRecord>,
        flashed: Flashed,
        serves: bool,
    ) -> Option<OwnerRecord> {
        let back = disk.policy == WritePolicy::Back && self.flash.is_in_use();
        if disk.read_only || disk.tenure == Tenure::Standby {
            return None;
        }
        // The flash is ahead of the record if an attach was cut short. Its epoch is not used again: a
        // copy of the flash that was taken then would pass for this one.
        let before = owner.map_or(0, |record| record.epoch).max(flashed.epoch);
        disk.epoch = before + 1;
        Some(OwnerRecord {
            epoch: disk.epoch,
            cache: self.flash.as_ref().map_or(0, |flash| flash.facts().uuid()),
            open: back || serves,
        })
    }

    fn is_taken(&self, slot: DiskSlot) -> bool {
        is_taken(self.disks, self.jobs, slot)
    }
}

impl State {
    /// Looks at a disk that is to be attached.
    pub(super) fn candidate(&mut self, id: DiskId) -> Candidate<'_> {
        let cipher = self.coming_ciphers.get(&id);
        Candidate {
            jobs: &self.jobs,
            flash: &self.flash,
            disks: &mut self.disks,
            tenants: &mut self.tenants,
            key: cipher.map(|cipher| cipher.tag()),
        }
    }

    /// A disk is attached: its guest may ask from now on.
    pub(super) fn end_attach(&mut self, newcomer: Newcomer) -> ControlOutcome {
        let slot = newcomer.slot;
        let warm_blocks = match self.flash.as_ref() {
            Some(flash) => flash.facts().cached_blocks_of(slot),
            None => 0,
        };
        let cipher = self.coming_ciphers.remove(&newcomer.id);
        // If the flash has failed meanwhile what it has of the log is brought to the origin all the same.
        let takes_key = self.flash.is_in_use() || holds(Guard::KeyForFailedFlash);
        if let Some(flash) = self.flash.with_logs_mut().filter(|_| takes_key) {
            flash.ciphers_mut().set(slot, cipher);
        }
        if let Some(flash) = self.flash.as_mut() {
            flash
                .origins_mut()
                .attached(slot, newcomer.disk.never_writes());
            // What was kept for another host is this one's now.
            flash.write_back().ship_for(slot, None);
        }
        let tenant = newcomer.disk.tenant;
        let has_log = self
            .flash
            .as_ref()
            .is_some_and(|flash| flash.dirty_logs().has(slot));
        self.backs.stay_through(slot);
        let back = newcomer.disk.policy == WritePolicy::Back || has_log;
        // If the flash has failed meanwhile the record is to be closed, and the log is on the wreck.
        let is_open = newcomer.record.is_some_and(|record| record.open);
        if (back && self.flash.is_in_use()) || is_open {
            let disk = &newcomer.disk;
            let number = self.backs.number();
            let back = Back::attached(disk.write_back, disk.epoch, number, self.ports.now());
            self.backs.set(slot, Box::new(back));
            self.flash.give_log(slot);
            self.ports.schedule(slot);
        }
        self.disks.attach(slot, newcomer.id, newcomer.disk);
        self.division().own_disk(slot, Some(tenant));
        self.division().begin(tenant);
        ControlOutcome::Attached {
            disk: slot,
            tenant,
            warm_blocks,
            dropped: newcomer.dropped,
        }
    }
}

/// Whether the record names another cache than this one: nothing that this one has of the disk counts any more.
fn is_of_another(owner: Option<OwnerRecord>, uuid: u128) -> bool {
    owner.is_some_and(|record| record.cache != uuid && record.cache != 0)
}

/// Why the blocks of a disk that comes back cannot be served, if so.
fn why_drop(entry: &DiskEntry, size: Bytes, fingerprint: Option<u128>) -> Option<DropReason> {
    if entry.size > size {
        return Some(DropReason::SizeChanged);
    }
    match (entry.fingerprint, fingerprint) {
        (Some(then), Some(now)) if then != now && holds(Guard::Fingerprint) => {
            Some(DropReason::OriginChanged)
        }
        _ => None,
    }
}
