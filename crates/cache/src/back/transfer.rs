//! Bringing a dirty log to its origin: what [`destage`] decides, done with the flash and the origin.

use super::{Back, Backs, Phase};
use crate::api::ControlError;
use crate::disks::Disks;
use crate::flash_use::FlashUse;
use crate::guard::{Guard, holds};
use crate::host_record::HostRecord;
use crate::ports::Ports;
use crate::purpose::{DestageRead, OriginPurpose, ReadPurpose};
use crate::write_back::DestageState;
use block_io::{Buf, IoError, OriginVerb, PAGE_BYTES};
use block_store::{Damage, DirtyDisk, Location, LockReason};
use destage::{
    BatchPage, Batched, Carrier, Flushed, Need, Next, Paused, Piece, Sequence, Settles, Unfit,
    WriteId,
};
use dirty_log::{DirtyLog, RecordNumber};
use units::{BLOCK_BYTES, DiskSlot};

/// The parts of a cache that a destage has to do with.
pub(crate) struct Destager<'a> {
    backs: &'a mut Backs,
    flash: &'a mut FlashUse,
    disks: &'a mut Disks,
    ports: &'a mut Ports,
    host_record: &'a mut HostRecord,
}

impl<'a> Destager<'a> {
    /// For one event.
    pub(crate) fn new(
        backs: &'a mut Backs,
        flash: &'a mut FlashUse,
        disks: &'a mut Disks,
        ports: &'a mut Ports,
        host_record: &'a mut HostRecord,
    ) -> Self {
        Self {
            backs,
            flash,
            disks,
            ports,
            host_record,
        }
    }

    /// Brings of a disk's log to its origin what can be brought now.
    pub(crate) fn advance(&mut self, disk: DiskSlot) {
        let Some(mut back) = self.backs.take(disk) else {
            return;
        };
        while self.advance_once(disk, &mut back) {}
        self.backs.set(disk, back);
    }

    /// True if something has changed that may let more be done.
    fn advance_once(&mut self, disk: DiskSlot, back: &mut Back) -> bool {
        if back.is_held() {
            let ended = self.end_batch(disk, back, RecordNumber::FIRST);
            back.stand_still();
            return ended;
        }
        let locked = back.phase == Phase::Locked
            || self
                .flash
                .log_of(disk)
                .is_none_or(|dirty| dirty.locked().is_some());
        if locked || self.host_record.holds_logs_back(self.flash, self.ports) {
            return false;
        }
        if let Some(until) = back.destage.rests_until(self.ports.now()) {
            self.ports.wake_at(until);
            return false;
        }
        destage::carry(&mut Carried {
            destager: self,
            disk,
            back,
        })
    }

    /// The number before which everything should go to the origin now.
    fn wanted_to(&self, disk: DiskSlot, back: &Back) -> RecordNumber {
        let Some(flash) = self.flash.with_logs() else {
            return RecordNumber::FIRST;
        };
        let Some(dirty) = flash.dirty_logs().get(disk) else {
            return RecordNumber::FIRST;
        };
        let log = dirty.log();
        if log.is_empty() || back.holds_still() {
            return RecordNumber::FIRST;
        }
        if hurries(self.flash, disk, back) {
            // Out of order what was asked for may have been written again since: only the newest of a
            // block goes to the origin, and what is older waits for it.
            let all = back.is_leaving() || !self.flash.is_in_use() || !back.goes_in_order(log);
            return if all {
                log.end()
            } else {
                back.destage.demand().max(back.origin_wants(log))
            };
        }
        let is_short = flash.facts().is_short_of_clean_segments();
        back.settings
            .wanted(log, is_short, back.asked_at(), self.ports.now())
    }

    /// The number before which everything may go to the origin now.
    fn durable_to(&mut self, disk: DiskSlot, back: &Back, wanted: RecordNumber) -> RecordNumber {
        let (hurries, goes_past) = (hurries(self.flash, disk, back), self.goes_past_flash(back));
        let Some(flash) = self.flash.as_mut() else {
            return wanted;
        };
        if goes_past {
            return wanted;
        }
        flash
            .write_back()
            .durable_before(&mut self.ports.store, disk, wanted, hurries)
    }

