//! The disk table: which slot a disk has, and whether what is on flash is surely its own.

use crate::api::DropReason;
use crate::flash::Flash;
use crate::guard::{Guard, lacks};
use segment_log::Phase;
use units::{Bytes, DiskId, DiskSlot};

impl Flash {
    /// The slot of the disk with this id, attached or remembered.
    pub(crate) fn slot_of(&self, id: DiskId) -> Option<DiskSlot> {
        slots().find(|slot| {
            self.disks[slot.index()]
                .as_ref()
                .is_some_and(|entry| entry.id == id)
        })
    }

    /// A slot that no disk has, or else one whose disk is not attached and has nothing here.
    pub(crate) fn vacant_slot(&self, taken: impl Fn(DiskSlot) -> bool) -> Option<DiskSlot> {
        let empty = |slot: &DiskSlot| {
            !self
                .log
                .segments()
                .any(|(_, segment)| segment.disk == *slot && segment.phase != Phase::Free)
        };
        slots()
            .find(|slot| self.disks[slot.index()].is_none() && !taken(*slot))
            .or_else(|| slots().find(|slot| !taken(*slot) && empty(slot)))
    }

    /// Why the blocks of a disk that comes back cannot be served, if so.
    pub(crate) fn why_drop(
        &self,
        slot: DiskSlot,
        size: Bytes,
        fingerprint: Option<u128>,
    ) -> Option<DropReason> {
        let entry = self.disks[slot.index()].as_ref()?;
        if entry.size != size {
            return Some(DropReason::SizeChanged);
        }
        match (entry.fingerprint, fingerprint) {
            (Some(then), Some(now)) if then != now && !lacks(Guard::Fingerprint) => {
                Some(DropReason::OriginChanged)
            }
            _ => None,
        }
    }
}

/// Every slot of the table.
pub(crate) fn slots() -> impl Iterator<Item = DiskSlot> {
    (0..).take(DiskSlot::COUNT).map(DiskSlot::new)
}
