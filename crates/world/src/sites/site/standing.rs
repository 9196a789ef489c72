//! The disk as the other host's, attached here while a client waits: what the origin lacks is kept.
//!
//! ```text
//!   watch ─► the owner's epoch ─► attach as standby ─► ask ─► ship ─► durable ─► ask from behind it
//!                                     └── the link is lost, nobody waits, the disk comes: detached, its log stays
//! ```

mod copying;

use self::copying::Copying;
use super::shipping::stretch;
use super::{Around, Life, Site};
use crate::sites::link::{Frame, Lent, Question};
use block_io::Payload;
use cache::{
    Command, ControlError, ControlId, ControlOutcome, OfDirty, OwnerRecord, Shipment, Tenure,
    WriteBack, WritePolicy,
};
use handoff::{Came, Keeping, Ownership, Role};
use units::{DiskSlot, Duration, Instant};

/// How often the owner is asked when there was nothing more, and while somebody here waits for the disk.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_OF_CLAIM: Duration = Duration::from_millis(2);
/// How long the owner has for an answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
/// How long the flash may take.
const KEEP_TIME_MAX: Duration = Duration::from_secs(2);
/// After how long a disk that could not leave tries again.
const LEAVE_PAUSE: Duration = Duration::from_micros(300);
/// After how long what went wrong begins anew.
const RETRY_PAUSE: Duration = Duration::from_millis(300);

const NOBODY: OwnerRecord = OwnerRecord {
    epoch: 0,
    cache: 0,
    open: false,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The owner was asked for its epoch.
    Watching(u64),
    Attaching(ControlId),
    Stands(DiskSlot),
    /// What has come is on its way to flash.
    Keeps(DiskSlot, ControlId),
    Leaving(DiskSlot, ControlId),
}

/// A disk that stands by.
struct Standing {
    state: State,
    /// The owner's.
    epoch: u64,
    keeping: Keeping,
    /// The question that is not answered yet.
    asked: Option<u64>,
    /// When to ask again, or when it is too late.
    next_at: Instant,
    /// It is to leave as soon as it can.
    ends: bool,
    /// The cache goes ahead.
    copying: Option<Copying>,
}

/// Whether the disk stands by here.
#[derive(Default)]
pub(super) struct StandsBy {
    standing: Option<Standing>,
    /// Not before then.
    not_before: Instant,
    /// The epoch that the host would have after the owner that this was kept of.
    succeeds: Option<u64>,
}

impl StandsBy {
    /// When something is to be done.
    pub(super) fn next(&self) -> Instant {
        match &self.standing {
            None => self.not_before,
            Some(standing) => {
                let copying = standing.copying.as_ref().and_then(Copying::next);
                copying.map_or(standing.next_at, |at| at.min(standing.next_at))
            }
        }
    }

    /// Where it stands by, if it does and is not about to leave.
    pub(super) fn slot(&self) -> Option<DiskSlot> {
        match self.standing.as_ref()?.state {
            State::Stands(disk) | State::Keeps(disk, _) => Some(disk),
            State::Watching(_) | State::Attaching(_) | State::Leaving(..) => None,
        }
    }

    /// Whether the cache goes ahead, or went.
    pub(super) fn is_copying(&self) -> bool {
        let standing = self.standing.as_ref();
        standing.is_some_and(|standing| standing.copying.is_some())
    }

    /// With which tenure the disk is taken in this epoch, as far as what is kept of it says.
    pub(super) fn tenure(&mut self, epoch: u64) -> Tenure {
        match self.succeeds.take() {
            Some(succeeds) if succeeds == epoch => Tenure::Successor,
            _ => Tenure::Owner,
        }
    }

    fn ends(&mut self, now: Instant) {
        self.standing = None;
        self.not_before = now + RETRY_PAUSE;
    }
}

impl Life {
    /// Whether the disk is to stand by here, if it may and the hosts hear each other.
    pub(super) fn may_stand(&self, may: bool) -> bool {
        let role = self.ownership.as_ref().map(Ownership::role);
        let waits = matches!(role, Some(Role::Standby | Role::Claiming));
        may && waits && self.clients.are_there() && self.slot().is_none()
    }

    /// When something is to be done, or is late.
    pub(super) fn next_of_standing(&self, may: bool) -> Option<Instant> {
        let stands_by = &self.stands_by;
        let is_due = stands_by.standing.is_some() || self.may_stand(may);
        is_due.then(|| stands_by.next())
    }
}

/// A host's disk that stands by, or is to.
pub(super) struct Standby<'a> {
    number: usize,
    cache: u128,
    ships: bool,
    copies: bool,
    life: &'a mut Life,
}

impl<'a> Standby<'a> {
    pub(super) fn of(site: &'a mut Site) -> Self {
        Self {
            number: site.number,
            cache: site.device.uuid(),
            ships: site.ships,
            copies: site.copies,
            life: &mut site.life,
        }
    }

