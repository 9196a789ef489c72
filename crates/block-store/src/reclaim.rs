//! Reclaim: making closed segments free again.
//!
//! ```text
//!  victim ──► read footer ──► read survivors ──► append them to the survivors' stream
//!                                                   │ their chunks are on flash
//!  free  ◄── point the index at the survivors' ◄── entry Free durable
//!            new slots, drop the rest; trust them
//! ```
//!
//! Until the entry that frees the segment is durable the index points into it, so that a guest
//! that writes one of its blocks distrusts the copy that a recovery would find. Survivors are
//! trusted only afterwards: a crash in between costs their warmth, never their truth.

use crate::chunks::Entry;
use crate::guard::{Guard, holds};
use crate::journal::Ticket;
use crate::limits::RECLAIM_RUN_BLOCKS_MAX;
use crate::ports::{Errand, Ports, Tag};
use crate::store::Store;
use block_io::Buf;
use flash_format::{Descriptor, JournalEntry, PAGE_BYTES, SegmentIndex, read_footer};
use segment_log::{Begin, Move, Source, Victim};
use units::{Bytes, DiskSlot, FlashSlot};

enum Step {
    /// The footer is on its way from flash.
    Footer,
    /// Survivors are on their way from flash.
    Survivors { runs: usize },
    /// The survivors' chunks are on their way to flash.
    Written,
    /// The entry that frees the segment is on its way to flash.
    Freed(Ticket),
}

/// The reclaim under way.
pub(crate) struct Reclaiming {
    victim: Victim,
    step: Step,
    /// What the footer said.
    descriptors: Vec<Descriptor>,
    /// Those of them that are to be kept.
    kept: Vec<Descriptor>,
}

impl Reclaiming {
    pub(crate) fn disk(&self) -> DiskSlot {
        self.victim.disk()
    }

    /// A chunk with survivors could not be written: they are not where they were meant to be.
    pub(crate) fn lost(&mut self, slot: FlashSlot) {
        self.victim.lost(slot);
    }
}

impl Store {
    pub(crate) fn pump_reclaim<T: Tag>(&mut self, ports: &mut Ports<T>) {
        match &self.reclaiming {
            None if !self.intake.is_stopped() => match self.log.begin_reclaim() {
                Begin::Enough | Begin::Wait => {}
                Begin::Close(key) => {
                    let (writer, mut streams) = self.writer();
                    writer.close(ports, &mut streams, key);
                }
                Begin::Reclaim(victim) => self.start_reclaim(ports, victim),
            },
            None => {}
            Some(reclaiming) => match reclaiming.step {
                Step::Footer | Step::Survivors { .. } => {}
                Step::Written => self.free_when_survivors_are_written(ports),
                Step::Freed(ticket) => {
                    if self.journal.durable() >= ticket || !holds(Guard::FreeBeforeReuse) {
                        self.finish_reclaim(ports);
                        self.pump_reclaim(ports);
                    }
                }
            },
        }
    }

    fn start_reclaim<T: Tag>(&mut self, ports: &mut Ports<T>, victim: Victim) {
        let footer_pages = self.identity.geometry.footer_pages();
        let first = self.identity.geometry.segment_pages() - footer_pages;
        let offset = self.identity.geometry.segment_offset(victim.segment())
            + Bytes::new(u64::from(first) * PAGE_BYTES as u64);
        self.reclaiming = Some(Reclaiming {
            victim,
            step: Step::Footer,
            descriptors: Vec::new(),
            kept: Vec::new(),
        });
        let length = footer_pages as usize * PAGE_BYTES;
        ports.stats.reclaim_read_bytes += length as u64;
        ports.wake_at(ports.now + self.config.flash_timeout);
        ports.flash_read(Errand::ReclaimFooter, offset, length);
    }

