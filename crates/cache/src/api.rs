//! What goes into a cache and what comes out of it.

use crate::loan::{Borrowed, LoanId, NotLent};
use crate::scrubbed::ScrubPass;
use crate::shipment::Shipment;
use crate::write_back::{Follower, OfDirty, WriteBack};
use block_io::{FlashOp, IoError, OriginOp, Payload, Slice, Token, Verb};
use block_store::{Damage, LockReason, RetainedUpdate};
use smallvec::SmallVec;
use units::{BlockIndex, Bytes, DiskId, DiskSlot, Duration, TenantSlot};

/// Names a guest's request. Its issuer chooses it and knows it again in the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Names a control command. Its issuer chooses it and knows it again in the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControlId(pub u64);

/// What a write does to the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WritePolicy {
    /// Writes go to the origin and drop the block from the cache.
    Around,
    /// Writes go to the origin; the copy of a block that is cached is replaced. Acknowledged
    /// when the origin has it.
    #[default]
    Through,
    /// Writes are acknowledged when the flash has them, as a disk's own cache would, and go to the
    /// origin later ([`WriteBack`]).
    Back,
}

/// A guest's request.
#[derive(Debug)]
pub struct Request {
    /// Comes back in the reply.
    pub id: RequestId,
    /// Which disk: a slot that [`Command::Attach`] gave.
    pub disk: DiskSlot,
    /// Who asks: of a shared disk a VM that has joined it ([`crate::Cache::join`]), of any other
    /// its tenant.
    pub vm: TenantSlot,
    /// What to do.
    pub verb: Verb,
}

/// Whose disk one is that is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tenure {
    /// This host's.
    #[default]
    Owner,
    /// Another host's, which writes it: what is cached of it here comes from there. The driver discards what that
    /// host has written. No guest is served, nothing is recorded, and nothing of it counts after a crash.
    Standby,
    /// This host's, which was [`Tenure::Standby`] until now. The driver vouches for what is cached: that the other
    /// host has let go of the disk, and that everything which that host wrote was discarded here.
    Successor,
}

