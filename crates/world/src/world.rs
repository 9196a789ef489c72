//! The world itself: how time passes, and who takes each event.
//!
//! ```text
//!   World ─┬─ Run     settings, dice, clock, record of what happened
//!          ├─ Disks   origins, owner's records, what sectors have held      of no host
//!          └─ Host ─┬─ FlashBay   flash, retained memory, what was recorded   outlives the process
//!                   └─ life       Process, Operator, Guests                   ends with the process
//! ```
//!
//! Calls go down: the operator and the guests act on a `Context` of what they find at their host. What the
//! cache asks, the host hands to the one whom it concerns.
//!
//! Time jumps from one due event to the next. Events that are due together happen in an order that
//! the seed decides, one at a time; after each the cache's effects are carried out at once.

mod lives;

use crate::disks::Disks;
use crate::host::Host;
use crate::outcome::{Options, Outcome};
use crate::run::Run;
use crate::trace::Trace;
use crate::violation::Violation;
use units::{Duration, Instant};

/// Nothing may take longer than this from when it was asked to when it is answered.
const PATIENCE: Duration = Duration::from_secs(600);
/// The same where a disk that is not here may have all the room of the flash: each write waits for as long
/// as it may before it is refused, one after the other.
const PATIENCE_WITHOUT_ROOM: Duration = Duration::from_secs(100_000);

/// Nor may it take more events than this: then something goes round in a circle.
const STEPS_MOST: u64 = 100_000;

/// Whoever waits that long finds origins that fail no more, and flash that can be read.
const DEVICES_FAIL_MOST: Duration = Duration::from_secs(60);

/// Where driving the world stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// What was waited for is there.
    Reached,
    /// The process has died.
    Crashed,
}

/// See the module's header.
pub(crate) struct World {
    run: Run,
    disks: Disks,
    host: Host,
    /// End the first life by a power cut at this operation instead of when the seed says.
    crash_at: Option<u64>,
    first_life_operations: u64,
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
enum Due {
    Flash,
    Origin(usize),
    Tick,
    StateDirectory,
    OwnerRecord(usize),
    OriginBack(usize),
    Worker(usize),
    Release,
}

impl World {
    /// The world of a seed, before its first event.
    pub(crate) fn new(options: Options, keep_lines: bool) -> Self {
        let mut run = Run::new(options.seed, Trace::new(keep_lines, options.trace));
        let disks = Disks::new(&mut run);
        let host = Host::new(disks.count(), &mut run);
        Self {
            run,
            disks,
            host,
            crash_at: options.crash_at,
            first_life_operations: 0,
        }
    }

    /// What is left when the run has ended.
    pub(crate) fn into_outcome(self) -> Outcome {
        self.run.into_outcome(self.first_life_operations)
    }

    /// Lets time pass until the host has `reached` what is waited for, or until its process dies.
    fn drive(
        &mut self,
        what: &'static str,
        reached: impl Fn(&Host) -> bool,
    ) -> Result<Stop, Violation> {
        let begin = self.run.now();
        let mut room_since = begin;
        for _ in 0..STEPS_MOST {
            self.host
                .carry_out_effects(&mut self.run, &mut self.disks)?;
            if self.host.process().has_crashed() {
                return Ok(Stop::Crashed);
            }
            if reached(&self.host) {
                return Ok(Stop::Reached);
            }
            let Some((due, at)) = self.next_due() else {
                return Err(self.has_not(format!("nothing is left to happen, but {what} has not")));
            };
            self.run.advance_to(at);
            let (patience, since) = if self.host.somebody_absent_waits(&self.run, &self.disks) {
                room_since = self.run.now();
                (PATIENCE_WITHOUT_ROOM, begin)
            } else {
                (PATIENCE, room_since)
            };
            if self.run.now().since(since) > patience {
                return Err(self.has_not(format!("{what} has not happened within {patience}")));
            }
            // What an origin refuses at random is tried again as a whole: of much it would never take all.
            if self.run.now().since(begin) > DEVICES_FAIL_MOST {
                self.host.recover();
                self.disks.recover();
            }
            self.happen(due)?;
        }
        Err(Violation::new(
            "I8",
            format!("{what} has not happened within {STEPS_MOST} events"),
        ))
    }

    fn has_not(&self, what: String) -> Violation {
        let waits = self.host.what_waits(&self.disks);
        Violation::new("I8", what + &waits)
    }

    /// The earliest event; one of the earliest by the dice.
    fn next_due(&mut self) -> Option<(Due, Instant)> {
        let host = &self.host;
        let mut due: Vec<(Due, Instant)> = Vec::new();
        let mut add = |event, at: Option<Instant>| due.extend(at.map(|at| (event, at)));
        add(Due::Flash, host.device().next_deadline());
        for (number, disk) in self.disks.iter().enumerate() {
            let origin = disk.origin();
            let handle = host.process().origin(number);
            let next = handle.and_then(|handle| origin.next_deadline(handle));
            add(Due::Origin(number), next);
            add(Due::OriginBack(number), origin.gone_until());
            let attachment = host.process().disk(number);
            add(Due::OwnerRecord(number), attachment.next_record());
        }
        add(Due::Tick, host.process().next_tick());
        add(Due::StateDirectory, host.next_answer());
        for (number, at) in host.next_requests() {
            add(Due::Worker(number), Some(at));
        }
        add(Due::Release, self.disks.next_release());
        let now = self.run.now();
        let earliest = due.iter().map(|(_, at)| (*at).max(now)).min()?;
        due.retain(|(_, at)| *at <= earliest);
        let chosen = self.run.index(due.len());
        Some((due[chosen].0, earliest))
    }

    fn happen(&mut self, due: Due) -> Result<(), Violation> {
        let (host, run, disks) = (&mut self.host, &mut self.run, &mut self.disks);
        match due {
            Due::Flash => host.flash_ends(run, disks)?,
            Due::Origin(number) => host.origin_ends(number, run, disks)?,
            Due::Tick => host.tick(run),
            Due::StateDirectory => host.state_directory_answers(run),
            Due::OwnerRecord(number) => host.record_is_made(number, run, disks),
            Due::OriginBack(number) => disks[number].origin_mut().come_back(run.settings()),
            Due::Worker(number) => host.guest_asks(number, run, disks)?,
            Due::Release => disks.release(),
        }
        Ok(())
    }
}
