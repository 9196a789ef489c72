//! Memory in front of a cache: a copy of what is read, by the pool of frames that the daemon has.
//!
//! ```text
//!   read ─► the cache, as if nothing were in front ─► its outcome ─┬─ has a frame ─► HIT RAM
//!                                                                  └─ has none ────► worth a frame?
//!   write, discard ─► the cache ─► its outcome; the frame is gone
//! ```
//!
//! The cache hears of every access, so it decides as without memory in front: a hit in memory hides no use from it. What
//! it has staged in RAM by itself has a frame already. Writes are never held: the block of a frame that is written may be
//! read again, then it is read from where the cache has it.

use super::{AdmissionUse, CacheModel, places};
use crate::destaged::LogRoom;
use crate::outcome::{HIT, HOT, Outcomes, RAM};
use crate::series::VmSample;
use crate::tier;
use frames::{Frames, Part};
use policy::memory::Spec;
use trace::{Batch, Op, Request};
use units::TenantSlot;

/// All VMs share the memory: they are one tenant.
const ALL: TenantSlot = TenantSlot::new(0);

/// Such a cache.
pub(crate) struct Tiered {
    cache: Box<dyn CacheModel>,
    frames: Frames<u32, ()>,
}

impl Tiered {
    /// So many frames in front of a cache.
    pub(crate) fn new(cache: Box<dyn CacheModel>, blocks: u32, policy: &Spec) -> Self {
        let mut frames = tier::pool(u64::from(blocks), policy);
        frames.divide(&[Part {
            tenant: ALL,
            parts: 1,
            high_priority: false,
        }]);
        Self { cache, frames }
    }

    /// What a block's outcome is with memory in front.
    fn one(&mut self, op: Op, key: u32, outcome: u8) -> u8 {
        if op != Op::Read || outcome & RAM != 0 {
            self.frames.change(key);
            return outcome;
        }
        if self.frames.hit(key).is_some() {
            return outcome | HIT | RAM | HOT;
        }
        self.frames.read(ALL, key, || ());
        outcome
    }
}

impl CacheModel for Tiered {
    fn run(&mut self, batch: &Batch, requests: &[Request], outcomes: &mut Outcomes) {
        self.cache.run(batch, requests, outcomes);
        let Some(first_key) = requests.first().map(|first| first.keys.start) else {
            return;
        };
        for request in requests {
            if request.record.op == Op::Flush {
                continue;
            }
            for place in places(request, first_key) {
                let key = batch.keys[first_key as usize + place];
                let outcome = &mut outcomes.blocks[place];
                *outcome = self.one(request.record.op, key, *outcome);
            }
        }
    }

    fn used_blocks(&self) -> u32 {
        self.cache.used_blocks()
    }

    fn dirty_blocks(&self) -> u32 {
        self.cache.dirty_blocks()
    }

    fn log_room(&self, batch: &Batch, request: &Request) -> Option<LogRoom> {
        self.cache.log_room(batch, request)
    }

    fn admission(&self) -> AdmissionUse {
        self.cache.admission()
    }

    fn vms(&self) -> Vec<VmSample> {
        self.cache.vms()
    }
}