/// What the operator asks.
#[derive(Clone, Debug)]
pub enum Command {
    /// Serve a disk. Its blocks that are on flash are served at once if they are surely its
    /// own: same identity, same size, and a fingerprint that has not changed since a detach.
    Attach {
        /// Who it is, for as long as it lives.
        disk: DiskId,
        /// What people call it; kept on flash for messages, at most [`flash_format::NAME_BYTES_MAX`] bytes of it.
        name: String,
        /// Size of the origin.
        size: Bytes,
        /// What writes do.
        policy: WritePolicy,
        /// Refuse writes.
        read_only: bool,
        /// Whose share of the flash it takes: the name of a VM, which may have several disks, or
        /// of a base image.
        tenant: String,
        /// A base image: never written, and read by every VM that joins it
        /// ([`crate::Cache::join`]). Its blocks are cached once for all of them.
        shared: bool,
        /// A value that changes whenever the origin's bytes may have been changed by somebody
        /// else, if the origin has one.
        fingerprint: Option<u128>,
        /// The owner's record that is kept with the origin, if there is one.
        owner: Option<OwnerRecord>,
        /// How writes reach the origin under [`WritePolicy::Back`].
        write_back: WriteBack,
        /// Whose disk it is.
        tenure: Tenure,
    },
    /// Stop serving a disk; its blocks stay on flash. The caller has seen all its requests
    /// answered.
    Detach {
        /// Which.
        disk: DiskSlot,
        /// The origin's fingerprint now that nobody writes it any more.
        fingerprint: Option<u128>,
        /// What becomes of bytes that the origin lacks.
        dirty: OfDirty,
    },
    /// Forget every block of a disk; it stays attached. Refused while the origin lacks bytes.
    Drop {
        /// Which.
        disk: DiskSlot,
    },
    /// Bring everything that was acknowledged before this to the origin, durably. It may take long
    /// and ends with an error if the origin fails.
    Destage {
        /// Which.
        disk: DiskSlot,
    },
    /// Bring nothing more to the origin until this is released: another host takes what is left. Who waits for that, or
    /// asks for it meanwhile, is refused. Done when nothing is on its way there, what has arrived is durable, and so is
    /// the dirty log here. An error if the disk is not under write-back, is about to leave it, or its origin does not take
    /// what it gets; it has to be released then, too.
    HoldDestage {
        /// Which.
        disk: DiskSlot,
        /// Tells this hold from others.
        number: u64,
    },
    /// Let what was held under this number go to the origin again.
    ReleaseDestage {
        /// Which.
        disk: DiskSlot,
        /// Of the hold.
        number: u64,
    },
    /// For a second somebody follows what is written to a disk that is about to move: under write-back its guest's
    /// flushes, and its writes while that one lacks much, wait for it, for 200 ms at most. Another one who has followed
    /// before does so no longer. It does nothing if the disk is not under write-back.
    Follow {
        /// Which.
        disk: DiskSlot,
        /// Who.
        follower: Follower,
    },
    /// Change what writes do from now on. It may take long: the origin has to get what it lacks.
    SetPolicy {
        /// Which.
        disk: DiskSlot,
        /// To what.
        policy: WritePolicy,
    },
    /// Change how writes reach the origin.
    SetWriteBack {
        /// Which.
        disk: DiskSlot,
        /// How, from now on.
        write_back: WriteBack,
    },
    /// A disk whose origin has become longer has this size from now on; what is cached of it stays.
    /// The same size again is none other.
    Grow {
        /// Which.
        disk: DiskSlot,
        /// Its size now.
        size: Bytes,
    },
    /// Keep records of the host that has a disk, which is attached as [`Tenure::Standby`], in the disk's own dirty log.
    /// Done when all are durable here, and that the origin has what came before them; they count if the owner's
    /// record names this cache with the epoch, open. A shipment that begins with the owner's oldest record begins the
    /// log anew if it does not follow what is here.
    Ship {
        /// Which.
        disk: DiskSlot,
        /// The period in which this host will have the disk, if it gets it.
        epoch: u64,
        /// What has come.
        shipment: Shipment,
    },
    /// Read what is on flash, block by block, and see whether it is what was written. Done at once: a pass takes hours,
    /// and [`crate::Facts::scrub`] says how far it is. While one is under way only its rate changes.
    Scrub {
        /// Bytes a second that are read at most.
        rate: Bytes,
        /// What a pass had done that goes on now; the default begins with the first segment.
        from: ScrubPass,
    },
    /// End the pass that is under way, if there is one.
    StopScrub,
    /// Bring the flash into the state that restarts warmest. Disks are detached first.
    Stop,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlOutcome {
    /// The disk is served under this slot.
    Attached {
        /// Its slot in requests.
        disk: DiskSlot,
        /// Its tenant's slot in requests.
        tenant: TenantSlot,
        /// Blocks of it that were found on flash and are served.
        warm_blocks: u64,
        /// Why blocks on flash were dropped, if they were.
        dropped: Option<DropReason>,
    },
    /// Done.
    Done,
}

/// Why an attached disk's blocks on flash were not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The origin is shorter than it was.
    SizeChanged,
    /// The origin was changed by somebody else while it was detached.
    OriginChanged,
    /// Another cache has had the disk meanwhile, or this flash is older than its owner's record.
    OtherOwner,
    /// The origin has everything, but a part of the dirty log is damaged: what it said of them is lost.
    LogDamaged,
    /// They were written under another key, or under none.
    KeyChanged,
}

