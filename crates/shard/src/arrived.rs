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

use crate::limits::TURN_BYTES;
use crate::run::Shard;
use block_io::FlashDone;
use device::Device as _;
use std::collections::VecDeque;
use units::Bytes;

/// What the cache was not told of yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    queue: VecDeque<FlashDone>,
    /// Filled and emptied within a call.
    polled: Vec<FlashDone>,
}

impl Arrived {
    pub(crate) fn is_empty(&self) -> bool {
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

impl Shard {
    /// Takes in what the flash has done.
    pub(crate) fn poll_flash(&mut self) {
        let Some(flash) = &mut self.flash else { return };
        flash.poll(self.now, &mut self.arrived.polled);
        for failure in flash.inner_mut().failures() {
            self.repeats.flash_failed(&self.config, failure, self.now);
        }
        // Reads that waited for these: the flash should not idle while the answers are made.
        self.ring.submit();
        self.arrived.queue.extend(self.arrived.polled.drain(..));
    }

    /// Tells the cache of it, a turn's worth.
    pub(crate) fn tell_of_flash(&mut self) {
        let mut taken = Bytes::ZERO;
        while let Some(done) = self.arrived.next(&mut taken) {
            self.cache.flash_done(done, self.now);
        }
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
