//! Admission: which missed block may enter flash.
//!
//! ```text
//!            the key is on flash ──────────────────────────► hit
//!            its bytes are staged (in the caller's RAM) ───► staged_hit ─► Stays | Admit | Drop
//!  access ─► neither ─► fill from the origin ──────────────► missed ─────► Admit | Stage | Refuse(why)
//!
//!        ┌────────────────── RAM ──────────────────┐            ┌────── flash ──────┐
//!  miss ─►  addresses seen      staged: addresses   ── Admit ──►   blocks            │
//!        │  (ghosts; no bytes)  and the bytes       │           └──────┬─────────────┘
//!        └───────▲──────────────────────┬───────────┘                  │ reclaim
//!                └── left: Drop or Admit┘◄────────────── evicted ──────┘
//! ```
//!
//! Flash wears by what is written to it, and most blocks are not used again before they leave. A policy
//! here sees every access of one tenant and says which blocks are worth a write. It knows keys, never
//! bytes: blocks that it stages are held by the caller, from [`Verdict::Stage`] until the key comes back
//! in `left`, in an answer other than [`Staged::Stays`], or in [`Admission::remove`].
//!
//! - A policy is one file, with its source, its `Config` and a line in `registry.rs`.
//! - All memory is bounded by [`Share::staging`], staged bytes included; it is taken when the policy is
//!   built or resized, so that an access never allocates. [`Admission::memory`] counts it.
//! - No clock, no dice: the same calls give the same answers on every machine.
//! - Over any of them: a cut-off of sequential runs (the parameter `cutoff` of every policy;
//!   [`sequential`] detects runs) and a write budget ([`budget`], which the caller charges).

pub mod always;
pub mod budget;
pub mod frequency;
pub mod hec;
pub mod larc;
pub mod limits;
pub mod probation;
pub mod reuse_age;
pub mod sequential;
pub mod staging;

mod ghosts;
mod queues;
mod registry;
mod returns;
mod rewrites;
mod share;
mod sizes;
mod writes;

pub use budget::{Budget, BudgetError, Rate, TokenBucket};
pub use registry::{Configured, Spec};
pub use returns::Returns;
pub use rewrites::Rewrites;
pub use share::Share;
pub use sizes::DataSize;
pub use writes::{WriteRule, Writes};

use units::{Bytes, DiskSlot, Instant, Offset, TenantSlot};

/// One block access, as admission sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whose.
    pub tenant: TenantSlot,
    /// A write of the whole block, which the origin has acknowledged; else a read.
    pub write: bool,
    /// Which [`REGION`] of which disk, as [`region_of`] numbers them.
    pub region: u64,
    /// Length of the sequential run that the access belongs to so far, its own included.
    pub run: Bytes,
    /// When.
    pub now: Instant,
}

/// Neighbouring blocks that HEC (J. Yang et al., SYSTOR 2013) counts as one: 4 MiB.
pub const REGION: Bytes = Bytes::mib(4);

/// The number of the region at an offset of a disk; no two regions of a host have the same.
pub const fn region_of(disk: DiskSlot, offset: Offset) -> u64 {
    ((disk.get() as u64) << 48) | (offset.get() / REGION.get())
}

/// What becomes of a block that missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its bytes are written to flash now.
    Admit,
    /// The caller keeps its bytes in RAM until the policy lets go of them.
    Stage,
    /// Its bytes are kept nowhere.
    Refuse(Reason),
}

/// Why a block was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It was not accessed often enough within the policy's memory.
    FirstTouch,
    /// It belongs to a sequential run beyond the cut-off.
    Sequential,
    /// The write budget is used up. Never a policy's verdict: the caller's, who charges the budget.
    Budget,
    /// It was accessed too seldom to be worth more than what it would displace.
    TooCold,
    /// It comes back, but only after it would have left flash again.
    TooLate,
    /// It was written, and the policy looks at reads only.
    Write,
    /// It was on flash and was written again, and nobody had read its copies there.
    Unread,
}

impl Reason {
    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Every reason, in the order in which tables list them.
    pub const ALL: [Self; 7] = [
        Self::FirstTouch,
        Self::Sequential,
        Self::Budget,
        Self::TooCold,
        Self::TooLate,
        Self::Write,
        Self::Unread,
    ];

