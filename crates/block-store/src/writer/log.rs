//! Records of dirty logs on their way to flash: into the open chunk of a disk's dirty stream, and its
//! chunks under headers of their own.

use super::{Streams, Writer};
use crate::chunks::{Chunk, Entry, Gathered};
use crate::ports::{Payload, Ports, Tag};
use crate::write_count::WriteCount;
use dirty_log::{Record, What};
use flash_format::{Descriptor, DirtyRecord, Erasure, PAGE_BYTES, Position};
use segment_log::{Sealed, Source, StreamKey};
use units::{BlockIndex, DiskSlot};

/// Why a record cannot be accepted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// Too much waits to be written to flash, or too many chunks do: until one has been.
    Buffer,
    /// No segment is free: until something is reclaimed or has reached the origin.
    Segment,
}

impl<P: Payload> Writer<P> {
    /// Accepts a block that a guest wrote when so many of the disk's writes had ended.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing has happened then.
    ///
    /// # Panics
    /// If the disk has no log.
    pub(crate) fn log_block<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_, P>,
        disk: DiskSlot,
        block: BlockIndex,
        count: WriteCount,
        page: &P::Page,
    ) -> Result<(), NoRoom> {
        if self.buffered_bytes + PAGE_BYTES > self.limit {
            return Err(NoRoom::Buffer);
        }
        let key = self.prepare_log(ports, streams, disk)?;
        let placed = streams
            .tables
            .segments
            .place(key, Source::Dirty, ports.now());
        self.buffered_bytes += PAGE_BYTES;
        ports.stats_mut().blocks_appended += 1;
        let content = streams
            .tables
            .segments
            .content_mut(key)
            .expect("the stream is open");
        let chunk = content.chunk.as_mut().expect("the chunk is open");
        chunk.entries.push(Entry {
            block,
            source: Source::Dirty,
            count,
        });
        let open = &mut chunk.open;
        let descriptor = Descriptor {
            block,
            checksum: self
                .payload
                .put(open, &placed, Source::Dirty, (disk, block), page),
            page: placed.page,
        };
        let as_put = self.payload.as_put(ports, open, &placed, disk, page);
        content.descriptors.push(descriptor);
        let at_flash = DirtyRecord::Data(descriptor);
        chunk.records.push(at_flash);
        let generation = streams
            .tables
            .segments
            .table()
            .segment_of(placed.slot)
            .generation;
        let record = Record {
            at: Position::of_page(generation, placed.page),
            what: What::Data {
                block,
                slot: placed.slot,
            },
        };
        let page = Some((placed.page_in_chunk - 1, as_put));
        let Streams { logs, tables, .. } = &mut *streams;
        logs.accept(ports, tables, disk, record, &at_flash, page);
        self.after(ports, streams, key, placed.after);
        Ok(())
    }

    /// Accepts an erasure.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing has happened then.
    ///
    /// # Panics
    /// If the disk has no log.
    pub(crate) fn log_erasure<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_, P>,
        disk: DiskSlot,
        erasure: Erasure,
    ) -> Result<(), NoRoom> {
        let key = self.prepare_log(ports, streams, disk)?;
        let open = streams
            .tables
            .segments
            .stream(key)
            .expect("the stream is open");
        let page = open.chunk.expect("the chunk is open").page;
        let generation = streams.tables.segments.table().get(open.segment).generation;
        let header = Position::of_page(generation, page);
        let at = streams.logs.next_erasure(disk, header);
        let after = streams.tables.segments.place_erasure(key, ports.now());
        let content = streams
            .tables
            .segments
            .content_mut(key)
            .expect("the stream is open");
        let chunk = content.chunk.as_mut().expect("the chunk is open");
        let at_flash = DirtyRecord::Erasure(erasure);
        chunk.records.push(at_flash);
        let what = What::Erasure(erasure);
        let Streams { logs, tables, .. } = &mut *streams;
        logs.accept(ports, tables, disk, Record { at, what }, &at_flash, None);
        self.after(ports, streams, key, after);
        Ok(())
    }

    fn prepare_log<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_, P>,
        disk: DiskSlot,
    ) -> Result<StreamKey, NoRoom> {
        let key = StreamKey::of(disk, Source::Dirty);
        if !streams.logs.has_place(disk) {
            return Err(NoRoom::Buffer);
        }
        if !streams.intake.takes(disk) || !self.ensure_chunk(ports, streams, key) {
            return Err(NoRoom::Segment);
        }
        streams.logs.begin_chunk(ports, &streams.tables, key);
        Ok(key)
    }

    /// Writes the open chunk of a dirty log, which the stream has just sealed.
    pub(super) fn write_log_chunk<T: Tag<Payload = P>>(
        &mut self,
        ports: &mut Ports<T>,
        streams: &mut Streams<'_, P>,
        disk: DiskSlot,
        sealed: &Sealed,
        mut gathered: Gathered<P>,
    ) {
        let records = std::mem::take(&mut gathered.records);
        let of_log = streams.logs.seal(&streams.tables, disk, sealed, records);
        let uuid = self.identity.uuid;
        let chunk = Chunk::of(disk, sealed, gathered, Some(of_log.of_log), || {
            of_log.header.encode(uuid)
        });
        self.write_chunk(ports, sealed, chunk, of_log.durable);
    }
}
