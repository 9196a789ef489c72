//! What must hold of an NBD origin, whatever its server does.
//!
//! Changes are numbered in the order of submission, which is the order in which the client carries
//! them out where they overlap. Of each sector:
//! - **I1** A read sees no change older than the last one that was acknowledged, or that a read had
//!   seen, before it was submitted. A change that failed may be seen or not; what has been seen of it
//!   stays.
//! - **I2** What a flush or FUA acknowledged is durable.
//! - **I3** A copy stays equal to the origin: what a read brought is what the next one brings, as long
//!   as nobody changes it. It is durable if a flush has succeeded that was submitted after every change
//!   that had ended before the read; after the read itself, if that says that its bytes are volatile.
//! - **I4** A read sees a change of that sector, whole.
//! - **I8** Each operation is handed back once.
//! - **never hostage** An operation fails only for a reason that the server has given, or time.

use super::SECTORS;
use super::disk::Disk;
use crate::Violation;
use block_io::{IoError, OriginDone, Token};
use std::collections::BTreeMap;
use units::{Duration, Instant};

/// What an operation does, in sectors.
#[derive(Clone, Debug)]
pub(super) enum Doing {
    Read,
    /// A change to this value, zero included.
    Change {
        number: u64,
        fua: bool,
        zeroes: bool,
    },
    Flush,
}

#[derive(Debug)]
pub(super) struct Asked {
    doing: Doing,
    first: usize,
    count: usize,
    since: Instant,
    /// Of each sector what a read must not fall behind, or a flush has to keep.
    floors: [u64; SECTORS],
    touches: [u64; SECTORS],
    quiet: [bool; SECTORS],
    /// How many changes had ended when it was submitted.
    ended: u64,
    excuses: u64,
}

#[derive(Debug, Default)]
struct Sector {
    /// The last change that was acknowledged.
    acknowledged: u64,
    /// The last change that was acknowledged or seen.
    known: u64,
    changes: Vec<u64>,
    zeroings: Vec<u64>,
    under_way: u32,
    touches: u64,
    copy: Option<Copied>,
}

/// What a read has brought, and how many changes had ended then.
#[derive(Clone, Copy, Debug)]
struct Copied {
    value: u64,
    ended: u64,
}

impl Sector {
    /// The oldest change not older than `floor` that leaves this value.
    fn explains(&self, value: u64, floor: u64) -> Option<u64> {
        if value != 0 {
            return Some(value).filter(|value| *value >= floor);
        }
        let zeroings = std::iter::once(&0).chain(&self.zeroings);
        zeroings.copied().find(|number| *number >= floor)
    }

    fn touch(&mut self) {
        self.touches += 1;
        self.copy = None;
    }
}

#[derive(Debug, Default)]
pub(super) struct Checker {
    sectors: [Sector; SECTORS],
    asked: BTreeMap<Token, Asked>,
    /// How many changes have ended. One that was given up ends once more when a read brings what it has
    /// left.
    ended: u64,
    /// How many of them a flush vouches for.
    flushed: u64,
}

impl Checker {
    pub(super) fn in_flight(&self) -> usize {
        self.asked.len()
    }

