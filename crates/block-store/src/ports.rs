//! The way out of the store: what is to be done, operations in flight, notices, wake-ups.
//!
//! Whoever drives the store hands its ports in with each call, and takes out of them what the call has
//! left there. A caller has effects of its own, and their order counts: a reply must not overtake what
//! retained memory is told. So they are in one queue with the store's ([`Tag`]).

use crate::effects::{Damage, Effect, Errand, Own, Purpose};
use crate::retained::RetainedUpdate;
use crate::stats::Stats;
use crate::write_count::WriteCount;
use block_io::{Buf, BufPool, FlashOp, FlashVerb, PAGE_BYTES, Place, Slice, Token};
use flash_format::{Descriptor, Geometry, PageBytes, RECORD_BYTES, SegmentIndex};
use segment_log::{FlashWritten, Placed, Source};
use slab::Slab;
use std::collections::VecDeque;
use std::ops::Deref;
use std::vec::Drain;
use units::{BlockIndex, Bytes, DiskSlot, Duration, FlashSlot, Instant, Offset};

/// What a caller remembers of a read.
pub trait Tag: Sized {
    /// What the caller has to have done, the store's effects among it.
    type Effect: From<Effect>;
    /// What is kept of a block.
    type Payload: Payload;
}

/// A segment's footer: which segment, and whose.
#[derive(Clone, Copy, Debug)]
pub struct Footer {
    pub(crate) uuid: u128,
    pub(crate) segment: SegmentIndex,
    pub(crate) generation: u64,
    pub(crate) disk: DiskSlot,
}

/// What is kept of a block, and the flash that keeps it.
pub trait Payload: Sized {
    /// Where blocks are.
    type Index: segment_log::Index;
    /// A block.
    type Block: ?Sized + 'static;
    /// The blocks of an open chunk, behind room for its header.
    type Open;
    /// A chunk that is on its way.
    type Sealed: Clone;
    /// What was read from flash.
    type Read;
    /// A block that a guest wrote, which memory that outlives the process is told of.
    type Page: Deref<Target = Self::Block>;
    /// The way to the flash.
    type Device<T: Tag>: Device;

    /// Room for a chunk of so many pages.
    fn open<T: Tag<Payload = Self>>(ports: &Ports<T>, pages: u32) -> Self::Open;

    /// Puts a block of a disk where it was placed. Returns its checksum.
    fn put(
        &mut self,
        open: &mut Self::Open,
        placed: &Placed,
        source: Source,
        name: (DiskSlot, BlockIndex),
        block: &Self::Block,
    ) -> u32;

    /// A block that a guest wrote, as it lies where it was put.
    fn as_put<T: Tag<Payload = Self>>(
        &self,
        ports: &Ports<T>,
        open: &Self::Open,
        placed: &Placed,
        disk: DiskSlot,
        page: &Self::Page,
    ) -> Self::Page;

    /// Tells retained memory of another record of a chunk, and which of the chunk's blocks it has.
    fn retain<T: Tag<Payload = Self>>(
        ports: &mut Ports<T>,
        place: u32,
        record: [u8; RECORD_BYTES],
        page: Option<(u32, Self::Page)>,
    );

    /// Ends a chunk of so many blocks with the header that `encode` makes.
    fn seal(open: Self::Open, blocks: usize, encode: impl FnOnce() -> PageBytes) -> Self::Sealed;

    /// Whether this is the block that was put into a slot.
    fn is_whole(&self, slot: FlashSlot, block: &Self::Block) -> bool;

    /// The first so many blocks of what was read.
    fn blocks(read: &Self::Read, count: usize) -> impl Iterator<Item = &Self::Block>;

    /// Writes a chunk, durably or not.
    fn write<T: Tag<Payload = Self>>(
        ports: &mut Ports<T>,
        errand: Errand,
        offset: Offset,
        chunk: Self::Sealed,
        durable: bool,
    );

