//! How long the loop itself stood still: stopped by a signal or a freezer, on a host that was
//! suspended, or busy with one thing.
//!
//! A turn asks to wait at most until the first deadline. What it takes beyond that is the loop's own
//! time: the flash or an origin may have answered long since, and what needs another step of ours could
//! not go on. So it counts against nobody.
//!
//! ```text
//!   turn begins ───── work ───── wait, asked for at most this ────┬── standstill ──► next turn begins
//!   |◄────────────────── asked ─────────────────────────────────►|
//! ```

use crate::limits::STANDSTILL_MIN;
use units::{Duration, Instant};

/// When the present turn should have ended at the latest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standstill {
    /// None: it may wait for ever.
    due: Option<Instant>,
}

impl Standstill {
    /// A loop that begins.
    pub(crate) fn new() -> Self {
        Self { due: None }
    }

    /// A turn that began at `now` is about to wait, as long as this at most.
    pub(crate) fn waits(&mut self, now: Instant, most: Option<Duration>) {
        self.due = most.map(|most| now + most);
    }

    /// The next turn begins: how long the loop stood still, if that is worth a word.
    pub(crate) fn ended(&self, now: Instant) -> Option<Duration> {
        let late = now.since(self.due?);
        (late >= STANDSTILL_MIN).then_some(late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn what_a_turn_takes_beyond_its_wait_is_a_standstill() {
        let mut standstill = Standstill::new();
        assert_eq!(standstill.ended(ms(9000)), None);
        standstill.waits(ms(1000), Some(Duration::from_millis(250)));
        assert_eq!(standstill.ended(ms(1100)), None);
        assert_eq!(standstill.ended(ms(1260)), None);
        assert_eq!(
            standstill.ended(ms(6250)),
            Some(Duration::from_secs(5)),
            "the wait itself was asked for"
        );
    }

    #[test]
    fn a_loop_that_waits_for_nothing_cannot_be_late() {
        let mut standstill = Standstill::new();
        standstill.waits(ms(1000), None);
        assert_eq!(standstill.ended(ms(100_000)), None);
    }
}
