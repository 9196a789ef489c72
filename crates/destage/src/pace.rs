//! How fast bytes go to the origin: never so fast that guests' reads suffer.
//!
//! *Depth*: how many writes may be on their way. What is watched is the mean time of guests' reads, of
//! this origin and of the flash from which the log is read, beside what it is while no log is on its
//! way. When one is too much above that the depth falls by half, down to one, and then to pauses, which
//! last until the mean has come back or a limit is reached; it grows by one when a round of writes went
//! by without that. The means are of all reads, those in pauses included, so the time that is given to
//! writing is what guests can spare. While guests' writes wait for room in the log there are no pauses.
//! *Rate*: a bucket of tokens, if the operator says so.

use crate::limits::{DEPTH_MAX, PAUSE};
use crate::times::ReadTimes;
use units::{Bytes, Duration, Instant};

/// Reads are slow if their mean is this much above what is usual, in percent: guests are promised 20.
const SLOW_PERCENT: u64 = 12;
/// So much while guests' writes wait for room in the log: they are guests, too.
const SLOW_PERCENT_FULL: u64 = 100;
/// Pauses that follow each other: then something is written whatever reads do, so that a log does not
/// grow for ever beside an origin whose reads have become slow for another reason.
const PAUSES_MAX: u32 = 8;
/// While a log is on its way what is usual cannot be seen: so often it pauses for that, if there are
/// reads to learn from.
const LEARNS_EVERY: Duration = Duration::from_secs(5);
/// Reads before the depth is changed again.
const READS_BETWEEN: u64 = 8;
/// A bucket holds what is earned in this time.
const BURST: Duration = Duration::from_millis(100);
const SECOND: u128 = 1_000_000_000;

/// Who waits for the origin to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nobody.
    Idle,
    /// Guests' writes, for room in the log.
    Room,
    /// An operator, or a flash that has failed: everything has to be there, whatever it costs.
    All,
}

/// How fast a disk's log goes to its origin: how many writes may be on their way, and when none may go. A driver
/// that has no [`Destage`](crate::Destage) asks it before each write and tells it of each write and read that ended.
#[derive(Debug)]
pub struct Pace {
    depth: u32,
    /// Guests' reads of the origin.
    origin: ReadTimes,
    /// Writes since the depth last fell or grew.
    since: u32,
    /// How many reads there had been of origin and flash when it last fell.
    fell_at: [u64; 2],
    is_slow: bool,
    /// When it last paused.
    learned_at: Option<Instant>,
    paused_until: Option<Instant>,
    pauses: u32,
    tokens: u64,
    filled_at: Instant,
}

/// Whether a write may go now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// It may.
    Now,
    /// Enough are on their way.
    Full,
    /// The rate is used up until then.
    Rate(Instant),
    /// Guests' reads are slow: not before then.
    Latency(Instant),
}

/// What guests' reads of one device say.
struct Watched {
    are_slow: bool,
    /// How many there were since the depth last fell.
    since: u64,
}

impl Watched {
    fn of(times: &ReadTimes, percent: u64, fell_at: u64) -> Self {
        Self {
            are_slow: times.is_slow(percent),
            since: times.count() - fell_at,
        }
    }
}

impl Pace {
    /// One write at a time, until guests' reads have shown that more do no harm.
    pub fn new(now: Instant) -> Self {
        Self {
            depth: 1,
            origin: ReadTimes::default(),
            since: 0,
            fell_at: [0, 0],
            is_slow: false,
            learned_at: None,
            paused_until: None,
            pauses: 0,
            tokens: 0,
            filled_at: now,
        }
    }

    /// A guest's read of the origin took so long; `writing`: while bytes were written to it.
    pub fn read_took(&mut self, time: Duration, writing: bool) {
        self.origin.took(time, writing);
    }

