//! Bringing a dirty log to its origin, in the steps of the daemon's cache.

use super::{Back, Destaged, Disks, Done};
use block_store::DirtyDisk;
use destage::{Batched, Carrier, Flushed, Need, Next, Piece, Sequence, Settles};
use dirty_log::{DirtyLog, RecordNumber, What};
use units::{BlockIndex, Instant};

impl Back<'_> {
    /// Brings of a log to its origin what is due and durable, or all of it.
    pub(super) fn advance_at(&mut self, at: usize, need: Need) {
        let disk = self.disks.list[at].slot;
        self.store.write_back().push_durability(self.ports, disk);
        self.settle();
        let mut carried = Carried {
            back: self,
            at,
            need,
        };
        while destage::carry(&mut carried) {}
        self.settle();
        self.wake(at);
    }

    /// Whether the batch that comes next may be written.
    fn knows_next(&self, at: usize) -> bool {
        let of = &self.disks.list[at];
        let pieces = of.destage.ready().unwrap_or_default();
        let erases = pieces.iter().any(Piece::erases);
        let dirty = self.store.dirty_logs().get(of.slot);
        dirty.is_none_or(|dirty| dirty.may_follow(erases, pieces.iter().flat_map(Piece::each)))
    }

    /// The number before which everything should go to the origin now.
    fn wanted_to(&self, at: usize, hurries: bool) -> RecordNumber {
        let of = &self.disks.list[at];
        let log = self.store.dirty_logs().get(of.slot).map(DirtyDisk::log);
        let Some(log) = log.filter(|log| !log.is_empty()) else {
            return RecordNumber::FIRST;
        };
        if hurries {
            return log.end();
        }
        let is_short = self.store.facts().is_short_of_clean_segments();
        of.settings.wanted(log, is_short, of.asked_at, self.now)
    }

    /// Reads the next batch, if there is room and need for one.
    fn load_next(&mut self, at: usize, wanted: RecordNumber) -> bool {
        let of = &mut self.disks.list[at];
        let Some(dirty) = self.store.dirty_logs().get(of.slot) else {
            return false;
        };
        let geometry = self.store.facts().geometry();
        let (log, sequence) = (dirty.log(), Sequence::InOrder);
        let reads = of.destage.load(log, wanted, &sequence, geometry, |_| None);
        let Some(reads) = reads else {
            return false;
        };
        for read in reads {
            of.destage.read_done(read.id, Ok(()), |_| Some(()));
        }
        true
    }

    fn write_batch(&mut self, at: usize, need: Need) {
        let (disks, now) = (&mut *self.disks, self.now);
        let of = &mut disks.list[at];
        loop {
            let rate = of.settings.rate;
            match of
                .destage
                .next_write(need, rate, disks.flash_reads.times(), now)
            {
                Next::Write(write) => {
                    let id = write.id;
                    of.destage.write_done(id, Ok(()));
                }
                Next::WaitUntil(until) => return self.ports.wake_at(until),
                Next::Wait => return,
            }
        }
    }

    /// Ends the batch that is written, if every piece has ended. True if more can be done.
    fn end_batch(&mut self, at: usize, wanted: RecordNumber) -> bool {
        let of = &mut self.disks.list[at];
        let log = self.store.dirty_logs().get(of.slot).map(DirtyDisk::log);
        let batched = of.destage.end_batch(log, wanted, of.settings.dirty_max);
        let flushed = matches!(batched, Some(Batched::Flush(_)));
        let settles = match batched {
            None => return false,
            Some(Batched::GoesOn) => {
                self.disks.did(at, self.now, Destaged::BatchEnded);
                return true;
            }
            Some(Batched::Settles(settles)) => settles,
            Some(Batched::Flush(id)) => match of.destage.flush_done(id, Ok(())) {
                Flushed::Settles(settles) => settles,
                Flushed::Stale | Flushed::Refused(_) => unreachable!("the origin takes all"),
            },
            Some(Batched::Refused(_)) => unreachable!("the origin takes all"),
        };
        let Settles::Before(to) = settles else {
            unreachable!("logs go to their origins in order")
        };
        self.settle_log(at, to, flushed);
        true
    }

    /// The origin has every record before this number, durably.
    fn settle_log(&mut self, at: usize, to: RecordNumber, flushed: bool) {
        let of = &mut self.disks.list[at];
        let log = self.store.dirty_logs().get(of.slot).map(DirtyDisk::log);
        let records = log.map_or(0, |log| data_records(log, to));
        let coalesced = records.saturating_sub(std::mem::take(&mut of.written));
        let mut write_back = self.store.write_back();
        write_back.settle(self.ports, of.slot, to);
        of.destage.settled();
        let short = |records: u64| u32::try_from(records).expect("a log has fewer records");
        if coalesced > 0 {
            let coalesced = Destaged::Coalesced(short(coalesced));
            self.disks.did(at, self.now, coalesced);
        }
        let settled = Destaged::Settled {
            records: short(records),
            flushed,
        };
        self.disks.did(at, self.now, settled);
    }

    /// Arranges for a look at the disk when its log is due.
    fn wake(&mut self, at: usize) {
        let of = &self.disks.list[at];
        let log = self.store.dirty_logs().get(of.slot).map(DirtyDisk::log);
        if let Some(oldest) = log.and_then(DirtyLog::oldest) {
            let dues = of.settings.dues(oldest, of.asked_at).into_iter();
            // What was due and waits for something else is looked at when that has happened.
            if let Some(due) = dues.filter(|due| *due > self.now).min() {
                self.ports.wake_at(due);
            }
        }
    }
}