/// Why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The disk is attached already.
    #[error("the disk is attached already")]
    AlreadyAttached,
    /// No such disk is attached.
    #[error("no such disk is attached")]
    NotAttached,
    /// It is larger than [`flash_format::DISK_BYTES_MAX`] or not a multiple of 512 bytes.
    #[error("the disk's size is not a multiple of 512 bytes or above 256TiB")]
    UnsupportedSize,
    /// Every slot of the disk table is held by an attached disk.
    #[error("1024 disks are attached to this cache: attach to another cache")]
    TooManyDisks,
    /// Every tenant slot is held by a VM or image that has a disk here.
    #[error("1024 VMs and images use this cache: attach to another cache")]
    TooManyTenants,
    /// Only a shared disk can be joined.
    #[error("the disk is not shared: it has one VM, its tenant")]
    NotShared,
    /// Requests of the disk, or another command about it, are still in flight.
    #[error("requests of the disk, or another command about it, are still in flight")]
    Busy,
    /// The flash has failed, and until that is recorded the disk must not be given to others:
    /// what is on flash would be believed after their writes.
    #[error("the flash has failed and the host has not recorded it yet: try again")]
    RetirementOpen,
    /// Only whole blocks can wait on flash for the origin.
    #[error("the disk's size is not a multiple of 4KiB, so writes cannot go back later")]
    UnalignedSize,
    /// The flash has bytes that the origin lacks, and the origin has become shorter.
    #[error("the origin has become shorter while the flash has bytes that it lacks")]
    SizeChanged,
    /// Requests may be under way behind a new end, and beside a part of a block.
    #[error("a disk that is attached only grows, from and to a multiple of 4KiB")]
    OnlyGrows,
    /// A base image has one size for all who read it.
    #[error("the disk is shared by VMs, and is the same for all of them as long as it is attached")]
    Shared,
    /// The flash has bytes that the origin lacks, and somebody has written the origin since the
    /// disk was detached.
    #[error(
        "the origin was changed while the flash has bytes that it lacks: what would come of both is \
         no disk that the guest has seen; see hearth recover"
    )]
    OriginChanged,
    /// Records are missing between those that are here and those that have come.
    #[error("the records do not follow those that are here")]
    RecordsMissing,
    /// The disk's log would be longer than it may be.
    #[error("the dirty log would be longer than it may be")]
    LogFull,
    /// The flash has bytes that the origin lacks, encrypted by another key, or not encrypted.
    #[error(
        "the flash has bytes that the origin lacks, under another key than the disk's: give it the \
         key that it had, and flush it before it gets another"
    )]
    OtherKey,
    /// It has no flash to keep them on, or nobody may write it.
    #[error("writes cannot wait on flash: the disk is read-only or the cache has no flash")]
    NoWriteBack,
    /// A log is begun on flash that is in time.
    #[error("writes of the flash are late: try again when the cache is no longer in doubt")]
    FlashLate,
    /// The flash has bytes that the origin lacks.
    #[error("the cache has {bytes} that the origin lacks: flush the disk first")]
    Dirty {
        /// How many.
        bytes: Bytes,
    },
    /// Another cache has, or may have, bytes that the origin lacks.
    #[error(
        "cache {cache:032x} may have bytes of the disk that its origin lacks (epoch {epoch}): \
         attach it there",
        cache = record.cache,
        epoch = record.epoch
    )]
    Elsewhere {
        /// What the owner's record says.
        record: OwnerRecord,
    },
    /// This cache should have bytes that the origin lacks, and has them not.
    #[error(
        "this cache had bytes of the disk that its origin lacks (epoch {epoch}), and they are \
         not on this flash: see hearth recover",
        epoch = record.epoch
    )]
    Lost {
        /// What the owner's record says.
        record: OwnerRecord,
    },
    /// The flash has bytes that the origin may lack, and the owner's record does not say so.
    #[error(
        "the flash has bytes of the disk that its origin may lack (epoch {epoch}), and the owner's \
         record does not say that they are its: see hearth recover"
    )]
    Unrecorded {
        /// The latest period in which they were written.
        epoch: u64,
    },
    /// The disk's bytes on flash cannot be brought to the origin without the operator.
    #[error("the disk is locked, {0}: see hearth recover")]
    Locked(LockReason),
    /// The owner's record could not be written.
    #[error("who has the disk could not be recorded with its origin")]
    NotRecorded,
    /// A pass of the scrub needs flash.
    #[error("the cache has no flash in use: there is nothing to scrub")]
    NoFlash,
    /// The origin does not take what it lacks.
    #[error("the origin does not take the bytes that it lacks")]
    Origin(#[source] IoError),
}

/// What is recorded with an origin about who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnerRecord {
    /// The latest period in which the disk was attached for writing; the first is 1.
    pub epoch: u64,
    /// The cache that had it then: [`crate::Status::uuid`]; zero for a host without flash.
    pub cache: u128,
    /// Whether that cache may have bytes that the origin lacks.
    pub open: bool,
}

