//! How a turn waits: what the last turns were like decides whether it looks around awake for a
//! moment before it sleeps, and whether it looks twice when it was woken.
//!
//! Sleeping and being woken cost tens of microseconds, on virtual machines more, and a thread
//! that sleeps whenever its client works is soon put on the client's CPU, where the two take
//! turns although another CPU is free. So where things come briskly, a turn waits awake for
//! [`AWAKE_MAX`] first.
//!
//! Pure: the ring waits, and says here how long it was. Invariants:
//! - Waiting awake in vain costs at most one part in [`VAIN_PARTS`] of the time, and nothing
//!   where turns are rare: an idle thread sleeps.

use units::{Duration, Instant};

/// How long a turn waits awake: as long as a fast client thinks, or a disk with one request
/// takes.
pub(crate) const AWAKE_MAX: Duration = Duration::from_micros(50);

/// A turn that came later than this was not brisk.
const BRISK_MAX: Duration = Duration::from_micros(500);

/// Brisk turns, less what slow ones take away, from which on one waits awake: more than a single
/// request brings about, so that a client with one now and then does not keep the thread up.
const BRISK_TURNS: u8 = 8;

/// What the count of brisk turns grows to: a stall of the disk in the middle of many does not
/// put the thread to sleep.
const BRISK_TURNS_MAX: u8 = 16;

/// Brisk turns that a slow one takes away.
const SLOW_TURN: u8 = 6;

/// Time waited awake in vain is at most one of so many parts of all time.
const VAIN_PARTS: u64 = 4;

/// What can be saved up for waiting in vain.
const ALLOWANCE_MAX: Duration = Duration::from_millis(1);

/// Turns for which it is remembered that completions came several at a time.
const CROWD_TURNS: u8 = 16;

/// What the last turns were like.
#[derive(Debug)]
pub(crate) struct Pace {
    brisk_turns: u8,
    crowd_turns: u8,
    /// Time that may still be waited awake in vain.
    allowance_ns: u64,
    last: Instant,
    /// Never awake, never a second look.
    sleeps: bool,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            sleeps: false,
            brisk_turns: 0,
            crowd_turns: 0,
            allowance_ns: 0,
            last: now,
        }
    }

    /// Sleeps whatever the last turns were like.
    pub(crate) fn asleep(now: Instant) -> Self {
        Self {
            sleeps: true,
            ..Self::new(now)
        }
    }

    /// Whether the next wait should begin awake.
    pub(crate) fn stays_awake(&self) -> bool {
        !self.sleeps && self.brisk_turns >= BRISK_TURNS && self.allowance_ns >= AWAKE_MAX.as_nanos()
    }

    /// Whether more completions than the one that woke us are likely to be there.
    pub(crate) fn is_crowded(&self) -> bool {
        !self.sleeps && self.crowd_turns > 0
    }

    /// A wait that began at `began` has ended with `completions`.
    pub(crate) fn waited(&mut self, began: Instant, now: Instant, awake: bool, completions: usize) {
        let waited = now - began;
        self.brisk_turns = if waited <= BRISK_MAX {
            BRISK_TURNS_MAX.min(self.brisk_turns + 1)
        } else {
            self.brisk_turns.saturating_sub(SLOW_TURN)
        };
        let earned_ns = (now - self.last).as_nanos() / VAIN_PARTS;
        self.last = now;
        self.allowance_ns = ALLOWANCE_MAX.as_nanos().min(self.allowance_ns + earned_ns);
        if awake && waited >= AWAKE_MAX {
            self.allowance_ns = self.allowance_ns.saturating_sub(AWAKE_MAX.as_nanos());
        }
        self.crowd_turns = if completions > 1 {
            CROWD_TURNS
        } else {
            self.crowd_turns.saturating_sub(1)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Clock {
        pace: Pace,
        now: Instant,
        awake_ns: u64,
        vain_ns: u64,
    }

    impl Clock {
        fn new() -> Self {
            Self {
                pace: Pace::new(Instant::ZERO),
                now: Instant::ZERO,
                awake_ns: 0,
                vain_ns: 0,
            }
        }

        /// One completion after so long, `times` times.
        fn turns(&mut self, times: usize, wait: Duration) {
            for _ in 0..times {
                let awake = self.pace.stays_awake();
                if awake {
                    self.awake_ns += wait.min(AWAKE_MAX).as_nanos();
                    if wait >= AWAKE_MAX {
                        self.vain_ns += AWAKE_MAX.as_nanos();
                    }
                }
                let began = self.now;
                self.now = began + wait;
                self.pace.waited(began, self.now, awake, 1);
            }
        }
    }

    #[test]
    fn a_brisk_thread_stays_awake_all_the_time() {
        let mut clock = Clock::new();
        clock.turns(100, Duration::from_micros(20));
        let (began, before_ns) = (clock.now, clock.awake_ns);
        clock.turns(1000, Duration::from_micros(20));
        assert_eq!(clock.awake_ns - before_ns, (clock.now - began).as_nanos());
        assert_eq!(clock.vain_ns, 0);
    }

    #[test]
    fn waiting_in_vain_has_a_bound() {
        let mut clock = Clock::new();
        clock.turns(10_000, Duration::from_micros(100));
        let all_ns = (clock.now - Instant::ZERO).as_nanos();
        assert!(clock.vain_ns > 0);
        assert!(clock.vain_ns <= all_ns / VAIN_PARTS);
    }

    #[test]
    fn a_thread_with_a_request_now_and_then_sleeps() {
        let mut clock = Clock::new();
        for _ in 0..1000 {
            // Received, read, sent, and nothing for most of a millisecond.
            clock.turns(3, Duration::from_micros(40));
            clock.turns(1, Duration::from_micros(900));
        }
        assert_eq!(clock.awake_ns, 0);
    }

    #[test]
    fn a_thread_that_was_told_to_sleep_never_stays_awake() {
        let mut pace = Pace::asleep(Instant::ZERO);
        for micros in 0..1000 {
            let now = Instant::ZERO + Duration::from_micros(10 * micros);
            pace.waited(now, now + Duration::from_micros(10), false, 2);
            assert!(!pace.stays_awake() && !pace.is_crowded());
        }
    }

    #[test]
    fn a_crowd_is_remembered_for_some_turns() {
        let mut pace = Pace::new(Instant::ZERO);
        assert!(!pace.is_crowded());
        pace.waited(Instant::ZERO, Instant::ZERO, false, 2);
        for _ in 0..CROWD_TURNS {
            assert!(pace.is_crowded());
            pace.waited(Instant::ZERO, Instant::ZERO, false, 1);
        }
        assert!(!pace.is_crowded());
    }
}
