//! Two groups of reads that take turns, for flash that reports its reads all together.
//!
//! Virtual disks often raise one interrupt when their queue has run empty. Whatever is asked
//! meanwhile makes everybody wait longer, and then the disk idles while all the answers travel
//! to the client and its next requests back. Where that is seen, half of the reads that clients
//! want at a time are kept back until those under way are done: the client then works on one
//! half while the disk works on the other.
//!
//! ```text
//!  one group     disk   ▐████████████▌            ▐████████████▌
//!                client               ▐██████████▌             ▐██████████▌
//!
//!  two groups    disk   ▐██ a ██▌▐██ b ██▌▐██ a ██▌▐██ b ██▌
//!                client          ▐█ a █▌  ▐█ b █▌  ▐█ a █▌  ▐█ b █▌
//! ```
//!
//! Flash that reports reads one by one, as they are done, never has any held back.
//!
//! Invariants:
//! - Nothing is held back unless half of what is wanted, and at least `GROUP_MIN`, is under
//!   way; and for at most `HOLD_MAX` without progress: a read that the flash is stuck with
//!   holds up no others.
//! - Of more than `WANTED_MAX`, none is held back, and none that is larger than
//!   `SMALL_MAX`.
//! - Reads start in the order in which they were asked for.
//! - Writes and flushes pass at once. The contract lets operations overtake one another.

use crate::Device;
use block_io::{Buf, FlashDone, FlashOp, FlashVerb, Place};
use ring::SourceId;
use std::collections::VecDeque;
use units::{Bytes, Duration, Instant};

/// Reads under way below which nothing is held back, and from which nothing is learned: two or
/// three often come back together by chance.
const GROUP_MIN: usize = 4;

/// Looks at finished reads, most of which found the whole group done, before it is believed
/// that this is how the flash works.
const BELIEF: u8 = 8;

/// What can be believed at most: as many looks to the contrary end it soon.
const BELIEF_MAX: u8 = 12;

/// A look that found only a part of a group done weighs this much against the belief.
const DOUBT: u8 = 2;

/// How long reads may be held back while none comes back: many times what a group takes on a
/// disk that is worth being a cache, little beside a disk that is stuck.
const HOLD_MAX: Duration = Duration::from_millis(20);

/// Reads wanted at a time above which none are held back: the answers of such a group do not
/// fit a socket's buffer, so that the client is at work while they still go out.
const WANTED_MAX: usize = 64;

/// Bytes of a buffer up to which its read is worth grouping: what is saved is the time between
/// groups, little beside the time that a large read takes.
const SMALL_MAX: usize = 16 << 10;

/// Groups after which it is looked anew how much is wanted, so that a client that wants less
/// now is noticed.
const GROUPS_REMEMBERED: u8 = 16;

/// Wraps a device so that reads go in groups where that serves them.
#[derive(Debug)]
pub struct Interleaved<D> {
    inner: D,
    /// Small reads that the inner device has.
    under_way: usize,
    /// Reads that wait for those.
    waiting: VecDeque<FlashOp>,
    /// The most reads that were wanted at a time lately, and in this stretch of groups.
    wanted: usize,
    wanted_now: usize,
    /// Groups of this stretch that have come back.
    groups: u8,
    /// When all start that wait, unless some come back before.
    deadline: Option<Instant>,
    belief: u8,
}

impl<D: Device> Interleaved<D> {
    /// Wraps `inner`, of which nothing is known yet.
    pub fn new(inner: D) -> Self {
        Self {
            inner,
            under_way: 0,
            waiting: VecDeque::new(),
            wanted: 0,
            wanted_now: 0,
            groups: 0,
            deadline: None,
            belief: 0,
        }
    }

