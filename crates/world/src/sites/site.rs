//! One of two hosts between which a disk roams: its flash and the process on it, the ownership that decides,
//! and the requests that wait for that.
//!
//! ```text
//!   guests ──► request ─┬─ the disk is here ──► cache ──► flash, origin
//!                       └─ elsewhere: told to the ownership, or asked over the link
//!   ownership ──actions──► work (one thing at a time) ──events──► ownership
//! ```

mod borrowing;
mod effects;
mod hand_over;
mod lending;
mod life;
mod link_end;
mod noted;
mod shipping;
mod standing;

use self::borrowing::{Arrival, Borrowing, Borrows};
pub(super) use self::lending::LoanFaults;
use self::lending::{Lending, Lends};
use self::noted::Noted;
use self::shipping::{Ships, kept_with};
use self::standing::{Standby, StandsBy};
use super::bytes_of;
use super::clients::{Asked, Clients, Served};
use super::guard::{Guard, holds};
use super::link::{Frame, Link};
use super::plan::Plan;
use super::shared::{Holder, Opened, Shared, Straggler};
use crate::device::{CacheDevice, FIRST_CACHE};
use crate::process::Process;
use crate::run::Run;
use crate::state_directory::StateDirectory;
use crate::violation::Violation;
use block_io::{IoError, Payload, Verb};
use cache::{ControlId, RequestId, WritePolicy};
use handoff::{Action, Client, Decision, Event, Found, Holder as Whose, Kept, Ownership, Record};
use std::collections::BTreeMap;
use units::{Duration, Instant};

/// How long a guest waits for its disk.
const PATIENCE: Duration = Duration::from_secs(10);
/// After how long what failed or was refused is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// What the parts of the world have that are no host's.
pub(super) struct Around<'a> {
    pub(super) run: &'a mut Run,
    pub(super) shared: &'a mut Shared,
    pub(super) link: &'a mut Link,
}

/// An answer to a guest's request.
pub(super) struct Answer {
    pub(super) request: u64,
    pub(super) result: Result<Vec<u8>, IoError>,
}

/// For whom the cache does something.
enum Asker {
    Guest(u64),
    Peer(u64),
    /// What the other host has asked for is here, and goes there when it is durable.
    PeerHas(u64, Vec<u8>),
    /// What pulls the lender's blocks into the cache.
    Pull,
    /// What discards what the owner has changed.
    Stale,
}

/// What is under way for the ownership.
#[derive(Clone, Copy, Debug)]
struct Work {
    action: Action,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It ends, or goes on, then.
    At(Instant),
    /// Requests that are under way have to end.
    InFlight,
    /// The cache has a command.
    Commanded(ControlId),
    /// What was given up has to be over.
    Ghosts,
    /// The other host has to have the rest, until then.
    Shipped(Instant),
}

/// What ends with the process.
struct Life {
    process: Process,
    state_directory: StateDirectory,
    ownership: Option<Ownership>,
    opened: Option<Opened>,
    work: Option<Work>,
    is_held: bool,
    asked: BTreeMap<RequestId, Asker>,
    clients: Clients,
    /// Since when a guest waits for the disk.
    waits_since: Option<Instant>,
    retry_at: Option<Instant>,
    /// Whether every claim since the disk was given away was a return.
    are_returns: bool,
    arrival: Arrival,
    borrowing: Option<Borrowing>,
    lending: Lending,
    ships: Ships,
    noted: Noted,
    stands_by: StandsBy,
}

/// See the module's header.
pub(super) struct Site {
    number: usize,
    policy: WritePolicy,
    loan_faults: LoanFaults,
    device: CacheDevice,
    /// On the host's disk.
    decision: Option<(Decision, Option<Kept>)>,
    /// What the origin lacks goes along with the disk.
    ships: bool,
    /// The cache of the disk goes ahead of it.
    copies: bool,
    life: Life,
    answers: Vec<Answer>,
}

