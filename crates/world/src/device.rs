//! The flash of one cache and what its host has recorded of it: all that a process which opens the cache
//! has to go by.
//!
//! | what | outlives the process | outlives the power |
//! |---|---|---|
//! | flash | what was written | what was made durable |
//! | retained memory: what was accepted and is not on flash yet | yes | no |
//! | records of the host: what may be trusted, how far the tables were durable | yes | yes |
//!
//! What befalls the flash between two lives is in `ageing`.

mod accepted;
mod ageing;
mod retained;

use self::accepted::Accepted;
use self::retained::RetainedMemory;
use crate::run::Run;
use crate::settings::Special;
use crate::storage::{Handle, Storage};
use block_io::{FlashDone, FlashOp, FlashVerb, IoError, OriginDone};
use cache::{Committed, FormatOptions, Recovery, RetainedUpdate, format};
use flash_format::{
    DirtyChunkHeader, Geometry, JournalPage, PAGE_BYTES, SUPERBLOCK_OFFSETS, SegmentIndex,
    Superblock,
};
use medium::{Fault, Kind};
use units::{Bytes, DiskSlot, Duration, Instant, Offset};

/// The first cache; the others are counted from it.
pub(crate) const FIRST_CACHE: u128 = 0x4ea4;

/// See the module's header.
pub(crate) struct CacheDevice {
    flash: Storage,
    /// What the process has open of it; none between two lives.
    handle: Option<Handle>,
    geometry: Geometry,
    uuid: u128,
    /// Something has befallen this flash that may have taken what waited on it.
    is_suspect: bool,
    retained: RetainedMemory,
    /// The world's own knowledge of what its dirty logs have taken in.
    accepted: Accepted,
    /// Recorded: the least incarnation that may be trusted.
    least: u64,
    /// Recorded: the latest incarnation that has served.
    served: u64,
    /// Recorded, somewhat late: how far the tables on flash were durable. Only worlds of lying flash keep it.
    committed: Committed,
    /// A copy of the flash from the end of an earlier life.
    old_copy: Option<Vec<u8>>,
    /// Bytes that the flash had been given to write when this life began.
    written_before: u64,
}

impl CacheDevice {
    /// Flash with nothing on it.
    pub(crate) fn blank(run: &mut Run) -> Self {
        let geometry = run.settings().geometry();
        let latency = run.settings().flash_latency;
        let mut flash = Storage::new(
            geometry.capacity(),
            Bytes::kib(4),
            geometry.segment_offset(SegmentIndex::new(0)),
            latency,
            run.dice(),
        );
        // Not the journal: rot of its newest page cannot be told from a write that was cut off.
        flash.set_rotting(vec![
            Offset::ZERO..geometry.journal_page_offset(0),
            geometry.checkpoint_page_offset(0, 0)..geometry.segment_offset(SegmentIndex::new(0)),
        ]);
        if let Special::Lying { persists, .. } = run.special() {
            flash.lie_about_durability(persists);
        }
        Self {
            flash,
            handle: None,
            geometry,
            uuid: 0,
            is_suspect: false,
            retained: RetainedMemory::default(),
            accepted: Accepted::default(),
            least: 0,
            served: 0,
            committed: Committed::default(),
            old_copy: None,
            written_before: 0,
        }
    }

    /// The same with a cache on it.
    pub(crate) fn formatted(mut self, uuid: u128) -> Self {
        self.uuid = uuid;
        let options = FormatOptions {
            capacity: self.geometry.capacity(),
            segment_bytes: self.geometry.segment_bytes(),
            uuid,
        };
        for (offset, bytes) in format(&options).expect("the layout is valid") {
            self.flash.poke(offset, &bytes);
        }
        self
    }

    /// Which cache is on it.
    pub(crate) fn uuid(&self) -> u128 {
        self.uuid
    }

