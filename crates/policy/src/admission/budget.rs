//! The write budget: how many bytes flash may be written, as a token bucket.
//!
//! ```text
//!            rate (bytes a day)
//!                 │ drips in with time, up to the burst
//!                 ▼
//!   burst ─► ┌─────────┐
//!            │ level   │ ─► take(bytes): all or nothing, and nothing below zero
//!        0 ─ ├─────────┤
//!            │ debt    │ ─► charge(bytes): what was written anyway (reclaim, padding); always
//!            └─────────┘
//! ```
//!
//! Admission asks with [`TokenBucket::take`] for the bytes that it wants written; whoever writes more
//! than that (blocks that reclaim appends again, descriptors, padding) says so with
//! [`TokenBucket::charge`], which may leave a debt. A debt is paid from the drip before anything more
//! is admitted. So over any window of time
//!
//! ```text
//!   taken + charged <= burst + rate x window + the debt at its end
//! ```
//!
//! and without charges never more than `burst + rate x window`. The arithmetic is exact: the level is a
//! whole number of bytes divided by the nanoseconds of a day, so nothing is lost or won by rounding.
//!
//! Time that does not advance, or runs backwards, drips nothing; a jump forwards fills the bucket up to
//! its burst and no further.
//!
//! An endurance in DWPD (drive writes a day: how often the whole device may be written each day, over its
//! warranty) is a rate of that many times the device's capacity.

use std::fmt;
use std::str::FromStr;

use units::{Bytes, Duration, Instant};

use crate::replacement::Fraction;

const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;
const SECONDS_A_DAY: u64 = 24 * 3600;

/// A burst unless one is set: what the rate allows in an hour, at least [`BURST_LEAST`].
const BURST_PARTS_OF_A_DAY: u64 = 24;

/// The least burst: a few segments of the log, which are written at once.
pub const BURST_LEAST: Bytes = Bytes::mib(16);

/// How much may be written: at least a byte a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    per_day: Bytes,
    burst: Bytes,
}

/// A budget that would stop all admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// Nothing a day.
    #[error("a write budget of nothing admits nothing: leave it out, or use a higher rate")]
    NoRate,
    /// A rate and a capacity whose product is out of bounds.
    #[error("{dwpd}DWPD of {capacity} is more than 16 EiB a day")]
    TooHigh {
        /// Drive writes a day.
        dwpd: Fraction,
        /// Of this device.
        capacity: Bytes,
    },
}

impl Budget {
    /// So many bytes a day, with the burst that goes with it.
    ///
    /// # Errors
    /// If that is none.
    pub fn per_day(per_day: Bytes) -> Result<Self, BudgetError> {
        if per_day.is_zero() {
            return Err(BudgetError::NoRate);
        }
        let burst = Bytes::new(per_day.get() / BURST_PARTS_OF_A_DAY).max(BURST_LEAST);
        Ok(Self { per_day, burst })
    }

    /// The same with this burst. A burst below what is asked for at once ([`TokenBucket::take`]) never
    /// grants it.
    pub const fn with_burst(mut self, burst: Bytes) -> Self {
        self.burst = burst;
        self
    }

    /// Bytes a day.
    pub const fn bytes_per_day(self) -> Bytes {
        self.per_day
    }

    /// Bytes that may be written at once after a long rest.
    pub const fn burst(self) -> Bytes {
        self.burst
    }
}

/// A rate as a person writes it: `500GiB/day`, `20MiB/s`, `0.3DWPD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Bytes a day.
    PerDay(Bytes),
    /// Bytes a second.
    PerSecond(Bytes),
    /// Drive writes a day.
    Dwpd(Fraction),
}

/// The highest DWPD that is understood: a hundred times what devices are sold with.
const DWPD_MAX: Fraction = Fraction::millionths(1_000_000_000);

