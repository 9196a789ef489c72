//! What the flash has of disks that are not attached: what their next attach may find, and what an
//! operator has to know before such a disk is forgotten.

use crate::attach::is_taken;
use crate::cache::Cache;
use block_store::{DirtyDisk, LockReason, slots};
use units::{Bytes, DiskId};

/// What the flash has of a disk that is not attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Who it is.
    pub id: DiskId,
    /// What people called it.
    pub name: String,
    /// Blocks that its next attach may serve.
    pub cached_blocks: u64,
    /// Bytes of its dirty log, erased ones included. The origin lacks them unless the owner's record
    /// says that it has them.
    pub dirty: Bytes,
    /// Why its dirty log does not go to the origin without the operator.
    pub locked: Option<LockReason>,
}

impl Cache {
    /// Every disk that is not attached, and of which the flash has a block or a dirty log; none
    /// without a flash, since then nobody knows. Flash that has failed while it was in use counts for
    /// its dirty logs only.
    pub fn kept(&self) -> Option<Vec<Kept>> {
        let flash = self.flash.with_logs()?;
        let in_use = self.flash.is_in_use();
        let kept = slots().filter_map(|slot| {
            let entry = flash
                .facts()
                .disk_entry(slot)
                .filter(|_| !is_taken(&self.disks, &self.jobs, slot))?;
            let dirty = flash.dirty_log(slot);
            let log = dirty.map(|dirty| dirty.log().distinct() + dirty.log().erased());
            let doubt = entry.in_doubt.then_some(LockReason::Unbelievable);
            Some(Kept {
                id: entry.id,
                name: entry.name.clone(),
                cached_blocks: if in_use {
                    flash.facts().cached_blocks_of(slot)
                } else {
                    0
                },
                dirty: log.unwrap_or_default(),
                locked: dirty.map_or(doubt, DirtyDisk::locked),
            })
        });
        let is_some =
            |kept: &Kept| kept.cached_blocks > 0 || !kept.dirty.is_zero() || kept.locked.is_some();
        Some(kept.filter(is_some).collect())
    }
}
