//! Placing blocks as long as nothing else comes of it.
//!
//! Most blocks only join others in an open chunk: no segment is opened, nothing is written, nobody has to leave.
//! Of these a run is placed at once, with one look at the stream, the segment and the purse for all of them. The
//! block with which a chunk opens, and the one with which it is full, go the ordinary way
//! ([`SegmentLog::prepare`], [`SegmentLog::place`], [`SegmentLog::enter`]).

use crate::append::{Placed, room, take_pages};
use crate::heat::mark_of;
use crate::index::{Index, Marked};
use crate::log::SegmentLog;
use crate::streams::{OpenSegment, Source, StreamKey};
use flash_format::{CHUNK_BLOCKS_MAX, Geometry, RECORDS_PER_CHUNK_MAX};
use units::{BlockIndex, Instant};

/// Blocks that were placed one behind the other, and entered into the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// The first of them.
    pub first: Placed,
    /// How many they are.
    pub count: u32,
}

/// Places the first of these blocks, at most `most`, in their stream and enters them into the index, cold: up to
/// the first that is cached already, or after which something would have to be done. None if that is the
/// very first.
#[inline]
pub fn place_quietly<I: Index, C: Default>(
    log: &mut SegmentLog<I, C>,
    key: StreamKey,
    source: Source,
    blocks: impl Iterator<Item = BlockIndex>,
    most: u32,
    now: Instant,
) -> Option<Quiet> {
    let open = log.streams.get(key)?;
    let most = room_for_quiet(open, log.table.geometry()).min(most);
    let slot = log.table.geometry().slot(open.segment, open.next_page);
    let segment = log.table.get_mut(open.segment);
    let mark = mark_of(0, segment.round);
    let first = Marked { slot, mark };
    let run = blocks.take(most as usize);
    let count = log.index.insert_run(key.disk, run, first);
    if count == 0 {
        return None;
    }
    segment.count(mark, count);
    log.cached[key.disk.index()] += u64::from(count);
    let first = take_pages(log, key, source, count, now);
    Some(Quiet { first, count })
}

/// Blocks after which nothing has to be done: one less than fill the chunk, or the segment.
fn room_for_quiet<C>(open: &OpenSegment<C>, geometry: &Geometry) -> u32 {
    let Some(chunk) = &open.chunk else {
        return 0;
    };
    let records_max = u32::try_from(RECORDS_PER_CHUNK_MAX).expect("a page of records");
    let blocks = CHUNK_BLOCKS_MAX - chunk.len();
    let records = records_max - chunk.records();
    let pages = room(geometry) - open.next_page;
    let described = geometry.segment_blocks_max() - open.blocks;
    blocks.min(records).min(pages).min(described) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{After, Dense, Step};
    use policy::reclaim::Kind;
    use proptest::prelude::*;
    use units::{Bytes, DiskSlot};

    const KEY: StreamKey = StreamKey::of(DiskSlot::new(3), Source::Fill);
    const NOW: Instant = Instant::from_nanos(7);

    fn log(segment: Bytes) -> SegmentLog<Dense, ()> {
        let geometry = Geometry::of_slots(8 * 256, segment).unwrap();
        SegmentLog::new(geometry, Dense::new(), Kind::Clock.build())
    }

    fn quietly(log: &mut SegmentLog<Dense, ()>, blocks: &[u64], most: u32) -> u32 {
        let blocks = blocks.iter().copied().map(BlockIndex::new);
        let quiet = place_quietly(log, KEY, Source::Fill, blocks, most, NOW);
        quiet.map_or(0, |quiet| quiet.count)
    }

    /// The ordinary way. True if something had to be done.
    fn one(log: &mut SegmentLog<Dense, ()>, block: u64) -> bool {
        let mut was_quiet = true;
        while log.prepare(KEY, NOW) != Step::Ready {
            was_quiet = false;
        }
        let placed = log.place(KEY, Source::Fill, NOW);
        log.enter(KEY.disk, BlockIndex::new(block), placed.slot)
            .unwrap();
        if placed.after != After::Nothing {
            log.seal(KEY);
        }
        if placed.after == After::Close {
            log.close(KEY);
        }
        !was_quiet || placed.after != After::Nothing
    }

    #[test]
    fn a_run_ends_before_a_block_that_is_cached_and_at_the_most_that_may_be() {
        let mut log = log(Bytes::kib(64));
        assert_eq!(quietly(&mut log, &[1], 9), 0, "no chunk is open");
        one(&mut log, 5);
        assert_eq!(quietly(&mut log, &[1, 2, 5, 6], 9), 2);
        assert_eq!(quietly(&mut log, &[6, 7, 6], 9), 2);
        assert_eq!(quietly(&mut log, &[8, 9], 1), 1);
        log.self_check();
    }

    proptest! {
        /// With runs and without, both logs are the same after each.
        #[test]
        fn a_run_does_what_its_blocks_do_one_by_one(
            lengths in prop::collection::vec(1..200_u64, 1..8),
            large in any::<bool>(),
        ) {
            let segment = if large { Bytes::mib(1) } else { Bytes::kib(64) };
            let (mut runs, mut single) = (log(segment), log(segment));
            let mut next = 0;
            for length in lengths {
                let end = (next + length).min(800);
                while next < end {
                    let blocks: Vec<u64> = (next..end).collect();
                    let count = u64::from(quietly(&mut runs, &blocks, u32::MAX));
                    for block in next..next + count {
                        prop_assert!(!one(&mut single, block), "something came of {}", block);
                    }
                    next += count;
                    if next < end {
                        let something = one(&mut runs, next);
                        prop_assert_eq!(something, one(&mut single, next));
                        prop_assert!(something, "{} could have been in the run", next);
                        next += 1;
                    }
                }
                let cached = |log: &SegmentLog<Dense, ()>| -> Vec<_> {
                    (0..next).map(|block| log.index().find(KEY.disk, BlockIndex::new(block))).collect()
                };
                prop_assert_eq!(cached(&runs), cached(&single));
                prop_assert_eq!(runs.appended, single.appended);
                let purse = |log: &SegmentLog<Dense, ()>| *log.table.tenants.budget(crate::tenants::Owner::NOBODY);
                prop_assert_eq!(purse(&runs), purse(&single));
                let open = |log: &SegmentLog<Dense, ()>| log.stream(KEY).map(|open| {
                    (open.segment, open.next_page, open.blocks, open.appended, open.appended_at)
                });
                prop_assert_eq!(open(&runs), open(&single));
                runs.self_check();
            }
        }
    }
}