    /// Whether the origin gets what the flash does not have durably: only while the host's record says that
    /// nothing on it is to be believed.
    fn goes_past_flash(&self, back: &Back) -> bool {
        back.leaves_late_flash() && self.host_record.lets_pass()
    }

    /// Begins to read the next batch, if there is room and need for one.
    fn load_next(&mut self, disk: DiskSlot, back: &mut Back, wanted: RecordNumber) -> bool {
        if back.destage.is_loading() {
            return false;
        }
        let ports = &mut *self.ports;
        let Some(flash) = self.flash.with_logs_mut() else {
            return false;
        };
        let Some(dirty) = flash.dirty_logs().get(disk) else {
            return false;
        };
        let log = dirty.log();
        let sequence = if back.goes_in_order(log) {
            Sequence::InOrder
        } else {
            let only = back.returns_to_order(log);
            Sequence::AnyOrder {
                only: only.then(|| log.blocks_before_holes_end()),
            }
        };
        let in_memory = |slot| match flash.bytes_of(&ports.store, slot) {
            Location::Memory(bytes) => Some(bytes),
            Location::Flash(_) | Location::Nowhere => None,
        };
        let geometry = flash.facts().geometry();
        let reads = back
            .destage
            .load(log, wanted, &sequence, geometry, in_memory);
        let Some(reads) = reads else {
            return false;
        };
        for read in reads {
            let purpose = ReadPurpose::DestageRead(DestageRead {
                disk,
                slot: read.slot,
                id: read.id,
            });
            ports.stats.destage_read_bytes += u64::from(read.pages) * BLOCK_BYTES;
            flash.read(&mut ports.store, read.slot, read.pages, None, purpose);
        }
        true
    }

    /// Pages of a log have come from flash, or have failed to.
    pub(crate) fn read_done(
        &mut self,
        read: DestageRead,
        buf: Option<Buf>,
        result: Result<(), IoError>,
    ) {
        let DestageRead { disk, slot, id } = read;
        if let Some(flash) = self.flash.as_mut() {
            flash.unpin(slot);
            if result.is_err() {
                flash.failed(&mut self.ports.store);
            }
        } else if let Some(failed) = self.flash.failed_mut() {
            failed.unpin(slot);
        }
        self.ports.schedule(disk);
        let flash = self.flash.with_logs();
        let (Some(back), Some(flash)) = (self.backs.get_mut(disk), flash) else {
            return;
        };
        let ports = &mut *self.ports;
        let bytes = buf.filter(|_| result.is_ok()).map(Buf::freeze);
        let result = match (result, &bytes) {
            (Ok(()), None) => Err(IoError::Failed),
            (result, _) => result,
        };
        back.destage.read_done(id, result, |wanted| {
            let BatchPage { number, slot, at } = wanted;
            let from = at as usize * PAGE_BYTES;
            let page = bytes.as_ref()?.slice(from..from + PAGE_BYTES);
            let block = flash.dirty_logs().block_of_record(disk, number);
            if flash.is_whole(slot, &page) || !holds(Guard::VerifyBeforeDestage) {
                return Some(match block {
                    Some(block) => flash.ciphers().shown(ports.pool(), disk, block, page),
                    None => page,
                });
            }
            ports.store.damaged(Damage {
                disk,
                block,
                at: flash.facts().geometry().slot_offset(slot),
                is_dirty: true,
            });
            None
        });
    }

    /// Whether the batch that is read may be written; if not, the journal is hurried.
    fn knows_watermark(&mut self, disk: DiskSlot, pieces: &[Piece]) -> bool {
        let Some(flash) = self.flash.as_mut() else {
            return true;
        };
        let dirty = flash.dirty_logs().get(disk);
        let knows = dirty.is_none_or(|dirty| {
            let erases = pieces.iter().any(Piece::erases);
            dirty.may_follow(erases, pieces.iter().flat_map(Piece::each))
        });
        if !knows {
            flash.journal_mut().hurry();
        }
        knows
    }

    /// A batch is read: it is written now, unless it is not what it should be.
    fn begin_batch(&mut self, disk: DiskSlot, back: &mut Back, wanted: RecordNumber) -> bool {
        match back.destage.begin_writing(wanted) {
            Ok(()) => return true,
            Err(Unfit::Damaged) => self.lock_log(disk, back, LockReason::Damaged),
            Err(Unfit::Unreadable(_)) if !self.flash.is_in_use() => {
                self.lock_log(disk, back, LockReason::FlashLost);
            }
            Err(Unfit::Unreadable(error)) => self.destage_refused(back, error),
        }
        false
    }