    /// The device inside.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The device inside, to ask it what it has kept. Operations go through this wrapper.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn learn(&mut self, done: usize) {
        if done == 0 || self.under_way < GROUP_MIN {
            return;
        }
        // Half of them count as all: some may have been asked when the others were done, and the
        // system may hand them over in parts.
        self.belief = if done * 2 >= self.under_way {
            BELIEF_MAX.min(self.belief + 1)
        } else {
            self.belief.saturating_sub(DOUBT)
        };
    }

    fn end_group(&mut self) {
        self.groups += 1;
        if self.groups == GROUPS_REMEMBERED {
            self.groups = 0;
            self.wanted = std::mem::take(&mut self.wanted_now);
        }
    }

    /// How many reads may be under way.
    fn limit(&self) -> usize {
        if self.belief < BELIEF || self.wanted > WANTED_MAX {
            return usize::MAX;
        }
        GROUP_MIN.max(self.wanted.div_ceil(2))
    }

    fn start(&mut self, now: Instant) {
        while self.under_way < self.limit() {
            let Some(read) = self.waiting.pop_front() else {
                break;
            };
            self.under_way += 1;
            self.inner.submit(read, now);
        }
        if self.waiting.is_empty() {
            self.deadline = None;
        } else {
            self.deadline.get_or_insert(now + HOLD_MAX);
        }
    }
}

impl<D: Device> Device for Interleaved<D> {
    fn capacity(&self) -> Bytes {
        self.inner.capacity()
    }

