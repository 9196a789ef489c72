//! Replays a run's I/O on the modelled devices: when each request would have been answered.
//!
//! ```text
//!   request at t ─┬─ reads of hits ────► flash ──┐
//!                 ├─ reads of misses ──► origin ─┼─► answered when the last is done
//!                 └─ writes ──► what the write policy waits for
//!
//!   nobody waits for:  fills (begin when the origin has answered) · updates under `through`
//!                      reclaim (flash, then flash) · descriptors
//!                      but they take the devices' time: a heap holds them until their moment comes
//!
//!   under `back` a write waits for room first:
//!     in a dirty log   until enough of it is written to the origin and flushed        (log.rs)
//!     in place         until the dirty blocks that it evicts are read from flash and written to the origin
//! ```
//!
//! A read that evicts dirty blocks does not wait for them: its fill does.
//!
//! Requests arrive at the trace's own times (divided by a speed), or one after another so that a number of
//! them is always outstanding.

mod back;
mod events;
mod log;
mod request;

use crate::destaged::Done;
use crate::device::{Device, DeviceSettings, Direction};
use crate::number::{count, length, real};
use crate::outcome::{Chore, DIRTY, HIT, RAM, STORED, runs};
use crate::write_policy::WritePolicy;
use destage::SampledReads;
use events::{Event, Pending, Target, Then};
use hdrhistogram::Histogram;
use log::{Log, log_of};
pub(crate) use request::Asked;
use request::{Evicting, Open};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use trace::Op;
use units::{Bytes, Map};

/// When requests arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// At the trace's times, that many times as fast.
    Timed {
        /// 1 is the trace's own speed.
        speed: f64,
    },
    /// Each as soon as fewer than that many are outstanding.
    Depth(u32),
}

/// The deepest queue: outstanding requests cost memory, and no guest has more.
pub const DEPTH_MAX: u32 = 65_536;

/// What the latency model is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencySettings {
    /// The cache's device.
    pub flash: DeviceSettings,
    /// The origin.
    pub origin: DeviceSettings,
    /// When requests arrive.
    pub arrival: Arrival,
}

/// The devices of one run, their queues, and how long requests took.
pub(crate) struct LatencyModel {
    flash: Device,
    origin: Device,
    arrival: Arrival,
    block: Bytes,
    write_policy: WritePolicy,
    pending: BinaryHeap<Reverse<Pending>>,
    sequence: u64,
    /// When the outstanding requests will be answered; only at a fixed depth, and without those that wait for room.
    outstanding: BinaryHeap<Reverse<u64>>,
    /// By disk: its dirty log.
    logs: Vec<Option<Log>>,
    /// By number: stores that wait for evicted blocks.
    evicting: Map<u64, Evicting>,
    /// Writes that wait for room.
    open: usize,
    flash_reads: SampledReads,
    first_us: Option<u64>,
    /// When the latest request arrived.
    now: u64,
    /// Until when everything has happened.
    worked_off: u64,
    era: u32,
    times: Times,
}

/// How long requests took since counting began.
pub(crate) struct Times {
    pub(crate) reads: Histogram<u64>,
    pub(crate) writes: Histogram<u64>,
    pub(crate) began: Option<u64>,
    pub(crate) ended: u64,
    pub(crate) bytes: u64,
}

impl Times {
    fn new() -> Self {
        // Three digits: a thousandth is less than any device model is worth.
        let histogram = || Histogram::new(3).expect("three digits are allowed");
        Self {
            reads: histogram(),
            writes: histogram(),
            began: None,
            ended: 0,
            bytes: 0,
        }
    }
}

impl LatencyModel {
    pub(crate) fn new(
        settings: &LatencySettings,
        write_policy: WritePolicy,
        block: Bytes,
        seed: u64,
    ) -> Self {
        Self {
            flash: Device::new(settings.flash, seed),
            origin: Device::new(settings.origin, !seed),
            arrival: settings.arrival,
            block,
            write_policy,
            pending: BinaryHeap::new(),
            sequence: 0,
            outstanding: BinaryHeap::new(),
            logs: Vec::new(),
            evicting: Map::default(),
            open: 0,
            flash_reads: SampledReads::default(),
            first_us: None,
            now: 0,
            worked_off: 0,
            era: 0,
            times: Times::new(),
        }
    }

