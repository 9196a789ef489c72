//! Caches under simulation: what becomes of each block that a trace accesses.
//!
//! | file | what |
//! |---|---|
//! | [`admitted`] | a replacement policy behind an admission policy, with staged blocks in RAM |
//! | [`divided`] | the daemon's log with the daemon's admission in front, driven by a trace |
//! | [`divided_log`] | the same, driven by calls |
//! | [`in_place`] | a replacement policy over blocks that are written where they lie, under each write policy |
//! | [`neighbours`] | which blocks lie beside each other on their disk |
//! | [`partitioned`] | an LRU list for each VM, in place, with the daemon's admission in front |
//! | [`segments`] | the daemon's log of segments |
//! | [`shared`] | VMs that share blocks: S-CAVE, T-CLOCK and what is between them |
//! | [`simulated_store`] | the daemon's block store on a flash that keeps nothing |
//! | [`tiered`] | one of these with memory in front |
//! | [`write_back`] | its disks under write-back: their dirty logs, and the way to the origins |

pub(crate) mod admitted;
pub(crate) mod divided;
pub mod divided_log;
pub(crate) mod in_place;
mod neighbours;
pub(crate) mod partitioned;
pub(crate) mod segments;
pub(crate) mod shared;
pub mod simulated_store;
pub(crate) mod tiered;
pub mod write_back;

use crate::destaged::LogRoom;
use crate::future::Future;
use crate::outcome::Outcomes;
use crate::series::VmSample;
use crate::write_policy::{WriteMiss, WritePolicy};
use policy::admission::Refusals;
use trace::{Batch, Request, Stretch};
use units::Bytes;

/// What a cache is made from, beside its policy.
pub(crate) struct Maker {
    /// How many blocks it holds.
    pub(crate) blocks: u32,
    /// Size of a block.
    pub(crate) block: Bytes,
    /// What writes do.
    pub(crate) write_policy: WritePolicy,
    /// What writes do to blocks that are not in it.
    pub(crate) write_miss: WriteMiss,
    /// The next use of each access, if the policy knows the future.
    pub(crate) future: Option<Future>,
}

/// A cache under simulation. It is driven with every request of the trace once, in order.
pub(crate) trait CacheModel: Send {
    /// Does what `requests`, a part of `batch`, ask for. `outcomes` was reset to their keys, the first of
    /// them at place 0.
    fn run(&mut self, batch: &Batch, requests: &[Request], outcomes: &mut Outcomes);

    /// Whether it looks at nothing of a request but what is asked of which block, so that
    /// [`Self::run_stretches`] does the same as [`Self::run`].
    fn takes_stretches(&self) -> bool {
        false
    }

    /// Does what a batch of requests for one block each asks for; they have `keys` in turn. `outcomes` was reset to
    /// them.
    ///
    /// # Panics
    /// If the cache does not take stretches.
    fn run_stretches(&mut self, _: &[Stretch], _: &[u32], _: &mut Outcomes) {
        unreachable!("only caches that take stretches are given some");
    }

    /// Blocks in the cache.
    fn used_blocks(&self) -> u32;

    /// Blocks in it that the origin does not have.
    fn dirty_blocks(&self) -> u32 {
        0
    }

    /// The dirty log of a request's disk; none without a log, or of a disk that was never written.
    fn log_room(&self, _: &Batch, _: &Request) -> Option<LogRoom> {
        None
    }

    /// What admission did so far; nothing without one.
    fn admission(&self) -> AdmissionUse {
        AdmissionUse::default()
    }

    /// What each VM has of it, by the VM's number; nothing of a cache that is not divided among VMs.
    fn vms(&self) -> Vec<VmSample> {
        Vec::new()
    }
}

/// What admission refused and what it costs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AdmissionUse {
    /// Accesses whose blocks were kept out, by reason.
    pub(crate) refusals: Refusals,
    /// Memory at the moment, staged bytes included.
    pub(crate) memory: Bytes,
}

/// The place in a trace's batch of a request's keys, seen from the first key of its part.
pub(crate) fn places(request: &Request, first_key: u32) -> std::ops::Range<usize> {
    (request.keys.start - first_key) as usize..(request.keys.end - first_key) as usize
}
