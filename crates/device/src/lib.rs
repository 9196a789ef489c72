//! Local flash behind one trait: what the cache core calls `FlashOp` happens here.
//!
//! A [`Device`] takes operations and hands each back once, in any order. It exists in three
//! forms: `uring::UringDevice` (a file or block device through `io_uring`),
//! `memory::MemoryDevice` (a seeded crash model) and `faulty::Faulty` (a wrapper that
//! makes any other form fail, stall, misdirect, rot and lose by a plan). One conformance body
//! runs on all of them. `interleaved::Interleaved` wraps any of them where reads come back in
//! bunches. Beside them, `retained::RetainedMemory` is memory that outlives the process.
//!
//! ```text
//!   cache ── FlashOp ──► submit ┐                ┌► poll ── FlashDone ──► cache
//!                               └─ device, ring ─┘
//! ```
//!
//! Who drives it: the shard's loop, or the simulated world. Nothing here reads a clock; time
//! comes in with every call.

#![deny(unsafe_code)]

pub mod faulty;
pub mod interleaved;
pub mod memory;
pub mod retained;
pub mod uring;

use block_io::{FlashDone, FlashOp, Token};
use ring::SourceId;
use units::{Bytes, Instant};

/// Local flash: an array of bytes that is read, written and flushed asynchronously.
///
/// # Contract
/// - Every submitted operation is handed back exactly once by [`Device::poll`] with its token,
///   whatever happened to it; the buffer of a read comes back with it, on failure too.
/// - Operations may be carried out and handed back in any order. A caller that needs one to
///   follow another waits for the first one's completion.
/// - A successful completion means the whole range; a short transfer is a failure. After a
///   failed write the range may hold the old bytes, the new ones, or a mixture by 512-byte
///   sector.
/// - A write that completed without `durable` may be lost, torn by sector, or reordered with
///   others by a power cut until a flush that was submitted after its completion completes.
///   A sector is never torn.
/// - Dropping a device abandons what is in flight: the operations may still happen.
pub trait Device {
    /// Size in bytes, a multiple of 4 KiB. It never changes while the device is open.
    fn capacity(&self) -> Bytes;

    /// Takes an operation. Never blocks, and never fails here: a range out of bounds or not
    /// aligned to 4 KiB comes back from [`Device::poll`] as `IoError::Invalid`.
    fn submit(&mut self, op: FlashOp, now: Instant);

    /// Appends the operations that have ended to `done`. Never blocks; called after the
    /// device's source became ready, after its deadline passed, or at any other time.
    fn poll(&mut self, now: Instant, done: &mut Vec<FlashDone>);

    /// When [`Device::poll`] has to be called although no source became ready; `None` if it
    /// need not be. Asked after each poll and submit.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// The source on the shard's ring whose readiness means that [`Device::poll`] has work;
    /// `None` for a form that needs no ring.
    fn source(&self) -> Option<SourceId> {
        None
    }

    /// The system's number for the failure of an operation, for the log; `None` if it gave none. To be asked
    /// right after the [`Device::poll`] that hands the operation back: the answer is forgotten.
    fn error_number(&mut self, _token: Token) -> Option<i32> {
        None
    }
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn capacity(&self) -> Bytes {
        (**self).capacity()
    }
    fn submit(&mut self, op: FlashOp, now: Instant) {
        (**self).submit(op, now);
    }
    fn poll(&mut self, now: Instant, done: &mut Vec<FlashDone>) {
        (**self).poll(now, done);
    }
    fn next_deadline(&self) -> Option<Instant> {
        (**self).next_deadline()
    }
    fn source(&self) -> Option<SourceId> {
        (**self).source()
    }
    fn error_number(&mut self, token: Token) -> Option<i32> {
        (**self).error_number(token)
    }
}
