//! The thread that replays: begins what is due, takes in what is done.
//!
//! ```text
//!   feed ─► request ─► due? ─► part ─► slot free? ─► target
//!             ▲          │ not yet         │ no
//!             └─ held ───┴─────────────────┘
//! ```

use super::feed::{Feed, Next};
use super::fit::{Fit, Part, Parts};
use super::outcome::ReplayOutcome;
use super::schedule::{Schedule, Speed};
use super::{Asked, Kind};
use crate::job::{Shared, clock};
use crate::limits::{LATE_TIME, LOOK_UP_TIME, READ_PAUSE};
use crate::outcome::JobError;
use crate::target::{Done, Request, Target};
use crate::usage::Usage;
use std::io;
use std::sync::atomic::Ordering;
use units::{Duration, Instant};

/// What the thread is told.
#[derive(Debug)]
pub(super) struct Orders {
    pub(super) depth: usize,
    pub(super) speed: Speed,
    pub(super) runtime: Option<Duration>,
    pub(super) fit: Fit,
}

/// A request that is not begun, or not wholly.
#[derive(Debug)]
struct Held {
    kind: Kind,
    due: Option<Instant>,
    is_begun: bool,
    flush: bool,
    parts: Parts,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    kind: Kind,
    part: Part,
    due: Instant,
    began: Instant,
}

pub(super) struct Player<'a> {
    orders: Orders,
    target: Box<dyn Target>,
    feed: Feed,
    shared: &'a Shared,
    schedule: Schedule,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    held: Option<Held>,
    /// Nothing more is to be begun.
    over: bool,
    began: Instant,
    last: Instant,
    outcome: ReplayOutcome,
}

impl<'a> Player<'a> {
    pub(super) fn new(
        orders: Orders,
        target: Box<dyn Target>,
        feed: Feed,
        shared: &'a Shared,
    ) -> Self {
        let began = Instant::ZERO;
        Self {
            schedule: Schedule::new(orders.speed, began),
            flights: vec![None; orders.depth],
            free: (0..orders.depth).rev().collect(),
            held: None,
            over: false,
            began,
            last: began,
            outcome: ReplayOutcome::default(),
            orders,
            target,
            feed,
            shared,
        }
    }

    /// Does it all.
    pub(super) fn run(mut self) -> ReplayOutcome {
        if let Err(source) = self.feed.wait() {
            self.fail(JobError::Trace { source });
        }
        let used_before = Usage::of_thread();
        self.begin(clock());
        self.go();
        self.outcome.elapsed_ns = (self.last - self.began).as_nanos();
        self.outcome.usage = Usage::of_thread().since(used_before);
        self.outcome
    }

    /// The trace's first request is due now.
    fn begin(&mut self, now: Instant) {
        self.began = now;
        self.last = now;
        self.schedule = Schedule::new(self.orders.speed, now);
    }

    fn go(&mut self) {
        let mut done = Vec::new();
        loop {
            let filled = self.fill(clock());
            if self.over && self.free.len() == self.orders.depth {
                return;
            }
            let waited = filled.and_then(|pause| self.target.wait(pause, &mut done));
            self.take_in(&mut done, clock());
            if let Err(source) = waited {
                self.fail(JobError::Gone { source });
                return;
            }
        }
    }

    /// Begins what is due and has room, and tells how long nothing more will be.
    fn fill(&mut self, now: Instant) -> io::Result<Duration> {
        let runtime = self.orders.runtime;
        let is_time_over = runtime.is_some_and(|runtime| now - self.began >= runtime);
        self.over |= is_time_over || self.shared.stop.load(Ordering::Relaxed);
        while !self.over && !self.free.is_empty() {
            let Some(mut held) = self.held.take().or_else(|| self.next()) else {
                return Ok(READ_PAUSE);
            };
            if let Some(due) = held.due.filter(|due| *due > now) {
                self.held = Some(held);
                return Ok(LOOK_UP_TIME.min(due - now));
            }
            let part = held.next_part();
            if let Some(part) = part {
                self.begin_request(&mut held, now);
                self.issue(&held, part, now)?;
                self.held = Some(held);
            }
        }
        Ok(LOOK_UP_TIME)
    }

