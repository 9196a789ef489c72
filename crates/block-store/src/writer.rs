//! Blocks on their way to flash: into the open chunk of a stream, chunks to flash, full segments to their
//! footer.
//!
//! A writer owns what waits in memory, and what is known of the block in each slot. Segments come from the log of
//! segments, and what is opened is told to the journal ([`Streams`]). Records of dirty logs come the same
//! way ([`log`]).

mod log;

use crate::chunks::{Chunk, Entry, Gathered, Segments};
use crate::config::Config;
use crate::dirty::{LogTables, Logs};
use crate::disks::DiskTable;
use crate::durability::Origins;
use crate::effects::Errand;
use crate::identity::Identity;
use crate::intake::Intake;
use crate::journal::Journal;
use crate::limits::TICK_MAX;
use crate::payload::Pages;
use crate::ports::{Footer, Payload, Ports, Tag};
use block_io::Slice;
use flash_format::{ChunkHeader, Descriptor, JournalEntry, PAGE_BYTES, SegmentIndex, SegmentKind};
pub use log::NoRoom;
use segment_log::{
    After, Placed, Quiet, Sealed, Source, Step, StreamKey, StreamKind, place_quietly,
};
use slab::Slab;
use std::iter::once;
use units::{BlockIndex, Bytes, DiskSlot, Duration, FlashSlot, Offset};

/// What blocks are written to.
pub(crate) struct Streams<'a, P: Payload> {
    pub(crate) intake: &'a Intake,
    pub(crate) logs: &'a mut Logs,
    pub(crate) tables: LogTables<'a, P>,
}

impl<'a, P: Payload> Streams<'a, P> {
    /// The view of these.
    #[inline]
    pub(crate) fn of(
        intake: &'a Intake,
        logs: &'a mut Logs,
        segments: &'a mut Segments<P>,
        journal: &'a mut Journal,
        disks: &'a mut DiskTable,
    ) -> Self {
        let tables = LogTables {
            segments,
            journal,
            disks,
        };
        Self {
            intake,
            logs,
            tables,
        }
    }
}

/// What is on its way to flash.
pub(crate) struct Writer<P: Payload> {
    identity: Identity,
    write_delay: Duration,
    flash_timeout: Duration,
    /// Bytes of blocks that may wait.
    limit: usize,
    payload: P,
    chunks: Slab<Chunk<P>>,
    /// Bytes of blocks in chunks that are open or on their way.
    buffered_bytes: usize,
}

impl<P: Payload> Writer<P> {
    /// Nothing is on its way.
    pub(crate) fn new(identity: Identity, config: &Config, payload: P) -> Self {
        Self {
            identity,
            write_delay: config.write_delay,
            flash_timeout: config.flash_timeout,
            limit: config.write_buffer.to_usize(),
            payload,
            chunks: Slab::new(),
            buffered_bytes: 0,
        }
    }

    /// What is known of the blocks.
    #[inline]
    pub(crate) fn payload(&self) -> &P {
        &self.payload
    }

    /// The same, to change it.
    pub(crate) fn payload_mut(&mut self) -> &mut P {
        &mut self.payload
    }

    /// Bytes of blocks that wait in memory to be written.
    pub(crate) fn buffered(&self) -> usize {
        self.buffered_bytes
    }

