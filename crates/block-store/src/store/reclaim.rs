//! What is done to reclaim segments, beside what [`Reclaim`] does itself.

use crate::chunks::{Entry, Segments};
use crate::copies::Copies;
use crate::durability::Origins;
use crate::effects::Damage;
#[cfg(feature = "mutants")]
use crate::guard::{Guard, holds};
use crate::ports::{Payload, Ports, Tag};
use crate::reclaim::{Next, Reclaim, Survivor};
use crate::rest::Resting;
use crate::trust::Trust;
use crate::writer::{Streams, Writer};
use flash_format::SegmentIndex;
use segment_log::{Begin, Move, Source, StreamKey};

/// A view of a store for reclaim.
pub(super) struct Reclaiming<'a, P: Payload> {
    reclaim: &'a mut Reclaim,
    writer: &'a mut Writer<P>,
    streams: Streams<'a, P>,
    trust: &'a mut Trust,
    origins: &'a mut Origins,
    resting: &'a mut Resting,
}

impl<P: Payload> super::Store<P> {
    /// Its reclaim, and what that needs.
    #[inline]
    pub(super) fn reclaiming(&mut self) -> Reclaiming<'_, P> {
        let (segments, journal) = (&mut self.segments, &mut self.journal);
        let (logs, disks) = (&mut self.logs, &mut self.disks);
        Reclaiming {
            reclaim: &mut self.reclaim,
            writer: &mut self.writer,
            streams: Streams::of(&self.intake, logs, segments, journal, disks),
            trust: &mut self.trust,
            origins: &mut self.origins,
            resting: &mut self.resting,
        }
    }
}

impl<P: Payload> Reclaiming<'_, P> {
    /// Starts what can be started of a reclaim.
    #[inline]
    pub(super) fn pump<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>) {
        match self.reclaim.next(
            self.streams.tables.segments,
            self.streams.tables.journal.durable(),
        ) {
            Next::Wait => {}
            Next::Begin if self.streams.intake.is_stopped() => {}
            Next::Begin => match self.streams.tables.segments.begin_reclaim() {
                Begin::Enough | Begin::Wait => {}
                Begin::Close(key) => {
                    self.writer.close(ports, &mut self.streams, key);
                }
                Begin::Reclaim(victim) => self.reclaim.begin(ports, victim),
            },
            Next::Free(segment) => {
                let generation = self.streams.tables.segments.table().get(segment).generation;
                let ticket = self
                    .streams
                    .tables
                    .journal
                    .free(segment, generation, ports.now());
                self.streams.tables.journal.hurry();
                self.reclaim.freed(ticket);
            }
            Next::Finish => {
                self.finish(ports);
                self.pump(ports);
            }
        }
    }

    /// The footer of the victim has come, or has failed to.
    pub(super) fn footer_done<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        read: Option<&P::Read>,
    ) {
        let disk = self.reclaim.disk();
        let keeps = disk.is_some_and(|disk| self.streams.intake.takes(disk));
        let segments = &mut *self.streams.tables.segments;
        let payload = self.writer.payload();
        let survivors = self
            .reclaim
            .footer_read(ports, segments, keeps, payload, read);
        self.seal_survivors(ports, survivors);
    }

    /// A run of survivors has come, or has failed to.
    pub(super) fn run_done<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        first: usize,
        count: usize,
        read: Option<&P::Read>,
    ) {
        if self.reclaim.disk().is_none() {
            return;
        }
        let blocks = read.into_iter().flat_map(|read| P::blocks(read, count));
        for (number, block) in (first..).zip(blocks) {
            let survivor = self.reclaim.survivor(self.streams.tables.segments, number);
            if let Some(survivor) = survivor {
                self.keep(ports, &survivor, block);
            }
        }
        let survivors = self.reclaim.run_ended();
        self.seal_survivors(ports, survivors);
    }

    fn keep<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        survivor: &Survivor,
        bytes: &P::Block,
    ) {
        let Survivor { block, from, to } = *survivor;
        if !self.writer.payload().is_whole(from, bytes) {
            let geometry = self.streams.tables.segments.table().geometry();
            let at = geometry.slot_offset(from);
            ports.damaged(Damage {
                disk: to.disk,
                block: Some(block),
                at,
                is_dirty: false,
            });
            return;
        }
        let entry = Entry {
            block,
            source: Source::Survivor,
            count: self.origins.write_count(to.disk),
        };
        let slot = self
            .writer
            .append(ports, &mut self.streams, to, entry, bytes);
        if let Some(slot) = slot {
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
    fn seal_survivors<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        key: Option<StreamKey>,
    ) {
        if let Some(key) = key {
            self.writer.seal(ports, &mut self.streams, key);
        }
    }

    fn finish<T: Tag<Payload = P>>(&mut self, ports: &mut Ports<T>) {
        let Some(mut reclaimed) = self.reclaim.take() else {
            return;
        };
        let disk = reclaimed.victim().disk();
        for moved in reclaimed.take_moves() {
            // A guest that wrote the block meanwhile has taken it out of the index, or has put a
            // newer copy there: then the survivor is dead and was never trusted.
            let segments = &mut *self.streams.tables.segments;
            if reclaimed.victim().point_at(segments, &moved) {
                let mut copies = Copies {
                    segments: &mut *self.streams.tables.segments,
                    trust: &mut *self.trust,
                    journal: &mut *self.streams.tables.journal,
                    origins: &mut *self.origins,
                };
                self.resting
                    .trust_survivor(ports, &mut copies, disk, &moved);
            }
        }
        let evicted = reclaimed.evict(self.streams.tables.segments, |block| {
            ports.left(disk, block);
        });
        ports.stats_mut().blocks_evicted += u64::from(evicted);
        ports.stats_mut().segments_reclaimed += 1;
        let segment = reclaimed.victim().segment();
        release(self.trust, self.streams.tables.segments, segment);
    }
}

/// A segment's last content is gone for good.
pub(super) fn release<P: Payload>(
    trust: &mut Trust,
    segments: &mut Segments<P>,
    segment: SegmentIndex,
) {
    trust.release(segment);
    #[cfg(feature = "mutants")]
    segments.ignore_readers(!holds(Guard::PinReaders));
    segments.table_mut().release(segment);
}
