//! Two clocks over segments, one of new blocks and one of proven ones, that spare what is warm
//! where it lies and write little again. The default.
//!
//! A log that keeps blocks by writing them again pays for every block worth keeping each time the
//! hand comes round: 1.5 to 5 bytes a byte admitted behind a strict admission, where most blocks
//! are worth keeping. Here that is the exception. Four rules, each with what it is for:
//!
//! 1. **Spare.** A segment in which enough is warm gets its second chance as a whole, where it lies:
//!    its blocks become cooler by one, it goes behind the others, nothing is written. The price is
//!    the cold blocks that ride along. So *enough* moves with the purse ([`Budget`](super::Budget)):
//!    half of the segment if plenty is saved, down to a fifth if nothing is. Less warm segments
//!    are reclaimed, and their few warm blocks, the hottest first, are written again.
//! 2. **Two clocks.** New segments and proven ones (survivors, and what was spared) have hands of
//!    their own, since they age differently: new ones are mostly blocks that never come back.
//! 3. **The hand that costs less moves.** Of the two heads the one goes that had fewer warm blocks
//!    for each block appended since it was last looked at: what one part of the flash earns
//!    against the other. So a scan flows through the new segments and leaves the rest alone, a
//!    growing working set takes the room of a fading one, and behind a strict admission, where
//!    all is worth keeping, it is one clock again. No quota has to be set.
//! 4. **Compact.** Where guests rewrite, segments empty at any age. If the purse allows it
//!    comfortably, the emptiest of a few segments goes first and all of its live blocks are kept,
//!    warm or not, as long as they are at most half of it.
//!
//! Heat is counted up to three (2 bits), as in S3-FIFO (Yang et al., SOSP 2023): a block that was
//! asked for often outlives several rounds. The second chance is Corbató's (see
//! [`Clock`](super::Clock)); choosing a segment by what it is worth against its age is the
//! cost-benefit cleaner of LFS (Rosenblum and Ousterhout, TOCS 1992), there for bytes moved, here
//! for hits lost; `benches/results/reclaim.md` has the figures.

use super::{ClosedSegment, HEAT_LIMIT, Heads, Keeps, Reclaim, Turn, keeps_at_most};

/// A segment with more warm blocks than this part of it, in tenths, is spared if the purse is
/// empty ...
const SPARED_TENTHS_POOR: u64 = 2;
/// ... and with more than this one if it is full.
const SPARED_TENTHS_RICH: u64 = 5;
/// Segments worth of savings beyond its own cost that a compaction leaves for the hottest blocks of
/// other segments.
const SEGMENTS_LEFT_BY_COMPACTION: u32 = 2;
/// Segments spared in a row before one is reclaimed in any case: a tenant's request waits.
const SPARED_IN_A_ROW_MAX: u32 = 1000;
/// A segment without a warm block counts as if a hundredth of it were warm, so that of two such
/// segments the older goes.
const COLD_HUNDREDTHS: u128 = 1;

/// See the module's header.
#[derive(Clone, Copy, Debug)]
pub struct TwinClock;

impl TwinClock {
    /// Whether `one` had fewer warm blocks for each block appended than `other`, or as many.
    fn earns_less<S>(
        one: &ClosedSegment<S>,
        other: &ClosedSegment<S>,
        segment_blocks: u32,
    ) -> bool {
        let warmth = |segment: &ClosedSegment<S>| {
            u128::from(segment.warm_blocks) * 100 + u128::from(segment_blocks) * COLD_HUNDREDTHS
        };
        let age = |segment: &ClosedSegment<S>| u128::from(segment.age.max(1));
        warmth(one) * age(other) <= warmth(other) * age(one)
    }

    /// Warm blocks beyond which a segment is spared.
    fn spared_above<S>(heads: &Heads<'_, S>) -> u64 {
        let segment = u64::from(heads.segment_blocks);
        let poor = segment * SPARED_TENTHS_POOR / 10;
        poor + heads.budget.part(segment * SPARED_TENTHS_RICH / 10 - poor)
    }

    fn compaction<S: Copy>(heads: &Heads<'_, S>) -> Option<Turn<S>> {
        let emptiest = heads.emptiest?;
        let live = emptiest.live_blocks;
        let left = heads.segment_blocks * SEGMENTS_LEFT_BY_COMPACTION;
        let pays = live <= keeps_at_most(heads.segment_blocks);
        (pays && heads.budget.blocks() >= live + left).then_some(Turn::Reclaim {
            segment: emptiest.segment,
            keeps: Keeps {
                least_heat: 0,
                at_most: live,
            },
        })
    }
}

impl<S: Copy> Reclaim<S> for TwinClock {
    fn heat_max(&self) -> u8 {
        HEAT_LIMIT
    }

