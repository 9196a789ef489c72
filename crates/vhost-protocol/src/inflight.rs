//! What was taken from a ring and not answered: kept in memory that QEMU holds for us, so that
//! whoever serves the disk after a crash takes it up again.
//!
//! ```text
//!   one queue of the region, 64-byte aligned; all little-endian
//!   0 features u64 │ 8 version u16 │ 10 desc_num u16 │ 12 last_batch_head u16 │ 14 used_idx u16
//!   16 + 16 i   │ inflight u8 │ (5) │ next u16 │ counter u64 │          for descriptor i
//! ```
//!
//! A crash can come between any two stores, so their order is what makes this right. A batch of
//! answers is ended in five steps:
//!
//! ```text
//!   1 used ring entries   2 next of each, last_batch_head   3 used index   4 inflight = 0   5 used_idx
//! ```
//! Until 3 none of the batch was answered and all of it is done again, which changes nothing. From
//! 3 on all of it was: `used_idx` lags behind the ring's own index, by as many as the batch had,
//! and recovery walks back along `next` to do steps 4 and 5.
//!
//! Invariants: a descriptor is marked before its request is begun, and no longer marked only when
//! its answer is in the used ring. QEMU can write here too, so nothing found is believed beyond
//! being a number below the ring's size.

use crate::area::Area;
use crate::limits::QUEUE_SIZE_MAX;

const VERSION: usize = 8;
const SIZE: usize = 10;
const LAST_BATCH_HEAD: usize = 12;
const USED_INDEX: usize = 14;
const ENTRIES: usize = 16;
const ENTRY_BYTES: usize = 16;
const NEXT: usize = 6;
const COUNTER: usize = 8;

/// The version of split queues.
const VERSION_SPLIT: u16 = 1;

/// Queues begin at cache lines.
const ALIGNMENT: usize = 64;

/// Why a region is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadInflight {
    /// It is shorter than the queue needs.
    #[error("the region for requests in flight has {found} bytes, a queue needs {needed}")]
    Short {
        /// Bytes that there are.
        found: usize,
        /// Bytes that are needed.
        needed: usize,
    },
    /// Of another version, or of a queue of another size.
    #[error("the region for requests in flight is of version {version}, for {size} descriptors")]
    Foreign {
        /// The version that it says.
        version: u16,
        /// The size that it says.
        size: u16,
    },
}

/// The region of one queue.
#[derive(Debug)]
pub struct Inflight<A> {
    area: A,
    size: u16,
    /// What the next request is counted as.
    counter: u64,
    is_fresh: bool,
}

impl<A: Area> Inflight<A> {
    /// Bytes from one queue of `size` descriptors to the next.
    ///
    /// # Panics
    /// If no queue has so many.
    pub fn stride(size: u16) -> usize {
        assert!(size <= QUEUE_SIZE_MAX, "a queue's size was checked");
        (ENTRIES + usize::from(size) * ENTRY_BYTES).next_multiple_of(ALIGNMENT)
    }

    /// Takes up a region: a fresh one, all zero, or one that was used before. `used_index` is the
    /// ring's. What was taken and not answered is appended to `heads`, oldest first.
    ///
    /// # Errors
    /// [`BadInflight`].
    pub fn open(
        area: A,
        size: u16,
        used_index: u16,
        heads: &mut Vec<u16>,
    ) -> Result<Self, BadInflight> {
        let needed = ENTRIES + usize::from(size) * ENTRY_BYTES;
        let found = area.len();
        if found < needed {
            return Err(BadInflight::Short { found, needed });
        }
        let counter = 0;
        let mut inflight = Self {
            area,
            size,
            counter,
            is_fresh: true,
        };
        let version = inflight.area.load_u16(VERSION);
        if version == 0 {
            inflight.area.store_u16(SIZE, size);
            inflight.area.store_u16(USED_INDEX, used_index);
            inflight.area.store_u16(VERSION, VERSION_SPLIT);
            return Ok(inflight);
        }
        let said = inflight.area.load_u16(SIZE);
        if version != VERSION_SPLIT || said != size {
            return Err(BadInflight::Foreign {
                version,
                size: said,
            });
        }
        inflight.is_fresh = false;
        inflight.end_last_batch(used_index);
        inflight.collect(heads);
        Ok(inflight)
    }

    /// Whether nobody had used the region before. Otherwise all that was ever taken from the ring
    /// was answered or is in flight.
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// A request is begun. Call it before anything of it happens.
    pub fn begin(&mut self, head: u16) {
        let at = entry(head);
        self.area.store(at + COUNTER, &self.counter.to_le_bytes());
        self.counter = self.counter.wrapping_add(1);
        self.mark(head, true);
    }

    /// Step 2: a batch is about to be published. `heads` are those that were put into the used
    /// ring since the last one was.
    pub fn prepare(&mut self, heads: &[u16]) {
        let mut previous = self.area.load_u16(LAST_BATCH_HEAD);
        for head in heads {
            self.area.store_u16(entry(*head) + NEXT, previous);
            previous = *head;
        }
        self.area.store_u16(LAST_BATCH_HEAD, previous);
    }

    /// Steps 4 and 5: the batch was published, and the ring's used index is this now.
    pub fn finish(&mut self, heads: &[u16], used_index: u16) {
        for head in heads {
            self.mark(*head, false);
        }
        self.area.store_u16(USED_INDEX, used_index);
    }

    fn end_last_batch(&mut self, used_index: u16) {
        let behind = used_index.wrapping_sub(self.area.load_u16(USED_INDEX));
        // More than the ring has is no crash in a batch but another ring: it was reset meanwhile.
        if behind <= self.size {
            let mut head = self.area.load_u16(LAST_BATCH_HEAD);
            for _ in 0..behind {
                if head >= self.size {
                    break;
                }
                self.mark(head, false);
                head = self.area.load_u16(entry(head) + NEXT);
            }
        }
        self.area.store_u16(USED_INDEX, used_index);
    }

    fn collect(&mut self, heads: &mut Vec<u16>) {
        let mut found: Vec<(u64, u16)> = (0..self.size)
            .filter(|head| self.is_marked(*head))
            .map(|head| (self.counter_of(head), head))
            .collect();
        found.sort_unstable();
        if let Some((last, _)) = found.last() {
            self.counter = last.wrapping_add(1);
        }
        heads.extend(found.into_iter().map(|(_, head)| head));
    }

    fn mark(&self, head: u16, in_flight: bool) {
        // The flag and the padding behind it: a store with an order of its own.
        self.area.store_u16(entry(head), u16::from(in_flight));
    }

    fn is_marked(&self, head: u16) -> bool {
        let mut flag = [0];
        self.area.load(entry(head), &mut flag);
        flag == [1]
    }

    fn counter_of(&self, head: u16) -> u64 {
        let mut bytes = [0; 8];
        self.area.load(entry(head) + COUNTER, &mut bytes);
        u64::from_le_bytes(bytes)
    }
}

fn entry(head: u16) -> usize {
    ENTRIES + usize::from(head) * ENTRY_BYTES
}

#[cfg(test)]
mod tests;
