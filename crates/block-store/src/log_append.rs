//! Accepting records of dirty logs: into the open chunk of a disk's dirty stream, and chunks to flash.

use crate::chunks::{Chunk, Entry, Gathered};
use crate::ports::{Errand, Ports, Tag};
use crate::store::Store;
use block_io::Slice;
use dirty_log::{Record, What};
use flash_format::{Descriptor, DirtyRecord, Erasure, PAGE_BYTES, Position, checksum};
use segment_log::{After, Sealed, Source, StreamKey};
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
        let at_flash = DirtyRecord::Data(descriptor);
        chunk.records.push(at_flash);
        let generation = self.log.segment_of(placed.slot).generation;
        let record = Record {
            at: Position::of_page(generation, placed.page),
            what: What::Data {
                block,
                slot: placed.slot,
            },
        };
        let page = Some((placed.page_in_chunk - 1, lies));
        let (logs, tables) = self.log_tables();
        logs.accept(ports, &tables, disk, record, &at_flash, page);
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
        let header = Position::of_page(generation, page);
        let at = self.logs.next_erasure(disk, header);
        let after = self.log.place_erasure(key, ports.now);
        let content = self.log.content_mut(key).expect("the stream is open");
        let chunk = content.chunk.as_mut().expect("the chunk is open");
        let at_flash = DirtyRecord::Erasure(erasure);
        chunk.records.push(at_flash);
        let what = What::Erasure(erasure);
        let (logs, tables) = self.log_tables();
        logs.accept(ports, &tables, disk, Record { at, what }, &at_flash, None);
        self.after_record(ports, key, after);
        Ok(())
    }

    fn prepare_log<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
    ) -> Result<StreamKey, NoRoom> {
        let key = StreamKey::of(disk, Source::Dirty);
        if !self.logs.has_place(disk) {
            return Err(NoRoom::Buffer);
        }
        if self.stopping || self.closed_to.contains(&disk) || !self.ensure_chunk(ports, key) {
            return Err(NoRoom::Segment);
        }
        let (logs, tables) = self.log_tables();
        logs.begin_chunk(ports, &tables, key);
        Ok(key)
    }

    fn after_record<T: Tag>(&mut self, ports: &mut Ports<T>, key: StreamKey, after: After) {
        match after {
            After::Nothing => {}
            After::Seal => self.seal_chunk(ports, key),
            After::Close => self.close_stream(ports, key),
        }
    }

    /// Writes the open chunk of a dirty log, which the stream has just sealed.
    pub(crate) fn write_log_chunk<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        sealed: &Sealed,
        mut gathered: Gathered,
    ) {
        let records = std::mem::take(&mut gathered.records);
        let (logs, tables) = self.log_tables();
        let of_log = logs.seal(&tables, disk, sealed, records);
        let header = of_log.header.encode(self.identity.uuid);
        gathered.buf[..PAGE_BYTES].copy_from_slice(&header);
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
            of_log: Some(of_log.of_log),
        });
        ports.wake_at(ports.now + self.config.flash_timeout);
        ports.flash_write(Errand::LogChunk(chunk), offset, bytes, of_log.durable);
    }
}
