//! Reclaim on a device that stores nothing: the footer of the victim is what the simulation remembers.

use super::{NOTHING, SimulatedLog, block_of};
use crate::reclaim::{Begin, Move, Victim};
use crate::streams::Source;
use flash_format::PAGE_BYTES;
use units::DiskSlot;

impl SimulatedLog {
    /// Reclaims until enough segments are free.
    pub(super) fn reclaim(&mut self, evicted: &mut impl FnMut(DiskSlot, u32)) {
        loop {
            match self.log.begin_reclaim() {
                Begin::Enough | Begin::Wait => return,
                Begin::Close(stream) => self.close(stream),
                Begin::Reclaim(victim) => self.reclaim_one(victim, evicted),
            }
        }
    }

    fn reclaim_one(&mut self, mut victim: Victim, evicted: &mut impl FnMut(DiskSlot, u32)) {
        let geometry = *self.log.geometry();
        let segment = victim.segment();
        let first = self.slots_of(segment).start;
        let room = geometry.segment_pages() - geometry.footer_pages();
        let mut kept = Vec::new();
        for page in 1..room {
            let key = self.contents[first + page as usize];
            if key != NOTHING && self.log.keeps(&mut victim, block_of(key), page) {
                kept.push((key, page));
            }
        }
        let read = geometry.footer_pages() as usize + kept.len();
        self.chores.reclaim_read_bytes += (read * PAGE_BYTES) as u64;
        for (key, page) in kept {
            let stream = victim.survivors();
            let Some(placed) = self.place(stream, key, Source::Survivor) else {
                continue;
            };
            victim.moved(Move {
                block: block_of(key),
                from: geometry.slot(segment, page),
                to: placed.slot,
            });
            self.finish(stream, placed);
        }
        self.seal(victim.survivors());
        self.commits.free(self.now);
        self.commits.hurry();
        self.commits.pump(self.now);
        for moved in victim.take_moves() {
            self.point_at(&victim, &moved);
        }
        let contents = &self.contents[first..];
        let left = (1..room)
            .map(|page| (contents[page as usize], page))
            .filter(|(key, _)| *key != NOTHING)
            .map(|(key, page)| (block_of(key), page));
        let dropped = self.log.evict(&victim, left, |block| {
            let key = u32::try_from(block.get()).expect("it was one");
            evicted(victim.disk(), key);
        });
        self.chores.blocks_evicted += u64::from(dropped);
        self.chores.segments_reclaimed += 1;
        self.resting.free(segment);
        self.log.release(segment);
    }

    fn point_at(&mut self, victim: &Victim, moved: &Move) {
        if !self.log.point_at(victim, moved) {
            return;
        }
        self.chores.blocks_kept += 1;
        if self.resting.is_trusted(moved.from) {
            self.trust(moved.to, 1);
        } else {
            let key = self.contents[moved.to.index()];
            self.rest(key, moved.to);
        }
    }
}
