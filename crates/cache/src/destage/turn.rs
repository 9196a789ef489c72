//! One turn of the transfer: whatever can be begun now.

use super::batch::Batch;
use super::pace::{Go, Need};
use super::plan::Piece;
use super::{Destage, Flushing, Paused};
use crate::back::{Back, Phase};
use crate::cache::Cache;
use crate::dirty::DirtyDisk;
use crate::dirty::log::DirtyLog;
use crate::flash::Flash;
use crate::guard::{Guard, holds};
use crate::limits::DESTAGE_FLUSH_PARTS;
use crate::ports::Purpose;
use crate::write_back::{DestageState, LockReason};
use block_io::{IoError, OriginVerb, PAGE_BYTES, Slice};
use flash_format::ErasureKind;
use segment_log::SEGMENTS_RESERVED;
use units::{BLOCK_BYTES, Bytes, DiskSlot};

/// A write or flush of the origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DestageWrite {
    pub(crate) disk: DiskSlot,
    batch: u64,
    bytes: u64,
}

impl Cache {
    /// Brings of a disk's log to its origin what can be brought now.
    pub(crate) fn pump_destage(&mut self, disk: DiskSlot) {
        let Some(mut back) = self.backs.take(disk) else {
            return;
        };
        while self.turn_destage(disk, &mut back) {}
        self.backs.set(disk, back);
    }

    /// True if something has changed that may let more be done.
    fn turn_destage(&mut self, disk: DiskSlot, back: &mut Back) -> bool {
        let now = self.ports.now;
        let locked = back.phase == Phase::Locked
            || self
                .dirty_flash()
                .and_then(|flash| flash.dirty.get(disk))
                .is_none_or(|dirty| dirty.locked.is_some());
        if locked || self.waits_for_retirement() {
            return false;
        }
        if let Some(failing) = back.destage.failing
            && now < failing.until
        {
            self.ports.wake_at(failing.until);
            return false;
        }
        let wanted = self.wanted_to(disk, back);
        let wanted = self.durable_to(disk, back, wanted);
        let began = self.load_next(disk, back, wanted);
        let destage = &mut back.destage;
        if destage.writing.is_none()
            && destage.flushing.is_none()
            && destage
                .loading
                .as_ref()
                .is_some_and(|batch| batch.reads_left == 0)
        {
            if !self.knows_watermark(disk, &back.destage) {
                return began;
            }
            let destage = &mut back.destage;
            destage.writing = destage.loading.take();
            return self.begin_batch(disk, back, wanted);
        }
        self.write_pieces(disk, back);
        let done = back.destage.writing.as_ref().is_some_and(Batch::is_done);
        (done && self.end_batch(disk, back, wanted)) || began
    }

    /// The number before which everything should go to the origin now.
    fn wanted_to(&self, disk: DiskSlot, back: &Back) -> u64 {
        let Some(flash) = self.dirty_flash() else {
            return 0;
        };
        let Some(dirty) = flash.dirty.get(disk) else {
            return 0;
        };
        let (log, now, settings) = (&dirty.log, self.ports.now, &back.settings);
        if log.is_empty() || back.holds_still() {
            return 0;
        }
        if self.hurries(disk, back) {
            // Out of order what was asked for may have been written again since: only the newest of a
            // block goes to the origin, and what is older waits for it.
            let all = back.is_leaving() || self.flash.is_none() || !back.goes_in_order(log);
            return if all { log.end() } else { back.destage.demand };
        }
        let is_long = log.logged().get() > settings.dirty_max.get() / 2;
        let is_old = log
            .oldest()
            .is_some_and(|at| now.since(at) >= settings.age_max);
        let is_idle = now.since(back.asked_at()) >= settings.idle_after;
        // What reclaim could free is all dirty.
        let is_short = flash.log.free_count() <= SEGMENTS_RESERVED && flash.log.closed_count() == 0;
        if is_long || is_old || is_idle || is_short {
            log.end()
        } else {
            0
        }
    }

