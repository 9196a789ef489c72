//! The way out of the store: what is to be done, operations in flight, notices, wake-ups.
//!
//! Whoever drives the store hands its ports in with each call, and takes out of them what the call has
//! left there. A caller has effects of its own, and their order counts: a reply must not overtake what
//! retained memory is told. So they are in one queue with the store's ([`Tag`]).

use crate::retained::RetainedUpdate;
use crate::stats::Stats;
use crate::write_count::WriteCount;
use block_io::{Buf, BufPool, FlashOp, FlashVerb, PAGE_BYTES, Place, Slice, Token};
use flash_format::SegmentIndex;
use segment_log::FlashWritten;
use slab::Slab;
use std::collections::VecDeque;
use std::vec::Drain;
use units::{BlockIndex, Bytes, DiskSlot, Duration, Instant};

/// What the store asks of its caller.
#[derive(Debug)]
pub enum Effect {
    /// Carry this out on the flash device, and hand its completion to [`Ports::completed`].
    Flash(FlashOp),
    /// Tell this to retained memory, at once.
    Retain(RetainedUpdate),
    /// Say that a block came from flash and is not what was written there.
    Damaged {
        /// Whose block.
        disk: DiskSlot,
        /// Which block, where that is known.
        block: Option<BlockIndex>,
        /// Where on the flash it was read, in bytes.
        at: Bytes,
    },
}

/// What a caller remembers of a read.
pub trait Tag {
    /// What the caller has to have done, the store's effects among it.
    type Effect: From<Effect>;
}

/// Of a caller that reads nothing and has no effects of its own.
impl Tag for () {
    type Effect = Effect;
}

/// What an operation of the flash is for.
#[derive(Debug)]
pub enum Purpose<T> {
    /// The store's own: its completion goes to [`crate::Store::completed`].
    Store(Own),
    /// A read that the caller asked for, with what it remembers of it.
    Caller(T),
}

/// What the store wants an operation for.
#[derive(Debug)]
pub struct Own(pub(crate) Errand);

impl Own {
    /// Whether guests wait for it; else a detach, a stop or a reclaim may.
    pub fn is_awaited_by_guests(&self) -> bool {
        match self.0 {
            Errand::Journal
            | Errand::CheckpointPages
            | Errand::Superblock
            | Errand::LogChunk(_)
            | Errand::LogFlush(_) => true,
            Errand::Chunk(_)
            | Errand::Footer(_)
            | Errand::FlashFlush
            | Errand::ReclaimFooter
            | Errand::ReclaimRun { .. } => false,
        }
    }
}

/// What the completion of an operation means to the store.
#[derive(Debug)]
pub(crate) enum Errand {
    /// A chunk of blocks on its way to flash.
    Chunk(usize),
    /// The same of a dirty log.
    LogChunk(usize),
    /// The footer of a segment that closes.
    Footer(SegmentIndex),
    /// A flush that nobody waits for.
    FlashFlush,
    /// A flush that a dirty log waits for.
    LogFlush(DiskSlot),
    /// A batch of the journal.
    Journal,
    /// Pages of the running checkpoint.
    CheckpointPages,
    /// The superblock that completes it.
    Superblock,
    /// The footer of the segment being reclaimed.
    ReclaimFooter,
    /// Survivors of it: descriptors `first..first + count` of those to be kept.
    ReclaimRun { first: usize, count: usize },
}

/// An operation in flight: when it was issued, and what its completion means.
#[derive(Debug)]
struct Io<T> {
    /// On the clock that stands still when the driver does.
    issued: Instant,
    purpose: Purpose<T>,
}

/// The way out of the store; `T` is what its caller remembers of a read.
pub struct Ports<T: Tag> {
    effects: Vec<T::Effect>,
    ios: Slab<Io<T>>,
    pool: BufPool,
    now: Instant,
    stats: Stats,
    /// Why the flash cannot be relied on any more.
    failure: Option<&'static str>,
    /// Origins that are to be flushed.
    origin_flushes: VecDeque<(DiskSlot, WriteCount)>,
    /// What went to flash, for a disk or for nobody.
    written: Vec<(Option<DiskSlot>, FlashWritten)>,
    /// Clean blocks that left the flash.
    evicted: Vec<(DiskSlot, BlockIndex)>,
    /// Disks of whose dirty logs something has become durable, or known.
    moved: Vec<DiskSlot>,
    /// A page of memory that is not ours, while it is judged.
    page: Buf,
    /// How long the driver has stood still, all in all.
    stood_still: Duration,
    next_tick: Option<Instant>,
}

