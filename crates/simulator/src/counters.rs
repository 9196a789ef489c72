//! What a run counts. Accesses, hits and misses are of blocks; requests are the trace's; bytes say so.

use crate::number::ratio;
use serde::Serialize;
use std::ops::AddAssign;

/// Counts of a run, of one of its volumes, or of an interval of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Requests that read.
    pub read_requests: u64,
    /// Requests that write.
    pub write_requests: u64,
    /// Flushes.
    pub flush_requests: u64,
    /// Discards and write-zeroes.
    pub discard_requests: u64,
    /// Blocks that were read.
    pub reads: u64,
    /// Blocks that were read and in the cache.
    pub read_hits: u64,
    /// Those of them that were in RAM: staged and not on flash, or in the memory in front.
    pub ram_read_hits: u64,
    /// Those of them that had a copy in the memory in front.
    pub ram_hot_read_hits: u64,
    /// Blocks that were written.
    pub writes: u64,
    /// Blocks that were written and in the cache.
    pub write_hits: u64,
    /// Those of them that were staged in RAM, not on flash.
    pub ram_write_hits: u64,
    /// Bytes that were read or written.
    pub bytes: u64,
    /// Those of them that lay in blocks which were in the cache.
    pub hit_bytes: u64,
    /// Reads that reached the origin; adjacent missing blocks of a request are one.
    pub origin_reads: u64,
    /// Bytes of them.
    pub origin_read_bytes: u64,
    /// Writes that reached the origin. A block destaged from its place is one; blocks beside each other that
    /// are destaged from a dirty log together are one.
    pub origin_writes: u64,
    /// Bytes of them.
    pub origin_write_bytes: u64,
    /// Blocks written to flash because they were not in the cache.
    pub flash_fill_blocks: u64,
    /// Blocks written to flash because the guest wrote what was in the cache.
    pub flash_update_blocks: u64,
    /// Blocks written to dirty logs on flash.
    pub flash_dirty_blocks: u64,
    /// Blocks that reclaim wrote to flash again.
    pub flash_reclaim_blocks: u64,
    /// Blocks of descriptors written to flash.
    pub flash_descriptor_blocks: u64,
    /// Pages of journal and checkpoints written to flash.
    pub flash_journal_blocks: u64,
    /// Dirty blocks that were written to the origin.
    pub destaged_blocks: u64,
    /// Blocks of dirty logs that the origin did not need any more: they had been written again or erased.
    pub coalesced_blocks: u64,
}

impl Counters {
    /// Requests of any kind.
    pub const fn requests(&self) -> u64 {
        self.read_requests + self.write_requests + self.flush_requests + self.discard_requests
    }

    /// Blocks read and written.
    pub const fn accesses(&self) -> u64 {
        self.reads + self.writes
    }

    /// Accesses that found their block in the cache.
    pub const fn hits(&self) -> u64 {
        self.read_hits + self.write_hits
    }

    /// Hits whose blocks were in RAM: staged and not on flash, or in the memory in front.
    pub const fn ram_hits(&self) -> u64 {
        self.ram_read_hits + self.ram_write_hits
    }

    /// Accesses that did not.
    pub const fn misses(&self) -> u64 {
        self.accesses() - self.hits()
    }

    /// Misses by accesses; zero without accesses.
    pub fn miss_ratio(&self) -> f64 {
        ratio(self.misses(), self.accesses())
    }

    /// Blocks written to flash for whatever cause.
    pub const fn flash_writes_blocks(&self) -> u64 {
        self.admitted_blocks()
            + self.flash_reclaim_blocks
            + self.flash_descriptor_blocks
            + self.flash_journal_blocks
    }

    /// Blocks written to flash because of an access: fills, updates and what goes to dirty logs.
    pub const fn admitted_blocks(&self) -> u64 {
        self.flash_fill_blocks + self.flash_update_blocks + self.flash_dirty_blocks
    }

    /// Blocks written to flash for each block admitted; 1 for a cache that writes in place.
    pub fn write_amplification(&self) -> f64 {
        ratio(self.flash_writes_blocks(), self.admitted_blocks())
    }
}

impl Counters {
    /// What was counted after `earlier`.
    pub(crate) fn since(mut self, earlier: &Self) -> Self {
        self.pairwise(earlier, |value, other| *value -= other);
        self
    }

    fn pairwise(&mut self, other: &Self, each: impl Fn(&mut u64, u64)) {
        let pairs = [
            (&mut self.read_requests, other.read_requests),
            (&mut self.write_requests, other.write_requests),
            (&mut self.flush_requests, other.flush_requests),
            (&mut self.discard_requests, other.discard_requests),
            (&mut self.reads, other.reads),
            (&mut self.read_hits, other.read_hits),
            (&mut self.ram_read_hits, other.ram_read_hits),
            (&mut self.ram_hot_read_hits, other.ram_hot_read_hits),
            (&mut self.ram_write_hits, other.ram_write_hits),
            (&mut self.writes, other.writes),
            (&mut self.write_hits, other.write_hits),
            (&mut self.bytes, other.bytes),
            (&mut self.hit_bytes, other.hit_bytes),
            (&mut self.origin_reads, other.origin_reads),
            (&mut self.origin_read_bytes, other.origin_read_bytes),
            (&mut self.origin_writes, other.origin_writes),
            (&mut self.origin_write_bytes, other.origin_write_bytes),
            (&mut self.flash_fill_blocks, other.flash_fill_blocks),
            (&mut self.flash_update_blocks, other.flash_update_blocks),
            (&mut self.flash_dirty_blocks, other.flash_dirty_blocks),
            (&mut self.flash_reclaim_blocks, other.flash_reclaim_blocks),
            (
                &mut self.flash_descriptor_blocks,
                other.flash_descriptor_blocks,
            ),
            (&mut self.flash_journal_blocks, other.flash_journal_blocks),
            (&mut self.destaged_blocks, other.destaged_blocks),
            (&mut self.coalesced_blocks, other.coalesced_blocks),
        ];
        for (value, other) in pairs {
            each(value, other);
        }
    }
}

impl AddAssign<&Self> for Counters {
    fn add_assign(&mut self, other: &Self) {
        self.pairwise(other, |value, other| *value += other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_differences_have_every_field() {
        let ones = serde_json::to_value(Counters::default()).unwrap();
        let ones: serde_json::Map<_, _> = ones
            .as_object()
            .unwrap()
            .keys()
            .map(|key| (key.clone(), 1.into()))
            .collect();
        let fields = ones.len();
        let one = Counters {
            read_requests: 1,
            write_requests: 1,
            flush_requests: 1,
            discard_requests: 1,
            reads: 1,
            read_hits: 1,
            ram_read_hits: 1,
            ram_hot_read_hits: 1,
            writes: 1,
            write_hits: 1,
            ram_write_hits: 1,
            bytes: 1,
            hit_bytes: 1,
            origin_reads: 1,
            origin_read_bytes: 1,
            origin_writes: 1,
            origin_write_bytes: 1,
            flash_fill_blocks: 1,
            flash_update_blocks: 1,
            flash_dirty_blocks: 1,
            flash_reclaim_blocks: 1,
            flash_descriptor_blocks: 1,
            flash_journal_blocks: 1,
            destaged_blocks: 1,
            coalesced_blocks: 1,
        };
        let mut two = one;
        two += &one;
        assert_eq!(two.since(&one), one);
        let values = serde_json::to_value(two).unwrap();
        assert_eq!(fields, 25);
        for (name, value) in values.as_object().unwrap() {
            assert_eq!(value, 2, "{name}");
        }
    }
}
