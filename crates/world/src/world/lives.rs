//! The lives of the host's process: opening the cache, attaching disks, traffic, an end, again.

use super::{Stop, World};
use crate::host::Host;
use crate::operator::Order;
use crate::settings::{End, LifeSettings};
use crate::violation::Violation;
use block_io::IoError;
use cache::OpenError;
use units::Duration;

impl World {
    /// All lives, and a last one in which everything is read and compared.
    ///
    /// # Errors
    /// The first violation.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        let mut lives = self.run.settings().lives.clone();
        if let (Some(crash_at), Some(first)) = (self.crash_at, lives.first_mut()) {
            first.crash_at = Some(crash_at);
            first.end = End::PowerCut;
        }
        for (number, life) in lives.iter().enumerate() {
            self.run.event(&[10, number as u64], || {
                format!("=== life {number}: {life:?}")
            });
            let died = self.live(*life)? == Stop::Crashed;
            if number == 0 {
                self.first_life_operations = self.host.process().operations();
            }
            self.host.end(died, &mut self.run, &mut self.disks)?;
            let pause = Duration::from_millis(1 + self.run.below(50));
            self.run.advance_to(self.run.now() + pause);
        }
        self.last_life()
    }

    fn live(&mut self, life: LifeSettings) -> Result<Stop, Violation> {
        self.disks.clear_faults();
        self.host.begin(life, &mut self.run, &mut self.disks);
        if life.faults_while_opening {
            self.set_faults();
        }
        if self.open_cache()? == Stop::Crashed {
            self.run.hit("crash while opening");
            return Ok(Stop::Crashed);
        }
        if self.carry_out(Order::AttachAll, "attaching the disks")? == Stop::Crashed {
            return Ok(Stop::Crashed);
        }
        if life.audit_at_start && self.audit()? == Stop::Crashed {
            return Ok(Stop::Crashed);
        }
        self.set_faults();
        if self.serve_guests(life.requests)? == Stop::Crashed {
            return Ok(Stop::Crashed);
        }
        self.host.inspect(&self.run)?;
        match life.end {
            End::CleanStop => self.stop_cleanly(),
            End::Kill | End::PowerCut => Ok(Stop::Reached),
        }
    }

    fn set_faults(&mut self) {
        self.host.set_faults(&self.run);
        self.disks.set_faults(&self.run);
    }

    fn open_cache(&mut self) -> Result<Stop, Violation> {
        self.host.open_cache(&mut self.run);
        loop {
            // Looked at after each operation: the recovery says once that it has finished.
            self.host.serve_if_open(&mut self.run);
            if self.host.process().cache().is_some() {
                return Ok(Stop::Reached);
            }
            let before = self.host.process().operations();
            self.host
                .carry_out_effects(&mut self.run, &mut self.disks)?;
            let process = self.host.process();
            if self.host.device().next_deadline().is_none() && !process.has_crashed() {
                // Opening has no deadline of its own: flash that stalls is given up by the shell.
                let stalled = Err(OpenError::Io(IoError::TimedOut));
                self.host.serve(stalled, &mut self.run);
                return Ok(Stop::Reached);
            }
            let moved = move |host: &Host| host.process().operations() != before;
            if self.drive("the cache being opened", moved)? == Stop::Crashed {
                return Ok(Stop::Crashed);
            }
        }
    }

    /// Gives an order, and waits until it is carried out.
    fn carry_out(&mut self, order: Order, what: &'static str) -> Result<Stop, Violation> {
        self.host.order(order, &mut self.run, &mut self.disks);
        self.drive(what, Host::is_settled)
    }

    /// Guests make their requests, until all are answered or every disk is away for the rest of this life.
    fn serve_guests(&mut self, requests: u64) -> Result<Stop, Violation> {
        self.host.guests_may_ask(requests);
        loop {
            // A life in which every disk is away would never make its requests.
            let stop = self.drive("all requests being answered", |host| {
                host.is_done() || host.is_stuck()
            })?;
            if stop == Stop::Crashed {
                return Ok(Stop::Crashed);
            }
            let goes_on = !self.host.is_done();
            if !goes_on || !self.host.attach_again(&mut self.run, &mut self.disks) {
                self.host.guests_may_ask(0);
                return Ok(Stop::Reached);
            }
        }
    }

    /// Nothing is in flight: reads every disk through the cache.
    fn audit(&mut self) -> Result<Stop, Violation> {
        self.host.begin_audit(&mut self.run, &mut self.disks)?;
        let stop = self.drive(
            "the audit's reads being answered",
            Host::guests_have_answers,
        )?;
        if stop == Stop::Reached {
            self.host.judge_audit(&mut self.run, &mut self.disks)?;
        }
        Ok(stop)
    }

    fn stop_cleanly(&mut self) -> Result<Stop, Violation> {
        let mut orders = Vec::new();
        if self.run.is_last_life() {
            orders.push((Order::DestageAll, "the last destage"));
        }
        orders.push((Order::DetachAll { again: false }, "detaching the disks"));
        if self.run.settings().goes_back() {
            orders.push((Order::DetachAll { again: true }, "detaching the disks"));
        }
        orders.push((Order::Stop, "the clean stop"));
        for (order, what) in orders {
            if self.carry_out(order, what)? == Stop::Crashed {
                return Ok(Stop::Crashed);
            }
        }
        self.run.hit("clean stop");
        self.host.note_committed(&self.run);
        Ok(Stop::Reached)
    }

    fn last_life(&mut self) -> Result<(), Violation> {
        self.run.event(&[14], || "=== last life".to_owned());
        let blamed = self.run.settings().rates.blame_the_flash();
        // Earlier lives may have left a retirement that could not be recorded; this one has no trouble of
        // its own.
        self.run.begin_last_life();
        let result = self.live(LifeSettings::LAST);
        self.host.process().count_marks(&mut self.run);
        result?;
        for disk in self.disks.iter_mut() {
            disk.origin_mut().settle_late();
        }
        self.everything_has_arrived(blamed || self.host.device().is_suspect())
    }

    /// After the last life, in which nothing failed: everything is at the origins.
    fn everything_has_arrived(&self, blamed: bool) -> Result<(), Violation> {
        if !self.run.settings().goes_back() {
            return Ok(());
        }
        for (number, disk) in self.disks.iter().enumerate() {
            if !self.host.process().disk(number).is_away() {
                continue;
            }
            if disk.is_open() && !blamed {
                return Err(Violation::new(
                    "I8",
                    format!(
                        "disk {number} could not be brought to its origin: {:?}",
                        disk.owner()
                    ),
                ));
            }
            if !disk.is_open() {
                disk.origin_reads(self.run.current_moment())?;
            }
        }
        Ok(())
    }
}
