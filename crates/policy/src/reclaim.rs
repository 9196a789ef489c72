//! Reclaim in a log of segments: which closed segment is reclaimed, and which of its blocks
//! are written again.
//!
//! ```text
//!   opened first                                   opened last
//!   [ closed ][ closed ][ closed ] ... [ closed ][ open ]
//!       │ victim()                                   ▲
//!       └── keep(block)? ── yes ── appended again ───┘
//!                        └─ no ─── dropped
//! ```
//!
//! The cache calls [`Reclaim::victim`] when it runs short of free segments, then
//! [`Reclaim::keep`] once for each block of the victim that is still cached and trusted, in
//! the order in which they lie, and then writes the kept ones again.
//!
//! At most half of a segment is ever kept ([`keeps_at_most`]): reclaiming two segments then
//! frees at least one, so that reclaim always makes progress, and a block written costs at most
//! one more.

mod clock;
mod fifo;

pub use clock::Clock;
pub use fifo::Fifo;

use std::fmt;
use std::str::FromStr;
use units::DiskSlot;

/// A closed segment, as a policy sees it. `S` is how the cache names segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedSegment<S> {
    /// Which segment.
    pub segment: S,
    /// Whose blocks are in it.
    pub owner: DiskSlot,
    /// Blocks in it that are still cached.
    pub live_blocks: u32,
}

/// A block of the victim, as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Whether it was read since it was written to flash or last kept.
    pub referenced: bool,
    /// Blocks of this victim that were kept already.
    pub kept_so_far: u32,
    /// Blocks that a segment holds.
    pub segment_blocks: u32,
}

/// How a log of segments reclaims. See the module's header for who calls what when.
pub trait Reclaim<S>: Send {
    /// Which of the closed segments is reclaimed next; they come in the order in which they
    /// were opened, oldest first. `None` only if there are none.
    fn victim(&mut self, closed: &mut dyn Iterator<Item = ClosedSegment<S>>) -> Option<S>;

    /// Whether this block of the victim is written again. Never true once
    /// `kept_so_far` has reached [`keeps_at_most`]`(segment_blocks)`.
    fn keep(&mut self, block: Candidate) -> bool;
}

/// Blocks of a victim that any policy may keep: half a segment, rounded down.
pub const fn keeps_at_most(segment_blocks: u32) -> u32 {
    segment_blocks / 2
}

/// The policies by name: what a configuration may say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`Clock`].
    #[default]
    Clock,
    /// [`Fifo`].
    Fifo,
}

impl Kind {
    /// Every policy, in the order in which messages list them.
    pub const ALL: [Self; 2] = [Self::Clock, Self::Fifo];

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Fifo => "fifo",
        }
    }

    /// A new instance of it.
    pub fn build<S>(self) -> Box<dyn Reclaim<S>> {
        match self {
            Self::Clock => Box::new(Clock),
            Self::Fifo => Box::new(Fifo),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No policy has this name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a reclaim policy: write clock or fifo")]
pub struct UnknownPolicy(String);

impl FromStr for Kind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_its_name_and_the_message_lists_it() {
        let message = "lru".parse::<Kind>().unwrap_err().to_string();
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert!(message.contains(kind.name()));
        }
    }

    /// One conformance body for every policy.
    #[test]
    fn no_policy_keeps_more_than_half_or_invents_a_victim() {
        for kind in Kind::ALL {
            let mut policy = kind.build::<u32>();
            assert_eq!(policy.victim(&mut std::iter::empty()), None, "{kind}");
            for segment_blocks in [1, 2, 7, 252] {
                let mut kept = 0;
                for n in 0..segment_blocks {
                    let candidate = Candidate {
                        referenced: n % 5 != 0,
                        kept_so_far: kept,
                        segment_blocks,
                    };
                    kept += u32::from(policy.keep(candidate));
                }
                assert!(kept <= keeps_at_most(segment_blocks), "{kind}");
            }
        }
    }
}
