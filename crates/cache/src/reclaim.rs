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

use crate::flash::Flash;
use crate::guard::{Guard, lacks};
use crate::index::Sweep;
use crate::journal::Ticket;
use crate::limits::{RUN_BLOCKS_MAX, SEGMENTS_FREE_MAX, SEGMENTS_FREE_MIN, SEGMENTS_FREE_SHARE};
use crate::ports::{Ports, Purpose};
use crate::streams::{Source, StreamKey};
use crate::table::{Phase, Segment};
use block_io::Buf;
use flash_format::{Descriptor, FooterPage, JournalEntry, PAGE_BYTES, SegmentIndex, checksum};
use policy::reclaim::{Candidate, ClosedSegment};
use units::{BlockIndex, Bytes, DiskSlot, FlashSlot};

/// A block that reclaim writes again.
struct Move {
    block: BlockIndex,
    from: FlashSlot,
    to: FlashSlot,
}

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
    segment: SegmentIndex,
    disk: DiskSlot,
    step: Step,
    /// What the footer said.
    descriptors: Vec<Descriptor>,
    /// Those of them that are to be kept.
    kept: Vec<Descriptor>,
    moves: Vec<Move>,
}

impl Reclaiming {
    pub(crate) fn disk(&self) -> DiskSlot {
        self.disk
    }

    /// A chunk with survivors could not be written: they are not where they were meant to be.
    pub(crate) fn lost(&mut self, slot: FlashSlot) {
        self.moves.retain(|moved| moved.to != slot);
    }
}

impl Flash {
    fn wants_reclaim(&self) -> bool {
        let share = self.geometry.segment_count() as usize / SEGMENTS_FREE_SHARE;
        self.table.free_count() < share.clamp(SEGMENTS_FREE_MIN, SEGMENTS_FREE_MAX)
    }

    pub(crate) fn pump_reclaim(&mut self, ports: &mut Ports) {
        match &self.reclaiming {
            None if self.wants_reclaim() && !self.stopping => self.start_reclaim(ports),
            None => {}
            Some(reclaiming) => match reclaiming.step {
                Step::Footer | Step::Survivors { .. } => {}
                Step::Written => self.free_when_survivors_are_written(ports),
                Step::Freed(ticket) => {
                    if self.journal.durable() >= ticket || lacks(Guard::FreeBeforeReuse) {
                        self.finish_reclaim(ports);
                        self.pump_reclaim(ports);
                    }
                }
            },
        }
    }

    fn start_reclaim(&mut self, ports: &mut Ports) {
        let Some(segment) = self.choose_victim() else {
            // Every segment is open: the coldest stream gives up its own.
            if let Some(key) = self.streams.coldest()
                && self
                    .table
                    .iter()
                    .all(|(_, segment)| segment.phase != Phase::Closing)
            {
                self.close_stream(ports, key);
            }
            return;
        };
        self.table.set_phase(segment, Phase::Reclaiming);
        let disk = self.table.get(segment).disk;
        self.reclaiming = Some(Reclaiming {
            segment,
            disk,
            step: Step::Footer,
            descriptors: Vec::new(),
            kept: Vec::new(),
            moves: Vec::new(),
        });
        let footer_pages = self.geometry.footer_pages();
        let first = self.geometry.segment_pages() - footer_pages;
        let offset = self.geometry.segment_offset(segment)
            + Bytes::new(u64::from(first) * PAGE_BYTES as u64);
        let length = footer_pages as usize * PAGE_BYTES;
        ports.stats.reclaim_read_bytes += length as u64;
        ports.wake_at(ports.now + self.config.flash_timeout);
        ports.flash_read(Purpose::ReclaimFooter, offset, length);
    }