/// What the cache asks of its shell.
#[derive(Debug)]
pub enum Effect {
    /// Carry this out on the flash device.
    Flash(FlashOp),
    /// Carry this out on a disk's origin.
    Origin(OriginOp),
    /// Answer a guest. The payload is empty unless the request was a read; its slices
    /// concatenate to exactly the bytes asked for.
    Reply {
        /// Which request.
        request: RequestId,
        /// Its outcome.
        result: Result<Payload, IoError>,
    },
    /// Answer a guest whose read has brought verified bytes to where it wanted them, all but
    /// `rest`, which are to be put there first.
    ReplyInPlace {
        /// Which request, one of [`crate::Cache::request_into`].
        request: RequestId,
        /// What came from elsewhere: where in the memory it belongs, in bytes, and the bytes.
        rest: SmallVec<[(usize, Slice); 1]>,
    },
    /// Record durably, outside the flash, that this incarnation of the cache must not be
    /// trusted after a crash; then call [`crate::Cache::retired`]. Writes wait for it.
    Retire {
        /// Comes back with the answer.
        token: Token,
        /// The incarnation that must not be trusted any more.
        incarnation: u64,
    },
    /// Record durably that this incarnation, which was retired, may be trusted again; then call
    /// [`crate::Cache::reinstated`]. Records are made in the order in which they are asked for: if
    /// [`Effect::Retire`] follows, this one must not be the last word, whenever it is answered.
    Reinstate {
        /// Comes back with the answer.
        token: Token,
        /// The incarnation that may be trusted.
        incarnation: u64,
    },
    /// Record durably, with the disk's origin, who has it; then call [`crate::Cache::owned`]. The
    /// disk may not be attached yet, or not any more: `id` tells which it is.
    Own {
        /// Comes back with the answer.
        token: Token,
        /// Its slot, which it has or will have.
        disk: DiskSlot,
        /// Who it is.
        id: DiskId,
        /// What is to be recorded.
        record: OwnerRecord,
    },
    /// Tell this to retained memory, at once.
    Retain(RetainedUpdate),
    /// Say that a block came from flash and is not what was written there. Nothing is asked of the
    /// driver: the cache has given the copy up, and serves the origin's bytes or an error.
    Damaged(Damage),
    /// Tell the guest of a disk, which wants to know ([`crate::Cache::guest`]), that these blocks are in memory because
    /// they will be read. It is no loss if that cannot be said.
    Expected {
        /// Which disk.
        disk: DiskSlot,
        /// The first block.
        first: BlockIndex,
        /// How many.
        count: u64,
    },
    /// Answer a loan.
    Lent {
        /// Which loan.
        loan: LoanId,
        /// Its outcome.
        result: Result<Borrowed, NotLent>,
    },
    /// A command has ended.
    ControlDone {
        /// Which command.
        id: ControlId,
        /// Its outcome.
        result: Result<ControlOutcome, ControlError>,
    },
}

/// How a cache behaves. All have defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How long an incomplete chunk waits for more blocks before it is written.
    pub write_delay: Duration,
    /// How long a rewritten block must rest before its copy is trusted after a crash again.
    pub trust_delay: Duration,
    /// How long a flash read may take before the origin is asked instead, and a flash write
    /// of the journal before guests' writes wait for it no longer.
    pub flash_timeout: Duration,
    /// Bytes of blocks that may wait in memory to be written to flash; above it misses are
    /// not admitted.
    pub write_buffer: Bytes,
    /// The reclaim policy.
    pub reclaim: policy::reclaim::Kind,
    /// Who may enter what, and who gets how much. Without it everything that is read is admitted,
    /// and the log reclaims what is oldest, whosever it is.
    pub tenancy: Option<tenancy::Settings>,
    /// Whether a block that is written whole and is not cached is offered to admission; else only
    /// what is read is.
    pub allocate_writes: bool,
    /// Places that retained memory has for chunks of dirty logs: as many chunks can be gathered, or
    /// be on their way to flash, at a time.
    pub retained_places: u32,
}

impl Config {
    /// What of it the store has to know.
    pub(crate) fn of_store(&self) -> block_store::Config {
        block_store::Config {
            write_delay: self.write_delay,
            trust_delay: self.trust_delay,
            flash_timeout: self.flash_timeout,
            write_buffer: self.write_buffer,
            reclaim: self.reclaim,
            retained_places: self.retained_places,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            write_delay: Duration::from_secs(1),
            trust_delay: Duration::from_secs(10),
            flash_timeout: Duration::from_secs(2),
            write_buffer: Bytes::mib(64),
            reclaim: policy::reclaim::Kind::default(),
            tenancy: None,
            allocate_writes: tenancy::daemon::ALLOCATE_WRITES,
            retained_places: 64,
        }
    }
}
