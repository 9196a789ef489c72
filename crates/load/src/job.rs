//! One job: keeps its target busy and counts what comes of it.
//!
//! ```text
//!   script ─► step ─► due? ─► overlaps a write in flight? ─► slot ─► target
//!               ▲       │ not yet          │ (verification only)
//!               └─ held ┴──────────────────┘
//! ```

use crate::limits::{FINDINGS_MAX, LOOK_UP_TIME};
use crate::outcome::{JobError, JobOutcome, Tally, Verified};
use crate::settings::Rates;
use crate::target::{Done, Request, Target};
use crate::usage::Usage;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::{Duration, Instant};
use workload::{Direction, Ledger, Pace, Place, Plan, Script, Step};

/// What jobs tell each other and whoever watches.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// All jobs end as soon as they can.
    pub(crate) stop: AtomicBool,
    /// Requests answered so far.
    pub(crate) requests: AtomicU64,
    /// Bytes moved so far.
    pub(crate) bytes: AtomicU64,
}

/// What a job is told.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) plan: Plan,
    pub(crate) depth: usize,
    pub(crate) runtime: Option<Duration>,
    pub(crate) ramp: Duration,
    pub(crate) rates: Rates,
    pub(crate) ledger: Option<Ledger>,
    pub(crate) read_back: bool,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    step: Step,
    began: Instant,
}

/// Where a job's steps come from.
enum Steps {
    Script(Box<Script>),
    /// What was written is read back.
    ReadBack(std::vec::IntoIter<Place>),
}

impl Steps {
    fn next_step(&mut self) -> Option<Step> {
        match self {
            Self::Script(script) => script.next_step(),
            Self::ReadBack(places) => {
                let place = places.next()?;
                Some(Step::Io(Direction::Read, place))
            }
        }
    }
}

/// Not faster than this, by direction: bytes and requests.
#[derive(Debug, Default)]
struct Paces([[Option<Pace>; 2]; 3]);

impl Paces {
    fn new(rates: Rates, now: Instant) -> Self {
        let pace = |rate: Option<u64>| rate.map(|rate| Pace::new(rate, now));
        Self([(); 3].map(|()| [pace(rates.bytes), pace(rates.requests)]))
    }

    fn due(&self, direction: Direction) -> Option<Instant> {
        let paces = self.0[direction.index()].iter().flatten();
        paces.map(Pace::due).max()
    }

    fn took(&mut self, direction: Direction, bytes: u64) {
        let [by_bytes, by_requests] = &mut self.0[direction.index()];
        if let Some(pace) = by_bytes {
            pace.took(bytes);
        }
        if let Some(pace) = by_requests {
            pace.took(1);
        }
    }
}

pub(crate) struct Job<'a> {
    orders: Orders,
    target: Box<dyn Target>,
    shared: &'a Shared,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    steps: Steps,
    /// A step whose time has not come.
    held: Option<Step>,
    /// When it comes, if that is known.
    due: Option<Instant>,
    paces: Paces,
    /// Nothing more is to be begun.
    over: bool,
    /// Whether the warm-up is over.
    counting: bool,
    began: Instant,
    last: Instant,
    used_before: Usage,
    scratch: Vec<u8>,
    directions: [Tally; 3],
    syncs: Tally,
    verified: Verified,
    error: Option<JobError>,
}

pub(crate) fn clock() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Instant::from_nanos(seconds * 1_000_000_000 + nanos)
}

impl<'a> Job<'a> {
    pub(crate) fn new(orders: Orders, target: Box<dyn Target>, shared: &'a Shared) -> Self {
        let now = clock();
        Self {
            flights: vec![None; orders.depth],
            free: (0..orders.depth).rev().collect(),
            steps: Steps::Script(Box::new(Script::new(orders.plan.clone()))),
            held: None,
            due: None,
            paces: Paces::default(),
            over: false,
            counting: false,
            began: now,
            last: now,
            used_before: Usage::default(),
            scratch: Vec::new(),
            directions: Default::default(),
            syncs: Tally::default(),
            verified: Verified::default(),
            error: None,
            orders,
            target,
            shared,
        }
    }