impl<T: Tag> Ports<T> {
    /// Ports of which nothing is asked yet. Buffers come from `pool`.
    pub fn new(pool: BufPool, now: Instant) -> Self {
        Self {
            effects: Vec::new(),
            ios: Slab::new(),
            page: pool.take(PAGE_BYTES),
            pool,
            now,
            stats: Stats::default(),
            failure: None,
            origin_flushes: VecDeque::new(),
            written: Vec::new(),
            evicted: Vec::new(),
            moved: Vec::new(),
            stood_still: Duration::ZERO,
            next_tick: None,
        }
    }

    /// It is so late.
    #[inline]
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// It is so late.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Where buffers come from.
    #[inline]
    pub(crate) fn pool(&self) -> &BufPool {
        &self.pool
    }

    /// A page of memory that is not ours, while it is judged.
    pub(crate) fn page(&mut self) -> &mut [u8] {
        &mut self.page[..PAGE_BYTES]
    }

    /// What is counted, to count on.
    pub(crate) fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    /// What has been counted since these ports were made.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Adds what the caller has to have done, behind what the store has asked for so far.
    #[inline]
    pub fn push(&mut self, effect: T::Effect) {
        self.effects.push(effect);
    }

    /// Moves what is to be done to the end of `into`, in order.
    #[inline]
    pub fn take_effects(&mut self, into: &mut Vec<T::Effect>) {
        into.append(&mut self.effects);
    }

    /// Takes out an origin that is to be flushed, and how many writes of the disk had ended when that was
    /// asked. When it has been, say so to [`crate::Origins::flush_ended`] and [`crate::Origins::flushed`].
    #[inline]
    pub fn take_origin_flush(&mut self) -> Option<(DiskSlot, WriteCount)> {
        self.origin_flushes.pop_front()
    }