    fn submit(&mut self, op: FlashOp, now: Instant) {
        match op.verb {
            FlashVerb::Read { .. } | FlashVerb::ReadInto { .. } if is_small(&op.verb) => {
                self.waiting.push_back(op);
                let wanted = self.under_way + self.waiting.len();
                self.wanted_now = self.wanted_now.max(wanted);
                self.wanted = self.wanted.max(wanted);
                self.start(now);
            }
            FlashVerb::Read { .. }
            | FlashVerb::ReadInto { .. }
            | FlashVerb::Write { .. }
            | FlashVerb::Flush => {
                self.inner.submit(op, now);
            }
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<FlashDone>) {
        let first = done.len();
        self.inner.poll(now, done);
        let reads = done[first..].iter().filter(|one| was_small(one)).count();
        assert!(reads <= self.under_way, "a read is handed back once");
        self.learn(reads);
        self.under_way -= reads;
        if reads > 0 && self.under_way == 0 {
            self.end_group();
        }
        if reads > 0 {
            self.deadline = None;
        } else if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.belief = 0;
        }
        self.start(now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let inner = self.inner.next_deadline();
        inner.into_iter().chain(self.deadline).min()
    }

    fn source(&self) -> Option<SourceId> {
        self.inner.source()
    }
}

/// Whether this is a read that goes in groups.
fn is_small(verb: &FlashVerb) -> bool {
    match verb {
        FlashVerb::Read { buf, .. } => buf.len() <= SMALL_MAX,
        FlashVerb::ReadInto { place, .. } => place.len() <= SMALL_MAX,
        FlashVerb::Write { .. } | FlashVerb::Flush => false,
    }
}

/// Whether it was. Reads come back with what they filled, and only they.
fn was_small(done: &FlashDone) -> bool {
    let filled = done.buf.as_ref().map(Buf::len);
    let filled = filled.or(done.place.as_ref().map(Place::len));
    filled.is_some_and(|bytes| bytes <= SMALL_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use block_io::{BufPool, Token};
    use units::Offset;

    /// Flash that keeps reads until it is told to hand some back.
    #[derive(Default)]
    struct Kept {
        reads: Vec<FlashOp>,
        others: usize,
        due: usize,
    }

    impl Device for Kept {
        fn capacity(&self) -> Bytes {
            Bytes::mib(1)
        }
        fn submit(&mut self, op: FlashOp, _: Instant) {
            match op.verb {
                FlashVerb::Read { .. } => self.reads.push(op),
                FlashVerb::ReadInto { .. } | FlashVerb::Write { .. } | FlashVerb::Flush => {
                    self.others += 1;
                }
            }
        }
        fn poll(&mut self, _: Instant, done: &mut Vec<FlashDone>) {
            for op in self.reads.drain(..std::mem::take(&mut self.due)) {
                let FlashVerb::Read { buf, .. } = op.verb else {
                    unreachable!("only reads are kept")
                };
                done.push(FlashDone {
                    token: op.token,
                    place: None,
                    buf: Some(buf),
                    result: Ok(()),
                });
            }
        }
    }

    struct Rig {
        flash: Interleaved<Kept>,
        pool: BufPool,
        now: Instant,
        asked: u64,
        answered: Vec<u64>,
    }

    impl Rig {
        fn new() -> Self {
            Self {
                flash: Interleaved::new(Kept::default()),
                pool: BufPool::new(),
                now: Instant::ZERO,
                asked: 0,
                answered: Vec::new(),
            }
        }

        fn read(&mut self, count: u64) {
            for _ in 0..count {
                self.asked += 1;
                let verb = FlashVerb::Read {
                    offset: Offset::ZERO,
                    length: Bytes::kib(4),
                    buf: self.pool.take(4096),
                };
                let token = Token(self.asked);
                self.flash.submit(FlashOp { token, verb }, self.now);
            }
        }

        /// The flash has finished this many of the reads that it has.
        fn finish(&mut self, count: usize) {
            self.flash.inner.due = count;
            let mut done = Vec::new();
            self.flash.poll(self.now, &mut done);
            self.answered.extend(done.iter().map(|one| one.token.0));
        }

        fn at_the_flash(&self) -> usize {
            self.flash.inner.reads.len()
        }

        /// Groups of eight that come back together.
        fn convoys(&mut self, count: u8) {
            for _ in 0..count {
                self.read(8);
                while self.at_the_flash() > 0 {
                    self.finish(self.at_the_flash());
                }
            }
        }
    }

    #[test]
    fn flash_that_reports_one_by_one_has_every_read_at_once() {
        let mut rig = Rig::new();
        rig.read(32);
        for _ in 0..1000 {
            rig.finish(1);
            rig.read(1);
            assert_eq!(rig.at_the_flash(), 32);
        }
    }

    #[test]
    fn half_of_what_is_wanted_is_under_way_where_all_come_back_together() {
        let mut rig = Rig::new();
        rig.convoys(BELIEF);
        rig.read(32);
        assert_eq!(rig.at_the_flash(), 16);
        for _ in 0..100 {
            rig.finish(16);
            assert_eq!(rig.at_the_flash(), 16, "the other half starts at once");
            rig.read(16);
            assert_eq!(rig.at_the_flash(), 16);
        }
        rig.finish(16);
        rig.finish(16);
        assert_eq!(rig.answered, (1..=rig.asked).collect::<Vec<u64>>());
    }

    #[test]
    fn a_client_that_wants_less_is_noticed() {
        let mut rig = Rig::new();
        rig.convoys(BELIEF);
        rig.read(64);
        rig.finish(32);
        rig.finish(32);
        rig.convoys(100);
        rig.read(8);
        assert_eq!(rig.at_the_flash(), 4);
    }

    #[test]
    fn of_very_many_none_is_held_back() {
        let mut rig = Rig::new();
        rig.convoys(BELIEF);
        rig.read(1000);
        assert_eq!(rig.at_the_flash(), 1000);
    }

    #[test]
    fn writes_and_flushes_pass_reads_that_gather() {
        let mut rig = Rig::new();
        rig.convoys(BELIEF);
        rig.read(8);
        let (token, verb) = (Token(999), FlashVerb::Flush);
        rig.flash.submit(FlashOp { token, verb }, rig.now);
        assert_eq!(rig.flash.inner.others, 1);
    }

    #[test]
    fn a_few_groups_that_come_back_in_parts_end_it() {
        let mut rig = Rig::new();
        rig.convoys(BELIEF_MAX);
        rig.read(8);
        while rig.at_the_flash() > 0 {
            rig.finish(1);
        }
        rig.read(4);
        rig.finish(1);
        rig.read(8);
        assert_eq!(rig.at_the_flash(), 3 + 8, "nothing is held back any more");
    }

    #[test]
    fn a_read_that_is_stuck_holds_up_others_for_a_moment_only() {
        let mut rig = Rig::new();
        rig.convoys(BELIEF);
        rig.read(9);
        assert_eq!(rig.at_the_flash(), 5);
        rig.now = Instant::ZERO + HOLD_MAX;
        assert_eq!(rig.flash.next_deadline(), Some(rig.now));
        rig.finish(0);
        assert_eq!(rig.at_the_flash(), 9);
        assert_eq!(rig.flash.next_deadline(), None);
        rig.read(8);
        assert_eq!(rig.at_the_flash(), 17);
    }
}