    /// When the oldest operation that has not ended was submitted.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.asked.values().map(|asked| asked.since).min()
    }

    /// An operation is submitted. `excuses` counts the server's reasons for errors so far.
    pub(super) fn submitted(
        &mut self,
        token: Token,
        doing: Doing,
        (first, count): (usize, usize),
        now: Instant,
        excuses: u64,
    ) {
        let range = first..first + count;
        if let Doing::Change { number, zeroes, .. } = doing {
            for sector in &mut self.sectors[range] {
                sector.touch();
                sector.under_way += 1;
                if zeroes {
                    sector.zeroings.push(number);
                } else {
                    sector.changes.push(number);
                }
            }
        }
        let of = |value: fn(&Sector) -> u64| std::array::from_fn(|at| value(&self.sectors[at]));
        let floors = match doing {
            Doing::Flush => of(|sector| sector.acknowledged),
            Doing::Read | Doing::Change { .. } => of(|sector| sector.known),
        };
        let asked = Asked {
            doing,
            first,
            count,
            since: now,
            floors,
            touches: of(|sector| sector.touches),
            quiet: std::array::from_fn(|at| self.sectors[at].under_way == 0),
            ended: self.ended,
            excuses,
        };
        self.asked.insert(token, asked);
    }

    /// An operation has been handed back; of a read with what it saw.
    ///
    /// # Errors
    /// What it violates.
    pub(super) fn ended(
        &mut self,
        done: &OriginDone,
        seen: &[u64],
        disk: &Disk,
        (now, timeout, excuses): (Instant, Duration, u64),
    ) -> Result<(), Violation> {
        let (token, result) = (done.token, done.result);
        let Some(asked) = self.asked.remove(&token) else {
            return violation("I8", format!("operation {} ended twice", token.0));
        };
        if let Err(error) = result {
            let timed_out = asked.since + timeout <= now;
            let excused = match error {
                IoError::Failed | IoError::NoSpace => excuses > asked.excuses,
                IoError::TimedOut | IoError::Disconnected => timed_out,
                IoError::Invalid | IoError::NotPermitted | IoError::ShuttingDown => false,
            };
            if !excused {
                let what = format!("operation {} failed for nothing: {error}", token.0);
                return violation("never hostage", what);
            }
        }
        match asked.doing {
            Doing::Read if result.is_ok() => {
                self.ended += u64::from(done.volatile);
                self.read_ended(&asked, seen)?;
                self.copies_are_durable(disk)
            }
            Doing::Change { number, fua, .. } => {
                self.ended += 1;
                for at in asked.first..asked.first + asked.count {
                    let sector = &mut self.sectors[at];
                    sector.touch();
                    sector.under_way -= 1;
                    if result.is_ok() {
                        sector.acknowledged = sector.acknowledged.max(number);
                        sector.known = sector.known.max(number);
                        if fua {
                            self.is_durable(at, number, disk)?;
                        }
                    }
                }
                Ok(())
            }
            Doing::Flush if result.is_ok() => {
                (0..SECTORS).try_for_each(|at| self.is_durable(at, asked.floors[at], disk))?;
                self.flushed = self.flushed.max(asked.ended);
                self.copies_are_durable(disk)
            }
            Doing::Flush => {
                for sector in &mut self.sectors {
                    sector.copy = sector.copy.filter(|copy| copy.ended <= self.flushed);
                }
                Ok(())
            }
            Doing::Read => Ok(()),
        }
    }

    /// Holds that copies are durable for which a flush vouches.
    fn copies_are_durable(&self, disk: &Disk) -> Result<(), Violation> {
        for (at, sector) in self.sectors.iter().enumerate() {
            let copy = sector.copy.filter(|copy| copy.ended <= self.flushed);
            let durable = disk.durable(at);
            if let Some(copy) = copy.filter(|copy| copy.value != durable) {
                let what = format!(
                    "sector {at} is durably {durable}, a copy of it is {}",
                    copy.value
                );
                return violation("I3", what);
            }
        }
        Ok(())
    }

    fn read_ended(&mut self, asked: &Asked, seen: &[u64]) -> Result<(), Violation> {
        let range = asked.first..asked.first + asked.count;
        for (at, value) in range.zip(seen.iter().copied()) {
            let sector = &mut self.sectors[at];
            if value != 0 && !sector.changes.contains(&value) {
                let what = format!("sector {at} reads {value:x}, which nobody wrote there");
                return violation("I4", what);
            }
            let floor = asked.floors[at];
            let Some(number) = sector.explains(value, floor) else {
                let what = format!("sector {at} reads {value}, and had {floor} before");
                return violation("I1", what);
            };
            sector.known = sector.known.max(number);
            let untouched = asked.quiet[at] && asked.touches[at] == sector.touches;
            if let (true, Some(copy)) = (untouched, sector.copy)
                && copy.value != value
            {
                let what = format!("sector {at} became {value}, a copy of it is {}", copy.value);
                return violation("I3", what);
            }
            if untouched {
                let ended = self.ended;
                sector.copy.get_or_insert(Copied { value, ended });
            }
        }
        Ok(())
    }

    /// Holds that a change, or a newer one, is durable.
    pub(super) fn is_durable(&self, at: usize, number: u64, disk: &Disk) -> Result<(), Violation> {
        let value = disk.durable(at);
        if self.sectors[at].explains(value, number).is_none() {
            let what = format!("sector {at} is durably {value}, {number} was acknowledged so");
            return violation("I2", what);
        }
        Ok(())
    }
}

fn violation(invariant: &'static str, what: String) -> Result<(), Violation> {
    Err(Violation::new(invariant, what))
}
