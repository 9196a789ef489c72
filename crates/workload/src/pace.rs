//! Not faster than told: fio's `rate` and `rate_iops`.

use units::{Duration, Instant};

/// A rate that is kept on average from its start on: who fell behind may catch up.
#[derive(Clone, Debug)]
pub struct Pace {
    per_second: u64,
    began: Instant,
    done: u64,
}

impl Pace {
    /// So many bytes, or requests, a second from `now` on.
    ///
    /// # Panics
    /// If the rate is zero.
    pub fn new(per_second: u64, now: Instant) -> Self {
        assert!(per_second > 0, "a rate lets something through");
        Self {
            per_second,
            began: now,
            done: 0,
        }
    }

    /// When the next may go.
    pub fn due(&self) -> Instant {
        let nanos = u128::from(self.done) * 1_000_000_000 / u128::from(self.per_second);
        self.began + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// So many went.
    pub fn took(&mut self, count: u64) {
        self.done = self.done.saturating_add(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_a_second_are_ten_milliseconds_apart() {
        let start = Instant::from_nanos(5_000);
        let mut pace = Pace::new(100, start);
        assert_eq!(pace.due(), start);
        pace.took(1);
        assert_eq!(pace.due(), start + Duration::from_millis(10));
        pace.took(99);
        assert_eq!(pace.due(), start + Duration::from_secs(1));
    }
}
