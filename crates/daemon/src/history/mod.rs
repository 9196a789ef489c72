//! The last day of a host, as points of charts.
//!
//! ```text
//!   caches ──every step──► Totals ──► what came since the Totals before ──► Points ──► GET /v1/history
//! ```
//!
//! A point has one value of each [`SERIES`], 8 bytes; [`points::POINTS_MAX`] points are kept, and the oldest leaves for the next.

mod points;
mod totals;

pub(super) use points::{Points, SERIES};

use super::control::Control;
use super::system::since_1970;
use configuration::WebConfig;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use totals::Totals;
use units::Duration;

/// What is kept of the past.
#[derive(Debug)]
pub(super) struct History {
    step: Duration,
    points: Mutex<Points>,
}

impl History {
    /// Nothing yet.
    pub(super) fn new(config: &WebConfig) -> Self {
        Self {
            step: config.history_step.0,
            points: Mutex::default(),
        }
    }

    /// Time between two points.
    pub(super) fn step(&self) -> Duration {
        self.step
    }

    /// The points.
    pub(super) fn points(&self) -> MutexGuard<'_, Points> {
        // A panic elsewhere leaves whole points: each is pushed by one operation.
        self.points.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes points until the daemon ends.
    pub(super) async fn keep(self: Arc<Self>, control: Arc<Control>) {
        let mut before: Option<(Instant, Totals)> = None;
        loop {
            let pulses = control.shards().pulses().await;
            let (now, totals) = (Instant::now(), Totals::of(&pulses));
            drop(pulses);
            if let Some((then, earlier)) = &before {
                let seconds = now.saturating_duration_since(*then).as_secs_f64();
                let at = since_1970().as_secs_f64();
                self.points().push(at, totals.since(earlier, seconds));
            }
            before = Some((now, totals));
            tokio::time::sleep(self.step.to_std()).await;
        }
    }
}
