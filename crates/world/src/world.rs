//! The world itself: what is in it, and how time passes.
//!
//! Time jumps from one due event to the next. Events that are due together happen in an order that
//! the seed decides, one at a time; after each the cache's effects are carried out at once.

use crate::commands::Commanded;
use crate::device::{CacheDevice, FIRST_CACHE};
use crate::disk::{Disk, Standing};
use crate::guests::{Outstanding, Worker};
use crate::host::{Host, Software};
use crate::run::Run;
use crate::tenants::Meter;
use crate::trace::Trace;
use crate::violation::Violation;
use crate::{Options, Outcome};
use block_io::Token;
use cache::{ControlId, ControlOutcome, DirtyStatus, RequestId};
use std::collections::BTreeMap;
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

/// Origins that stall go on after at most this long.
const STALL_MOST: Duration = Duration::from_millis(300);

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
    pub(crate) options: Options,
    pub(crate) run: Run,
    /// The flash that is in use.
    pub(crate) device: CacheDevice,
    /// That of the other cache, if there is one.
    pub(crate) aside: Option<CacheDevice>,
    pub(crate) disks: Vec<Disk>,
    pub(crate) host: Host,
    pub(crate) workers: Vec<Worker>,
    pub(crate) outstanding: BTreeMap<RequestId, Outstanding>,
    /// Commands about disks that are under way.
    pub(crate) commanded: BTreeMap<ControlId, Commanded>,
    /// Outcomes of control commands that nobody has looked at yet.
    pub(crate) controls: BTreeMap<ControlId, Option<Result<ControlOutcome, cache::ControlError>>>,
    /// Guest requests that this life may still make.
    pub(crate) requests_left: u64,
    pub(crate) requests_made: u64,
    /// Operations submitted and completed in this life.
    pub(crate) operations: u64,
    /// The process dies at this operation.
    pub(crate) crash_at: Option<u64>,
    pub(crate) crashed: bool,
    /// When stalled origins go on.
    release_at: Option<Instant>,
    pub(crate) first_life_operations: u64,
    /// What is held against write budgets.
    pub(crate) meter: Meter,
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
enum Due {
    Flash,
    Origin(usize),
    Tick,
    StateDirectory,
    Owner(usize),
    OriginBack(usize),
    Worker(usize),
    Release,
}

impl World {
    /// The world of a seed, before its first event.
    pub(crate) fn new(options: Options, keep_lines: bool) -> Self {
        let mut run = Run::new(options.seed, Trace::new(keep_lines, options.trace));
        let settings = run.settings().clone();
        let disks = (0..)
            .zip(&settings.disks)
            .map(|(number, disk)| {
                let first_tag = run.next_tags(disk.sectors);
                Disk::new(
                    number,
                    first_tag,
                    *disk,
                    settings.origin_latency,
                    run.dice(),
                )
            })
            .collect();
        let device = CacheDevice::blank(&mut run).formatted(FIRST_CACHE);
        Self {
            options,
            run,
            device,
            aside: None,
            disks,
            host: Host::default(),
            workers: vec![Worker::default(); settings.workers],
            outstanding: BTreeMap::new(),
            commanded: BTreeMap::new(),
            controls: BTreeMap::new(),
            requests_left: 0,
            requests_made: 0,
            operations: 0,
            crash_at: None,
            crashed: false,
            release_at: None,
            first_life_operations: 0,
            meter: Meter::default(),
        }
    }

    /// What is left when the run has ended.
    pub(crate) fn into_outcome(self) -> Outcome {
        self.run.into_outcome(self.first_life_operations)
    }

    /// Lets time pass until `reached`, or until the process dies.
    pub(crate) fn drive(
        &mut self,
        what: &'static str,
        reached: impl Fn(&Self) -> bool,
    ) -> Result<Stop, Violation> {
        let begin = self.run.now();
        let mut room_since = begin;
        for _ in 0..STEPS_MOST {
            self.carry_out_effects()?;
            if self.crashed {
                return Ok(Stop::Crashed);
            }
            if reached(self) {
                return Ok(Stop::Reached);
            }
            let Some((due, at)) = self.next_due() else {
                return Err(Violation::new(
                    "I8",
                    format!(
                        "nothing is left to happen, but {what} has not{}",
                        self.what_waits()
                    ),
                ));
            };
            self.run.pass_to(at);
            let (patience, since) = if self.somebody_absent_waits() {
                room_since = self.run.now();
                (PATIENCE_WITHOUT_ROOM, begin)
            } else {
                (PATIENCE, room_since)
            };
            if self.run.now().since(since) > patience {
                return Err(Violation::new(
                    "I8",
                    format!(
                        "{what} has not happened within {patience}{}",
                        self.what_waits()
                    ),
                ));
            }
            // What an origin refuses at random is tried again as a whole: of much it would never take all.
            if self.run.now().since(begin) > DEVICES_FAIL_MOST {
                self.devices_recover();
            }
            self.happen(due)?;
        }
        Err(Violation::new(
            "I8",
            format!("{what} has not happened within {STEPS_MOST} events"),
        ))
    }

