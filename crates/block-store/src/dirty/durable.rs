//! How far a dirty log would survive a power cut, and what is done about it when a flush waits.
//!
//! ```text
//!   flush waits ─┬─ its records are in the open chunk ─► seal it: a durable write
//!                └─ in chunks that were written plainly, since they were full ─► flush the flash
//! ```
//!
//! At most [`DURABLE_WRITES_MAX`] durable writes of a log are on their way; meanwhile the next chunk
//! gathers, and all flushes whose records are in it share it. A segment's chunks count as durable
//! only when it is durable, too, that the segment belongs to the log.
//!
//! Each chunk says how far the log was durable before it; of the last ones nobody says so, and when the
//! medium loses one, or it rots, it would look like a write that a power cut has torn. So the disk's
//! entry says how far the log is durable, and the journal with its next commit, or after
//! [`LOGGED_AFTER`]: until then a flush has been answered of which that loss would not be noticed.

use crate::guard::{Guard, holds};
use crate::limits::{DURABLE_WRITES_MAX, LOGGED_AFTER};
use crate::ports::{Errand, Ports, Tag};
use crate::store::Store;
use block_io::FlashVerb;
use flash_format::{JournalEntry, Position};
use segment_log::{Source, StreamKey};
use std::collections::VecDeque;
use units::DiskSlot;

/// How far a chunk has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// On its way; it is durable when it has come, or not.
    Writing { durable: bool },
    /// On flash, but a power cut may take it.
    Written,
    /// It stays.
    Durable,
}

#[derive(Clone, Copy, Debug)]
struct LogChunk {
    /// The number behind its last record.
    end: u64,
    last: Position,
    state: State,
}

/// The chunk that is gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenChunk {
    /// Its place in lasting memory.
    pub(super) place: u32,
    /// The record before its first one.
    pub(super) follows: Position,
    pub(super) begins_interval: bool,
    /// A flush waits for it: it ends an interval, and is written durably.
    pub(super) wanted: bool,
}

/// The chunks of a log that are not known to be durable, oldest first.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    sealed: VecDeque<LogChunk>,
    pub(super) open: Option<OpenChunk>,
    /// Everything before this number is durable ...
    durable: u64,
    /// ... which is up to here.
    durable_at: Position,
    /// Everything before this number is to become durable.
    wanted: u64,
    /// A flush of the flash is on its way; it covers chunks before this number.
    flushing: Option<u64>,
}

impl Chunks {
    /// Another record was found on flash: whether it is durable there is not known.
    pub(super) fn found(&mut self, end: u64, last: Position) {
        let state = State::Written;
        self.sealed.clear();
        self.sealed.push_back(LogChunk { end, last, state });
    }

    pub(super) fn seal(&mut self, end: u64, last: Position, durable: bool) {
        self.open = None;
        let state = State::Writing { durable };
        self.sealed.push_back(LogChunk { end, last, state });
    }

    fn written(&mut self, end: u64) {
        let chunk = self.sealed.iter_mut().find(|chunk| chunk.end == end);
        let chunk = chunk.expect("a chunk that was written was sealed");
        chunk.state = match chunk.state {
            State::Writing { durable: true } => State::Durable,
            State::Writing { durable: false } => State::Written,
            State::Written | State::Durable => panic!("a chunk is written once"),
        };
    }

    fn durable_writes(&self) -> usize {
        let durable = |chunk: &&LogChunk| chunk.state == State::Writing { durable: true };
        self.sealed.iter().filter(durable).count()
    }
}

impl super::DirtyDisk {
    /// Records before this number survive a power cut.
    pub fn durable(&self) -> u64 {
        self.chunks.durable
    }

    /// Where the last record is that survives a power cut.
    pub(super) fn durable_at(&self) -> Position {
        self.chunks.durable_at.max(self.log.watermark())
    }

    /// Records before this number are on flash, durably or not; every one in a chunk that is sealed.
    pub(crate) fn written(&self) -> u64 {
        let mut written = self.chunks.durable;
        for chunk in &self.chunks.sealed {
            if matches!(chunk.state, State::Writing { .. }) {
                break;
            }
            written = chunk.end;
        }
        written
    }

    /// Whether a flush waits for records before this number and nothing is done about it: never.
    pub fn wants_durability(&self) -> bool {
        self.chunks.durable < self.chunks.wanted
    }
}