impl Rate {
    /// The budget of a device, or of a part of one, with this capacity.
    ///
    /// # Errors
    /// If it is nothing, or more than can be counted.
    pub fn budget(self, capacity: Bytes) -> Result<Budget, BudgetError> {
        Budget::per_day(match self {
            Self::PerDay(bytes) => bytes,
            Self::PerSecond(bytes) => Bytes::new(bytes.get().saturating_mul(SECONDS_A_DAY)),
            Self::Dwpd(dwpd) => dwpd
                .of_bytes(capacity)
                .ok_or(BudgetError::TooHigh { dwpd, capacity })?,
        })
    }
}

/// Why a text is not a rate.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a write rate: write bytes a day or a second, such as 500GiB/day or 20MiB/s, or drive writes a day up to 1000, such as 0.3DWPD"
)]
pub struct ParseRateError {
    text: String,
}

impl FromStr for Rate {
    type Err = ParseRateError;

    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let error = || ParseRateError {
            text: text.to_owned(),
        };
        let trimmed = text.trim();
        if let Some((size, unit)) = trimmed.split_once('/') {
            let size = size.parse().map_err(|_| error())?;
            return match unit {
                "day" | "d" => Ok(Self::PerDay(size)),
                "s" => Ok(Self::PerSecond(size)),
                _ => Err(error()),
            };
        }
        let number = trimmed
            .strip_suffix("DWPD")
            .or_else(|| trimmed.strip_suffix("dwpd"))
            .ok_or_else(error)?;
        Fraction::parse(number.trim_end(), Fraction::ZERO, DWPD_MAX)
            .map(Self::Dwpd)
            .map_err(|_| error())
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerDay(bytes) => write!(f, "{bytes}/day"),
            Self::PerSecond(bytes) => write!(f, "{bytes}/s"),
            Self::Dwpd(dwpd) => write!(f, "{dwpd}DWPD"),
        }
    }
}

/// A budget at work.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    budget: Budget,
    /// In bytes divided by [`DAY_NS`]; below zero a debt.
    level: i128,
    /// Up to here the drip is in the level. Never goes back.
    filled: Instant,
}

const fn scaled(bytes: Bytes) -> i128 {
    // 2^64 x 2^47 stays below 2^127.
    bytes.get() as i128 * DAY_NS as i128
}

/// Whole bytes in a level, rounded down, none if it is below zero.
fn whole(level: i128) -> Bytes {
    let bytes = level.max(0) / i128::from(DAY_NS);
    Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
}

impl TokenBucket {
    /// A full bucket.
    pub const fn new(budget: Budget, now: Instant) -> Self {
        Self {
            budget,
            level: scaled(budget.burst),
            filled: now,
        }
    }

    /// A bucket in which nothing was saved yet.
    pub const fn empty(budget: Budget, now: Instant) -> Self {
        Self {
            budget,
            level: 0,
            filled: now,
        }
    }

    /// What it was made for.
    pub const fn budget(&self) -> Budget {
        self.budget
    }

    /// Another budget from now on. What was saved stays, up to the new burst, and debts stay: changing the
    /// budget back and forth wins nothing.
    pub fn set(&mut self, budget: Budget, now: Instant) {
        self.fill(now);
        self.budget = budget;
        self.level = self.level.min(scaled(budget.burst));
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.since(self.filled);
        self.filled = self.filled.max(now);
        let drip =
            i128::from(passed.as_nanos()).saturating_mul(i128::from(self.budget.per_day.get()));
        self.level = self
            .level
            .saturating_add(drip)
            .min(scaled(self.budget.burst));
    }

    /// Takes that many bytes if there are as many; else none. False: they may not be written.
    #[inline]
    pub fn take(&mut self, bytes: Bytes, now: Instant) -> bool {
        self.fill(now);
        let wanted = scaled(bytes);
        let granted = self.level >= wanted;
        if granted {
            self.level -= wanted;
        }
        granted
    }

    /// Whether [`Self::take`] would grant that many bytes now.
    pub fn grants(&mut self, bytes: Bytes, now: Instant) -> bool {
        self.fill(now);
        self.level >= scaled(bytes)
    }