    fn turn(&self, heads: &Heads<'_, S>) -> Option<Turn<S>> {
        let head = match (heads.fresh, heads.proven) {
            (Some(fresh), Some(proven)) => {
                if Self::earns_less(&fresh, &proven, heads.segment_blocks) {
                    fresh
                } else {
                    proven
                }
            }
            (fresh, proven) => fresh.or(proven)?,
        };
        if heads.spared == 0
            && let Some(compaction) = Self::compaction(heads)
        {
            return Some(compaction);
        }
        let warm = u64::from(head.warm_blocks);
        if warm > Self::spared_above(heads) && heads.spared < SPARED_IN_A_ROW_MAX {
            return Some(Turn::Spare(head.segment));
        }
        let at_most = keeps_at_most(heads.segment_blocks).min(heads.budget.blocks());
        Some(Turn::Reclaim {
            segment: head.segment,
            keeps: Keeps {
                least_heat: 1,
                at_most,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Budget;
    use super::*;

    const BLOCKS: u32 = 100;

    /// A purse with so many blocks in it, of at most 800.
    fn purse(blocks: u32) -> Budget {
        let mut budget = Budget::new(BLOCKS, 2);
        // Each block earns a quarter.
        (0..blocks * 4).for_each(|_| budget.earn(1));
        assert_eq!(budget.blocks(), blocks);
        budget
    }

    fn segment(name: char, warm: u32, age: u64) -> ClosedSegment<char> {
        ClosedSegment {
            segment: name,
            opened: 0,
            age,
            live_blocks: 90,
            warm_blocks: warm,
        }
    }

    fn heads(
        fresh: Option<ClosedSegment<char>>,
        proven: Option<ClosedSegment<char>>,
        budget: &Budget,
    ) -> Heads<'_, char> {
        Heads {
            fresh,
            proven,
            emptiest: None,
            segment_blocks: BLOCKS,
            spared: 0,
            budget,
        }
    }

    fn reclaimed(segment: char, at_most: u32) -> Turn<char> {
        let keeps = Keeps {
            least_heat: 1,
            at_most,
        };
        Turn::Reclaim { segment, keeps }
    }

    /// With an empty purse a segment is spared above 20 warm blocks, with a full one above 50,
    /// half way above 35.
    #[test]
    fn the_fuller_the_purse_the_warmer_a_segment_must_be_to_be_spared() {
        for (saved, bar) in [(0, 20), (400, 35), (800, 50)] {
            let budget = purse(saved);
            let at = |warm| TwinClock.turn(&heads(Some(segment('f', warm, 1)), None, &budget));
            assert_eq!(at(bar), Some(reclaimed('f', saved.min(50))), "{saved}");
            assert_eq!(at(bar + 1), Some(Turn::Spare('f')), "{saved}");
        }
    }

    /// 10 of 100 warm after 500 appended blocks, and 15 after 1000: the second earned less.
    #[test]
    fn the_hand_that_loses_fewer_hits_moves() {
        let budget = purse(50);
        let fresh = Some(segment('f', 10, 500));
        let proven = Some(segment('p', 15, 1000));
        let turn = TwinClock.turn(&heads(fresh, proven, &budget));
        assert_eq!(turn, Some(reclaimed('p', 50)));
        let proven = Some(segment('p', 15, 700));
        let turn = TwinClock.turn(&heads(fresh, proven, &budget));
        assert_eq!(turn, Some(reclaimed('f', 50)));
    }

    #[test]
    fn of_two_cold_segments_the_older_goes() {
        let budget = purse(0);
        let (old, young) = (Some(segment('o', 0, 900)), Some(segment('y', 0, 800)));
        let turn = TwinClock.turn(&heads(young, old, &budget));
        assert_eq!(turn, Some(reclaimed('o', 0)));
        assert_eq!(
            TwinClock.turn(&heads(old, young, &budget)),
            Some(reclaimed('o', 0))
        );
    }

    #[test]
    fn the_emptiest_segment_is_compacted_if_it_leaves_two_segments_of_savings() {
        let rich = purse(240);
        let mut emptiest = segment('e', 0, 1);
        emptiest.live_blocks = 40;
        let mut at = heads(Some(segment('f', 0, 1)), None, &rich);
        at.emptiest = Some(emptiest);
        let keeps = Keeps {
            least_heat: 0,
            at_most: 40,
        };
        let compaction = Some(Turn::Reclaim {
            segment: 'e',
            keeps,
        });
        assert_eq!(TwinClock.turn(&at), compaction);
        let poor = purse(239);
        at.budget = &poor;
        assert_eq!(TwinClock.turn(&at), Some(reclaimed('f', 50)));
        at.budget = &rich;
        at.emptiest = Some(ClosedSegment {
            live_blocks: 51,
            ..emptiest
        });
        assert_eq!(
            TwinClock.turn(&at),
            Some(reclaimed('f', 50)),
            "more than half lives"
        );
        let richer = purse(800);
        at.budget = &richer;
        assert_eq!(
            TwinClock.turn(&at),
            Some(reclaimed('f', 50)),
            "however rich"
        );
        // Who has spared a segment for this room has looked at the emptiest already.
        at.emptiest = Some(emptiest);
        assert_eq!(TwinClock.turn(&at), compaction);
        at.spared = 1;
        assert_eq!(TwinClock.turn(&at), Some(reclaimed('f', 50)));
    }

    #[test]
    fn of_two_that_earn_alike_the_new_one_goes() {
        let budget = purse(0);
        for age in [0, 500] {
            let (new, proven) = (Some(segment('n', 10, age)), Some(segment('p', 10, age)));
            let turn = TwinClock.turn(&heads(new, proven, &budget));
            assert_eq!(turn, Some(reclaimed('n', 0)));
        }
        // One that was looked at just now is as old as one block.
        let (new, proven) = (Some(segment('n', 0, 0)), Some(segment('p', 15, 1)));
        let turn = TwinClock.turn(&heads(new, proven, &budget));
        assert_eq!(turn, Some(reclaimed('n', 0)));
        let (new, proven) = (Some(segment('n', 15, 1)), Some(segment('p', 0, 0)));
        let turn = TwinClock.turn(&heads(new, proven, &budget));
        assert_eq!(turn, Some(reclaimed('p', 0)));
    }

    #[test]
    fn sparing_ends() {
        let budget = purse(0);
        let mut at = heads(Some(segment('f', 100, 1)), None, &budget);
        at.spared = SPARED_IN_A_ROW_MAX;
        assert_eq!(TwinClock.turn(&at), Some(reclaimed('f', 0)));
    }
}
