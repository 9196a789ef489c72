//! A replacement policy over blocks that are written where they lie: every block admitted is one block
//! written to flash, and nothing is ever moved.
//!
//! ```text
//!   through or back, both allocating, no discards:   one call for all keys of a part, then flags
//!   anything else:                                   block by block, evicted blocks looked at
//! ```

use super::{CacheModel, places};
use crate::outcome::{Chore, HIT, Outcomes, STORED, Timed};
use crate::write_policy::{WriteMiss, WritePolicy};
use policy::replacement::Replacement;
use trace::{Batch, Op, Request, Stretch};

/// A policy at work over dense keys.
pub(crate) type Blocks = Box<dyn Replacement<u32> + Send>;

/// Such a cache.
pub(crate) struct InPlace {
    blocks: Blocks,
    write_policy: WritePolicy,
    write_miss: WriteMiss,
    evicted: Vec<u32>,
    dirty: Dirty,
}

impl InPlace {
    pub(crate) fn new(blocks: Blocks, write_policy: WritePolicy, write_miss: WriteMiss) -> Self {
        Self {
            blocks,
            write_policy,
            write_miss,
            evicted: Vec::new(),
            dirty: Dirty::default(),
        }
    }

    /// Whether all that these requests ask for is to access their blocks.
    fn only_accesses(&self, requests: &[Request]) -> bool {
        let only = |request: &Request| self.accesses(request.record.op) || request.keys.is_empty();
        requests.iter().all(only)
    }

    /// Whether a block that is asked for so is just accessed.
    fn accesses(&self, op: Op) -> bool {
        match (self.write_policy, self.write_miss) {
            (WritePolicy::Through, WriteMiss::Allocate) => op.carries_data(),
            _ => op == Op::Read && self.write_policy != WritePolicy::Back,
        }
    }

    fn one(&mut self, op: Op, at_key: u32, key: u32, chores: &mut Vec<Timed>) -> u8 {
        match op {
            Op::Read => self.access(key, false, at_key, chores),
            Op::Write => match (self.write_policy, self.write_miss) {
                (WritePolicy::Around, _) => u8::from(self.blocks.remove(key)) * HIT,
                (_, WriteMiss::Bypass) if !self.blocks.contains(key) => {
                    self.blocks.pass();
                    0
                }
                _ => self.access(key, true, at_key, chores),
            },
            Op::Flush => 0,
            Op::Discard | Op::WriteZeroes => {
                self.blocks.remove(key);
                self.dirty.clear(key);
                0
            }
        }
    }

    fn access(&mut self, key: u32, writes: bool, at_key: u32, chores: &mut Vec<Timed>) -> u8 {
        self.evicted.clear();
        let hit = self.blocks.access(key, &mut self.evicted);
        let destaged = self
            .evicted
            .iter()
            .filter(|key| self.dirty.clear(**key))
            .count();
        if destaged > 0 {
            chores.push(Timed {
                at_key,
                chore: Chore::Destage,
                blocks: u32::try_from(destaged).expect("a cache has 32-bit places"),
            });
        }
        if writes && self.write_policy == WritePolicy::Back {
            self.dirty.set(key);
        }
        match (hit, writes) {
            (true, false) => HIT,
            (true, true) => HIT | STORED,
            (false, _) => STORED,
        }
    }
}

impl CacheModel for InPlace {
    fn run(&mut self, batch: &Batch, requests: &[Request], outcomes: &mut Outcomes) {
        let (Some(first), Some(last)) = (requests.first(), requests.last()) else {
            return;
        };
        let keys = &batch.keys[first.keys.start as usize..last.keys.end as usize];
        if self.only_accesses(requests) {
            self.blocks.run(keys, &mut outcomes.blocks);
            for request in requests {
                store(
                    &mut outcomes.blocks[places(request, first.keys.start)],
                    request.record.op,
                );
            }
            return;
        }
        for request in requests {
            for place in places(request, first.keys.start) {
                let at_key = first.keys.start + u32::try_from(place).expect("batches are small");
                outcomes.blocks[place] =
                    self.one(request.record.op, at_key, keys[place], &mut outcomes.chores);
            }
        }
    }

    fn takes_stretches(&self) -> bool {
        true
    }

    fn run_stretches(&mut self, stretches: &[Stretch], keys: &[u32], outcomes: &mut Outcomes) {
        let only_accesses = stretches.iter().all(|stretch| self.accesses(stretch.op));
        if only_accesses {
            self.blocks.run(keys, &mut outcomes.blocks);
        }
        let mut begin = 0;
        for stretch in stretches {
            let end = begin + stretch.count as usize;
            if only_accesses {
                store(&mut outcomes.blocks[begin..end], stretch.op);
            } else {
                for (place, key) in (begin..).zip(&keys[begin..end]) {
                    let at_key = u32::try_from(place).expect("batches are small");
                    outcomes.blocks[place] =
                        self.one(stretch.op, at_key, *key, &mut outcomes.chores);
                }
            }
            begin = end;
        }
    }

    fn used_blocks(&self) -> u32 {
        self.blocks.len()
    }

    fn dirty_blocks(&self) -> u32 {
        self.dirty.count
    }
}

/// Adds [`STORED`] where it belongs: a read stores what was missing, a write everything.
fn store(blocks: &mut [u8], op: Op) {
    let stores_hits = u8::from(op == Op::Write);
    for block in blocks {
        let hit = *block & HIT;
        *block = hit | (STORED * (stores_hits | (hit ^ HIT)));
    }
}

/// A bit for each block.
#[derive(Default)]
pub(super) struct Dirty {
    words: Vec<u64>,
    count: u32,
}

impl Dirty {
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn has(&self, key: u32) -> bool {
        let word = self.words.get(key as usize / 64);
        word.is_some_and(|word| word & 1 << (key % 64) != 0)
    }

    pub(super) fn set(&mut self, key: u32) {
        let (word, bit) = (key as usize / 64, 1 << (key % 64));
        if word >= self.words.len() {
            self.words.resize((word + 1).next_power_of_two(), 0);
        }
        self.count += u32::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    /// True if it was set.
    pub(super) fn clear(&mut self, key: u32) -> bool {
        let bit = 1 << (key % 64);
        let Some(word) = self.words.get_mut(key as usize / 64) else {
            return false;
        };
        let was = *word & bit != 0;
        *word &= !bit;
        self.count -= u32::from(was);
        was
    }
}
