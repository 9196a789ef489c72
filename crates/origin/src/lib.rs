//! Shared storage behind one trait: the slower volume that a disk's bytes really live on.
//!
//! An [`Origin`] takes operations and hands each back once, in any order. It exists in real
//! forms (`file`: a file or block device; `nbd`: an NBD server; `rbd`: an image of a Ceph cluster; `iscsi`: a unit of an iSCSI target), in memory with a seeded crash
//! model, and as a faulty wrapper around any of them. One conformance body runs on all.
//!
//! Opening has two steps, because reaching an origin may take seconds and the thread of a
//! shard must not wait while other disks are served:
//!
//! ```text
//!   any thread:    open(&spec, read_only) ──► Opened (Send; connected, size known)
//!   shard thread:  opened.start(&ring, &pool) ──► Box<dyn Origin>
//! ```

mod error;
pub mod faulty;
pub mod file;
mod identity;
mod iscsi;
mod kept_text;
mod late;
mod limits;
pub mod memory;
pub mod nbd;
mod open;
mod patience;
mod rbd;
mod sessions;
mod spec;
mod timed;

pub use error::OpenError;
pub use file::{ImageFormat, LockFault, LockWatch, may_be_lock_loss};
pub use identity::Identity;
pub use late::{KeepSockets, Keeping, KeepsNone};
pub use open::{
    Opened, expect_anything, measure, open, open_beside, open_keeping, settle, within_time,
};
pub use spec::{Chap, FileSpec, IscsiSpec, NbdAddress, NbdSpec, OriginSpec, RbdSpec, TlsSpec};

use block_io::{IoError, OriginDone, OriginGeometry, OriginOp, Token};
use ring::SourceId;
use smallvec::SmallVec;
use units::{Bytes, Duration, Instant};

/// The sources on a shard's ring that belong to one origin.
pub type Sources = SmallVec<[SourceId; 4]>;

/// The slow volume of one disk.
///
/// # Contract
/// - Every submitted operation is handed back exactly once by [`Origin::poll`] with its token,
///   whatever happened to it; the buffer of a read comes back with it, on failure too.
/// - Operations may be carried out and handed back in any order. A caller that needs one to
///   follow another waits for the first one's completion. Overlapping operations may be in flight
///   together: then each sector ends with the bytes of one of the changes, a read gets those from
///   before or after each, and no form brings older bytes back once a change over them was
///   acknowledged or read. A form that repeats operations puts overlapping ones in order itself.
/// - A successful completion means the whole range. After a failed write, discard or
///   write-zeroes each sector of the range holds its old or its new bytes. Which of them is settled
///   when a later operation on the range comes back: a form whose far side may still be at work
///   on a change that was given up (`Disconnected`, `TimedOut`) lets later operations on its range wait.
/// - Success of a flush means that every change that had completed before it was submitted is
///   durable, if no flush has failed since that change; success with `fua` means it for that write.
/// - No flush vouches for what a change that was given up leaves, unless it is submitted when that change
///   can happen no more. The first read that brings such bytes says so ([`OriginDone::volatile`]), whichever
///   session gave the change up. A read may say so of other bytes, too.
/// - A failed flush leaves each change since the last successful flush old or new: each sector that
///   was changed since holds its old or its new bytes. No later flush vouches for these changes,
///   only for what is changed after the failure. A form that knows what is in doubt goes further
///   and fails flushes until all of it has been changed again, so that nobody takes them for a
///   success ([`mod@file`] does; a server is left to its own judgement).
/// - An operation takes as long as the origin takes. A form that can lose its far side keeps
///   operations until a deadline of its own and then ends them with an error: none is held
///   for ever.
/// - Dropping an origin abandons what is in flight: the operations may still happen. A form whose far
///   side outlives it remembers them, and the next that opens the origin lets nothing be undone by them.
pub trait Origin {
    /// Size, sector and abilities. They never change while the origin is open, but for
    /// [`Origin::grow`]; an origin that turns out to have become shorter fails every write from then on.
    fn geometry(&self) -> OriginGeometry;

