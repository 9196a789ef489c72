//! What a recovery may believe: trusted slots, where dirty logs are cut, copies that are condemned.
//!
//! A slot becomes trusted with the entry of the journal that says so, and untrusted when the entry that
//! takes that away is durable ([`Trusted`]). A copy that turned out to be wrong is *condemned*: it stays in
//! the index until its distrust is durable, so that a write to its block still knows of it.

use crate::chunks::Segments;
use crate::journal::{Journal, Queued, Ticket};
use crate::ports::{Payload, Ports, Tag};
use crate::trusted::Trusted;
use flash_format::{JournalEntry, SegmentEntry, SegmentIndex};
use segment_log::{Index, Segment};
use std::collections::{BTreeMap, VecDeque};
use units::{BlockIndex, DiskSlot, FlashSlot};

/// A copy whose content is wrong.
struct Condemned {
    /// The entry that distrusts it.
    distrust: Ticket,
    disk: DiskSlot,
    block: BlockIndex,
    slot: FlashSlot,
}

/// What the segment table on flash says, or will when the journal has what is queued.
pub(crate) struct Trust {
    trusted: Trusted,
    /// Where the recovery has cut dirty logs: the page of the segment at which one ends.
    cuts: BTreeMap<SegmentIndex, u32>,
    /// Oldest first.
    condemned: VecDeque<Condemned>,
}

impl Trust {
    /// What a recovery has found.
    pub(crate) fn new(trusted: Trusted, cuts: BTreeMap<SegmentIndex, u32>) -> Self {
        Self {
            trusted,
            cuts,
            condemned: VecDeque::new(),
        }
    }

    /// Whether a recovery may believe a slot.
    #[inline]
    pub(crate) fn contains(&self, slot: FlashSlot) -> bool {
        self.trusted.contains(slot)
    }

    /// Queues the entry that trusts these slots.
    pub(crate) fn trust<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        journal: &mut Journal,
        segments: &Segments<T::Payload>,
        first: FlashSlot,
        count: u32,
    ) {
        self.trusted.set(first, count);
        let generation = segments.table().segment_of(first).generation;
        journal.queue(ports, JournalEntry::Trust { first, count }, generation);
    }

    /// An entry of the journal is durable: what it distrusts is untrusted.
    pub(crate) fn entry_durable<P: Payload>(&mut self, segments: &Segments<P>, queued: Queued) {
        let Queued { entry, generation } = queued;
        if let JournalEntry::Distrust { first, count } = entry {
            // The slot may have been freed and used again since: then the bit is another block's.
            if segments.table().segment_of(first).generation == generation {
                self.trusted.clear(first, count);
            }
        }
    }

    /// Gives up a slot whose content is wrong. If it is trusted, the block stays in the index
    /// until that is durably undone, so that a write to it still knows.
    pub(crate) fn condemn<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        journal: &mut Journal,
        segments: &mut Segments<T::Payload>,
        disk: DiskSlot,
        block: BlockIndex,
        slot: FlashSlot,
    ) {
        // A record that is clean although the watermark is before it is told from a dirty one by its
        // being trusted.
        if segments.index().get(disk, block) != Some(slot)
            || self.is_condemned(slot)
            || segments.table().segment_of(slot).is_dirty
        {
            return;
        }
        if self.contains(slot) {
            let distrust = distrust(ports, journal, segments, slot);
            self.condemned.push_back(Condemned {
                distrust,
                disk,
                block,
                slot,
            });
        } else {
            segments.forget(disk, block);
            ports.left(disk, block);
        }
    }

    /// Whether a slot's content is wrong, and that it is distrusted not durable yet.
    pub(crate) fn is_condemned(&self, slot: FlashSlot) -> bool {
        self.condemned
            .iter()
            .any(|condemned| condemned.slot == slot)
    }

    /// Forgets the condemned copies whose distrust is durable.
    pub(crate) fn forget_condemned<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        segments: &mut Segments<T::Payload>,
        durable: Ticket,
    ) {
        let is_durable = |condemned: &mut Condemned| condemned.distrust <= durable;
        while let Some(copy) = self.condemned.pop_front_if(is_durable) {
            if segments.forget_if(copy.disk, copy.block, copy.slot) {
                ports.left(copy.disk, copy.block);
            }
        }
    }

    /// Nothing of a segment counts any more.
    pub(crate) fn release(&mut self, segment: SegmentIndex) {
        self.cuts.remove(&segment);
        self.trusted.clear_segment(segment);
    }

    /// A segment's entry in a checkpoint, with everything that is queued.
    pub(crate) fn entry(&self, index: SegmentIndex, segment: &Segment) -> SegmentEntry {
        let cut = self.cuts.get(&index).copied();
        self.trusted.entry(index, segment, cut)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.trusted.bytes()
    }
}

/// Queues the entry that distrusts a slot; it is not urgent before somebody waits for it. The slot is
/// untrusted when the entry is durable.
pub(crate) fn distrust<T: Tag>(
    ports: &mut Ports<T>,
    journal: &mut Journal,
    segments: &Segments<T::Payload>,
    slot: FlashSlot,
) -> Ticket {
    let generation = segments.table().segment_of(slot).generation;
    let entry = JournalEntry::Distrust {
        first: slot,
        count: 1,
    };
    journal.queue(ports, entry, generation)
}
