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

use crate::index::Index;
use crate::limits::{SEGMENTS_OPEN_SHARE, STREAM_IDLE_SHARE};
use crate::log::SegmentLog;
use crate::segment::Phase;
use crate::streams::{Source, StreamKey};
use crate::tenants::Owner;
use crate::victim::Victim;
use flash_format::SegmentIndex;
use policy::reclaim::{Heads, Keeps, Turn};
use units::DiskSlot;

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
        let givers = self.table.givers();
        if givers.is_empty() {
            return Begin::Enough;
        }
        let victim = givers.iter().find_map(|owner| self.choose_victim(*owner));
        let Some((segment, keeps)) = victim else {
            return self.close_for(&givers);
        };
        self.table.begin_free(segment);
        let found = self.table.get(segment);
        let survivors = self.stream_for_survivors(found.disk);
        Begin::Reclaim(Victim::new(segment, found, survivors, keeps))
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

    /// Asks the policy about one owner's segments, and spares those it says, until it names one to
    /// reclaim.
    fn choose_victim(&mut self, owner: Owner) -> Option<(SegmentIndex, Keeps)> {
        let mut sample = Vec::new();
        self.table.tenants.sample(owner, &mut sample);
        let live = |segment: &SegmentIndex| self.table.get(*segment).live;
        let emptiest = sample.into_iter().min_by_key(live);
        let mut spared = 0;
        loop {
            let seen = |segment| self.table.get(segment).seen(segment, self.appended);
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
}
