//! Blocks on their way to flash: into the open chunk of a stream, chunks to flash, full segments to their
//! footer.
//!
//! A writer owns what waits in memory, and the checksum of each slot. Segments come from the log of
//! segments, and what is opened is told to the journal ([`Streams`]). Records of dirty logs come the same
//! way ([`log`]).

mod log;

use crate::chunks::{Chunk, Entry, Gathered, Segments};
use crate::config::Config;
use crate::dirty::{LogTables, Logs};
use crate::disks::DiskTable;
use crate::durability::Origins;
use crate::encryption::Ciphers;
use crate::identity::Identity;
use crate::intake::Intake;
use crate::journal::Journal;
use crate::limits::TICK_MAX;
use crate::ports::{Errand, Ports, Tag};
use block_io::Slice;
use flash_format::{
    ChunkHeader, DESCRIPTORS_PER_PAGE, Descriptor, FooterPage, JournalEntry, PAGE_BYTES,
    SegmentIndex, SegmentKind, checksum,
};
pub use log::NoRoom;
use segment_log::{After, Sealed, Source, Step, StreamKey, StreamKind};
use slab::Slab;
use units::{BlockIndex, Bytes, DiskSlot, Duration, FlashSlot};

/// What blocks are written to.
pub(crate) struct Streams<'a> {
    pub(crate) intake: &'a Intake,
    pub(crate) logs: &'a mut Logs,
    pub(crate) tables: LogTables<'a>,
}

