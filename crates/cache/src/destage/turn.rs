//! One turn of the transfer: whatever can be begun now.

use super::batch::{Batch, reads_of};
use super::pace::Go;
use super::plan::{Piece, pieces_of, runs_of};
use super::{Destage, Flushing, Paused};
use crate::back::{Back, Phase};
use crate::cache::Cache;
use crate::dirty::DirtyDisk;
use crate::dirty::log::DirtyLog;
use crate::flash::{Flash, Location};
use crate::guard::{Guard, lacks};
use crate::limits::{DESTAGE_BATCH_RECORDS, DESTAGE_FLUSH_PARTS};
use crate::ports::Purpose;
use crate::write_back::{DestageOrder, DestageState, LockReason};
use block_io::{Buf, IoError, OriginVerb, PAGE_BYTES, Slice};
use flash_format::ErasureKind;
use segment_log::SEGMENTS_RESERVED;
use units::{BLOCK_BYTES, Bytes, DiskSlot, FlashSlot};

/// Pages of a log that come from flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DestageRead {
    pub(crate) disk: DiskSlot,
    batch: u64,
    read: usize,
    pub(crate) slot: FlashSlot,
}

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
        if locked {
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
        self.write_pieces(disk, back, wanted);
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
            let all = back.is_leaving() || self.flash.is_none() || !is_in_order(back, log);
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
        if lacks(Guard::DurableBeforeDestage) {
            return wanted;
        }
        let durable = |flash: &Flash| flash.dirty.get(disk).map_or(0, DirtyDisk::durable);
        if durable(flash) < wanted {
            flash.want_durable(&mut self.ports, disk, wanted, hurries);
        }
        wanted.min(durable(flash))
    }

    /// Whether a crash now would not bring anything to the origin that it has had for long: what was
    /// settled must be durably known before something later is written, or older versions would be
    /// written again beside it.
    fn knows_watermark(&mut self, disk: DiskSlot, destage: &Destage) -> bool {
        let Some(flash) = self.flash.as_mut() else {
            return true;
        };
        let dirty = flash.dirty.get(disk);
        let known = dirty.is_none_or(|dirty| dirty.released() >= dirty.log.base());
        if known || destage.unflushed > 0 || lacks(Guard::WatermarkBeforeNext) {
            return true;
        }
        flash.journal.hurry();
        false
    }

    /// Whether everything has to reach the origin, whatever it costs.
    fn hurries(&self, disk: DiskSlot, back: &Back) -> bool {
        let base = self
            .dirty_flash()
            .and_then(|flash| flash.dirty.get(disk))
            .map_or(0, |dirty| dirty.log.base());
        back.destage.demand > base || back.is_leaving() || self.flash.is_none()
    }

    /// Begins to read the next batch, if there is room and need for one.
    fn load_next(&mut self, disk: DiskSlot, back: &mut Back, wanted: u64) -> bool {
        if back.destage.loading.is_some() {
            return false;
        }
        let Some(flash) = self.dirty_flash_mut() else {
            return false;
        };
        let Some(dirty) = flash.dirty.get(disk) else {
            return false;
        };
        let in_order = is_in_order(back, &dirty.log);
        if in_order && back.destage.is_out_of_order() {
            // What it settles may be in the next batch as well.
            return false;
        }
        let batch = if in_order {
            back.destage.next_in_order(&dirty.log, wanted)
        } else {
            back.destage.next_in_any_order(&dirty.log, wanted)
        };
        let Some(batch) = batch else {
            return false;
        };
        back.destage.loading = Some(batch);
        self.read_batch(disk, &mut back.destage);
        true
    }

    /// Reads what the batch needs, from memory where it is there.
    fn read_batch(&mut self, disk: DiskSlot, destage: &mut Destage) {
        let flash = self.flash.as_mut().or(self.wreck.as_mut());
        let (Some(batch), Some(flash)) = (destage.loading.as_mut(), flash) else {
            return;
        };
        let Some(dirty) = flash.dirty.get(disk) else {
            return;
        };
        let mut on_flash = Vec::new();
        for (number, slot) in batch.wanted(&dirty.log) {
            match flash.bytes_of(&self.ports, slot) {
                Location::Memory(bytes) => {
                    batch.pages.insert(number, bytes);
                }
                Location::Flash(_) | Location::Nowhere => on_flash.push((number, slot)),
            }
        }
        batch.reads = reads_of(&on_flash, &flash.geometry);
        batch.reads_left = batch.reads.len();
        for (at, read) in batch.reads.iter().enumerate() {
            flash.pin_for(&mut self.ports, read.slot);
            let purpose = DestageRead {
                disk,
                batch: batch.id,
                read: at,
                slot: read.slot,
            };
            let offset = flash.geometry.slot_offset(read.slot);
            let length = read.pages as usize * PAGE_BYTES;
            self.ports.stats.destage_read_bytes += length as u64;
            self.ports
                .flash_read(Purpose::DestageRead(purpose), offset, length);
        }
    }

    /// Pages of a log have come from flash, or have failed to.
    pub(crate) fn destage_read_done(
        &mut self,
        read: DestageRead,
        buf: Option<Buf>,
        result: Result<(), IoError>,
    ) {
        if let Some(flash) = self.flash.as_mut() {
            flash.unpin(read.slot);
            if result.is_err() {
                flash.failed(&mut self.ports);
            }
        } else if let Some(wreck) = self.wreck.as_mut() {
            wreck.unpin(read.slot);
        }
        self.ports.stir(read.disk);
        let flash = self.flash.as_deref().or(self.wreck.as_deref());
        let (Some(back), Some(flash)) = (self.backs.get_mut(read.disk), flash) else {
            return;
        };
        let loading = back.destage.loading.as_mut();
        let Some(batch) = loading.filter(|batch| batch.id == read.batch) else {
            return;
        };
        batch.reads_left -= 1;
        let bytes = match (result, buf) {
            (Ok(()), Some(buf)) => buf.freeze(),
            (Err(error), _) => {
                batch.error = Some(error);
                return;
            }
            (Ok(()), None) => {
                batch.error = Some(IoError::Failed);
                return;
            }
        };
        for (at, number) in &batch.reads[read.read].wanted {
            let from = *at as usize * PAGE_BYTES;
            let page = bytes.slice(from..from + PAGE_BYTES);
            if flash.is_whole(read.slot.advance(*at), &page) || lacks(Guard::VerifyBeforeDestage) {
                let page = flash.shown_record(&self.ports, read.disk, *number, page);
                batch.pages.insert(*number, page);
            } else {
                self.ports.stats.checksum_mismatches += 1;
                batch.is_bad = true;
            }
        }
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
        let alone = back.destage.unflushed == 0 && batch.pieces.len() == 1;
        let settles = batch.ends || batch.to >= wanted;
        if let Some(batch) = back.destage.writing.as_mut() {
            batch.fua = alone && settles;
        }
        true
    }

    /// Sends pieces of the batch to the origin, as many as may be on their way.
    fn write_pieces(&mut self, disk: DiskSlot, back: &mut Back, _wanted: u64) {
        let hurries = self.hurries(disk, back);
        let now = self.ports.now;
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
            match pace.ask(bytes, batch.in_flight, back.settings.rate, hurries, now) {
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
                destage.written += write.bytes;
                destage.pace.wrote();
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
        let ends = batch.ends || (began && !lacks(Guard::IntervalOrder));
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
        if lacks(Guard::OriginFlushBeforeSettled) {
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

impl Destage {
    /// The next records of an interval, in the order of the log.
    fn next_in_order(&mut self, log: &DirtyLog, wanted: u64) -> Option<Batch> {
        let from = self.loaded_to.max(log.base());
        if from >= wanted {
            return None;
        }
        let (end, ended) = if lacks(Guard::IntervalOrder) {
            (log.end(), false)
        } else {
            log.interval_end(from)
        };
        let to = end.min(wanted).min(from + DESTAGE_BATCH_RECORDS);
        let pieces = pieces_of(log.records(from, to));
        self.loaded_to = to;
        Some(self.batch(to, ended && to == end, pieces))
    }

    /// What is newest of the log, the longest runs first.
    fn next_in_any_order(&mut self, log: &DirtyLog, wanted: u64) -> Option<Batch> {
        // One at a time: the next could have the same blocks.
        if !self.is_idle() || wanted == 0 || log.is_empty() {
            return None;
        }
        let (pieces, some) = match erasures_of(log, wanted) {
            (pieces, some) if !pieces.is_empty() => (pieces, some),
            _ => self.longest_runs(log, wanted),
        };
        if pieces.is_empty() {
            return None;
        }
        let mut batch = self.batch(log.end(), true, pieces);
        batch.some = Some(some);
        Some(batch)
    }

    fn longest_runs(&mut self, log: &DirtyLog, wanted: u64) -> (Vec<Piece>, Vec<u64>) {
        let (mut pieces, mut some) = (Vec::new(), Vec::new());
        while (some.len() as u64) < DESTAGE_BATCH_RECORDS {
            if self.planned.is_empty() {
                if !some.is_empty() {
                    break;
                }
                let newest = log.newest().filter(|(_, number)| *number < wanted);
                let mut runs = runs_of(newest.collect());
                runs.sort_by_key(|run| std::cmp::Reverse(run.blocks()));
                self.planned = runs.into();
            }
            let Some(Piece::Data { first, numbers }) = self.planned.pop_front() else {
                break;
            };
            // Some may have been written again since they were planned.
            let blocks = (0..).map(|i| first.advance(i)).zip(numbers);
            let current =
                blocks.filter(|(block, number)| *number < wanted && log.is_newest(*block, *number));
            let current: Vec<_> = current.collect();
            some.extend(current.iter().map(|(_, number)| *number));
            pieces.extend(runs_of(current));
        }
        (pieces, some)
    }

    fn batch(&mut self, to: u64, ends: bool, pieces: Vec<Piece>) -> Batch {
        self.batch_next += 1;
        Batch::new(self.batch_next, to, ends, pieces)
    }
}

/// Whether a log is brought to its origin in its order: not while something of it was settled before
/// what is older.
fn is_in_order(back: &Back, log: &DirtyLog) -> bool {
    back.settings.order == DestageOrder::Ordered && log.holes_end() == log.base()
}

/// Every erased range that counts, and the records that erased them.
fn erasures_of(log: &DirtyLog, wanted: u64) -> (Vec<Piece>, Vec<u64>) {
    let (mut pieces, mut some) = (Vec::new(), Vec::new());
    for (first, blocks, number) in log.erased_ranges() {
        if number >= wanted {
            continue;
        }
        if let crate::dirty::log::What::Erasure(erasure) = log.record(number).what {
            let part = super::plan::erasure_of(first, blocks, erasure.kind);
            pieces.push(Piece::Erasure(part));
            some.push(number);
        }
    }
    some.sort_unstable();
    some.dedup();
    (pieces, some)
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

impl Flash {
    /// Where the bytes of a slot are: in memory until they are on flash.
    pub(crate) fn bytes_of(&self, ports: &crate::ports::Ports, slot: FlashSlot) -> Location {
        use segment_log::Whereabouts;
        let in_memory = match self.log.whereabouts(slot) {
            Whereabouts::Written => None,
            Whereabouts::PerhapsWritten => self.in_memory(ports, slot),
            Whereabouts::PerhapsInOpenChunk => self.in_open_chunk(ports, slot),
        };
        in_memory.map_or(Location::Flash(slot), Location::Memory)
    }

    /// A read from this slot begins for the cache itself.
    pub(crate) fn pin_for(&mut self, ports: &mut crate::ports::Ports, slot: FlashSlot) {
        self.log.pin(slot);
        ports.wake_at(ports.now + self.config.flash_timeout);
    }

    /// Whether these are the bytes that were written to a slot.
    pub(crate) fn is_whole(&self, slot: FlashSlot, bytes: &[u8]) -> bool {
        flash_format::checksum(bytes) == self.checksums[slot.index()]
    }
}
