//! What a recovery would bring to the origin a second time.
//!
//! The origin has more of a log than is durably known on flash: the watermark's entries are committed
//! many at a time. A crash makes the recovery begin at the older watermark, so intervals that the
//! origin has are written to it again. That changes nothing as long as no block was written in two of
//! them, nor in the one that was on its way: each write finds what it brings. A block that was would
//! go back to its older version beside later ones. So before something is written to the origin it is
//! looked for here, and waits for a commit if it is found.
//!
//! ```text
//!   watermark, durable        watermark, told                 on its way
//!  ─────────┼── X Y ── Z ── V ──────┼──────────── W ──────────► none of X Y Z V: it may go
//!           └─ may be repeated ─────┘
//! ```
//!
//! Erasures are not kept apart: after one everything waits.

use crate::number::RecordNumber;
use crate::record::{Record, What};
use std::collections::VecDeque;
use units::{BlockIndex, Map};

/// Blocks that the origin has although a recovery may not know it, remembered so that a crash does not
/// bring back an older version of one: 128 KiB for a log whose watermark waits for its commit, and a
/// commit for so many blocks is a thousandth of them.
const REPEATED_BLOCKS_MAX: usize = 2048;

/// Blocks of settled records that a recovery may not know to be settled.
#[derive(Debug, Default)]
pub struct Repeats {
    /// The latest record of each, by its number.
    latest: Map<BlockIndex, RecordNumber>,
    /// Records in their order.
    order: VecDeque<(RecordNumber, BlockIndex)>,
    /// Whatever is written waits until everything before this number is known.
    all_before: RecordNumber,
    /// Everything before this number is known.
    known: RecordNumber,
}

impl Repeats {
    /// The origin has these records.
    pub fn settled(&mut self, records: impl Iterator<Item = (RecordNumber, Record)>) {
        for (number, record) in records {
            match record.what {
                What::Data { block, .. } if self.order.len() < REPEATED_BLOCKS_MAX => {
                    self.latest.insert(block, number);
                    self.order.push_back((number, block));
                }
                What::Data { .. } | What::Erasure(_) => self.any_before(number.next()),
            }
        }
    }

    /// The origin has records before this number, of whatever blocks.
    pub fn any_before(&mut self, number: RecordNumber) {
        self.all_before = number;
    }

    /// A recovery knows that the origin has everything before this number.
    pub fn known(&mut self, number: RecordNumber) {
        self.known = number;
        while let Some((of, block)) = self.order.pop_front_if(|(of, _)| *of < number) {
            if self.latest.get(&block) == Some(&of) {
                self.latest.remove(&block);
            }
        }
    }

    /// Whether nothing else may be written before more is known.
    pub fn meets_all(&self) -> bool {
        self.all_before > self.known
    }

    /// Whether one of these blocks may be written again, as it was before.
    pub fn meets(&self, mut blocks: impl Iterator<Item = BlockIndex>) -> bool {
        !self.latest.is_empty() && blocks.any(|block| self.latest.contains_key(&block))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.latest.capacity() * (size_of::<(BlockIndex, RecordNumber)>() + 1)
            + self.order.capacity() * size_of::<(RecordNumber, BlockIndex)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_format::{Erasure, ErasureKind, Position};
    use units::FlashSlot;

    fn record(what: What) -> Record {
        let at = Position::of_page(1, 1);
        Record { at, what }
    }

    fn data(block: u64) -> Record {
        let (block, slot) = (BlockIndex::new(block), FlashSlot::new(1));
        record(What::Data { block, slot })
    }

    /// A number with so many before it.
    fn nth(before: u64) -> RecordNumber {
        RecordNumber::FIRST.advance(before)
    }

    fn settle(repeats: &mut Repeats, records: &[Record]) {
        let numbers = nth(0).up_to(nth(records.len() as u64));
        repeats.settled(numbers.zip(records.iter().copied()));
    }

    fn meets(repeats: &Repeats, block: u64) -> bool {
        repeats.meets_all() || repeats.meets(std::iter::once(BlockIndex::new(block)))
    }

    #[test]
    fn a_block_waits_until_its_latest_record_is_known() {
        let mut repeats = Repeats::default();
        settle(&mut repeats, &[data(5), data(6), data(5)]);
        assert!(meets(&repeats, 5) && meets(&repeats, 6) && !meets(&repeats, 7));
        repeats.known(nth(2));
        assert!(meets(&repeats, 5) && !meets(&repeats, 6));
        repeats.known(nth(3));
        assert!(!meets(&repeats, 5));
    }

    #[test]
    fn after_an_erasure_everything_waits() {
        let mut repeats = Repeats::default();
        let erasure = Erasure {
            first: BlockIndex::new(8),
            blocks: 2,
            kind: ErasureKind::Discard,
        };
        settle(&mut repeats, &[record(What::Erasure(erasure)), data(5)]);
        assert!(meets(&repeats, 100));
        repeats.known(nth(1));
        assert!(!meets(&repeats, 100) && meets(&repeats, 5));
    }

    #[test]
    fn what_there_is_no_room_for_makes_everything_wait() {
        let mut repeats = Repeats::default();
        let many: Vec<Record> = (0..=REPEATED_BLOCKS_MAX as u64).map(data).collect();
        settle(&mut repeats, &many);
        assert!(meets(&repeats, u64::MAX / 2));
        repeats.known(nth(many.len() as u64 - 1));
        assert!(repeats.meets_all() && !repeats.meets((0..9).map(BlockIndex::new)));
        repeats.known(nth(many.len() as u64));
        assert!(!repeats.meets_all());
    }
}
