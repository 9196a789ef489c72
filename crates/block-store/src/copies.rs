//! A view of the clean copies on flash: where they are, which are trusted, what their origins may lose.

use crate::chunks::Segments;
use crate::durability::Origins;
use crate::journal::{Journal, Ticket};
use crate::ports::{Ports, Tag};
use crate::trust::Trust;
use flash_format::JournalEntry;
use units::{BlockIndex, DiskSlot, FlashSlot};

/// What it takes to trust a copy, or to distrust it.
pub(crate) struct Copies<'a> {
    pub(crate) segments: &'a mut Segments,
    pub(crate) trust: &'a mut Trust,
    pub(crate) journal: &'a mut Journal,
    pub(crate) origins: &'a mut Origins,
}

impl Copies<'_> {
    /// Queues the entry that trusts these slots.
    pub(crate) fn trust<T: Tag>(&mut self, ports: &mut Ports<T>, first: FlashSlot, count: u32) {
        let generation = self.segments.segment_of(first).generation;
        self.trust
            .trust(ports, self.journal, first, count, generation);
    }

    /// Queues the entry that distrusts these slots; it is not urgent before somebody waits for it.
    pub(crate) fn distrust<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        first: FlashSlot,
        count: u32,
    ) -> Ticket {
        let generation = self.segments.segment_of(first).generation;
        let entry = JournalEntry::Distrust { first, count };
        self.journal.queue(ports, entry, generation)
    }

    /// Gives up a slot whose content is wrong. If it is trusted, the block stays in the index
    /// until that is durably undone, so that a write to it still knows.
    pub(crate) fn condemn<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
        slot: FlashSlot,
    ) {
        // A record that is clean although the watermark is before it is told from a dirty one by its
        // being trusted.
        if self.segments.index().get(disk, block) != Some(slot)
            || self.trust.is_condemned(slot)
            || self.segments.segment_of(slot).is_dirty
        {
            return;
        }
        if self.trust.contains(slot) {
            let ticket = self.distrust(ports, slot, 1);
            self.trust.condemn(ticket, disk, block, slot);
        } else {
            self.segments.forget(disk, block);
            ports.left(disk, block);
        }
    }
}
