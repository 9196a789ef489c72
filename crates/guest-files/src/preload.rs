//! How long a preload goes on: until it is done, memory gets short, or its time is over.

use crate::plan::{Plan, Read};
use std::fmt;
use units::{Duration, Instant};

/// Over how long waiting for memory is summed up.
const PRESSURE_WINDOW: Duration = Duration::from_secs(2);
/// So much waiting in a window is pressure. A twentieth of the time, as the kernel's unprivileged triggers are
/// set most finely.
const PRESSURE: Duration = Duration::from_millis(100);

/// Why a preload has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// All was read.
    Done,
    /// Some task waited for memory.
    Pressure,
    /// Its time is over.
    Time,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Pressure => "pressure",
            Self::Time => "time",
        })
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read this ahead.
    Read(Read),
    /// Nothing more.
    Ended(Why),
}

/// A plan that is being carried out.
pub struct Preload {
    reads: Box<dyn Iterator<Item = Read>>,
    ends: Instant,
    /// When the window began, and how long tasks had waited for memory by then.
    window: Option<(Instant, Duration)>,
    ended: Option<Why>,
}

impl fmt::Debug for Preload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preload")
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Preload {
    /// Carries out `plan` from now on, for this time at most.
    pub fn new(plan: Plan, now: Instant, time: Duration) -> Self {
        Self {
            reads: Box::new(plan.into_reads()),
            ends: now + time,
            window: None,
            ended: None,
        }
    }

    /// What to do next, when tasks have waited for memory so long since the boot.
    pub fn next(&mut self, now: Instant, stalled: Duration) -> Step {
        if let Some(why) = self.ended {
            return Step::Ended(why);
        }
        let (began, before) = *self.window.get_or_insert((now, stalled));
        let waited = Duration::from_nanos(stalled.as_nanos().saturating_sub(before.as_nanos()));
        let why = if waited >= PRESSURE {
            Some(Why::Pressure)
        } else if now >= self.ends {
            Some(Why::Time)
        } else {
            None
        };
        if now.since(began) >= PRESSURE_WINDOW {
            self.window = Some((now, stalled));
        }
        match (why, self.reads.next()) {
            (None, Some(read)) => Step::Read(read),
            (None, None) => self.end(Why::Done),
            (Some(why), _) => self.end(why),
        }
    }

    fn end(&mut self, why: Why) -> Step {
        self.ended = Some(why);
        Step::Ended(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Extent;

    fn preload(reads: u64) -> Preload {
        let mut plan = Plan::new(u64::MAX);
        for at in 0..reads {
            let extent = Extent {
                offset: at,
                address: at,
                length: 1,
            };
            plan.add(0, &[extent]);
        }
        Preload::new(plan, at(1000), Duration::from_secs(60))
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_preload_ends_when_all_is_read_and_stays_ended() {
        let mut preload = preload(2);
        assert!(matches!(preload.next(at(1000), ms(0)), Step::Read(_)));
        assert!(matches!(preload.next(at(1000), ms(0)), Step::Read(_)));
        assert_eq!(preload.next(at(1000), ms(0)), Step::Ended(Why::Done));
        assert_eq!(preload.next(at(9000), ms(900)), Step::Ended(Why::Done));
    }

    #[test]
    fn the_first_pressure_ends_it_and_what_was_before_the_boot_does_not() {
        let mut preload = preload(9);
        assert!(matches!(preload.next(at(1000), ms(70_000)), Step::Read(_)));
        assert!(matches!(preload.next(at(1500), ms(70_099)), Step::Read(_)));
        assert_eq!(
            preload.next(at(1600), ms(70_100)),
            Step::Ended(Why::Pressure)
        );
        assert_eq!(
            preload.next(at(9000), ms(70_100)),
            Step::Ended(Why::Pressure)
        );
    }

    #[test]
    fn a_little_waiting_now_and_then_is_no_pressure() {
        let mut preload = preload(99);
        for second in 1..50 {
            let step = preload.next(at(1000 * second), ms(30 * second));
            assert!(matches!(step, Step::Read(_)), "second {second}");
        }
    }

    #[test]
    fn its_time_ends_it() {
        let mut preload = preload(9);
        assert!(matches!(preload.next(at(60_999), ms(0)), Step::Read(_)));
        assert_eq!(preload.next(at(61_000), ms(0)), Step::Ended(Why::Time));
    }
}
