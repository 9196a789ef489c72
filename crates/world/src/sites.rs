//! Two hosts, one disk that roams between them, and its guest.
//!
//! ```text
//!        guest ──moves──► guest
//!          │                │
//!        Site 0 ──link── Site 1        each with flash, cache and `handoff::Ownership`
//!          └───┐        ┌───┘          link: delays, breaks, loses its tail
//!             Shared                   the origin, its lock, the register of who has the disk
//! ```
//!
//! One seed decides everything. What is checked: every sector of every read against the history of its writes,
//! wherever it was made (I1, I2, I4); no host of an ended period changes a byte at the origin, the register only
//! rises, and one host at a time has the origin open (I5); a record says that the origin has everything only if it has
//! (I6); a guest that was overtaken by another one never goes on, and one that runs never loses its disk to one that
//! was started beside it (`guests`); when hosts and link are up again the guest is served within the time that it
//! is ready to wait (I8).

mod clients;
mod guard;
mod guest;
mod link;
mod moves;
mod plan;
mod requests;
mod shared;
mod site;

pub use guard::Guard;
#[cfg(feature = "mutants")]
pub use guard::remove;

use crate::disk::Disk;
use crate::run::Run;
use crate::settings::pick;
use crate::trace::Trace;
use crate::{Failure, Options, Outcome, Violation};
use block_io::Payload;
use clients::Piece;
use guest::{Guest, Kind, Outstanding, Phase, Place};
use handoff::Message;
use link::{Frame, Link, Notice};
use plan::Plan;
use shared::Shared;
use site::{Around, Due as SiteDue, Site};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use units::{Bytes, Duration, Instant, Offset, Prng};

/// A request is answered within this time: hosts and link are away for some seconds, and then a guest waits for its
/// disk for some more.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// The same where the origin fails: a write waits for a minute more at most for room in the log (`stall_max`).
const STALLED_WITHIN: Duration = Duration::from_secs(120);

/// More events than this are a circle.
const STEPS_MOST: u64 = 400_000;

/// The bytes of a payload in one piece.
fn bytes_of(payload: &Payload) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.iter().map(|slice| slice.len()).sum());
    for slice in payload {
        bytes.extend_from_slice(slice);
    }
    bytes
}

/// Runs the world of a seed. On a failure runs it again to record its trace.
///
/// # Errors
/// The first violation, or a panic, with the trace that led to it.
pub fn run(options: Options) -> Result<Outcome, Box<Failure>> {
    match attempt(options, options.trace) {
        Err(_) if !options.trace => attempt(options, true),
        result => result,
    }
}

fn attempt(options: Options, keep_lines: bool) -> Result<Outcome, Box<Failure>> {
    let mut world = Sites::new(options, keep_lines);
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| world.run()));
    let violation = match result {
        Ok(Ok(())) => return Ok(world.run.into_outcome(0)),
        Ok(Err(violation)) => violation,
        Err(panic) => Violation::new("assert", crate::message_of(&*panic)),
    };
    Err(Box::new(Failure {
        violation,
        trace: world.run.into_outcome(0).trace,
    }))
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
enum Due {
    Site(usize, SiteDue),
    Starts(usize),
    Notice(usize),
    Link,
    Straggler,
    Guest,
    Trouble,
}

/// See the module's header.
struct Sites {
    run: Run,
    plan: Plan,
    shared: Shared,
    link: Link,
    hosts: [Site; 2],
    /// When a host that has died starts again.
    starts: [Option<Instant>; 2],
    guest: Guest,
    outstanding: BTreeMap<u64, Outstanding>,
    /// A death or a break that was planned.
    trouble_at: Option<Instant>,
    /// Nothing goes wrong any more.
    is_calm: bool,
    /// ... and the guest is the only one.
    must_serve: bool,
}

impl Sites {
    fn new(options: Options, keep_lines: bool) -> Self {
        let mut dice = Prng::new(options.seed);
        let (plan, settings) = Plan::draw(options.seed, &mut dice);
        let trace = Trace::new(keep_lines, options.trace);
        let mut run = Run::with_settings(settings, dice, trace);
        run.event(&[29], || format!("{plan:?}"));
        let disk = run.settings().disks[0];
        let mut disk = Disk::new(0, disk, &mut run);
        disk.origin_mut().set_faults(run.settings());
        let latency = Duration::from_micros(*pick(run.dice(), &[200, 5_000, 80_000]));
        let hosts = [0, 1].map(|number| Site::new(number, &plan, &mut run));
        let left = 1 + run.below(60);
        Self {
            plan,
            shared: Shared::new(disk),
            link: Link::new(latency),
            hosts,
            starts: [Some(Instant::ZERO); 2],
            guest: Guest::new(Place { site: 0, client: 0 }, left, Instant::ZERO),
            outstanding: BTreeMap::new(),
            trouble_at: None,
            is_calm: false,
            must_serve: false,
            run,
        }
    }

