//! A leaky bucket by the generic cell rate algorithm, in the form of virtual scheduling: ITU-T
//! Recommendation I.371, annex A; ATM Forum, Traffic Management Specification 4.0, section 4.4.2.
//!
//! ```text
//!   time ───┬──────────────────┬─────────────►
//!          now                TAT             TAT: the theoretical arrival time, when the bucket is empty
//!           └──── ≤ burst ─────┘               passes; then TAT += amount / rate
//!           └──── > burst ───────────┘         waits until TAT - burst
//! ```
//!
//! One instant is the whole state. Over any window of time no more passes than
//!
//! ```text
//!   rate x (window + burst) + the largest amount
//! ```
//!
//! Two things differ from the source. An amount may be any number of units, where a cell is one. An amount
//! that is larger than the burst passes as soon as any other would, and what comes next waits for its whole time:
//! otherwise such an amount would wait for ever. Times are rounded up to a nanosecond.

use std::num::NonZeroU64;
use units::{Duration, Instant};

const SECOND_NS: u128 = 1_000_000_000;

/// A bucket that leaks at a rate.
#[derive(Clone, Copy, Debug)]
pub struct Gcra {
    per_second: NonZeroU64,
    burst: Duration,
    empty_at: Instant,
}

impl Gcra {
    /// An empty bucket: `per_second` units leak out of it, and it holds what leaks in `burst`.
    pub fn new(per_second: NonZeroU64, burst: Duration) -> Self {
        Self {
            per_second,
            burst,
            empty_at: Instant::ZERO,
        }
    }

    /// When the next amount may pass, whatever it is: now, or earlier, if that is not in the future.
    pub fn ready_at(&self) -> Instant {
        let earliest = self.empty_at.as_nanos();
        Instant::from_nanos(earliest.saturating_sub(self.burst.as_nanos()))
    }

    /// An amount passes.
    pub fn take(&mut self, amount: u64, now: Instant) {
        let nanos = (u128::from(amount) * SECOND_NS).div_ceil(u128::from(self.per_second.get()));
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.empty_at = self.empty_at.max(now) + Duration::from_nanos(nanos);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn bucket(per_second: u64, burst: Duration) -> Gcra {
        Gcra::new(NonZeroU64::new(per_second).unwrap(), burst)
    }

    /// How many amounts pass at this moment.
    fn passing(bucket: &mut Gcra, amount: u64, now: Instant) -> u64 {
        let mut count = 0;
        while bucket.ready_at() <= now {
            bucket.take(amount, now);
            count += 1;
        }
        count
    }

    #[test]
    fn without_a_burst_amounts_are_spaced_evenly() {
        let mut bucket = bucket(10, Duration::ZERO);
        let counts = [0, 99, 100, 150, 200].map(|now| passing(&mut bucket, 1, at(now)));
        assert_eq!(counts, [1, 0, 1, 0, 1]);
    }

    #[test]
    fn a_burst_passes_at_once_and_comes_back_with_time() {
        let mut bucket = bucket(10, Duration::from_secs(1));
        assert_eq!(passing(&mut bucket, 1, at(5_000)), 11);
        assert_eq!(passing(&mut bucket, 1, at(5_500)), 5);
        assert_eq!(passing(&mut bucket, 1, at(60_000)), 11, "and no more");
    }

    #[test]
    fn what_is_larger_than_the_burst_passes_and_is_paid_for_afterwards() {
        let mut bucket = bucket(1_000, Duration::from_millis(100));
        assert_eq!(passing(&mut bucket, 5_000, at(0)), 1);
        assert_eq!(bucket.ready_at(), at(4_900));
    }

    proptest! {
        /// Beside it a bucket as one would draw it: a level that sinks with time.
        #[test]
        fn it_equals_a_bucket_with_a_level(
            per_second in 1_u64..5_000,
            burst in 0_u64..3_000,
            steps in prop::collection::vec((0_u64..2_000, 0_u64..2_000), 1..100),
        ) {
            let mut bucket = bucket(per_second, Duration::from_millis(burst));
            // In units of a thousandth of what leaks in a millisecond; the bucket rounds to nanoseconds.
            let (mut level, mut now, mut passed) = (0_i128, 0_u64, 0_u64);
            let most = i128::from(burst * per_second);
            for (time, amount) in steps {
                now += time;
                level = (level - i128::from(time * per_second)).max(0);
                let slack = i128::from(per_second);
                if bucket.ready_at() <= at(now) {
                    prop_assert!(level <= most + slack, "{level} of {most}");
                    bucket.take(amount, at(now));
                    level += i128::from(amount) * 1_000;
                    passed += amount;
                } else {
                    prop_assert!(level + slack > most, "{level} of {most}");
                }
            }
            let largest = 2_000_000;
            let bound = (now + burst) * per_second + largest;
            prop_assert!(passed * 1_000 <= bound);
        }
    }
}
