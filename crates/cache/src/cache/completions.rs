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
use block_store::{Own, Progress, Purpose};
use units::{DiskSlot, Instant};

impl Cache {
    /// A flash operation has ended.
    ///
    /// # Panics
    /// If it was not issued by this cache, or has ended before.
    pub fn flash_done(&mut self, done: FlashDone, now: Instant) {
        self.state.ports.set_now(now);
        let (purpose, time) = self.state.ports.store.completed(done.token);
        match purpose {
            Purpose::Caller(ReadPurpose::Hit(hit)) => {
                self.state.admission.flash_took(time);
                self.state.backs.flash_took(time);
                let is_in_time = time < self.state.config.flash_timeout;
                let filled = match done.place {
                    Some(place) => Filled::Theirs(place),
                    None => Filled::Ours(done.buf),
                };
                let mut reads = self.state.guest_reads();
                reads.took(&hit, is_in_time);
                reads.hit_done(&hit, filled, done.result);
                return self.pump_soon();
            }
            Purpose::Caller(ReadPurpose::MergeHit(hit)) => {
                self.state
                    .back_requests()
                    .merge_hit_done(&hit, done.buf, done.result);
            }
            Purpose::Caller(ReadPurpose::DestageRead(read)) => {
                self.state.destager().read_done(read, done.buf, done.result);
            }
            Purpose::Caller(ReadPurpose::Loan(read)) => {
                let mut lending = Lending::new(
                    &mut self.state.loans,
                    &mut self.state.flash,
                    &self.state.disks,
                    &mut self.state.ports,
                );
                lending.read_done(read, done.buf, done.result);
            }
            Purpose::Caller(ReadPurpose::Scrub(read)) => {
                self.state
                    .scrubber()
                    .read_done(read, done.buf.as_ref().filter(|_| done.result.is_ok()));
            }
            Purpose::Store(own) => self.store_done(own, done.result.is_ok(), done.buf),
        }
        self.pump();
    }

    /// An operation of the store's own has ended; what has come of it goes on.
    fn store_done(&mut self, own: Own, ok: bool, read: Option<Buf>) {
        let Some(flash) = self.state.flash.as_mut() else {
            return;
        };
        match flash.completed(&mut self.state.ports.store, own, ok, read) {
            Progress::None => {}
            Progress::Room => {
                self.state.backs.schedule_waiting(&mut self.state.ports);
                self.state.guest_reads().step_prefetches();
            }
            Progress::Journal => {
                let is_durable = |ticket| flash.journal().is_durable(ticket);
                while let Some(write) = self.state.writes.pop_durable(is_durable) {
                    self.state.ports.wake(Wake::Write(write));
                }
                self.state.backs.schedule_waiting(&mut self.state.ports);
            }
            Progress::Checkpoint => self.state.backs.schedule_waiting(&mut self.state.ports),
        }
    }

    /// An origin operation has ended.
    ///
    /// # Panics
    /// If it was not issued by this cache, or has ended before.
    pub fn origin_done(&mut self, done: OriginDone, now: Instant) {
        self.state.ports.set_now(now);
        let (purpose, time) = self.state.ports.origin_completed(done.token);
        if done.volatile {
            let disk = purpose.disk_of_read(self.state.reads.fills());
            self.late_change_read(disk);
        }
        match purpose {
            OriginPurpose::Fill(fill) => {
                self.state
                    .backs
                    .read_took(self.state.reads.fills().disk(fill), time);
                if let Some(tenant) = self
                    .state
                    .disks
                    .tenant_of(self.state.reads.fills().disk(fill))
                {
                    self.state.admission.origin_took(tenant, time);
                }
                self.state.guest_reads().fill_done(fill, done, time);
            }
            OriginPurpose::Direct {
                read,
                part,
                disk,
                skip,
                length,
            } => {
                self.state.backs.read_took(disk, time);
                let bytes = bytes_of(done, skip, length);
                self.state
                    .guest_reads()
                    .direct_done(read, part, disk, bytes);
            }
            OriginPurpose::GuestWrite(write) => {
                self.state.through().origin_write_done(write, done.result);
                self.state.backs.schedule_waiting(&mut self.state.ports);
            }
            OriginPurpose::MergeFill(merge) => {
                let bytes = bytes_of(done, 0, PAGE_BYTES);
                self.state.back_requests().merge_fill_done(merge, bytes);
            }
            OriginPurpose::DestageWrite(disk, write) => {
                self.state.destager().write_done(disk, write, done.result);
            }
            OriginPurpose::DestageFlush(disk, flush) => {
                self.state.ports.schedule(disk);
                if done.result.is_err() {
                    self.state.origin_flushes().destage_failed(disk);
                }
                self.state.destager().flush_done(disk, flush, done.result);
            }
            OriginPurpose::Flush(flush) => self.flush_done(flush, done.result),
        }
        self.pump();
    }

    /// A read has brought what a change has left that the origin had given up. For flushes of the origin that change
    /// ends only now.
    fn late_change_read(&mut self, disk: Option<DiskSlot>) {
        let Some(disk) = disk else {
            return;
        };
        if let Some(flash) = self.state.flash.as_mut()
            && holds(Guard::LateBytesAreFlushed)
        {
            flash.origins_mut().write_ended(disk);
        }
        self.state.disks.late_reads(disk).read();
    }

    /// A flush of an origin has ended that was not a destage's.
    fn flush_done(&mut self, flush: OriginFlush, result: Result<(), IoError>) {
        let OriginFlush { disk, since, .. } = flush;
        let is_told = matches!(
            flush.purpose,
            FlushPurpose::Guest {
                asked: Asked::Flush,
                ..
            } | FlushPurpose::LateReads { .. }
        );
        if matches!(flush.purpose, FlushPurpose::Own)
            && let Some(flash) = self.state.flash.as_mut()
        {
            flash.origins_mut().flush_ended(disk);
        }
        let result = self
            .state
            .origin_flushes()
            .ended(disk, since, result, is_told);
        match flush.purpose {
            // The guest's next flush fails in its place.
            FlushPurpose::Own => {}
            FlushPurpose::Enter { number } => self.state.changes().flushed(disk, number, result),
            FlushPurpose::Demand { id } => {
                let result = result.map_err(ControlError::Origin);
                let result = result.map(|()| ControlOutcome::Done);
                self.state.ports.push(Effect::ControlDone { id, result });
            }
            FlushPurpose::LateReads { request, ended } if result.is_ok() => {
                self.state.disks.late_reads(disk).flushed(ended);
                self.flush(request, disk);
            }
            FlushPurpose::Guest { request, .. } | FlushPurpose::LateReads { request, .. } => {
                let was_told = is_told && self.state.disks.tells_of_failed_flush(disk);
                let result = if was_told {
                    result.and(Err(IoError::Failed))
                } else {
                    result
                };
                self.state
                    .disks
                    .reply(&mut self.state.ports, disk, request, result);
            }
        }
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
