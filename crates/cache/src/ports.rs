//! The way out: effects, operations of origins in flight, buffers, and the time of the current event.
//!
//! The store has ports of its own. Effects of both are in its queue, in the order in which they arose.

use crate::api::{ControlError, ControlId, ControlOutcome, Effect, OwnerRecord};
use crate::purpose::{
    FlushMark, FlushPurpose, Hit, OriginFlush, OriginPurpose, ReadPurpose, WriteId,
};
use crate::stats::Stats;
use block_io::{BufPool, OriginOp, OriginVerb, Place, Token};
use block_store::{Store, Tag, WriteCount};
use slab::Slab;
use units::{BLOCK_BYTES, DiskId, DiskSlot, Duration, Instant, Map};

/// An operation of an origin in flight: when it was issued, and what its completion means.
#[derive(Debug)]
struct Io {
    /// On the clock that stands still when the driver does.
    issued: Instant,
    purpose: OriginPurpose,
}

impl Tag for ReadPurpose {
    type Effect = Effect;
    type Payload = block_store::Pages;
}

impl From<block_store::Effect> for Effect {
    #[inline]
    fn from(effect: block_store::Effect) -> Self {
        match effect {
            block_store::Effect::Flash(op) => Self::Flash(op),
            block_store::Effect::Retain(what) => Self::Retain(what),
            block_store::Effect::Damaged(damage) => Self::Damaged(damage),
        }
    }
}

impl Hit {
    /// Reads it, to where the guest wants it if that is known.
    ///
    /// # Panics
    /// If it does not know where it is read to.
    #[allow(
        clippy::inline_always,
        reason = "a hit's path: a call costs 20 instructions of 3,900"
    )]
    #[inline(always)]
    pub(crate) fn read(self, flash: &mut Store, ports: &mut Ports, place: Option<Place>) {
        assert!(
            self.in_place == place.is_some(),
            "a hit knows where it is read to"
        );
        ports.stats.flash_read_bytes += u64::from(self.count) * BLOCK_BYTES;
        let (slot, count) = (self.slot, self.count);
        flash.read(&mut ports.store, slot, count, place, ReadPurpose::Hit(self));
    }
}

/// What the cache does when the event is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Everything that this write had to distrust is distrusted durably.
    Write(WriteId),
    /// The flash cannot be relied on any more.
    FlashFailed(&'static str),
    /// A job has come that needs no flash.
    Jobs,
}

/// The way out of the state machine.
pub(crate) struct Ports {
    /// The way out of the store.
    pub(crate) store: block_store::Ports<ReadPurpose>,
    ios: Slab<Io>,
    pool: BufPool,
    now: Instant,
    pub(crate) stats: Stats,
    wakes: Vec<Wake>,
    /// Disks under write-back that are looked at when the event is over.
    scheduled: Vec<DiskSlot>,
    questions: u64,
    /// Flushes of each origin that have failed.
    failed_flushes: Map<DiskSlot, u64>,
}

impl Ports {
    pub(crate) fn new(pool: BufPool, now: Instant) -> Self {
        Self::over(block_store::Ports::new(pool.clone(), now), pool, now)
    }

    /// Ports of a cache over those of its store.
    pub(crate) fn over(
        store: block_store::Ports<ReadPurpose>,
        pool: BufPool,
        now: Instant,
    ) -> Self {
        Self {
            store,
            ios: Slab::new(),
            pool,
            now,
            stats: Stats::default(),
            wakes: Vec::new(),
            scheduled: Vec::new(),
            questions: 0,
            failed_flushes: Map::default(),
        }
    }

