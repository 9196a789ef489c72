//! The disk table: which slot a disk has, and whether what is on flash is surely its own.

use crate::store::Store;
use flash_format::DiskEntry;
use segment_log::Phase;
use std::ops::Range;
use units::{DiskId, DiskSlot};

/// The disks that are remembered, by slot: memory only up to the highest that is taken.
#[derive(Debug)]
pub(crate) struct DiskTable(Vec<Option<DiskEntry>>);

impl From<Vec<Option<DiskEntry>>> for DiskTable {
    fn from(mut disks: Vec<Option<DiskEntry>>) -> Self {
        let used = disks.iter().rposition(Option::is_some);
        disks.truncate(used.map_or(0, |last| last + 1));
        disks.shrink_to_fit();
        Self(disks)
    }
}

impl DiskTable {
    pub(crate) fn get(&self, slot: DiskSlot) -> Option<&DiskEntry> {
        self.0.get(slot.index())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: DiskSlot) -> Option<&mut DiskEntry> {
        self.0.get_mut(slot.index())?.as_mut()
    }

    pub(crate) fn set(&mut self, slot: DiskSlot, entry: DiskEntry) {
        if self.0.len() <= slot.index() {
            self.0.resize(slot.index() + 1, None);
        }
        self.0[slot.index()] = Some(entry);
    }

    /// A part of the table, as a checkpoint has it.
    pub(crate) fn part(&self, slots: Range<usize>) -> Vec<Option<DiskEntry>> {
        let entry = |at| self.0.get(at).cloned().flatten();
        slots.map(entry).collect()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let names = self.0.iter().flatten().map(|entry| entry.name.capacity());
        self.0.capacity() * size_of::<Option<DiskEntry>>() + names.sum::<usize>()
    }
}

impl Store {
    /// The slot of the disk with this id, attached or remembered.
    pub fn slot_of(&self, id: DiskId) -> Option<DiskSlot> {
        slots().find(|slot| self.disks.get(*slot).is_some_and(|entry| entry.id == id))
    }

    /// A slot that no disk has, or else one whose disk is not attached and has nothing here.
    pub fn vacant_slot(&self, taken: impl Fn(DiskSlot) -> bool) -> Option<DiskSlot> {
        let empty = |slot: &DiskSlot| {
            !self
                .log
                .segments()
                .any(|(_, segment)| segment.disk == *slot && segment.phase != Phase::Free)
        };
        slots()
            .find(|slot| self.disks.get(*slot).is_none() && !taken(*slot))
            .or_else(|| slots().find(|slot| !taken(*slot) && empty(slot)))
    }
}

/// Every slot of the table.
pub fn slots() -> impl Iterator<Item = DiskSlot> {
    (0..).take(DiskSlot::COUNT).map(DiskSlot::new)
}
