//! Reclaim in a log of segments: which closed segment is reclaimed, which one is spared where it
//! lies, and what of a reclaimed one is written again.
//!
//! ```text
//!   turn comes first                                 turn comes last
//!   [ fresh  ][ fresh  ] ... [ fresh  ][ open ] ◄── new blocks
//!       │ turn()
//!       ├─ reclaim: the hottest few are written again ──────────┐
//!       │                                                       ▼
//!       └─ spare: cooler by one, behind the others ──►[ proven ][ open ]
//!   [ proven ][ proven ] ... [ proven ]  ◄──────────────┘
//!       │ turn()
//!       └─ the same
//! ```
//!
//! The log asks [`Reclaim::turn`] when it runs short of free segments, for one tenant's segments
//! at a time, until the answer is a segment to reclaim. What it can ask about are the heads: the
//! first fresh segment (of new blocks, never spared), the first proven one (of survivors, or
//! spared), and the emptiest of a few.
//!
//! Each block has a *heat*: how often it was asked for since its segment was opened, at most
//! [`Reclaim::heat_max`], less one for each time the segment was spared since, and less one for each
//! time the block was written again. What a guest rewrites keeps its heat. A block is *warm* while
//! its heat is not zero.
//!
//! At most half of a segment is ever kept ([`keeps_at_most`]): reclaiming two segments then frees at
//! least one, so that reclaim always makes progress.

mod budget;
mod clock;
mod fifo;
mod twin_clock;

pub use budget::Budget;
pub use clock::Clock;
pub use fifo::Fifo;
pub use twin_clock::TwinClock;

use std::fmt;
use std::str::FromStr;

/// The hottest that a policy can tell from less hot: heats are numbers from 0 to this.
pub const HEAT_LIMIT: u8 = 3;

/// A closed segment, as a policy sees it. `S` is how the log names segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedSegment<S> {
    /// Which segment.
    pub segment: S,
    /// When it was opened: the lower, the earlier.
    pub opened: u64,
    /// Blocks that were appended to the log, survivors apart, since this segment was opened or
    /// last spared.
    pub age: u64,
    /// Blocks in it that are still cached.
    pub live_blocks: u32,
    /// Those of them that are warm.
    pub warm_blocks: u32,
}

/// What a policy chooses among.
#[derive(Clone, Copy, Debug)]
pub struct Heads<'a, S> {
    /// The fresh segment whose turn it is.
    pub fresh: Option<ClosedSegment<S>>,
    /// The proven segment whose turn it is.
    pub proven: Option<ClosedSegment<S>>,
    /// The one with the fewest live blocks among a few, others each time.
    pub emptiest: Option<ClosedSegment<S>>,
    /// Blocks that a segment holds.
    pub segment_blocks: u32,
    /// Segments spared since a segment was last reclaimed.
    pub spared: u32,
    /// What may be written again.
    pub budget: &'a Budget,
}

impl<S: Copy> Heads<'_, S> {
    /// The head that was opened first.
    pub fn opened_first(&self) -> Option<ClosedSegment<S>> {
        let heads = [self.fresh, self.proven].into_iter().flatten();
        heads.min_by_key(|head| head.opened)
    }
}

/// Which blocks of a reclaimed segment are written again: the hottest, and of equally hot ones those
/// that lie first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeps {
    /// None that is cooler.
    pub least_heat: u8,
    /// Not more than so many; never more than [`keeps_at_most`] of a segment.
    pub at_most: u32,
}

/// What happens to a closed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<S> {
    /// It stays where it lies for another round, its blocks cooler by one.
    Spare(S),
    /// It is made free.
    Reclaim {
        /// Which segment.
        segment: S,
        /// What of it is written again.
        keeps: Keeps,
    },
}

/// How a log of segments reclaims. See the module's header for who calls what when.
pub trait Reclaim<S>: Send {
    /// The hottest that a block can get, at most [`HEAT_LIMIT`].
    fn heat_max(&self) -> u8;