    /// An event begins.
    #[inline]
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.store.set_now(now);
    }

    /// The time of the current event.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Where memory for bytes comes from.
    #[inline]
    pub(crate) fn pool(&self) -> &BufPool {
        &self.pool
    }

    /// Adds what is to be done, behind what the store has to have done.
    #[inline]
    pub(crate) fn push(&mut self, effect: Effect) {
        self.store.push(effect);
    }

    /// Answers a command that is done, or wrong; `None`: it is answered later.
    pub(crate) fn command_ended(&mut self, id: ControlId, ended: Option<Result<(), ControlError>>) {
        if let Some(result) = ended {
            let result = result.map(|()| ControlOutcome::Done);
            self.push(Effect::ControlDone { id, result });
        }
    }

    /// Moves what is to be done to the end of `into`, in order.
    pub(crate) fn take_effects(&mut self, into: &mut Vec<Effect>) {
        self.flush_origins();
        self.store.take_effects(into);
    }

    /// Flushes the origins that the store wants to be flushed.
    #[inline]
    fn flush_origins(&mut self) {
        while let Some((disk, count)) = self.store.take_origin_flush() {
            let since = self.flush_mark(disk, count);
            self.flush_origin(disk, since, FlushPurpose::Own);
        }
    }

    /// What is so when a flush of a disk's origin is asked for now, after so many writes of the disk.
    pub(crate) fn flush_mark(&self, disk: DiskSlot, writes: WriteCount) -> FlushMark {
        let failed = self.failed_flushes(disk);
        FlushMark { writes, failed }
    }

    /// How many flushes of a disk's origin have failed.
    pub(crate) fn failed_flushes(&self, disk: DiskSlot) -> u64 {
        self.failed_flushes.get(&disk).copied().unwrap_or(0)
    }

    /// A flush of a disk's origin has failed.
    pub(crate) fn flush_failed(&mut self, disk: DiskSlot) {
        *self.failed_flushes.entry(disk).or_insert(0) += 1;
    }

    /// Asks for a flush of a disk's origin.
    pub(crate) fn flush_origin(&mut self, disk: DiskSlot, since: FlushMark, purpose: FlushPurpose) {
        let purpose = OriginPurpose::Flush(OriginFlush {
            disk,
            since,
            purpose,
        });
        self.origin(purpose, disk, OriginVerb::Flush);
    }

    pub(crate) fn origin(&mut self, purpose: OriginPurpose, disk: DiskSlot, verb: OriginVerb) {
        let issued = self.attended();
        let token = Token(self.ios.insert(Io { issued, purpose }) as u64);
        self.push(Effect::Origin(OriginOp { token, disk, verb }));
    }

    /// Takes back an operation of an origin that has completed: what it was for, and how long it took.
    ///
    /// # Panics
    /// If the shell completes an operation twice or one that was never issued.
    pub(crate) fn origin_completed(&mut self, token: Token) -> (OriginPurpose, Duration) {
        let key = usize::try_from(token.0).expect("a token that this cache gave out");
        let io = self
            .ios
            .try_remove(key)
            .expect("each operation completes once");
        (io.purpose, self.attended().since(io.issued))
    }

    /// The time of the clock that stands still when the driver does: nobody could be late then.
    pub(crate) fn attended(&self) -> Instant {
        self.store.attended()
    }

    /// Something is to be done when the event is over.
    pub(crate) fn wake(&mut self, wake: Wake) {
        self.take_failure();
        self.wakes.push(wake);
    }

    /// Takes out what is to be done when the event is over.
    pub(crate) fn take_wakes(&mut self) -> Vec<Wake> {
        self.take_failure();
        std::mem::take(&mut self.wakes)
    }

    /// Whether something is to be done when the event is over.
    #[inline]
    pub(crate) fn has_wakes(&self) -> bool {
        !self.wakes.is_empty() || self.store.has_failed()
    }

    fn take_failure(&mut self) {
        let failure = self.store.take_failure();
        self.wakes.extend(failure.map(Wake::FlashFailed));
    }

    /// Something has happened that concerns a disk under write-back: it is looked at when the event is over.
    #[inline]
    pub(crate) fn schedule(&mut self, disk: DiskSlot) {
        self.take_moved();
        if self.scheduled.last() != Some(&disk) {
            self.scheduled.push(disk);
        }
    }

    /// Whether a disk under write-back is to be looked at.
    pub(crate) fn has_scheduled(&self) -> bool {
        !self.scheduled.is_empty() || self.store.has_moved()
    }

    /// Takes out a disk that is to be looked at.
    pub(crate) fn take_scheduled(&mut self) -> Option<DiskSlot> {
        self.take_moved();
        self.scheduled.pop()
    }

    fn take_moved(&mut self) {
        for disk in self.store.take_moved() {
            if self.scheduled.last() != Some(&disk) {
                self.scheduled.push(disk);
            }
        }
    }

    /// A token for something that the host is asked to record, which no other question has.
    pub(crate) fn question(&mut self) -> Token {
        self.questions += 1;
        Token(self.questions)
    }

    /// Asks for it to be recorded who has a disk.
    pub(crate) fn own(&mut self, disk: DiskSlot, id: DiskId, record: OwnerRecord) -> Token {
        let token = self.question();
        self.push(Effect::Own {
            token,
            disk,
            id,
            record,
        });
        token
    }

    /// Asks to be looked at again at `at`, or earlier.
    #[inline]
    pub(crate) fn wake_at(&mut self, at: Instant) {
        self.store.wake_at(at);
    }
}