    /// It is.
    pub(super) fn stand_on(&mut self, at: &mut Around) {
        let now = at.run.now();
        let Some(standing) = &mut self.life.stands_by.standing else {
            self.life.stands_by.not_before = now + PAUSE;
            let may = self.ships || self.copies;
            if at.link.is_linked(self.number) && self.life.may_stand(may) {
                self.ask_to_watch(at);
            }
            return;
        };
        if standing.next_at > now {
            return self.copy_on(at);
        }
        if standing.ends && matches!(standing.state, State::Stands(_)) {
            return self.stand_down(at);
        }
        standing.next_at = now + ANSWER_TIME_MAX;
        match standing.state {
            State::Watching(_) => self.life.stands_by.ends(now),
            State::Attaching(_) | State::Leaving(..) => {}
            State::Stands(_) if standing.asked.is_some() => {
                at.run.hit("records were late");
                if at.run.one_in(2) {
                    self.stand_down(at);
                } else {
                    self.keep_anew(now);
                }
            }
            State::Stands(_) if !self.ships => {}
            State::Stands(_) => {
                let number = at.run.next_id();
                standing.asked = Some(number);
                let ask = Frame::Borrow {
                    number,
                    epoch: standing.epoch,
                    question: Question::Records(standing.keeping.question()),
                };
                at.link.send(self.number, ask, at.run);
            }
            State::Keeps(..) => {
                at.run.hit("flash was late with records");
                self.stand_down(at);
            }
        }
    }

    /// The copy of the owner's cache, and the owner's epoch.
    fn copying(&mut self) -> Option<(&mut Copying, u64)> {
        let standing = self.life.stands_by.standing.as_mut()?;
        let epoch = standing.epoch;
        Some((standing.copying.as_mut()?, epoch))
    }

    fn ask_to_watch(&mut self, at: &mut Around) {
        self.life.stands_by.succeeds = None;
        let number = at.run.next_id();
        self.life.stands_by.standing = Some(Standing {
            state: State::Watching(number),
            epoch: 0,
            keeping: Keeping::new(self.cache),
            asked: None,
            next_at: at.run.now() + ANSWER_TIME_MAX,
            ends: false,
            copying: None,
        });
        at.link.send(self.number, Frame::Watch { number }, at.run);
    }

    /// The owner says in which epoch it has the disk; none if it has not.
    pub(super) fn watched(&mut self, number: u64, epoch: Option<u64>, at: &mut Around) {
        let Some(standing) = &mut self.life.stands_by.standing else {
            return;
        };
        if standing.state != State::Watching(number) {
            return;
        }
        let now = at.run.now();
        let Some(epoch) = epoch else {
            return self.life.stands_by.ends(now);
        };
        let id = ControlId(at.run.next_id());
        standing.epoch = epoch;
        standing.state = State::Attaching(id);
        let disk = at.shared.disk();
        let command = Command::Attach {
            disk: disk.id(),
            name: "disk".to_owned(),
            size: disk.size(),
            policy: WritePolicy::Through,
            read_only: false,
            tenant: "vm".to_owned(),
            shared: false,
            fingerprint: None,
            owner: Some(disk.owner().unwrap_or(NOBODY)),
            write_back: WriteBack::default(),
            tenure: Tenure::Standby,
        };
        self.command_standby(id, command, at);
    }

    fn command_standby(&mut self, id: ControlId, command: Command, at: &mut Around) {
        let number = self.number;
        at.run.event(&[71, number as u64], || {
            let what = match &command {
                Command::Ship { shipment, .. } => format!("ship {:?}", stretch(shipment)),
                other => format!("{other:?}"),
            };
            format!("host {number} stands by, command {}: {what}", id.0)
        });
        let cache = self.life.process.cache_mut().expect("it has begun");
        cache.control(id, command, at.run.now());
    }

    /// The owner answers. False if that is not what was asked here.
    pub(super) fn records_came(&mut self, number: u64, lent: &Lent, at: &mut Around) -> bool {
        let Some(standing) = &mut self.life.stands_by.standing else {
            return false;
        };
        if standing.asked != Some(number) {
            return false;
        }
        standing.asked = None;
        let (now, State::Stands(disk)) = (at.run.now(), standing.state) else {
            return true;
        };
        let Lent::Records(shipment) = lent else {
            at.run.hit("records refused");
            self.keep_anew(now);
            return true;
        };
        match standing.keeping.came(stretch(shipment)) {
            Came::News => {
                let id = ControlId(at.run.next_id());
                standing.state = State::Keeps(disk, id);
                standing.next_at = now + KEEP_TIME_MAX;
                let command = Command::Ship {
                    disk,
                    epoch: shipment.period + 1,
                    shipment: from_the_link(shipment.clone(), at),
                };
                self.command_standby(id, command, at);
            }
            Came::Nothing => self.ask_soon(now),
            Came::OutOfPlace => self.keep_anew(now),
        }
        true
    }