    /// Looks at what guests' reads say: lets the depth fall, or begins a pause or goes on with one.
    fn heed(&mut self, need: Need, flash: &ReadTimes, now: Instant) {
        let percent = match need {
            Need::Idle => SLOW_PERCENT,
            Need::Room | Need::All => SLOW_PERCENT_FULL,
        };
        let counts = [self.origin.count(), flash.count()];
        let watched = [
            Watched::of(&self.origin, percent, self.fell_at[0]),
            Watched::of(flash, percent, self.fell_at[1]),
        ];
        let any = |says: fn(&Watched) -> bool| watched.iter().any(says);
        self.is_slow = any(|reads| reads.are_slow);
        // Without reads there is nobody to wait for.
        let goes_on = any(|reads| reads.are_slow && reads.since > 0);
        let falls = any(|reads| reads.are_slow && reads.since >= READS_BETWEEN);
        let has_reads = any(|reads| reads.since >= READS_BETWEEN);
        let is_due = |at: Instant| now.since(at) >= LEARNS_EVERY;
        let learns = need == Need::Idle && has_reads && self.learned_at.is_none_or(is_due);
        if need != Need::Idle {
            // Whoever waits for room would wait for the pauses, too.
            self.paused_until = None;
        }
        if let Some(until) = self.paused_until {
            if now < until {
                return;
            }
            if !goes_on || self.pauses == PAUSES_MAX {
                self.paused_until = None;
                return;
            }
            self.pauses += 1;
        } else if learns {
            self.pauses = 1;
        } else if !falls || self.since == 0 {
            return;
        } else if self.depth > 1 || need != Need::Idle {
            self.depth = (self.depth / 2).max(1);
            (self.since, self.fell_at) = (0, counts);
            return;
        } else {
            self.pauses = 1;
        }
        (self.since, self.fell_at) = (0, counts);
        self.learned_at = Some(now);
        self.paused_until = Some(now + PAUSE);
    }

    /// A write has ended well.
    pub fn wrote(&mut self) {
        self.since = self.since.saturating_add(1);
        if self.since > self.depth && !self.is_slow {
            self.depth = (self.depth + 1).min(DEPTH_MAX);
            self.since = 1;
        }
    }

