//! Events: what has happened in this run of the daemon, for an operator who was not looking.
//!
//! ```text
//!   a log line with the field `event`, of any crate ─► Lines ─► EventLog ─┬─► GET /v1/events, paged or as a stream
//!                                                               (a ring)  └─► metrics: how many of each kind
//! ```
//!
//! Invariants: numbers rise by one, so that a reader sees what it missed; a new run of the daemon has another word in
//! front of them; the ring is bounded in number and bytes, whatever is said. Whoever says something waits for nobody:
//! readers come to the ring, and a slow one misses what was dropped meanwhile.

mod lines;
mod ring;

pub(crate) use lines::Lines;
pub(crate) use ring::{Asked, Look};

use crate::system::since_1970;
use api::events::Event;
use events::EventKind;
use lines::Said;
use ring::Ring;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The events of this run of the daemon.
pub(crate) struct EventLog {
    /// When the run began, in a word that sorts.
    run: String,
    ring: Mutex<Ring>,
    /// The last number; gone once no more are said.
    told: Mutex<Option<watch::Sender<u64>>>,
    news: watch::Receiver<u64>,
}

impl EventLog {
    /// No event yet, in a run that begins now.
    pub(crate) fn new() -> Self {
        let (told, news) = watch::channel(0);
        Self {
            run: format!("{:011x}", since_1970().as_millis()),
            ring: Mutex::default(),
            told: Mutex::new(Some(told)),
            news,
        }
    }

    /// The run of the daemon that these events are of.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// The number of an event's id, as a place to read on from: 0 of another run, none if this is no id.
    pub(crate) fn place(&self, id: &str) -> Option<u64> {
        match id.rsplit_once('-') {
            Some((run, number)) => {
                let number = number.parse().ok()?;
                Some(if run == self.run { number } else { 0 })
            }
            None => id.parse().ok(),
        }
    }

    /// The id of this run's event of a number.
    pub(crate) fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.run)
    }

    /// The number of the last event.
    pub(crate) fn last(&self) -> u64 {
        self.ring().last()
    }

    /// What is kept after a number.
    pub(crate) fn look(&self, after: u64, asked: &Asked) -> Look {
        self.ring().look(after, asked)
    }

    /// How many events of each kind there were.
    pub(crate) fn counts(&self) -> BTreeMap<EventKind, u64> {
        self.ring().counts().clone()
    }

    /// Told of each new event; its sender is gone once there are no more.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.clone()
    }

    /// Ends what follows: the daemon ends.
    pub(crate) fn close(&self) {
        self.told().take();
    }

    fn record(&self, said: Said) {
        let at_seconds = since_1970().as_secs_f64();
        let number = self.ring().keep(|number| Event {
            id: self.id(number),
            number,
            at_seconds,
            severity: said.severity,
            kind: said.kind.word().to_owned(),
            about: said.about,
            text: said.text,
            remedy: said.remedy,
            who: said.who,
        });
        if let Some(told) = &*self.told() {
            told.send_replace(number);
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // A panic elsewhere leaves the ring whole, or one short.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self) -> MutexGuard<'_, Option<watch::Sender<u64>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
