//! How fast bytes go to the origin: never so fast that guests' reads of it suffer.
//!
//! *Depth*: how many writes may be on their way. It falls by half when guests' reads take much
//! longer than they did while nothing was written, down to one and then to pauses; it grows by one
//! when a round of writes went by without that. *Rate*: a bucket of tokens, if the operator says so.

use crate::limits::{DESTAGE_DEPTH_MAX, DESTAGE_PAUSE};
use units::{Bytes, Duration, Instant};

/// A read is slow if it takes so many times as long as before ...
const SLOW_TIMES: u64 = 2;
/// ... and so much longer: below this nobody notices.
const SLOW_LEAST: Duration = Duration::from_micros(200);
/// Weight of a new read in the averages, as a power of two of its inverse: the recent one follows
/// within some 8 reads, what is usual within some 64.
const RECENT_SHIFT: u32 = 3;
const USUAL_SHIFT: u32 = 6;
/// A bucket holds what is earned in this time.
const BURST: Duration = Duration::from_millis(100);
const SECOND: u128 = 1_000_000_000;

/// An average that forgets.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    nanos: u64,
}

impl Average {
    fn add(&mut self, time: Duration, shift: u32) {
        let time = time.as_nanos();
        if self.nanos == 0 {
            self.nanos = time;
        } else {
            self.nanos = self.nanos - (self.nanos >> shift) + (time >> shift);
        }
    }
}

/// How fast a disk's log goes to its origin. See the module's header.
#[derive(Debug)]
pub(crate) struct Pace {
    depth: u32,
    recent: Average,
    usual: Average,
    /// Writes since the depth last changed.
    since: u32,
    paused_until: Option<Instant>,
    tokens: u64,
    filled_at: Instant,
}

/// Whether a write may go now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Go {
    /// It may.
    Now,
    /// Enough are on their way.
    Full,
    /// The rate is used up until then.
    Rate(Instant),
    /// Guests' reads are slow: not before then.
    Latency(Instant),
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            depth: 1,
            recent: Average::default(),
            usual: Average::default(),
            since: 0,
            paused_until: None,
            tokens: 0,
            filled_at: now,
        }
    }

    /// A guest's read of the origin took so long; `writing`: while bytes were written to it.
    pub(crate) fn read_took(&mut self, time: Duration, writing: bool, now: Instant) {
        self.recent.add(time, RECENT_SHIFT);
        if !writing {
            self.usual.add(time, USUAL_SHIFT);
            return;
        }
        if !self.is_slow() || self.since == 0 {
            return;
        }
        self.since = 0;
        if self.depth > 1 {
            self.depth /= 2;
        } else {
            self.paused_until = Some(now + DESTAGE_PAUSE);
        }
        // The next judgement is about reads that come now.
        self.recent = self.usual;
    }

    fn is_slow(&self) -> bool {
        let (recent, usual) = (self.recent.nanos, self.usual.nanos);
        usual > 0
            && recent > usual.saturating_mul(SLOW_TIMES)
            && recent - usual > SLOW_LEAST.as_nanos()
    }

    /// A write has ended well.
    pub(crate) fn wrote(&mut self) {
        self.since += 1;
        if self.since > self.depth && !self.is_slow() {
            self.depth = (self.depth + 1).min(DESTAGE_DEPTH_MAX);
            self.since = 1;
        }
    }

    /// Whether a write of so many bytes may go while so many are on their way; if so it is paid.
    /// `hurry`: everything has to reach the origin, whatever it costs.
    pub(crate) fn ask(
        &mut self,
        bytes: u64,
        in_flight: u32,
        rate: Option<Bytes>,
        hurry: bool,
        now: Instant,
    ) -> Go {
        if hurry {
            return if in_flight < DESTAGE_DEPTH_MAX {
                Go::Now
            } else {
                Go::Full
            };
        }
        if in_flight >= self.depth {
            return Go::Full;
        }
        if let Some(until) = self.paused_until.filter(|until| now < *until) {
            return Go::Latency(until);
        }
        self.paused_until = None;
        let Some(rate) = rate.map(|rate| rate.get().max(1)) else {
            return Go::Now;
        };
        self.fill(rate, now);
        // A bucket that is too small for a write lets it pass when it is full.
        let price = bytes.min(capacity(rate));
        if self.tokens >= price {
            self.tokens -= price;
            return Go::Now;
        }
        let missing = u128::from(price - self.tokens);
        let wait = (missing * SECOND).div_ceil(u128::from(rate));
        let wait = u64::try_from(wait).unwrap_or(u64::MAX);
        Go::Rate(now + Duration::from_nanos(wait))
    }

    fn fill(&mut self, rate: u64, now: Instant) {
        let earned = u128::from(now.since(self.filled_at).as_nanos()) * u128::from(rate) / SECOND;
        let earned = u64::try_from(earned).unwrap_or(u64::MAX);
        // What is too little to count stays for the next time.
        if earned > 0 {
            self.tokens = self.tokens.saturating_add(earned).min(capacity(rate));
            self.filled_at = now;
        }
    }
}

/// What a bucket holds: the burst, and a block at least.
fn capacity(rate: u64) -> u64 {
    let burst = u128::from(rate) * u128::from(BURST.as_nanos()) / SECOND;
    u64::try_from(burst).unwrap_or(u64::MAX).max(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn ask(pace: &mut Pace, in_flight: u32) -> Go {
        pace.ask(4096, in_flight, None, false, at(0))
    }

    #[test]
    fn the_depth_grows_while_guests_notice_nothing() {
        let mut pace = Pace::new(at(0));
        assert_eq!(ask(&mut pace, 1), Go::Full);
        for _ in 0..200 {
            pace.wrote();
        }
        assert_eq!(ask(&mut pace, DESTAGE_DEPTH_MAX - 1), Go::Now);
        assert_eq!(ask(&mut pace, DESTAGE_DEPTH_MAX), Go::Full);
    }

    #[test]
    fn slow_reads_make_it_shallow_and_then_pause_it() {
        let mut pace = Pace::new(at(0));
        for _ in 0..100 {
            pace.read_took(MS, false, at(0));
            pace.wrote();
        }
        let deep = pace.depth;
        for _ in 0..200 {
            pace.wrote();
            pace.read_took(Duration::from_millis(20), true, at(0));
        }
        assert!(deep > 4 && pace.depth == 1);
        assert!(matches!(ask(&mut pace, 0), Go::Latency(_)));
        // Who has to reach the origin does not care.
        assert_eq!(pace.ask(4096, 0, None, true, at(0)), Go::Now);
    }

    #[test]
    fn reads_that_were_always_slow_are_usual() {
        let mut pace = Pace::new(at(0));
        for _ in 0..100 {
            pace.read_took(Duration::from_millis(20), false, at(0));
            pace.wrote();
            pace.read_took(Duration::from_millis(22), true, at(0));
        }
        assert!(pace.depth > 4);
    }

    #[test]
    fn a_rate_is_kept() {
        let mut pace = Pace::new(at(0));
        let rate = Some(Bytes::new(4096 * 100));
        let mut written = 0;
        for millis in 0..10_000 {
            while pace.ask(4096, 0, rate, false, at(millis)) == Go::Now {
                written += 1;
            }
        }
        assert!((980..=1010).contains(&written), "{written} of 1000");
    }
}