impl Site {
    pub(super) fn new(number: usize, plan: &Plan, run: &mut Run) -> Self {
        Self {
            number,
            policy: plan.policy,
            loan_faults: plan.loan_faults,
            device: CacheDevice::blank(run).formatted(FIRST_CACHE + number as u128),
            decision: None,
            ships: plan.along.dirty,
            copies: plan.along.cache,
            life: Life::new(None, run.now()),
            answers: Vec::new(),
        }
    }

    // What others see of it.

    /// Whether its daemon has begun to work.
    pub(super) fn is_up(&self) -> bool {
        self.life.ownership.is_some()
    }

    /// Its daemon.
    pub(super) fn process(&mut self) -> &mut Process {
        &mut self.life.process
    }

    /// Whether changes of guests are carried out here.
    pub(super) fn serves(&self) -> bool {
        self.life.serves()
    }

    /// Whether it has the origin open.
    pub(super) fn has_origin(&self) -> bool {
        self.life.opened.is_some()
    }

    pub(super) fn take_answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    /// For a message: where it stands.
    pub(super) fn describe(&self) -> String {
        let life = &self.life;
        format!(
            "host {}: {:?}, {:?}, held {}, asked {}, {:?}, {}",
            self.number,
            life.ownership,
            life.work,
            life.is_held,
            life.asked.len(),
            life.process.disk(0).standing(),
            life.clients.describe()
        )
    }

    /// What it borrows.
    fn borrows<'a, 'b>(&'a mut self, at: &'a mut Around<'b>) -> Borrows<'a, 'b> {
        Borrows::new(self.number, &mut self.life, at)
    }

    /// What it lends.
    fn lends<'a, 'b>(&'a mut self, at: &'a mut Around<'b>) -> Lends<'a, 'b> {
        Lends::new((self.number, self.loan_faults), &mut self.life, at)
    }

    // Its life.

    /// The daemon starts.
    pub(super) fn start(&mut self, crash_at: Option<u64>, at: &mut Around) {
        let now = at.run.now();
        at.run.event(&[30, self.number as u64], || {
            format!("host {} starts", self.number)
        });
        self.life = Life::new(crash_at, now);
        self.device.open(at.run);
        let recovery = self.device.recovery(at.run);
        self.life.process.open(recovery);
    }

    /// The daemon dies, with `power_cut` the host.
    pub(super) fn die(&mut self, power_cut: bool, at: &mut Around) -> Result<(), Violation> {
        let number = self.number;
        at.run
            .event(&[31, number as u64, u64::from(power_cut)], || {
                format!("host {number} dies, power cut: {power_cut}")
            });
        at.run.hit(if power_cut {
            "power cut"
        } else {
            "daemon killed"
        });
        let lands = at.run.one_in(2);
        self.life.state_directory.end(lands, &mut self.device);
        let was_open = at.shared.disk().is_open_to(self.device.uuid());
        while let Some(made) = self.life.process.disk_mut(0).take_record() {
            if at.run.one_in(2) {
                let record = made.record;
                at.shared.straggle(Straggler::Owner { record }, at.run);
            }
        }
        match self.life.work.map(|work| work.action) {
            Some(Action::Decide(decision)) if at.run.one_in(2) => {
                self.decision = Some((decision, self.life.ships.kept()));
            }
            Some(Action::Record { epoch }) if at.run.one_in(2) => {
                let (from, kept) = (number, kept_with(self.decision, epoch));
                let named = Straggler::Holder { from, epoch, kept };
                at.shared.straggle(named, at.run);
            }
            _ => {}
        }
        self.device.end(power_cut);
        if let Some(opened) = self.life.opened.take() {
            at.shared.close(opened, at.run)?;
        }
        at.shared.unlock(number);
        at.shared.disk().judge_origin_alone()?;
        if power_cut && was_open {
            at.shared.disk_mut().history_mut().lost_power();
        }
        self.life = Life::new(None, at.run.now());
        self.answers.clear();
        at.link.end_of(number, at.run);
        Ok(())
    }