    /// Bytes of memory, without those that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.payload.bytes()
    }

    /// Appends a clean block to a stream of its disk. Returns where it will be, or none if it cannot
    /// be admitted now; the reason is counted. The caller enters it into the index.
    pub(crate) fn append<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_, P>,
        key: StreamKey,
        entry: Entry,
        block: &P::Block,
    ) -> Option<FlashSlot> {
        if !streams.intake.takes(key.disk) {
            return None;
        }
        if self.buffered_bytes + PAGE_BYTES > self.limit {
            ports.stats_mut().not_taken.write_buffer += 1;
            return None;
        }
        if !self.ensure_chunk(ports, streams, key) {
            ports.stats_mut().not_taken.no_segment += 1;
            return None;
        }
        let placed = streams
            .tables
            .segments
            .place(key, entry.source, ports.now());
        self.put(ports, streams, key, placed, once((entry, block)));
        self.after(ports, streams, key, placed.after);
        Some(placed.slot)
    }

    /// Appends the first of these clean blocks of one source to a stream of their disk and enters them into the
    /// index, at most `most`: as many as nothing comes of but that they wait in the open chunk, up to the first that is
    /// cached. Returns how many, and where the first will be; none if it is the first.
    #[inline]
    pub(crate) fn append_quietly<'b, T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_, P>,
        key: StreamKey,
        source: Source,
        blocks: impl Iterator<Item = (Entry, &'b P::Block)> + Clone,
        most: u32,
    ) -> Option<Quiet> {
        if !streams.intake.takes(key.disk) {
            return None;
        }
        let room = self.limit.saturating_sub(self.buffered_bytes) / PAGE_BYTES;
        let most = u32::try_from(room).map_or(most, |room| room.min(most));
        let names = blocks.clone().map(|(entry, _)| entry.block);
        let segments = &mut *streams.tables.segments;
        let quiet = place_quietly(segments, key, source, names, most, ports.now())?;
        let those = blocks.take(quiet.count as usize);
        self.put(ports, streams, key, quiet.first, those);
        Some(quiet)
    }

    /// Puts blocks where they were placed, one behind the other from the first.
    #[inline]
    fn put<'b, T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_, P>,
        key: StreamKey,
        first: Placed,
        blocks: impl Iterator<Item = (Entry, &'b P::Block)> + Clone,
    ) {
        let content = streams.tables.segments.content_mut(key);
        let content = content.expect("the stream is open");
        let chunk = content.chunk.as_mut().expect("the chunk is open");
        let before = chunk.entries.len();
        let entries = blocks.clone().map(|(entry, _)| entry);
        chunk.entries.extend(entries);
        let describe = |(at, (entry, block)): (u32, (Entry, &P::Block))| {
            let placed = Placed {
                slot: first.slot.advance(at),
                page: first.page + at,
                page_in_chunk: first.page_in_chunk + at,
                after: first.after,
            };
            let name = (key.disk, entry.block);
            let open = &mut chunk.open;
            let checksum = self.payload.put(open, &placed, entry.source, name, block);
            Descriptor {
                block: entry.block,
                checksum,
                page: placed.page,
            }
        };
        let described = (0..).zip(blocks).map(describe);
        content.descriptors.extend(described);
        let count = chunk.entries.len() - before;
        self.buffered_bytes += count * PAGE_BYTES;
        ports.stats_mut().blocks_appended += count as u64;
    }

    /// What comes after a block, or a record.
    fn after<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_, P>,
        key: StreamKey,
        after: After,
    ) {
        match after {
            After::Nothing => {}
            After::Seal => self.seal(ports, streams, key),
            After::Close => self.close(ports, streams, key),
        }
    }

    /// Makes sure that the stream has an open chunk with room for a block.
    fn ensure_chunk<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_, P>,
        key: StreamKey,
    ) -> bool {
        loop {
            match streams.tables.segments.prepare(key, ports.now()) {
                Step::Ready => return true,
                Step::NoSegment => return false,
                Step::Close => self.close(ports, streams, key),
                Step::Opened {
                    segment,
                    generation,
                } => {
                    let (disk, dirty) = (key.disk, key.kind == StreamKind::Dirty);
                    let entry = JournalEntry::Open {
                        segment,
                        disk,
                        generation,
                        kind: if dirty {
                            SegmentKind::Dirty
                        } else {
                            SegmentKind::Clean
                        },
                    };
                    let ticket = streams.tables.journal.queue(ports, entry, generation);
                    if dirty {
                        let journal = &mut *streams.tables.journal;
                        streams.logs.opened(journal, disk, segment, ticket);
                    }
                }
                Step::ChunkOpened { pages } => {
                    let content = streams
                        .tables
                        .segments
                        .content_mut(key)
                        .expect("the stream is open");
                    // Once for all chunks of a segment: growing copies.
                    let most = self.identity.geometry.segment_blocks_max() as usize;
                    let described = content.descriptors.len();
                    content.descriptors.reserve_exact(most - described);
                    content.chunk = Some(Gathered {
                        open: P::open(ports, pages),
                        entries: Vec::with_capacity(pages as usize),
                        records: Vec::new(),
                    });
                    ports.wake_at(ports.now() + self.write_delay);
                }
            }
        }
    }

    /// Writes the open chunk of a stream, if there is one.
    pub(crate) fn seal<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_, P>,
        key: StreamKey,
    ) {
        let Some(sealed) = streams.tables.segments.seal(key) else {
            return;
        };
        let content = streams
            .tables
            .segments
            .content_mut(key)
            .expect("the stream is open");
        let gathered = content.chunk.take().expect("the chunk was open");
        if key.kind == StreamKind::Dirty {
            self.write_log_chunk(ports, streams, key.disk, &sealed, gathered);
            return;
        }
        // The chunk's are the last of the segment's so far.
        let first = content.descriptors.len() - gathered.entries.len();
        let blocks = &content.descriptors[first..];
        let uuid = self.identity.uuid;
        let chunk = Chunk::of(key.disk, &sealed, gathered, None, || {
            let header = ChunkHeader {
                segment: sealed.segment,
                generation: sealed.generation,
                disk: key.disk,
                page: sealed.page,
                blocks: blocks.to_vec(),
            };
            header.encode(uuid)
        });
        self.write_chunk(ports, &sealed, chunk, false);
    }

    /// Writes a chunk, durably or not.
    fn write_chunk<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        sealed: &Sealed,
        chunk: Chunk<P>,
        durable: bool,
    ) {
        ports.count_written(Some(chunk.disk), |written| written.count_chunk(sealed));
        let offset = self.page_offset(chunk.segment, chunk.page);
        let (sealed, of_log) = (chunk.sealed.clone(), chunk.of_log.is_some());
        let id = self.chunks.insert(chunk);
        ports.wake_at(ports.now() + self.flash_timeout);
        let errand = if of_log {
            Errand::LogChunk(id)
        } else {
            Errand::Chunk(id)
        };
        P::write(ports, errand, offset, sealed, durable);
    }

    fn page_offset(&self, segment: SegmentIndex, page: u32) -> Offset {
        self.identity.geometry.segment_offset(segment)
            + Bytes::new(u64::from(page) * PAGE_BYTES as u64)
    }

    /// Ends a stream's open segment: last chunk, then the footer.
    pub(crate) fn close<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_, P>,
        key: StreamKey,
    ) {
        self.seal(ports, streams, key);
        let Some(closed) = streams.tables.segments.close(key) else {
            return;
        };
        let (segment, generation) = (closed.segment, closed.generation);
        if key.kind == StreamKind::Dirty {
            streams.logs.release(&mut streams.tables, key.disk);
        }
        let pages = self.identity.geometry.footer_pages();
        ports.count_written(Some(key.disk), |written| written.count_footer(pages));
        ports.wake_at(ports.now() + self.flash_timeout);
        let footer = Footer {
            uuid: self.identity.uuid,
            segment,
            generation,
            disk: key.disk,
        };
        let (geometry, descriptors) = (&self.identity.geometry, &closed.content.descriptors);
        self.payload
            .write_footer(ports, geometry, footer, descriptors);
    }

    /// Takes back a chunk whose write has ended. None if it failed and the chunk is of a dirty log: its
    /// bytes are nowhere else, and stay in memory until the origin has them.
    ///
    /// # Panics
    /// If no such chunk is on its way.
    pub(crate) fn take_written(&mut self, id: usize, written: bool) -> Option<Chunk<P>> {
        if !written && self.chunks[id].of_log.is_some() {
            return None;
        }
        let chunk = self.chunks.remove(id);
        self.buffered_bytes -= chunk.entries.len() * PAGE_BYTES;
        Some(chunk)
    }

    /// Blocks in chunks that are not written yet whose bytes a disk's origin may still lose.
    pub(crate) fn unflushed(
        &self,
        segments: &Segments<P>,
        origins: &Origins,
        disk: DiskSlot,
    ) -> Vec<(BlockIndex, FlashSlot)> {
        let mut found = Vec::new();
        let mut look = |segment, page, entries: &[Entry]| {
            for (page, entry) in (page + 1..).zip(entries) {
                if !origins.covers(disk, entry.count) {
                    let slot = self.identity.geometry.slot(segment, page);
                    found.push((entry.block, slot));
                }
            }
        };
        let of_disk = |chunk: &&Chunk<P>| chunk.disk == disk && chunk.of_log.is_none();
        for chunk in self.chunks.iter().map(|(_, chunk)| chunk).filter(of_disk) {
            look(chunk.segment, chunk.page, &chunk.entries);
        }
        for kind in StreamKind::ALL {
            let open = segments.stream(StreamKey { disk, kind });
            if kind != StreamKind::Dirty
                && let Some(open) = open
                && let (Some(chunk), Some(gathered)) = (open.chunk, &open.content.chunk)
            {
                look(open.segment, chunk.page, &gathered.entries);
            }
        }
        found
    }

    /// The open chunk that has the block of a slot, whose it is, and which of its pages that is; none if the
    /// slot's chunk is not open.
    pub(crate) fn open_chunk_of<'a>(
        &self,
        segments: &'a Segments<P>,
        slot: FlashSlot,
    ) -> Option<(DiskSlot, &'a Gathered<P>, usize)> {
        let segment = self.identity.geometry.segment_of(slot);
        let page = self.identity.geometry.page_of(slot);
        let disk = segments.table().get(segment).disk;
        let open = StreamKind::ALL.into_iter().find_map(|kind| {
            let open = segments.stream(StreamKey { disk, kind })?;
            (open.segment == segment).then_some(open)
        })?;
        let at = page.checked_sub(open.chunk?.page)? as usize;
        let gathered = open.content.chunk.as_ref()?;
        (at > 0 && at <= gathered.entries.len()).then_some((disk, gathered, at))
    }

    /// Writes chunks that have waited long enough.
    pub(crate) fn tick<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_, P>,
    ) {
        for key in streams.tables.segments.stream_keys() {
            let open = streams.tables.segments.stream(key);
            let Some(chunk) = open.and_then(|open| open.chunk) else {
                continue;
            };
            let due = chunk.since + self.write_delay;
            if ports.now() >= due {
                self.seal(ports, streams, key);
            } else {
                ports.wake_at(due.min(ports.now() + TICK_MAX));
            }
        }
    }
}

