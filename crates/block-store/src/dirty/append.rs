//! Accepting records: into the open chunk of a disk's dirty stream, and chunks to flash.

use super::LogSegment;
use super::durable::OpenChunk;
use super::lasting;
use crate::chunks::{Chunk, Entry, Gathered, OfLog};
use crate::journal::Ticket;
use crate::ports::{Errand, Ports, Tag};
use crate::store::Store;
use block_io::Slice;
use dirty_log::{Record, What};
use flash_format::{
    Descriptor, DirtyChunkHeader, DirtyRecord, Erasure, PAGE_BYTES, Position, SegmentIndex,
    checksum,
};
use segment_log::{After, Source, StreamKey};
use units::{BlockIndex, Bytes, DiskSlot};

/// Why a record cannot be accepted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// Too much waits to be written to flash, or too many chunks do: until one has been.
    Buffer,
    /// No segment is free: until something is reclaimed or has reached the origin.
    Segment,
}

impl Store {
    /// Accepts a block that a guest wrote.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing has happened then.
    ///
    /// # Panics
    /// If the disk has no log.
    pub fn log_block<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
        bytes: &Slice,
    ) -> Result<(), NoRoom> {
        assert_eq!(bytes.len(), PAGE_BYTES, "blocks are appended whole");
        if self.buffered_bytes + PAGE_BYTES > self.config.write_buffer.to_usize() {
            return Err(NoRoom::Buffer);
        }
        let key = self.prepare_log(ports, disk)?;
        let placed = self.log.place(key, Source::Dirty, ports.now);
        self.buffered_bytes += PAGE_BYTES;
        ports.stats.blocks_appended += 1;
        let count = self.origins.write_count(disk);
        let content = self.log.content_mut(key).expect("the stream is open");
        let chunk = content.chunk.as_mut().expect("the chunk is open");
        chunk.entries.push(Entry {
            block,
            source: Source::Dirty,
            count,
        });
        let at = placed.page_in_chunk as usize * PAGE_BYTES;
        let page = &mut chunk.buf[at..at + PAGE_BYTES];
        page.copy_from_slice(bytes);
        let mut lies = bytes.clone();
        if let Some(cipher) = self.ciphers.get(disk) {
            cipher.encrypt(block, page);
            lies = ports.pool.copy_of(page);
        }
        let descriptor = Descriptor {
            block,
            checksum: checksum(page),
            page: placed.page,
        };
        self.checksums[placed.slot.index()] = descriptor.checksum;
        content.descriptors.push(descriptor);
        let dirty_record = DirtyRecord::Data(descriptor);
        chunk.records.push(dirty_record);
        let page = Some((placed.page_in_chunk - 1, lies));
        self.tell_lasting(ports, disk, &dirty_record, page);
        let generation = self.log.segment_of(placed.slot).generation;
        let record = Record {
            at: Position::of_page(generation, placed.page),
            what: What::Data {
                block,
                slot: placed.slot,
            },
        };
        self.accepted(ports, disk, record);
        self.after_record(ports, key, placed.after);
        Ok(())
    }

    /// Accepts an erasure.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing has happened then.
    ///
    /// # Panics
    /// If the disk has no log.
    pub fn log_erasure<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        erasure: Erasure,
    ) -> Result<(), NoRoom> {
        let key = self.prepare_log(ports, disk)?;
        let open = self.log.stream(key).expect("the stream is open");
        let page = open.chunk.expect("the chunk is open").page;
        let generation = self.log.segment(open.segment).generation;
        // It comes behind the chunk's latest record, or behind its header.
        let dirty = self.dirty.get(disk).expect("the disk has a log");
        let header = Position::of_page(generation, page);
        let at = dirty.log.last().max(header).next_erasure();
        let after = self.log.place_erasure(key, ports.now);
        let content = self.log.content_mut(key).expect("the stream is open");
        let chunk = content.chunk.as_mut().expect("the chunk is open");
        let dirty_record = DirtyRecord::Erasure(erasure);
        chunk.records.push(dirty_record);
        self.tell_lasting(ports, disk, &dirty_record, None);
        let what = What::Erasure(erasure);
        self.accepted(ports, disk, Record { at, what });
        self.after_record(ports, key, after);
        Ok(())
    }

    fn prepare_log<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
    ) -> Result<StreamKey, NoRoom> {
        let key = StreamKey::of(disk, Source::Dirty);
        let dirty = self.dirty.get(disk).expect("the disk has a log");
        if dirty.chunks.open.is_none() && self.places.is_empty() {
            return Err(NoRoom::Buffer);
        }
        if self.stopping || self.closed_to.contains(&disk) || !self.ensure_chunk(ports, key) {
            return Err(NoRoom::Segment);
        }
        let dirty = self.dirty.get(disk).expect("the disk has a log");
        if dirty.chunks.open.is_none() {
            self.begin_log_chunk(ports, key);
        }
        Ok(key)
    }

    fn begin_log_chunk<T: Tag>(&mut self, ports: &mut Ports<T>, key: StreamKey) {
        let open = self.log.stream(key).expect("the stream is open");
        let entry = self.disks.get(key.disk);
        let entry = entry.expect("a disk with a log is known");
        let dirty = self.dirty.get_mut(key.disk).expect("the disk has a log");
        let chunk = DirtyChunkHeader {
            segment: open.segment,
            generation: self.log.segment(open.segment).generation,
            disk: key.disk,
            page: open.chunk.expect("the chunk is open").page,
            id: entry.id,
            size: entry.size,
            epoch: entry.epoch,
            begins_interval: dirty.log.is_at_begin(),
            follows: dirty.log.last(),
            durable: dirty.durable_at(),
            records: Vec::new(),
        };
        dirty.chunks.open = Some(OpenChunk {
            place: self.places.begin(ports, &chunk),
            follows: chunk.follows,
            begins_interval: chunk.begins_interval,
            wanted: false,
        });
    }

    fn tell_lasting<T: Tag>(
        &self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        record: &DirtyRecord,
        page: Option<(u32, Slice)>,
    ) {
        let dirty = self.dirty.get(disk).expect("the disk has a log");
        let open = dirty.chunks.open.expect("the chunk is open");
        lasting::push(ports, open.place, record, page);
    }

    fn accepted<T: Tag>(&mut self, ports: &Ports<T>, disk: DiskSlot, record: Record) {
        let epoch = self.disks.get(disk).map_or(0, |entry| entry.epoch);
        let dirty = self.dirty.get_mut(disk).expect("the disk has a log");
        let number = dirty.log.push(record, ports.now);
        dirty.epoch = epoch;
        let segment = dirty.segments.back_mut();
        segment.expect("its segment was opened").end = number + 1;
    }

    fn after_record<T: Tag>(&mut self, ports: &mut Ports<T>, key: StreamKey, after: After) {
        match after {
            After::Nothing => {}
            After::Seal => self.seal_chunk(ports, key),
            After::Close => self.close_stream(ports, key),
        }
    }

    /// A segment was opened for a dirty log; `opened` is the entry that says so.
    pub(crate) fn log_segment_opened(
        &mut self,
        disk: DiskSlot,
        segment: SegmentIndex,
        opened: Ticket,
    ) {
        let dirty = self.dirty.get_mut(disk).expect("the disk has a log");
        let end = dirty.log.end();
        dirty.segments.push_back(LogSegment {
            segment,
            end,
            opened,
        });
        // A flush will wait for the entry.
        self.journal.hurry();
    }

    /// The entry that says that a segment belongs to a dirty log; none is needed for one of which the
    /// origin has everything.
    pub(crate) fn log_segment_known(&self, disk: DiskSlot, segment: SegmentIndex) -> Ticket {
        let dirty = self.dirty.get(disk);
        let mut segments = dirty.into_iter().flat_map(|dirty| &dirty.segments);
        let found = segments.find(|of| of.segment == segment);
        found.map_or(Ticket::default(), |found| found.opened)
    }

    /// Writes the open chunk of a dirty log, which the stream has just sealed.
    pub(crate) fn write_log_chunk<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        sealed: &segment_log::Sealed,
        mut gathered: Gathered,
    ) {
        let (id, size, epoch) = {
            let entry = self.disks.get(disk).expect("a disk with a log is known");
            (entry.id, entry.size, entry.epoch)
        };
        let dirty = self.dirty.get_mut(disk).expect("the disk has a log");
        let open = dirty.chunks.open.take();
        let open = open.expect("what is sealed was open");
        let header = DirtyChunkHeader {
            segment: sealed.segment,
            generation: sealed.generation,
            disk,
            page: sealed.page,
            id,
            size,
            epoch,
            begins_interval: open.begins_interval,
            follows: open.follows,
            durable: dirty.durable_at().min(open.follows),
            records: std::mem::take(&mut gathered.records),
        };
        gathered.buf[..PAGE_BYTES].copy_from_slice(&header.encode(self.identity.uuid));
        let end = dirty.log.end();
        dirty.chunks.seal(end, dirty.log.last(), open.wanted);
        if open.wanted {
            dirty.log.end_interval();
        }
        let length = (1 + gathered.entries.len()) * PAGE_BYTES;
        let bytes = gathered.buf.freeze().slice(0..length);
        ports.count_written(Some(disk), |written| written.count_chunk(sealed));
        let offset = self.identity.geometry.segment_offset(sealed.segment)
            + Bytes::new(u64::from(sealed.page) * PAGE_BYTES as u64);
        let chunk = self.chunks.insert(Chunk {
            disk,
            segment: sealed.segment,
            page: sealed.page,
            entries: gathered.entries,
            bytes: bytes.clone(),
            of_log: Some(OfLog {
                end,
                place: open.place,
            }),
        });
        ports.wake_at(ports.now + self.config.flash_timeout);
        ports.flash_write(Errand::LogChunk(chunk), offset, bytes, open.wanted);
    }
}