    /// Writes so many bytes, which `encode` makes, durably or not.
    fn write_table<T: Tag<Payload = Self>>(
        ports: &mut Ports<T>,
        errand: Errand,
        offset: Offset,
        length: usize,
        durable: bool,
        encode: impl FnOnce(&mut [u8]),
    );

    /// Writes the footer of a segment, which says what lies there.
    fn write_footer<T: Tag<Payload = Self>>(
        &mut self,
        ports: &mut Ports<T>,
        geometry: &Geometry,
        footer: Footer,
        descriptors: &[Descriptor],
    );

    /// What the footer of a segment says that was read; nothing if it could not be.
    fn descriptors(
        &self,
        geometry: &Geometry,
        footer: Footer,
        read: Option<&Self::Read>,
    ) -> Vec<Descriptor>;

    /// Reads so many bytes.
    fn read<T: Tag<Payload = Self>>(
        ports: &mut Ports<T>,
        errand: Errand,
        offset: Offset,
        length: usize,
    );

    /// Flushes the flash.
    fn flush<T: Tag<Payload = Self>>(ports: &mut Ports<T>, errand: Errand);

    /// Asserts the invariants of an index, given whose segment each slot lies in.
    ///
    /// # Panics
    /// If one is broken.
    fn check(index: &Self::Index, disk_of: impl Fn(FlashSlot) -> DiskSlot);

    /// Bytes of memory.
    fn bytes(&self) -> usize;
}

/// An operation in flight: when it was issued, and what its completion means.
#[derive(Debug)]
struct Io<T> {
    /// On the clock that stands still when the driver does.
    issued: Instant,
    purpose: Purpose<T>,
}

/// The way to the flash.
pub trait Device {
    /// Has an effect that is not an operation of the flash.
    fn push(&mut self, effect: Effect);
}

/// Operations are effects: their completions come later.
pub struct Flash<T: Tag> {
    effects: Vec<T::Effect>,
    ios: Slab<Io<T>>,
    pool: BufPool,
    /// A page of memory that is not ours, while it is judged.
    page: Buf,
    /// How long the driver has stood still, all in all.
    stood_still: Duration,
}

impl<T: Tag> Device for Flash<T> {
    #[inline]
    fn push(&mut self, effect: Effect) {
        self.effects.push(effect.into());
    }
}

/// Operations end with the call that asks for them, and have no effects.
#[derive(Default)]
pub struct Ended(VecDeque<Errand>);

impl Device for Ended {
    fn push(&mut self, _effect: Effect) {}
}

/// The way out of the store; `T` is what its caller remembers of a read.
pub struct Ports<T: Tag> {
    device: <T::Payload as Payload>::Device<T>,
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
    next_tick: Option<Instant>,
}