    /// That many bytes were written, whether there were as many or not.
    #[inline]
    pub fn charge(&mut self, bytes: Bytes, now: Instant) {
        self.fill(now);
        self.level = self.level.saturating_sub(scaled(bytes));
    }

    /// Bytes that were taken and not written after all: they go back, up to the burst.
    pub fn give_back(&mut self, bytes: Bytes, now: Instant) {
        self.fill(now);
        let level = self.level.saturating_add(scaled(bytes));
        self.level = level.min(scaled(self.budget.burst));
    }

    /// Bytes that may be written now.
    pub fn left(&mut self, now: Instant) -> Bytes {
        self.fill(now);
        whole(self.level)
    }

    /// Bytes that were written beyond the budget and are not paid yet, rounded down.
    pub fn debt(&mut self, now: Instant) -> Bytes {
        self.fill(now);
        whole(self.level.saturating_neg())
    }

    /// How long until that many bytes are granted if nothing else is taken; `None` if the burst is less.
    pub fn wait(&mut self, bytes: Bytes, now: Instant) -> Option<Duration> {
        self.fill(now);
        if bytes > self.budget.burst {
            return None;
        }
        let missing = (scaled(bytes) - self.level).max(0);
        let rate = i128::from(self.budget.per_day.get());
        let nanos = missing / rate + i128::from(missing % rate > 0);
        Some(Duration::from_nanos(
            u64::try_from(nanos).unwrap_or(u64::MAX),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: Duration = Duration::from_secs(SECONDS_A_DAY);

    fn budget(per_day: u64, burst: u64) -> Budget {
        Budget::per_day(Bytes::new(per_day))
            .unwrap()
            .with_burst(Bytes::new(burst))
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// 86,400 bytes a day are one a second.
    #[test]
    fn a_bucket_fills_at_its_rate_up_to_its_burst() {
        let mut bucket = TokenBucket::new(budget(86_400, 10), at(0));
        assert!(bucket.take(Bytes::new(10), at(0)));
        assert!(!bucket.take(Bytes::new(1), at(0)));
        assert!(!bucket.take(Bytes::new(4), at(3)), "three have come");
        assert!(bucket.take(Bytes::new(3), at(3)), "and were not lost");
        assert_eq!(bucket.left(at(1000)), Bytes::new(10));
        assert!(!bucket.take(Bytes::new(11), at(5000)), "above the burst");
    }

    #[test]
    fn a_debt_is_paid_before_anything_is_granted() {
        let mut bucket = TokenBucket::new(budget(86_400, 10), at(0));
        bucket.charge(Bytes::new(25), at(0));
        assert_eq!(bucket.debt(at(0)), Bytes::new(15));
        assert_eq!(
            bucket.wait(Bytes::new(1), at(0)),
            Some(Duration::from_secs(16))
        );
        assert!(!bucket.take(Bytes::new(1), at(15)));
        assert!(bucket.take(Bytes::new(1), at(16)));
        assert_eq!(bucket.wait(Bytes::new(11), at(16)), None);
    }

    #[test]
    fn a_clock_that_jumps_wins_nothing() {
        let mut bucket = TokenBucket::new(budget(86_400, 10), at(1000));
        assert!(bucket.take(Bytes::new(10), at(1000)));
        for _ in 0..100 {
            assert!(!bucket.take(Bytes::new(1), at(5)));
            assert!(!bucket.take(Bytes::new(1), at(1000)));
        }
        assert!(bucket.take(Bytes::new(10), Instant::from_nanos(u64::MAX)));
        assert!(!bucket.take(Bytes::new(1), Instant::from_nanos(u64::MAX)));
    }

    #[test]
    fn changing_the_budget_back_and_forth_wins_nothing() {
        let (small, large) = (budget(86_400, 10), budget(864_000, 1000));
        let mut bucket = TokenBucket::new(small, at(0));
        assert!(bucket.take(Bytes::new(8), at(0)));
        for _ in 0..50 {
            bucket.set(large, at(0));
            bucket.set(small, at(0));
        }
        assert_eq!(bucket.left(at(0)), Bytes::new(2));
    }

    #[test]
    fn rates_are_read_and_written() {
        for (text, per_day) in [
            ("500GiB/day", Bytes::gib(500)),
            ("1KiB/s", Bytes::new(86_400 << 10)),
            ("0.3DWPD", Bytes::new(322_122_547_200)),
            ("1000DWPD", Bytes::gib(1_000_000)),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.to_string(), text);
            let budget = rate.budget(Bytes::gib(1000)).unwrap();
            assert_eq!(budget.bytes_per_day(), per_day, "{text}");
        }
        for text in [
            "",
            "5GiB",
            "5GiB/week",
            "-1DWPD",
            "1001DWPD",
            "DWPD",
            "/day",
            "1e3/s",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        let nothing: Rate = "0DWPD".parse().unwrap();
        assert_eq!(nothing.budget(Bytes::gib(1)), Err(BudgetError::NoRate));
    }

    #[test]
    fn a_burst_is_an_hours_worth_unless_it_is_set() {
        let budget = Budget::per_day(Bytes::gib(24)).unwrap();
        assert_eq!(budget.burst(), Bytes::gib(1));
        assert_eq!(Budget::per_day(Bytes::new(1)).unwrap().burst(), BURST_LEAST);
    }

    proptest! {
        /// Whatever the clock does: between any two steps no more is written than the burst, what dripped
        /// in (time that had not been reached before counts), and the debt that is left.
        #[test]
        fn a_budget_holds_over_any_window(
            per_day in 1u64..1 << 45,
            burst in 0u64..1 << 30,
            steps in prop::collection::vec((0u8..4, 0u64..1 << 31, 0u64..400_000_000_000), 1..80),
        ) {
            let mut bucket = TokenBucket::new(budget(per_day, burst), Instant::ZERO);
            let mut ends = Vec::new(); // furthest clock, written so far, debt
            let (mut clock, mut furthest, mut written) = (0u64, 0u64, 0u128);
            for (what, bytes, span) in steps {
                clock = if what == 3 { clock.saturating_sub(span) } else { clock + span };
                furthest = furthest.max(clock);
                let now = Instant::from_nanos(clock);
                let before = written;
                match what {
                    0 => bucket.charge(Bytes::new(bytes / 64), now),
                    _ if !bucket.take(Bytes::new(bytes), now) => {}
                    _ => written += u128::from(bytes),
                }
                if what == 0 {
                    written += u128::from(bytes / 64);
                } else if bucket.debt(now) > Bytes::ZERO {
                    prop_assert_eq!(before, written, "nothing is granted in debt");
                }
                // The debt is rounded down, hence the one byte more.
                let debt = u128::from(bucket.debt(now).get()) + 1;
                ends.push((furthest, written, before));
                for (then, _, before) in &ends {
                    let drip = u128::from(furthest - then) * u128::from(per_day) / u128::from(DAY_NS);
                    prop_assert!(written - before <= u128::from(burst) + drip + debt);
                }
            }
        }

        /// A bucket that is always asked grants all that it may: what dripped in is not lost by rounding.
        #[test]
        fn nothing_is_lost_by_rounding(per_day in 1u64..1 << 40, parts in 1u64..2000) {
            let mut bucket = TokenBucket::new(budget(per_day, per_day), Instant::ZERO);
            assert!(bucket.take(Bytes::new(per_day), Instant::ZERO));
            for part in 1..=parts {
                bucket.left(Instant::from_nanos(u64::try_from(u128::from(DAY_NS) * u128::from(part) / u128::from(parts)).unwrap()));
            }
            prop_assert_eq!(bucket.left(Instant::ZERO + DAY), Bytes::new(per_day));
        }
    }
}
