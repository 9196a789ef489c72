//! How a turn waits: what the last turns were like decides whether it looks around awake for a
//! moment before it sleeps, and whether it looks twice when it was woken.
//!
//! Sleeping and being woken cost some microseconds of CPU. So where things come briskly, a turn waits
//! awake first, for as long as that costs ([`AWAKE_MAX`]): one that goes on for longer costs more than it can
//! save.
//!
//! Where that is mostly in vain it is not done: most flash needs longer than that, and a
//! client that shares our CPU (one VM too many, or a scheduler that has put it there) cannot answer
//! before we sleep. Both are learnt, each from its own waits, and tried again now and then.
//!
//! Pure: the ring waits, and says here how long it was. Invariants:
//! - Waiting awake in vain costs at most one part in [`VAIN_PARTS`] of the time, and nothing
//!   where turns are rare: an idle thread sleeps.
//! - After [`VAIN_TURNS_MAX`] waits of a kind in vain, one in [`TRIAL_TURNS`] of that kind is awake.

use units::{Duration, Instant};

/// How long a turn waits awake: about the CPU time of one sleep.
pub(crate) const AWAKE_MAX: Duration = Duration::from_micros(10);

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

/// Waits awake of a kind in vain, one after the other, from which on the next ones are asleep.
const VAIN_TURNS_MAX: u8 = 8;

/// Of those, how many are asleep until one is awake again, to see what has changed.
const TRIAL_TURNS: u8 = 16;

/// What a turn waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// At least one operation that a disk carries out.
    Disk,
    /// Only what others do: clients, origins far away.
    Peer,
}

/// How a wait went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There was something to do at the first look.
    AtOnce,
    /// Awake for some time; then, if in vain, asleep.
    Awake {
        /// There was nothing in all of [`AWAKE_MAX`].
        in_vain: bool,
    },
    /// Asleep from the beginning.
    Asleep,
}

/// What was learnt of one kind of waits.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    /// Awake, in vain, since one was not.
    vain_turns: u8,
    /// Asleep since the last one awake.
    asleep_turns: u8,
}

impl Trial {
    fn is_due(self) -> bool {
        self.vain_turns < VAIN_TURNS_MAX || self.asleep_turns >= TRIAL_TURNS
    }

    fn ended(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::AtOnce => {}
            Outcome::Awake { in_vain: false } => *self = Self::default(),
            Outcome::Awake { in_vain: true } => {
                self.vain_turns = VAIN_TURNS_MAX.min(self.vain_turns + 1);
                self.asleep_turns = 0;
            }
            Outcome::Asleep => self.asleep_turns = self.asleep_turns.saturating_add(1),
        }
    }
}

/// What the last turns were like.
#[derive(Debug)]
pub(crate) struct Pace {
    /// By what was awaited.
    trials: [Trial; 2],
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
            trials: Default::default(),
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
    pub(crate) fn stays_awake(&self, awaited: Awaited) -> bool {
        !self.sleeps
            && self.brisk_turns >= BRISK_TURNS
            && self.allowance_ns >= AWAKE_MAX.as_nanos()
            && self.trials[awaited as usize].is_due()
    }

    /// Whether more completions than the one that woke us are likely to be there.
    pub(crate) fn is_crowded(&self) -> bool {
        !self.sleeps && self.crowd_turns > 0
    }

