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
//!
//! The part reads what it needs and says what comes next ([`Next`]); whoever drives it appends survivors,
//! queues the entry and points the index at them.

use crate::chunks::Segments;
use crate::config::Config;
use crate::effects::Errand;
use crate::guard::{Guard, holds};
use crate::identity::Identity;
use crate::journal::Ticket;
use crate::limits::RECLAIM_RUN_BLOCKS_MAX;
use crate::ports::{Footer, Payload, Ports, Tag};
use flash_format::{Descriptor, PAGE_BYTES, SegmentIndex};
use segment_log::{Move, StreamKey, Victim};
use units::{BlockIndex, DiskSlot, Duration, FlashSlot};

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

/// A segment that is made free.
pub(crate) struct Reclaimed {
    victim: Victim,
    step: Step,
    /// What the footer said.
    descriptors: Vec<Descriptor>,
    /// Those of them that are to be kept.
    kept: Vec<Descriptor>,
}

impl Reclaimed {
    /// The segment.
    pub(crate) fn victim(&self) -> &Victim {
        &self.victim
    }

    /// The survivors, and where each was and is.
    pub(crate) fn take_moves(&mut self) -> Vec<Move> {
        self.victim.take_moves()
    }

    /// Drops what of it was not kept. `gone` is told the blocks; returns how many.
    pub(crate) fn evict<P: Payload>(
        &self,
        segments: &mut Segments<P>,
        gone: impl FnMut(BlockIndex),
    ) -> u32 {
        let left = self.descriptors.iter().map(|at| (at.block, at.page));
        self.victim.evict(segments, left, gone)
    }
}

/// A block of the victim that is to be kept, and is still there.
pub(crate) struct Survivor {
    pub(crate) block: BlockIndex,
    /// Where it is.
    pub(crate) from: FlashSlot,
    /// The stream that takes it.
    pub(crate) to: StreamKey,
}

/// What is to be done.
pub(crate) enum Next {
    /// Nothing before an operation ends.
    Wait,
    /// A segment may be chosen.
    Begin,
    /// The survivors are on flash: this segment may be freed.
    Free(SegmentIndex),
    /// That it is free is durable: it can be finished.
    Finish,
}

/// The reclaim under way, if there is one.
pub(crate) struct Reclaim {
    identity: Identity,
    flash_timeout: Duration,
    under_way: Option<Reclaimed>,
}

impl Reclaim {
    /// None is under way.
    pub(crate) fn new(identity: Identity, config: &Config) -> Self {
        Self {
            identity,
            flash_timeout: config.flash_timeout,
            under_way: None,
        }
    }

