//! What the journal and the checkpoints write, without either.
//!
//! Entries gather as in the daemon: 252 a page, neighbouring slots of one use of a segment in one
//! entry, a commit when somebody waits for it, when a page is full, or after the write delay.
//! Every commit ends at once, so it has whole pages and nothing else gathers meanwhile. When half
//! of the ring is used a checkpoint is written.

use flash_format::{Geometry, JOURNAL_ENTRIES_PER_PAGE, PAGE_BYTES};
use units::{Duration, FlashSlot, Instant};

/// The entry queued last, if it can grow: what it does, of which generation, and which slot
/// would continue it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Growing {
    Trust { generation: u64, next: u32 },
    Distrust { generation: u64, next: u32 },
}

/// The journal's length and what it has cost.
pub(super) struct Commits {
    ring_pages: u64,
    checkpoint_pages: u64,
    delay: Duration,
    queued: usize,
    growing: Option<Growing>,
    urgent: bool,
    since: Option<Instant>,
    /// Pages in the ring that a recovery would replay.
    to_replay: u64,
    pages: u64,
    checkpoints: u64,
}

impl Commits {
    pub(super) fn new(geometry: &Geometry, delay: Duration) -> Self {
        Self {
            ring_pages: geometry.journal_pages(),
            checkpoint_pages: geometry.checkpoint_pages(),
            delay,
            queued: 0,
            growing: None,
            urgent: false,
            since: None,
            to_replay: 0,
            pages: 0,
            checkpoints: 0,
        }
    }

    /// Bytes of journal pages, and of checkpoints with their superblocks.
    pub(super) fn written(&self) -> (u64, u64) {
        let page = PAGE_BYTES as u64;
        let checkpoint = (self.checkpoint_pages + 1) * page;
        (self.pages * page, self.checkpoints * checkpoint)
    }

    /// A segment was opened.
    pub(super) fn open(&mut self, now: Instant) {
        self.push(None, now);
    }

    /// A segment is freed.
    pub(super) fn free(&mut self, now: Instant) {
        self.push(None, now);
    }

    /// Slots are trusted.
    pub(super) fn trust(&mut self, first: FlashSlot, count: u32, generation: u64, now: Instant) {
        let (starts, ends) = (first.get(), first.get() + count);
        let grows = |next| Growing::Trust { generation, next };
        self.extend(grows(starts), grows(ends), now);
    }

    /// A slot is distrusted.
    pub(super) fn distrust(&mut self, slot: FlashSlot, generation: u64, now: Instant) {
        let grows = |next| Growing::Distrust { generation, next };
        self.extend(grows(slot.get()), grows(slot.get() + 1), now);
    }

    fn extend(&mut self, from: Growing, to: Growing, now: Instant) {
        if self.growing == Some(from) {
            self.growing = Some(to);
        } else {
            self.push(Some(to), now);
        }
    }

    fn push(&mut self, growing: Option<Growing>, now: Instant) {
        self.queued += 1;
        self.growing = growing;
        self.since.get_or_insert(now);
    }

    /// Somebody waits for what is queued.
    pub(super) fn hurry(&mut self) {
        self.urgent |= self.queued > 0;
    }

    /// Commits what is queued, if it is time.
    #[inline]
    pub(super) fn pump(&mut self, now: Instant) {
        if self.queued == 0 {
            return;
        }
        let due = self.since.is_some_and(|since| now >= since + self.delay);
        if self.urgent || due || self.queued >= JOURNAL_ENTRIES_PER_PAGE {
            self.commit();
        }
    }

    fn commit(&mut self) {
        let pages = self.queued.div_ceil(JOURNAL_ENTRIES_PER_PAGE) as u64;
        self.pages += pages;
        self.to_replay += pages;
        self.queued = 0;
        self.growing = None;
        self.urgent = false;
        self.since = None;
        if self.to_replay > self.ring_pages / 2 {
            self.checkpoints += 1;
            self.to_replay = 0;
        }
    }
}
