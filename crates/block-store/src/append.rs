//! Appending blocks: into the open chunk of a stream, chunks to flash, full segments to their
//! footer.

use crate::chunks::{Chunk, Entry, Gathered};
use crate::limits::TICK_MAX;
use crate::ports::{Errand, Ports, Tag};
use crate::store::Store;
use block_io::{FlashVerb, Slice};
use flash_format::{
    ChunkHeader, DESCRIPTORS_PER_PAGE, Descriptor, FooterPage, JournalEntry, PAGE_BYTES,
    SegmentIndex, SegmentKind, checksum,
};
use segment_log::{After, Source, Step, StreamKey, StreamKind};
use units::{BlockIndex, Bytes, DiskSlot, FlashSlot};

impl Store {
    /// Appends a block to a stream of its disk. Returns where it will be, or none if it cannot
    /// be admitted now; the reason is counted. The caller enters it into the index.
    pub(crate) fn append<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        block: BlockIndex,
        source: Source,
        bytes: &[u8],
    ) -> Option<FlashSlot> {
        self.append_to(ports, StreamKey::of(disk, source), block, source, bytes)
    }

    /// [`Store::append`] to the stream of a disk that takes the survivors of a reclaim.
    pub(crate) fn append_to<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        key: StreamKey,
        block: BlockIndex,
        source: Source,
        bytes: &[u8],
    ) -> Option<FlashSlot> {
        let disk = key.disk;
        assert_eq!(bytes.len(), PAGE_BYTES, "blocks are appended whole");
        if self.stopping || self.closed_to.contains(&disk) {
            return None;
        }
        if self.buffered_bytes + PAGE_BYTES > self.config.write_buffer.to_usize() {
            ports.stats.not_taken.write_buffer += 1;
            return None;
        }
        if !self.ensure_chunk(ports, key) {
            ports.stats.not_taken.no_segment += 1;
            return None;
        }
        let count = self.origins.write_count(disk);
        let placed = self.log.place(key, source, ports.now);
        self.buffered_bytes += PAGE_BYTES;
        ports.stats.blocks_appended += 1;
        let content = self.log.content_mut(key).expect("the stream is open");
        let chunk = content.chunk.as_mut().expect("the chunk is open");
        chunk.entries.push(Entry {
            block,
            source,
            count,
        });
        let at = placed.page_in_chunk as usize * PAGE_BYTES;
        let page = &mut chunk.buf[at..at + PAGE_BYTES];
        page.copy_from_slice(bytes);
        // A survivor comes as it lies on flash.
        if let (Some(cipher), true) = (self.ciphers.get(disk), source != Source::Survivor) {
            cipher.encrypt(block, page);
        }
        let crc = checksum(page);
        self.checksums[placed.slot.index()] = crc;
        content.descriptors.push(Descriptor {
            block,
            checksum: crc,
            page: placed.page,
        });
        match placed.after {
            After::Nothing => {}
            After::Seal => self.seal_chunk(ports, key),
            After::Close => self.close_stream(ports, key),
        }
        Some(placed.slot)
    }

    /// Makes sure that the stream has an open chunk with room for a block.
    pub(crate) fn ensure_chunk<T: Tag>(&mut self, ports: &mut Ports<T>, key: StreamKey) -> bool {
        loop {
            match self.log.prepare(key, ports.now) {
                Step::Ready => return true,
                Step::NoSegment => return false,
                Step::Close => self.close_stream(ports, key),
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
                    let ticket = self.journal.push(entry, generation, ports.now);
                    if dirty {
                        self.logs.opened(&mut self.journal, disk, segment, ticket);
                    }
                    ports.wake_at(ports.now + self.config.write_delay);
                }
                Step::ChunkOpened { pages } => {
                    let content = self.log.content_mut(key).expect("the stream is open");
                    content.chunk = Some(Gathered {
                        buf: ports.pool.take(pages as usize * PAGE_BYTES),
                        entries: Vec::new(),
                        records: Vec::new(),
                    });
                    ports.wake_at(ports.now + self.config.write_delay);
                }
            }
        }
    }

    /// Writes the open chunk of a stream, if there is one.
    pub(crate) fn seal_chunk<T: Tag>(&mut self, ports: &mut Ports<T>, key: StreamKey) {
        let Some(sealed) = self.log.seal(key) else {
            return;
        };
        let content = self.log.content_mut(key).expect("the stream is open");
        let mut gathered = content.chunk.take().expect("the chunk was open");
        if key.kind == StreamKind::Dirty {
            self.write_log_chunk(ports, key.disk, &sealed, gathered);
            return;
        }
        let entries = gathered.entries;
        let (segment, page) = (sealed.segment, sealed.page);
        // The chunk's are the last of the segment's so far.
        let first = content.descriptors.len() - entries.len();
        let header = ChunkHeader {
            segment,
            generation: sealed.generation,
            disk: key.disk,
            page,
            blocks: content.descriptors[first..].to_vec(),
        };
        gathered.buf[..PAGE_BYTES].copy_from_slice(&header.encode(self.identity.uuid));
        let length = (1 + entries.len()) * PAGE_BYTES;
        let bytes = gathered.buf.freeze().slice(0..length);
        ports.count_written(Some(key.disk), |written| written.count_chunk(&sealed));
        let offset = self.page_offset(segment, page);
        let id = self.chunks.insert(Chunk {
            disk: key.disk,
            segment,
            page,
            entries,
            bytes: bytes.clone(),
            of_log: None,
        });
        ports.wake_at(ports.now + self.config.flash_timeout);
        ports.flash_write(Errand::Chunk(id), offset, bytes, false);
    }

    fn page_offset(&self, segment: SegmentIndex, page: u32) -> Bytes {
        self.identity.geometry.segment_offset(segment)
            + Bytes::new(u64::from(page) * PAGE_BYTES as u64)
    }

    /// Ends a stream's open segment: last chunk, then the footer.
    pub(crate) fn close_stream<T: Tag>(&mut self, ports: &mut Ports<T>, key: StreamKey) {
        self.seal_chunk(ports, key);
        let Some(closed) = self.log.close(key) else {
            return;
        };
        let (segment, generation) = (closed.segment, closed.generation);
        if key.kind == StreamKind::Dirty {
            let (logs, mut tables) = self.log_tables();
            logs.release(&mut tables, key.disk);
        }
        let pages = self.identity.geometry.footer_pages();
        let length = pages as usize * PAGE_BYTES;
        let mut buf = ports.pool.take(length);
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
        ports.wake_at(ports.now + self.config.flash_timeout);
        let bytes = buf.freeze().slice(0..length);
        ports.flash_write(Errand::Footer(segment), offset, bytes, false);
    }

    /// A chunk has been written, or has failed to be.
    pub(crate) fn chunk_done<T: Tag>(&mut self, ports: &mut Ports<T>, id: usize, written: bool) {
        if !written && self.chunks[id].of_log.is_some() {
            // Its bytes are nowhere else: they stay in memory until the origin has them.
            let reason = "a part of a dirty log could not be written";
            ports.fail(reason);
            return;
        }
        let chunk = self.chunks.remove(id);
        self.buffered_bytes -= chunk.entries.len() * PAGE_BYTES;
        if let Some(of_log) = chunk.of_log {
            self.failures = 0;
            let (logs, mut tables) = self.log_tables();
            let (disk, segment) = (chunk.disk, chunk.segment);
            let seal = logs.chunk_written(ports, &mut tables, disk, segment, of_log);
            self.seal_log(ports, disk, seal);
        } else if written {
            self.failures = 0;
            let (mut copies, resting) = self.copies();
            resting.trust_fills(ports, &mut copies, &chunk);
        } else {
            self.failed(ports);
            // Nothing in it was ever trusted, so forgetting it is all there is to do.
            for (page, entry) in (chunk.page + 1..).zip(&chunk.entries) {
                let slot = self.identity.geometry.slot(chunk.segment, page);
                if self.log.forget_if(chunk.disk, entry.block, slot) {
                    ports.left(chunk.disk, entry.block);
                }
                if let Some(reclaiming) = &mut self.reclaiming {
                    reclaiming.lost(slot);
                }
            }
        }
        self.write_ended(ports, chunk.segment);
    }

    /// A footer has been written, or has failed to be: without it recovery walks the chunks.
    pub(crate) fn footer_done<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        segment: SegmentIndex,
        written: bool,
    ) {
        if written {
            self.failures = 0;
        } else {
            self.failed(ports);
        }
        self.write_ended(ports, segment);
    }

    fn write_ended<T: Tag>(&mut self, ports: &mut Ports<T>, segment: SegmentIndex) {
        if self.log.write_ended(segment) {
            // Bounds what a power cut takes from the device's own cache; nothing waits for it.
            ports.flash(Errand::FlashFlush, FlashVerb::Flush);
        }
    }

    /// The bytes of a slot whose chunk is on its way or still open.
    pub(crate) fn in_memory<T: Tag>(&self, ports: &Ports<T>, slot: FlashSlot) -> Option<Slice> {
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
            None => self.in_open_chunk(ports, slot),
        }
    }

    /// A copy of the bytes of a slot whose chunk is still open.
    pub(crate) fn in_open_chunk<T: Tag>(&self, ports: &Ports<T>, slot: FlashSlot) -> Option<Slice> {
        let segment = self.identity.geometry.segment_of(slot);
        let page = self.identity.geometry.page_of(slot);
        let disk = self.log.segment(segment).disk;
        let open = StreamKind::ALL.into_iter().find_map(|kind| {
            let open = self.log.stream(StreamKey { disk, kind })?;
            (open.segment == segment).then_some(open)
        })?;
        let at = page.checked_sub(open.chunk?.page)? as usize;
        let gathered = open.content.chunk.as_ref()?;
        if at == 0 || at > gathered.entries.len() {
            return None;
        }
        let bytes = &gathered.buf[at * PAGE_BYTES..(at + 1) * PAGE_BYTES];
        let bytes = ports.pool.copy_of(bytes);
        let block = gathered.entries[at - 1].block;
        Some(self.ciphers.shown(ports, disk, block, bytes))
    }

    /// Blocks in chunks that are not written yet whose bytes a disk's origin may still lose.
    pub(crate) fn gathered_unflushed(&self, disk: DiskSlot) -> Vec<(BlockIndex, FlashSlot)> {
        let mut found = Vec::new();
        let mut look = |segment, page, entries: &[Entry]| {
            for (page, entry) in (page + 1..).zip(entries) {
                if !self.origins.covers(disk, entry.count) {
                    found.push((entry.block, self.identity.geometry.slot(segment, page)));
                }
            }
        };
        let of_disk = |chunk: &&Chunk| chunk.disk == disk && chunk.of_log.is_none();
        for chunk in self.chunks.iter().map(|(_, chunk)| chunk).filter(of_disk) {
            look(chunk.segment, chunk.page, &chunk.entries);
        }
        for kind in StreamKind::ALL {
            let open = self.log.stream(StreamKey { disk, kind });
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
    pub(crate) fn tick_streams<T: Tag>(&mut self, ports: &mut Ports<T>) {
        for key in self.log.stream_keys() {
            let Some(chunk) = self.log.stream(key).and_then(|open| open.chunk) else {
                continue;
            };
            let due = chunk.since + self.config.write_delay;
            if ports.now >= due {
                self.seal_chunk(ports, key);
            } else {
                ports.wake_at(due.min(ports.now + TICK_MAX));
            }
        }
    }
}
