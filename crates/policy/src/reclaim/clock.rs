//! CLOCK, on segments: the segment opened first goes; blocks that were read since the hand last
//! passed get another round.
//!
//! F. J. Corbató, "A Paging Experiment with the Multics System", MIT Project MAC report
//! MAC-M-384, 1968. His hand goes round page frames and clears a use bit at each; the log is
//! the circle here, heat of at most one is the use bit, and passing a block means appending it
//! again, cold.
//!
//! It pays for what it keeps by writing it again, and gives up whatever is beyond half a segment:
//! [`TwinClock`](super::TwinClock) does neither.

use super::{Heads, Keeps, Reclaim, Turn, keeps_at_most};

/// Reclaims the segment that was opened first and keeps what was referenced, at most half.
#[derive(Clone, Copy, Debug)]
pub struct Clock;

impl<S: Copy> Reclaim<S> for Clock {
    fn heat_max(&self) -> u8 {
        1
    }

    fn turn(&self, heads: &Heads<'_, S>) -> Option<Turn<S>> {
        let first = heads.opened_first()?;
        Some(Turn::Reclaim {
            segment: first.segment,
            keeps: Keeps {
                least_heat: 1,
                at_most: keeps_at_most(heads.segment_blocks),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Budget, ClosedSegment};
    use super::*;

    #[test]
    fn the_segment_opened_first_goes_however_full_it_is_and_half_of_it_stays() {
        let segment = |segment: u32, opened| ClosedSegment {
            segment,
            opened,
            age: 1,
            live_blocks: 7,
            warm_blocks: 7,
        };
        let budget = Budget::new(7, 3);
        let heads = Heads {
            fresh: Some(segment(4, 1)),
            proven: Some(segment(2, 9)),
            emptiest: Some(segment(2, 9)),
            segment_blocks: 7,
            spared: 0,
            budget: &budget,
        };
        let keeps = Keeps {
            least_heat: 1,
            at_most: 3,
        };
        assert_eq!(
            Clock.turn(&heads),
            Some(Turn::Reclaim { segment: 4, keeps })
        );
    }
}
