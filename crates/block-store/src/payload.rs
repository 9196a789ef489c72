//! What is kept of a block: its 4 KiB with a checksum, or nothing.
//!
//! A [`Store`](crate::Store) decides where blocks lie, what may be trusted, what is written when and what is
//! reclaimed. None of that depends on bytes, so what a block is is a parameter of the store. [`Pages`] has
//! the bytes and a flash; the daemon runs it. [`Nothing`] has neither; the simulator runs it. What is
//! written and read there has ended when the call returns that asked for it: no effect is made, no buffer is
//! taken. See [`simulated`](crate::simulated).

use crate::effects::{Effect, Errand};
use crate::encryption::Ciphers;
use crate::ports::{Ended, Flash, Footer, Payload, Ports, Tag};
use crate::retained::RetainedUpdate;
use block_io::{Buf, FlashVerb, Slice};
use flash_format::{
    DESCRIPTORS_PER_PAGE, Descriptor, FooterPage, Geometry, PAGE_BYTES, PageBytes, RECORD_BYTES,
    SegmentIndex, checksum, read_footer,
};
use segment_log::{Dense, Placed, Source};
use std::iter::repeat_n;
use std::ops::Range;
use units::{BlockIndex, DiskSlot, FlashSlot, Offset};

/// Blocks of 4 KiB, encrypted for disks that have a key, with a checksum each.
pub struct Pages {
    /// crc32c of the block in each slot.
    checksums: Vec<u32>,
    ciphers: Ciphers,
}

impl Pages {
    /// The blocks on flash have these checksums.
    pub(crate) fn new(checksums: Vec<u32>) -> Self {
        Self {
            checksums,
            ciphers: Ciphers::default(),
        }
    }

    /// By which ciphers blocks are encrypted.
    #[inline]
    pub(crate) fn ciphers(&self) -> &Ciphers {
        &self.ciphers
    }

    /// The same, to change it.
    pub(crate) fn ciphers_mut(&mut self) -> &mut Ciphers {
        &mut self.ciphers
    }
}

impl Payload for Pages {
    type Index = crate::index::Index;
    type Block = [u8];
    type Open = Buf;
    type Sealed = Slice;
    type Read = Buf;
    type Page = Slice;
    type Device<T: Tag> = Flash<T>;

    fn open<T: Tag<Payload = Self>>(ports: &Ports<T>, pages: u32) -> Buf {
        ports.pool().take(pages as usize * PAGE_BYTES)
    }

    fn put(
        &mut self,
        open: &mut Buf,
        placed: &Placed,
        source: Source,
        name: (DiskSlot, BlockIndex),
        block: &[u8],
    ) -> u32 {
        assert_eq!(block.len(), PAGE_BYTES, "blocks are appended whole");
        let at = placed.page_in_chunk as usize * PAGE_BYTES;
        let page = &mut open[at..at + PAGE_BYTES];
        page.copy_from_slice(block);
        // A survivor comes as it lies on flash.
        let is_survivor = source == Source::Survivor;
        let (disk, number) = name;
        if let (Some(cipher), false) = (self.ciphers.get(disk), is_survivor) {
            cipher.encrypt(number, page);
        }
        let crc = checksum(page);
        self.checksums[placed.slot.index()] = crc;
        crc
    }

    fn as_put<T: Tag<Payload = Self>>(
        &self,
        ports: &Ports<T>,
        open: &Buf,
        placed: &Placed,
        disk: DiskSlot,
        page: &Slice,
    ) -> Slice {
        if self.ciphers.get(disk).is_some() {
            let at = placed.page_in_chunk as usize * PAGE_BYTES;
            ports.pool().copy_of(&open[at..at + PAGE_BYTES])
        } else {
            page.clone()
        }
    }

    fn retain<T: Tag<Payload = Self>>(
        ports: &mut Ports<T>,
        place: u32,
        record: [u8; RECORD_BYTES],
        page: Option<(u32, Slice)>,
    ) {
        ports.retain(RetainedUpdate::Push {
            place,
            record,
            page,
        });
    }

