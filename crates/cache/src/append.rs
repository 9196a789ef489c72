//! Appending blocks: into the open chunk of a stream, chunks to flash, full segments to their
//! footer.

use crate::flash::Flash;
use crate::limits::{SEGMENTS_RESERVED, TICK_MAX};
use crate::ports::{Ports, Purpose};
use crate::streams::{Entry, OpenChunk, OpenSegment, Source, StreamKey};
use crate::table::Phase;
use block_io::{FlashVerb, Slice};
use flash_format::{
    CHUNK_BLOCKS_MAX, ChunkHeader, DESCRIPTORS_PER_PAGE, Descriptor, FooterPage, JournalEntry,
    PAGE_BYTES, SegmentIndex, checksum,
};
use units::{BlockIndex, Bytes, DiskSlot, FlashSlot};

/// A chunk on its way to flash.
pub(crate) struct Chunk {
    disk: DiskSlot,
    segment: SegmentIndex,
    /// The header's page in the segment.
    page: u32,
    entries: Vec<Entry>,
    /// Header and blocks.
    bytes: Slice,
}

impl Flash {
    /// Appends a block to a stream of its disk. Returns where it will be, or none if it cannot
    /// be admitted now; the reason is counted. The caller enters it into the index.
    pub(crate) fn append(
        &mut self,
        ports: &mut Ports,
        disk: DiskSlot,
        block: BlockIndex,
        source: Source,
        bytes: &[u8],
    ) -> Option<FlashSlot> {
        assert_eq!(bytes.len(), PAGE_BYTES, "blocks are appended whole");
        if self.stopping || self.closed_to.contains(&disk) {
            return None;
        }
        if self.buffered_bytes + PAGE_BYTES > self.config.write_buffer.to_usize() {
            ports.stats.not_admitted.write_buffer += 1;
            return None;
        }
        let key = StreamKey {
            disk,
            survivors: source == Source::Survivor,
        };
        if !self.ensure_chunk(ports, key) {
            ports.stats.not_admitted.no_segment += 1;
            return None;
        }
        let limit = self.geometry.segment_blocks_max() as usize;
        let count = self.write_count(disk);
        let geometry = self.geometry;
        let open = self.streams.get_mut(key).expect("the stream is open");
        let chunk = open.chunk.as_mut().expect("the chunk is open");
        let at = (1 + chunk.entries.len()) * PAGE_BYTES;
        chunk.buf[at..at + PAGE_BYTES].copy_from_slice(bytes);
        chunk.entries.push(Entry {
            block,
            source,
            count,
        });
        let page = open.next_page;
        let crc = checksum(bytes);
        open.descriptors.push(Descriptor {
            block,
            checksum: crc,
            page,
        });
        open.next_page += 1;
        open.appended = ports.now;
        let chunk_full = chunk.entries.len() == CHUNK_BLOCKS_MAX as usize;
        let full = open.next_page == geometry.segment_pages() - geometry.footer_pages()
            || open.descriptors.len() == limit;
        let slot = geometry.slot(open.segment, page);
        self.checksums[slot.index()] = crc;
        self.buffered_bytes += PAGE_BYTES;
        if full {
            self.close_stream(ports, key);
        } else if chunk_full {
            self.seal_chunk(ports, key);
        }
        Some(slot)
    }

    /// Makes sure that the stream has an open chunk with room for a block.
    fn ensure_chunk(&mut self, ports: &mut Ports, key: StreamKey) -> bool {
        // A header at the very end of the room would have no block behind it.
        let room = self.geometry.segment_pages() - self.geometry.footer_pages();
        if self
            .streams
            .get_mut(key)
            .is_some_and(|open| open.chunk.is_none() && open.next_page + 2 > room)
        {
            self.close_stream(ports, key);
        }
        if self.streams.get_mut(key).is_none() && !self.open_stream(ports, key) {
            return false;
        }
        let open = self.streams.get_mut(key).expect("it was opened");
        if open.chunk.is_none() {
            let pages = (room - open.next_page).min(1 + CHUNK_BLOCKS_MAX);
            open.chunk = Some(OpenChunk {
                buf: ports.pool.take(pages as usize * PAGE_BYTES),
                page: open.next_page,
                entries: Vec::new(),
                since: ports.now,
            });
            open.next_page += 1;
            let segment = open.segment;
            self.streams.chunk_opened(segment);
            ports.wake_at(ports.now + self.config.write_delay);
        }
        true
    }

