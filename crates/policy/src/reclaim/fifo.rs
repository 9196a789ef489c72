//! First in, first out: the oldest segment goes, with all that is in it.
//!
//! The yardstick for hits, and the least that can be written to flash: each block is written
//! once, whatever happens to it.

use super::{Candidate, ClosedSegment, Reclaim};

/// Reclaims the segment that was opened first and keeps nothing of it.
#[derive(Clone, Copy, Debug)]
pub struct Fifo;

impl<S> Reclaim<S> for Fifo {
    fn victim(&mut self, closed: &mut dyn Iterator<Item = ClosedSegment<S>>) -> Option<S> {
        closed.next().map(|oldest| oldest.segment)
    }

    fn keep(&mut self, _block: Candidate) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::DiskSlot;

    #[test]
    fn the_segment_opened_first_goes_and_takes_all_with_it() {
        let closed = [7, 3, 5].map(|segment| ClosedSegment {
            segment,
            owner: DiskSlot::new(0),
            live_blocks: segment,
        });
        assert_eq!(Fifo.victim(&mut closed.into_iter()), Some(7));
        let hot = Candidate {
            referenced: true,
            kept_so_far: 0,
            segment_blocks: 8,
        };
        assert!(!Reclaim::<u32>::keep(&mut Fifo, hot));
    }
}
