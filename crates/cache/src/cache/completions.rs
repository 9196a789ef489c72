//! Operations of the flash and of the origins that have ended: to whoever asked for them.

use super::Cache;
use crate::api::{ControlError, ControlOutcome, Effect};
use crate::guard::{Guard, holds};
use crate::lending::Lending;
use crate::ports::Wake;
use crate::purpose::{FlushPurpose, OriginFlush, OriginPurpose, ReadPurpose};
use crate::reads::Filled;
use crate::request::Asked;
use block_io::{Buf, FlashDone, IoError, OriginDone, PAGE_BYTES, Slice};
use block_store::{Own, Progress, Purpose, Store};
use units::{DiskSlot, Instant};

impl Cache {
    /// A flash operation has ended.
    ///
    /// # Panics
    /// If it was not issued by this cache, or has ended before.
    pub fn flash_done(&mut self, done: FlashDone, now: Instant) {
        self.ports.set_now(now);
        let (purpose, time) = self.ports.store.completed(done.token);
        match purpose {
            Purpose::Caller(ReadPurpose::Hit(hit)) => {
                self.admission.flash_took(time);
                self.backs.flash_took(time);
                let is_in_time = time < self.config.flash_timeout;
                let filled = match done.place {
                    Some(place) => Filled::Theirs(place),
                    None => Filled::Ours(done.buf),
                };
                let mut reads = self.guest_reads();
                reads.took(&hit, is_in_time);
                reads.hit_done(&hit, filled, done.result);
                return self.pump_soon();
            }
            Purpose::Caller(ReadPurpose::MergeHit(hit)) => {
                self.back_requests()
                    .merge_hit_done(&hit, done.buf, done.result);
            }
            Purpose::Caller(ReadPurpose::DestageRead(read)) => {
                self.destager().read_done(read, done.buf, done.result);
            }
            Purpose::Caller(ReadPurpose::Loan(read)) => {
                let mut lending = Lending::new(
                    &mut self.loans,
                    &mut self.flash,
                    &self.disks,
                    &mut self.ports,
                );
                lending.read_done(read, done.buf, done.result);
            }
            Purpose::Store(own) => self.store_done(own, done.result.is_ok(), done.buf),
        }
        self.pump();
    }

    /// An operation of the store's own has ended; what has come of it goes on.
    fn store_done(&mut self, own: Own, ok: bool, read: Option<Buf>) {
        let Some(flash) = self.flash.as_mut() else {
            return;
        };
        match flash.completed(&mut self.ports.store, own, ok, read) {
            Progress::None => {}
            Progress::Room => {
                self.backs.schedule_waiting(&mut self.ports);
                self.guest_reads().step_prefetches();
            }
            Progress::Journal => {
                let is_durable = |ticket| flash.journal().is_durable(ticket);
                while let Some(write) = self.writes.pop_durable(is_durable) {
                    self.ports.wake(Wake::Write(write));
                }
                self.backs.schedule_waiting(&mut self.ports);
            }
            Progress::Checkpoint => self.backs.schedule_waiting(&mut self.ports),
        }
    }

    /// An origin operation has ended.
    ///
    /// # Panics
    /// If it was not issued by this cache, or has ended before.
    pub fn origin_done(&mut self, done: OriginDone, now: Instant) {
        self.ports.set_now(now);
        let (purpose, time) = self.ports.origin_completed(done.token);
        if done.volatile {
            let disk = purpose.disk_of_read(self.reads.fills());
            late_change_read(self.flash.as_mut(), disk);
        }
        match purpose {
            OriginPurpose::Fill(fill) => {
                self.backs.read_took(self.reads.fills().disk(fill), time);
                if let Some(tenant) = self.disks.tenant_of(self.reads.fills().disk(fill)) {
                    self.admission.origin_took(tenant, time);
                }
                self.guest_reads().fill_done(fill, done);
            }
            OriginPurpose::Direct {
                read,
                part,
                disk,
                skip,
                length,
            } => {
                self.backs.read_took(disk, time);
                let bytes = bytes_of(done, skip, length);
                self.guest_reads().direct_done(read, part, disk, bytes);
            }
            OriginPurpose::GuestWrite(write) => {
                self.through().origin_write_done(write, done.result);
                self.backs.schedule_waiting(&mut self.ports);
            }
            OriginPurpose::MergeFill(merge) => {
                let bytes = bytes_of(done, 0, PAGE_BYTES);
                self.back_requests().merge_fill_done(merge, bytes);
            }
            OriginPurpose::DestageWrite(disk, write) => {
                self.destager().write_done(disk, write, done.result);
            }
            OriginPurpose::DestageFlush(disk, flush) => {
                self.ports.schedule(disk);
                if done.result.is_err() {
                    // What the origin may have lost of the log comes again.
                    self.origin_flushes().may_have_lost(disk);
                }
                self.destager().flush_done(disk, flush, done.result);
            }
            OriginPurpose::Flush(flush) => self.flush_done(flush, done.result),
        }
        self.pump();
    }

    /// A flush of an origin has ended that was not a destage's.
    fn flush_done(&mut self, flush: OriginFlush, result: Result<(), IoError>) {
        let OriginFlush { disk, since, .. } = flush;
        let is_told = matches!(
            flush.purpose,
            FlushPurpose::Guest {
                asked: Asked::Flush,
                ..
            }
        );
        if matches!(flush.purpose, FlushPurpose::Own)
            && let Some(flash) = self.flash.as_mut()
        {
            flash.origins_mut().flush_ended(disk);
        }
        let result = self.origin_flushes().ended(disk, since, result, is_told);
        match flush.purpose {
            // The guest's next flush fails in its place.
            FlushPurpose::Own => {}
            FlushPurpose::Enter { number } => self.changes().flushed(disk, number, result),
            FlushPurpose::Demand { id } => {
                let result = result.map_err(ControlError::Origin);
                let result = result.map(|()| ControlOutcome::Done);
                self.ports.push(Effect::ControlDone { id, result });
            }
            FlushPurpose::Guest { request, .. } => {
                let was_told = is_told && self.disks.tells_of_failed_flush(disk);
                let result = if was_told {
                    result.and(Err(IoError::Failed))
                } else {
                    result
                };
                self.disks.reply(&mut self.ports, disk, request, result);
            }
        }
    }
}

/// For flushes of this disk's origin, a change that it had given up ends only now that it is read.
fn late_change_read(flash: Option<&mut Store>, disk: Option<DiskSlot>) {
    if let (Some(flash), Some(disk)) = (flash, disk)
        && holds(Guard::LateBytesAreFlushed)
    {
        flash.origins_mut().write_ended(disk);
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