    fn ask_soon(&mut self, now: Instant) {
        let role = self.life.ownership.as_ref().map(Ownership::role);
        let is_claimed = role == Some(Role::Claiming);
        if let Some(standing) = &mut self.life.stands_by.standing {
            let pause = if is_claimed { PAUSE_OF_CLAIM } else { PAUSE };
            standing.next_at = now + pause;
        }
    }

    /// Somebody here waits for the disk.
    pub(super) fn hurry(&mut self, now: Instant) {
        if let Some(standing) = &mut self.life.stands_by.standing
            && let (State::Stands(_), None) = (standing.state, standing.asked)
        {
            standing.next_at = standing.next_at.min(now + PAUSE_OF_CLAIM);
        }
    }

    /// It begins anew with the owner's oldest record.
    fn keep_anew(&mut self, now: Instant) {
        let cache = self.cache;
        if let Some(standing) = &mut self.life.stands_by.standing {
            standing.keeping = Keeping::new(cache);
            standing.asked = None;
            standing.next_at = now + RETRY_PAUSE;
        }
    }

    /// A command has ended. False if it is none of these.
    pub(super) fn stood(
        &mut self,
        id: ControlId,
        result: Result<ControlOutcome, ControlError>,
        at: &mut Around,
    ) -> bool {
        let now = at.run.now();
        let Some(standing) = &mut self.life.stands_by.standing else {
            return false;
        };
        match (standing.state, result) {
            (State::Attaching(of), result) if of == id => {
                let Ok(ControlOutcome::Attached { disk, dropped, .. }) = result else {
                    at.run.hit("standby refused");
                    self.life.stands_by.ends(now);
                    return true;
                };
                if dropped.is_some() {
                    at.run.hit("standby dropped leftovers");
                }
                standing.state = State::Stands(disk);
                standing.next_at = now;
                let (epoch, ends) = (standing.epoch, standing.ends);
                standing.copying = self.copies.then(|| Copying::new(now));
                if self.copies {
                    self.begin_copy(epoch, at);
                }
                if ends {
                    self.stand_down(at);
                }
            }
            (State::Keeps(disk, of), result) if of == id => {
                standing.state = State::Stands(disk);
                standing.next_at = now;
                if result.is_ok() {
                    standing.keeping.is_durable();
                    at.run.hit("kept records");
                    if at.run.one_in(2) {
                        self.ask_soon(now);
                    }
                } else {
                    at.run.hit("records were not kept");
                    self.keep_anew(now);
                }
            }
            (State::Leaving(_, of), Ok(_)) if of == id => {
                self.life.stands_by.ends(now);
                self.life.borrowing = None;
            }
            // What is discarded has to end first.
            (State::Leaving(disk, of), Err(_)) if of == id => {
                standing.state = State::Stands(disk);
                standing.ends = true;
                standing.next_at = now + LEAVE_PAUSE;
            }
            _ => return false,
        }
        true
    }

    /// It stands by no more. What has come stays in its log.
    pub(super) fn stand_down(&mut self, at: &mut Around) {
        let now = at.run.now();
        self.end_copy(at);
        let Some(standing) = &mut self.life.stands_by.standing else {
            return;
        };
        match standing.state {
            State::Watching(_) => self.life.stands_by.ends(now),
            State::Attaching(_) => standing.ends = true,
            State::Stands(disk) | State::Keeps(disk, _) => {
                let id = ControlId(at.run.next_id());
                standing.state = State::Leaving(disk, id);
                let command = Command::Detach {
                    disk,
                    fingerprint: None,
                    dirty: OfDirty::Keep,
                };
                self.command_standby(id, command, at);
            }
            State::Leaving(..) => {}
        }
    }

    /// The disk comes with this epoch. True as long as it stands by here.
    pub(super) fn leaves_standing(&mut self, epoch: u64, at: &mut Around) -> bool {
        let Some(standing) = &mut self.life.stands_by.standing else {
            return false;
        };
        let stands = matches!(standing.state, State::Stands(_) | State::Keeps(..));
        if stands && standing.epoch + 1 == epoch {
            let counts = match &mut standing.copying {
                Some(copying) => copying.comes(at.run.now()),
                None => Some(at.run.one_in(2)),
            };
            let Some(counts) = counts else {
                return true;
            };
            if counts && standing.copying.is_some() {
                at.run.hit("the copy counts");
            }
            self.life.stands_by.succeeds = counts.then_some(epoch);
        }
        self.stand_down(at);
        self.life.stands_by.standing.is_some()
    }
}

fn from_the_link(shipment: Shipment<Vec<u8>>, at: &Around) -> Shipment {
    let pool = at.run.pool();
    shipment.map(|bytes| {
        let mut buf = pool.take(bytes.len());
        buf[..bytes.len()].copy_from_slice(&bytes);
        Payload::from_iter([buf.freeze().slice(0..bytes.len())])
    })
}