    /// Whether something has befallen it that may have taken what waited on it.
    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect
    }

    /// Something has befallen it.
    pub(crate) fn suspect(&mut self) {
        self.is_suspect = true;
    }

    // A life of the process.

    /// A life of the process begins.
    pub(crate) fn open(&mut self, run: &Run) {
        self.is_suspect |= run.settings().rates.blame_the_flash();
        self.written_before = self.flash.written_bytes();
        self.clear_faults();
        self.handle = Some(self.flash.open(0));
    }

    /// The process has died; with `power_cut` the host has lost its power.
    pub(crate) fn end(&mut self, power_cut: bool) {
        self.accepted.process_ended();
        if let Some(handle) = self.handle.take() {
            self.flash.end(handle, power_cut);
        }
        if power_cut {
            self.retained.lose_power();
        }
    }

    /// Nothing goes wrong with it.
    pub(crate) fn clear_faults(&mut self) {
        self.flash.errors().clear();
        self.flash.lies().clear();
        self.flash.rot_one_in(0);
    }

    /// What goes wrong with it now and then.
    pub(crate) fn set_faults(&mut self, run: &Run) {
        self.clear_faults();
        let rates = run.settings().rates;
        let timeout = run.settings().config.flash_timeout;
        let late = Duration::from_nanos(timeout.as_nanos() * 3 / 2);
        let errors = self.flash.errors();
        let failed = Fault::Error(IoError::Failed);
        errors.chance(Kind::Any, rates.flash_errors, failed);
        errors.chance(Kind::Any, rates.flash_delays, Fault::Delay(late));
        errors.chance(Kind::Any, rates.flash_stalls, Fault::Stall);
        let lies = self.flash.lies();
        lies.chance(Kind::Any, rates.rot, Fault::Rot);
        lies.chance(Kind::Any, rates.misdirected, Fault::Misdirect);
        lies.chance(Kind::Write, rates.lost, Fault::Lose);
        self.flash.rot_one_in(rates.metadata_rot);
    }

    /// It fails for the rest of this life: with errors, or without any answer.
    pub(crate) fn die(&mut self, silently: bool) {
        self.is_suspect = true;
        let fault = if silently {
            Fault::Stall
        } else {
            Fault::Error(IoError::Failed)
        };
        self.flash.errors().clear();
        self.flash.errors().always(Kind::Any, fault);
    }

    /// All of it can be read: an operator would throw away what waits for a page that cannot.
    pub(crate) fn recover(&mut self) {
        self.flash.make_readable();
    }

    // Operations.

    /// Takes an operation; of a recovery if it `opens` the cache.
    pub(crate) fn submit(&mut self, op: FlashOp, opens: bool, now: Instant) {
        self.accepted
            .writes(op.token, &op.verb, &self.geometry, self.uuid);
        let honest = is_dirty_chunk(&op.verb) || (opens && self.accepted.reads_unnamed(&op.verb));
        self.flash.spare(self.accepted.unnamed());
        if let Some(handle) = &mut self.handle {
            handle.submit_flash(&mut self.flash, op, honest, now);
        }
    }

    /// What has ended.
    pub(crate) fn poll(&mut self, now: Instant) -> Vec<OriginDone> {
        let mut done = Vec::new();
        if let Some(handle) = &mut self.handle {
            handle.poll(&mut self.flash, now, &mut done);
        }
        done
    }

    /// One of those that have ended is handed to the process.
    pub(crate) fn complete(&mut self, done: OriginDone) -> FlashDone {
        let handle = self.handle.as_mut().expect("it has an operation");
        self.accepted.ended(done.token, done.result.is_ok());
        self.flash.spare(self.accepted.unnamed());
        handle.flash_done(done)
    }

    /// When something ends next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.handle.as_ref()?.next_deadline(&self.flash)
    }

    /// Memory that outlives the process is changed.
    pub(crate) fn retain(&mut self, what: RetainedUpdate) {
        self.accepted.note(&what);
        self.retained.apply(what);
    }

    /// The process dies while it changes that memory.
    pub(crate) fn retain_half(&mut self, what: RetainedUpdate) {
        self.retained.apply_half(what);
    }

    /// Bytes that this life has given the flash to write.
    pub(crate) fn written_in_life(&self) -> u64 {
        self.flash.written_bytes() - self.written_before
    }

    /// The longest that the log of the disk in this slot can be after a start.
    pub(crate) fn logged_most(&self, slot: DiskSlot) -> Bytes {
        self.accepted.logged_most(slot, &self.geometry)
    }

    // What the host records.

    /// What opens the cache. An opening that was cut off may have begun an incarnation that was not
    /// recorded.
    pub(crate) fn recovery(&mut self, run: &mut Run) -> Recovery {
        self.least = self.least.max(self.incarnation());
        let mut recovery = Recovery::new(
            run.settings().config.clone(),
            self.geometry.capacity(),
            Some(self.least),
            run.pool().clone(),
            run.now(),
        );
        recovery.set_served(self.served);
        recovery.set_committed(self.committed);
        let left = self.retained.left();
        run.hit_many("chunk left in retained memory", left.len() as u64);
        recovery.set_left(left);
        recovery
    }

    /// What the superblocks say of the flash's incarnation; 0 if they say nothing.
    fn incarnation(&self) -> u64 {
        let mut slots = [[0; PAGE_BYTES]; 2];
        for (slot, offset) in slots.iter_mut().zip(SUPERBLOCK_OFFSETS) {
            self.flash.peek(offset, slot);
        }
        Superblock::choose([&slots[0], &slots[1]], self.geometry.capacity())
            .map_or(0, |superblock| superblock.incarnation)
    }

    /// Before a cache serves: an older copy of its flash is not to be believed any more.
    pub(crate) fn in_use(&mut self, incarnation: u64) {
        self.least = self.least.max(incarnation);
        self.served = incarnation;
    }

    /// It could not be opened: guests go on without it.
    pub(crate) fn not_opened(&mut self) {
        self.is_suspect = true;
        self.disbelieve(0);
        // What recovery still had in flight is not the new cache's.
        self.handle = Some(self.flash.open(0));
    }

    /// Whatever is on it must never be trusted again. An opening that failed half-way may have begun one
    /// more incarnation than was recorded.
    pub(crate) fn disbelieve(&mut self, incarnation: u64) {
        self.least = self.least.max(incarnation) + 2;
    }

    /// What is on it is trusted again.
    pub(crate) fn believe(&mut self, incarnation: u64) {
        self.least = incarnation;
    }

    /// The host records how far the tables on flash are durable, as far as the flash says.
    pub(crate) fn note_committed(&mut self, committed: Committed) {
        self.committed = committed;
    }

    /// For the trace: the entries of the journal pages that are written.
    pub(crate) fn journal_entries(&self, verb: &FlashVerb) -> String {
        let FlashVerb::Write {
            data,
            durable: true,
            ..
        } = verb
        else {
            return String::new();
        };
        let (pages, _) = data.as_chunks::<PAGE_BYTES>();
        let decoded = pages
            .iter()
            .filter_map(|page| JournalPage::decode(page, self.uuid).ok());
        let lines: Vec<String> = decoded
            .map(|page| format!(" journal page {}: {:?}", page.sequence, page.entries))
            .collect();
        lines.concat()
    }
}

/// Whether a chunk of a dirty log is written.
fn is_dirty_chunk(verb: &FlashVerb) -> bool {
    let magic = DirtyChunkHeader::MAGIC;
    matches!(verb, FlashVerb::Write { data, .. } if data.starts_with(&magic))
}