    /// Whether none is under way.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_none()
    }

    /// The disk of which a segment is reclaimed.
    pub(crate) fn disk(&self) -> Option<DiskSlot> {
        self.under_way.as_ref().map(|reclaim| reclaim.victim.disk())
    }

    /// What comes next when the journal is durable up to `durable`.
    #[inline]
    pub(crate) fn next<P: Payload>(&self, segments: &Segments<P>, durable: Ticket) -> Next {
        let Some(reclaim) = &self.under_way else {
            return Next::Begin;
        };
        match reclaim.step {
            Step::Written if reclaim.victim.survivors_written(segments) => {
                Next::Free(reclaim.victim.segment())
            }
            Step::Freed(ticket) if durable >= ticket || !holds(Guard::FreeBeforeReuse) => {
                Next::Finish
            }
            Step::Footer | Step::Survivors { .. } | Step::Written | Step::Freed(_) => Next::Wait,
        }
    }

    /// Begins with this segment: reads its footer.
    pub(crate) fn begin<T: Tag>(&mut self, ports: &mut Ports<T>, victim: Victim) {
        let geometry = &self.identity.geometry;
        let offset = geometry.footer_offset(victim.segment());
        self.under_way = Some(Reclaimed {
            victim,
            step: Step::Footer,
            descriptors: Vec::new(),
            kept: Vec::new(),
        });
        let length = geometry.footer_pages() as usize * PAGE_BYTES;
        ports.stats_mut().reclaim_read_bytes += length as u64;
        ports.wake_at(ports.now() + self.flash_timeout);
        T::Payload::read(ports, Errand::ReclaimFooter, offset, length);
    }

    /// The footer of the victim has come: reads what the policy says to keep, nothing unless `keeps`.
    /// Without a footer (torn, rotten, never written) nothing is kept, and what the index has in the
    /// segment is found by walking the index. Returns the survivors' stream if they are all there already.
    pub(crate) fn footer_read<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        segments: &mut Segments<T::Payload>,
        keeps: bool,
        payload: &T::Payload,
        read: Option<&<T::Payload as Payload>::Read>,
    ) -> Option<StreamKey> {
        let Identity { geometry, uuid, .. } = &self.identity;
        let reclaim = self.under_way.as_mut()?;
        let victim = &mut reclaim.victim;
        let segment = victim.segment();
        let footer = Footer {
            uuid: *uuid,
            segment,
            generation: segments.table().get(segment).generation,
            disk: victim.disk(),
        };
        reclaim.descriptors = payload.descriptors(geometry, footer, read);
        if keeps && victim.keeps_any(segments.table()) {
            let mut keeps = |at: &&Descriptor| victim.keeps(segments, at.block, at.page);
            let descriptors = reclaim.descriptors.iter();
            reclaim.kept = descriptors.filter(|at| keeps(at)).copied().collect();
        }
        let runs = runs_of(&reclaim.kept);
        for (first, count) in &runs {
            let slot = geometry.slot(segment, reclaim.kept[*first].page);
            let length = count * PAGE_BYTES;
            ports.stats_mut().reclaim_read_bytes += length as u64;
            let errand = Errand::ReclaimRun {
                first: *first,
                count: *count,
            };
            T::Payload::read(ports, errand, geometry.slot_offset(slot), length);
        }
        reclaim.step = Step::Survivors { runs: runs.len() };
        self.end_of_survivors()
    }

    /// The descriptor with this number of those to be kept, if its block is still there: it may have been
    /// written meanwhile, or the medium may have lost it.
    pub(crate) fn survivor<P: Payload>(
        &self,
        segments: &Segments<P>,
        number: usize,
    ) -> Option<Survivor> {
        let Reclaimed { victim, kept, .. } = self.under_way.as_ref()?;
        let Descriptor { block, page, .. } = kept[number];
        Some(Survivor {
            block,
            from: victim.still_in(segments, block, page)?,
            to: victim.survivors(),
        })
    }

    /// A survivor is on its way to a new place.
    pub(crate) fn moved(&mut self, moved: Move) {
        if let Some(reclaim) = &mut self.under_way {
            reclaim.victim.moved(moved);
        }
    }

    /// A chunk with survivors could not be written: they are not where they were meant to be.
    pub(crate) fn lost(&mut self, slot: FlashSlot) {
        if let Some(reclaim) = &mut self.under_way {
            reclaim.victim.lost(slot);
        }
    }

    /// A run of survivors has come, or has failed to. Returns their stream if it was the last one.
    ///
    /// # Panics
    /// If none was being read.
    pub(crate) fn run_ended(&mut self) -> Option<StreamKey> {
        let reclaim = self.under_way.as_mut()?;
        let Step::Survivors { runs } = &mut reclaim.step else {
            panic!("survivors were being read")
        };
        *runs -= 1;
        self.end_of_survivors()
    }

    fn end_of_survivors(&mut self) -> Option<StreamKey> {
        let reclaim = self.under_way.as_mut()?;
        if !matches!(reclaim.step, Step::Survivors { runs: 0 }) {
            return None;
        }
        reclaim.step = Step::Written;
        Some(reclaim.victim.survivors())
    }

    /// The entry that frees the segment is queued.
    pub(crate) fn freed(&mut self, ticket: Ticket) {
        if let Some(reclaim) = &mut self.under_way {
            reclaim.step = Step::Freed(ticket);
        }
    }

    /// Takes out the reclaim under way, which ends.
    pub(crate) fn take(&mut self) -> Option<Reclaimed> {
        self.under_way.take()
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