    fn opened(&mut self, at: &mut Around) -> Result<(), Violation> {
        let Some(finished) = self.life.process.finished() else {
            return Ok(());
        };
        let recovered = finished
            .map_err(|error| Violation::new("I8", format!("a cache cannot be opened: {error}")))?;
        let cache = recovered.cache;
        self.device.in_use(cache.facts().status().incarnation);
        self.life.process.serve(cache);
        let Holder { host, epoch } = at.shared.holder();
        let owner = if host == self.number {
            Whose::Here
        } else {
            Whose::Peer
        };
        let found = Found {
            record: Some(Record { owner, epoch }),
            decision: self.decision.map(|(decision, _)| decision),
        };
        at.run.event(&[32], || format!("found {found:?}"));
        let (ownership, actions) = Ownership::found(found);
        self.life.ownership = Some(ownership);
        self.life.retry_at = Some(at.run.now() + RETRY_PAUSE);
        self.act(actions, at)
    }

    // Clients and their requests.

    /// A client connects.
    pub(super) fn connect(&mut self, client: u64, at: &mut Around) {
        if self.life.clients.came(client) {
            let is_there = true;
            at.link
                .send(self.number, Frame::Client { is_there }, at.run);
        }
    }

    /// A client has gone: what it has waited for it does not wait for any more.
    pub(super) fn disconnect(&mut self, client: u64, at: &mut Around) -> Result<(), Violation> {
        if self.life.clients.went(client, at.run.now()) {
            let is_there = false;
            at.link
                .send(self.number, Frame::Client { is_there }, at.run);
        }
        if !self.life.clients.are_there() {
            Standby::of(self).stand_down(at);
        }
        let nobody_waits = !self.life.clients.wait_for_disk();
        if self.life.waits_since.is_some() && nobody_waits {
            at.run.hit("nobody waits for a claim");
            self.life.waits_since = None;
            return self.tell(Event::PatienceEnded, at);
        }
        Ok(())
    }

    /// Who is connected here, and what waits.
    pub(super) fn clients(&self) -> &Clients {
        &self.life.clients
    }

    /// A client asks.
    pub(super) fn request(&mut self, asked: Asked, at: &mut Around) -> Result<(), Violation> {
        if self.life.clients.served(asked.client) == Some(Served::Ended) {
            self.answer(asked.request, Err(IoError::Failed));
            return Ok(());
        }
        if self.life.slot().is_none() {
            return self.stand_by(asked, at);
        }
        self.life.clients.asks(&asked.verb, at.run.now());
        if !self.life.is_held {
            self.life.clients.serve(asked.client);
            let is_change = !matches!(asked.verb, Verb::Read { .. } | Verb::Flush);
            if is_change {
                self.tell(Event::Changing, at)?;
            }
            let id = RequestId(at.run.next_id());
            let asker = Asker::Guest(asked.request);
            self.life.noted.begins(asked.request, &asked.verb);
            self.life.ask_cache(id, asker, asked.verb, at.run.now());
            return Ok(());
        }
        let is_flush = matches!(asked.verb, Verb::Flush);
        self.life.clients.park(asked, false);
        if is_flush {
            return Ok(());
        }
        self.tell(Event::Asked(Client::Old), at)
    }

    /// The disk is not here.
    fn stand_by(&mut self, asked: Asked, at: &mut Around) -> Result<(), Violation> {
        let is_old = self.life.clients.served(asked.client) == Some(Served::Before);
        match &asked.verb {
            // It claims nothing: what was written here before is at the origin.
            Verb::Flush => {
                self.answer(asked.request, Ok(Vec::new()));
                Ok(())
            }
            Verb::Read { offset, length } if !is_old && !holds(Guard::StandbyAsksOwner) => {
                let bytes = at.shared.bytes();
                let end = (*offset + *length).to_usize();
                self.answer(asked.request, Ok(bytes[offset.to_usize()..end].to_vec()));
                Ok(())
            }
            Verb::Read { .. } if !is_old => {
                self.life.clients.park(asked, true);
                self.ask_for_bytes(at);
                Ok(())
            }
            _ => {
                self.life.clients.park(asked, false);
                let client = if is_old { Client::Old } else { Client::New };
                self.tell(Event::Asked(client), at)
            }
        }
    }

