//! Time as it is handed to state machines.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

/// A point on the driver's monotonic clock, in nanoseconds since an origin of its choice.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Instant {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);

    /// That many nanoseconds after the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time that has passed since `earlier`, or zero if that lies ahead.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t+{}", Duration(self.0))
    }
}

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// That many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// That many microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// That many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// That many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// The span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The span for the standard library's timers.
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl fmt::Display for Duration {
    /// The largest unit that divides it evenly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, size) in UNITS {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return write!(f, "{}{name}", self.0 / size);
            }
        }
        write!(f, "{}s", self.0)
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not a span of time.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "'{text}' is not a time: write a whole number and a unit, such as 500us, 20ms, 10s or 2min"
)]
pub struct ParseDurationError {
    text: String,
}

impl FromStr for Duration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, ParseDurationError> {
        let error = || ParseDurationError {
            text: text.to_owned(),
        };
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !c.is_ascii_digit())
            .ok_or_else(error)?;
        let (number, unit) = trimmed.split_at(split);
        let number: u64 = number.parse().map_err(|_| error())?;
        let size = UNITS
            .iter()
            .find(|(name, _)| *name == unit.trim())
            .map(|(_, size)| *size)
            .ok_or_else(error)?;
        number.checked_mul(size).map(Self).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_print_and_parse_alike() {
        for span in [
            Duration::from_micros(500),
            Duration::from_millis(20),
            Duration::from_secs(90),
            Duration::from_secs(120),
        ] {
            assert_eq!(span.to_string().parse(), Ok(span));
        }
        assert_eq!(Duration::from_secs(120).to_string(), "2min");
        assert!("10".parse::<Duration>().is_err());
        assert!("1.5s".parse::<Duration>().is_err());
        assert_eq!("0s".parse(), Ok(Duration::ZERO));
    }

    #[test]
    fn time_never_runs_backwards() {
        let early = Instant::from_nanos(5);
        let late = early + Duration::from_nanos(10);
        assert_eq!(late - early, Duration::from_nanos(10));
        assert_eq!(early - late, Duration::ZERO);
    }
}
