//! Which blocks lie in a segment, clean and dirty, for whoever examines what is on flash.

use super::Store;
use crate::dirty::DirtyDisk;
use crate::effects::Damage;
use crate::payload::Pages;
use crate::ports::{Footer, Payload, Ports, Tag};
use crate::walk::{Walked, next_header};
use block_io::Buf;
use dirty_log::{Found, What};
use flash_format::{Descriptor, PAGE_BYTES, SegmentIndex};
use segment_log::{Phase, StreamKey, StreamKind};
use units::{BlockIndex, Bytes, DiskSlot, FlashSlot};

/// A block that lies in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Whose block.
    pub disk: DiskSlot,
    /// Which block.
    pub block: BlockIndex,
    /// Where it lies.
    pub slot: FlashSlot,
    /// Whether the origin lacks it.
    pub is_dirty: bool,
}

/// One use of a segment: what lies there belongs to one disk until the segment is reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentUse {
    segment: SegmentIndex,
    generation: u64,
}

impl SegmentUse {
    /// Which segment.
    pub fn segment(self) -> SegmentIndex {
        self.segment
    }
}

/// Which blocks lie in the segments of a store.
#[derive(Clone, Copy)]
pub struct Residents<'a>(&'a Store);

impl<'a> From<&'a Store> for Residents<'a> {
    fn from(store: &'a Store) -> Self {
        Self(store)
    }
}