    /// The far side has become longer, and this much of it is the disk's from now on. What is in
    /// flight goes on. It may block for the time of an `fstat`.
    ///
    /// # Errors
    /// [`IoError::Invalid`] if it is not so long, as far as can be known at once, or the disk would
    /// become shorter.
    fn grow(&mut self, size: Bytes) -> Result<(), IoError>;

    /// Takes an operation. Never blocks, and never fails here: a range out of bounds or not
    /// aligned to the geometry's sector comes back from [`Origin::poll`] as
    /// `IoError::Invalid`, a write to a read-only origin as `IoError::NotPermitted`.
    /// Discarding is allowed to do nothing.
    fn submit(&mut self, op: OriginOp, now: Instant);

    /// Appends the operations that have ended to `done`. Never blocks; called after one of the
    /// origin's sources became ready, after its deadline passed, or at any other time.
    fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>);

    /// The shard stood still for so long and polled nothing: that time counts against no operation.
    /// Called before the next poll.
    fn stood_still(&mut self, _time: Duration) {}

    /// When [`Origin::poll`] has to be called although no source became ready (a reconnect is
    /// due, a request's time is up); `None` if it need not be. Asked after each poll and
    /// submit.
    fn next_deadline(&self) -> Option<Instant>;

    /// The sources on the shard's ring whose readiness means that [`Origin::poll`] has work.
    /// They may change with every poll (a reconnect opens a new socket); asked after each.
    fn sources(&self) -> Sources;

    /// A value that changes when somebody else wrote to the origin while we did not, or `None`
    /// if this form cannot tell. Compared between a detach and the next attach; it may block
    /// for the time of an `fstat`, so it is not asked on the data path.
    fn fingerprint(&self) -> Option<u128>;

    /// How things stand with the far side, as far as is known.
    fn condition(&self) -> Condition {
        Condition::default()
    }

    /// The system's or the server's number for the failure of an operation, for the log; `None` if there is
    /// none. To be asked right after the [`Origin::poll`] that hands the operation back: the answer is
    /// forgotten.
    fn error_number(&mut self, _token: Token) -> Option<i32> {
        None
    }
}

/// How things stand with an origin's far side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether it can be reached now.
    pub connected: bool,
    /// Bytes of changes that were given up and that it may still carry out. Requests of their ranges
    /// wait. A disk is better not detached before there are none.
    pub late: Bytes,
    /// Bytes of changes that were sent again because their connection had ended, and of which it may still carry out
    /// the first attempt. That changes nothing here, and would undo what another host writes.
    pub cut: Bytes,
}

impl Default for Condition {
    fn default() -> Self {
        Self {
            connected: true,
            late: Bytes::ZERO,
            cut: Bytes::ZERO,
        }
    }
}

impl<O: Origin + ?Sized> Origin for Box<O> {
    fn geometry(&self) -> OriginGeometry {
        (**self).geometry()
    }
    fn submit(&mut self, op: OriginOp, now: Instant) {
        (**self).submit(op, now);
    }
    fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        (**self).poll(now, done);
    }
    fn stood_still(&mut self, time: Duration) {
        (**self).stood_still(time);
    }
    fn next_deadline(&self) -> Option<Instant> {
        (**self).next_deadline()
    }
    fn sources(&self) -> Sources {
        (**self).sources()
    }
    fn grow(&mut self, size: Bytes) -> Result<(), IoError> {
        (**self).grow(size)
    }
    fn fingerprint(&self) -> Option<u128> {
        (**self).fingerprint()
    }
    fn condition(&self) -> Condition {
        (**self).condition()
    }
    fn error_number(&mut self, token: Token) -> Option<i32> {
        (**self).error_number(token)
    }
}
