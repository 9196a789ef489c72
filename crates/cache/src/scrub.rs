//! The scrub: reads what is on flash while guests are served, and sees whether it is what was written.
//!
//! ```text
//!  segment ─► which blocks lie there (memory while it is filled; footer; without one, the headers of its chunks)
//!     ▲          └─► run of blocks ─► read ─► each block: checksum ─┬─ right
//!     │                  ▲                                          └─ wrong, unreadable ─► told; given up if clean
//!     └── none is left ──┴── one is left, and the pace allows it
//! ```
//!
//! The pace: one read at a time, and none before the bytes of the last one are paid for at the rate. No read while a
//! guest waits for the flash; after [`SCRUB_YIELD_MAX`] of that one read goes all the same. No read at all while the
//! flash is late.
//!
//! Invariants:
//! - Only a copy that lies in its slot when its bytes have come is judged: a block that was written, forgotten or
//!   reclaimed meanwhile is no damage.
//! - A clean block that is damaged leaves the index, as it does when a guest reads it. A dirty one stays: its log is all
//!   that has it, and a guest's read of it fails.
//! - No read of the scrub has the flash given up: that is for operations that somebody waits for.

use crate::api::ControlError;
use crate::flash_use::FlashUse;
use crate::limits::{
    PROBE_PAUSE, SCRUB_LOOK_PAUSE, SCRUB_RATE_MIN, SCRUB_RUN_BLOCKS, SCRUB_YIELD_MAX,
};
use crate::ports::Ports;
use crate::purpose::{ReadPurpose, ScrubRead};
use crate::scrubbed::{ScrubPass, ScrubStatus, Scrubbed};
use block_io::{Buf, PAGE_BYTES};
use block_store::{Condemning, Purpose, Resident, Residents, SegmentUse, Store};
use flash_format::SegmentIndex;
use std::collections::VecDeque;
use units::{BLOCK_BYTES, Bytes, Duration, FlashSlot, Instant};

/// A part of what says which blocks lie in a segment.
#[derive(Clone, Copy)]
enum List {
    Footer,
    /// The header of a chunk, at this page of the segment.
    Header(u32),
}

/// A pass that is under way.
struct Pass {
    rate: Bytes,
    /// What it had found when it began with the segment that it is at.
    before: ScrubPass,
    /// What it has found in this segment.
    here: Scrubbed,
    /// Which segment that is; none before the first.
    at: Option<SegmentUse>,
    /// What of its list of blocks is read next; none: the list is known.
    list: Option<List>,
    /// What is left to be read of it, in the order of slots.
    left: VecDeque<Resident>,
    /// How many of those are read one by one, since reading them together has failed.
    singly: usize,
    /// What is being read.
    reading: Vec<Resident>,
    /// When the rate lets it read again.
    due: Instant,
    /// Since when it has let guests go first.
    yields_since: Option<Instant>,
}

/// What looks for damage on the flash.
#[derive(Default)]
pub(crate) struct Scrub {
    pass: Option<Pass>,
    /// Tells the reads of a pass from those of one that was stopped.
    number: u64,
    /// A read is under way, of whichever pass.
    is_reading: bool,
    total: Scrubbed,
    whole_passes: u64,
    last: Scrubbed,
}

impl Scrub {
    pub(crate) fn status(&self, flash: Option<&Store>) -> ScrubStatus {
        ScrubStatus {
            pass: self.pass.as_ref().map(|pass| (pass.before, pass.rate)),
            segments: flash.map_or(0, |flash| flash.facts().geometry().segment_count()),
            total: self.total,
            whole_passes: self.whole_passes,
            last: self.last,
        }
    }
}

/// What reads the flash for the scrub.
pub(crate) struct Scrubber<'a> {
    scrub: &'a mut Scrub,
    flash: &'a mut FlashUse,
    ports: &'a mut Ports,
    /// The flash is late with what guests ask of it.
    is_late: bool,
}

impl<'a> Scrubber<'a> {
    pub(crate) fn new(
        scrub: &'a mut Scrub,
        flash: &'a mut FlashUse,
        ports: &'a mut Ports,
        is_late: bool,
    ) -> Self {
        Self {
            scrub,
            flash,
            ports,
            is_late,
        }
    }

    /// Begins a pass, or goes on with one; changes the rate of one that is under way.
    ///
    /// # Errors
    /// Without a flash in use.
    pub(crate) fn begin(&mut self, rate: Bytes, from: ScrubPass) -> Result<(), ControlError> {
        if !self.flash.is_in_use() {
            return Err(ControlError::NoFlash);
        }
        let rate = rate.max(SCRUB_RATE_MIN);
        if let Some(pass) = self.scrub.pass.as_mut() {
            pass.rate = rate;
            return Ok(());
        }
        self.scrub.number += 1;
        self.scrub.pass = Some(Pass {
            rate,
            before: from,
            here: Scrubbed::default(),
            at: None,
            list: None,
            left: VecDeque::new(),
            singly: 0,
            reading: Vec::new(),
            due: self.ports.now(),
            yields_since: None,
        });
        self.step();
        Ok(())
    }