    fn open_stream(&mut self, ports: &mut Ports, key: StreamKey) -> bool {
        if !key.survivors && self.table.free_count() <= SEGMENTS_RESERVED {
            return false;
        }
        let Some((segment, generation)) = self.table.open(key.disk) else {
            return false;
        };
        self.journal.push(
            JournalEntry::Open {
                segment,
                disk: key.disk,
                generation,
            },
            generation,
            ports.now,
        );
        ports.wake_at(ports.now + self.config.write_delay);
        self.streams.insert(
            key,
            OpenSegment {
                segment,
                next_page: 0,
                descriptors: Vec::new(),
                chunk: None,
                appended: ports.now,
            },
        );
        true
    }

    /// Writes the open chunk of a stream, if there is one.
    pub(crate) fn seal_chunk(&mut self, ports: &mut Ports, key: StreamKey) {
        let Some((segment, mut chunk)) = self.streams.take_chunk(key) else {
            return;
        };
        assert!(!chunk.entries.is_empty(), "a chunk is opened for a block");
        let generation = self.table.get(segment).generation;
        let blocks = (chunk.page + 1..)
            .zip(&chunk.entries)
            .map(|(page, entry)| {
                let slot = self.geometry.slot(segment, page);
                Descriptor {
                    block: entry.block,
                    checksum: self.checksums[slot.index()],
                    page,
                }
            })
            .collect();
        let header = ChunkHeader {
            segment,
            generation,
            disk: key.disk,
            page: chunk.page,
            blocks,
        };
        chunk.buf[..PAGE_BYTES].copy_from_slice(&header.encode(self.uuid));
        let length = (1 + chunk.entries.len()) * PAGE_BYTES;
        let bytes = chunk.buf.freeze().slice(0..length);
        count_written(ports, key.disk, &chunk.entries);
        self.table.get_mut(segment).writes += 1;
        let offset = self.geometry.segment_offset(segment)
            + Bytes::new(u64::from(chunk.page) * PAGE_BYTES as u64);
        let chunk = Chunk {
            disk: key.disk,
            segment,
            page: chunk.page,
            entries: chunk.entries,
            bytes: bytes.clone(),
        };
        let id = self.chunks.insert(chunk);
        ports.wake_at(ports.now + self.config.flash_timeout);
        ports.flash_write(Purpose::Chunk(id), offset, bytes, false);
    }

    /// Ends a stream's open segment: last chunk, then the footer.
    pub(crate) fn close_stream(&mut self, ports: &mut Ports, key: StreamKey) {
        self.seal_chunk(ports, key);
        let Some(open) = self.streams.remove(key) else {
            return;
        };
        let segment = open.segment;
        self.table.set_phase(segment, Phase::Closing);
        let parts = self.geometry.footer_pages() as usize;
        let mut buf = ports.pool.take(parts * PAGE_BYTES);
        let generation = self.table.get(segment).generation;
        let total = u32::try_from(open.descriptors.len()).expect("a segment has few blocks");
        for (part, to) in (0..).zip(buf[..parts * PAGE_BYTES].chunks_exact_mut(PAGE_BYTES)) {
            let blocks = open
                .descriptors
                .iter()
                .skip(part as usize * DESCRIPTORS_PER_PAGE);
            let blocks = blocks.take(DESCRIPTORS_PER_PAGE).copied().collect();
            let page = FooterPage {
                segment,
                generation,
                disk: key.disk,
                part,
                total,
                blocks,
            };
            to.copy_from_slice(&page.encode(self.uuid));
        }
        ports.stats.flash_written.descriptors += (parts * PAGE_BYTES) as u64;
        self.table.get_mut(segment).writes += 1;
        let first = self.geometry.segment_pages() - self.geometry.footer_pages();
        let offset = self.geometry.segment_offset(segment)
            + Bytes::new(u64::from(first) * PAGE_BYTES as u64);
        let bytes = buf.freeze().slice(0..parts * PAGE_BYTES);
        ports.wake_at(ports.now + self.config.flash_timeout);
        ports.flash_write(Purpose::Footer(segment), offset, bytes, false);
    }

    /// A chunk has been written, or has failed to be.
    pub(crate) fn chunk_done(&mut self, ports: &mut Ports, id: usize, written: bool) {
        let chunk = self.chunks.remove(id);
        self.buffered_bytes -= chunk.entries.len() * PAGE_BYTES;
        if written {
            self.failures = 0;
            self.trust_fills(ports, &chunk);
        } else {
            self.failed(ports);
            // Nothing in it was ever trusted, so forgetting it is all there is to do.
            for (page, entry) in (chunk.page + 1..).zip(&chunk.entries) {
                let slot = self.geometry.slot(chunk.segment, page);
                self.forget_if(chunk.disk, entry.block, slot);
                if let Some(reclaiming) = &mut self.reclaiming {
                    reclaiming.lost(slot);
                }
            }
        }
        self.write_ended(ports, chunk.segment);
    }

