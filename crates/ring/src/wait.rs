//! How a turn waits: awake for a moment where that is worth it, then asleep.
//!
//! ```text
//!   submit ─► a look ─ nothing ─► looks, until the time is up ─ nothing ─► rest() ─ nothing ─► asleep
//!     │         └───────────────────────────┴── something ──────────────────┴──────────────────┴─► done
//!     └── not worth it (`pace.rs`) ────────────────────────────────────────► rest() ─► asleep
//! ```

use crate::pace::{AWAKE_MAX, Awaited, Outcome};
use crate::ring::{Inner, now};
use crate::watch::Watch;
use std::io;
use units::{Duration, Instant};

/// What a look has found.
#[derive(Clone, Copy, Default)]
struct Found {
    completions: usize,
    has_work: bool,
}

impl Found {
    fn is_nothing(self) -> bool {
        self.completions == 0 && !self.has_work
    }
}

impl Inner {
    /// Submits and waits for a completion or for work, awake or asleep.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        watch: &mut dyn Watch,
    ) -> io::Result<()> {
        let began = now();
        let awaited = if self.flights.has_for_disk() {
            Awaited::Disk
        } else {
            Awaited::Peer
        };
        let has_time = timeout.is_none_or(|limit| limit > AWAKE_MAX);
        let mut found = Found::default();
        let mut outcome = Outcome::Asleep;
        if has_time && self.pace.stays_awake(awaited) {
            self.hand_over()?;
            found = self.look(watch);
            outcome = Outcome::AtOnce;
            if found.is_nothing() {
                found = self.look_around(now() + AWAKE_MAX, watch)?;
                outcome = Outcome::Awake {
                    in_vain: found.is_nothing(),
                };
            }
        }
        if found.is_nothing() && watch.rest() {
            found.has_work = true;
            if outcome == Outcome::Asleep {
                self.enter(0, None)?;
                found.completions = self.reap();
            }
        }
        if found.is_nothing() {
            self.enter(1, timeout)?;
            found.completions = self.reap();
            // Woken for one completion, the kernel hands over one, and keeps back what else
            // has come.
            if found.completions == 1 && self.pace.is_crowded() {
                self.enter(0, None)?;
                found.completions += self.reap();
            }
        }
        self.pace
            .waited(awaited, began, now(), outcome, found.completions);
        Ok(())
    }

    /// Looks once, without the kernel.
    fn look(&mut self, watch: &mut dyn Watch) -> Found {
        Found {
            completions: self.reap(),
            has_work: watch.has_work(),
        }
    }

    /// Waits awake until something completes, there is work, or the time is up.
    fn look_around(&mut self, end: Instant, watch: &mut dyn Watch) -> io::Result<Found> {
        loop {
            std::hint::spin_loop();
            self.hand_over()?;
            let found = self.look(watch);
            if !found.is_nothing() || now() >= end {
                return Ok(found);
            }
        }
    }

    /// Enters the kernel if there is a reason: something to submit, or completions that wait for us.
    fn hand_over(&mut self) -> io::Result<()> {
        let queue = self.uring.submission();
        let has_reason = !queue.is_empty() || queue.taskrun();
        drop(queue);
        if has_reason {
            self.enter(0, None)
        } else {
            Ok(())
        }
    }
}
