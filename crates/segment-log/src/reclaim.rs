//! Reclaim: which segment is made free again, and what of it is kept.
//!
//! ```text
//!  begin_reclaim ─► keeps(block)? ─► driver appends it as a survivor ─► moved(from, to)
//!        driver waits until they are written (survivors_written), and records the segment free
//!  point_at each survivor's new slot ─► evict the rest ─► release
//! ```
//!
//! Until the driver has recorded the segment free the index points into it, so that whoever
//! writes one of its blocks finds the copy that a recovery would find.

use crate::heat::{Census, count_of, heat_of, mark_of};
use crate::index::{Index, Marked};
use crate::limits::{SEGMENTS_OPEN_SHARE, STREAM_IDLE_SHARE};
use crate::log::SegmentLog;
use crate::streams::{Source, StreamKey};
use crate::table::{Phase, Segment};
use crate::tenants::Owner;
use flash_format::SegmentIndex;
use policy::reclaim::{ClosedSegment, HEAT_LIMIT, Heads, Keeps, Turn};
use units::{BlockIndex, DiskSlot, FlashSlot};

/// What is to be done about free segments.
#[derive(Debug)]
pub enum Begin {
    /// Enough are free.
    Enough,
    /// Nothing can be done before a write has ended.
    Wait,
    /// Every segment is open: close the stream that was idle longest.
    Close(StreamKey),
    /// This one is reclaimed.
    Reclaim(Victim),
}

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

    fn keeps(&mut self, heat: u8) -> bool {
        let cooler = heat + 1 == self.kept_from && self.cooler > 0;
        let keeps = self.left > 0 && (heat >= self.kept_from || cooler);
        self.cooler -= u32::from(keeps && cooler);
        self.left -= u32::from(keeps);
        keeps
    }
}

impl Victim {
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
}

impl<I: Index, C> SegmentLog<I, C> {
    /// Whether it is known without a look that [`SegmentLog::begin_reclaim`] would find enough.
    #[inline]
    pub fn has_enough(&self) -> bool {
        !self.turned_away && !self.table.runs_short() && self.table.tenants.nobody_is_over()
    }

    /// Begins a reclaim if segments run short, or if a tenant is over its limit and is not to be
    /// ([`crate::Spare`]). One is under way at a time.
    pub fn begin_reclaim(&mut self) -> Begin {
        if std::mem::take(&mut self.turned_away)
            && let Some(idle) = self.idle_stream()
        {
            return Begin::Close(idle);
        }
        let givers = self.givers();
        if givers.is_empty() {
            return Begin::Enough;
        }
        let victim = givers.iter().find_map(|owner| self.choose_victim(*owner));
        let Some((segment, keeps)) = victim else {
            return self.close_for(&givers);
        };
        self.table.begin_free(segment);
        let Segment {
            disk,
            census,
            round,
            ..
        } = self.table.get(segment);
        let survivors = self.stream_for_survivors(*disk);
        Begin::Reclaim(Victim {
            segment,
            disk: *disk,
            survivors,
            choice: Choice::new(keeps, census, *round),
            moves: Vec::new(),
        })
    }

    /// Survivors have a stream of their own, unless so many segments are open already that one more
    /// would cost more than it sorts: then they join the disk's new blocks.
    fn stream_for_survivors(&self, disk: DiskSlot) -> StreamKey {
        let own = StreamKey::of(disk, Source::Survivor);
        let joint = StreamKey::of(disk, Source::Fill);
        let segments = self.table.geometry().segment_count() as usize;
        let crowded = self.streams.len() * SEGMENTS_OPEN_SHARE > segments;
        let is_open = |key| self.streams.get(key).is_some();
        if crowded && !is_open(own) && is_open(joint) {
            joint
        } else {
            own
        }
    }

    /// A stream to which nothing was appended for long.
    fn idle_stream(&self) -> Option<StreamKey> {
        let coldest = self.streams.coldest(|_| true)?;
        let idle = self.appended - self.streams.get(coldest)?.appended_at;
        let long = self.table.geometry().slots() / STREAM_IDLE_SHARE;
        (idle > long).then_some(coldest)
    }

    /// Of whom a segment is reclaimed now, in this order. Whoever is not above its share is not
    /// among them while somebody else is.
    fn givers(&mut self) -> Vec<Owner> {
        if !self.table.runs_short() {
            return self.table.tenants.over_its_limit().into_iter().collect();
        }
        let order = self.table.tenants.in_order_of_excess();
        let anybody_above = order.first().is_some_and(|(_, excess)| *excess > 0);
        let gives = |excess: i64| excess > 0 || !anybody_above;
        let givers = order.into_iter().filter(|(_, excess)| gives(*excess));
        givers.map(|(owner, _)| owner).collect()
    }