    /// A wait that began at `began` has ended with `completions`.
    pub(crate) fn waited(
        &mut self,
        awaited: Awaited,
        began: Instant,
        now: Instant,
        outcome: Outcome,
        completions: usize,
    ) {
        self.trials[awaited as usize].ended(outcome);
        let waited = now - began;
        self.brisk_turns = if waited <= BRISK_MAX {
            BRISK_TURNS_MAX.min(self.brisk_turns + 1)
        } else {
            self.brisk_turns.saturating_sub(SLOW_TURN)
        };
        let earned_ns = (now - self.last).as_nanos() / VAIN_PARTS;
        self.last = now;
        self.allowance_ns = ALLOWANCE_MAX.as_nanos().min(self.allowance_ns + earned_ns);
        if outcome == (Outcome::Awake { in_vain: true }) {
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

        /// One completion of a disk after so long, `times` times.
        fn turns(&mut self, times: usize, wait: Duration) {
            for _ in 0..times {
                self.turn(Awaited::Disk, wait, wait);
            }
        }

        /// One completion, which takes so long if the thread is asleep or awake; whether it was.
        fn turn(&mut self, awaited: Awaited, asleep: Duration, awake: Duration) -> bool {
            let stays = self.pace.stays_awake(awaited);
            let in_vain = awake >= AWAKE_MAX;
            let (wait, outcome) = if stays {
                self.awake_ns += awake.min(AWAKE_MAX).as_nanos();
                self.vain_ns += u64::from(in_vain) * AWAKE_MAX.as_nanos();
                (awake, Outcome::Awake { in_vain })
            } else {
                (asleep, Outcome::Asleep)
            };
            let began = self.now;
            self.now = began + wait;
            self.pace.waited(awaited, began, self.now, outcome, 1);
            stays
        }
    }

    #[test]
    fn a_brisk_thread_stays_awake_all_the_time() {
        let mut clock = Clock::new();
        clock.turns(100, Duration::from_micros(8));
        let (began, before_ns) = (clock.now, clock.awake_ns);
        clock.turns(1000, Duration::from_micros(8));
        assert_eq!(clock.awake_ns - before_ns, (clock.now - began).as_nanos());
        assert_eq!(clock.vain_ns, 0);
    }

    #[test]
    fn waiting_in_vain_has_a_bound() {
        let mut clock = Clock::new();
        clock.turns(10_000, Duration::from_micros(150));
        let all_ns = (clock.now - Instant::ZERO).as_nanos();
        assert!(clock.vain_ns > 0);
        assert!(clock.vain_ns <= all_ns / VAIN_PARTS);
    }

    #[test]
    fn what_waiting_awake_holds_up_is_waited_for_asleep() {
        let (soon, late) = (Duration::from_micros(8), Duration::from_micros(60));
        let mut clock = Clock::new();
        // The client is on our CPU: it answers soon, but not before we sleep.
        let turn = |clock: &mut Clock| {
            let for_disk = clock.turn(Awaited::Disk, soon, soon);
            let for_peer = clock.turn(Awaited::Peer, soon, late);
            (for_disk, for_peer)
        };
        for _ in 0..100 {
            turn(&mut clock);
        }
        let turns: Vec<(bool, bool)> = (0..170).map(|_| turn(&mut clock)).collect();
        assert!(turns.iter().all(|(for_disk, _)| *for_disk));
        assert_eq!(turns.iter().filter(|(_, for_peer)| *for_peer).count(), 10);
    }

    #[test]
    fn one_wait_awake_that_is_not_in_vain_brings_the_next_ones_back() {
        let (soon, late) = (Duration::from_micros(8), Duration::from_micros(90));
        let mut clock = Clock::new();
        for _ in 0..100 {
            clock.turn(Awaited::Peer, late, late);
        }
        for _ in 0..usize::from(TRIAL_TURNS) {
            clock.turn(Awaited::Peer, soon, soon);
        }
        for _ in 0..50 {
            assert!(clock.turn(Awaited::Peer, soon, soon));
        }
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
            let later = now + Duration::from_micros(10);
            pace.waited(Awaited::Disk, now, later, Outcome::Asleep, 2);
            assert!(!pace.stays_awake(Awaited::Disk) && !pace.is_crowded());
        }
    }

    #[test]
    fn a_crowd_is_remembered_for_some_turns() {
        let mut pace = Pace::new(Instant::ZERO);
        assert!(!pace.is_crowded());
        let turn = |pace: &mut Pace, completions| {
            let (at, asleep) = (Instant::ZERO, Outcome::Asleep);
            pace.waited(Awaited::Peer, at, at, asleep, completions);
        };
        turn(&mut pace, 2);
        for _ in 0..CROWD_TURNS {
            assert!(pace.is_crowded());
            turn(&mut pace, 1);
        }
        assert!(!pace.is_crowded());
    }
}