    /// Sends pieces of the batch to the origin, as many as may be on their way.
    fn write_batch(&mut self, disk: DiskSlot, back: &mut Back) {
        let need = if hurries(self.flash, disk, back) {
            Need::All
        } else if back.has_waiting_writes() {
            Need::Room
        } else {
            Need::Idle
        };
        let (now, rate) = (self.ports.now(), back.settings.rate);
        let flash_reads = self.backs.flash_reads.times();
        loop {
            match back.destage.next_write(need, rate, flash_reads, now) {
                Next::Write(write) => {
                    let bytes = write.id.bytes().get();
                    self.disks.stats(disk).origin_written_bytes += bytes;
                    let purpose = OriginPurpose::DestageWrite(disk, write.id);
                    let verb = write.content.verb(self.ports.pool());
                    self.ports.origin(purpose, disk, verb);
                }
                Next::WaitUntil(until) => return self.ports.wake_at(until),
                Next::Wait => return,
            }
        }
    }

    /// A piece of a batch is at the origin, or could not be brought there.
    pub(crate) fn write_done(
        &mut self,
        disk: DiskSlot,
        write: WriteId,
        result: Result<(), IoError>,
    ) {
        self.ports.schedule(disk);
        self.disks.stats(disk).origin_errors += u64::from(result.is_err());
        let Some(back) = self.backs.get_mut(disk) else {
            return;
        };
        let bytes = back.destage.write_done(write, result);
        self.disks.stats(disk).destaged_bytes += bytes.get();
    }

    /// Ends the batch that is written, if every piece has ended. True if more can be done.
    fn end_batch(&mut self, disk: DiskSlot, back: &mut Back, wanted: RecordNumber) -> bool {
        let dirty = self.flash.log_of(disk);
        let log = dirty.map(DirtyDisk::log);
        let dirty_max = back.settings.dirty_max;
        match back.destage.end_batch(log, wanted, dirty_max) {
            None => false,
            Some(Batched::GoesOn) => true,
            Some(Batched::Settles(settles)) => {
                self.settle_log(disk, back, settles);
                true
            }
            Some(Batched::Refused(error)) => {
                self.origin_refused(back, error);
                false
            }
            Some(Batched::Flush(id)) => {
                let purpose = OriginPurpose::DestageFlush(disk, id);
                self.ports.origin(purpose, disk, OriginVerb::Flush);
                false
            }
        }
    }

    /// A flush of the origin has ended.
    pub(crate) fn flush_done(
        &mut self,
        disk: DiskSlot,
        flush: WriteId,
        result: Result<(), IoError>,
    ) {
        self.ports.schedule(disk);
        let Some(mut back) = self.backs.take(disk) else {
            return;
        };
        match back.destage.flush_done(flush, result) {
            Flushed::Stale => {}
            Flushed::Settles(settles) => self.settle_log(disk, &mut back, settles),
            Flushed::Refused(error) => {
                self.disks.stats(disk).origin_errors += 1;
                self.origin_refused(&mut back, error);
            }
        }
        self.backs.set(disk, back);
    }

    fn origin_refused(&mut self, back: &mut Back, error: IoError) {
        self.destage_refused(back, error);
        back.fail_demands(self.ports, ControlError::Origin(error));
    }

    fn destage_refused(&mut self, back: &mut Back, error: IoError) {
        let until = back.destage.refuse(error, self.ports.now());
        self.ports.wake_at(until);
    }

