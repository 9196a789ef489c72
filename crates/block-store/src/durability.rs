//! What the origin may still lose.
//!
//! A write that the origin has acknowledged but not flushed can vanish if the origin's host loses
//! power, and the guest may not complain: it has not flushed. But if a copy of it were trusted on
//! flash, the cache would go on serving bytes that the origin no longer has. So a copy is trusted
//! only after a flush of the origin that began when the copy's bytes were already there.
//!
//! Each disk counts its writes. A copy is tagged with the count at the time when it was taken;
//! it may be trusted when a flush that began at that count or later has succeeded. Guests flush
//! often enough; where one does not, the cache sends a flush of its own.
//!
//! A change that the origin has given up ends with an error, and may be carried out after a flush that
//! began later and succeeded. So it counts once more when a read brings what it has left
//! (`OriginDone::volatile`).
//!
//! A flush that fails says that some of what was written since the last good one may be gone, and the
//! next flush that succeeds does not bring it back: a kernel that could not write a page keeps it as
//! if it had. So every copy of such bytes leaves the cache, and whoever asked for the flush is told. If
//! the cache itself had asked, the guest's next flush fails in its place.

use crate::guard::{Guard, holds};
use crate::ports::{Ports, Tag};
use crate::write_count::WriteCount;
use units::DiskSlot;

/// How far a disk's writes are durable at its origin.
#[derive(Clone, Copy, Debug)]
struct Durability {
    ended: WriteCount,
    flushed: WriteCount,
    /// The latest count of a copy that is not known to be durable at the origin and has lost its tag.
    untagged: WriteCount,
    /// A flush of our own is on its way.
    flushing: bool,
    /// The disk is attached, so its origin can be flushed: false once a detach has come so far
    /// that it no longer waits for one.
    reachable: bool,
}

impl Durability {
    const NEVER_ATTACHED: Self = Self {
        ended: WriteCount::NONE,
        flushed: WriteCount::NONE,
        untagged: WriteCount::NONE,
        flushing: false,
        reachable: false,
    };

    /// A disk that has just been attached. What its last life wrote may not be flushed, unless
    /// it cannot have written.
    fn attached(read_only: bool) -> Self {
        Self {
            ended: if read_only {
                WriteCount::NONE
            } else {
                WriteCount::NONE.next()
            },
            reachable: true,
            ..Self::NEVER_ATTACHED
        }
    }

    /// Whether whatever the origin held at `count` is durable there.
    fn covers(&self, count: WriteCount) -> bool {
        self.flushed >= count || !holds(Guard::OriginFlushBeforeTrust)
    }

    /// Whether everything that was written so far is durable at the origin.
    fn covers_all(&self) -> bool {
        self.covers(self.ended)
    }
}

/// What each disk's origin may still lose; memory only up to the highest slot that was attached.
#[derive(Debug, Default)]
pub struct Origins(Vec<Durability>);

impl Origins {
    /// A disk that is served is attached: its origin can be flushed, and may have been written before
    /// unless it cannot be.
    pub fn attached(&mut self, disk: DiskSlot, read_only: bool) {
        *self.of_mut(disk) = Durability::attached(read_only);
    }

    /// Nothing is asked of a disk's origin any more.
    pub fn leave(&mut self, disk: DiskSlot) {
        self.of_mut(disk).reachable = false;
    }

    /// How many writes of a disk have ended.
    #[inline]
    pub fn write_count(&self, disk: DiskSlot) -> WriteCount {
        self.of(disk).ended
    }

    /// A write of this disk has ended, well or badly; or a read has brought what a late one has left.
    pub fn write_ended(&mut self, disk: DiskSlot) {
        let durability = self.of_mut(disk);
        durability.ended = durability.ended.next();
    }

    /// A flush that began at `count` has succeeded.
    pub fn flushed(&mut self, disk: DiskSlot, count: WriteCount) {
        let durability = self.of_mut(disk);
        durability.flushed = durability.flushed.max(count);
    }

    /// Flushes a disk's origin if anything of it may not be durable.
    pub fn flush<T: Tag>(&mut self, ports: &mut Ports<T>, disk: DiskSlot) {
        let durability = self.of_mut(disk);
        if durability.flushing || durability.covers_all() {
            return;
        }
        durability.flushing = true;
        let count = durability.ended;
        ports.flush_origin(disk, count);
    }

    /// A flush that [`Origins::flush`] has asked for has ended.
    pub fn flush_ended(&mut self, disk: DiskSlot) {
        self.of_mut(disk).flushing = false;
    }

    pub(crate) fn is_flushing(&self, disk: DiskSlot) -> bool {
        self.of(disk).flushing
    }

    /// Whether a disk's origin can still be flushed.
    pub(crate) fn is_reachable(&self, disk: DiskSlot) -> bool {
        self.of(disk).reachable
    }

    /// Whether whatever a disk's origin held at `count` is durable there.
    pub(crate) fn covers(&self, disk: DiskSlot, count: WriteCount) -> bool {
        self.of(disk).covers(count)
    }

    /// A copy of a disk's block is cached that loses its tag.
    pub(crate) fn tag_is_lost(&mut self, disk: DiskSlot) {
        let durability = self.of_mut(disk);
        if !durability.covers_all() {
            durability.untagged = durability.ended;
        }
    }

    /// Whether everything that was written so far is durable at a disk's origin.
    pub(crate) fn covers_all(&self, disk: DiskSlot) -> bool {
        self.of(disk).covers_all()
    }

    /// Whether copies without a tag may be of bytes that a disk's origin has lost. They are forgotten.
    pub(crate) fn take_untagged(&mut self, disk: DiskSlot) -> bool {
        let durability = self.of_mut(disk);
        let is_suspect = !durability.covers(durability.untagged);
        if is_suspect {
            durability.untagged = WriteCount::NONE;
        }
        is_suspect
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Durability>()
    }

    #[inline]
    fn of(&self, disk: DiskSlot) -> &Durability {
        self.0
            .get(disk.index())
            .unwrap_or(&Durability::NEVER_ATTACHED)
    }

    fn of_mut(&mut self, disk: DiskSlot) -> &mut Durability {
        if self.0.len() <= disk.index() {
            self.0.resize(disk.index() + 1, Durability::NEVER_ATTACHED);
        }
        &mut self.0[disk.index()]
    }
}
