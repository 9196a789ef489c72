//! Writes under `back`: they wait for room, in a dirty log or in place, and the origin is written for it.

use super::events::{Event, Target, Then};
use super::log::{Log, Next, log_of};
use super::request::{Asked, Evicting, Open};
use super::{Arrival, LatencyModel};
use crate::destaged::{Destaged, Done, LogRoom};
use crate::device::Direction;
use crate::number::length;
use crate::outcome::{DIRTY, STORED};
use trace::Op;
use units::{Bytes, DiskSlot, Duration};

impl LatencyModel {
    /// A guest has read a disk with a log: from flash until `done`, from the origin until `fetched`.
    pub(super) fn guest_read(&mut self, room: LogRoom, (at, done, fetched): (u64, u64, u64)) {
        if done > at {
            let logs = &self.logs;
            let are_writing = || logs.iter().flatten().any(Log::is_writing);
            self.flash_reads
                .took(Duration::from_nanos(done - at), are_writing);
        }
        if fetched > at {
            let read = Then::OriginRead(room.disk, fetched - at);
            self.later(fetched, Event::Ended(read));
        }
    }

    pub(super) fn wait_for_room(&mut self, open: Open, asked: &Asked<'_>) {
        let Some(room) = asked.room else {
            self.evict(open.at, asked, Some(open));
            return;
        };
        let stored = |flag: u8| asked.blocks.iter().filter(move |block| **block & flag != 0);
        let blocks = u32::try_from(stored(STORED).count()).expect("a request has 32-bit blocks");
        let logged = length(stored(DIRTY).count());
        log_of(&mut self.logs, room, open.at).wait(open, logged, blocks);
        self.carry(room.disk, open.at);
    }

    /// Brings the dirty blocks that a store evicts to the origin; the store begins when they are there.
    pub(super) fn evict(&mut self, at: u64, asked: &Asked<'_>, write: Option<Open>) {
        let stored = asked.blocks.iter().filter(|block| **block & STORED != 0);
        self.sequence += 1;
        let store = self.sequence;
        self.evicting.insert(
            store,
            Evicting {
                left: asked.evicted,
                blocks: length(stored.count()),
                write,
            },
        );
        let block = self.block.get();
        for _ in 0..asked.evicted {
            let read = self.flash.submit(at, Direction::Read, self.block);
            self.submit_later(read, Target::Origin, true, block, Then::Evicted(store));
        }
    }

    /// An evicted block is at the origin.
    fn evicted(&mut self, store: u64, now: u64) {
        let Some(evicting) = self.evicting.get_mut(&store) else {
            unreachable!("each store waits for its blocks");
        };
        evicting.left -= 1;
        if evicting.left > 0 {
            return;
        }
        let (blocks, write) = (evicting.blocks, evicting.write);
        self.evicting.remove(&store);
        let bytes = Bytes::new(self.block.get() * blocks);
        let stored = self.flash.submit(now, Direction::Write, bytes);
        if let Some(open) = write {
            self.answer_late(open, stored);
        }
    }

    /// A write that has waited is answered when it is stored.
    fn answer_late(&mut self, open: Open, stored: u64) {
        self.open -= 1;
        let done = open.done.max(stored);
        self.answered(Op::Write, Open { done, ..open });
    }

    /// The cache did this with a log since the request before, which was at the latest at `until`.
    pub(super) fn log_step(&mut self, done: &Done, until: u64) {
        let at = match self.arrival {
            Arrival::Timed { speed } => self.at_speed(done.at.as_nanos() / 1000, speed),
            Arrival::Depth(_) => until,
        };
        let at = at.clamp(self.worked_off, until);
        self.work_off(at);
        let Some(log) = self.log(done.disk) else {
            return;
        };
        match done.what {
            Destaged::Run(blocks) => log.write(blocks),
            Destaged::Coalesced(_) => {}
            Destaged::BatchEnded => log.end_batch(),
            Destaged::Settled { records, flushed } => {
                log.settle(records, flushed);
                self.carry(done.disk, at);
            }
        }
    }

    fn log(&mut self, disk: DiskSlot) -> Option<&mut Log> {
        self.logs.get_mut(disk.index())?.as_mut()
    }

    /// Does for a log what can be done at `now`, the time of the devices.
    pub(super) fn carry(&mut self, disk: DiskSlot, now: u64) {
        let flash = *self.flash_reads.times();
        loop {
            let Some(log) = self.log(disk) else {
                return;
            };
            match log.next(&flash, now) {
                Next::Write(blocks) => {
                    let bytes = self.block.get() * u64::from(blocks);
                    let read = self.flash.submit(now, Direction::Read, Bytes::new(bytes));
                    let then = Then::Destaged(disk);
                    self.submit_later(read, Target::Origin, true, bytes, then);
                }
                Next::Flush => {
                    let done = self.origin.submit(now, Direction::Write, Bytes::ZERO);
                    self.later(done, Event::Ended(Then::Flushed(disk)));
                }
                Next::Admit => self.admit(disk, now),
                Next::WakeAt(until) => return self.later(until, Event::Ended(Then::Wake(disk))),
                Next::Wait => return,
            }
        }
    }

    /// Stores the writes for which a log has room now.
    fn admit(&mut self, disk: DiskSlot, now: u64) {
        while let Some((open, blocks)) = self.log(disk).and_then(Log::next_admitted) {
            let bytes = Bytes::new(self.block.get() * u64::from(blocks));
            let stored = self.flash.submit(now, Direction::Write, bytes);
            self.answer_late(open, stored);
        }
    }

    /// An I/O that something waits for has ended.
    pub(super) fn ended(&mut self, what: Then, now: u64) {
        let disk = match what {
            Then::Nothing | Then::WriteTo(_) => return,
            Then::Evicted(store) => return self.evicted(store, now),
            Then::OriginRead(disk, nanos) => {
                if let Some(log) = self.log(disk) {
                    log.read_took(nanos);
                }
                return;
            }
            Then::Destaged(disk) | Then::Flushed(disk) | Then::Wake(disk) => disk,
        };
        if let Some(log) = self.log(disk) {
            match what {
                Then::Destaged(_) => log.wrote(),
                Then::Flushed(_) => log.flushed(),
                _ => {}
            }
        }
        self.carry(disk, now);
    }
}
