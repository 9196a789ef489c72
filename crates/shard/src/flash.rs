//! What has come from flash, and how much of it a turn takes on.
//!
//! A block is verified before its guest hears of it, a tenth of a millisecond a MiB. When many large
//! reads come back together, each is answered as soon as it is verified, and its guest asks for the
//! next one, rather than all at the end with the flash idle meanwhile; and a small read of another
//! disk waits for one of them, not for all.
//!
//! ```text
//!   flash ─► arrived ─┬─ up to TURN_BYTES ─► cache ─► answers of this turn
//!                     └─ the rest ─► next turn, which does not wait
//! ```

use crate::failures::Failure;
use crate::latency::ReadWrite;
use crate::limits::TURN_BYTES;
use crate::open::Flash;
use block_io::{FlashDone, FlashOp};
use device::Device as _;
use ring::{Ring, SourceId};
use std::collections::VecDeque;
use units::{Bytes, Instant};

/// What the cache was not told of yet, oldest first.
#[derive(Debug, Default)]
struct Arrived {
    queue: VecDeque<FlashDone>,
    /// Filled and emptied within a call.
    polled: Vec<FlashDone>,
}

impl Arrived {
    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The next one, if this turn takes it on after so many bytes, which grow by it.
    fn next(&mut self, taken: &mut Bytes) -> Option<FlashDone> {
        if *taken >= TURN_BYTES {
            return None;
        }
        let done = self.queue.pop_front()?;
        *taken += done.read_bytes();
        Some(done)
    }
}

/// The flash of a shard, if it has any, and what has come from it.
pub(crate) struct FlashSide {
    device: Option<Flash>,
    arrived: Arrived,
}

impl FlashSide {
    pub(crate) fn new(device: Option<Flash>) -> Self {
        Self {
            device,
            arrived: Arrived::default(),
        }
    }

    pub(crate) fn is_there(&self) -> bool {
        self.device.is_some()
    }

    pub(crate) fn source(&self) -> Option<SourceId> {
        self.device.as_ref()?.source()
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.device.as_ref()?.next_deadline()
    }

    /// Whether something has come that the cache was not told of.
    pub(crate) fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// How long its operations have taken.
    pub(crate) fn latency(&self) -> ReadWrite {
        let flash = self.device.as_ref();
        flash
            .map(|flash| flash.inner().latency().clone())
            .unwrap_or_default()
    }

    /// Asks the flash.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn submit(&mut self, op: FlashOp, now: Instant) {
        let flash = self.device.as_mut();
        flash
            .expect("a cache without flash asks nothing of it")
            .submit(op, now);
    }

    /// Takes in what the flash has done, and gives each operation that has failed to `failed`.
    pub(crate) fn poll(&mut self, ring: &Ring, now: Instant, mut failed: impl FnMut(Failure)) {
        let Some(flash) = &mut self.device else {
            return;
        };
        flash.poll(now, &mut self.arrived.polled);
        for failure in flash.inner_mut().failures() {
            failed(failure);
        }
        // Reads that waited for these: the flash should not idle while the answers are made.
        ring.submit();
        self.arrived.queue.extend(self.arrived.polled.drain(..));
    }

    /// The next completion that this turn takes on, which has taken so many bytes.
    pub(crate) fn next(&mut self, taken: &mut Bytes) -> Option<FlashDone> {
        self.arrived.next(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block_io::{BufPool, Token};

    fn done(token: u64, read_bytes: usize) -> FlashDone {
        let buf = (read_bytes > 0).then(|| BufPool::new().take(read_bytes));
        FlashDone {
            token: Token(token),
            buf,
            place: None,
            result: Ok(()),
        }
    }

    fn turn(arrived: &mut Arrived) -> Vec<u64> {
        let mut taken = Bytes::ZERO;
        std::iter::from_fn(|| arrived.next(&mut taken))
            .map(|done| done.token.0)
            .collect()
    }

    #[test]
    fn a_turn_takes_on_one_large_read_or_many_small_ones_in_their_order() {
        let mut arrived = Arrived::default();
        arrived
            .queue
            .extend([done(1, 512 << 10), done(2, 512 << 10)]);
        arrived
            .queue
            .extend((3..100).map(|token| done(token, 4096)));
        // Writes and flushes bring nothing to verify.
        arrived.queue.extend((100..300).map(|token| done(token, 0)));

        assert_eq!(turn(&mut arrived), [1]);
        assert_eq!(turn(&mut arrived), [2]);
        assert_eq!(turn(&mut arrived), (3..67).collect::<Vec<u64>>());
        assert_eq!(turn(&mut arrived), (67..300).collect::<Vec<u64>>());
        assert!(arrived.is_empty() && turn(&mut arrived).is_empty());
    }
}