    /// The footer of the victim has come. Without one (torn, rotten, never written) nothing is
    /// kept, and what the index has in the segment is found by walking the index.
    pub(crate) fn reclaim_footer_done(&mut self, ports: &mut Ports, bytes: Option<&[u8]>) {
        let Some(mut reclaiming) = self.reclaiming.take() else {
            return;
        };
        reclaiming.descriptors = bytes
            .and_then(|bytes| self.read_footer(reclaiming.segment, bytes))
            .unwrap_or_default();
        reclaiming.kept = self.choose_survivors(&reclaiming);
        let runs = runs_of(&reclaiming.kept);
        reclaiming.step = Step::Survivors { runs: runs.len() };
        for (first, count) in &runs {
            let slot = self
                .geometry
                .slot(reclaiming.segment, reclaiming.kept[*first].page);
            let length = count * PAGE_BYTES;
            ports.stats.reclaim_read_bytes += length as u64;
            let purpose = Purpose::ReclaimRun {
                first: *first,
                count: *count,
            };
            ports.flash_read(purpose, self.geometry.slot_offset(slot), length);
        }
        let none = runs.is_empty();
        self.reclaiming = Some(reclaiming);
        if none {
            self.survivors_read(ports);
        }
    }

    fn choose_victim(&mut self) -> Option<SegmentIndex> {
        let table = &self.table;
        let mut closed = table.closed().map(|segment| {
            let &Segment {
                disk: owner,
                live: live_blocks,
                ..
            } = table.get(segment);
            ClosedSegment {
                segment,
                owner,
                live_blocks,
            }
        });
        self.reclaim.victim(&mut closed)
    }

    fn read_footer(&self, segment: SegmentIndex, bytes: &[u8]) -> Option<Vec<Descriptor>> {
        let generation = self.table.get(segment).generation;
        let mut descriptors = Vec::new();
        for (part, page) in (0..)
            .zip(bytes.as_chunks::<PAGE_BYTES>().0)
            .take(self.geometry.footer_pages() as usize)
        {
            let footer =
                FooterPage::decode(page, &self.geometry, self.uuid, segment, generation, part)
                    .ok()?;
            descriptors.extend(footer.blocks);
        }
        Some(descriptors)
    }

    /// What the policy says to keep of the victim's blocks.
    fn choose_survivors(&mut self, reclaiming: &Reclaiming) -> Vec<Descriptor> {
        if self.closed_to.contains(&reclaiming.disk) || self.stopping {
            return Vec::new();
        }
        let segment_blocks = self.geometry.segment_blocks_max();
        let mut kept: Vec<Descriptor> = Vec::new();
        for descriptor in &reclaiming.descriptors {
            let slot = self.geometry.slot(reclaiming.segment, descriptor.page);
            if self.index.get(reclaiming.disk, descriptor.block) != Some(slot) {
                continue;
            }
            let referenced = self
                .index
                .take_referenced(reclaiming.disk, descriptor.block);
            let kept_so_far = u32::try_from(kept.len()).expect("a segment has few blocks");
            if self.reclaim.keep(Candidate {
                referenced,
                kept_so_far,
                segment_blocks,
            }) {
                kept.push(*descriptor);
            }
        }
        kept
    }

