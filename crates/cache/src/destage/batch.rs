//! A part of a log on its way to the origin.

use super::plan::Piece;
use crate::dirty::log::{DirtyLog, What};
use crate::limits::RUN_BLOCKS_MAX;
use block_io::{IoError, Slice};
use flash_format::Geometry;
use units::{FlashSlot, Map};

/// Pages that are read for nothing rather than to begin another read: a header, or records that were
/// superseded.
const GAP_PAGES_MAX: u32 = 4;

/// Records that go to the origin together.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Which: completions of one that was given up mean nothing.
    pub(super) id: u64,
    /// The number behind its last record.
    pub(super) to: u64,
    /// Its last record is the last of an interval, or it has to be settled for another reason before
    /// anything else is written.
    pub(super) ends: bool,
    /// The records that it settles, if those before them are not settled with them.
    pub(super) some: Option<Vec<u64>>,
    pub(super) pieces: Vec<Piece>,
    pub(super) pages: Map<u64, Slice>,
    pub(super) reads: Vec<LogRead>,
    pub(super) reads_left: usize,
    /// Pieces that have been sent to the origin.
    pub(super) issued: usize,
    pub(super) in_flight: u32,
    /// It is one write, which the origin makes durable.
    pub(super) fua: bool,
    pub(super) error: Option<IoError>,
    /// A record was not what was written.
    pub(super) is_bad: bool,
}

/// Pages of the log that are read together.
#[derive(Clone, Debug)]
pub(crate) struct LogRead {
    pub(super) slot: FlashSlot,
    pub(super) pages: u32,
    /// Which of the pages are wanted, and which records they are.
    pub(super) wanted: Vec<(u32, u64)>,
}

impl Batch {
    pub(super) fn new(id: u64, to: u64, ends: bool, pieces: Vec<Piece>) -> Self {
        Self {
            id,
            to,
            ends,
            some: None,
            pieces,
            pages: Map::default(),
            reads: Vec::new(),
            reads_left: 0,
            issued: 0,
            in_flight: 0,
            fua: false,
            error: None,
            is_bad: false,
        }
    }

    /// The numbers of the records whose bytes are needed, in their order, with their slots.
    pub(super) fn wanted(&self, log: &DirtyLog) -> Vec<(u64, FlashSlot)> {
        let data = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Data { numbers, .. } => Some(numbers),
            Piece::Erasure(_) => None,
        });
        let mut numbers: Vec<u64> = data.flatten().copied().collect();
        numbers.sort_unstable();
        let slot = |number: u64| match log.record(number).what {
            What::Data { slot, .. } => Some((number, slot)),
            What::Erasure(_) => None,
        };
        numbers.into_iter().filter_map(slot).collect()
    }

    /// Whether every piece is at the origin, or one could not be brought there and none is on its way.
    pub(super) fn is_done(&self) -> bool {
        self.in_flight == 0 && (self.issued == self.pieces.len() || self.error.is_some())
    }
}

/// Reads for these records, which are in the order of their places.
pub(super) fn reads_of(wanted: &[(u64, FlashSlot)], geometry: &Geometry) -> Vec<LogRead> {
    let mut reads: Vec<LogRead> = Vec::new();
    for (number, slot) in wanted {
        if let Some(read) = reads.last_mut()
            && geometry.segment_of(read.slot) == geometry.segment_of(*slot)
            && *slot >= read.slot.advance(read.pages)
        {
            let at = slot.get() - read.slot.get();
            let gap = at - read.pages;
            if gap <= GAP_PAGES_MAX && u64::from(at) < RUN_BLOCKS_MAX {
                read.pages = at + 1;
                read.wanted.push((at, *number));
                continue;
            }
        }
        reads.push(LogRead {
            slot: *slot,
            pages: 1,
            wanted: vec![(0, *number)],
        });
    }
    reads
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    #[test]
    fn records_that_lie_close_are_read_together() {
        let geometry = Geometry::of_slots(8 * 16, Bytes::kib(64)).unwrap();
        let at = |slot| (u64::from(slot), FlashSlot::new(slot));
        let reads = reads_of(&[at(17), at(18), at(20), at(30), at(33)], &geometry);
        let told: Vec<_> = reads
            .iter()
            .map(|read| (read.slot.get(), read.pages))
            .collect();
        assert_eq!(told, [(17, 4), (30, 1), (33, 1)]);
        assert_eq!(reads[0].wanted, [(0, 17), (1, 18), (3, 20)]);
    }
}
