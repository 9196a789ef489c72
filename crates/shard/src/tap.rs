//! A tap on a disk: what its guests ask, for somebody who writes it down.
//!
//! ```text
//!   request ──► cache
//!       └─► Tap ──► bounded queue ──► another thread: sampling, packing, files
//!             └─ full: counted, and gone
//! ```
//!
//! A request with a tap costs the copying of an event of fixed size. Nothing ever waits for who listens:
//! a full queue loses the event, and the loss is counted. Events carry the time of the shard's turn, so
//! those of one shard come in order of time; those of several do not.

use block_io::Verb;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use units::{Bytes, Instant, Offset, TenantSlot};

/// What a guest asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapEvent {
    /// When the shard saw it, on the system's monotonic clock.
    pub time: Instant,
    /// Where on the disk; zero for a flush.
    pub offset: Offset,
    /// How much; zero for a flush.
    pub length: Bytes,
    /// The number that the tap was given.
    pub disk: u32,
    /// Which VM asked: of a shared disk one that has joined it, of any other its tenant. The
    /// shard's status has their names.
    pub vm: TenantSlot,
    /// What.
    pub verb: TapVerb,
}

const _: () = assert!(
    size_of::<TapEvent>() <= 32,
    "half a cache line: the queue's memory is counted with it"
);

/// What a guest can ask. Prefetches are hints and are not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapVerb {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To make durable what was answered.
    Flush,
    /// To forget.
    Discard,
    /// To write zeroes.
    WriteZeroes,
}

/// A tap: where a disk's requests are told.
#[derive(Clone, Debug)]
pub struct Tap {
    /// What the disk is called in events.
    pub disk: u32,
    /// The queue. Bounded: that is what bounds the memory.
    pub events: SyncSender<TapEvent>,
    /// Events that the queue had no room for.
    pub lost: Arc<AtomicU64>,
}

impl Tap {
    /// Tells of a request. False: nobody listens any more.
    pub(crate) fn tell(&self, verb: &Verb, vm: TenantSlot, time: Instant) -> bool {
        let (verb, offset, length) = match verb {
            Verb::Read { offset, length } => (TapVerb::Read, *offset, *length),
            Verb::Write { offset, data, .. } => {
                (TapVerb::Write, *offset, Bytes::new(data.len() as u64))
            }
            Verb::Flush => (TapVerb::Flush, Offset::ZERO, Bytes::ZERO),
            Verb::Discard { offset, length } => (TapVerb::Discard, *offset, *length),
            Verb::WriteZeroes { offset, length, .. } => (TapVerb::WriteZeroes, *offset, *length),
            Verb::Prefetch { .. } => return true,
        };
        let event = TapEvent {
            time,
            offset,
            length,
            disk: self.disk,
            vm,
            verb,
        };
        match self.events.try_send(event) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const VM: TenantSlot = TenantSlot::new(2);

    #[test]
    fn a_full_queue_loses_and_counts() {
        let (events, heard) = mpsc::sync_channel(2);
        let lost = Arc::new(AtomicU64::new(0));
        let tap = Tap {
            disk: 7,
            events,
            lost: Arc::clone(&lost),
        };
        let read = Verb::Read {
            offset: Offset::kib(4),
            length: Bytes::new(512),
        };
        for nanos in 0..5 {
            assert!(tap.tell(&read, VM, Instant::from_nanos(nanos)));
        }
        let first = TapEvent {
            time: Instant::ZERO,
            offset: Offset::kib(4),
            length: Bytes::new(512),
            disk: 7,
            vm: VM,
            verb: TapVerb::Read,
        };
        assert_eq!(heard.recv(), Ok(first));
        assert_eq!(lost.load(Ordering::Relaxed), 3);
        drop(heard);
        assert!(!tap.tell(&Verb::Flush, VM, Instant::ZERO));
        assert_eq!(lost.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn hints_are_not_told() {
        let (events, heard) = mpsc::sync_channel(1);
        let tap = Tap {
            disk: 0,
            events,
            lost: Arc::default(),
        };
        let hint = Verb::Prefetch {
            offset: Offset::ZERO,
            length: Bytes::kib(4),
        };
        assert!(tap.tell(&hint, VM, Instant::ZERO));
        assert_eq!(heard.try_recv(), Err(mpsc::TryRecvError::Empty));
    }
}
