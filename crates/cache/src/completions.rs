//! Operations of the flash and of the origins that have ended: to whoever asked for them.

use crate::cache::Cache;
use crate::landing::Filled;
use crate::ports::{Purpose, Wake};
use block_io::{FlashDone, IoError, OriginDone, PAGE_BYTES, Payload, Slice};
use units::Instant;

impl Cache {
    /// A flash operation has ended.
    ///
    /// # Panics
    /// If it was not issued by this cache, or has ended before.
    pub fn flash_done(&mut self, done: FlashDone, now: Instant) {
        self.ports.now = now;
        let io = self.ports.complete(done.token);
        let time = io.time(self.ports.attended());
        let ok = done.result.is_ok();
        if let Purpose::Hit(hit) = io.purpose {
            self.hit_took(&hit, time);
            let filled = match done.place {
                Some(place) => Filled::Theirs(place),
                None => Filled::Ours(done.buf),
            };
            self.hit_done(&hit, filled, done.result);
            return self.pump_soon();
        }
        if let Purpose::MergeHit(hit) = io.purpose {
            self.merge_hit_done(&hit, done.buf, done.result);
        } else if let Purpose::DestageRead(read) = io.purpose {
            self.destage_read_done(read, done.buf, done.result);
        } else if let Some(flash) = self.flash.as_mut() {
            let ports = &mut self.ports;
            let buf = done.buf.filter(|_| ok);
            match io.purpose {
                Purpose::Chunk(id) => {
                    flash.chunk_done(ports, id, ok);
                    self.has_room_again();
                }
                Purpose::Footer(segment) => flash.footer_done(ports, segment, ok),
                Purpose::Journal if ok => {
                    flash.journal_done(ports);
                    self.stir_waiting();
                }
                Purpose::Journal => ports
                    .wakes
                    .push(Wake::FlashFailed("the journal could not be written")),
                Purpose::CheckpointPages => flash.checkpoint_pages_done(ports, ok),
                Purpose::Superblock => {
                    flash.superblock_done(ports, ok);
                    self.stir_waiting();
                }
                Purpose::ReclaimFooter => flash.reclaim_footer_done(ports, buf.as_deref()),
                Purpose::ReclaimRun { first, count } => {
                    flash.reclaim_run_done(ports, first, count, buf.as_ref());
                }
                Purpose::LogFlush(disk) if ok => {
                    flash.log_flush_done(ports, disk);
                    ports.stir(disk);
                }
                Purpose::LogFlush(_) => ports
                    .wakes
                    .push(Wake::FlashFailed("a dirty log could not be made durable")),
                Purpose::FlashFlush if ok => {}
                Purpose::FlashFlush => flash.failed(ports),
                Purpose::Hit(_)
                | Purpose::Fill(_)
                | Purpose::Direct { .. }
                | Purpose::OriginWrite(_)
                | Purpose::OriginFlush { .. }
                | Purpose::OwnFlush { .. }
                | Purpose::MergeHit(_)
                | Purpose::MergeFill(_)
                | Purpose::DestageRead(_)
                | Purpose::DestageWrite(..)
                | Purpose::DestageFlush(..)
                | Purpose::EnterFlush(..)
                | Purpose::DemandFlush { .. } => {
                    panic!("an origin operation ended as a flash operation")
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
        let io = self.ports.complete(done.token);
        let time = io.time(self.ports.attended());
        match io.purpose {
            Purpose::Fill(fill) => {
                self.read_took(self.fills.disk(fill), time);
                if let Some(tenant) = self.tenant_of(self.fills.disk(fill)) {
                    self.brain.origin_took(tenant, time);
                }
                self.fill_done(fill, done.buf, done.result);
            }
            Purpose::Direct {
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
            Purpose::OriginWrite(write) => {
                self.origin_write_done(write, done.result);
                self.stir_waiting();
            }
            Purpose::MergeFill(merge) => {
                let bytes = bytes_of(done, 0, PAGE_BYTES);
                self.merge_fill_done(merge, bytes);
            }
            Purpose::DestageWrite(disk, write) => {
                self.destage_write_done(disk, write, done.result);
            }
            Purpose::DestageFlush(disk, flush) => {
                self.destage_flush_done(disk, flush, done.result);
            }
            Purpose::EnterFlush(disk, number) => {
                self.enter_flush_done(disk, number, done.result);
            }
            Purpose::DemandFlush { id, disk, count } => {
                self.demand_flush_done(id, disk, count, done.result);
            }
            Purpose::OwnFlush { disk, count } => {
                if let Some(flash) = self.flash.as_mut() {
                    flash.own_flush_ended(disk);
                }
                self.origin_flushed(disk, count, done.result.is_ok(), false);
            }
            Purpose::OriginFlush {
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
            other => panic!("a flash operation ended as an origin operation: {other:?}"),
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
