//! What is cached of a disk, newest first, as the footers on flash say: nothing is kept of it in memory but for segments
//! that are being filled.

use super::Store;
use crate::payload::Pages;
use crate::ports::{Footer, Payload, Ports, Tag};
use block_io::{Buf, PAGE_BYTES};
use flash_format::{Descriptor, SegmentIndex};
use segment_log::{Phase, StreamKey, StreamKind};
use std::cmp::Reverse;
use units::{BlockIndex, DiskSlot};

/// What is cached of disks, as the footers of segments say.
#[derive(Clone, Copy)]
pub struct Contents<'a>(&'a Store);

impl<'a> From<&'a Store> for Contents<'a> {
    fn from(store: &'a Store) -> Self {
        Self(store)
    }
}

impl<'a> Contents<'a> {
    /// The segments in which clean blocks of a disk lie: those that are being filled, and the full ones, the newest
    /// first. Those of its log are among them, for what of them the origin has.
    pub fn segments_of(self, disk: DiskSlot) -> Vec<SegmentIndex> {
        let all = self.0.segments.table().iter();
        let is_full = |phase| matches!(phase, Phase::Closed | Phase::Dirty);
        let of_disk = all.filter(|(_, segment)| {
            segment.disk == disk && is_full(segment.phase) && segment.live > 0
        });
        let mut found: Vec<_> = of_disk
            .map(|(index, segment)| (Reverse(segment.generation), index))
            .collect();
        found.sort_unstable();
        let open = self.open(disk).map(|(segment, _)| segment);
        open.chain(found.into_iter().map(|(_, index)| index))
            .collect()
    }

    /// The blocks of a disk that are cached in a segment which is being filled. None: the segment is none of these.
    pub fn of_open(self, disk: DiskSlot, segment: SegmentIndex) -> Option<Vec<BlockIndex>> {
        let mut open = self.open(disk);
        let (_, descriptors) = open.find(|(index, _)| *index == segment)?;
        Some(self.live(disk, segment, descriptors.iter()))
    }

    /// The segments of a disk that are being filled.
    fn open(self, disk: DiskSlot) -> impl Iterator<Item = (SegmentIndex, &'a [Descriptor])> {
        let open = StreamKind::ALL
            .into_iter()
            .filter_map(move |kind| self.0.segments.stream(StreamKey { disk, kind }));
        open.map(|open| (open.segment, &open.content.descriptors[..]))
    }

    /// The blocks that lie in a segment still.
    fn live<'d>(
        self,
        disk: DiskSlot,
        segment: SegmentIndex,
        descriptors: impl Iterator<Item = &'d Descriptor>,
    ) -> Vec<BlockIndex> {
        let is_live = |at: &&Descriptor| {
            let slot = self.0.identity.geometry.slot(segment, at.page);
            self.0.segments.index().get(disk, at.block) == Some(slot)
        };
        descriptors.filter(is_live).map(|at| at.block).collect()
    }

    /// Reads the footer of a segment, for [`Contents::of_segment`].
    ///
    /// # Panics
    /// If there is none with this number.
    pub fn read_footer<T: Tag<Payload = Pages>>(
        self,
        ports: &mut Ports<T>,
        segment: SegmentIndex,
        tag: T,
    ) {
        let geometry = &self.0.identity.geometry;
        ports.wake_at(ports.now() + self.0.config.flash_timeout);
        let length = geometry.footer_pages() as usize * PAGE_BYTES;
        ports.read(tag, geometry.footer_offset(segment), length, None);
    }

    /// The blocks of a disk that are cached in a segment, in the order in which they lie there, given its
    /// footer. None if the footer is another use's of the segment, or cannot be read.
    ///
    /// # Panics
    /// If there is no segment with this number.
    pub fn of_segment(
        self,
        disk: DiskSlot,
        segment: SegmentIndex,
        footer: Option<&Buf>,
    ) -> Vec<BlockIndex> {
        let geometry = &self.0.identity.geometry;
        let expected = Footer {
            uuid: self.0.identity.uuid,
            segment,
            generation: self.0.segments.table().get(segment).generation,
            disk,
        };
        let payload = self.0.writer.payload();
        let descriptors = payload.descriptors(geometry, expected, footer);
        self.live(disk, segment, descriptors.iter())
    }
}
