//! Counting requests of one block each: by stretches of them, not one by one.
//!
//! What is counted is what [`Run`] counts of each request: one block is hit or missed as a whole, so that sums over a
//! stretch do.

use super::{Run, count_read, count_write, of_volume};
use crate::number::length;
use crate::outcome::Tally;
use crate::write_policy::WritePolicy;
use trace::{Batch, Op, Stretch};

impl Run {
    /// A batch whose requests are these stretches.
    pub(super) fn run_stretches(&mut self, batch: &Batch, stretches: &[Stretch]) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        outcomes.reset(batch.keys.len());
        self.cache
            .run_stretches(stretches, &batch.keys, &mut outcomes);
        self.count_stretches(stretches, &outcomes.blocks);
        for timed in &outcomes.chores {
            self.chore(timed.chore, timed.blocks);
        }
        self.outcomes = outcomes;
        self.look_at_use(length(batch.keys.len()));
    }

    /// Counts requests; `blocks` has what became of the block of each.
    fn count_stretches(&mut self, stretches: &[Stretch], blocks: &[u8]) {
        let mut rest = blocks;
        for stretch in stretches {
            let (blocks, later) = rest.split_at(stretch.count as usize);
            rest = later;
            self.count_stretch(stretch, blocks);
        }
        self.accesses += length(blocks.len());
    }

    fn count_stretch(&mut self, stretch: &Stretch, blocks: &[u8]) {
        let counters = of_volume(&mut self.volumes, stretch.volume);
        let (tally, count, bytes) = (
            Tally::of(blocks),
            length(blocks.len()),
            stretch.length.get(),
        );
        counters.bytes += count * bytes;
        counters.hit_bytes += tally.hits * bytes;
        if stretch.op == Op::Read {
            counters.read_requests += count;
            counters.origin_reads += count - tally.hits;
            count_read(counters, count, tally, self.block_bytes);
            return;
        }
        counters.write_requests += count;
        count_write(counters, count, tally);
        let (requests, bytes) = match self.write_policy {
            WritePolicy::Back => (count - tally.stored, self.block_bytes),
            WritePolicy::Through | WritePolicy::Around => (count, bytes),
        };
        counters.origin_writes += requests;
        counters.origin_write_bytes += requests * bytes;
    }
}
