//! What a store does to reclaim segments, beside what [`Reclaim`](crate::reclaim::Reclaim) does itself.

use super::Store;
use crate::chunks::Entry;
#[cfg(feature = "mutants")]
use crate::guard::{Guard, holds};
use crate::ports::{Ports, Tag};
use crate::reclaim::{Next, Survivor};
use flash_format::{PAGE_BYTES, SegmentIndex};
use segment_log::{Begin, Move, Source, StreamKey};

impl Store {
    /// Starts what can be started of a reclaim.
    pub(super) fn pump_reclaim<T: Tag>(&mut self, ports: &mut Ports<T>) {
        match self.reclaim.next(&self.segments, self.journal.durable()) {
            Next::Wait => {}
            Next::Begin if self.intake.is_stopped() => {}
            Next::Begin => match self.segments.begin_reclaim() {
                Begin::Enough | Begin::Wait => {}
                Begin::Close(key) => {
                    let (writer, mut streams) = self.writer();
                    writer.close(ports, &mut streams, key);
                }
                Begin::Reclaim(victim) => self.reclaim.begin(ports, victim),
            },
            Next::Free(segment) => {
                let generation = self.segments.segment(segment).generation;
                let ticket = self.journal.free(segment, generation, ports.now());
                self.journal.hurry();
                self.reclaim.freed(ticket);
            }
            Next::Finish => {
                self.finish_reclaim(ports);
                self.pump_reclaim(ports);
            }
        }
    }

    /// The footer of the victim has come, or has failed to.
    pub(super) fn reclaim_footer_done<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        bytes: Option<&[u8]>,
    ) {
        let disk = self.reclaim.disk();
        let keeps = disk.is_some_and(|disk| self.intake.takes(disk));
        let survivors = self
            .reclaim
            .footer_read(ports, &mut self.segments, keeps, bytes);
        self.seal_survivors(ports, survivors);
    }

    /// A run of survivors has come, or has failed to.
    pub(super) fn reclaim_run_done<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        first: usize,
        bytes: Option<&[u8]>,
    ) {
        if self.reclaim.disk().is_none() {
            return;
        }
        match bytes {
            None => self.failed(ports),
            Some(bytes) => {
                for (number, page) in (first..).zip(bytes.chunks_exact(PAGE_BYTES)) {
                    if let Some(survivor) = self.reclaim.survivor(&self.segments, number) {
                        self.keep(ports, &survivor, page);
                    }
                }
            }
        }
        let survivors = self.reclaim.run_ended();
        self.seal_survivors(ports, survivors);
    }

    fn keep<T: Tag>(&mut self, ports: &mut Ports<T>, survivor: &Survivor, bytes: &[u8]) {
        let Survivor { block, from, to } = *survivor;
        if !self.writer.is_whole(from, bytes) {
            ports.damaged(to.disk, Some(block), self.offset_of(from));
            return;
        }
        let entry = Entry {
            block,
            source: Source::Survivor,
            count: self.origins.write_count(to.disk),
        };
        let (writer, mut streams) = self.writer();
        if let Some(slot) = writer.append(ports, &mut streams, to, entry, bytes) {
            if !self.trust.contains(from) {
                self.origins.tag_is_lost(to.disk);
            }
            self.reclaim.moved(Move {
                block,
                from,
                to: slot,
            });
        }
    }

    /// The last of the survivors are on their way: writes what has gathered of them.
    fn seal_survivors<T: Tag>(&mut self, ports: &mut Ports<T>, key: Option<StreamKey>) {
        if let Some(key) = key {
            let (writer, mut streams) = self.writer();
            writer.seal(ports, &mut streams, key);
        }
    }

    fn finish_reclaim<T: Tag>(&mut self, ports: &mut Ports<T>) {
        let Some(mut reclaimed) = self.reclaim.take() else {
            return;
        };
        let disk = reclaimed.victim().disk();
        for moved in reclaimed.take_moves() {
            // A guest that wrote the block meanwhile has taken it out of the index, or has put a
            // newer copy there: then the survivor is dead and was never trusted.
            if self.segments.point_at(reclaimed.victim(), &moved) {
                let (mut copies, resting) = self.copies();
                resting.trust_survivor(ports, &mut copies, disk, &moved);
            }
        }
        let evicted = reclaimed.evict(&mut self.segments, |block| ports.left(disk, block));
        ports.stats_mut().blocks_evicted += u64::from(evicted);
        ports.stats_mut().segments_reclaimed += 1;
        self.release(reclaimed.victim().segment());
    }

    /// A segment's last content is gone for good.
    pub(super) fn release(&mut self, segment: SegmentIndex) {
        self.trust.release(segment);
        #[cfg(feature = "mutants")]
        self.segments.ignore_readers(!holds(Guard::PinReaders));
        self.segments.release(segment);
    }
}
