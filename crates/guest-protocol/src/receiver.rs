//! What the daemon makes of the bytes of one guest: messages within the guest's quota, and counts.

use crate::frames::Frames;
use crate::message::Message;
use crate::quota::Quota;
use units::Instant;

/// What a guest has sent since it connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that were taken.
    pub messages: u64,
    /// Frames that came beyond the quota.
    pub dropped: u64,
    /// Frames that were torn, of another version or kind, or no message.
    pub invalid: u64,
    /// Frames that are missing between those that came, by their sequence numbers.
    pub missed: u64,
    /// Bytes that belonged to no frame, padding included.
    pub skipped_bytes: u64,
}

impl Counts {
    /// Both together, of two connections.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            dropped: self.dropped + other.dropped,
            invalid: self.invalid + other.invalid,
            missed: self.missed + other.missed,
            skipped_bytes: self.skipped_bytes + other.skipped_bytes,
        }
    }
}

/// Takes the stream of one connection.
#[derive(Debug)]
pub struct Receiver {
    frames: Frames,
    quota: Quota,
    /// The sequence number of the next frame; none before the first.
    next: Option<u32>,
    counts: Counts,
}

impl Receiver {
    /// Nothing has come yet.
    pub fn new(now: Instant) -> Self {
        Self {
            frames: Frames::new(),
            quota: Quota::new(now),
            next: None,
            counts: Counts::default(),
        }
    }

    /// Bytes that may be read of the guest now; with 0, wait for [`Quota::pause`].
    pub fn allowance(&mut self, now: Instant) -> u64 {
        self.quota.refill(now);
        self.quota.bytes()
    }

    /// What has come so far.
    pub fn counts(&self) -> Counts {
        Counts {
            skipped_bytes: self.frames.skipped_bytes(),
            ..self.counts
        }
    }

    /// Bytes have come, no more than were allowed: calls `take` with each message.
    pub fn receive(&mut self, bytes: &[u8], mut take: impl FnMut(Message)) {
        self.quota.spend_bytes(bytes.len() as u64);
        self.frames.push(bytes);
        while let Some(next) = self.frames.take() {
            let is_left = self.quota.spend_frame();
            let Ok(raw) = next else {
                self.counts.invalid += 1;
                continue;
            };
            // A sender that begins anew counts from 0.
            if let Some(expected) = self.next
                && raw.sequence > expected
            {
                self.counts.missed += u64::from(raw.sequence - expected);
            }
            self.next = raw.sequence.checked_add(1);
            if !is_left {
                self.counts.dropped += 1;
                continue;
            }
            match Message::decode(raw) {
                Ok(message) => {
                    self.counts.messages += 1;
                    take(message);
                }
                Err(_) => self.counts.invalid += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{FRAME_BYTES_MAX, FRAMES_PER_SECOND, PADDING};
    use crate::message::{Frame, Used};
    use units::Duration;

    fn frame(sequence: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let used = Used {
            read_bytes: u64::from(sequence),
            of_bytes: 9,
        };
        let message = Message::Used(used);
        Frame { sequence, message }.encode(&mut bytes);
        bytes
    }

    fn received(receiver: &mut Receiver, bytes: &[u8]) -> usize {
        let mut messages = 0;
        receiver.receive(bytes, |_| messages += 1);
        messages
    }

    #[test]
    fn frames_beyond_the_quota_are_dropped_and_counted() {
        let mut receiver = Receiver::new(Instant::ZERO);
        let flood: Vec<u8> = (0..1000).flat_map(frame).collect();
        assert_eq!(received(&mut receiver, &flood), 100);
        let later = Instant::ZERO + Duration::from_secs(1);
        receiver.allowance(later);
        assert_eq!(received(&mut receiver, &flood), 100);
        let counts = receiver.counts();
        assert_eq!((counts.messages, counts.dropped), (200, 1800));
        assert_eq!(counts.missed, 0);
    }

    #[test]
    fn bytes_that_are_no_frame_use_up_the_allowance() {
        let mut receiver = Receiver::new(Instant::ZERO);
        let whole = receiver.allowance(Instant::ZERO);
        assert_eq!(whole, u64::from(FRAMES_PER_SECOND) * FRAME_BYTES_MAX as u64);
        for _ in 0..FRAMES_PER_SECOND {
            received(&mut receiver, &PADDING);
        }
        assert_eq!(receiver.allowance(Instant::ZERO), 0);
        let soon = Instant::ZERO + Quota::pause();
        assert!(receiver.allowance(soon) > 0);
    }

    #[test]
    fn lost_frames_are_counted_and_a_new_start_is_no_loss() {
        let mut receiver = Receiver::new(Instant::ZERO);
        for sequence in [0, 1, 4, 0, 1] {
            received(&mut receiver, &frame(sequence));
        }
        assert_eq!(receiver.counts().missed, 2);
    }
}