    /// The origin has what a batch had, and what was written before it, durably.
    fn settle_log(&mut self, disk: DiskSlot, back: &mut Back, settles: Settles) {
        let before = self.flash.dirty_bytes(disk).get();
        match (&mut *self.flash, settles) {
            (FlashUse::InUse(flash), Settles::Before(to)) => {
                flash.write_back().settle(&mut self.ports.store, disk, to);
            }
            (FlashUse::InUse(flash), Settles::Some(some)) => {
                flash
                    .write_back()
                    .settle_some(&mut self.ports.store, disk, &some);
            }
            // Nothing is written to it any more.
            (given_up, settles) => {
                let failed = given_up.failed_mut();
                let dirty = failed.and_then(|flash| flash.write_back().log_mut(disk));
                match (dirty, settles) {
                    (None, _) => {}
                    (Some(dirty), Settles::Before(to)) => dirty.settle_unwritten(to),
                    (Some(dirty), Settles::Some(some)) => {
                        dirty.settle_some_unwritten(&some);
                    }
                }
            }
        }
        back.destage.settled();
        let gone = before.saturating_sub(self.flash.dirty_bytes(disk).get());
        back.follows.origin_got(gone);
        if back.phase == Phase::Leaving {
            back.credit.earn(gone);
        }
        // There is room for writes that wait.
        self.ports.schedule(disk);
    }

    /// Nothing of the log goes to the origin before the operator has decided.
    fn lock_log(&mut self, disk: DiskSlot, back: &mut Back, reason: LockReason) {
        back.destage.begin_anew();
        if let Some(dirty) = self.flash.log_of_mut(disk) {
            dirty.lock(reason);
        }
        if !self.flash.is_in_use() {
            back.phase = Phase::Locked;
        }
        self.ports.schedule(disk);
    }

    /// Flash that has failed does not give what the origin lacks.
    pub(crate) fn lose_log(&mut self, disk: DiskSlot) {
        if let Some(mut back) = self.backs.take(disk) {
            self.lock_log(disk, &mut back, LockReason::FlashLost);
            self.backs.set(disk, back);
        }
    }
}

/// The log of one disk, with what carries it.
struct Carried<'a, 'b> {
    destager: &'a mut Destager<'b>,
    disk: DiskSlot,
    back: &'a mut Back,
}

impl Carrier for Carried<'_, '_> {
    fn goes_before(&mut self) -> RecordNumber {
        let wanted = self.destager.wanted_to(self.disk, self.back);
        self.destager.durable_to(self.disk, self.back, wanted)
    }

    fn load(&mut self, wanted: RecordNumber) -> bool {
        self.destager.load_next(self.disk, self.back, wanted)
    }

    fn is_ready(&self) -> bool {
        self.back.destage.ready().is_some()
    }

    fn knows_watermark(&mut self) -> bool {
        let pieces = self.back.destage.ready().unwrap_or_default();
        self.destager.goes_past_flash(self.back) || self.destager.knows_watermark(self.disk, pieces)
    }

    fn begin(&mut self, wanted: RecordNumber) -> bool {
        self.destager.begin_batch(self.disk, self.back, wanted)
    }

    fn write(&mut self) {
        self.destager.write_batch(self.disk, self.back);
    }

    fn end(&mut self, wanted: RecordNumber) -> bool {
        self.destager.end_batch(self.disk, self.back, wanted)
    }
}

/// What the transfer of a disk's log to its origin does.
pub(crate) fn destage_state(flash: &FlashUse, disk: DiskSlot, back: &Back) -> DestageState {
    let dirty = flash.log_of(disk);
    if let Some(reason) = dirty.and_then(DirtyDisk::locked) {
        return DestageState::Locked(reason);
    }
    let destage = &back.destage;
    match (destage.failing(), destage.paused()) {
        (Some(failing), _) => DestageState::Failing {
            since: failing.since,
            error: failing.error,
        },
        _ if destage.is_idle() => DestageState::Idle,
        _ if hurries(flash, disk, back) => DestageState::Draining,
        (None, Some(Paused::Rate)) => DestageState::PausedByRate,
        (None, Some(Paused::Latency)) => DestageState::PausedByLatency,
        (None, None) => DestageState::Running,
    }
}

/// Whether everything has to reach the origin, whatever it costs.
fn hurries(flash: &FlashUse, disk: DiskSlot, back: &Back) -> bool {
    let log = flash.log_of(disk);
    let log = log.map(DirtyDisk::log);
    let base = log.map_or(RecordNumber::FIRST, DirtyLog::base);
    let is_asked = back.destage.demand() > base
        || (back.has_demands() && log.is_some_and(|log| back.returns_to_order(log)))
        || log.is_some_and(|log| back.origin_wants(log) > base);
    is_asked || back.is_leaving() || !flash.is_in_use()
}