    /// The number before which everything may go to the origin now: it has to be durable here, or a
    /// power cut would leave the origin with what its guest then never wrote.
    fn durable_to(&mut self, disk: DiskSlot, back: &Back, wanted: u64) -> u64 {
        let hurries = self.hurries(disk, back);
        let Some(flash) = self.flash.as_mut() else {
            return wanted;
        };
        if !holds(Guard::DurableBeforeDestage) {
            return wanted;
        }
        let durable = |flash: &Flash| flash.dirty.get(disk).map_or(0, DirtyDisk::durable);
        if durable(flash) < wanted {
            flash.want_durable(&mut self.ports, disk, wanted, hurries);
        }
        wanted.min(durable(flash))
    }

    /// Whether the batch that is read may be written: no block of it, if one was settled of which a
    /// recovery does not know. It would write the older version again, beside later ones.
    fn knows_watermark(&mut self, disk: DiskSlot, destage: &Destage) -> bool {
        let Some(flash) = self.flash.as_mut() else {
            return true;
        };
        let (Some(batch), Some(dirty)) = (&destage.loading, flash.dirty.get(disk)) else {
            return true;
        };
        if dirty.released() >= dirty.log.base() || !holds(Guard::WatermarkBeforeNext) {
            return true;
        }
        let erases = batch.pieces.iter().any(Piece::erases);
        if !erases && !dirty.bars(batch.pieces.iter().flat_map(Piece::each)) {
            return true;
        }
        flash.journal.hurry();
        false
    }

    /// Whether everything has to reach the origin, whatever it costs.
    fn hurries(&self, disk: DiskSlot, back: &Back) -> bool {
        let log = self.dirty_flash().and_then(|flash| flash.dirty.get(disk));
        let log = log.map(|dirty| &dirty.log);
        let base = log.map_or(0, DirtyLog::base);
        let is_asked = back.destage.demand > base
            || (back.has_demands() && log.is_some_and(|log| back.returns_to_order(log)));
        is_asked || back.is_leaving() || self.flash.is_none()
    }

    /// A batch is read: it is written now, unless it is not what it should be.
    fn begin_batch(&mut self, disk: DiskSlot, back: &mut Back, wanted: u64) -> bool {
        let Some(batch) = back.destage.writing.as_ref() else {
            return false;
        };
        if batch.is_bad {
            self.lock_log(disk, back, LockReason::Damaged);
            return false;
        }
        if let Some(error) = batch.error {
            if self.flash.is_none() {
                self.lock_log(disk, back, LockReason::FlashLost);
            } else {
                back.destage.give_up(error, self.ports.now);
                self.wake_when_retried(back);
            }
            return false;
        }
        let flushed = back.destage.unflushed == 0 || !holds(Guard::FlushWhatWasPlain);
        let alone = flushed && batch.pieces.len() == 1;
        let settles = batch.ends || batch.to >= wanted;
        if let Some(batch) = back.destage.writing.as_mut() {
            batch.fua = alone && settles;
        }
        true
    }

    /// Sends pieces of the batch to the origin, as many as may be on their way.
    fn write_pieces(&mut self, disk: DiskSlot, back: &mut Back) {
        let need = if self.hurries(disk, back) {
            Need::All
        } else if back.has_waiting_writes() {
            Need::Room
        } else {
            Need::Idle
        };
        let now = self.ports.now;
        let flash_reads = &self.backs.flash_reads;
        let Destage {
            writing,
            pace,
            paused,
            ..
        } = &mut back.destage;
        let Some(batch) = writing.as_mut() else {
            return;
        };
        *paused = None;
        while batch.error.is_none() && batch.issued < batch.pieces.len() {
            let piece = &batch.pieces[batch.issued];
            let bytes = match piece {
                Piece::Data { .. } => piece.blocks() * BLOCK_BYTES,
                Piece::Erasure(_) => 0,
            };
            let in_flight = batch.in_flight;
            match pace.ask(bytes, in_flight, back.settings.rate, need, flash_reads, now) {
                Go::Now => {}
                Go::Full => return,
                Go::Rate(until) => {
                    *paused = Some(Paused::Rate);
                    self.ports.wake_at(until);
                    return;
                }
                Go::Latency(until) => {
                    *paused = Some(Paused::Latency);
                    self.ports.wake_at(until);
                    return;
                }
            }
            let verb = verb_of(piece, &batch.pages, batch.fua, &self.ports.pool);
            batch.issued += 1;
            batch.in_flight += 1;
            self.disk_stats[disk.index()].origin_written_bytes += bytes;
            let write = DestageWrite {
                disk,
                batch: batch.id,
                bytes,
            };
            self.ports.origin(Purpose::DestageWrite(write), disk, verb);
        }
    }