    fn run(&mut self) -> Result<(), Violation> {
        self.drive("all moves", |world| world.plan.moves == 0)?;
        self.calm_down();
        self.drive("the hosts being up", |world| {
            world.hosts.iter().all(Site::is_up)
                && world.link.is_linked(0)
                && world.link.is_linked(1)
        })?;
        if self.plan.origin_fails {
            // A read of the last guest may join an operation that was to fail before.
            self.drive("what was asked before being answered", |world| {
                world.outstanding.is_empty()
            })?;
        }
        let site = self.run.index(2);
        self.boot(site)?;
        self.must_serve = true;
        self.guest.left = 10;
        self.drive("the last requests being answered", |world| {
            world.guest.left == 0 && world.outstanding.is_empty()
        })?;
        self.read_all()
    }

    /// Nothing goes wrong any more.
    fn calm_down(&mut self) {
        self.run.event(&[28], || "=== calm".to_owned());
        self.is_calm = true;
        self.trouble_at = None;
        for site in &mut self.hosts {
            site.process().live_on();
        }
        self.run.begin_last_life();
        self.shared.disk_mut().origin_mut().clear_faults();
    }

    /// Every sector is what its history says.
    fn read_all(&mut self) -> Result<(), Violation> {
        let end = Offset::after(self.shared.disk().size());
        let mut offset = Offset::ZERO;
        while offset < end {
            let length = Bytes::kib(16).min(end - offset);
            let place = self.guest.place;
            self.ask(place, Kind::Read, Piece { offset, length })?;
            offset += length;
        }
        self.drive("the audit being answered", |world| {
            world.outstanding.is_empty()
        })?;
        // What waits on flash is still there: the register names who has it.
        if !self.shared.disk().is_open() {
            self.shared.disk().origin_reads(self.run.current_moment())?;
        }
        Ok(())
    }

    // Time.

    fn drive(
        &mut self,
        what: &'static str,
        reached: impl Fn(&Self) -> bool,
    ) -> Result<(), Violation> {
        for _ in 0..STEPS_MOST {
            self.carry_out()?;
            if reached(self) {
                return Ok(());
            }
            let Some((due, at)) = self.next_due() else {
                let what = format!("nothing is left to happen, but {what} has not");
                return Err(self.stuck(&what));
            };
            self.run.advance_to(at);
            self.check_patience()?;
            self.happen(due)?;
        }
        Err(self.stuck(&format!(
            "{what} has not happened within {STEPS_MOST} events"
        )))
    }

    fn stuck(&self, what: &str) -> Violation {
        let [a, b] = &self.hosts;
        let waits = &self.outstanding;
        let what = format!(
            "{what}; {}; {}; {:?}; {:?}; {waits:?}",
            a.describe(),
            b.describe(),
            self.shared.holder(),
            self.guest.phase
        );
        Violation::new("I8", what)
    }

    fn check_patience(&self) -> Result<(), Violation> {
        let now = self.run.now();
        let mut requests = self.outstanding.values();
        let most = if self.plan.origin_fails {
            STALLED_WITHIN
        } else {
            ANSWERED_WITHIN
        };
        let is_late = |one: &Outstanding| now.since(one.since) > most;
        if requests.any(is_late) {
            let what = "a request waits for ever".to_owned();
            return Err(self.stuck(&what));
        }
        Ok(())
    }

    /// The earliest event; one of the earliest by the dice.
    fn next_due(&mut self) -> Option<(Due, Instant)> {
        let mut due: Vec<(Due, Instant)> = Vec::new();
        let mut add = |event, at: Option<Instant>| due.extend(at.map(|at| (event, at)));
        for (number, site) in self.hosts.iter().enumerate() {
            for (what, at) in site.due(&self.shared) {
                add(Due::Site(number, what), at);
            }
            add(Due::Notice(number), self.link.next_notice(number));
            add(Due::Starts(number), self.starts[number]);
        }
        add(Due::Link, self.link.next_session());
        add(Due::Straggler, self.shared.next_straggler());
        add(Due::Guest, self.next_of_guest());
        add(Due::Trouble, self.trouble_at);
        let now = self.run.now();
        let earliest = due.iter().map(|(_, at)| (*at).max(now)).min()?;
        due.retain(|(_, at)| *at <= earliest);
        let chosen = self.run.index(due.len());
        Some((due[chosen].0, earliest))
    }

    fn next_of_guest(&self) -> Option<Instant> {
        let is_full = self.outstanding.len() >= self.plan.depth;
        let asks = match self.guest.phase {
            Phase::Flushes { .. } => false,
            Phase::Stops { .. } | Phase::Warms { .. } => true,
            _ => !is_full && (!self.is_calm || self.guest.left > 0),
        };
        asks.then_some(self.guest.next_at)
    }