/// The log of one disk, with what carries it: whatever is asked of the store is done before the next step.
struct Carried<'a, 'b> {
    back: &'a mut Back<'b>,
    at: usize,
    need: Need,
}

impl Carrier for Carried<'_, '_> {
    fn goes_before(&mut self) -> RecordNumber {
        let back = &mut *self.back;
        let (disk, hurries) = (back.disks.list[self.at].slot, self.need == Need::All);
        let wanted = back.wanted_to(self.at, hurries);
        let mut log = back.store.write_back();
        log.durable_before(back.ports, disk, wanted, hurries)
    }

    fn load(&mut self, wanted: RecordNumber) -> bool {
        let began = self.back.load_next(self.at, wanted);
        self.back.settle() || began
    }

    fn is_ready(&self) -> bool {
        self.back.disks.list[self.at].destage.ready().is_some()
    }

    fn knows_watermark(&mut self) -> bool {
        if !self.back.knows_next(self.at) {
            self.back.store.journal_mut().hurry();
            self.back.settle();
        }
        self.back.knows_next(self.at)
    }

    fn begin(&mut self, wanted: RecordNumber) -> bool {
        self.back.disks.count(self.at, self.back.now);
        let begun = self.back.disks.list[self.at].destage.begin_writing(wanted);
        begun.expect("what is nothing is read whole");
        true
    }

    fn write(&mut self) {
        self.back.write_batch(self.at, self.need);
    }

    fn end(&mut self, wanted: RecordNumber) -> bool {
        self.back.end_batch(self.at, wanted)
    }
}

impl Disks {
    /// Counts the batch that a disk writes next: its blocks by their places on the disk, since by number
    /// they are in the order of their first use.
    fn count(&mut self, at: usize, now: Instant) {
        let of = &self.list[at];
        let pieces = of.destage.ready().unwrap_or_default();
        let data = pieces.iter().filter(|piece| !piece.erases());
        let blocks = data.flat_map(|piece| {
            let numbers = match piece {
                Piece::Data { numbers, .. } => &numbers[..],
                Piece::Erasure(_) => &[],
            };
            piece.each().zip(numbers.iter().copied())
        });
        let place = |block: BlockIndex| {
            let number = usize::try_from(block.get()).expect("numbers have 32 bits");
            let place = self.blocks.get(number).copied();
            BlockIndex::new(place.unwrap_or(block.get()))
        };
        let blocks = blocks.map(|(block, number)| (place(block), number));
        for run in destage::runs_of(blocks.collect()) {
            self.list[at].written += run.blocks();
            let run = u32::try_from(run.blocks()).expect("a run is short");
            self.did(at, now, Destaged::Run(run));
        }
    }

    /// Notes what was done to a disk's log.
    fn did(&mut self, at: usize, now: Instant, what: Destaged) {
        self.done.push(Done {
            disk: self.list[at].slot,
            at: now,
            what,
        });
    }
}

/// Records with blocks before this number.
fn data_records(log: &DirtyLog, to: RecordNumber) -> u64 {
    let records = log.records(log.base(), to);
    let data = records.filter(|(_, record)| matches!(record.what, What::Data { .. }));
    data.count() as u64
}
