//! Reads that go past flash that is slow, and the probes that find out whether it is still: what
//! `slow_reads.rs` decides, done.

use super::GuestReads;
use super::hit_of;
use crate::purpose::Hit;
use crate::under_way::ReadId;
use std::ops::Range;
use units::FlashSlot;

impl GuestReads<'_> {
    /// A read from flash takes too long: the origin is asked instead.
    pub(crate) fn is_late(&mut self, hit: &Hit) {
        self.ports.stats.flash_timeouts += 1;
        self.hold_in_place(hit);
        self.refetch(hit);
        self.state.slow.late(self.ports.now);
    }

    /// A read from flash has ended.
    #[inline]
    pub(crate) fn took(&mut self, hit: &Hit, is_in_time: bool) {
        self.state
            .slow
            .ended(is_in_time, hit.is_probe, self.ports.now);
    }

    /// Reads the bytes `bytes` of a disk, which lie in slots that follow each other, past slow flash.
    pub(super) fn read_past_flash(
        &mut self,
        id: ReadId,
        bytes: Range<u64>,
        slot: FlashSlot,
        count: u32,
    ) {
        let part = self.state.reads.add_part(id, bytes.start);
        let (disk, length) = (self.state.reads.get(id).disk(), bytes.end - bytes.start);
        if self.state.slow.takes_probe(self.ports.now)
            && let Some(flash) = self.flash.as_mut()
        {
            let probe = Hit {
                // Nobody waits for it.
                abandoned: true,
                is_probe: true,
                ..hit_of(id, part, disk, &bytes, (slot, count))
            };
            probe.read(flash, self.ports, None);
        }
        self.fetch_part(id, part, disk, bytes.start, length);
    }
}
