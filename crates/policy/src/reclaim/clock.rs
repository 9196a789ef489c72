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