    /// Asks the policy about one owner's segments, and spares those it says, until it names one to
    /// reclaim.
    fn choose_victim(&mut self, owner: Owner) -> Option<(SegmentIndex, Keeps)> {
        let sample = self.table.tenants.sample(owner);
        let live = |segment: &SegmentIndex| self.table.get(*segment).live;
        let emptiest = sample.into_iter().min_by_key(live);
        let mut spared = 0;
        loop {
            let seen = |segment| self.as_closed(segment);
            let [fresh, proven] = self.table.tenants.heads(owner).map(|head| head.map(seen));
            let turn = self.policy.turn(&Heads {
                fresh,
                proven,
                emptiest: emptiest.map(seen),
                segment_blocks: self.table.geometry().segment_blocks_max(),
                spared,
                budget: self.table.tenants.budget(owner),
            })?;
            match turn {
                Turn::Spare(segment) => self.table.spare(segment, self.appended),
                Turn::Reclaim { segment, keeps } => return Some((segment, keeps)),
            }
            spared += 1;
        }
    }

    fn as_closed(&self, index: SegmentIndex) -> ClosedSegment<SegmentIndex> {
        let segment = self.table.get(index);
        ClosedSegment {
            segment: index,
            opened: segment.generation,
            age: self.appended - segment.since,
            live_blocks: segment.live,
            warm_blocks: segment.warm(),
        }
    }

    /// None of those who give a segment has a closed one: waits for one that is being closed, or
    /// else closes an open one.
    fn close_for(&self, givers: &[Owner]) -> Begin {
        let tenants = &self.table.tenants;
        let gives = |disk: DiskSlot| givers.contains(&tenants.owner_of(disk));
        let mut segments = self.table.iter();
        if segments.any(|(_, segment)| segment.phase == Phase::Closing && gives(segment.disk)) {
            return Begin::Wait;
        }
        let coldest = |owner: &Owner| {
            self.streams
                .coldest(|disk| tenants.owner_of(disk) == *owner)
        };
        givers
            .iter()
            .find_map(coldest)
            .map_or(Begin::Wait, Begin::Close)
    }

    /// Where a block lies if it still lies in this page of the victim.
    pub fn still_in(&self, victim: &Victim, block: BlockIndex, page: u32) -> Option<FlashSlot> {
        let slot = self.table.geometry().slot(victim.segment, page);
        (self.index.get(victim.disk, block) == Some(slot)).then_some(slot)
    }

    /// Whether the block in this page of the victim is kept. Asked once for each of the victim's
    /// blocks, in the order in which they lie.
    pub fn keeps(&mut self, victim: &mut Victim, block: BlockIndex, page: u32) -> bool {
        if self.still_in(victim, block, page).is_none() {
            return false;
        }
        let keeps = victim.choice.keeps(self.heat(victim.disk, block));
        if keeps {
            let budget = self.table.tenants.budget_of_disk_mut(victim.disk);
            budget.spend();
        }
        keeps
    }

    /// Whether every survivor is written.
    pub fn survivors_written(&self, victim: &Victim) -> bool {
        victim
            .moves
            .iter()
            .all(|moved| self.table.is_written(moved.to))
    }

    /// Points the index at a survivor's new slot, where it is cooler by one. False if the block was
    /// written or forgotten meanwhile: then the survivor is dead.
    pub fn point_at(&mut self, victim: &Victim, moved: &Move) -> bool {
        let table = &mut self.table;
        let mut points = false;
        self.index.change(victim.disk, moved.block, |at| {
            points = at.slot == moved.from;
            if !points {
                return at;
            }
            let from = table.of_slot(moved.from);
            let heat = heat_of(at.mark, from.round);
            from.uncount(at.mark);
            let to = table.of_slot(moved.to);
            let mark = mark_of(heat.saturating_sub(1), to.round);
            to.count(mark);
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
    pub fn evict(
        &mut self,
        victim: &Victim,
        blocks: impl Iterator<Item = (BlockIndex, u32)>,
        mut evicted: impl FnMut(BlockIndex),
    ) -> u32 {
        let count = self.table.get(victim.segment).live;
        for (block, page) in blocks {
            let slot = self.table.geometry().slot(victim.segment, page);
            if self.forget_if(victim.disk, block, slot) {
                evicted(block);
            }
        }
        if self.table.get(victim.segment).live > 0 {
            self.forget_segment(victim.segment, evicted);
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