    /// Ends the pass. A read that is under way counts for nothing.
    pub(crate) fn stop(&mut self) {
        self.scrub.pass = None;
    }

    /// Reads what comes next, if it is time to.
    pub(crate) fn step(&mut self) {
        if self.scrub.is_reading {
            return;
        }
        let Some(mut pass) = self.scrub.pass.take() else {
            return;
        };
        let Some(flash) = self.flash.as_mut() else {
            // It was given up: nothing on it is served any more but for dirty logs.
            return;
        };
        if let Some(until) = pass.waits(self.ports, self.is_late) {
            self.ports.store.wake_at(until);
            self.scrub.pass = Some(pass);
            return;
        }
        if let Some(bytes) = pass.read(flash, self.ports, self.scrub.number) {
            pass.due = self.ports.now() + time_of(bytes, pass.rate);
            self.scrub.is_reading = true;
            self.scrub.pass = Some(pass);
            return;
        }
        self.scrub.whole_passes += 1;
        self.scrub.last = pass.before.found;
    }

    /// What the scrub has read has come, or `None`: it could not be read.
    pub(crate) fn read_done(&mut self, read: ScrubRead, bytes: Option<&Buf>) {
        self.scrub.is_reading = false;
        if let (Some(slot), Some(flash)) = (read.slot, self.flash.with_logs_mut()) {
            flash.unpin(slot);
        }
        let number = self.scrub.number;
        let pass = self.scrub.pass.as_mut();
        let pass = pass.filter(|_| read.pass == number);
        if let (Some(pass), Some(flash)) = (pass, self.flash.as_mut()) {
            let before = pass.here;
            match read.slot {
                None => pass.list_read(flash, self.ports, bytes),
                Some(_) => pass.run_read(flash, self.ports, bytes),
            }
            self.scrub.total.add(pass.here.since(before));
        }
        self.step();
    }
}

impl Pass {
    /// Until when nothing is read; none: it is time to read.
    fn waits(&mut self, ports: &mut Ports, is_late: bool) -> Option<Instant> {
        let now = ports.now();
        if now < self.due {
            return Some(self.due);
        }
        if is_late {
            return Some(now + PROBE_PAUSE);
        }
        let guest_waits = ports
            .store
            .in_flight()
            .any(|(purpose, _)| is_for_guest(purpose));
        let since = *self.yields_since.get_or_insert(now);
        if guest_waits && now.since(since) < SCRUB_YIELD_MAX {
            return Some(now + SCRUB_LOOK_PAUSE);
        }
        self.yields_since = None;
        None
    }

    /// Reads the next run of blocks, or the list of those of the next segment; how many bytes. None: the pass has been
    /// through all segments.
    fn read(&mut self, flash: &mut Store, ports: &mut Ports, number: u64) -> Option<Bytes> {
        loop {
            if let (Some(at), Some(list)) = (self.at, self.list) {
                return Some(read_list(flash, ports, at, list, tag_of(number, None)));
            }
            if self.next_run(flash) {
                let (slot, count) = (self.reading[0].slot, self.reading.len());
                let tag = tag_of(number, Some(slot));
                let length = u32::try_from(count).expect("a run is short");
                flash.read(&mut ports.store, slot, length, None, tag);
                return Some(Bytes::new(count as u64 * BLOCK_BYTES));
            }
            let segment = self.enter_next(flash)?;
            match Residents::from(&*flash).of_open(segment) {
                Some(left) => self.left = left.into(),
                None => self.list = Some(List::Footer),
            }
        }
    }

    /// Goes to the next segment in which something lies.
    fn enter_next(&mut self, flash: &Store) -> Option<SegmentUse> {
        self.list = None;
        if let Some(done) = self.at.take() {
            self.before.segment = done.segment().get() + 1;
            self.before.found.add(std::mem::take(&mut self.here));
        }
        let from = SegmentIndex::new(self.before.segment);
        self.at = Residents::from(flash).next_segment(from);
        self.before.segment = self.at?.segment().get();
        self.at
    }