impl Writer<Pages> {
    /// The bytes of a slot whose chunk is on its way or still open.
    pub(crate) fn in_memory<T: Tag<Payload = Pages>>(
        &self,
        ports: &Ports<T>,
        segments: &Segments,
        slot: FlashSlot,
    ) -> Option<Slice> {
        let segment = self.identity.geometry.segment_of(slot);
        let page = self.identity.geometry.page_of(slot);
        let on_its_way = self
            .chunks
            .iter()
            .find_map(|(_, chunk)| Some((chunk, chunk.block(segment, page)?)));
        match on_its_way {
            Some((chunk, (block, bytes))) => Some(self.payload.ciphers().shown(
                ports.pool(),
                chunk.disk,
                block,
                bytes,
            )),
            None => self.in_open_chunk(ports, segments, slot),
        }
    }

    /// A copy of the bytes of a slot whose chunk is still open.
    pub(crate) fn in_open_chunk<T: Tag<Payload = Pages>>(
        &self,
        ports: &Ports<T>,
        segments: &Segments,
        slot: FlashSlot,
    ) -> Option<Slice> {
        let (disk, gathered, at) = self.open_chunk_of(segments, slot)?;
        let bytes = &gathered.open[at * PAGE_BYTES..(at + 1) * PAGE_BYTES];
        let bytes = ports.pool().copy_of(bytes);
        let block = gathered.entries[at - 1].block;
        Some(
            self.payload
                .ciphers()
                .shown(ports.pool(), disk, block, bytes),
        )
    }
}