    /// Does it all.
    pub(crate) fn run(mut self) -> JobOutcome {
        self.began = clock();
        self.last = self.began;
        self.used_before = Usage::of_thread();
        self.paces = Paces::new(self.orders.rates, self.began);
        self.counting = self.orders.ramp == Duration::ZERO;
        self.go();
        // A warm-up that the load did not outlast is all that there was.
        let usage = Usage::of_thread().since(self.used_before);
        let elapsed_ns = (self.last - self.began).as_nanos();
        let counted = std::mem::take(&mut self.directions);
        self.read_back();
        JobOutcome {
            directions: counted,
            syncs: self.syncs,
            elapsed_ns,
            usage,
            verified: self.orders.ledger.is_some().then_some(self.verified),
            error: self.error,
        }
    }

    fn read_back(&mut self) {
        let Some(ledger) = &self.orders.ledger else {
            return;
        };
        if self.error.is_some() || !self.orders.read_back || !self.orders.plan.shape.writes() {
            return;
        }
        let places: Vec<Place> = ledger.written(self.orders.plan.sizes.largest()).collect();
        self.steps = Steps::ReadBack(places.into_iter());
        self.paces = Paces::default();
        self.held = None;
        self.orders.runtime = None;
        self.over = false;
        self.go();
    }