    /// The earliest event; one of the earliest by the dice.
    fn next_due(&mut self) -> Option<(Due, Instant)> {
        let mut due: Vec<(Due, Instant)> = Vec::new();
        due.extend(self.device.next_deadline().map(|at| (Due::Flash, at)));
        for (number, disk) in self.disks.iter().enumerate() {
            let at = disk.origin.next_deadline();
            due.extend(at.map(|at| (Due::Origin(number), at)));
            due.extend(disk.gone_until.map(|at| (Due::OriginBack(number), at)));
            let record = disk.owning.front();
            due.extend(record.map(|record| (Due::Owner(number), record.until)));
        }
        due.extend(self.host.next_tick().map(|at| (Due::Tick, at)));
        due.extend(
            self.host
                .retiring_until()
                .map(|at| (Due::StateDirectory, at)),
        );
        if self.requests_left > 0 && self.somebody_can_ask() {
            for (number, worker) in self.workers.iter().enumerate() {
                if worker.waits_for.is_none() {
                    due.push((Due::Worker(number), worker.next_at));
                }
            }
        }
        due.extend(self.release_at.map(|at| (Due::Release, at)));
        let earliest = due.iter().map(|(_, at)| (*at).max(self.run.now())).min()?;
        due.retain(|(_, at)| *at <= earliest);
        let chosen = self.run.index(due.len());
        Some((due[chosen].0, earliest))
    }

    fn somebody_can_ask(&self) -> bool {
        let served = |disk: &Disk| matches!(disk.standing, Standing::Served(_));
        self.host.is_up() && self.disks.iter().any(served)
    }

    fn happen(&mut self, due: Due) -> Result<(), Violation> {
        match due {
            Due::Flash => self.flash_ends(),
            Due::Origin(number) => self.origin_ends(number),
            Due::Tick => {
                if let Software::Cache(cache) = &mut self.host.software {
                    cache.tick(self.run.now());
                }
                Ok(())
            }
            Due::StateDirectory => {
                self.state_directory_answers();
                Ok(())
            }
            Due::Owner(number) => {
                self.record_is_made(number);
                Ok(())
            }
            Due::OriginBack(number) => {
                self.origin_is_back(number);
                Ok(())
            }
            Due::Worker(number) => self.guest_asks(number),
            Due::Release => {
                self.release_at = None;
                for disk in &self.disks {
                    disk.origin.errors().release();
                }
                Ok(())
            }
        }
    }

    fn flash_ends(&mut self) -> Result<(), Violation> {
        for done in self.device.poll(self.run.now()) {
            self.count_operation();
            let token = done.token.0;
            let ok = done.result.is_ok();
            self.run.event(&[1, token, u64::from(ok)], || {
                format!("flash {token} ended, ok: {ok}")
            });
            let done = self.device.tell(done);
            if self.crashed {
                return Ok(());
            }
            match &mut self.host.software {
                Software::Down => {}
                Software::Recovery(recovery) => recovery.flash_done(done, self.run.now()),
                Software::Cache(cache) => cache.flash_done(done, self.run.now()),
            }
            self.carry_out_effects()?;
        }
        Ok(())
    }

    fn origin_ends(&mut self, number: usize) -> Result<(), Violation> {
        let mut done = Vec::new();
        self.disks[number].origin.poll(self.run.now(), &mut done);
        if self.run.settings().rates.origin_late > 0 {
            // What has waited for a late change may stall now.
            self.plan_release();
        }
        let mut done = done.into_iter();
        while let Some(ended) = done.next() {
            self.count_operation();
            let token = ended.token.0;
            let ok = ended.result.is_ok();
            self.run.event(&[2, token, u64::from(ok)], || {
                format!("origin {number} {token} ended, ok: {ok}")
            });
            self.origin_flush_ended(number, ended.token, ok);
            if self.crashed {
                // What a failed flush has taken is gone, although nobody learns of it any more.
                for done in done {
                    self.origin_flush_ended(number, done.token, done.result.is_ok());
                }
                return Ok(());
            }
            if let Software::Cache(cache) = &mut self.host.software {
                cache.origin_done(ended, self.run.now());
            }
            self.carry_out_effects()?;
        }
        Ok(())
    }

    /// A flush of an origin has made durable what was written through, or has failed and taken some of
    /// it along: the guest may see that, and has to be told with its next flush.
    fn origin_flush_ended(&mut self, number: usize, token: Token, ok: bool) {
        let Some(issued) = self.disks[number].origin_flushes.remove(&token) else {
            return;
        };
        let status = self.write_back_of(number);
        if status.is_some_and(|status| !status.logged.is_zero()) {
            // What was written through before was flushed when the log began, and what the log has is
            // written again.
            return;
        }
        let now = self.run.next_moment();
        let disk = &mut self.disks[number];
        if ok {
            disk.history.durable_before(issued);
        } else if disk.origin.has_forgotten(token) && disk.history.lost_unflushed(now) {
            self.run.hit("failed flush has lost writes");
            self.disks[number].untold_loss.get_or_insert(now);
        }
    }

    /// What a disk that is attached has that its origin lacks.
    pub(crate) fn write_back_of(&self, number: usize) -> Option<DirtyStatus> {
        match &self.host.software {
            Software::Cache(cache) => cache.write_back_of(self.disks[number].slot()?),
            Software::Down | Software::Recovery(_) => None,
        }
    }

    fn devices_recover(&mut self) {
        self.device.recover();
        for disk in &mut self.disks {
            disk.origin.late_mut().give_up_one_in(0);
            if disk.gone_until.is_none() {
                disk.origin.errors().clear();
            }
        }
    }

    /// Counts an operation; at the chosen one the process dies.
    pub(crate) fn count_operation(&mut self) {
        self.operations += 1;
        if self.crash_at == Some(self.operations) {
            self.crashed = true;
        }
    }

    /// Stalled origins go on, some time from now.
    pub(crate) fn plan_release(&mut self) {
        if self.run.settings().rates.origin_stalls > 0 && self.release_at.is_none() {
            let wait = Duration::from_nanos(self.run.below(STALL_MOST.as_nanos()));
            self.release_at = Some(self.run.now() + wait);
        }
    }
}