    /// What is done next. `None` only if there is neither a fresh nor a proven segment. Not
    /// [`Turn::Spare`] for ever.
    fn turn(&self, heads: &Heads<'_, S>) -> Option<Turn<S>>;
}

/// Blocks of a victim that any policy may keep: half a segment, rounded down.
pub const fn keeps_at_most(segment_blocks: u32) -> u32 {
    segment_blocks / 2
}

/// The policies by name: what a configuration may say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`TwinClock`].
    #[default]
    TwinClock,
    /// [`Clock`].
    Clock,
    /// [`Fifo`].
    Fifo,
}

impl Kind {
    /// Every policy, in the order in which messages list them.
    pub const ALL: [Self; 3] = [Self::TwinClock, Self::Clock, Self::Fifo];

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TwinClock => "twin-clock",
            Self::Clock => "clock",
            Self::Fifo => "fifo",
        }
    }

    /// A new instance of it.
    pub fn build<S: Copy>(self) -> Box<dyn Reclaim<S>> {
        match self {
            Self::TwinClock => Box::new(TwinClock),
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
#[error("'{0}' is not a reclaim policy: write twin-clock, clock or fifo")]
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
    use proptest::prelude::*;

    #[test]
    fn every_policy_is_found_by_its_name_and_the_message_lists_it() {
        let message = "lru".parse::<Kind>().unwrap_err().to_string();
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert!(message.contains(kind.name()));
        }
    }

    /// In segments of 7 blocks, all warm.
    #[test]
    fn fifo_and_clock_take_the_segment_opened_first_and_clock_keeps_half_of_it() {
        let full = |segment: u32, opened| ClosedSegment {
            segment,
            opened,
            age: 100,
            live_blocks: 7,
            warm_blocks: 7,
        };
        let budget = Budget::new(7, 3);
        let heads = |fresh, proven| Heads {
            fresh: Some(full(4, fresh)),
            proven: Some(full(2, proven)),
            emptiest: Some(full(5, 22)),
            segment_blocks: 7,
            spared: 0,
            budget: &budget,
        };
        for (kind, at_most) in [(Kind::Fifo, 0), (Kind::Clock, 3)] {
            let policy = kind.build();
            for (fresh, proven, segment) in [(20, 21, 4), (21, 20, 2)] {
                let keeps = Keeps {
                    least_heat: 1,
                    at_most,
                };
                let turn = policy.turn(&heads(fresh, proven));
                assert_eq!(turn, Some(Turn::Reclaim { segment, keeps }), "{kind}");
            }
        }
    }

    fn segment(name: u32) -> impl Strategy<Value = ClosedSegment<u32>> {
        (0..1000_u64, 1..100_000_u64, 0..=62_u32, 0..=62_u32).prop_map(
            move |(opened, age, live, warm)| ClosedSegment {
                segment: name,
                opened,
                age,
                live_blocks: live,
                warm_blocks: warm.min(live),
            },
        )
    }

    proptest! {
        /// One conformance body for every policy.
        #[test]
        fn a_policy_keeps_at_most_half_and_what_it_may_and_names_a_segment_there_is(
            fresh in prop::option::of(segment(1)),
            proven in prop::option::of(segment(2)),
            sampled in prop::option::of(segment(3)),
            appended in 0..3000_u32,
            spared in 0..2000_u32,
        ) {
            let mut budget = Budget::new(62, 3);
            (0..appended).for_each(|_| budget.earn(1));
            let emptiest = sampled.filter(|_| fresh.is_some() || proven.is_some());
            let heads = Heads { fresh, proven, emptiest, segment_blocks: 62, spared, budget: &budget };
            for kind in Kind::ALL {
                let policy = kind.build::<u32>();
                prop_assert!(policy.heat_max() <= HEAT_LIMIT);
                let all: Vec<u32> = [fresh, proven, emptiest].into_iter().flatten().map(|s| s.segment).collect();
                match policy.turn(&heads) {
                    None => prop_assert!(fresh.is_none() && proven.is_none()),
                    Some(Turn::Spare(segment)) => {
                        prop_assert!(all.contains(&segment));
                        prop_assert!(spared < 1024, "{kind} spares for ever");
                    }
                    Some(Turn::Reclaim { segment, keeps }) => {
                        prop_assert!(all.contains(&segment));
                        prop_assert!(keeps.at_most <= keeps_at_most(62));
                    }
                }
            }
        }
    }
}