    /// Takes the next blocks that lie behind each other still into what is being read. False: none is left here.
    fn next_run(&mut self, flash: &Store) -> bool {
        self.reading.clear();
        let residents = Residents::from(flash);
        if !self.at.is_some_and(|at| residents.is_current(at)) {
            self.left.clear();
        }
        let most = if self.singly > 0 { 1 } else { SCRUB_RUN_BLOCKS };
        while self.reading.len() < most {
            let Some(next) = self.left.front() else { break };
            let follows = self
                .reading
                .last()
                .is_none_or(|last| last.slot.advance(1) == next.slot);
            if !follows {
                break;
            }
            let is_there = residents.at(next.disk, next.block, next.slot);
            self.left.pop_front();
            self.singly = self.singly.saturating_sub(1);
            match is_there {
                Some(resident) => self.reading.push(resident),
                None if self.reading.is_empty() => {}
                None => break,
            }
        }
        !self.reading.is_empty()
    }

    /// A part of the list of the segment's blocks has come.
    fn list_read(&mut self, flash: &Store, ports: &mut Ports, bytes: Option<&Buf>) {
        let residents = Residents::from(flash);
        let Some(list) = self.list.take() else { return };
        let at = self.at.filter(|at| residents.is_current(*at));
        let Some(at) = at else { return };
        match list {
            List::Footer => {
                let left = bytes.and_then(|footer| residents.of_footer(at, footer));
                match left {
                    Some(left) => self.left = left.into(),
                    None => self.list = Some(List::Header(0)),
                }
            }
            List::Header(page) => {
                let chunk = bytes.and_then(|header| residents.of_chunk(at, page, header));
                let (more, next) = chunk.unwrap_or_default();
                self.left.extend(more);
                self.list = next.map(List::Header);
                if next.is_none() {
                    self.walked(residents, ports, at);
                }
            }
        }
    }

    /// The headers of a segment's chunks have been read.
    fn walked(&mut self, residents: Residents<'_>, ports: &mut Ports, at: SegmentUse) {
        let clean = residents.clean(at);
        let known = self.left.make_contiguous();
        let mut missing = residents.dirty(at);
        missing.retain(|dirty| {
            known
                .binary_search_by_key(&dirty.slot, |one| one.slot)
                .is_err()
        });
        if known.len() < clean || !missing.is_empty() {
            self.left.extend(missing);
            self.left
                .make_contiguous()
                .sort_unstable_by_key(|one| one.slot);
            self.here.damaged_lists += 1;
            residents.list_is_damaged(&mut ports.store, at);
        }
    }

    fn run_read(&mut self, flash: &mut Store, ports: &mut Ports, bytes: Option<&Buf>) {
        let reading = std::mem::take(&mut self.reading);
        if bytes.is_none() && reading.len() > 1 {
            // Which of them it is shows when each is read alone.
            self.singly = reading.len();
            reading
                .iter()
                .rev()
                .for_each(|one| self.left.push_front(*one));
            return;
        }
        for (i, read) in reading.iter().enumerate() {
            let lies = Residents::from(&*flash).at(read.disk, read.block, read.slot);
            let Some(resident) = lies else { continue };
            self.here.blocks += 1;
            let page = bytes.map(|bytes| &bytes[i * PAGE_BYTES..][..PAGE_BYTES]);
            if page.is_some_and(|page| flash.is_whole(resident.slot, page)) {
                continue;
            }
            if resident.is_dirty {
                self.here.damaged_dirty += 1;
            } else {
                self.here.damaged_clean += 1;
            }
            let Resident {
                disk, block, slot, ..
            } = resident;
            Condemning::from(&mut *flash).copy(&mut ports.store, disk, block, slot);
        }
    }
}

/// Reads a part of the list of a segment's blocks; how many bytes.
fn read_list(
    flash: &Store,
    ports: &mut Ports,
    at: SegmentUse,
    list: List,
    tag: ReadPurpose,
) -> Bytes {
    let residents = Residents::from(flash);
    let pages = match list {
        List::Footer => {
            residents.read_footer(&mut ports.store, at, tag);
            flash.facts().geometry().footer_pages()
        }
        List::Header(page) => {
            residents.read_header(&mut ports.store, at, page, tag);
            1
        }
    };
    Bytes::new(u64::from(pages) * BLOCK_BYTES)
}

fn tag_of(pass: u64, slot: Option<FlashSlot>) -> ReadPurpose {
    ReadPurpose::Scrub(ScrubRead { pass, slot })
}

/// How long these bytes take at a rate.
fn time_of(bytes: Bytes, rate: Bytes) -> Duration {
    let nanos = u128::from(bytes.get()) * 1_000_000_000 / u128::from(rate.get().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Whether a guest waits for an operation of the flash.
fn is_for_guest(purpose: &Purpose<ReadPurpose>) -> bool {
    match purpose {
        Purpose::Caller(ReadPurpose::Hit(_) | ReadPurpose::MergeHit(_)) => true,
        Purpose::Caller(
            ReadPurpose::DestageRead(_) | ReadPurpose::Loan(_) | ReadPurpose::Scrub(_),
        ) => false,
        Purpose::Store(own) => own.is_awaited_by_guests(),
    }
}
