//! First in, first out: the segment opened first goes, with all that is in it.
//!
//! The yardstick for hits, and the least that can be written to flash: each block is written
//! once, whatever happens to it.

use super::{Heads, Keeps, Reclaim, Turn};

/// Reclaims the segment that was opened first and keeps nothing of it.
#[derive(Clone, Copy, Debug)]
pub struct Fifo;

impl<S: Copy> Reclaim<S> for Fifo {
    fn heat_max(&self) -> u8 {
        0
    }

    fn turn(&self, heads: &Heads<'_, S>) -> Option<Turn<S>> {
        let first = heads.opened_first()?;
        Some(Turn::Reclaim {
            segment: first.segment,
            keeps: Keeps {
                least_heat: 1,
                at_most: 0,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Budget, ClosedSegment};
    use super::*;

    #[test]
    fn the_segment_opened_first_goes_and_takes_all_with_it() {
        let segment = |segment: u32, opened| ClosedSegment {
            segment,
            opened,
            age: 100,
            live_blocks: 14,
            warm_blocks: 14,
        };
        let budget = Budget::new(14, 3);
        let heads = Heads {
            fresh: Some(segment(7, 21)),
            proven: Some(segment(3, 20)),
            emptiest: Some(segment(5, 22)),
            segment_blocks: 14,
            spared: 0,
            budget: &budget,
        };
        let Some(Turn::Reclaim { segment, keeps }) = Fifo.turn(&heads) else {
            panic!("nothing is spared")
        };
        assert_eq!((segment, keeps.at_most), (3, 0));
    }
}
