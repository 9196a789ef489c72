//! A segment that is being reclaimed: which of its blocks are kept, and where they go.

use crate::heat::{Census, count_of, heat_of, mark_of};
use crate::index::{Index, Marked};
use crate::log::SegmentLog;
use crate::segment::Segment;
use crate::streams::StreamKey;
use crate::table::Table;
use flash_format::SegmentIndex;
use policy::reclaim::{HEAT_LIMIT, Keeps};
use units::{BlockIndex, DiskSlot, FlashSlot};

/// A block that reclaim writes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which block of the victim's disk.
    pub block: BlockIndex,
    /// Where it lies until the victim is free.
    pub from: FlashSlot,
    /// Where it will be.
    pub to: FlashSlot,
}

/// A segment that is being reclaimed.
#[derive(Debug)]
pub struct Victim {
    segment: SegmentIndex,
    disk: DiskSlot,
    survivors: StreamKey,
    choice: Choice,
    moves: Vec<Move>,
}

/// Which blocks of a victim are kept: the hottest as many as may be, in the order in which they lie.
#[derive(Debug)]
struct Choice {
    /// Blocks that are this hot are kept ...
    kept_from: u8,
    /// ... and so many that are cooler by one.
    cooler: u32,
    /// Not more than so many in all: a block may get hotter before it is looked at.
    left: u32,
}

impl Choice {
    fn new(keeps: Keeps, census: &Census, round: u8) -> Self {
        let mut choice = Self {
            kept_from: HEAT_LIMIT + 1,
            cooler: 0,
            left: keeps.at_most,
        };
        let mut left = keeps.at_most;
        while choice.kept_from > keeps.least_heat {
            let cooler = count_of(census, round, choice.kept_from - 1);
            if cooler > left {
                choice.cooler = left;
                break;
            }
            left -= cooler;
            choice.kept_from -= 1;
        }
        choice
    }

    /// Whether no other block is kept, however hot it is.
    #[inline]
    fn is_over(&self) -> bool {
        self.left == 0 || (self.cooler == 0 && self.kept_from > HEAT_LIMIT)
    }

    #[inline]
    fn keeps(&mut self, heat: u8) -> bool {
        let cooler = heat + 1 == self.kept_from && self.cooler > 0;
        let keeps = self.left > 0 && (heat >= self.kept_from || cooler);
        self.cooler -= u32::from(keeps && cooler);
        self.left -= u32::from(keeps);
        keeps
    }
}

impl Victim {
    pub(crate) fn new(
        segment: SegmentIndex,
        found: &Segment,
        survivors: StreamKey,
        keeps: Keeps,
    ) -> Self {
        Self {
            segment,
            disk: found.disk,
            survivors,
            choice: Choice::new(keeps, &found.census, found.round),
            moves: Vec::new(),
        }
    }

    /// Which segment.
    pub fn segment(&self) -> SegmentIndex {
        self.segment
    }

    /// Whose.
    pub fn disk(&self) -> DiskSlot {
        self.disk
    }

    /// The stream that takes its survivors.
    pub fn survivors(&self) -> StreamKey {
        self.survivors
    }

    /// Whether any of its blocks would be kept, as warm as they are now.
    pub fn keeps_any(&self, table: &Table) -> bool {
        let Segment { census, round, .. } = table.get(self.segment);
        let least = self.choice.kept_from - u8::from(self.choice.cooler > 0);
        !self.choice.is_over()
            && (least..=HEAT_LIMIT).any(|heat| count_of(census, *round, heat) > 0)
    }

    /// A survivor was placed in its stream.
    pub fn moved(&mut self, moved: Move) {
        self.moves.push(moved);
    }

    /// A survivor is not where it was meant to be.
    pub fn lost(&mut self, to: FlashSlot) {
        self.moves.retain(|moved| moved.to != to);
    }

