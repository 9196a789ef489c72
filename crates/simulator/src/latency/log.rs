//! The dirty log of a disk while it is written and destaged, with the time that this takes.
//!
//! The cache has decided which writes of a log go to the origin together, as if the origin took them at once. Here
//! they go as the origin takes them, and a guest's write waits while the log is full:
//!
//! ```text
//!   guests' writes ─► waiting, in order ─► admitted ─► flash
//!                           ▲ room           │
//!                        settled ◄─ flushed ◄┴ written, at the daemon's pace, batch after batch
//! ```
//!
//! Invariant: `settled <= admitted <= settled + room`. All three count records of one block. A group of writes that
//! is settled together begins when all its records are admitted. The cache settles its own log within the same room,
//! so there is always a group that may begin while a write waits.

use super::request::Open;
use crate::destaged::LogRoom;
use destage::{Go, Need, Pace, ReadTimes};
use std::collections::VecDeque;
use units::{BLOCK_BYTES, Duration, Instant};

/// A guest's write that waits for room.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    open: Open,
    /// Records of it that are not admitted yet.
    left: u64,
    /// Blocks that it writes to flash.
    blocks: u32,
}

/// What comes next on the way to the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing, until so many records were admitted since the beginning.
    Admitted(u64),
    /// A write of so many blocks.
    Write(u32),
    /// Nothing, until every write has ended.
    BatchEnded,
    /// A flush, when every write has ended.
    Flush,
    /// The origin has so many records since the beginning.
    Settle(u64),
}

/// What a driver does next for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Reads so many blocks from flash and writes them to the origin.
    Write(u32),
    /// Flushes the origin.
    Flush,
    /// Admits what waits: records were settled.
    Admit,
    /// Asks again then, in ns.
    WakeAt(u64),
    /// Waits for what is on its way.
    Wait,
}

/// Such a log. See the module's header.
#[derive(Debug)]
pub(super) struct Log {
    room: u64,
    admitted: u64,
    settled: u64,
    /// The writes of a group of which the cache has not said yet what they settle.
    collected: Vec<Step>,
    /// Records of all groups.
    grouped: u64,
    steps: VecDeque<Step>,
    in_flight: u32,
    pace: Pace,
    waiting: VecDeque<Waiting>,
    /// When it is to be asked again, in ns, as it has said.
    wakes_at: Option<u64>,
}

impl Log {
    /// An empty log for so many records.
    pub(super) fn new(room: u64, now: u64) -> Self {
        Self {
            room,
            admitted: 0,
            settled: 0,
            collected: Vec::new(),
            grouped: 0,
            steps: VecDeque::new(),
            in_flight: 0,
            pace: Pace::new(Instant::from_nanos(now)),
            waiting: VecDeque::new(),
            wakes_at: None,
        }
    }

    /// Whether writes to the origin are on their way.
    pub(super) fn is_writing(&self) -> bool {
        self.in_flight > 0
    }

    /// A guest's read of the origin took so long.
    pub(super) fn read_took(&mut self, nanos: u64) {
        let writing = self.is_writing();
        self.pace.read_took(Duration::from_nanos(nanos), writing);
    }

    /// A guest writes so many records. True if there is room and nobody waits before it; they are admitted then.
    pub(super) fn admits(&mut self, records: u64) -> bool {
        let fits = self.waiting.is_empty() && self.admitted + records <= self.settled + self.room;
        if fits {
            self.admitted += records;
        }
        fits
    }

    /// A write that was not admitted waits with its records and its blocks for flash.
    pub(super) fn wait(&mut self, open: Open, records: u64, blocks: u32) {
        self.waiting.push_back(Waiting {
            open,
            left: records,
            blocks,
        });
        self.admit_some();
    }

    /// Admits what there is room for; a write's records one by one, as the daemon does.
    fn admit_some(&mut self) {
        if let Some(first) = self.waiting.front_mut() {
            let take = first.left.min(self.settled + self.room - self.admitted);
            first.left -= take;
            self.admitted += take;
        }
    }

    /// Takes out the first write that waits no longer, with its blocks for flash.
    pub(super) fn next_admitted(&mut self) -> Option<(Open, u32)> {
        self.admit_some();
        let first = self.waiting.pop_front_if(|first| first.left == 0)?;
        Some((first.open, first.blocks))
    }

    /// The cache writes so many blocks to the origin, after what it did before.
    pub(super) fn write(&mut self, blocks: u32) {
        self.collected.push(Step::Write(blocks));
    }

    /// Its writes so far end before the next begins.
    pub(super) fn end_batch(&mut self) {
        self.collected.push(Step::BatchEnded);
    }