    fn seal(mut open: Buf, blocks: usize, encode: impl FnOnce() -> PageBytes) -> Slice {
        open[..PAGE_BYTES].copy_from_slice(&encode());
        open.freeze().slice(0..(1 + blocks) * PAGE_BYTES)
    }

    #[inline]
    fn is_whole(&self, slot: FlashSlot, block: &[u8]) -> bool {
        checksum(block) == self.checksums[slot.index()]
    }

    fn blocks(read: &Buf, count: usize) -> impl Iterator<Item = &[u8]> {
        read[..count * PAGE_BYTES].chunks_exact(PAGE_BYTES)
    }

    fn write<T: Tag<Payload = Self>>(
        ports: &mut Ports<T>,
        errand: Errand,
        offset: Offset,
        chunk: Slice,
        durable: bool,
    ) {
        ports.flash_write(errand, offset, chunk, durable);
    }

    fn write_table<T: Tag<Payload = Self>>(
        ports: &mut Ports<T>,
        errand: Errand,
        offset: Offset,
        length: usize,
        durable: bool,
        encode: impl FnOnce(&mut [u8]),
    ) {
        let mut buf = ports.pool().take(length);
        encode(&mut buf[..length]);
        ports.flash_write(errand, offset, buf.freeze().slice(0..length), durable);
    }

    fn write_footer<T: Tag<Payload = Self>>(
        &mut self,
        ports: &mut Ports<T>,
        geometry: &Geometry,
        footer: Footer,
        descriptors: &[Descriptor],
    ) {
        let Footer {
            uuid,
            segment,
            generation,
            disk,
        } = footer;
        let total = u32::try_from(descriptors.len()).expect("a segment has fewer blocks");
        let pages = geometry.footer_pages();
        let offset = geometry.slot_offset(geometry.slot(segment, geometry.segment_pages() - pages));
        let length = pages as usize * PAGE_BYTES;
        let errand = Errand::Footer(segment);
        Self::write_table(ports, errand, offset, length, false, |buf| {
            for (part, to) in (0..).zip(buf.chunks_exact_mut(PAGE_BYTES)) {
                let blocks = descriptors
                    .iter()
                    .skip(part as usize * DESCRIPTORS_PER_PAGE);
                let page = FooterPage {
                    segment,
                    generation,
                    disk,
                    part,
                    total,
                    blocks: blocks.take(DESCRIPTORS_PER_PAGE).copied().collect(),
                };
                to.copy_from_slice(&page.encode(uuid));
            }
        });
    }

    fn descriptors(
        &self,
        geometry: &Geometry,
        footer: Footer,
        read: Option<&Buf>,
    ) -> Vec<Descriptor> {
        let Some(read) = read else {
            return Vec::new();
        };
        let Footer {
            uuid,
            segment,
            generation,
            disk,
        } = footer;
        let mut found = Vec::new();
        let read = read_footer(read, geometry, uuid, segment, generation, disk, &mut found);
        read.map(|()| found).unwrap_or_default()
    }

    fn read<T: Tag<Payload = Self>>(
        ports: &mut Ports<T>,
        errand: Errand,
        offset: Offset,
        length: usize,
    ) {
        ports.flash_read(errand, offset, length);
    }

    fn flush<T: Tag<Payload = Self>>(ports: &mut Ports<T>, errand: Errand) {
        ports.flash(errand, FlashVerb::Flush);
    }

    fn check(index: &Self::Index, disk_of: impl Fn(FlashSlot) -> DiskSlot) {
        index.self_check();
        for entry in index.iter() {
            let disk = disk_of(entry.slot);
            assert_eq!(disk, entry.disk, "a block lies in a segment of its disk");
        }
    }

    fn bytes(&self) -> usize {
        self.checksums.capacity() * size_of::<u32>()
    }
}

/// Of a caller that reads nothing and has no effects of its own.
impl Tag for () {
    type Effect = Effect;
    type Payload = Pages;
}

/// No block lies in this slot.
const NOBODY: u32 = u32::MAX;

/// Blocks of which only the names are kept: numbers from zero over all disks, in 32 bits.
pub struct Nothing {
    /// By slot: what the footer of its segment says.
    names: Vec<u32>,
}

