//! What the journal and the checkpoints write, without either.
//!
//! Entries gather as in the daemon: 252 a page, neighbouring slots of one use of a segment in one
//! entry, a commit when somebody waits for it, when a page is full, or after the write delay.
//! Every commit ends at once, so it has whole pages and nothing else gathers meanwhile. When three
//! quarters of the ring are used a checkpoint is written.

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
    checkpoint_due: u64,
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
            checkpoint_due: geometry.checkpoint_due(),
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

    /// When what is queued has waited long enough; the end of time if nothing is.
    pub(super) fn due(&self) -> Instant {
        self.since.map_or(super::NEVER, |since| since + self.delay)
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
        if self.to_replay > self.checkpoint_due {
            self.checkpoints += 1;
            self.to_replay = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    const DELAY: Duration = Duration::from_secs(1);
    const PAGE: u64 = PAGE_BYTES as u64;

    fn commits() -> Commits {
        let geometry = Geometry::of_slots(1 << 15, Bytes::kib(256)).unwrap();
        Commits::new(&geometry, DELAY)
    }

    #[test]
    fn entries_that_can_wait_share_a_page() {
        let mut commits = commits();
        for _ in 0..JOURNAL_ENTRIES_PER_PAGE - 1 {
            commits.open(Instant::ZERO);
            commits.pump(Instant::ZERO);
        }
        assert_eq!(commits.written(), (0, 0));
        commits.open(Instant::ZERO);
        commits.pump(Instant::ZERO);
        assert_eq!(commits.written(), (PAGE, 0));
        commits.free(Instant::ZERO);
        commits.pump(commits.due());
        assert_eq!(commits.written(), (2 * PAGE, 0));
        assert_eq!(commits.due(), super::super::NEVER);
    }

    #[test]
    fn a_commit_that_somebody_waits_for_takes_a_page_of_its_own() {
        let mut commits = commits();
        commits.hurry();
        commits.pump(Instant::ZERO);
        assert_eq!(commits.written().0, 0, "nothing is queued");
        commits.distrust(FlashSlot::new(9), 1, Instant::ZERO);
        commits.hurry();
        commits.pump(Instant::ZERO);
        assert_eq!(commits.written().0, PAGE);
    }

    #[test]
    fn neighbouring_slots_of_one_generation_share_an_entry() {
        let mut commits = commits();
        commits.trust(FlashSlot::new(10), 4, 1, Instant::ZERO);
        commits.trust(FlashSlot::new(14), 1, 1, Instant::ZERO);
        assert_eq!(commits.queued, 1);
        commits.trust(FlashSlot::new(15), 1, 2, Instant::ZERO);
        assert_eq!(commits.queued, 2, "another use of the segment");
        commits.distrust(FlashSlot::new(16), 2, Instant::ZERO);
        assert_eq!(commits.queued, 3, "it does the opposite");
        commits.open(Instant::ZERO);
        commits.distrust(FlashSlot::new(17), 2, Instant::ZERO);
        assert_eq!(commits.queued, 5, "something came in between");
    }

    #[test]
    fn three_quarters_of_a_ring_make_a_checkpoint() {
        let mut commits = commits();
        let due = commits.checkpoint_due;
        for _ in 0..=due {
            assert_eq!(commits.written().1, 0);
            commits.free(Instant::ZERO);
            commits.hurry();
            commits.pump(Instant::ZERO);
        }
        let one = (commits.checkpoint_pages + 1) * PAGE;
        assert_eq!(commits.written(), ((due + 1) * PAGE, one));
    }
}