    /// Trusts the blocks of a chunk that came from the origin and are still in the index. Those
    /// whose bytes the origin may still lose rest first; rewritten ones rest already, and
    /// survivors wait for their reclaim to end.
    fn trust_fills(&mut self, ports: &mut Ports, chunk: &Chunk) {
        let mut run: Option<(FlashSlot, u32)> = None;
        for (page, entry) in (chunk.page + 1..).zip(&chunk.entries) {
            let slot = self.geometry.slot(chunk.segment, page);
            let mut fresh = entry.source == Source::Fill
                && self.index.get(chunk.disk, entry.block) == Some(slot);
            if fresh && !self.durability[chunk.disk.index()].covers(entry.count) {
                self.rest(ports, chunk.disk, entry.block, slot, entry.count);
                fresh = false;
            }
            run = match run {
                Some((first, count)) if fresh => Some((first, count + 1)),
                None if fresh => Some((slot, 1)),
                Some((first, count)) => {
                    self.trust(ports, first, count);
                    None
                }
                None => None,
            };
        }
        if let Some((first, count)) = run {
            self.trust(ports, first, count);
        }
    }

    /// A footer has been written, or has failed to be: without it recovery walks the chunks.
    pub(crate) fn footer_done(&mut self, ports: &mut Ports, segment: SegmentIndex, written: bool) {
        if written {
            self.failures = 0;
        } else {
            self.failed(ports);
        }
        self.write_ended(ports, segment);
    }

    fn write_ended(&mut self, ports: &mut Ports, segment: SegmentIndex) {
        let entry = self.table.get_mut(segment);
        entry.writes = entry.writes.checked_sub(1).expect("each write was counted");
        let ended = entry.writes == 0;
        let phase = entry.phase;
        if ended && phase == Phase::Closing {
            self.table.set_phase(segment, Phase::Closed);
            // Bounds what a power cut takes from the device's own cache; nothing waits for it.
            ports.flash(Purpose::FlashFlush, FlashVerb::Flush);
        }
        self.table.free_if_drained(segment);
    }

    /// The bytes of a slot whose chunk is on its way.
    pub(crate) fn in_memory(&self, ports: &Ports, slot: FlashSlot) -> Option<Slice> {
        let segment = self.geometry.segment_of(slot);
        let page = self.geometry.page_of(slot);
        let inside = |chunk: &Chunk| {
            chunk.segment == segment
                && page > chunk.page
                && ((page - chunk.page) as usize) <= chunk.entries.len()
        };
        let found = self
            .chunks
            .iter()
            .map(|(_, chunk)| chunk)
            .find(|chunk| inside(chunk));
        let on_its_way = found.map(|chunk| {
            let at = (page - chunk.page) as usize * PAGE_BYTES;
            chunk.bytes.slice(at..at + PAGE_BYTES)
        });
        on_its_way.or_else(|| self.in_open_chunk(ports, slot))
    }

    /// A copy of the bytes of a slot whose chunk is still open.
    pub(crate) fn in_open_chunk(&self, ports: &Ports, slot: FlashSlot) -> Option<Slice> {
        let segment = self.geometry.segment_of(slot);
        let page = self.geometry.page_of(slot);
        let disk = self.table.get(segment).disk;
        let open = [false, true].into_iter().find_map(|survivors| {
            self.streams
                .of_segment(StreamKey { disk, survivors }, segment)
        })?;
        let chunk = open.chunk.as_ref()?;
        let at = page.checked_sub(chunk.page)? as usize;
        if at == 0 || at > chunk.entries.len() {
            return None;
        }
        Some(
            ports
                .pool
                .copy_of(&chunk.buf[at * PAGE_BYTES..(at + 1) * PAGE_BYTES]),
        )
    }

    /// Writes chunks that have waited long enough.
    pub(crate) fn tick_streams(&mut self, ports: &mut Ports) {
        for key in self.streams.keys() {
            let Some(chunk) = self
                .streams
                .get_mut(key)
                .and_then(|open| open.chunk.as_ref())
            else {
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

fn count_written(ports: &mut Ports, disk: DiskSlot, entries: &[Entry]) {
    let bytes = (entries.len() * PAGE_BYTES) as u64;
    ports.written.push((disk, bytes));
    let written = &mut ports.stats.flash_written;
    written.descriptors += PAGE_BYTES as u64;
    for entry in entries {
        *match entry.source {
            Source::Fill => &mut written.fill,
            Source::Update => &mut written.update,
            Source::Survivor => &mut written.reclaim,
        } += PAGE_BYTES as u64;
    }
}
