//! The host's process: the cache or its recovery, its state directory, and what it does with
//! effects.

use crate::accepted::Accepted;
use crate::retained::RetainedMemory;
use crate::settings::Special;
use crate::storage::Storage;
use crate::violation::Violation;
use crate::world::World;
use block_io::{FlashVerb, OriginOp, OriginVerb, Token};
use cache::{Cache, Committed, Effect, Recovery};
use flash_format::{DirtyChunkHeader, JournalPage, PAGE_BYTES};
use units::{Duration, Instant};

/// The first cache; the others are counted from it.
pub(crate) const FIRST_CACHE: u128 = 0x4ea4;

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
    /// Which cache is on the flash.
    pub uuid: u128,
    /// What outlives the process.
    pub retained: RetainedMemory,
    /// What its dirty logs have taken in.
    pub accepted: Accepted,
    /// Something has befallen this flash that may have taken what waited on it.
    pub suspect: bool,
    /// State directory: the least incarnation that may be trusted.
    pub least: u64,
    /// And the latest that has served.
    pub served: u64,
    /// And how far the tables on flash were durable, somewhat late. Only worlds of lying flash keep it.
    pub committed: Committed,
    retiring: Option<Retiring>,
    /// Bytes that the device had been given to write when this life began.
    pub written_before: u64,
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

    /// The process has died: a record that was on its way is there or not.
    pub(crate) fn die(&mut self, lands: bool) {
        self.software = Software::Down;
        if let Some(retiring) = self.retiring.take()
            && lands
        {
            self.record(retiring);
        }
    }

    fn record(&mut self, what: Retiring) {
        if what.believed {
            self.least = what.incarnation;
        } else {
            self.without_flash(what.incarnation);
        }
    }

    /// Before flash is opened: an opening that was cut off may have begun an incarnation that was
    /// not recorded.
    pub(crate) fn before_use(&mut self, on_flash: u64) {
        self.least = self.least.max(on_flash);
    }

    /// Before a cache serves: an older copy of its flash is not to be believed any more.
    pub(crate) fn in_use(&mut self, incarnation: u64) {
        self.least = self.least.max(incarnation);
        self.served = incarnation;
    }

    /// Before guests go on without the flash: whatever is on it must never be trusted again. An
    /// opening that failed half-way may have begun one more incarnation than was recorded.
    pub(crate) fn without_flash(&mut self, incarnation: u64) {
        self.least = self.least.max(incarnation) + 2;
    }
}

/// Whether a chunk of a dirty log is written.
fn is_dirty_chunk(verb: &FlashVerb) -> bool {
    let magic = DirtyChunkHeader::MAGIC;
    matches!(verb, FlashVerb::Write { data, .. } if data.starts_with(&magic))
}

/// For the trace: the entries of the journal pages that are written.
fn journal_entries(verb: &FlashVerb, uuid: u128) -> String {
    let FlashVerb::Write {
        data,
        durable: true,
        ..
    } = verb
    else {
        return String::new();
    };
    let (pages, _) = data.as_chunks::<PAGE_BYTES>();
    let decoded = pages
        .iter()
        .filter_map(|page| JournalPage::decode(page, uuid).ok());
    let lines: Vec<String> = decoded
        .map(|page| format!(" journal page {}: {:?}", page.sequence, page.entries))
        .collect();
    lines.concat()
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
                let uuid = self.host.uuid;
                self.run.event(&[3, token], || {
                    let entries = journal_entries(&op.verb, uuid);
                    format!("flash {token} {:?}{entries}", op.verb)
                });
                let geometry = self.run.settings().geometry();
                self.host
                    .accepted
                    .writes(op.token, &op.verb, &geometry, uuid);
                let opens = matches!(self.host.software, Software::Recovery(_));
                let honest = is_dirty_chunk(&op.verb)
                    || (opens && self.host.accepted.reads_unnamed(&op.verb));
                self.flash.spared = self.host.accepted.unnamed();
                self.flash.submit_flash(op, honest, self.run.now());
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
                        self.host.retained.apply_half(what);
                        return Ok(());
                    }
                }
                self.host.accepted.note(&what);
                self.host.retained.apply(what);
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

    fn record_retirement(&mut self, token: Token, incarnation: u64, believed: bool) {
        // Records come in the order in which they were asked for: one before this is there or never
        // will be.
        if let Some(before) = self.host.retiring.take()
            && self.run.one_in(2)
        {
            self.host.record(before);
        }
        let fails = self.run.one_in(self.run.settings().rates.retire_fails);
        let wait = Duration::from_micros(1 + self.run.below(20_000));
        self.run.event(&[6, incarnation], || {
            format!("retire incarnation {incarnation}, believed again: {believed}, fails: {fails}")
        });
        self.host.suspect = true;
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
            self.host.record(retiring);
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
