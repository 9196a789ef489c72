//! Flash whose reads are late for a while: reads go past it, and it is taken back.
//!
//! ```text
//!            a read is late                     PROBES_IN_TIME probes in time, one after the other
//!   usual ──────────────────► slow ────────────────────────────────────────────────────► usual
//!                              │ reads of cached blocks go to the origin;
//!                              └ of one of them now and then the flash is asked, too: the probe
//! ```
//!
//! A cached block that no log has dirty equals the origin's, so reading it there is right, and nothing on
//! the flash becomes stale by it. Writes go on as ever: those that need the flash to forget a block wait
//! for its journal, and if that is late they go on without (`late_writes.rs`). What an origin lacks is
//! read from the flash, however long that takes.
//!
//! Nobody waits for a probe: its guest is answered from the origin.

use crate::limits::{PROBE_PAUSE, PROBES_IN_TIME};
use units::Instant;

/// Whether reads of the flash are late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SlowReads {
    #[default]
    Usual,
    Slow {
        /// Probes in time since the last late read.
        in_time: u32,
        /// When the flash is asked next.
        probe_at: Instant,
        /// It has not answered the last probe.
        is_probing: bool,
    },
}

impl SlowReads {
    pub(crate) fn is_slow(self) -> bool {
        matches!(self, Self::Slow { .. })
    }

    /// A read is late.
    pub(crate) fn late(&mut self, now: Instant) {
        let is_probing = matches!(
            self,
            Self::Slow {
                is_probing: true,
                ..
            }
        );
        *self = Self::Slow {
            in_time: 0,
            probe_at: now + PROBE_PAUSE,
            is_probing,
        };
    }

    /// Whether the flash is to be asked, too. If so, it is being asked.
    pub(crate) fn takes_probe(&mut self, now: Instant) -> bool {
        let Self::Slow {
            probe_at,
            is_probing,
            ..
        } = self
        else {
            return false;
        };
        let takes = !*is_probing && *probe_at <= now;
        *is_probing |= takes;
        takes
    }

    /// A read of the flash has ended, in time or not.
    pub(crate) fn ended(&mut self, is_in_time: bool, is_probe: bool, now: Instant) {
        let Self::Slow {
            in_time,
            probe_at,
            is_probing,
        } = self
        else {
            return;
        };
        if is_probe {
            *is_probing = false;
            *probe_at = now + PROBE_PAUSE;
        }
        if !is_in_time {
            *in_time = 0;
        } else if is_probe {
            *in_time += 1;
            if *in_time >= PROBES_IN_TIME {
                *self = Self::Usual;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_several_probes_in_time_to_be_as_usual_again() {
        let mut reads = SlowReads::default();
        let mut now = Instant::ZERO;
        assert!(!reads.takes_probe(now));
        reads.late(now);
        assert!(reads.is_slow() && !reads.takes_probe(now));
        for round in 1..=PROBES_IN_TIME {
            now = now + PROBE_PAUSE;
            assert!(reads.takes_probe(now));
            assert!(!reads.takes_probe(now), "one at a time");
            reads.ended(true, true, now);
            assert_eq!(reads.is_slow(), round < PROBES_IN_TIME);
        }
    }

    #[test]
    fn a_late_read_begins_the_count_anew() {
        let mut reads = SlowReads::default();
        reads.late(Instant::ZERO);
        let now = Instant::ZERO + PROBE_PAUSE;
        assert!(reads.takes_probe(now));
        reads.ended(true, true, now);
        // One that was asked for before.
        reads.ended(false, false, now);
        assert!(matches!(reads, SlowReads::Slow { in_time: 0, .. }));
    }
}