    /// Whether a write of so many bytes may go while `in_flight` are on their way; if so it is paid. `rate` is in bytes a
    /// second, `flash` the times of guests' reads of the flash.
    pub fn ask(
        &mut self,
        bytes: u64,
        in_flight: u32,
        rate: Option<Bytes>,
        need: Need,
        flash: &ReadTimes,
        now: Instant,
    ) -> Go {
        self.heed(need, flash, now);
        if need == Need::All {
            return if in_flight < DEPTH_MAX {
                Go::Now
            } else {
                Go::Full
            };
        }
        if in_flight >= self.depth {
            return Go::Full;
        }
        if let Some(until) = self.paused_until {
            return Go::Latency(until);
        }
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

    fn ask(pace: &mut Pace, in_flight: u32, now: Instant) -> Go {
        let flash = ReadTimes::default();
        pace.ask(4096, in_flight, None, Need::Idle, &flash, now)
    }

    #[test]
    fn the_depth_grows_while_guests_notice_nothing() {
        let mut pace = Pace::new(at(0));
        assert_eq!(ask(&mut pace, 1, at(0)), Go::Full);
        for _ in 0..200 {
            pace.wrote();
        }
        assert_eq!(ask(&mut pace, DEPTH_MAX - 1, at(0)), Go::Now);
        assert_eq!(ask(&mut pace, DEPTH_MAX, at(0)), Go::Full);
    }

    #[test]
    fn what_is_usual_is_learned_although_a_log_is_always_on_its_way() {
        let mut pace = Pace::new(at(0));
        let (mut quiet, mut beside) = (0, 0);
        for millis in 0..20_000 {
            let goes = ask(&mut pace, 0, at(millis)) == Go::Now;
            pace.read_took(if goes { Duration::from_millis(3) } else { MS }, goes);
            if goes {
                beside += 1;
                pace.wrote();
            } else {
                quiet += 1;
            }
        }
        assert!(quiet > 8 * beside, "{quiet} and {beside}");
    }

    #[test]
    fn nobody_waits_for_room_because_of_a_pause() {
        let mut pace = Pace::new(at(0));
        let flash = ReadTimes::default();
        for millis in 0..2000 {
            pace.read_took(
                if millis < 300 {
                    MS
                } else {
                    Duration::from_millis(9)
                },
                millis >= 300,
            );
            pace.wrote();
            ask(&mut pace, 0, at(millis));
        }
        assert!(matches!(ask(&mut pace, 0, at(2000)), Go::Latency(_)));
        let room = |pace: &mut Pace| pace.ask(4096, 0, None, Need::Room, &flash, at(2000));
        for _ in 0..100 {
            assert_eq!(room(&mut pace), Go::Now);
            pace.read_took(Duration::from_millis(9), true);
            pace.wrote();
        }
    }

    #[test]
    fn slow_reads_make_it_shallow_and_then_pause_it() {
        for of_flash in [false, true] {
            let mut pace = Pace::new(at(0));
            let mut flash = ReadTimes::default();
            let mut now = at(0);
            let mut read = |pace: &mut Pace, millis, writing| {
                now = now + Duration::from_millis(10);
                let time = Duration::from_millis(millis);
                if of_flash {
                    flash.took(time, writing);
                } else {
                    pace.read_took(time, writing);
                }
                pace.wrote();
                pace.ask(4096, 0, None, Need::Idle, &flash, now)
            };
            for _ in 0..100 {
                read(&mut pace, 1, false);
            }
            let deep = pace.depth;
            let last = (0..200).map(|_| read(&mut pace, 20, true)).last();
            assert!(deep > 4 && pace.depth == 1);
            assert!(matches!(last, Some(Go::Latency(_))), "{last:?}");
            // Who has to reach the origin does not care.
            let all = pace.ask(4096, 0, None, Need::All, &flash, now);
            assert_eq!(all, Go::Now);
        }
    }

    #[test]
    fn reads_that_were_always_slow_are_usual() {
        let mut pace = Pace::new(at(0));
        for _ in 0..100 {
            pace.read_took(Duration::from_millis(20), false);
            pace.wrote();
            pace.read_took(Duration::from_millis(22), true);
        }
        assert!(pace.depth > 4);
    }

    /// Runs reads of 100 us, one after the other, that take longer while something is written, and as
    /// many writes beside them as may go. Returns the mean of the reads and how much was written.
    fn beside_reads(slower_percent: u64) -> (u64, u32) {
        let mut pace = Pace::new(at(0));
        let (mut now, mut sum, mut count, mut written) = (0, 0, 0, 0);
        while now < 20_000_000 {
            let instant = Instant::ZERO + Duration::from_micros(now);
            let goes = now > 1_000_000 && ask(&mut pace, 0, instant) == Go::Now;
            let time = if goes { 100 + slower_percent } else { 100 };
            now += time;
            pace.read_took(Duration::from_micros(time), goes);
            if goes {
                written += 1;
                pace.wrote();
            }
            (sum, count) = (sum + time, count + 1);
        }
        (sum / count, written)
    }

    #[test]
    fn the_mean_of_all_reads_stays_within_a_fifth_of_what_is_usual() {
        for slower_percent in [5, 15, 30, 100, 400] {
            let (mean, written) = beside_reads(slower_percent);
            assert!(
                mean <= 120,
                "{mean} us where each is {slower_percent} % slower"
            );
            assert!(
                written > 1_000,
                "{written} where each is {slower_percent} % slower"
            );
        }
    }

    #[test]
    fn something_is_written_beside_reads_that_became_slow_for_another_reason() {
        let mut pace = Pace::new(at(0));
        for _ in 0..300 {
            pace.read_took(MS, false);
        }
        let mut written = [0, 0];
        for millis in (0..20_000).step_by(5) {
            let goes = ask(&mut pace, 0, at(millis)) == Go::Now;
            pace.read_took(Duration::from_millis(5), goes);
            if goes {
                written[usize::from(millis >= 10_000)] += 1;
                pace.wrote();
            }
        }
        // What is usual is learned in the pauses.
        assert!(written[0] >= 10 && written[1] > 1_500, "{written:?}");
    }

    #[test]
    fn a_rate_is_kept() {
        let mut pace = Pace::new(at(0));
        let rate = Some(Bytes::new(4096 * 100));
        let flash = ReadTimes::default();
        let mut written = 0;
        for millis in 0..10_000 {
            while pace.ask(4096, 0, rate, Need::Idle, &flash, at(millis)) == Go::Now {
                written += 1;
            }
        }
        assert!((980..=1010).contains(&written), "{written} of 1000");
    }
}
