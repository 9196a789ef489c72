//! How fast blocks may come: a bucket that fills at a rate, and holds what comes in 100 ms.
//!
//! Everything that comes is counted. Only what nobody waits for is delayed: it begins when the bucket is not in debt.

use units::{Bytes, Duration, Instant};

/// How much time's worth the bucket holds.
const DEPTH: Duration = Duration::from_millis(100);
const SECOND: i128 = 1_000_000_000;

/// Bytes that may come, at a rate.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Bytes a second, at least one.
    rate: i128,
    /// What may come at `at`, in billionths of a byte; negative: a debt.
    level: i128,
    at: Instant,
}

impl Bucket {
    /// A full one that fills with so many bytes a second.
    pub fn new(rate: Bytes, now: Instant) -> Self {
        let rate = i128::from(rate.get().max(1));
        Self {
            rate,
            level: rate * i128::from(DEPTH.as_nanos()),
            at: now,
        }
    }

    /// So many bytes are asked for, whoever waits for them.
    pub fn count(&mut self, bytes: Bytes, now: Instant) {
        self.fill(now);
        self.level -= i128::from(bytes.get()) * SECOND;
    }

    /// How long from now on what nobody waits for has to wait.
    pub fn wait(&mut self, now: Instant) -> Duration {
        self.fill(now);
        let debt = (-self.level).max(0);
        let nanos = (debt + self.rate - 1) / self.rate;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn fill(&mut self, now: Instant) {
        let nanos = i128::from(now.since(self.at).as_nanos());
        let depth = self.rate * i128::from(DEPTH.as_nanos());
        self.level = (self.level + self.rate * nanos).min(depth);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Windows of what nobody waits for, each begun as soon as it may be, amid what somebody waits for, are within the
    /// rate: over any time from the start, the depth and one window besides.
    #[test]
    fn what_waits_keeps_to_the_rate_and_what_is_waited_for_is_counted() {
        let mut dice = 3_u64;
        for round in 0..500_u64 {
            let mut roll = |n: u64| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (dice >> 33) % n
            };
            let rate = 1 + roll(1 << (4 + round % 28));
            let mut bucket = Bucket::new(Bytes::new(rate), at(0));
            let (mut now, mut all, mut most, mut demand) = (0, 0, 0, 0);
            for _ in 0..200 {
                now += roll(50_000_000);
                let bytes = 1 + roll(rate);
                if roll(3) == 0 {
                    bucket.count(Bytes::new(bytes), at(now));
                    (all, demand) = (all + bytes, demand + bytes);
                    continue;
                }
                let wait = bucket.wait(at(now)).as_nanos();
                now += wait;
                assert_eq!(bucket.wait(at(now)), Duration::ZERO, "it has waited");
                bucket.count(Bytes::new(bytes), at(now));
                (all, most) = (all + bytes, most.max(bytes));
                let may = u128::from(rate) * u128::from(now + DEPTH.as_nanos());
                let may = may / 1_000_000_000 + u128::from(most + demand) + 1;
                assert!(u128::from(all) <= may, "{all} of {may} at a rate of {rate}");
            }
        }
    }

    #[test]
    fn a_bucket_that_was_idle_holds_no_more_than_its_depth() {
        let mut bucket = Bucket::new(Bytes::new(1000), at(0));
        let idle = at(3_600_000_000_000);
        bucket.count(Bytes::new(100), idle);
        assert_eq!(bucket.wait(idle), Duration::ZERO);
        bucket.count(Bytes::new(50), idle);
        assert_eq!(bucket.wait(idle), Duration::from_millis(50));
    }
}
