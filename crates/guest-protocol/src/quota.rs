//! How much the daemon takes of a guest in a second.

use crate::limits::{FRAME_BYTES_MAX, FRAMES_PER_SECOND};
use units::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
const BYTES_PER_SECOND: u64 = FRAMES_PER_SECOND as u64 * FRAME_BYTES_MAX as u64;

/// Two buckets, each as deep as what it gains in a second: frames, and bytes, so that what is no frame costs no
/// more than the longest frames would.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    since: Instant,
    frames: u64,
    bytes: u64,
}

impl Quota {
    /// Full buckets.
    pub fn new(now: Instant) -> Self {
        Self {
            since: now,
            frames: u64::from(FRAMES_PER_SECOND),
            bytes: BYTES_PER_SECOND,
        }
    }

    /// Fills the buckets, by the time since they were filled last.
    pub fn refill(&mut self, now: Instant) {
        let passed = now.since(self.since).min(SECOND);
        let gained = |rate: u64| {
            let gained = u128::from(rate) * u128::from(passed.as_nanos());
            u64::try_from(gained / u128::from(SECOND.as_nanos())).unwrap_or(rate)
        };
        let frames = gained(u64::from(FRAMES_PER_SECOND));
        // Time that is worth no frame yet counts later.
        if frames == 0 {
            return;
        }
        self.frames = (self.frames + frames).min(u64::from(FRAMES_PER_SECOND));
        self.bytes = (self.bytes + gained(BYTES_PER_SECOND)).min(BYTES_PER_SECOND);
        self.since = now;
    }

    /// Bytes that may be read of the guest now.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How long to wait before more bytes are read, once [`Quota::bytes`] is 0.
    pub const fn pause() -> Duration {
        Duration::from_millis(100)
    }

    /// Bytes were read.
    pub(crate) fn spend_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// A frame has come: whether it may be looked into.
    pub(crate) fn spend_frame(&mut self) -> bool {
        let is_left = self.frames > 0;
        self.frames = self.frames.saturating_sub(1);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    proptest! {
        /// Over any span no more frames and bytes than a second's, and those of the span.
        #[test]
        fn a_guest_gets_no_more_than_its_rate(
            steps in proptest::collection::vec((0..400_u64, 0..300_u64, 0..900_000_u64), 1..60),
        ) {
            let mut quota = Quota::new(at(0));
            let (mut now, mut frames, mut bytes) = (0, 0, 0);
            for (pause, tries, wanted) in steps {
                now += pause;
                quota.refill(at(now));
                frames += (0..tries).filter(|_| quota.spend_frame()).count() as u64;
                let read = wanted.min(quota.bytes());
                quota.spend_bytes(read);
                bytes += read;
                prop_assert!(frames <= 100 + now / 10);
                prop_assert!(bytes <= BYTES_PER_SECOND + BYTES_PER_SECOND * now / 1000);
            }
        }
    }

    #[test]
    fn short_steps_gain_as_much_as_long_ones() {
        let mut quota = Quota::new(at(0));
        while quota.spend_frame() {}
        for ms in 1..=1000 {
            quota.refill(at(ms));
        }
        assert_eq!((0..200).filter(|_| quota.spend_frame()).count(), 100);
    }
}
