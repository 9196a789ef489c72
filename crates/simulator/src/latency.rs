//! Replays a run's I/O on the modelled devices: when each request would have been answered.
//!
//! ```text
//!   request at t ─┬─ reads of hits ────► flash ──┐
//!                 ├─ reads of misses ──► origin ─┼─► answered when the last is done
//!                 └─ writes ──► what the write policy waits for
//!
//!   nobody waits for:  fills (begin when the origin has answered) · updates under `through`
//!                      destaging (flash, then origin) · reclaim (flash, then flash) · descriptors
//!                      but they take the devices' time: a heap holds them until their moment comes
//! ```
//!
//! Requests arrive at the trace's own times (divided by a speed), or one after another so that a number of
//! them is always outstanding.

use crate::device::{Device, DeviceSettings, Direction};
use crate::number::{count, real};
use crate::outcome::{Chore, HIT, RAM, STORED, runs};
use crate::write_policy::WritePolicy;
use hdrhistogram::Histogram;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use trace::{Op, Record};
use units::Bytes;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Flash,
    Origin,
}

/// An I/O that nobody waits for. Ordered by time, then by when it was thought of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    at: u64,
    sequence: u64,
    bytes: u64,
    target: Target,
    writes: bool,
    /// Where the bytes are written once they have been read.
    then: Option<Target>,
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
    /// When the outstanding requests will be answered; only at a fixed depth.
    outstanding: BinaryHeap<Reverse<u64>>,
    first_us: Option<u64>,
    now: u64,
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
            first_us: None,
            now: 0,
            times: Times::new(),
        }
    }

    /// Forgets the times so far, not the queues.
    pub(crate) fn start_counting(&mut self) {
        self.times = Times::new();
    }

    pub(crate) fn times(&self) -> &Times {
        &self.times
    }

    /// One request of the trace, and what the cache did with its blocks.
    pub(crate) fn request(&mut self, record: &Record, blocks: &[u8]) {
        let at = self.arrive(record.time_us);
        self.work_off(at);
        let done = match record.op {
            Op::Read => self.read(at, blocks),
            Op::Write => self.write(at, blocks, record.length),
            Op::Flush => match self.write_policy {
                WritePolicy::Back => self.flash.submit(at, Direction::Write, Bytes::ZERO),
                WritePolicy::Around | WritePolicy::Through => {
                    self.origin.submit(at, Direction::Write, Bytes::ZERO)
                }
            },
            // A command without data.
            Op::Discard | Op::WriteZeroes => self.origin.submit(at, Direction::Write, Bytes::ZERO),
        };
        if let Arrival::Depth(_) = self.arrival {
            self.outstanding.push(Reverse(done));
        }
        self.times.began.get_or_insert(at);
        self.times.ended = self.times.ended.max(done);
        let recorded = match record.op {
            Op::Read => self.times.reads.record(done - at),
            Op::Write => self.times.writes.record(done - at),
            Op::Flush | Op::Discard | Op::WriteZeroes => return,
        };
        assert!(recorded.is_ok(), "a histogram that grows takes every time");
        self.times.bytes += record.length.get();
    }

    /// What the cache did on its own, caused by the latest request.
    pub(crate) fn chore(&mut self, chore: Chore, blocks: u32) {
        let bytes = self.block.get() * u64::from(blocks);
        let (writes, then) = match chore {
            Chore::Coalesce => return,
            Chore::Destage | Chore::DestageRun => (false, Some(Target::Origin)),
            Chore::Reclaim => (false, Some(Target::Flash)),
            Chore::Descriptor | Chore::Journal | Chore::Admit => (true, None),
        };
        self.later(self.now, Target::Flash, writes, bytes, then);
    }

    fn arrive(&mut self, time_us: u64) -> u64 {
        let at = match self.arrival {
            Arrival::Timed { speed } => {
                let first = *self.first_us.get_or_insert(time_us);
                count(real(time_us.saturating_sub(first)) * 1000.0 / speed)
            }
            Arrival::Depth(depth) if self.outstanding.len() < depth as usize => self.now,
            Arrival::Depth(_) => self.outstanding.pop().map_or(0, |Reverse(done)| done),
        };
        // A trace whose clock steps back waits until it has caught up.
        self.now = self.now.max(at);
        self.now
    }

    fn read(&mut self, at: u64, blocks: &[u8]) -> u64 {
        let mut done = at;
        let bytes = |length: u32| Bytes::new(self.block.get() * u64::from(length));
        runs(
            blocks,
            // What is staged in RAM takes no time beside the devices'.
            |block| block & (HIT | RAM) == HIT,
            |length| done = done.max(self.flash.submit(at, Direction::Read, bytes(length))),
        );
        let mut fetched = at;
        runs(
            blocks,
            |block| block & HIT == 0,
            |length| fetched = fetched.max(self.origin.submit(at, Direction::Read, bytes(length))),
        );
        self.store_later(fetched, blocks);
        done.max(fetched)
    }

    fn write(&mut self, at: u64, blocks: &[u8], length: Bytes) -> u64 {
        if self.write_policy != WritePolicy::Back {
            let done = self.origin.submit(at, Direction::Write, length);
            self.store_later(done, blocks);
            return done;
        }
        let mut done = at;
        let bytes = |length: u32| Bytes::new(self.block.get() * u64::from(length));
        runs(
            blocks,
            |block| block & STORED != 0,
            |length| done = done.max(self.flash.submit(at, Direction::Write, bytes(length))),
        );
        runs(
            blocks,
            |block| block & STORED == 0,
            |length| done = done.max(self.origin.submit(at, Direction::Write, bytes(length))),
        );
        done
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
            self.later(at, Target::Flash, true, self.block.get() * lengths, None);
        }
    }

    fn later(&mut self, at: u64, target: Target, writes: bool, bytes: u64, then: Option<Target>) {
        self.sequence += 1;
        self.pending.push(Reverse(Pending {
            at,
            sequence: self.sequence,
            bytes,
            target,
            writes,
            then,
        }));
    }

    /// Submits the I/Os that nobody waits for and whose moment has come.
    fn work_off(&mut self, until: u64) {
        while let Some(Reverse(next)) = self.pending.peek().copied() {
            if next.at > until {
                break;
            }
            self.pending.pop();
            let device = match next.target {
                Target::Flash => &mut self.flash,
                Target::Origin => &mut self.origin,
            };
            let direction = if next.writes {
                Direction::Write
            } else {
                Direction::Read
            };
            let done = device.submit(next.at, direction, Bytes::new(next.bytes));
            if let Some(target) = next.then {
                self.later(done, target, true, next.bytes, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::VolumeIndex;
    use units::Offset;

    const BLOCK: Bytes = Bytes::new(4096);

    fn model(write_policy: WritePolicy, arrival: Arrival) -> LatencyModel {
        let free = "iops=unlimited,bandwidth=unlimited,parallel=unlimited";
        let settings = LatencySettings {
            flash: format!("{free},read=100us,write=10us").parse().unwrap(),
            origin: format!("{free},read=1ms,write=2ms").parse().unwrap(),
            arrival,
        };
        LatencyModel::new(&settings, write_policy, BLOCK, 0)
    }

    fn record(op: Op, time_us: u64, blocks: u64) -> Record {
        Record {
            time_us,
            offset: Offset::ZERO,
            length: Bytes::new(4096 * blocks),
            response_us: None,
            volume: VolumeIndex::default(),
            op,
            hash: None,
        }
    }

    fn near(nanos: u64, expected_us: f64) -> bool {
        (real(nanos) / 1000.0 / expected_us - 1.0).abs() < 0.002
    }

    const ORIGINAL: Arrival = Arrival::Timed { speed: 1.0 };

    #[test]
    fn a_request_is_answered_when_its_slowest_part_is() {
        let mut model = model(WritePolicy::Through, ORIGINAL);
        model.request(&record(Op::Read, 0, 2), &[HIT, STORED]);
        assert!(near(model.times.reads.max(), 1000.0));
        model.start_counting();
        model.request(&record(Op::Read, 9000, 2), &[HIT, HIT]);
        assert!(near(model.times.reads.max(), 100.0));
    }

    #[test]
    fn a_write_waits_for_what_its_policy_promises() {
        for (policy, blocks, expected_us) in [
            (WritePolicy::Around, [0, HIT], 2000.0),
            (WritePolicy::Through, [STORED, HIT | STORED], 2000.0),
            (WritePolicy::Back, [STORED, HIT | STORED], 10.0),
            (WritePolicy::Back, [STORED, 0], 2000.0),
        ] {
            let mut model = model(policy, ORIGINAL);
            model.request(&record(Op::Write, 0, 2), &blocks);
            assert!(near(model.times.writes.max(), expected_us), "{policy:?}");
        }
    }

    #[test]
    fn a_depth_of_two_answers_two_in_the_time_of_one() {
        let mut model = model(WritePolicy::Through, Arrival::Depth(2));
        for _ in 0..100 {
            model.request(&record(Op::Read, 0, 1), &[HIT]);
        }
        assert_eq!(model.times.ended, 50 * 100_000);
    }

    #[test]
    fn twice_the_speed_halves_the_time() {
        let mut model = model(WritePolicy::Through, Arrival::Timed { speed: 2.0 });
        model.request(&record(Op::Read, 500, 1), &[HIT]);
        model.request(&record(Op::Read, 10_500, 1), &[HIT]);
        assert_eq!(model.times.ended, 5_000_000 + 100_000);
    }

    #[test]
    fn a_fill_takes_the_flash_when_the_origin_has_answered() {
        let settings = LatencySettings {
            flash: "read=100us,write=500us,parallel=1,bandwidth=unlimited,iops=unlimited"
                .parse()
                .unwrap(),
            origin: "read=1ms,write=2ms,bandwidth=unlimited".parse().unwrap(),
            arrival: ORIGINAL,
        };
        let mut model = LatencyModel::new(&settings, WritePolicy::Through, BLOCK, 0);
        model.request(&record(Op::Read, 0, 1), &[STORED]);
        // The fill holds the flash from 1,000 us to 1,500 us.
        model.request(&record(Op::Read, 900, 1), &[HIT]);
        model.request(&record(Op::Read, 1100, 1), &[HIT]);
        assert!(near(model.times.reads.min(), 100.0));
        assert!(near(model.times.reads.value_at_quantile(0.5), 500.0));
        assert_eq!(model.times.ended, 1_600_000);
    }

    #[test]
    fn destaging_reads_flash_and_then_writes_the_origin() {
        let settings = LatencySettings {
            flash: "read=100us,bandwidth=unlimited,iops=unlimited"
                .parse()
                .unwrap(),
            origin: "read=1ms,write=2ms,parallel=1,bandwidth=unlimited,iops=unlimited"
                .parse()
                .unwrap(),
            arrival: ORIGINAL,
        };
        let mut model = LatencyModel::new(&settings, WritePolicy::Back, BLOCK, 0);
        model.request(&record(Op::Write, 0, 1), &[STORED]);
        model.chore(Chore::Destage, 1);
        // The origin is busy with it from 100 us to 2,100 us.
        model.request(&record(Op::Read, 200, 1), &[STORED]);
        assert_eq!(model.times.ended, 3_100_000);
    }

    #[test]
    fn a_clock_that_steps_back_stands_still() {
        let mut model = model(WritePolicy::Through, ORIGINAL);
        for time_us in [5000, 9000, 0, 9001] {
            model.request(&record(Op::Read, time_us, 1), &[HIT]);
        }
        assert_eq!(model.times.ended, 4_001_000 + 100_000);
        assert_eq!(model.times.reads.len(), 4);
    }
}