    fn happen(&mut self, due: Due) -> Result<(), Violation> {
        match due {
            Due::Site(number, what) => self.at(number, |site, at| site.happen(what, at)),
            Due::Starts(number) => {
                self.start(number);
                Ok(())
            }
            Due::Notice(number) => match self.link.take_notice(number) {
                Some(notice) if self.hosts[number].is_up() => {
                    let is_grant =
                        matches!(notice, Notice::Frame(Frame::Said(Message::Grant { .. })));
                    if is_grant && !self.hosts[number].clients().wait_for_disk() {
                        // The claim could not be taken back. An idle guest does not notice; whoever asks next
                        // at the other host is served first, and then a guest that goes on gets errors.
                        self.run.hit("granted to nobody");
                        self.plan.is_perfect = false;
                    }
                    self.at(number, |site, at| site.notice(notice, at))
                }
                _ => Ok(()),
            },
            Due::Link => {
                let are_up = self.hosts.iter().all(Site::is_up);
                self.link.begin(are_up, &mut self.run);
                Ok(())
            }
            Due::Straggler => self.shared.straggler_comes(&mut self.run),
            Due::Guest => self.guest_acts(),
            Due::Trouble => self.trouble(),
        }
    }

    fn at<T>(&mut self, number: usize, act: impl FnOnce(&mut Site, &mut Around) -> T) -> T {
        let mut at = Around {
            run: &mut self.run,
            shared: &mut self.shared,
            link: &mut self.link,
        };
        act(&mut self.hosts[number], &mut at)
    }

    /// What follows at once: effects of both caches, answers, deaths.
    fn carry_out(&mut self) -> Result<(), Violation> {
        for number in [0, 1] {
            self.at(number, Site::carry_out_effects)?;
            if self.hosts[number].process().has_crashed() {
                let power_cut = self.run.one_in(2);
                self.die(number, power_cut)?;
            }
            for answer in self.hosts[number].take_answers() {
                self.answered(answer)?;
            }
        }
        let [a, b] = &self.hosts;
        if a.has_origin() && b.has_origin() {
            let what = "both hosts have the origin open".to_owned();
            return Err(Violation::new("I5", what));
        }
        if a.serves() && b.serves() {
            let what = "both hosts serve changes".to_owned();
            return Err(Violation::new("I5", what));
        }
        Ok(())
    }

    // What goes wrong.

    fn start(&mut self, number: usize) {
        self.starts[number] = None;
        let mut crash_at = None;
        if !self.is_calm && self.plan.deaths > 0 && self.run.one_in(2) {
            self.plan.deaths -= 1;
            crash_at = Some(1 + self.run.below(600));
        }
        self.at(number, |site, at| site.start(crash_at, at));
    }

    fn plan_trouble(&mut self) {
        let may = self.plan.deaths + self.plan.cuts > 0 && self.trouble_at.is_none();
        if !self.is_calm && may && self.run.one_in(self.plan.trouble_rate) {
            let wait = [1_000, 30_000, 1_500_000][self.run.index(3)];
            let wait = Duration::from_micros(self.run.below(wait));
            self.trouble_at = Some(self.run.now() + wait);
        }
    }

    fn trouble(&mut self) -> Result<(), Violation> {
        self.trouble_at = None;
        let cuts = self.plan.cuts > 0 && (self.plan.deaths == 0 || self.run.one_in(2));
        if cuts {
            self.plan.cuts -= 1;
            self.guest.troubled = self.run.now();
            self.link.cut(&mut self.run);
            return Ok(());
        }
        let number = self.run.index(2);
        if self.starts[number].is_none() && self.plan.deaths > 0 {
            self.plan.deaths -= 1;
            let power_cut = self.run.one_in(2);
            return self.die(number, power_cut);
        }
        Ok(())
    }

    /// A daemon dies, with `power_cut` its host and the guest there.
    fn die(&mut self, number: usize, power_cut: bool) -> Result<(), Violation> {
        self.guest.troubled = self.run.now();
        self.at(number, |site, at| site.die(power_cut, at))?;
        let wait = [5_000, 400_000, 3_000_000][self.run.index(3)];
        let wait = Duration::from_micros(1 + self.run.below(wait));
        self.starts[number] = Some(self.run.now() + wait);
        self.outstanding
            .retain(|_, request| request.place.site != number);
        let other_is_here = self.guest.other.is_some_and(|other| other.site == number);
        if power_cut && self.guest.place.site == number {
            let site = self.run.index(2);
            self.boot(site)?;
        } else if power_cut && other_is_here {
            self.guest.other = None;
            self.guest.phase = Phase::Runs;
        } else if let Phase::Flushes { .. } = self.guest.phase
            && self.guest.place.site == number
        {
            self.guest.phase = Phase::Runs;
            self.drop_other()?;
        }
        Ok(())
    }
}