    /// A piece of a batch is at the origin, or could not be brought there.
    pub(crate) fn destage_write_done(&mut self, write: DestageWrite, result: Result<(), IoError>) {
        self.ports.stir(write.disk);
        self.disk_stats(write.disk).origin_errors += u64::from(result.is_err());
        let Some(back) = self.backs.get_mut(write.disk) else {
            return;
        };
        let destage = &mut back.destage;
        let writing = destage.writing.as_mut();
        let Some(batch) = writing.filter(|batch| batch.id == write.batch) else {
            return;
        };
        batch.in_flight -= 1;
        match result {
            Ok(()) => {
                destage.unflushed += write.bytes.max(BLOCK_BYTES);
                destage.pace.wrote();
                self.disk_stats(write.disk).destaged_bytes += write.bytes;
            }
            Err(error) => batch.error = Some(error),
        }
    }

    /// Every piece of a batch has ended.
    fn end_batch(&mut self, disk: DiskSlot, back: &mut Back, wanted: u64) -> bool {
        let Some(batch) = back.destage.writing.take() else {
            return false;
        };
        if let Some(error) = batch.error {
            self.origin_refused(disk, back, error);
            return false;
        }
        // It may have been the last of its interval only since it was chosen.
        let dirty = self.dirty_flash().and_then(|flash| flash.dirty.get(disk));
        let began = dirty.is_some_and(|dirty| dirty.log.begins_at(batch.to));
        let ends = batch.ends || (began && holds(Guard::IntervalOrder));
        let destage = &mut back.destage;
        if batch.fua {
            self.settle_log(disk, back, batch.to, batch.some);
            return true;
        }
        let enough = back.settings.dirty_max.get() / DESTAGE_FLUSH_PARTS;
        let more = destage.loading.is_some() || destage.loaded_to < wanted;
        if more && !ends && destage.unflushed < enough {
            return true;
        }
        let (id, to, some) = (batch.id, batch.to, batch.some);
        if !holds(Guard::OriginFlushBeforeSettled) {
            self.settle_log(disk, back, to, some);
            return true;
        }
        destage.flushing = Some(Flushing { id, to, some });
        let write = DestageWrite {
            disk,
            batch: id,
            bytes: 0,
        };
        self.ports
            .origin(Purpose::DestageFlush(write), disk, OriginVerb::Flush);
        false
    }

    /// A flush of the origin has ended.
    pub(crate) fn destage_flush_done(&mut self, flush: DestageWrite, result: Result<(), IoError>) {
        self.ports.stir(flush.disk);
        let Some(mut back) = self.backs.take(flush.disk) else {
            return;
        };
        let flushing = back.destage.flushing.take();
        if let Some(flushing) = flushing {
            if flushing.id != flush.batch {
                back.destage.flushing = Some(flushing);
            } else if let Err(error) = result {
                self.disk_stats(flush.disk).origin_errors += 1;
                self.origin_refused(flush.disk, &mut back, error);
            } else {
                self.settle_log(flush.disk, &mut back, flushing.to, flushing.some);
            }
        }
        self.backs.set(flush.disk, back);
    }

    fn origin_refused(&mut self, disk: DiskSlot, back: &mut Back, error: IoError) {
        back.destage.give_up(error, self.ports.now);
        self.wake_when_retried(back);
        self.fail_demands(disk, back, error);
    }

    fn wake_when_retried(&mut self, back: &Back) {
        if let Some(failing) = back.destage.failing {
            self.ports.wake_at(failing.until);
        }
    }