    /// Until there is nothing more to do, or an error.
    fn go(&mut self) {
        let mut done = Vec::new();
        loop {
            let now = clock();
            self.warm_up_ends(now);
            let filled = self.fill(now);
            if self.over && self.in_flight() == 0 {
                return;
            }
            let waited = filled.and_then(|()| {
                let timeout = self.timeout(now);
                self.target.wait(timeout, &mut done)
            });
            self.take_in(&mut done);
            if let Err(source) = waited {
                self.fail(JobError::Gone { source });
                return;
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.orders.depth - self.free.len()
    }

    fn timeout(&self, now: Instant) -> Duration {
        match self.due {
            Some(due) => LOOK_UP_TIME.min(due - now),
            None => LOOK_UP_TIME,
        }
    }

    fn warm_up_ends(&mut self, now: Instant) {
        if self.counting || now - self.began < self.orders.ramp {
            return;
        }
        self.counting = true;
        self.began = now;
        self.last = now;
        self.used_before = Usage::of_thread();
        self.directions = Default::default();
        self.syncs = Tally::default();
        if let Steps::Script(script) = &mut self.steps {
            script.recount();
        }
    }

    fn is_time_over(&mut self, now: Instant) -> bool {
        if let Some(runtime) = self.orders.runtime
            && self.counting
            && now - self.began >= runtime
        {
            // All of that time was the load's, though its pace may have had nothing for the end of it.
            self.last = self.last.max(self.began + runtime);
            return true;
        }
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Begins what may be begun.
    fn fill(&mut self, now: Instant) -> io::Result<()> {
        self.due = None;
        if self.is_time_over(now) {
            self.over = true;
        }
        while !self.over && !self.free.is_empty() {
            let Some(step) = self.held.take().or_else(|| self.steps.next_step()) else {
                self.over = true;
                return Ok(());
            };
            let due = match step {
                Step::Io(direction, _) => self.paces.due(direction),
                Step::Sync { .. } => None,
            };
            if due.is_some_and(|due| due > now) {
                self.due = due;
                self.held = Some(step);
                return Ok(());
            }
            if self.collides(step) {
                self.held = Some(step);
                return Ok(());
            }
            self.issue(step, now)?;
        }
        Ok(())
    }

    /// Whether a verified step would see, or undo, a write that is on its way.
    fn collides(&self, step: Step) -> bool {
        let Step::Io(direction, place) = step else {
            return false;
        };
        let changes = direction != Direction::Read;
        self.orders.ledger.is_some()
            && self
                .flights
                .iter()
                .flatten()
                .any(|flight| match flight.step {
                    Step::Io(other, at) => {
                        (changes || other != Direction::Read) && at.overlaps(place)
                    }
                    Step::Sync { .. } => false,
                })
    }

    fn issue(&mut self, step: Step, now: Instant) -> io::Result<()> {
        let slot = self.free.pop().expect("a slot is free");
        self.flights[slot] = Some(Flight { step, began: now });
        let Step::Io(direction, place) = step else {
            let Step::Sync { data_only } = step else {
                unreachable!("a step is one or the other")
            };
            return self.target.submit(slot, Request::Flush { data_only }, None);
        };
        self.paces.took(direction, place.length);
        let offset = place.offset;
        let length = u32::try_from(place.length).expect("requests are shorter than 4 GiB");
        let request = match direction {
            Direction::Read => Request::Read { offset, length },
            Direction::Write => Request::Write { offset, length },
            Direction::Trim => Request::Trim { offset, length },
        };
        let mut data = None;
        if let Some(ledger) = &mut self.orders.ledger {
            match direction {
                Direction::Read => {}
                Direction::Write => {
                    self.scratch.resize(length as usize, 0);
                    ledger.stamp(place, &mut self.scratch);
                    data = Some(&self.scratch[..]);
                }
                Direction::Trim => ledger.forget(place),
            }
        }
        self.target.submit(slot, request, data)
    }

    fn take_in(&mut self, done: &mut Vec<Done>) {
        if done.is_empty() {
            return;
        }
        let now = clock();
        self.last = now;
        let (mut requests, mut bytes) = (0, 0);
        for Done { slot, result } in done.drain(..) {
            let flight = self.flights[slot].take();
            let Flight { step, began } = flight.expect("only what is in flight is answered");
            self.free.push(slot);
            if let Err(source) = result {
                self.fail(request_error(step, source));
                continue;
            }
            requests += 1;
            let nanos = (now - began).as_nanos();
            match step {
                Step::Sync { .. } => self.syncs.times.record(nanos),
                Step::Io(direction, place) => {
                    bytes += place.length;
                    let tally = &mut self.directions[direction.index()];
                    tally.bytes += place.length;
                    tally.times.record(nanos);
                    if direction == Direction::Read {
                        self.judge(slot, place);
                    }
                }
            }
        }
        self.shared.requests.fetch_add(requests, Ordering::Relaxed);
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn judge(&mut self, slot: usize, place: Place) {
        let Some(ledger) = &self.orders.ledger else {
            return;
        };
        let length = usize::try_from(place.length).expect("requests are shorter than 4 GiB");
        self.scratch.resize(length, 0);
        self.target.fetch(slot, &mut self.scratch);
        let findings = &mut self.verified.findings;
        let verdict = ledger.judge(place, &self.scratch, &mut |finding| {
            if findings.len() < FINDINGS_MAX {
                findings.push(finding);
            }
        });
        self.verified.right += verdict.right;
        self.verified.wrong += verdict.wrong;
        self.verified.unknown += verdict.unknown;
    }

    fn fail(&mut self, error: JobError) {
        self.over = true;
        self.shared.stop.store(true, Ordering::Relaxed);
        // The first one is the cause of those that follow.
        self.error.get_or_insert(error);
    }
}

fn request_error(step: Step, source: io::Error) -> JobError {
    let (what, place) = match step {
        Step::Io(Direction::Read, place) => ("a read", Some(place)),
        Step::Io(Direction::Write, place) => ("a write", Some(place)),
        Step::Io(Direction::Trim, place) => ("a trim", Some(place)),
        Step::Sync { .. } => ("a sync", None),
    };
    JobError::Request {
        what,
        offset: place.map_or(0, |place| place.offset),
        length: place.map_or(0, |place| place.length),
        source,
    }
}

#[cfg(test)]
mod tests;
