//! The chain of a disk's dirty log: which of the chunks that were found count.
//!
//! ```text
//!   watermark        durable: some chunk says so, or the tables
//!  ─────┼──[ a ]──[ b ]──┼──[ c ]──[ d ]── ✗ ──[ f ]
//!          must be there │  as far as header and data are whole
//! ```
//!
//! Each chunk names the record that it follows. Up to the highest place that any chunk or the tables
//! say was durable, every chunk must be there: if one is not, acknowledged bytes are lost, and the log
//! is *damaged*. Behind that the first that is missing or torn ends the log: whoever wrote it, or what
//! came after it, was not told that it is durable, or not long enough ago for the tables to say so.
//!
//! A chunk that is still in memory says more: the host has kept its power since, and has lost nothing
//! that was written before it. If the log ends in front of one it is damaged too.

use super::left::LeftChunk;
use crate::guard::{Guard, holds};
use flash_format::{DirtyChunkHeader, Position};

/// What is known of a chunk's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// They were not looked at.
    Unread,
    /// Each has its checksum.
    Whole,
    /// One has not: torn, or rotten.
    Torn,
    /// They could not be read.
    Unreadable,
}

/// A chunk that was found.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) header: DirtyChunkHeader,
    pub(super) data: Data,
    /// Its bytes are in memory, and not, or not surely, on flash.
    pub(super) left: Option<LeftChunk>,
}

/// Where a log ends, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// So many of the chunks count, from the first on.
    pub(super) chunks: usize,
    /// The last record that counts; the watermark without one.
    pub(super) last: Position,
    /// Something that was durable is not there.
    pub(super) is_damaged: bool,
}

/// How far a log was surely durable: to what the tables know, or to what a chunk says.
pub(super) fn durable(known: Position, chunks: &[Chunk]) -> Position {
    let named = chunks.iter().map(|chunk| chunk.header.durable).max();
    named.map_or(known, |named| named.max(known))
}