impl Residents<'_> {
    /// The first segment from this number on in which blocks lie that are not about to leave. One that is being closed
    /// is passed over, since its footer is on its way.
    pub fn next_segment(self, from: SegmentIndex) -> Option<SegmentUse> {
        let mut all = self.0.segments.table().iter();
        let (segment, found) = all.find(|(index, segment)| {
            *index >= from
                && match segment.phase {
                    Phase::Open | Phase::Dirty => true,
                    Phase::Closed => segment.live > 0,
                    Phase::Closing | Phase::Free | Phase::Reclaiming | Phase::Draining => false,
                }
        })?;
        Some(SegmentUse {
            segment,
            generation: found.generation,
        })
    }

    /// Whether a segment has the use still that it had.
    pub fn is_current(self, of: SegmentUse) -> bool {
        self.0.segments.table().get(of.segment).generation == of.generation
    }

    /// The blocks on flash in a segment that is being filled, in the order in which they lie there; none if it is not
    /// being filled.
    pub fn of_open(self, of: SegmentUse) -> Option<Vec<Resident>> {
        let disk = self.0.segments.table().get(of.segment).disk;
        let mut streams = StreamKind::ALL.into_iter().filter_map(|kind| {
            let open = self.0.segments.stream(StreamKey { disk, kind })?;
            (open.segment == of.segment).then_some(open)
        });
        let open = streams.next()?;
        Some(self.residents(of, open.content.descriptors.iter()))
    }

    /// How many clean blocks lie in a segment.
    pub fn clean(self, of: SegmentUse) -> usize {
        self.0.segments.table().get(of.segment).live as usize
    }

    /// Reads the footer of a segment, for [`Residents::of_footer`].
    pub fn read_footer<T: Tag<Payload = Pages>>(
        self,
        ports: &mut Ports<T>,
        of: SegmentUse,
        tag: T,
    ) {
        super::Contents::from(self.0).read_footer(ports, of.segment, tag);
    }

    /// The blocks in a segment, in the order in which they lie there, by its footer. None: it has no whole footer. That
    /// is no damage: a segment that was being filled when the host stopped never got one, and has the headers of its
    /// chunks.
    pub fn of_footer(self, of: SegmentUse, footer: &Buf) -> Option<Vec<Resident>> {
        let expected = Footer {
            uuid: self.0.identity.uuid,
            segment: of.segment,
            generation: of.generation,
            disk: self.0.segments.table().get(of.segment).disk,
        };
        let payload = self.0.writer.payload();
        let found = payload.descriptors(&self.0.identity.geometry, expected, Some(footer));
        (!found.is_empty()).then(|| self.residents(of, found.iter()))
    }

    /// Reads a page that may be the header of a chunk, for [`Residents::of_chunk`].
    pub fn read_header<T: Tag<Payload = Pages>>(
        self,
        ports: &mut Ports<T>,
        of: SegmentUse,
        page: u32,
        tag: T,
    ) {
        let begin = self.0.identity.geometry.segment_offset(of.segment);
        let at = begin + Bytes::new(u64::from(page) * PAGE_BYTES as u64);
        ports.wake_at(ports.now() + self.0.config.flash_timeout);
        ports.read(tag, at, PAGE_BYTES, None);
    }

    /// The blocks of the chunk whose header this page is, and the page where the next header would be. None: it is no
    /// header, so that the segment's chunks end here.
    pub fn of_chunk(
        self,
        of: SegmentUse,
        page: u32,
        header: &Buf,
    ) -> Option<(Vec<Resident>, Option<u32>)> {
        let geometry = &self.0.identity.geometry;
        let walked = Walked {
            uuid: self.0.identity.uuid,
            segment: of.segment,
            generation: of.generation,
            disk: self.0.segments.table().get(of.segment).disk,
        };
        let blocks = walked.blocks(geometry, page, header.first_chunk()?)?;
        let next = next_header(geometry, page, blocks.len());
        Some((self.residents(of, blocks.iter()), next))
    }

    /// The dirty blocks in a segment, by the log in memory: looks at all that its disk has.
    pub fn dirty(self, of: SegmentUse) -> Vec<Resident> {
        let disk = self.0.segments.table().get(of.segment).disk;
        let geometry = &self.0.identity.geometry;
        let Some(log) = self.0.logs.by_disk().get(disk).map(DirtyDisk::log) else {
            return Vec::new();
        };
        let in_it = log.newest().filter_map(|(block, number)| {
            let What::Data { slot, .. } = log.record(number).what else {
                return None;
            };
            let is_here = geometry.segment_of(slot) == of.segment;
            is_here.then(|| self.at(disk, block, slot))?
        });
        in_it.collect()
    }

    /// What says which blocks lie in a segment is not whole.
    pub fn list_is_damaged<T: Tag<Payload = Pages>>(self, ports: &mut Ports<T>, of: SegmentUse) {
        ports.damaged(Damage {
            disk: self.0.segments.table().get(of.segment).disk,
            block: None,
            at: self.0.identity.geometry.footer_offset(of.segment),
            is_dirty: false,
        });
    }

    fn residents<'d>(
        self,
        of: SegmentUse,
        descriptors: impl Iterator<Item = &'d Descriptor>,
    ) -> Vec<Resident> {
        let disk = self.0.segments.table().get(of.segment).disk;
        let resident = |at: &Descriptor| {
            let slot = self.0.identity.geometry.slot(of.segment, at.page);
            self.at(disk, at.block, slot)
        };
        let mut found: Vec<Resident> = descriptors.filter_map(resident).collect();
        found.sort_unstable_by_key(|resident| resident.slot);
        found
    }

    /// What is so now of a block that lay in a slot; none if it lies there no more, or is not on flash yet.
    pub fn at(self, disk: DiskSlot, block: BlockIndex, slot: FlashSlot) -> Option<Resident> {
        let is_dirty = self.0.logs.by_disk().find(disk, block) == Found::Dirty(slot);
        let is_clean = self.0.segments.index().get(disk, block) == Some(slot);
        let lies = (is_dirty || is_clean) && self.0.segments.table().is_written(slot);
        lies.then_some(Resident {
            disk,
            block,
            slot,
            is_dirty,
        })
    }
}

/// Gives up what on flash is not what was written there.
pub struct Condemning<'a>(&'a mut Store);

impl<'a> From<&'a mut Store> for Condemning<'a> {
    fn from(store: &'a mut Store) -> Self {
        Self(store)
    }
}

impl Condemning<'_> {
    /// The copy of a block in a slot cannot be read, or is not what was written: says so, and gives the copy up if it is
    /// clean.
    pub fn copy<T: Tag<Payload = Pages>>(
        self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
        slot: FlashSlot,
    ) {
        let store = self.0;
        ports.damaged(Damage {
            disk,
            block: Some(block),
            at: store.identity.geometry.slot_offset(slot),
            is_dirty: store.logs.by_disk().find(disk, block) == Found::Dirty(slot),
        });
        let (journal, segments) = (&mut store.journal, &mut store.segments);
        let trust = &mut store.trust;
        trust.condemn(ports, journal, segments, disk, block, slot);
    }
}