    /// The writes so far settle so many records; `flushed`: when the origin was flushed.
    pub(super) fn settle(&mut self, records: u32, flushed: bool) {
        self.grouped += u64::from(records);
        self.steps.push_back(Step::Admitted(self.grouped));
        self.steps.extend(self.collected.drain(..));
        if flushed {
            self.steps.push_back(Step::Flush);
        }
        self.steps.push_back(Step::Settle(self.grouped));
    }

    /// What comes next, at `now` ns. `flash` is how long guests' reads of the flash take.
    pub(super) fn next(&mut self, flash: &ReadTimes, now: u64) -> Next {
        while let Some(step) = self.steps.front().copied() {
            match step {
                Step::Admitted(records) if self.admitted < records => return Next::Wait,
                Step::Write(blocks) => match self.ask(blocks, flash, now) {
                    Go::Now => {
                        self.in_flight += 1;
                        self.steps.pop_front();
                        return Next::Write(blocks);
                    }
                    Go::Full => return Next::Wait,
                    Go::Rate(until) | Go::Latency(until) => {
                        let until = until.as_nanos();
                        let is_new = self.wakes_at.replace(until) != Some(until);
                        return if is_new {
                            Next::WakeAt(until)
                        } else {
                            Next::Wait
                        };
                    }
                },
                Step::BatchEnded | Step::Flush | Step::Settle(_) if self.in_flight > 0 => {
                    return Next::Wait;
                }
                Step::Admitted(_) | Step::BatchEnded => {}
                Step::Flush => {
                    self.in_flight += 1;
                    self.steps.pop_front();
                    return Next::Flush;
                }
                Step::Settle(records) => {
                    self.settled = records;
                    self.steps.pop_front();
                    return Next::Admit;
                }
            }
            self.steps.pop_front();
        }
        Next::Wait
    }

    fn ask(&mut self, blocks: u32, flash: &ReadTimes, now: u64) -> Go {
        let need = if self.waiting.is_empty() {
            Need::Idle
        } else {
            Need::Room
        };
        let bytes = u64::from(blocks) * BLOCK_BYTES;
        let now = Instant::from_nanos(now);
        self.pace.ask(bytes, self.in_flight, None, need, flash, now)
    }

    /// A write has ended.
    pub(super) fn wrote(&mut self) {
        self.in_flight -= 1;
        self.pace.wrote();
    }

    /// The flush has ended.
    pub(super) fn flushed(&mut self) {
        self.in_flight -= 1;
    }
}

/// The log of a disk, empty if it is the first write to it.
pub(super) fn log_of(logs: &mut Vec<Option<Log>>, room: LogRoom, now: u64) -> &mut Log {
    let at = room.disk.index();
    if logs.len() <= at {
        logs.resize_with(at + 1, || None);
    }
    logs[at].get_or_insert_with(|| Log::new(room.records, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(log: &mut Log) -> Next {
        log.next(&ReadTimes::default(), 0)
    }

    #[test]
    fn a_write_waits_until_a_flush_has_made_room() {
        let mut log = Log::new(4, 0);
        assert!(log.admits(3));
        assert!(!log.admits(2), "one has room, two have not");
        log.wait(Open::default(), 2, 2);
        log.write(3);
        log.settle(3, true);
        assert_eq!(next(&mut log), Next::Write(3));
        assert_eq!((next(&mut log), log.waiting.len()), (Next::Wait, 1));
        log.wrote();
        assert_eq!(next(&mut log), Next::Flush);
        assert!(log.next_admitted().is_none());
        log.flushed();
        assert_eq!(next(&mut log), Next::Admit);
        assert_eq!(log.next_admitted().map(|(_, blocks)| blocks), Some(2));
        assert!(log.admits(2) && !log.admits(1));
    }

    #[test]
    fn a_write_longer_than_the_log_goes_through_piece_by_piece() {
        let mut log = Log::new(4, 0);
        assert!(!log.admits(6));
        log.wait(Open::default(), 6, 6);
        log.write(4);
        log.settle(4, false);
        assert_eq!(next(&mut log), Next::Write(4));
        log.wrote();
        assert_eq!(next(&mut log), Next::Admit);
        assert!(log.next_admitted().is_some());
    }

    #[test]
    fn a_batch_ends_before_the_next_begins_and_the_depth_grows_from_one() {
        let mut log = Log::new(100, 0);
        assert!(log.admits(4));
        log.write(1);
        log.write(1);
        log.end_batch();
        log.write(1);
        log.settle(3, true);
        assert_eq!(next(&mut log), Next::Write(1));
        assert_eq!(next(&mut log), Next::Wait, "one at a time at first");
        log.wrote();
        assert_eq!(next(&mut log), Next::Write(1));
        assert_eq!(next(&mut log), Next::Wait);
        log.wrote();
        assert_eq!(next(&mut log), Next::Write(1));
        log.wrote();
        assert_eq!(next(&mut log), Next::Flush);
    }
}