    /// The footer of the victim has come. Without one (torn, rotten, never written) nothing is
    /// kept, and what the index has in the segment is found by walking the index.
    pub(crate) fn reclaim_footer_done<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        bytes: Option<&[u8]>,
    ) {
        let Some(mut reclaiming) = self.reclaiming.take() else {
            return;
        };
        reclaiming.descriptors = bytes
            .and_then(|bytes| self.read_footer(&reclaiming.victim, bytes))
            .unwrap_or_default();
        reclaiming.kept = self.choose_survivors(&mut reclaiming);
        let runs = runs_of(&reclaiming.kept);
        reclaiming.step = Step::Survivors { runs: runs.len() };
        for (first, count) in &runs {
            let (segment, page) = (reclaiming.victim.segment(), reclaiming.kept[*first].page);
            let slot = self.identity.geometry.slot(segment, page);
            let length = count * PAGE_BYTES;
            ports.stats.reclaim_read_bytes += length as u64;
            let purpose = Errand::ReclaimRun {
                first: *first,
                count: *count,
            };
            ports.flash_read(purpose, self.identity.geometry.slot_offset(slot), length);
        }
        let none = runs.is_empty();
        self.reclaiming = Some(reclaiming);
        if none {
            self.survivors_read(ports);
        }
    }

    fn read_footer(&self, victim: &Victim, bytes: &[u8]) -> Option<Vec<Descriptor>> {
        let segment = victim.segment();
        let generation = self.log.segment(segment).generation;
        let mut descriptors = Vec::new();
        read_footer(
            bytes,
            &self.identity.geometry,
            self.identity.uuid,
            segment,
            generation,
            victim.disk(),
            &mut descriptors,
        )
        .ok()?;
        Some(descriptors)
    }

    /// What the policy says to keep of the victim's blocks.
    fn choose_survivors(&mut self, reclaiming: &mut Reclaiming) -> Vec<Descriptor> {
        if !self.intake.takes(reclaiming.disk()) {
            return Vec::new();
        }
        let Reclaiming {
            descriptors,
            victim,
            ..
        } = reclaiming;
        let mut keeps = |at: &&Descriptor| self.log.keeps(victim, at.block, at.page);
        descriptors.iter().filter(|at| keeps(at)).copied().collect()
    }

    /// A run of survivors has come, or has failed to.
    pub(crate) fn reclaim_run_done<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        first: usize,
        count: usize,
        buf: Option<&Buf>,
    ) {
        let Some(mut reclaiming) = self.reclaiming.take() else {
            return;
        };
        if let Some(buf) = buf {
            let Reclaiming { victim, kept, .. } = &mut reclaiming;
            for (descriptor, bytes) in kept[first..first + count]
                .iter()
                .zip(buf.chunks_exact(PAGE_BYTES))
            {
                self.keep(ports, victim, *descriptor, bytes);
            }
        } else {
            self.failed(ports);
        }
        let Step::Survivors { runs } = &mut reclaiming.step else {
            panic!("survivors were being read")
        };
        *runs -= 1;
        let last = *runs == 0;
        self.reclaiming = Some(reclaiming);
        if last {
            self.survivors_read(ports);
        }
    }

    fn keep<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        victim: &mut Victim,
        descriptor: Descriptor,
        bytes: &[u8],
    ) {
        let block = descriptor.block;
        // It may have been written meanwhile, or the medium may have lost it.
        let Some(from) = self.log.still_in(victim, block, descriptor.page) else {
            return;
        };
        if !self.writer.is_whole(from, bytes) {
            ports.damaged(
                victim.disk(),
                Some(block),
                self.identity.geometry.slot_offset(from),
            );
            return;
        }
        let survivors = victim.survivors();
        let entry = Entry {
            block,
            source: Source::Survivor,
            count: self.origins.write_count(survivors.disk),
        };
        let (writer, mut streams) = self.writer();
        if let Some(to) = writer.append(ports, &mut streams, survivors, entry, bytes) {
            if !self.trust.contains(from) {
                self.origins.tag_is_lost(survivors.disk);
            }
            victim.moved(Move { block, from, to });
        }
    }

    fn survivors_read<T: Tag>(&mut self, ports: &mut Ports<T>) {
        let Some(reclaiming) = &mut self.reclaiming else {
            return;
        };
        reclaiming.step = Step::Written;
        let key = reclaiming.victim.survivors();
        let (writer, mut streams) = self.writer();
        writer.seal(ports, &mut streams, key);
    }

    fn free_when_survivors_are_written<T: Tag>(&mut self, ports: &mut Ports<T>) {
        let Some(reclaiming) = &self.reclaiming else {
            return;
        };
        if !self.log.survivors_written(&reclaiming.victim) {
            return;
        }
        let segment = reclaiming.victim.segment();
        let ticket = self.push_free(ports, segment);
        self.journal.hurry();
        if let Some(reclaiming) = &mut self.reclaiming {
            reclaiming.step = Step::Freed(ticket);
        }
    }

    /// Queues the entry that frees a segment.
    pub(crate) fn push_free<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        segment: SegmentIndex,
    ) -> Ticket {
        let generation = self.log.segment(segment).generation;
        self.journal.push(
            JournalEntry::Free {
                segment,
                generation,
            },
            generation,
            ports.now,
        )
    }

    fn finish_reclaim<T: Tag>(&mut self, ports: &mut Ports<T>) {
        let Some(mut reclaiming) = self.reclaiming.take() else {
            return;
        };
        for moved in reclaiming.victim.take_moves() {
            self.point_at(ports, &reclaiming.victim, &moved);
        }
        let left = reclaiming.descriptors.iter().map(|at| (at.block, at.page));
        let disk = reclaiming.disk();
        let gone = |block| ports.left(disk, block);
        let evicted = self.log.evict(&reclaiming.victim, left, gone);
        ports.stats.blocks_evicted += u64::from(evicted);
        ports.stats.segments_reclaimed += 1;
        self.release(reclaiming.victim.segment());
    }

    fn point_at<T: Tag>(&mut self, ports: &mut Ports<T>, victim: &Victim, moved: &Move) {
        // A guest that wrote the block meanwhile has taken it out of the index, or has put a
        // newer copy there: then the survivor is dead and was never trusted.
        if !self.log.point_at(victim, moved) {
            return;
        }
        ports.stats.blocks_kept += 1;
        let (mut copies, resting) = self.copies();
        if copies.trust.contains(moved.from) {
            copies.trust(ports, moved.to, 1);
        } else {
            // What kept the old copy from being trusted holds for the new one.
            let disk = victim.disk();
            let count = copies.origins.write_count(disk);
            resting.rest(ports, &mut copies, disk, moved.block, moved.to, count);
        }
    }
}

/// Runs of neighbouring pages among descriptors in page order: position of the first, count.
fn runs_of(kept: &[Descriptor]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (position, descriptor) in kept.iter().enumerate() {
        let follows = position > 0 && kept[position - 1].page + 1 == descriptor.page;
        match runs.last_mut() {
            Some((_, count)) if follows && *count < RECLAIM_RUN_BLOCKS_MAX => *count += 1,
            _ => runs.push((position, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::BlockIndex;

    #[test]
    fn neighbouring_pages_are_read_together() {
        let pages = [1, 2, 3, 7, 9, 10].map(|page| Descriptor {
            block: BlockIndex::new(0),
            checksum: 0,
            page,
        });
        assert_eq!(runs_of(&pages), [(0, 3), (3, 1), (4, 2)]);
        assert_eq!(runs_of(&[]), []);
    }
}