    /// The trace's next request; none if it is still being read, or there is no more.
    fn next(&mut self) -> Option<Held> {
        loop {
            match self.feed.next() {
                Next::Request(asked) if self.orders.fit.knows(asked.kind) => {
                    return Some(self.hold(asked));
                }
                Next::Request(_) => self.outcome.unknown_requests += 1,
                Next::NotYet => return None,
                Next::End => {
                    self.over = true;
                    return None;
                }
                Next::Failed(source) => {
                    self.fail(JobError::Trace { source });
                    return None;
                }
            }
        }
    }

    fn hold(&mut self, asked: Asked) -> Held {
        Held {
            kind: asked.kind,
            due: self.schedule.due(asked.at),
            is_begun: false,
            flush: asked.kind == Kind::Flush,
            parts: self.orders.fit.parts(asked),
        }
    }

    /// Counts a request when its first part is begun.
    fn begin_request(&mut self, held: &mut Held, now: Instant) {
        if std::mem::replace(&mut held.is_begun, true) {
            return;
        }
        self.outcome.begun_requests += 1;
        let late = held.due.map_or(Duration::ZERO, |due| now - due);
        if late > LATE_TIME {
            self.outcome.late_requests += 1;
            self.outcome.lateness.record(late.as_nanos());
        }
    }

    fn issue(&mut self, held: &Held, part: Part, now: Instant) -> io::Result<()> {
        let slot = self.free.pop().expect("a slot is free");
        self.flights[slot] = Some(Flight {
            kind: held.kind,
            part,
            due: held.due.unwrap_or(now),
            began: now,
        });
        let Part { offset, length } = part;
        let request = match held.kind {
            Kind::Read => Request::Read { offset, length },
            Kind::Write => Request::Write { offset, length },
            Kind::Flush => Request::Flush { data_only: true },
            Kind::Discard => Request::Trim { offset, length },
            Kind::WriteZeroes => Request::WriteZeroes { offset, length },
        };
        self.target.submit(slot, request, None)
    }

    fn take_in(&mut self, done: &mut Vec<Done>, now: Instant) {
        if done.is_empty() {
            return;
        }
        self.last = now;
        let (mut requests, mut bytes) = (0, 0);
        for Done { slot, result } in done.drain(..) {
            let flight = self.flights[slot].take();
            let flight = flight.expect("only what is in flight is answered");
            self.free.push(slot);
            let length = u64::from(flight.part.length);
            if let Err(source) = result {
                self.fail(JobError::Request {
                    what: words(flight.kind),
                    offset: flight.part.offset,
                    length,
                    source,
                });
                continue;
            }
            requests += 1;
            bytes += length;
            let answered = &mut self.outcome.kinds[flight.kind.index()];
            answered.bytes += length;
            answered.latency.record((now - flight.due).as_nanos());
            answered.service.record((now - flight.began).as_nanos());
        }
        self.shared.requests.fetch_add(requests, Ordering::Relaxed);
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn fail(&mut self, error: JobError) {
        self.over = true;
        // The first one is the cause of those that follow.
        self.outcome.error.get_or_insert(error);
    }
}

impl Held {
    fn next_part(&mut self) -> Option<Part> {
        if std::mem::replace(&mut self.flush, false) {
            return Some(Part {
                offset: 0,
                length: 0,
            });
        }
        self.parts.next()
    }
}

fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "a read",
        Kind::Write => "a write",
        Kind::Flush => "a flush",
        Kind::Discard => "a discard",
        Kind::WriteZeroes => "a write-zeroes",
    }
}

#[cfg(test)]
mod tests;
