//! Reads that go past flash that is slow, and the probes that find out whether it is still: what
//! `slow_reads.rs` decides, done.

use crate::cache::Cache;
use crate::purpose::Hit;
use crate::under_way::{ReadId, index};
use std::ops::Range;
use units::{BLOCK_BYTES, BlockIndex, Bytes, Duration, FlashSlot};

impl Cache {
    /// Whether reads of cached blocks go to their origins, since the flash is late with them.
    pub fn bypasses_reads(&self) -> bool {
        self.flash.is_in_use() && self.slow_reads.is_slow()
    }

    /// A read of the flash is late; the origin was asked instead.
    pub(crate) fn read_is_late(&mut self) {
        self.slow_reads.late(self.ports.now);
    }

    /// A read of the flash has ended after this time.
    pub(crate) fn hit_took(&mut self, hit: &Hit, time: Duration) {
        self.admission.flash_took(time);
        self.backs.flash_took(time);
        let is_in_time = time < self.config.flash_timeout;
        self.slow_reads
            .ended(is_in_time, hit.is_probe, self.ports.now);
    }

    /// Reads the bytes `bytes` of a disk, which lie in slots that follow each other, past slow flash.
    pub(crate) fn read_past_flash(
        &mut self,
        id: ReadId,
        bytes: Range<u64>,
        slot: FlashSlot,
        count: u32,
    ) {
        let part = self.reads.add_part(id, bytes.start);
        let (disk, length) = (self.reads.get(id).disk(), bytes.end - bytes.start);
        if self.slow_reads.takes_probe(self.ports.now)
            && let Some(flash) = self.flash.as_mut()
        {
            let probe = Hit {
                read: id,
                part,
                disk,
                first: BlockIndex::containing(Bytes::new(bytes.start)),
                slot,
                count,
                skip: index(bytes.start % BLOCK_BYTES),
                length: index(length),
                // Nobody waits for it.
                abandoned: true,
                is_probe: true,
                dirty: false,
                in_place: false,
            };
            probe.read(flash, &mut self.ports, None);
        }
        self.fetch_part(id, part, disk, bytes.start, length);
    }
}