impl Store {
    /// A guest flushes: ends the interval. Returns the number before which everything has to be
    /// durable before the flush is answered.
    pub fn flush_log<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot) -> u64 {
        let Some(dirty) = self.dirty.get_mut(disk) else {
            return 0;
        };
        let end = dirty.log.end();
        match &mut dirty.chunks.open {
            // What comes into the chunk until it is sealed was accepted before the flush is answered.
            Some(open) => open.wanted = true,
            None => dirty.log.end_interval(),
        }
        dirty.chunks.wanted = end;
        self.push_durability(ports, disk);
        end
    }

    /// What is to go to the origin has to be durable here: records before this number, but for those
    /// of the open chunk unless there is a hurry.
    pub fn want_durable<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        to: u64,
        hurries: bool,
    ) {
        let Some(dirty) = self.dirty.get_mut(disk) else {
            return;
        };
        let chunks = &mut dirty.chunks;
        let sealed = chunks
            .sealed
            .back()
            .map_or(chunks.durable, |chunk| chunk.end);
        if to > sealed && hurries && chunks.wanted < to {
            self.flush_log(ports, disk);
            return;
        }
        if chunks.wanted < to.min(sealed) {
            chunks.wanted = to.min(sealed);
            self.push_durability(ports, disk);
        }
    }

    /// What a recovery has found may not be durable yet, or the tables may not know that it is: both
    /// are mended at once, whether a guest flushes or not.
    pub(crate) fn make_found_durable<T: Tag>(&mut self, ports: &mut Ports<T>) {
        let logs = self.dirty.iter();
        let ends: Vec<(DiskSlot, u64)> =
            logs.map(|(disk, dirty)| (disk, dirty.log.end())).collect();
        for (disk, end) in ends {
            self.want_durable(ports, disk, end, false);
        }
    }

    /// Does what can be done now so that what is wanted becomes durable.
    pub fn push_durability<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot) {
        self.see_what_is_durable(disk);
        self.note_durable(ports, disk);
        let Some(dirty) = self.dirty.get_mut(disk) else {
            return;
        };
        let chunks = &mut dirty.chunks;
        if chunks.durable >= chunks.wanted {
            return;
        }
        let seals = chunks.open.is_some_and(|open| open.wanted)
            && chunks.durable_writes() < DURABLE_WRITES_MAX;
        let plain = |chunk: &&LogChunk| chunk.state == State::Writing { durable: false };
        let on_their_way = chunks.sealed.iter().any(|chunk| plain(&chunk));
        let written = chunks
            .sealed
            .iter()
            .rfind(|chunk| chunk.state == State::Written);
        if let (Some(chunk), false, None) = (written, on_their_way, chunks.flushing) {
            chunks.flushing = Some(chunk.end);
            ports.wake_at(ports.now + self.config.flash_timeout);
            ports.flash(Errand::LogFlush(disk), FlashVerb::Flush);
        }
        if seals {
            self.seal_chunk(ports, StreamKey::of(disk, Source::Dirty));
        }
    }

    /// Counts what has become durable, from the oldest chunk on.
    fn see_what_is_durable(&mut self, disk: DiskSlot) {
        let journal = self.journal.durable();
        let Some(dirty) = self.dirty.get_mut(disk) else {
            return;
        };
        // The first number that lies in a segment that may not be known to be the log's.
        let unknown = dirty
            .segments
            .iter()
            .position(|segment| segment.opened > journal && holds(Guard::OpenBeforeAnswer));
        let known = match unknown {
            None => u64::MAX,
            Some(0) => 0,
            Some(at) => dirty.segments[at - 1].end,
        };
        let chunks = &mut dirty.chunks;
        while let Some(chunk) = chunks.sealed.front()
            && chunk.state == State::Durable
            && chunk.end <= known
        {
            chunks.durable = chunk.end;
            chunks.durable_at = chunk.last;
            chunks.sealed.pop_front();
        }
    }

    /// The disk's entry says how far its log is durable, and the journal will.
    fn note_durable<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot) {
        let Some(dirty) = self.dirty.get(disk) else {
            return;
        };
        let at = dirty.chunks.durable_at;
        if !holds(Guard::DurableIsNamed) || !self.disks.logged(disk, at) {
            return;
        }
        if self.unnamed.iter().all(|(_, unnamed)| *unnamed != disk) {
            self.unnamed.push_back((ports.now, disk));
            ports.wake_at(ports.now + LOGGED_AFTER);
        }
    }

    /// Queues the entries that say how far logs are durable: with a commit that is made anyway, or
    /// when they have waited long enough. A cache that stops says so in its last checkpoint.
    pub(crate) fn name_durable<T: Tag>(&mut self, ports: &mut Ports<T>) {
        if self.stopping {
            self.unnamed.clear();
        }
        let Some((since, _)) = self.unnamed.front() else {
            return;
        };
        let due = ports.now >= *since + LOGGED_AFTER;
        if !(due || self.journal.goes(ports.now)) {
            return;
        }
        for (_, disk) in std::mem::take(&mut self.unnamed) {
            if let Some(entry) = self.disks.get(disk) {
                let to = entry.logged;
                let entry = JournalEntry::Logged { disk, to };
                self.journal.push(entry, to.generation, ports.now);
            }
        }
        if due {
            self.journal.hurry();
        }
    }

    /// A chunk of a dirty log has been written.
    pub(crate) fn log_chunk_written<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        disk: DiskSlot,
        end: u64,
    ) {
        if let Some(dirty) = self.dirty.get_mut(disk) {
            dirty.chunks.written(end);
        }
        self.push_durability(ports, disk);
    }

    /// A flush of the flash has ended that a dirty log asked for.
    pub(crate) fn log_flush_done<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot) {
        if let Some(dirty) = self.dirty.get_mut(disk)
            && let Some(end) = dirty.chunks.flushing.take()
        {
            for chunk in &mut dirty.chunks.sealed {
                if chunk.end <= end && chunk.state == State::Written {
                    chunk.state = State::Durable;
                }
            }
        }
        self.push_durability(ports, disk);
    }
}