impl<T: Tag> Ports<T> {
    fn over(device: <T::Payload as Payload>::Device<T>, now: Instant) -> Self {
        Self {
            device,
            now,
            stats: Stats::default(),
            failure: None,
            origin_flushes: VecDeque::new(),
            written: Vec::new(),
            evicted: Vec::new(),
            moved: Vec::new(),
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

    /// What is counted, to count on.
    pub(crate) fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    /// What has been counted since these ports were made.
    pub fn stats(&self) -> &Stats {
        &self.stats
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

    /// Something on flash is not what was written there.
    pub fn damaged(&mut self, damage: Damage) {
        self.stats.checksum_mismatches += 1;
        self.device.push(Effect::Damaged(damage));
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

    pub(crate) fn retain(&mut self, update: RetainedUpdate) {
        self.device.push(Effect::Retain(update));
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

impl<T: Tag> Ports<T>
where
    T::Payload: Payload<Device<T> = Flash<T>>,
{
    /// Ports of which nothing is asked yet. Buffers come from `pool`.
    pub fn new(pool: BufPool, now: Instant) -> Self {
        let flash = Flash {
            effects: Vec::new(),
            ios: Slab::new(),
            page: pool.take(PAGE_BYTES),
            pool,
            stood_still: Duration::ZERO,
        };
        Self::over(flash, now)
    }

    /// Where buffers come from.
    #[inline]
    pub(crate) fn pool(&self) -> &BufPool {
        &self.device.pool
    }

    /// A page of memory that is not ours, while it is judged.
    pub(crate) fn page(&mut self) -> &mut [u8] {
        &mut self.device.page[..PAGE_BYTES]
    }

    /// Adds what the caller has to have done, behind what the store has asked for so far.
    #[inline]
    pub fn push(&mut self, effect: T::Effect) {
        self.device.effects.push(effect);
    }

    /// Moves what is to be done to the end of `into`, in order.
    #[inline]
    pub fn take_effects(&mut self, into: &mut Vec<T::Effect>) {
        into.append(&mut self.device.effects);
    }

    /// The time of the clock that stands still when the driver does: nobody could be late then.
    #[inline]
    pub fn attended(&self) -> Instant {
        Instant::ZERO + self.now.since(Instant::ZERO + self.device.stood_still)
    }

    /// The driver has stood still for so long.
    pub fn stand_still(&mut self, time: Duration) {
        let so_far = self.device.stood_still.as_nanos();
        let total = so_far.saturating_add(time.as_nanos());
        self.device.stood_still = Duration::from_nanos(total);
    }

    /// Takes back an operation that has completed: what it was for, and how long it took.
    ///
    /// # Panics
    /// If an operation is completed twice, or was never issued.
    #[inline]
    pub fn completed(&mut self, token: Token) -> (Purpose<T>, Duration) {
        let key = usize::try_from(token.0).expect("a token that these ports gave out");
        let io = self
            .device
            .ios
            .try_remove(key)
            .expect("each operation completes once");
        (io.purpose, self.attended().since(io.issued))
    }

    /// Every operation in flight, and how long it has taken.
    pub fn in_flight(&mut self) -> impl Iterator<Item = (&mut Purpose<T>, Duration)> {
        let attended = self.attended();
        let of = move |io: &mut Io<T>| attended.since(io.issued);
        self.device.ios.iter_mut().map(move |(_, io)| {
            let time = of(io);
            (&mut io.purpose, time)
        })
    }

    /// Reads for the caller: into a buffer, or to where it wants the bytes.
    #[inline]
    pub(crate) fn read(&mut self, tag: T, offset: Offset, length: usize, place: Option<Place>) {
        let verb = match place {
            Some(place) => FlashVerb::ReadInto { offset, place },
            None => self.read_verb(offset, length),
        };
        self.issue(Purpose::Caller(tag), verb);
    }

    pub(crate) fn flash_read(&mut self, errand: Errand, offset: Offset, length: usize) {
        let verb = self.read_verb(offset, length);
        self.flash(errand, verb);
    }

    #[inline]
    fn read_verb(&self, offset: Offset, length: usize) -> FlashVerb {
        FlashVerb::Read {
            offset,
            length: Bytes::new(length as u64),
            buf: self.device.pool.take(length),
        }
    }

    pub(crate) fn flash_write(
        &mut self,
        errand: Errand,
        offset: Offset,
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
        let token = Token(self.device.ios.insert(Io { issued, purpose }) as u64);
        self.device
            .effects
            .push(Effect::Flash(FlashOp { token, verb }).into());
    }
}

impl<T: Tag> Ports<T>
where
    T::Payload: Payload<Device<T> = Ended>,
{
    /// Ports of which nothing is asked yet.
    pub(crate) fn of_nothing() -> Self {
        Self::over(Ended::default(), Instant::ZERO)
    }

    /// An operation has ended.
    #[inline]
    pub(crate) fn end(&mut self, errand: Errand) {
        self.device.0.push_back(errand);
    }

    /// Takes out the operation that ended first.
    #[inline]
    pub(crate) fn next_ended(&mut self) -> Option<Errand> {
        self.device.0.pop_front()
    }
}
