//! Operations of the flash and of the origins that have ended: to whoever asked for them.

use crate::cache::Cache;
use crate::landing::Filled;
use crate::ports::{FlashPurpose, OriginPurpose, Wake};
use block_io::{FlashDone, IoError, OriginDone, PAGE_BYTES, Payload, Slice};
use units::Instant;

impl Cache {
    /// A flash operation has ended.
    ///
    /// # Panics
    /// If it was not issued by this cache, or has ended before.
    pub fn flash_done(&mut self, done: FlashDone, now: Instant) {
        self.ports.now = now;
        let (purpose, time) = self.ports.flash_completed(done.token);
        let ok = done.result.is_ok();
        if let FlashPurpose::Hit(hit) = purpose {
            self.hit_took(&hit, time);
            let filled = match done.place {
                Some(place) => Filled::Theirs(place),
                None => Filled::Ours(done.buf),
            };
            self.hit_done(&hit, filled, done.result);
            return self.pump_soon();
        }
        if let FlashPurpose::MergeHit(hit) = purpose {
            self.merge_hit_done(&hit, done.buf, done.result);
        } else if let FlashPurpose::DestageRead(read) = purpose {
            self.destage_read_done(read, done.buf, done.result);
        } else if let Some(flash) = self.flash.as_mut() {
            let ports = &mut self.ports;
            let buf = done.buf.filter(|_| ok);
            match purpose {
                FlashPurpose::Chunk(id) => {
                    flash.chunk_done(ports, id, ok);
                    self.has_room_again();
                }
                FlashPurpose::Footer(segment) => flash.footer_done(ports, segment, ok),
                FlashPurpose::Journal if ok => {
                    flash.journal_done(ports);
                    let is_durable = |ticket| flash.is_durable(ticket);
                    while let Some(write) = self.writes.pop_durable(is_durable) {
                        ports.wakes.push(Wake::Write(write));
                    }
                    self.stir_waiting();
                }
                FlashPurpose::Journal => ports
                    .wakes
                    .push(Wake::FlashFailed("the journal could not be written")),
                FlashPurpose::CheckpointPages => flash.checkpoint_pages_done(ports, ok),
                FlashPurpose::Superblock => {
                    flash.superblock_done(ports, ok);
                    self.stir_waiting();
                }
                FlashPurpose::ReclaimFooter => flash.reclaim_footer_done(ports, buf.as_deref()),
                FlashPurpose::ReclaimRun { first, count } => {
                    flash.reclaim_run_done(ports, first, count, buf.as_ref());
                }
                FlashPurpose::LogFlush(disk) if ok => {
                    flash.log_flush_done(ports, disk);
                    ports.stir(disk);
                }
                FlashPurpose::LogFlush(_) => ports
                    .wakes
                    .push(Wake::FlashFailed("a dirty log could not be made durable")),
                FlashPurpose::FlashFlush if ok => {}
                FlashPurpose::FlashFlush => flash.failed(ports),
                // Done with above, with the flash or without.
                FlashPurpose::Hit(_) | FlashPurpose::MergeHit(_) | FlashPurpose::DestageRead(_) => {
                }
            }
        }
        self.pump();
    }

    /// An origin operation has ended.
    ///
    /// # Panics
    /// If it was not issued by this cache, or has ended before.
    pub fn origin_done(&mut self, done: OriginDone, now: Instant) {
        self.ports.now = now;
        let (purpose, time) = self.ports.origin_completed(done.token);
        match purpose {
            OriginPurpose::Fill(fill) => {
                self.read_took(self.fills.disk(fill), time);
                if let Some(tenant) = self.tenant_of(self.fills.disk(fill)) {
                    self.admission.origin_took(tenant, time);
                }
                self.fill_done(fill, done.buf, done.result);
            }
            OriginPurpose::Direct {
                read,
                part,
                disk,
                skip,
                length,
            } => {
                self.read_took(disk, time);
                let bytes = bytes_of(done, skip, length);
                self.direct_done(read, part, disk, bytes);
            }
            OriginPurpose::GuestWrite(write) => {
                self.origin_write_done(write, done.result);
                self.stir_waiting();
            }
            OriginPurpose::MergeFill(merge) => {
                let bytes = bytes_of(done, 0, PAGE_BYTES);
                self.merge_fill_done(merge, bytes);
            }
            OriginPurpose::DestageWrite(disk, write) => {
                self.destage_write_done(disk, write, done.result);
            }
            OriginPurpose::DestageFlush(disk, flush) => {
                self.destage_flush_done(disk, flush, done.result);
            }
            OriginPurpose::EnterFlush(disk, number) => {
                self.enter_flush_done(disk, number, done.result);
            }
            OriginPurpose::DemandFlush { id, disk, count } => {
                self.demand_flush_done(id, disk, count, done.result);
            }
            OriginPurpose::OwnFlush { disk, count } => {
                if let Some(flash) = self.flash.as_mut() {
                    flash.own_flush_ended(disk);
                }
                self.origin_flushed(disk, count, done.result.is_ok(), false);
            }
            OriginPurpose::GuestFlush {
                request,
                disk,
                count,
            } => {
                self.origin_flushed(disk, count, done.result.is_ok(), true);
                let result = if self.tells_of_failed_flush(disk) {
                    done.result.and(Err(IoError::Failed))
                } else {
                    done.result
                };
                self.reply(disk, request, result.map(|()| Payload::new()));
            }
        }
        self.pump();
    }
}

/// A part of what a read of an origin has brought.
fn bytes_of(done: OriginDone, skip: usize, length: usize) -> Result<Slice, IoError> {
    match (done.result, done.buf) {
        (Ok(()), Some(buf)) => Ok(buf.freeze().slice(skip..skip + length)),
        (Err(error), _) => Err(error),
        (Ok(()), None) => Err(IoError::Failed),
    }
}