impl Nothing {
    /// Nothing is on a flash that is laid out like this.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let slots = usize::try_from(geometry.slots()).expect("slots are 32-bit numbers");
        Self {
            names: vec![NOBODY; slots],
        }
    }

    fn slots_of(geometry: &Geometry, segment: SegmentIndex) -> Range<usize> {
        let pages = geometry.segment_pages() as usize;
        segment.index() * pages..(segment.index() + 1) * pages
    }
}

impl Payload for Nothing {
    type Index = Dense;
    type Block = ();
    type Open = ();
    type Sealed = ();
    type Read = ();
    type Page = &'static ();
    type Device<T: Tag> = Ended;

    fn open<T: Tag<Payload = Self>>(_ports: &Ports<T>, _pages: u32) {}

    #[inline]
    fn put(
        &mut self,
        (): &mut (),
        _: &Placed,
        _: Source,
        _: (DiskSlot, BlockIndex),
        (): &(),
    ) -> u32 {
        0
    }

    fn as_put<T: Tag<Payload = Self>>(
        &self,
        _ports: &Ports<T>,
        (): &(),
        _placed: &Placed,
        _disk: DiskSlot,
        page: &&'static (),
    ) -> &'static () {
        page
    }

    fn retain<T: Tag<Payload = Self>>(
        _ports: &mut Ports<T>,
        _place: u32,
        _record: [u8; RECORD_BYTES],
        _page: Option<(u32, &'static ())>,
    ) {
    }

    fn seal((): (), _blocks: usize, _encode: impl FnOnce() -> PageBytes) {}

    fn is_whole(&self, _slot: FlashSlot, (): &()) -> bool {
        true
    }

    fn blocks((): &(), count: usize) -> impl Iterator<Item = &()> {
        repeat_n(&(), count)
    }

    fn write<T: Tag<Payload = Self>>(
        ports: &mut Ports<T>,
        errand: Errand,
        _offset: Offset,
        (): (),
        _durable: bool,
    ) {
        ports.end(errand);
    }

    fn write_table<T: Tag<Payload = Self>>(
        ports: &mut Ports<T>,
        errand: Errand,
        _offset: Offset,
        _length: usize,
        _durable: bool,
        _encode: impl FnOnce(&mut [u8]),
    ) {
        ports.end(errand);
    }

    fn write_footer<T: Tag<Payload = Self>>(
        &mut self,
        ports: &mut Ports<T>,
        geometry: &Geometry,
        footer: Footer,
        descriptors: &[Descriptor],
    ) {
        let names = &mut self.names[Self::slots_of(geometry, footer.segment)];
        names.fill(NOBODY);
        for at in descriptors {
            let name = u32::try_from(at.block.get()).expect("names have 32 bits");
            names[at.page as usize] = name;
        }
        ports.end(Errand::Footer(footer.segment));
    }

    fn descriptors(
        &self,
        geometry: &Geometry,
        footer: Footer,
        _read: Option<&()>,
    ) -> Vec<Descriptor> {
        let names = &self.names[Self::slots_of(geometry, footer.segment)];
        let pages = (0..).zip(names).filter(|(_, name)| **name != NOBODY);
        let descriptor = |(page, name): (u32, &u32)| Descriptor {
            block: BlockIndex::new((*name).into()),
            checksum: 0,
            page,
        };
        let mut descriptors = Vec::with_capacity(names.len());
        descriptors.extend(pages.map(descriptor));
        descriptors
    }

    fn read<T: Tag<Payload = Self>>(
        ports: &mut Ports<T>,
        errand: Errand,
        _offset: Offset,
        _length: usize,
    ) {
        ports.end(errand);
    }

    fn flush<T: Tag<Payload = Self>>(ports: &mut Ports<T>, errand: Errand) {
        ports.end(errand);
    }

    /// An array says of a block neither its disk nor its segment.
    fn check(_index: &Dense, _disk_of: impl Fn(FlashSlot) -> DiskSlot) {}

    fn bytes(&self) -> usize {
        self.names.capacity() * size_of::<u32>()
    }
}