impl<'a> Streams<'a> {
    /// The view of these.
    #[inline]
    pub(crate) fn of(
        intake: &'a Intake,
        logs: &'a mut Logs,
        segments: &'a mut Segments,
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
pub(crate) struct Writer {
    identity: Identity,
    write_delay: Duration,
    flash_timeout: Duration,
    /// Bytes of blocks that may wait.
    limit: usize,
    /// crc32c of the block in each slot.
    checksums: Vec<u32>,
    ciphers: Ciphers,
    chunks: Slab<Chunk>,
    /// Bytes of blocks in chunks that are open or on their way.
    buffered_bytes: usize,
}

impl Writer {
    /// Nothing is on its way; the blocks on flash have these checksums.
    pub(crate) fn new(identity: Identity, config: &Config, checksums: Vec<u32>) -> Self {
        Self {
            identity,
            write_delay: config.write_delay,
            flash_timeout: config.flash_timeout,
            limit: config.write_buffer.to_usize(),
            checksums,
            ciphers: Ciphers::default(),
            chunks: Slab::new(),
            buffered_bytes: 0,
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

    /// Whether these are the bytes that were written to a slot.
    #[inline]
    pub(crate) fn is_whole(&self, slot: FlashSlot, bytes: &[u8]) -> bool {
        checksum(bytes) == self.checksums[slot.index()]
    }

    /// Bytes of blocks that wait in memory to be written.
    pub(crate) fn buffered(&self) -> usize {
        self.buffered_bytes
    }

    /// Bytes of memory, without those that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.checksums.capacity() * size_of::<u32>()
    }

    /// Appends a clean block to a stream of its disk. Returns where it will be, or none if it cannot
    /// be admitted now; the reason is counted. The caller enters it into the index.
    pub(crate) fn append<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_>,
        key: StreamKey,
        entry: Entry,
        bytes: &[u8],
    ) -> Option<FlashSlot> {
        assert_eq!(bytes.len(), PAGE_BYTES, "blocks are appended whole");
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
        self.buffered_bytes += PAGE_BYTES;
        ports.stats_mut().blocks_appended += 1;
        let content = streams.tables.segments.content_mut(key);
        let content = content.expect("the stream is open");
        let chunk = content.chunk.as_mut().expect("the chunk is open");
        chunk.entries.push(entry);
        let at = placed.page_in_chunk as usize * PAGE_BYTES;
        let page = &mut chunk.buf[at..at + PAGE_BYTES];
        page.copy_from_slice(bytes);
        // A survivor comes as it lies on flash.
        let is_survivor = entry.source == Source::Survivor;
        if let (Some(cipher), false) = (self.ciphers.get(key.disk), is_survivor) {
            cipher.encrypt(entry.block, page);
        }
        let crc = checksum(page);
        self.checksums[placed.slot.index()] = crc;
        content.descriptors.push(Descriptor {
            block: entry.block,
            checksum: crc,
            page: placed.page,
        });
        self.after(ports, streams, key, placed.after);
        Some(placed.slot)
    }

    /// What comes after a block, or a record.
    fn after<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_>,
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
    fn ensure_chunk<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_>,
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
                    content.chunk = Some(Gathered {
                        buf: ports.pool().take(pages as usize * PAGE_BYTES),
                        entries: Vec::new(),
                        records: Vec::new(),
                    });
                    ports.wake_at(ports.now() + self.write_delay);
                }
            }
        }
    }

    /// Writes the open chunk of a stream, if there is one.
    pub(crate) fn seal<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_>,
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
        let mut gathered = content.chunk.take().expect("the chunk was open");
        if key.kind == StreamKind::Dirty {
            self.write_log_chunk(ports, streams, key.disk, &sealed, gathered);
            return;
        }
        // The chunk's are the last of the segment's so far.
        let first = content.descriptors.len() - gathered.entries.len();
        let header = ChunkHeader {
            segment: sealed.segment,
            generation: sealed.generation,
            disk: key.disk,
            page: sealed.page,
            blocks: content.descriptors[first..].to_vec(),
        };
        let header = header.encode(self.identity.uuid);
        gathered.buf[..PAGE_BYTES].copy_from_slice(&header);
        let chunk = Chunk::of(key.disk, &sealed, gathered, None);
        self.write_chunk(ports, &sealed, chunk, false);
    }

    /// Writes a chunk, durably or not.
    fn write_chunk<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        sealed: &Sealed,
        chunk: Chunk,
        durable: bool,
    ) {
        ports.count_written(Some(chunk.disk), |written| written.count_chunk(sealed));
        let offset = self.page_offset(chunk.segment, chunk.page);
        let (bytes, of_log) = (chunk.bytes.clone(), chunk.of_log.is_some());
        let id = self.chunks.insert(chunk);
        ports.wake_at(ports.now() + self.flash_timeout);
        let errand = if of_log {
            Errand::LogChunk(id)
        } else {
            Errand::Chunk(id)
        };
        ports.flash_write(errand, offset, bytes, durable);
    }

    fn page_offset(&self, segment: SegmentIndex, page: u32) -> Bytes {
        self.identity.geometry.segment_offset(segment)
            + Bytes::new(u64::from(page) * PAGE_BYTES as u64)
    }

    /// Ends a stream's open segment: last chunk, then the footer.
    pub(crate) fn close<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_>,
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
        let length = pages as usize * PAGE_BYTES;
        let mut buf = ports.pool().take(length);
        for (part, to) in (0..).zip(buf[..length].chunks_exact_mut(PAGE_BYTES)) {
            let descriptors = closed.content.descriptors.iter();
            let blocks = descriptors.skip(part as usize * DESCRIPTORS_PER_PAGE);
            let page = FooterPage {
                segment,
                generation,
                disk: key.disk,
                part,
                total: closed.blocks,
                blocks: blocks.take(DESCRIPTORS_PER_PAGE).copied().collect(),
            };
            to.copy_from_slice(&page.encode(self.identity.uuid));
        }
        ports.count_written(Some(key.disk), |written| written.count_footer(pages));
        let offset = self.page_offset(segment, self.identity.geometry.segment_pages() - pages);
        ports.wake_at(ports.now() + self.flash_timeout);
        let bytes = buf.freeze().slice(0..length);
        ports.flash_write(Errand::Footer(segment), offset, bytes, false);
    }

    /// Takes back a chunk whose write has ended. None if it failed and the chunk is of a dirty log: its
    /// bytes are nowhere else, and stay in memory until the origin has them.
    ///
    /// # Panics
    /// If no such chunk is on its way.
    pub(crate) fn take_written(&mut self, id: usize, written: bool) -> Option<Chunk> {
        if !written && self.chunks[id].of_log.is_some() {
            return None;
        }
        let chunk = self.chunks.remove(id);
        self.buffered_bytes -= chunk.entries.len() * PAGE_BYTES;
        Some(chunk)
    }

    /// The bytes of a slot whose chunk is on its way or still open.
    pub(crate) fn in_memory<T: Tag>(
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
            Some((chunk, (block, bytes))) => {
                Some(self.ciphers.shown(ports, chunk.disk, block, bytes))
            }
            None => self.in_open_chunk(ports, segments, slot),
        }
    }

    /// A copy of the bytes of a slot whose chunk is still open.
    pub(crate) fn in_open_chunk<T: Tag>(
        &self,
        ports: &Ports<T>,
        segments: &Segments,
        slot: FlashSlot,
    ) -> Option<Slice> {
        let segment = self.identity.geometry.segment_of(slot);
        let page = self.identity.geometry.page_of(slot);
        let disk = segments.segment(segment).disk;
        let open = StreamKind::ALL.into_iter().find_map(|kind| {
            let open = segments.stream(StreamKey { disk, kind })?;
            (open.segment == segment).then_some(open)
        })?;
        let at = page.checked_sub(open.chunk?.page)? as usize;
        let gathered = open.content.chunk.as_ref()?;
        if at == 0 || at > gathered.entries.len() {
            return None;
        }
        let bytes = &gathered.buf[at * PAGE_BYTES..(at + 1) * PAGE_BYTES];
        let bytes = ports.pool().copy_of(bytes);
        let block = gathered.entries[at - 1].block;
        Some(self.ciphers.shown(ports, disk, block, bytes))
    }

    /// Blocks in chunks that are not written yet whose bytes a disk's origin may still lose.
    pub(crate) fn unflushed(
        &self,
        segments: &Segments,
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
        let of_disk = |chunk: &&Chunk| chunk.disk == disk && chunk.of_log.is_none();
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

    /// Writes chunks that have waited long enough.
    pub(crate) fn tick<T: Tag>(&mut self, ports: &mut Ports<T>, streams: &mut Streams<'_>) {
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