    /// Forgets the times so far, not the queues.
    pub(crate) fn start_counting(&mut self) {
        self.era += 1;
        self.times = Times::new();
    }

    pub(crate) fn times(&self) -> &Times {
        &self.times
    }

    /// One request of the trace. `steps` is what logs have done on their way to their origins since the last one.
    pub(crate) fn request<'a>(&mut self, asked: &Asked<'_>, steps: impl Iterator<Item = &'a Done>) {
        let record = asked.record;
        let at = self.arrive(record.time_us);
        for done in steps {
            self.log_step(done, at);
        }
        self.work_off(at);
        self.times.began.get_or_insert(at);
        let open = Open {
            at,
            done: at,
            bytes: record.length.get(),
            era: self.era,
        };
        let done = match record.op {
            Op::Read => self.read(at, asked),
            Op::Write => match self.write(open, asked) {
                Some(done) => done,
                None => return,
            },
            Op::Flush => match self.write_policy {
                WritePolicy::Back => self.flash.submit(at, Direction::Write, Bytes::ZERO),
                WritePolicy::Around | WritePolicy::Through => {
                    self.origin.submit(at, Direction::Write, Bytes::ZERO)
                }
            },
            // A command without data.
            Op::Discard | Op::WriteZeroes => self.origin.submit(at, Direction::Write, Bytes::ZERO),
        };
        self.answered(record.op, Open { done, ..open });
    }

    /// What the cache did on its own, caused by the latest request. What is destaged is no chore here: a store waits
    /// for what it evicts ([`Asked::evicted`]), and a log has steps.
    pub(crate) fn chore(&mut self, chore: Chore, blocks: u32) {
        let bytes = self.block.get() * u64::from(blocks);
        let (writes, then) = match chore {
            Chore::Coalesce | Chore::Destage | Chore::DestageRun => return,
            Chore::Reclaim => (false, Then::WriteTo(Target::Flash)),
            Chore::Descriptor | Chore::Journal | Chore::Admit => (true, Then::Nothing),
        };
        self.submit_later(self.now, Target::Flash, writes, bytes, then);
    }

    /// The trace is over: what waits for room is answered when there is some.
    pub(crate) fn finish(&mut self) {
        while self.open > 0 {
            let Some(Reverse(next)) = self.pending.peek() else {
                unreachable!("a write waits for what is on its way to the origin");
            };
            self.work_off(next.at);
        }
    }

    fn answered(&mut self, op: Op, open: Open) {
        if let Arrival::Depth(_) = self.arrival {
            self.outstanding.push(Reverse(open.done));
        }
        if open.era != self.era {
            return;
        }
        self.times.ended = self.times.ended.max(open.done);
        let histogram = match op {
            Op::Read => &mut self.times.reads,
            Op::Write => &mut self.times.writes,
            Op::Flush | Op::Discard | Op::WriteZeroes => return,
        };
        let recorded = histogram.record(open.done - open.at);
        assert!(recorded.is_ok(), "a histogram that grows takes every time");
        self.times.bytes += open.bytes;
    }

    /// The trace's time here, in ns.
    fn at_speed(&self, time_us: u64, speed: f64) -> u64 {
        let first = self.first_us.unwrap_or(time_us);
        count(real(time_us.saturating_sub(first)) * 1000.0 / speed)
    }

    fn arrive(&mut self, time_us: u64) -> u64 {
        let at = match self.arrival {
            Arrival::Timed { speed } => {
                self.first_us.get_or_insert(time_us);
                self.at_speed(time_us, speed)
            }
            Arrival::Depth(depth) => self.free_place(depth as usize),
        };
        // A trace whose clock steps back waits until it has caught up.
        self.now = self.now.max(at);
        self.now
    }

    /// When fewer than `depth` requests are outstanding.
    fn free_place(&mut self, depth: usize) -> u64 {
        if self.outstanding.len() + self.open < depth {
            return self.now;
        }
        loop {
            let answered = self.outstanding.peek().map(|Reverse(done)| *done);
            let event = self.pending.peek().map(|Reverse(next)| next.at);
            match (answered, event) {
                // It may let a write go on that is then answered earlier.
                (_, Some(event))
                    if self.open > 0 && answered.is_none_or(|answered| event < answered) =>
                {
                    self.work_off(event);
                }
                _ => return self.outstanding.pop().map_or(0, |Reverse(done)| done),
            }
        }
    }

    fn read(&mut self, at: u64, asked: &Asked<'_>) -> u64 {
        let mut done = at;
        let bytes = |length: u32| Bytes::new(self.block.get() * u64::from(length));
        runs(
            asked.blocks,
            // What is staged in RAM takes no time beside the devices'.
            |block| block & (HIT | RAM) == HIT,
            |length| done = done.max(self.flash.submit(at, Direction::Read, bytes(length))),
        );
        let mut fetched = at;
        runs(
            asked.blocks,
            |block| block & HIT == 0,
            |length| fetched = fetched.max(self.origin.submit(at, Direction::Read, bytes(length))),
        );
        if let Some(room) = asked.room {
            self.guest_read(room, (at, done, fetched));
        }
        if asked.evicted > 0 {
            self.evict(at, asked, None);
        } else {
            self.store_later(fetched, asked.blocks);
        }
        done.max(fetched)
    }

    /// When a write is done; none if it waits for room.
    fn write(&mut self, open: Open, asked: &Asked<'_>) -> Option<u64> {
        let (at, blocks) = (open.at, asked.blocks);
        if self.write_policy != WritePolicy::Back {
            let length = Bytes::new(open.bytes);
            let done = self.origin.submit(at, Direction::Write, length);
            self.store_later(done, blocks);
            return Some(done);
        }
        let mut done = at;
        let bytes = |length: u32| Bytes::new(self.block.get() * u64::from(length));
        let waits = match asked.room {
            Some(room) => {
                let logged = length(blocks.iter().filter(|block| **block & DIRTY != 0).count());
                let log = log_of(&mut self.logs, room, at);
                !log.admits(logged)
            }
            None => asked.evicted > 0,
        };
        if !waits {
            runs(
                blocks,
                |block| block & STORED != 0,
                |length| done = done.max(self.flash.submit(at, Direction::Write, bytes(length))),
            );
        }
        runs(
            blocks,
            |block| block & STORED == 0,
            |length| done = done.max(self.origin.submit(at, Direction::Write, bytes(length))),
        );
        if !waits {
            if let Some(room) = asked.room {
                self.carry(room.disk, at);
            }
            return Some(done);
        }
        self.open += 1;
        self.wait_for_room(Open { done, ..open }, asked);
        None
    }

    fn store_later(&mut self, at: u64, blocks: &[u8]) {
        let mut lengths = 0_u64;
        runs(
            blocks,
            |block| block & STORED != 0,
            |length| lengths += u64::from(length),
        );
        if lengths > 0 {
            // What one request brought is written with one I/O.
            let bytes = self.block.get() * lengths;
            self.submit_later(at, Target::Flash, true, bytes, Then::Nothing);
        }
    }

    fn submit_later(&mut self, at: u64, target: Target, writes: bool, bytes: u64, then: Then) {
        let submit = Event::Submit {
            target,
            writes,
            bytes,
            then,
        };
        self.later(at, submit);
    }

    fn later(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.pending.push(Reverse(Pending {
            at,
            sequence: self.sequence,
            event,
        }));
    }

    /// Lets everything happen whose moment has come.
    fn work_off(&mut self, until: u64) {
        self.worked_off = self.worked_off.max(until);
        while let Some(Reverse(next)) = self.pending.peek().copied() {
            if next.at > until {
                break;
            }
            self.pending.pop();
            match next.event {
                Event::Submit {
                    target,
                    writes,
                    bytes,
                    then,
                } => {
                    let device = match target {
                        Target::Flash => &mut self.flash,
                        Target::Origin => &mut self.origin,
                    };
                    let direction = if writes {
                        Direction::Write
                    } else {
                        Direction::Read
                    };
                    let done = device.submit(next.at, direction, Bytes::new(bytes));
                    match then {
                        Then::Nothing => {}
                        Then::WriteTo(target) => {
                            self.submit_later(done, target, true, bytes, Then::Nothing);
                        }
                        then => self.later(done, Event::Ended(then)),
                    }
                }
                Event::Ended(what) => self.ended(what, next.at),
            }
        }
    }
}

#[cfg(test)]
mod tests;
