//! The host's process: the cache or its recovery, its state directory, and what it does with
//! effects.

use crate::settings::Special;
use crate::storage::Storage;
use crate::violation::Violation;
use crate::world::World;
use block_io::{OriginOp, OriginVerb, Token};
use cache::{Cache, Effect, Recovery};
use units::{Duration, Instant};

/// What runs.
#[derive(Default)]
pub(crate) enum Software {
    /// Nothing.
    #[default]
    Down,
    /// The cache is being opened.
    Recovery(Box<Recovery>),
    /// The cache serves.
    Cache(Box<Cache>),
}

/// What is being recorded of an incarnation: that it is not to be believed, or that it is again.
#[derive(Clone, Copy)]
struct Retiring {
    token: Token,
    incarnation: u64,
    until: Instant,
    recorded: bool,
    believed: bool,
}

/// The host.
#[derive(Default)]
pub(crate) struct Host {
    /// What runs on it.
    pub software: Software,
    retiring: Option<Retiring>,
    /// The flash dies at this guest request of the life.
    pub flash_dies_at: Option<u64>,
    /// And then does not answer at all.
    pub dies_silently: bool,
}

impl Host {
    /// Whether guests are served.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.software, Software::Cache(_))
    }

    /// When the cache wants to be looked at.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        match &self.software {
            Software::Cache(cache) => cache.next_deadline(),
            Software::Down | Software::Recovery(_) => None,
        }
    }

    /// When the state directory answers.
    pub(crate) fn retiring_until(&self) -> Option<Instant> {
        self.retiring.map(|retiring| retiring.until)
    }
}

impl World {
    /// Carries out what the cache asks, in order.
    pub(crate) fn carry_out_effects(&mut self) -> Result<(), Violation> {
        loop {
            let mut effects = Vec::new();
            match &mut self.host.software {
                Software::Down => {}
                Software::Recovery(recovery) => recovery.take_effects(&mut effects),
                Software::Cache(cache) => cache.take_effects(&mut effects),
            }
            if effects.is_empty() || self.crashed {
                return Ok(());
            }
            for effect in effects {
                self.carry_out(effect)?;
                if self.crashed {
                    return Ok(());
                }
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Result<(), Violation> {
        match effect {
            Effect::Flash(op) => {
                self.count_operation();
                if self.crashed {
                    return Ok(());
                }
                let token = op.token.0;
                self.run.event(&[3, token], || {
                    let entries = self.device.journal_entries(&op.verb);
                    format!("flash {token} {:?}{entries}", op.verb)
                });
                let opens = matches!(self.host.software, Software::Recovery(_));
                self.device.submit(op, opens, self.run.now());
            }
            Effect::Origin(op) => self.submit_to_origin(op)?,
            Effect::Reply { request, result } => self.guest_is_answered(request, result)?,
            Effect::ReplyInPlace { request, rest } => self.guest_read_in_place(request, &rest)?,
            Effect::Retire { token, incarnation } => {
                self.run.hit("retirement");
                self.record_retirement(token, incarnation, false);
            }
            Effect::Reinstate { token, incarnation } => {
                self.record_retirement(token, incarnation, true);
            }
            Effect::Retain(what) => {
                if self.run.special() == Special::Rotten {
                    self.count_operation();
                    if self.crashed {
                        self.run.hit("crash amid a record in retained memory");
                        self.device.retain_half(what);
                        return Ok(());
                    }
                }
                self.device.retain(what);
            }
            Effect::Own {
                token, id, record, ..
            } => self.record_owner(token, id, record)?,
            Effect::Damaged { .. } => {}
            Effect::ControlDone { id, result } => {
                let name = format!("{result:?}");
                self.run.event(&[4, id.0, name.len() as u64], || {
                    format!("control {} done: {name}", id.0)
                });
                match self.controls.get_mut(&id) {
                    Some(slot @ None) => *slot = Some(result),
                    _ => {
                        return Err(Violation::new(
                            "I8",
                            format!("control {} was answered without being open", id.0),
                        ));
                    }
                }
                self.command_ended(id, result)?;
            }
        }
        Ok(())
    }

    fn submit_to_origin(&mut self, op: OriginOp) -> Result<(), Violation> {
        self.count_operation();
        if self.crashed {
            return Ok(());
        }
        let token = op.token.0;
        let number = self
            .disks
            .iter()
            .position(|disk| disk.slot() == Some(op.disk));
        let Some(number) = number else {
            return Err(Violation::new(
                "I4",
                format!("an operation for {:?}, which no attached disk has", op.disk),
            ));
        };
        self.run.event(&[5, token, number as u64], || {
            format!("origin {number} {token} {:?}", op.verb)
        });
        match &op.verb {
            OriginVerb::Read { .. } => {}
            OriginVerb::Flush => {
                let now = self.run.next_moment();
                self.disks[number].origin_flushes.insert(op.token, now);
            }
            _ => self.disks[number].version += 1,
        }
        self.disks[number]
            .origin
            .submit(op.token, op.verb, self.run.now());
        self.plan_release();
        Ok(())
    }

    /// The process has died: a record that was on its way is there or not.
    pub(crate) fn host_dies(&mut self, lands: bool) {
        self.host.software = Software::Down;
        if let Some(retiring) = self.host.retiring.take()
            && lands
        {
            self.host_records(retiring);
        }
    }

    fn host_records(&mut self, what: Retiring) {
        if what.believed {
            self.device.believe(what.incarnation);
        } else {
            self.device.disbelieve(what.incarnation);
        }
    }

    fn record_retirement(&mut self, token: Token, incarnation: u64, believed: bool) {
        // Records come in the order in which they were asked for: one before this is there or never
        // will be.
        if let Some(before) = self.host.retiring.take()
            && self.run.one_in(2)
        {
            self.host_records(before);
        }
        let fails = self.run.one_in(self.run.settings().rates.retire_fails);
        let wait = Duration::from_micros(1 + self.run.below(20_000));
        self.run.event(&[6, incarnation], || {
            format!("retire incarnation {incarnation}, believed again: {believed}, fails: {fails}")
        });
        self.device.suspect();
        self.host.retiring = Some(Retiring {
            token,
            incarnation,
            until: self.run.now() + wait,
            recorded: !fails,
            believed,
        });
    }

    /// The record of a retirement is durable, or could not be made.
    pub(crate) fn state_directory_answers(&mut self) {
        let Some(retiring) = self.host.retiring.take() else {
            return;
        };
        // The answer may be lost where the record is not.
        if retiring.recorded || (retiring.believed && self.run.one_in(2)) {
            self.host_records(retiring);
        }
        if !retiring.recorded {
            self.run.hit("retirement not recorded");
        } else if retiring.believed {
            self.run.hit("flash taken back");
        }
        self.run.event(&[7, u64::from(retiring.recorded)], || {
            format!("retirement recorded: {}", retiring.recorded)
        });
        if let Software::Cache(cache) = &mut self.host.software {
            let Retiring {
                token, recorded, ..
            } = retiring;
            if retiring.believed {
                cache.reinstated(token, recorded, self.run.now());
            } else {
                cache.retired(token, recorded, self.run.now());
            }
        }
    }

    /// Every device of the host, to be opened, killed or cut.
    pub(crate) fn origins(&mut self) -> impl Iterator<Item = &mut Storage> {
        self.disks.iter_mut().map(|disk| &mut disk.origin)
    }
}
