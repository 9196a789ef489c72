//! The disk table: which slot a disk has, and whether what is on flash is surely its own.
//!
//! What is changed here is on flash when the next checkpoint is complete, or when the journal says it.

use crate::guard::{Guard, holds};
use flash_format::{DiskEntry, Position};
use std::num::NonZeroU64;
use std::ops::Range;
use units::{Bytes, DiskId, DiskSlot};

/// A disk that is to be served, for the table.
pub struct Served {
    /// Who it is.
    pub id: DiskId,
    /// What people call it.
    pub name: String,
    /// Size of its origin.
    pub size: Bytes,
    /// What its origin will be like however this life ends, if that is known.
    pub fingerprint: Option<u128>,
    /// The period that begins; 0 if it has none of its own, or only reads.
    pub epoch: u64,
    /// The tag of its key.
    pub key: Option<NonZeroU64>,
}

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

    fn get_mut(&mut self, slot: DiskSlot) -> Option<&mut DiskEntry> {
        self.0.get_mut(slot.index())?.as_mut()
    }

    /// The slot of the disk with this id, attached or remembered.
    pub(crate) fn slot_of(&self, id: DiskId) -> Option<DiskSlot> {
        slots().find(|slot| self.get(*slot).is_some_and(|entry| entry.id == id))
    }

    /// Whether what lies on flash of a disk was written under another key than it comes with, or
    /// under none.
    pub(crate) fn key_differs(&self, slot: DiskSlot, id: DiskId, key: Option<NonZeroU64>) -> bool {
        let entry = self.get(slot).filter(|entry| entry.id == id);
        entry.is_some_and(|entry| entry.key != key) && holds(Guard::SameKey)
    }

    /// Enters a disk. True if the slot was another disk's.
    pub(crate) fn enter(&mut self, slot: DiskSlot, served: Served) -> bool {
        let before = self.get(slot);
        let takes_over = before.is_some_and(|entry| entry.id != served.id);
        let before = before.filter(|entry| entry.id == served.id);
        let entry = DiskEntry {
            id: served.id,
            name: served.name,
            size: served.size,
            fingerprint: served.fingerprint,
            epoch: match served.epoch {
                0 => before.map_or(0, |entry| entry.epoch),
                epoch => epoch,
            },
            destaged: before.map_or(Position::START, |entry| entry.destaged),
            logged: before.map_or(Position::START, |entry| entry.logged),
            // What was in doubt of it is void, or nothing was: else it would not be let in.
            in_doubt: false,
            key: served.key,
        };
        self.set(slot, entry);
        takes_over
    }

    /// What a disk's origin is like, if that is known.
    pub(crate) fn set_fingerprint(&mut self, slot: DiskSlot, fingerprint: Option<u128>) {
        if let Some(entry) = self.get_mut(slot) {
            entry.fingerprint = fingerprint;
        }
    }

    /// The size of a disk's origin.
    pub(crate) fn set_size(&mut self, slot: DiskSlot, size: Bytes) {
        if let Some(entry) = self.get_mut(slot) {
            entry.size = size;
        }
    }

    /// The origin of a disk has everything up to here, and the journal says so.
    pub(crate) fn destaged(&mut self, slot: DiskSlot, to: Position) {
        if let Some(entry) = self.get_mut(slot) {
            entry.destaged = entry.destaged.max(to);
        }
    }

    /// The log of a disk is durable up to here. True if the table did not say so.
    pub(crate) fn logged(&mut self, slot: DiskSlot, to: Position) -> bool {
        let entry = self.get_mut(slot).filter(|entry| entry.logged < to);
        let is_news = entry.is_some();
        if let Some(entry) = entry {
            entry.logged = to;
        }
        is_news
    }

    fn set(&mut self, slot: DiskSlot, entry: DiskEntry) {
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

/// Every slot of the table.
pub fn slots() -> impl Iterator<Item = DiskSlot> {
    (0..).take(DiskSlot::COUNT).map(DiskSlot::new)
}
