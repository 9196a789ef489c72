//! What the origin has durably becomes clean.

use super::{DirtyDisk, Settled};
use crate::ports::{Ports, Tag};
use crate::store::Store;
use flash_format::{JournalEntry, Position};
use segment_log::Phase;
use units::{BlockIndex, DiskSlot, FlashSlot};

impl Store {
    /// The origin has every record of a disk's log before this number, durably.
    ///
    /// # Panics
    /// If the log does not go so far.
    pub fn settle<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot, to: u64) {
        let Some(dirty) = self.dirty.get_mut(disk) else {
            return;
        };
        let mut clean = Vec::new();
        let base = dirty.log.base();
        let records = dirty.log.records(base, to.max(base));
        dirty.repeats.settled(records);
        dirty
            .log
            .settle(to, |block, slot| clean.push((block, slot)));
        self.settled(ports, disk, &clean);
    }

    /// The origin has these records, durably, whatever came before them.
    pub fn settle_some<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot, numbers: &[u64]) {
        let Some(dirty) = self.dirty.get_mut(disk) else {
            return;
        };
        let mut clean = Vec::new();
        dirty
            .log
            .settle_some(numbers.iter().copied(), |block, slot| {
                clean.push((block, slot));
            });
        dirty.repeats.any_before(dirty.log.base());
        self.settled(ports, disk, &clean);
    }

    /// Nothing that the log has counts any more.
    pub fn void_log<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot) {
        let Some(dirty) = self.dirty.get_mut(disk) else {
            return;
        };
        let end = dirty.log.end();
        dirty.log.settle(end, |_, _| {});
        dirty.repeats.any_before(end);
        dirty.locked = None;
        let logged = self.disks.get(disk).map_or(Position::START, |e| e.logged);
        // Nor has anything to be there that was durable and is lost.
        self.settled_to(ports, disk, logged, &[]);
    }

    /// Whether a recovery would find nothing of the log of a disk of which the origin has everything.
    pub fn knows_end_of_log(&mut self, disk: DiskSlot) -> bool {
        let known =
            |dirty: &DirtyDisk| dirty.settled.is_empty() && dirty.released() >= dirty.log.end();
        let known = self.dirty.get(disk).is_none_or(known);
        if !known {
            self.journal.hurry();
        }
        known
    }

    fn settled<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        clean: &[(BlockIndex, FlashSlot)],
    ) {
        self.settled_to(ports, disk, Position::START, clean);
    }

    /// The watermark is where the log says that it is, or at `least`.
    fn settled_to<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        least: Position,
        clean: &[(BlockIndex, FlashSlot)],
    ) {
        let Some(dirty) = self.dirty.get(disk) else {
            return;
        };
        let to = dirty.log.watermark().max(least);
        let written = dirty.log.base() <= dirty.written();
        let told = dirty.settled.back().map(|settled| settled.to);
        let known = self.disks.get(disk).map(|entry| entry.destaged);
        if known.is_some() && told.max(known) < Some(to) {
            let entry = JournalEntry::Destaged { disk, to };
            let ticket = self.journal.queue(ports, entry, to.generation);
            if let Some(dirty) = self.dirty.get_mut(disk) {
                let base = dirty.log.base();
                dirty.settled.push_back(Settled { ticket, base, to });
            }
        }
        let mut run: Option<(FlashSlot, u32)> = None;
        for (block, slot) in clean {
            if !self.becomes_clean(ports, disk, *block, *slot, written) {
                continue;
            }
            run = match run {
                Some((first, count)) if first.advance(count) == *slot => Some((first, count + 1)),
                Some((first, count)) => {
                    self.copies().0.trust(ports, first, count);
                    Some((*slot, 1))
                }
                None => Some((*slot, 1)),
            };
        }
        if let Some((first, count)) = run {
            self.copies().0.trust(ports, first, count);
        }
        self.release_log_segments(disk);
    }

    /// Enters a block into the index. True if its slot may be trusted at once.
    fn becomes_clean<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
        slot: FlashSlot,
        written: bool,
    ) -> bool {
        if self.log.enter(disk, block, slot).is_err() {
            ports.stats.not_taken.index_full += 1;
            return false;
        }
        if written || self.log.is_written(slot) {
            return true;
        }
        let (mut copies, resting) = self.copies();
        let count = copies.origins.write_count(disk);
        resting.rest(ports, &mut copies, disk, block, slot, count);
        false
    }

    /// Segments of which the origin has everything are ordinary ones from now on, once that is durably
    /// known. Their reuse needs no guard of its own: the entry that frees a segment lies behind the one
    /// that says so in the same journal, and is durable before the segment is written again.
    pub(crate) fn release_log_segments(&mut self, disk: DiskSlot) {
        let durable = self.journal.durable();
        let Some(dirty) = self.dirty.get_mut(disk) else {
            return;
        };
        while let Some(settled) = dirty.settled.pop_front_if(|s| s.ticket <= durable) {
            dirty.released = settled.base;
            dirty.repeats.known(settled.base);
            self.disks.destaged(disk, settled.to);
        }
        while let Some(segment) = dirty.segments.front()
            && segment.end <= dirty.released
            && matches!(
                self.log.segment(segment.segment).phase,
                Phase::Closing | Phase::Dirty
            )
        {
            self.log.destaged(segment.segment);
            dirty.segments.pop_front();
        }
    }
}