/// Where the log ends that has these chunks, sorted by their places. Whoever has not looked at the
/// data of a chunk behind [`durable`] takes it for whole. The tables say that it was durable up to
/// `logged`. `unreadable` is the last place where the flash could not be read, and a chunk may be.
pub(super) fn end(
    watermark: Position,
    logged: Position,
    chunks: &[Chunk],
    unreadable: Option<Position>,
) -> End {
    let durable = durable(logged.max(watermark), chunks);
    let mut last = watermark;
    let mut count = 0;
    let mut is_damaged = false;
    let reads_count = holds(Guard::UnreadableIsNotTorn);
    for chunk in chunks {
        let end = chunk.header.last();
        // What the origin has may be damaged, and lead to what it has not.
        if end > watermark {
            let is_tail = end > durable;
            let torn = is_tail && matches!(chunk.data, Data::Torn | Data::Unreadable);
            is_damaged |= is_tail && chunk.data == Data::Unreadable && reads_count;
            let missing = chunk.header.follows > last && holds(Guard::ChunksFollow);
            if missing || torn {
                break;
            }
            last = end;
        }
        count += 1;
    }
    let in_memory = |chunk: &Chunk| chunk.left.is_some() && holds(Guard::MemoryFollows);
    End {
        chunks: count,
        last,
        is_damaged: is_damaged
            || last < durable
            || chunks[count..].iter().any(in_memory)
            || unreadable.is_some_and(|at| at > last && reads_count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_format::{Descriptor, DirtyRecord, SegmentIndex};
    use units::{BlockIndex, Bytes, DiskId, DiskSlot};

    fn at(page: u32) -> Position {
        Position::of_page(1, page)
    }

    /// A chunk at page `page` with a block at the next; it follows the chunk before it.
    fn chunk(page: u32, durable: u32) -> Chunk {
        let follows = if page == 0 {
            Position::START
        } else {
            at(page - 1)
        };
        let header = DirtyChunkHeader {
            segment: SegmentIndex::new(0),
            generation: 1,
            disk: DiskSlot::new(0),
            page,
            id: DiskId::from_u128(1),
            size: Bytes::mib(4),
            epoch: 1,
            begins_interval: false,
            follows,
            durable: if durable == 0 {
                Position::START
            } else {
                at(durable)
            },
            records: vec![DirtyRecord::Data(Descriptor {
                block: BlockIndex::new(0),
                checksum: 0,
                page: page + 1,
            })],
        };
        Chunk {
            header,
            data: Data::Unread,
            left: None,
        }
    }

    fn ends(chunks: &[Chunk]) -> (usize, Position, bool) {
        let end = end(Position::START, Position::START, chunks, None);
        (end.chunks, end.last, end.is_damaged)
    }

    #[test]
    fn a_whole_log_counts() {
        let log = [chunk(0, 0), chunk(2, 0), chunk(4, 3)];
        assert_eq!(ends(&log), (3, at(5), false));
        assert_eq!(ends(&[]), (0, Position::START, false));
    }

    #[test]
    fn a_torn_tail_ends_the_log_and_takes_what_is_behind_it_along() {
        let mut log = [chunk(0, 0), chunk(2, 1), chunk(4, 1), chunk(6, 1)];
        log[2].data = Data::Torn;
        assert_eq!(ends(&log), (2, at(3), false));
        let missing = [log[0].clone(), log[1].clone(), log[3].clone()];
        assert_eq!(ends(&missing), (2, at(3), false));
    }

    #[test]
    fn a_missing_chunk_that_was_durable_is_damage() {
        let log = [chunk(0, 0), chunk(4, 3)];
        assert_eq!(ends(&log), (1, at(1), true));
        // Whatever its data: below what is durable nobody looks at it here.
        let mut rotten = [chunk(0, 0), chunk(2, 0), chunk(4, 3)];
        rotten[1].data = Data::Torn;
        assert_eq!(ends(&rotten), (3, at(5), false));
    }

    #[test]
    fn what_the_origin_has_may_be_damaged() {
        let log = [chunk(0, 0), chunk(4, 3)];
        let end = |watermark| end(watermark, Position::START, &log, None);
        assert_eq!((end(at(3)).last, end(at(3)).is_damaged), (at(5), false));
        // The watermark is in the middle of the gap.
        assert_eq!((end(at(2)).last, end(at(2)).is_damaged), (at(2), true));
        assert_eq!((end(at(5)).last, end(at(5)).is_damaged), (at(5), false));
    }

    #[test]
    fn a_last_chunk_that_the_tables_know_is_no_torn_tail() {
        let log = [chunk(0, 0), chunk(2, 0)];
        let end = |logged, chunks| {
            let end = end(Position::START, logged, chunks, None);
            (end.chunks, end.last, end.is_damaged)
        };
        assert_eq!(end(at(3), &log[..1]), (1, at(1), true));
        assert_eq!(end(at(3), &log), (2, at(3), false));
        let mut rotten = log.clone();
        rotten[1].data = Data::Torn;
        assert_eq!(end(at(3), &rotten), (2, at(3), false));
        assert_eq!(end(at(1), &rotten), (1, at(1), false));
    }

    #[test]
    fn what_is_missing_before_a_chunk_in_memory_was_no_torn_tail() {
        let in_memory = |mut chunk: Chunk| {
            chunk.data = Data::Whole;
            chunk.left = Some(LeftChunk {
                head: chunk.header.retained_head(),
                records: Vec::new(),
                pages: Vec::new(),
            });
            chunk
        };
        let log = [chunk(0, 0), in_memory(chunk(2, 0))];
        assert_eq!(ends(&log), (2, at(3), false));
        let log = [chunk(0, 0), in_memory(chunk(4, 0))];
        assert_eq!(ends(&log), (1, at(1), true));
        let mut log = [chunk(0, 0), chunk(2, 0), in_memory(chunk(4, 0))];
        log[1].data = Data::Torn;
        assert_eq!(ends(&log), (1, at(1), true));
        // The origin has what is missing.
        let end = end(at(3), Position::START, &log[2..], None);
        assert_eq!((end.last, end.is_damaged), (at(5), false));
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_a_torn_tail() {
        let mut log = [chunk(0, 0), chunk(2, 0)];
        log[1].data = Data::Unreadable;
        assert_eq!(ends(&log), (1, at(1), true));
        let end = |at| end(Position::START, Position::START, &log[..1], Some(at));
        assert!(end(at(2)).is_damaged);
        // Before the end of what was found nothing is missing.
        assert!(!end(at(0)).is_damaged);
    }
}