    /// Takes out why the flash cannot be relied on any more, if that is so.
    #[inline]
    pub fn take_failure(&mut self) -> Option<&'static str> {
        self.failure.take()
    }

    /// Whether the flash cannot be relied on any more, and nobody has taken that out.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Takes out what went to flash, for a disk or for nobody.
    pub fn take_written(&mut self) -> Drain<'_, (Option<DiskSlot>, FlashWritten)> {
        self.written.drain(..)
    }

    /// Takes out which clean blocks left the flash although nobody wrote them.
    pub fn take_evicted(&mut self) -> Drain<'_, (DiskSlot, BlockIndex)> {
        self.evicted.drain(..)
    }

    /// Takes out the disks of whose dirty logs something has become durable, or known.
    #[inline]
    pub fn take_moved(&mut self) -> Drain<'_, DiskSlot> {
        self.moved.drain(..)
    }

    /// Whether there are such disks.
    #[inline]
    pub fn has_moved(&self) -> bool {
        !self.moved.is_empty()
    }

    /// The time of the clock that stands still when the driver does: nobody could be late then.
    #[inline]
    pub fn attended(&self) -> Instant {
        Instant::ZERO + self.now.since(Instant::ZERO + self.stood_still)
    }

    /// The driver has stood still for so long.
    pub fn stand_still(&mut self, time: Duration) {
        let total = self.stood_still.as_nanos().saturating_add(time.as_nanos());
        self.stood_still = Duration::from_nanos(total);
    }

    /// A copy on flash is not what was written there.
    pub fn damaged(&mut self, disk: DiskSlot, block: Option<BlockIndex>, at: Bytes) {
        self.stats.checksum_mismatches += 1;
        self.effects
            .push(Effect::Damaged { disk, block, at }.into());
    }

    /// Takes back an operation that has completed: what it was for, and how long it took.
    ///
    /// # Panics
    /// If an operation is completed twice, or was never issued.
    #[inline]
    pub fn completed(&mut self, token: Token) -> (Purpose<T>, Duration) {
        let key = usize::try_from(token.0).expect("a token that these ports gave out");
        let io = self
            .ios
            .try_remove(key)
            .expect("each operation completes once");
        (io.purpose, self.attended().since(io.issued))
    }

    /// Every operation in flight, and how long it has taken.
    pub fn in_flight(&mut self) -> impl Iterator<Item = (&mut Purpose<T>, Duration)> {
        let attended = self.attended();
        let of = move |io: &mut Io<T>| attended.since(io.issued);
        self.ios.iter_mut().map(move |(_, io)| {
            let time = of(io);
            (&mut io.purpose, time)
        })
    }

    /// Asks for the store to be looked at again at `at`, or earlier.
    #[inline]
    pub fn wake_at(&mut self, at: Instant) {
        self.next_tick = Some(self.next_tick.map_or(at, |next| next.min(at)));
    }

    /// When the store is to be looked at again; none if nothing waits for time.
    #[inline]
    pub fn next_tick(&self) -> Option<Instant> {
        self.next_tick
    }

    /// The store is looked at now.
    pub fn clear_tick(&mut self) {
        self.next_tick = None;
    }

    /// Reads for the caller: into a buffer, or to where it wants the bytes.
    #[inline]
    pub(crate) fn read(&mut self, tag: T, offset: Bytes, length: usize, place: Option<Place>) {
        let verb = match place {
            Some(place) => FlashVerb::ReadInto { offset, place },
            None => self.read_verb(offset, length),
        };
        self.issue(Purpose::Caller(tag), verb);
    }

    pub(crate) fn flash_read(&mut self, errand: Errand, offset: Bytes, length: usize) {
        let verb = self.read_verb(offset, length);
        self.flash(errand, verb);
    }

    #[inline]
    fn read_verb(&self, offset: Bytes, length: usize) -> FlashVerb {
        FlashVerb::Read {
            offset,
            length: Bytes::new(length as u64),
            buf: self.pool.take(length),
        }
    }

    pub(crate) fn flash_write(
        &mut self,
        errand: Errand,
        offset: Bytes,
        data: Slice,
        durable: bool,
    ) {
        self.flash(
            errand,
            FlashVerb::Write {
                offset,
                data,
                durable,
            },
        );
    }

    pub(crate) fn flash(&mut self, errand: Errand, verb: FlashVerb) {
        self.issue(Purpose::Store(Own(errand)), verb);
    }

    #[inline]
    fn issue(&mut self, purpose: Purpose<T>, verb: FlashVerb) {
        let issued = self.attended();
        let token = Token(self.ios.insert(Io { issued, purpose }) as u64);
        self.effects
            .push(Effect::Flash(FlashOp { token, verb }).into());
    }

    pub(crate) fn retain(&mut self, update: RetainedUpdate) {
        self.effects.push(Effect::Retain(update).into());
    }

    pub(crate) fn flush_origin(&mut self, disk: DiskSlot, count: WriteCount) {
        self.origin_flushes.push_back((disk, count));
    }

    /// The flash cannot be relied on any more.
    pub(crate) fn fail(&mut self, reason: &'static str) {
        self.failure.get_or_insert(reason);
    }

    /// Something of a disk's dirty log has become durable, or known.
    pub(crate) fn log_moved(&mut self, disk: DiskSlot) {
        self.moved.push(disk);
    }

    /// A clean block has left the flash.
    pub(crate) fn left(&mut self, disk: DiskSlot, block: BlockIndex) {
        self.evicted.push((disk, block));
    }

    /// Counts what is written to flash, for a disk or for nobody.
    pub(crate) fn count_written(
        &mut self,
        disk: Option<DiskSlot>,
        count: impl Fn(&mut FlashWritten),
    ) {
        let mut written = FlashWritten::default();
        count(&mut written);
        count(&mut self.stats.flash_written);
        self.written.push((disk, written));
    }
}