    /// The survivors that were placed, each once.
    pub fn take_moves(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.moves)
    }

    /// Where a block lies if it still lies in this page of the self.
    pub fn still_in<I: Index, C>(
        &self,
        log: &SegmentLog<I, C>,
        block: BlockIndex,
        page: u32,
    ) -> Option<FlashSlot> {
        let slot = log.table.geometry().slot(self.segment, page);
        (log.index.get(self.disk, block) == Some(slot)).then_some(slot)
    }

    /// Whether the block in this page of the victim is kept. Asked once for each of the victim's
    /// blocks, in the order in which they lie.
    #[inline]
    pub fn keeps<I: Index, C>(
        &mut self,
        log: &mut SegmentLog<I, C>,
        block: BlockIndex,
        page: u32,
    ) -> bool {
        if self.choice.is_over() {
            return false;
        }
        let slot = log.table.geometry().slot(self.segment, page);
        let marked = log.index.find(self.disk, block);
        let Some(marked) = marked.filter(|at| at.slot == slot) else {
            return false;
        };
        let heat = heat_of(marked.mark, log.table.get(self.segment).round);
        let keeps = self.choice.keeps(heat);
        if keeps {
            let budget = log.table.tenants.budget_of_disk_mut(self.disk);
            budget.spend();
        }
        keeps
    }

    /// Whether every survivor is written.
    pub fn survivors_written<I: Index, C>(&self, log: &SegmentLog<I, C>) -> bool {
        self.moves
            .iter()
            .all(|moved| log.table.is_written(moved.to))
    }

    /// Points the index at a survivor's new slot, where it is cooler by one. False if the block was
    /// written or forgotten meanwhile: then the survivor is dead.
    pub fn point_at<I: Index, C>(&self, log: &mut SegmentLog<I, C>, moved: &Move) -> bool {
        let table = &mut log.table;
        let mut points = false;
        log.index.change(self.disk, moved.block, |at| {
            points = at.slot == moved.from;
            if !points {
                return at;
            }
            let from = table.of_slot(moved.from);
            let heat = heat_of(at.mark, from.round);
            from.uncount(at.mark);
            let to = table.of_slot(moved.to);
            let mark = mark_of(heat.saturating_sub(1), to.round);
            to.count(mark, 1);
            Marked {
                slot: moved.to,
                mark,
            }
        });
        points
    }

    /// Forgets what still lies in the victim, given all blocks that may: each with its page.
    /// Whatever is not among them is found by walking the whole index. `evicted` gets each block
    /// that was forgotten. Returns how many they were.
    pub fn evict<I: Index, C>(
        &self,
        log: &mut SegmentLog<I, C>,
        blocks: impl Iterator<Item = (BlockIndex, u32)>,
        mut evicted: impl FnMut(BlockIndex),
    ) -> u32 {
        let geometry = *log.table.geometry();
        let segment = log.table.get_mut(self.segment);
        let count = segment.live;
        for (block, page) in blocks {
            let slot = geometry.slot(self.segment, page);
            if let Some(marked) = log.index.remove_if(self.disk, block, slot) {
                segment.uncount(marked.mark);
                evicted(block);
            }
        }
        log.cached[self.disk.index()] -= u64::from(count - segment.live);
        if log.table.get(self.segment).live > 0 {
            log.forget_segment(self.segment, evicted);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// In round 5: three blocks of heat 3, two of 2, four of 1, five cold.
    fn census() -> Census {
        let mut census = Census::default();
        (census[8], census[7], census[6], census[5]) = (3, 2, 4, 5);
        census
    }

    /// How many of 3, 2, 4 and 5 blocks of heats 3 to 0 are kept, the coolest asked about first.
    fn kept(least_heat: u8, at_most: u32) -> [u32; 4] {
        let mut choice = Choice::new(
            Keeps {
                least_heat,
                at_most,
            },
            &census(),
            5,
        );
        let mut kept = [0; 4];
        for (place, (heat, blocks)) in [(0, 5), (1, 4), (2, 2), (3, 3)].into_iter().enumerate() {
            for _ in 0..blocks {
                kept[place] += u32::from(choice.keeps(heat));
            }
        }
        kept
    }

    #[test]
    fn the_hottest_are_kept_whatever_is_asked_about_first() {
        assert_eq!(kept(1, 7), [0, 2, 2, 3]);
        assert_eq!(kept(1, 2), [0, 0, 0, 2]);
        assert_eq!(kept(1, 14), [0, 4, 2, 3]);
        assert_eq!(kept(0, 14), [5, 4, 2, 3]);
        assert_eq!(kept(1, 0), [0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn never_more_are_kept_than_may_be_even_if_all_got_hotter(
            counts in prop::array::uniform4(0..20_u16),
            at_most in 0..40_u32,
            least_heat in 0..2_u8,
        ) {
            let mut census = Census::default();
            census[..4].copy_from_slice(&counts);
            let keeps = Keeps { least_heat, at_most };
            let mut choice = Choice::new(keeps, &census, 0);
            let blocks: u32 = counts.iter().map(|count| u32::from(*count)).sum();
            let kept = (0..blocks).filter(|_| choice.keeps(HEAT_LIMIT)).count();
            prop_assert_eq!(kept, at_most.min(blocks) as usize);
        }
    }
}