    /// Its name in metrics and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstTouch => "first-touch",
            Self::Sequential => "sequential",
            Self::Budget => "budget",
            Self::TooCold => "too-cold",
            Self::TooLate => "too-late",
            Self::Write => "write",
            Self::Unread => "unread",
        }
    }
}

/// Blocks refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Reason::COUNT]);

impl Refusals {
    /// Counts one.
    #[inline]
    pub fn add(&mut self, reason: Reason) {
        self.0[reason as usize] += 1;
    }

    /// How many for this reason.
    pub const fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    /// How many in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL
            .into_iter()
            .map(|reason| (reason, self.of(reason)))
    }
}

impl std::ops::AddAssign for Refusals {
    fn add_assign(&mut self, other: Self) {
        for (mine, more) in self.0.iter_mut().zip(other.0) {
            *mine += more;
        }
    }
}

/// What becomes of a block whose bytes are staged, when it leaves the staging area on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The caller drops its bytes.
    Drop,
    /// The caller writes its bytes to flash.
    Admit,
}

/// What becomes of a staged block that is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staged {
    /// Its bytes stay where they are; after a write, the new ones in place of the old.
    Stays,
    /// The caller writes its bytes (after a write, the new ones) to flash. They are not staged any more.
    Admit,
    /// The caller drops its bytes. The policy may remember the address.
    Drop,
}

/// An admission policy at work, for one tenant. One owner, no threads.
///
/// Every access of the tenant is told exactly once, through `hit`, `staged_hit` or `missed`. Keys pushed
/// to `left` were staged until this call; none is pushed twice, nor the key of the call itself.
pub trait Admission<K>: Send {
    /// The block is neither on flash nor staged, and its bytes are at hand: a read's fill has come, or
    /// the origin has acknowledged a write of the whole block. If its bytes are staged after all (two
    /// fills of one block crossed), this is the same as [`Self::staged_hit`].
    ///
    /// After [`Verdict::Admit`] the policy takes the block for one on flash; a caller that does not write
    /// it says so with [`Self::withheld`].
    fn missed(&mut self, key: K, access: Access, left: &mut Vec<(K, Fate)>) -> Verdict;

    /// The block's bytes were staged, and a read was served from them, or a write has replaced all of
    /// them and the origin has acknowledged it.
    fn staged_hit(&mut self, key: K, access: Access, left: &mut Vec<(K, Fate)>) -> Staged;

    /// The block is on flash. On the path of every hit: a few nanoseconds.
    fn hit(&mut self, key: K, access: Access);

    /// A block on flash was written whole, and the origin has acknowledged it: whether its new copy is worth a
    /// write there. `was_read` says whether somebody has read the copy that ends. Follows [`Self::hit`]; if
    /// not the block leaves flash, which [`Self::remove`] tells.
    fn rewrites(&mut self, _key: K, _access: Access, _was_read: bool) -> bool {
        true
    }

    /// The block left flash by reclaim. Not told of blocks that are removed or overwritten.
    fn evicted(&mut self, key: K);

    /// A block that this policy wanted on flash ([`Verdict::Admit`], [`Staged::Admit`], [`Fate::Admit`])
    /// was not written: the budget is used up, or there is no room. It counts as often seen, so that its
    /// next access asks again.
    fn withheld(&mut self, key: K);

    /// The block was discarded, or its staged bytes are stale (a partial write, a write elsewhere): the
    /// policy forgets it. True if its bytes were staged; they are not any more.
    fn remove(&mut self, key: K) -> bool;

    /// The tenant's share has changed. What no longer fits leaves, oldest first, and nothing else;
    /// a policy that adapts stays as it has adapted, in proportion.
    fn resize(&mut self, share: Share, left: &mut Vec<(K, Fate)>);

    /// All memory that it holds, and that it lets the caller hold in staged bytes. Never above
    /// [`Share::staging`] by more than [`limits::FIXED_MEMORY`], or after a small change of the share an
    /// eighth: tables are not copied for less.
    fn memory(&self) -> Bytes;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read that belongs to no run.
    pub(super) fn read() -> Access {
        Access {
            tenant: TenantSlot::new(0),
            write: false,
            region: 0,
            run: Bytes::kib(4),
            now: Instant::ZERO,
        }
    }

    /// What becomes of blocks that miss.
    pub(super) fn verdicts(policy: &mut impl Admission<u64>, keys: &[u64]) -> Vec<Verdict> {
        keys.iter()
            .map(|key| policy.missed(*key, read(), &mut Vec::new()))
            .collect()
    }
}
