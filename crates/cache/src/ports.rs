//! The way out: effects, operations in flight, buffers, and the time of the current event.

use crate::RequestId;
use crate::api::ControlId;
use crate::api::Effect;
use crate::back::merge::{Merge, MergeHit};
use crate::back::transfer::DestageRead;
use crate::durability::WriteCount;
use crate::fills::FillId;
use crate::ownership::OwnerRecord;
use crate::reads::ReadId;
use crate::stats::Stats;
use crate::writes::WriteId;
use block_io::{
    Buf, BufPool, FlashOp, FlashVerb, OriginOp, OriginVerb, PAGE_BYTES, Place, Slice, Token,
};
use destage::WriteId as DestageWriteId;
use flash_format::SegmentIndex;
use segment_log::FlashWritten;
use slab::Slab;
use units::{BlockIndex, Bytes, DiskId, DiskSlot, Duration, FlashSlot, Instant};

/// An operation in flight: when it was issued, and what its completion means.
#[derive(Debug)]
struct Io {
    /// On the clock that stands still when the driver does.
    issued: Instant,
    purpose: Purpose,
}

/// What an operation is for: what its completion means.
#[derive(Debug)]
enum Purpose {
    Flash(FlashPurpose),
    Origin(OriginPurpose),
}

/// What the completion of an operation of the flash means.
#[derive(Debug)]
pub(crate) enum FlashPurpose {
    /// A run of blocks for a guest.
    Hit(Hit),
    /// A chunk of blocks on its way to flash.
    Chunk(usize),
    /// The footer of a segment that closes.
    Footer(SegmentIndex),
    /// A flush that nobody waits for.
    FlashFlush,
    /// A flush that a dirty log waits for.
    LogFlush(DiskSlot),
    /// The rest of a block of which a guest writes a part.
    MergeHit(MergeHit),
    /// Records of a dirty log, on their way to the origin.
    DestageRead(DestageRead),
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

/// What the completion of an operation of an origin means.
#[derive(Debug)]
pub(crate) enum OriginPurpose {
    /// A run of blocks for guests, to be admitted.
    Fill(FillId),
    /// Part of a guest's read, not to be admitted.
    Direct {
        read: ReadId,
        part: usize,
        disk: DiskSlot,
        skip: usize,
        length: usize,
    },
    /// A guest's write.
    GuestWrite(WriteId),
    /// A guest's flush.
    GuestFlush {
        request: RequestId,
        disk: DiskSlot,
        count: WriteCount,
    },
    /// A flush that the cache itself wants.
    OwnFlush { disk: DiskSlot, count: WriteCount },
    /// The rest of a block of which a guest writes a part.
    MergeFill(Merge),
    /// A part of a dirty log.
    DestageWrite(DiskSlot, DestageWriteId),
    /// A flush that makes it durable there.
    DestageFlush(DiskSlot, DestageWriteId),
    /// A flush for a disk that comes under write-back.
    EnterFlush(DiskSlot, u64),
    /// A flush for a disk without a log, for a command.
    DemandFlush {
        id: ControlId,
        disk: DiskSlot,
        count: WriteCount,
    },
}

/// A read from flash for a guest.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about a read"
)]
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) read: ReadId,
    pub(crate) part: usize,
    pub(crate) disk: DiskSlot,
    pub(crate) first: BlockIndex,
    pub(crate) slot: FlashSlot,
    pub(crate) count: u32,
    /// Of the run's bytes, where the part begins, and its length.
    pub(crate) skip: usize,
    pub(crate) length: usize,
    /// It took too long, and the origin was asked instead.
    pub(crate) abandoned: bool,
    /// Asked to see whether the flash is slow still.
    pub(crate) is_probe: bool,
    /// The origin does not have it.
    pub(crate) dirty: bool,
    /// It is read into memory that is not ours.
    pub(crate) in_place: bool,
}

/// What the flash side tells the request side.
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
    pub(crate) effects: Vec<Effect>,
    ios: Slab<Io>,
    pub(crate) pool: BufPool,
    pub(crate) now: Instant,
    pub(crate) stats: Stats,
    pub(crate) wakes: Vec<Wake>,
    /// What went to flash, for a disk or for nobody, until the cache counts it.
    pub(crate) written: Vec<(Option<DiskSlot>, FlashWritten)>,
    /// Blocks that left the flash, until the admission is told.
    pub(crate) evicted: Vec<(DiskSlot, BlockIndex)>,
    /// Disks under write-back for which something has happened.
    pub(crate) stirred: Vec<DiskSlot>,
    /// Reads into memory that is not ours which were given up and have not ended.
    pub(crate) stranded: usize,
    /// A page of such memory, while it is judged.
    pub(crate) page: Buf,
    /// How long the driver has stood still, all in all.
    stood_still: Duration,
    next_tick: Option<Instant>,
    questions: u64,
}