    fn answer(&mut self, request: u64, result: Result<Vec<u8>, IoError>) {
        self.answers.push(Answer { request, result });
    }

    fn replied(&mut self, id: RequestId, result: Result<Payload, IoError>, at: &mut Around) {
        let bytes = result.map(|payload| bytes_of(&payload));
        match self.life.asked.remove(&id) {
            Some(Asker::Guest(request)) => {
                self.life.noted.ends(request, bytes.is_err());
                self.answer(request, bytes);
            }
            Some(Asker::Peer(number)) => self.lends(at).has_read(number, bytes.ok()),
            Some(Asker::PeerHas(number, read)) => {
                let bytes = bytes.is_ok().then_some(read);
                at.link
                    .send(self.number, Frame::Bytes { number, bytes }, at.run);
            }
            Some(Asker::Pull) => self.borrows(at).pull(),
            Some(Asker::Stale) => Standby::of(self).discarded(bytes.is_ok(), at),
            None => {}
        }
    }

    // What ends, and when.

    /// When something is due here, by what it is.
    pub(super) fn due(&self, shared: &Shared) -> [(Due, Option<Instant>); 10] {
        let life = &self.life;
        let origin = life.opened.as_ref();
        [
            (Due::Flash, self.device.next_deadline()),
            (
                Due::Origin,
                origin.and_then(|opened| shared.next_deadline(opened)),
            ),
            (Due::Tick, life.process.next_tick()),
            (Due::StateDirectory, life.state_directory.next_answer()),
            (Due::OwnerRecord, life.process.disk(0).next_record()),
            (
                Due::Work,
                life.work.and_then(|work| work.next(life.asked.is_empty())),
            ),
            (Due::Retry, life.retry_at),
            (
                Due::LateLender,
                life.borrowing.as_ref().and_then(Borrowing::next_deadline),
            ),
            (Due::LateLoan, life.lending.next_answer()),
            (
                Due::Standing,
                life.next_of_standing(self.ships || self.copies),
            ),
        ]
    }

    /// It happens.
    pub(super) fn happen(&mut self, due: Due, at: &mut Around) -> Result<(), Violation> {
        match due {
            Due::Flash => self.flash_ends(at),
            Due::Origin => self.origin_ends(at),
            Due::Tick => {
                self.life.process.tick(at.run.now());
                Ok(())
            }
            Due::StateDirectory => {
                let state = &mut self.life.state_directory;
                state.answer(&mut self.life.process, &mut self.device, at.run);
                Ok(())
            }
            Due::OwnerRecord => self.record_is_made(at),
            Due::Work => self.work(at),
            Due::Retry => self.try_again(at),
            Due::LateLender => {
                self.borrows(at).lender_is_late();
                Ok(())
            }
            Due::LateLoan => {
                self.lends(at).answer_late();
                Ok(())
            }
            Due::Standing => {
                if self.life.process.survives_operation() {
                    Standby::of(self).stand_on(at);
                }
                Ok(())
            }
        }
    }

    fn try_again(&mut self, at: &mut Around) -> Result<(), Violation> {
        let now = at.run.now();
        self.life.retry_at = Some(now + RETRY_PAUSE);
        self.ask_for_bytes(at);
        let since = self.life.waits_since;
        if since.is_some_and(|since| now.since(since) >= PATIENCE) {
            self.life.waits_since = None;
            return self.tell(Event::PatienceEnded, at);
        }
        self.tell(Event::Retry, at)
    }
}

/// What can happen at a host by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Flash,
    Origin,
    Tick,
    StateDirectory,
    OwnerRecord,
    Work,
    Retry,
    LateLender,
    LateLoan,
    Standing,
}