    /// A run of survivors has come, or has failed to.
    pub(crate) fn reclaim_run_done(
        &mut self,
        ports: &mut Ports,
        first: usize,
        count: usize,
        buf: Option<&Buf>,
    ) {
        let Some(mut reclaiming) = self.reclaiming.take() else {
            return;
        };
        if let Some(buf) = buf {
            for (descriptor, bytes) in reclaiming.kept[first..first + count]
                .iter()
                .zip(buf.chunks_exact(PAGE_BYTES))
            {
                self.keep(
                    ports,
                    reclaiming.segment,
                    reclaiming.disk,
                    *descriptor,
                    bytes,
                    &mut reclaiming.moves,
                );
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

    fn keep(
        &mut self,
        ports: &mut Ports,
        segment: SegmentIndex,
        disk: DiskSlot,
        descriptor: Descriptor,
        bytes: &[u8],
        moves: &mut Vec<Move>,
    ) {
        let from = self.geometry.slot(segment, descriptor.page);
        // It may have been written meanwhile, or the medium may have lost it.
        if self.index.get(disk, descriptor.block) != Some(from) {
            return;
        }
        if checksum(bytes) != self.checksums[from.index()] {
            ports.stats.checksum_mismatches += 1;
            return;
        }
        if let Some(to) = self.append(ports, disk, descriptor.block, Source::Survivor, bytes) {
            moves.push(Move {
                block: descriptor.block,
                from,
                to,
            });
        }
    }

    fn survivors_read(&mut self, ports: &mut Ports) {
        let Some(reclaiming) = &mut self.reclaiming else {
            return;
        };
        reclaiming.step = Step::Written;
        let key = StreamKey {
            disk: reclaiming.disk,
            survivors: true,
        };
        self.seal_chunk(ports, key);
    }

    fn free_when_survivors_are_written(&mut self, ports: &mut Ports) {
        let Some(reclaiming) = &self.reclaiming else {
            return;
        };
        if !reclaiming
            .moves
            .iter()
            .all(|moved| self.is_written(moved.to))
        {
            return;
        }
        let segment = reclaiming.segment;
        let ticket = self.push_free(ports, segment);
        self.journal.hurry();
        if let Some(reclaiming) = &mut self.reclaiming {
            reclaiming.step = Step::Freed(ticket);
        }
    }

    /// Queues the entry that frees a segment.
    pub(crate) fn push_free(&mut self, ports: &mut Ports, segment: SegmentIndex) -> Ticket {
        let generation = self.table.get(segment).generation;
        self.journal.push(
            JournalEntry::Free {
                segment,
                generation,
            },
            generation,
            ports.now,
        )
    }

    fn finish_reclaim(&mut self, ports: &mut Ports) {
        let Some(reclaiming) = self.reclaiming.take() else {
            return;
        };
        for moved in &reclaiming.moves {
            self.point_at(ports, reclaiming.disk, moved);
        }
        let before = self.table.get(reclaiming.segment).live;
        for descriptor in &reclaiming.descriptors {
            let slot = self.geometry.slot(reclaiming.segment, descriptor.page);
            self.forget_if(reclaiming.disk, descriptor.block, slot);
        }
        if self.table.get(reclaiming.segment).live > 0 {
            self.forget_segment(reclaiming.segment);
        }
        ports.stats.blocks_evicted += u64::from(before);
        ports.stats.segments_reclaimed += 1;
        self.table.release(reclaiming.segment);
    }

    fn point_at(&mut self, ports: &mut Ports, disk: DiskSlot, moved: &Move) {
        // A guest that wrote the block meanwhile has taken it out of the index, or has put a
        // newer copy there: then the survivor is dead and was never trusted.
        if !self.index.relocate(disk, moved.block, moved.from, moved.to) {
            return;
        }
        self.table.of_slot(moved.from).live -= 1;
        self.table.of_slot(moved.to).live += 1;
        ports.stats.blocks_kept += 1;
        if self.table.is_trusted(moved.from) {
            self.trust(ports, moved.to, 1);
        } else {
            // What kept the old copy from being trusted holds for the new one.
            let count = self.write_count(disk);
            self.rest(ports, disk, moved.block, moved.to, count);
        }
    }

    /// Forgets whatever the index has in a segment, by walking all of it: for segments whose
    /// descriptors are lost.
    fn forget_segment(&mut self, segment: SegmentIndex) {
        let geometry = self.geometry;
        self.forget_where(|_, slot| geometry.segment_of(slot) == segment);
    }

    /// Forgets whatever the index has of a disk.
    pub(crate) fn forget_disk(&mut self, disk: DiskSlot) {
        self.forget_where(|of, _| of == disk);
    }

    fn forget_where(&mut self, wanted: impl Fn(DiskSlot, FlashSlot) -> bool) {
        let (table, cached) = (&mut self.table, &mut self.cached_blocks);
        self.index.restart_sweep();
        let done = self.index.sweep(usize::MAX, |entry| {
            if !wanted(entry.disk, entry.slot) {
                return Sweep::Keep;
            }
            table.of_slot(entry.slot).live -= 1;
            cached[entry.disk.index()] -= 1;
            Sweep::Remove
        });
        assert!(done, "a sweep of all buckets ends");
    }
}

/// Runs of neighbouring pages among descriptors in page order: position of the first, count.
fn runs_of(kept: &[Descriptor]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (position, descriptor) in kept.iter().enumerate() {
        let follows = position > 0 && kept[position - 1].page + 1 == descriptor.page;
        match runs.last_mut() {
            Some((_, count)) if follows && (*count as u64) < RUN_BLOCKS_MAX => *count += 1,
            _ => runs.push((position, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

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
