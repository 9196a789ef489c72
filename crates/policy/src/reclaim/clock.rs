//! CLOCK, on segments: the oldest segment goes; blocks that were read since the hand last passed
//! get another round.
//!
//! F. J. Corbató, "A Paging Experiment with the Multics System", MIT Project MAC report
//! MAC-M-384, 1968. His hand goes round page frames and clears a use bit at each; the log is
//! the circle here, the referenced mark in the index is the use bit, and passing a block means
//! appending it again with its mark cleared.

use super::{Candidate, ClosedSegment, Reclaim, keeps_at_most};

/// Reclaims the segment that was opened first and keeps what was referenced, at most half.
#[derive(Clone, Copy, Debug)]
pub struct Clock;

impl<S> Reclaim<S> for Clock {
    fn victim(&mut self, closed: &mut dyn Iterator<Item = ClosedSegment<S>>) -> Option<S> {
        closed.next().map(|oldest| oldest.segment)
    }

    fn keep(&mut self, block: Candidate) -> bool {
        block.referenced && block.kept_so_far < keeps_at_most(block.segment_blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::DiskSlot;

    #[test]
    fn the_segment_opened_first_goes_however_full_it_is() {
        let closed = [(4, 100), (2, 0)].map(|(segment, live_blocks)| ClosedSegment {
            segment,
            owner: DiskSlot::new(1),
            live_blocks,
        });
        assert_eq!(Clock.victim(&mut closed.into_iter()), Some(4));
    }

    /// Seven blocks, R referenced: R . R R . R R. Half of seven is three, so the first three
    /// referenced ones stay: positions 0, 2 and 3.
    #[test]
    fn referenced_blocks_stay_until_half_a_segment_is_kept() {
        let referenced = [true, false, true, true, false, true, true];
        let mut kept = Vec::new();
        for (position, referenced) in referenced.into_iter().enumerate() {
            let block = Candidate {
                referenced,
                kept_so_far: u32::try_from(kept.len()).unwrap(),
                segment_blocks: 7,
            };
            if Reclaim::<u32>::keep(&mut Clock, block) {
                kept.push(position);
            }
        }
        assert_eq!(kept, [0, 2, 3]);
    }

    /// A loop over four blocks in segments of two, cache of two segments plus one free: the
    /// blocks that are read between two passes of the hand survive, the others leave in order.
    #[test]
    fn a_block_read_each_round_outlives_those_that_are_not() {
        let mut log: Vec<(char, bool)> = vec![('a', false), ('b', false), ('c', false)];
        let mut evicted = String::new();
        for newcomer in ['d', 'e', 'f', 'g'] {
            for block in &mut log {
                block.1 |= block.0 == 'a';
            }
            // One-block "segments" of room two, so that one block of each victim may be kept.
            while log.len() >= 3 {
                let (name, referenced) = log.remove(0);
                let block = Candidate {
                    referenced,
                    kept_so_far: 0,
                    segment_blocks: 2,
                };
                if Reclaim::<u32>::keep(&mut Clock, block) {
                    log.push((name, false));
                } else {
                    evicted.push(name);
                }
            }
            log.push((newcomer, false));
        }
        assert_eq!(evicted, "bcde");
        assert!(log.iter().any(|(name, _)| *name == 'a'));
    }
}