impl Ports {
    pub(crate) fn new(pool: BufPool, now: Instant) -> Self {
        Self {
            effects: Vec::new(),
            ios: Slab::new(),
            stranded: 0,
            page: pool.take(PAGE_BYTES),
            pool,
            now,
            stats: Stats::default(),
            wakes: Vec::new(),
            written: Vec::new(),
            evicted: Vec::new(),
            stirred: Vec::new(),
            stood_still: Duration::ZERO,
            next_tick: None,
            questions: 0,
        }
    }

    pub(crate) fn flash_read(&mut self, purpose: FlashPurpose, offset: Bytes, length: usize) {
        let buf = self.pool.take(length);
        let verb = FlashVerb::Read {
            offset,
            length: Bytes::new(length as u64),
            buf,
        };
        self.flash(purpose, verb);
    }

    pub(crate) fn flash_read_into(&mut self, purpose: FlashPurpose, offset: Bytes, place: Place) {
        self.flash(purpose, FlashVerb::ReadInto { offset, place });
    }

    pub(crate) fn flash_write(
        &mut self,
        purpose: FlashPurpose,
        offset: Bytes,
        data: Slice,
        durable: bool,
    ) {
        self.flash(
            purpose,
            FlashVerb::Write {
                offset,
                data,
                durable,
            },
        );
    }

    pub(crate) fn flash(&mut self, purpose: FlashPurpose, verb: FlashVerb) {
        let token = self.issue(Purpose::Flash(purpose));
        self.effects.push(Effect::Flash(FlashOp { token, verb }));
    }

    pub(crate) fn origin(&mut self, purpose: OriginPurpose, disk: DiskSlot, verb: OriginVerb) {
        let token = self.issue(Purpose::Origin(purpose));
        self.effects
            .push(Effect::Origin(OriginOp { token, disk, verb }));
    }

    fn issue(&mut self, purpose: Purpose) -> Token {
        Token(self.ios.insert(Io {
            issued: self.attended(),
            purpose,
        }) as u64)
    }

    /// The time of the clock that stands still when the driver does: nobody could be late then.
    pub(crate) fn attended(&self) -> Instant {
        Instant::ZERO + self.now.since(Instant::ZERO + self.stood_still)
    }

    /// The driver has stood still for so long.
    pub(crate) fn stand_still(&mut self, time: Duration) {
        let total = self.stood_still.as_nanos().saturating_add(time.as_nanos());
        self.stood_still = Duration::from_nanos(total);
    }

    /// A copy on flash is not what was written there.
    pub(crate) fn damaged(&mut self, disk: DiskSlot, block: Option<BlockIndex>, at: Bytes) {
        self.stats.checksum_mismatches += 1;
        self.effects.push(Effect::Damaged { disk, block, at });
    }

    /// Takes back an operation of the flash that has completed: what it was for, and how long it took.
    ///
    /// # Panics
    /// If the shell completes an operation twice or one that was never issued.
    pub(crate) fn flash_completed(&mut self, token: Token) -> (FlashPurpose, Duration) {
        match self.completed(token) {
            (Purpose::Flash(purpose), time) => (purpose, time),
            (Purpose::Origin(purpose), _) => panic!("an origin's operation: {purpose:?}"),
        }
    }

    /// The same of an operation of an origin.
    ///
    /// # Panics
    /// As [`Ports::flash_completed`].
    pub(crate) fn origin_completed(&mut self, token: Token) -> (OriginPurpose, Duration) {
        match self.completed(token) {
            (Purpose::Origin(purpose), time) => (purpose, time),
            (Purpose::Flash(purpose), _) => panic!("an operation of the flash: {purpose:?}"),
        }
    }

    fn completed(&mut self, token: Token) -> (Purpose, Duration) {
        let key = usize::try_from(token.0).expect("a token that this cache gave out");
        let io = self
            .ios
            .try_remove(key)
            .expect("each operation completes once");
        (io.purpose, self.attended().since(io.issued))
    }

    /// Every operation of the flash in flight, and how long it has taken.
    pub(crate) fn flash_in_flight(
        &mut self,
    ) -> impl Iterator<Item = (&mut FlashPurpose, Duration)> {
        let attended = self.attended();
        self.ios.iter_mut().filter_map(move |(_, io)| {
            let time = attended.since(io.issued);
            match &mut io.purpose {
                Purpose::Flash(purpose) => Some((purpose, time)),
                Purpose::Origin(_) => None,
            }
        })
    }

    /// Something has happened that concerns a disk under write-back.
    #[inline]
    pub(crate) fn stir(&mut self, disk: DiskSlot) {
        if self.stirred.last() != Some(&disk) {
            self.stirred.push(disk);
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
        self.effects.push(Effect::Own {
            token,
            disk,
            id,
            record,
        });
        token
    }

    /// Asks to be looked at again at `at`, or earlier.
    pub(crate) fn wake_at(&mut self, at: Instant) {
        self.next_tick = Some(self.next_tick.map_or(at, |next| next.min(at)));
    }

    pub(crate) fn next_tick(&self) -> Option<Instant> {
        self.next_tick
    }

    pub(crate) fn clear_tick(&mut self) {
        self.next_tick = None;
    }
}