    /// The origin has what a batch had, and what was written before it, durably.
    fn settle_log(&mut self, disk: DiskSlot, back: &mut Back, to: u64, some: Option<Vec<u64>>) {
        let before = self.dirty_bytes(disk).get();
        match (self.flash.as_mut(), self.wreck.as_mut(), some) {
            (Some(flash), _, None) => flash.settle(&mut self.ports, disk, to),
            (Some(flash), _, Some(some)) => flash.settle_some(&mut self.ports, disk, &some),
            // Nothing is written to it any more.
            (None, Some(wreck), some) => {
                if let Some(dirty) = wreck.dirty.get_mut(disk) {
                    match some {
                        None => dirty.log.settle(to, |_, _| {}),
                        Some(some) => dirty.log.settle_some(some.into_iter(), |_, _| {}),
                    }
                }
            }
            (None, None, _) => {}
        }
        let destage = &mut back.destage;
        destage.unflushed = 0;
        destage.failing = None;
        let gone = before.saturating_sub(self.dirty_bytes(disk).get());
        if back.phase == Phase::Leaving {
            back.credit_for(gone);
        }
        // There is room for writes that wait.
        self.ports.stir(disk);
    }

    /// Nothing of the log goes to the origin before the operator has decided.
    pub(crate) fn lock_log(&mut self, disk: DiskSlot, back: &mut Back, reason: LockReason) {
        back.destage.begin_anew();
        if let Some(dirty) = self
            .dirty_flash_mut()
            .and_then(|flash| flash.dirty.get_mut(disk))
        {
            dirty.locked = Some(reason);
        }
        if self.flash.is_none() {
            back.phase = Phase::Locked;
        }
        self.ports.stir(disk);
    }

    /// Flash that has failed does not give what the origin lacks.
    pub(crate) fn lose_log(&mut self, disk: DiskSlot) {
        if let Some(mut back) = self.backs.take(disk) {
            self.lock_log(disk, &mut back, LockReason::FlashLost);
            self.backs.set(disk, back);
        }
    }

    pub(crate) fn destage_state(&self, disk: DiskSlot, back: &Back) -> DestageState {
        let dirty = self.dirty_flash().and_then(|flash| flash.dirty.get(disk));
        if let Some(reason) = dirty.and_then(|dirty| dirty.locked) {
            return DestageState::Locked(reason);
        }
        let destage = &back.destage;
        match (destage.failing, destage.paused) {
            (Some(failing), _) => DestageState::Failing {
                since: failing.since,
                error: failing.error,
            },
            _ if destage.is_idle() => DestageState::Idle,
            _ if self.hurries(disk, back) => DestageState::Draining,
            (None, Some(Paused::Rate)) => DestageState::PausedByRate,
            (None, Some(Paused::Latency)) => DestageState::PausedByLatency,
            (None, None) => DestageState::Running,
        }
    }
}

fn verb_of(
    piece: &Piece,
    pages: &units::Map<u64, Slice>,
    fua: bool,
    pool: &block_io::BufPool,
) -> OriginVerb {
    match piece {
        Piece::Data { first, numbers } => {
            let page = |number: &u64| pages.get(number).expect("the batch was read");
            let data = if let [number] = &numbers[..] {
                page(number).clone()
            } else {
                let length = numbers.len() * PAGE_BYTES;
                let mut buf = pool.take(length);
                for (number, to) in numbers.iter().zip(buf.chunks_exact_mut(PAGE_BYTES)) {
                    to.copy_from_slice(page(number));
                }
                buf.freeze().slice(0..length)
            };
            OriginVerb::Write {
                offset: first.start(),
                data,
                fua,
            }
        }
        Piece::Erasure(erasure) => {
            let offset = erasure.first.start();
            let length = Bytes::new(u64::from(erasure.blocks) * BLOCK_BYTES);
            // Readers have seen zeroes, so zeroes it must be: an origin may ignore a discard.
            let may_unmap = match erasure.kind {
                ErasureKind::Discard => true,
                ErasureKind::Zeroes { may_unmap } => may_unmap,
            };
            OriginVerb::WriteZeroes {
                offset,
                length,
                may_unmap,
                fua,
            }
        }
    }
}
