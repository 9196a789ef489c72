//! What of a part of a dirty log is written to the origin: each block once, sorted, neighbours
//! together.

use crate::limits::RUN_BLOCKS_MAX;
use dirty_log::{Erased, Record, RecordNumber, What};
use flash_format::{Erasure, ErasureKind};
use units::{BlockIndex, Map};

/// One write to the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Blocks that follow each other, by the numbers of their records.
    Data {
        /// The first block.
        first: BlockIndex,
        /// The record of each.
        numbers: Vec<RecordNumber>,
    },
    /// Blocks that are erased.
    Erasure(Erasure),
}

impl Piece {
    /// Blocks that are written or erased.
    pub fn blocks(&self) -> u64 {
        match self {
            Self::Data { numbers, .. } => numbers.len() as u64,
            Self::Erasure(erasure) => erasure.blocks.into(),
        }
    }
}

/// What the records come to when they are applied in their order.
pub(crate) fn pieces_of(records: impl Iterator<Item = (RecordNumber, Record)>) -> Vec<Piece> {
    let mut blocks: Map<BlockIndex, RecordNumber> = Map::default();
    let mut erased = Erased::default();
    let mut kinds: Map<RecordNumber, ErasureKind> = Map::default();
    for (number, record) in records {
        match record.what {
            What::Data { block, .. } => {
                blocks.insert(block, number);
                if !erased.is_empty() {
                    erased.carve(block, 1);
                }
            }
            What::Erasure(erasure) => {
                let (first, count) = (erasure.first, u64::from(erasure.blocks));
                let end = first.get() + count;
                blocks.retain(|block, _| *block < first || block.get() >= end);
                erased.insert(first, count, number);
                kinds.insert(number, erasure.kind);
            }
        }
    }
    let mut pieces = runs_of(blocks.into_iter().collect());
    for (first, count, number) in erased.numbered() {
        let kind = kinds[&number];
        pieces.push(Piece::Erasure(erasure_of(first, count, kind)));
    }
    pieces.sort_by_key(Piece::first);
    pieces
}

pub(crate) fn erasure_of(first: BlockIndex, count: u64, kind: ErasureKind) -> Erasure {
    Erasure {
        first,
        blocks: u32::try_from(count).expect("it is a part of an erasure"),
        kind,
    }
}

impl Piece {
    /// Whether it writes no bytes.
    pub fn erases(&self) -> bool {
        matches!(self, Self::Erasure(_))
    }

    /// Each of its blocks.
    pub fn each(&self) -> impl Iterator<Item = BlockIndex> {
        let first = self.first();
        (0..self.blocks()).map(move |i| first.advance(i))
    }

    /// Its first block.
    pub fn first(&self) -> BlockIndex {
        match self {
            Self::Data { first, .. } => *first,
            Self::Erasure(erasure) => erasure.first,
        }
    }
}

/// Sorts blocks and puts neighbours together.
pub fn runs_of(mut blocks: Vec<(BlockIndex, RecordNumber)>) -> Vec<Piece> {
    blocks.sort_unstable();
    let mut pieces: Vec<Piece> = Vec::new();
    for (block, number) in blocks {
        if let Some(Piece::Data { first, numbers }) = pieces.last_mut()
            && first.advance(numbers.len() as u64) == block
            && (numbers.len() as u64) < RUN_BLOCKS_MAX
        {
            numbers.push(number);
        } else {
            pieces.push(Piece::Data {
                first: block,
                numbers: vec![number],
            });
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_format::Position;
    use units::FlashSlot;

    /// A number with so many before it.
    fn nth(before: u64) -> RecordNumber {
        RecordNumber::FIRST.advance(before)
    }

    fn data(number: u64, block: u64) -> (RecordNumber, Record) {
        let page = u32::try_from(number + 1).unwrap();
        let what = What::Data {
            block: BlockIndex::new(block),
            slot: FlashSlot::new(page),
        };
        let at = Position::of_page(1, page);
        (nth(number), Record { at, what })
    }

    fn erased(first: u64, count: u64) -> Erasure {
        erasure_of(BlockIndex::new(first), count, ErasureKind::Discard)
    }

    fn erasure(number: u64, first: u64, count: u64) -> (RecordNumber, Record) {
        let what = What::Erasure(erased(first, count));
        let (number, record) = data(number, 0);
        (number, Record { what, ..record })
    }

    fn run(first: u64, numbers: &[u64]) -> Piece {
        Piece::Data {
            first: BlockIndex::new(first),
            numbers: numbers.iter().copied().map(nth).collect(),
        }
    }

    fn plan(records: &[(RecordNumber, Record)]) -> Vec<Piece> {
        pieces_of(records.iter().copied())
    }

    #[test]
    fn a_block_goes_once_and_neighbours_go_together() {
        let records = [data(0, 7), data(1, 3), data(2, 8), data(3, 7), data(4, 4)];
        assert_eq!(plan(&records), [run(3, &[1, 4]), run(7, &[3, 2])]);
    }

    #[test]
    fn pieces_never_overlap() {
        let records = [data(0, 5), erasure(1, 4, 4), data(2, 6), erasure(3, 20, 1)];
        let expected = [
            Piece::Erasure(erased(4, 2)),
            run(6, &[2]),
            Piece::Erasure(erased(7, 1)),
            Piece::Erasure(erased(20, 1)),
        ];
        assert_eq!(plan(&records), expected);
    }

    #[test]
    fn a_run_is_a_mebibyte_at_most() {
        let records: Vec<_> = (0..300).map(|n| data(n, n)).collect();
        let lengths: Vec<u64> = plan(&records).iter().map(Piece::blocks).collect();
        assert_eq!(lengths, [256, 44]);
    }
}
