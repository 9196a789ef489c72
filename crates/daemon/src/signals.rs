//! The signals that tell the daemon to end: to stop, or to become another daemon in place.
//!
//! ```text
//!   SIGTERM, SIGINT ─► a clean stop; once more, a second later or after that ─► the end at once
//!   SIGUSR2 ─► would the program start? ─┬─ no ──► serve on
//!                 │ SIGTERM              └─ yes ─► a clean stop, then the other one
//!                 ▼                                   │ SIGTERM
//!            a clean stop                             ▼ the stop is the end
//! ```

use super::renewal::{Renewal, Verdict};
use events::EventKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal to stop that follows another one sooner than this says the same: who ends a group of
/// processes, and then its members, sends two.
const IMPATIENCE_MIN: Duration = Duration::from_secs(1);

/// How a daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Stopped,
    /// Another one is to take its place.
    Renewed,
}

/// The signals that this process listens to.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    renew: Signal,
    /// When it was first told to stop.
    told: Option<Instant>,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            renew: signal(SignalKind::user_defined2())?,
            told: None,
        })
    }

    /// Waits for a signal to stop, or to become another daemon. A hangup changes nothing: the
    /// configuration is read again by command, which answers what came of it.
    async fn next(&mut self) -> End {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => break,
                _ = self.interrupt.recv() => break,
                _ = self.renew.recv() => return End::Renewed,
                _ = self.hangup.recv() => tracing::info!(
                    "SIGHUP is ignored: `hearth reload` reads the configuration again, SIGUSR2 starts anew"
                ),
            }
        }
        self.told.get_or_insert_with(Instant::now);
        End::Stopped
    }

    /// Waits for a signal to stop.
    pub(super) async fn stop(&mut self) {
        while self.next().await == End::Renewed {
            tracing::warn!(
                "SIGUSR2 is ignored while the daemon starts or stops, or looks whether another one would start"
            );
        }
    }

    /// Waits until the daemon is told to stop, or to become another one that would start.
    pub(super) async fn end(&mut self, renewal: &Renewal) -> End {
        while self.next().await == End::Renewed {
            let (renewal, given_up) = (renewal.clone(), Arc::new(AtomicBool::new(false)));
            let watched = Arc::clone(&given_up);
            let checking = tokio::task::spawn_blocking(move || renewal.check(&watched));
            let checked = tokio::select! {
                biased;
                () = self.stop() => {
                    given_up.store(true, Ordering::Relaxed);
                    return End::Stopped;
                }
                checked = checking => checked,
            };
            match checked {
                Ok(Verdict::Sound) => return End::Renewed,
                Ok(Verdict::Starts(faults)) => {
                    tracing::warn!(faults, "the program would start, with faults");
                    return End::Renewed;
                }
                Ok(Verdict::Refused(reason)) => {
                    tracing::error!(
                        event = EventKind::RenewalRefused.word(),
                        reason,
                        "serving on: the program would not start"
                    );
                }
                Err(error) => {
                    tracing::error!(event = EventKind::RenewalRefused.word(),
                        %error, "serving on: the program was not tried");
                }
            }
        }
        End::Stopped
    }

    /// Waits, while the daemon ends, until it is told to stop once more. A signal to stop during a
    /// renewal makes `end` a stop.
    pub(super) async fn impatience(&mut self, end: &mut End) {
        loop {
            let first = self.told;
            self.stop().await;
            *end = End::Stopped;
            match first {
                Some(first) if first.elapsed() >= IMPATIENCE_MIN => return,
                Some(_) => {}
                None => tracing::info!("told to stop: no other daemon takes over"),
            }
        }
    }
}
