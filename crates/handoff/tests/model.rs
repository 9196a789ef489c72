//! Every order of events of two or three hosts that hand a unit to each other, up to some faults.
//!
//! A state of the model is a machine for each host, what the hosts do at the moment, the owner's record, and what is on
//! its way between them. From each state every step is taken: guests ask, operations end well, badly, or badly
//! although they have worked, messages arrive, the link breaks, a host's daemon is killed. Nothing is random, so what
//! the search does not find is not there, within the number of faults.

#![allow(
    clippy::struct_excessive_bools,
    reason = "a state of the model is what its parts are, each by itself"
)]

use handoff::{
    Action, Client, Decision, Event, Found, Guard, Heard, Holder, Message, Ownership, Partners,
    Record, Role, TakeError, Word, first, remove,
};
use std::collections::{BTreeSet, VecDeque};
use units::{Map, Prng};

/// What may go wrong, and how often guests ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    hosts: usize,
    asks: u8,
    clients: u8,
    kills: u8,
    cuts: u8,
    failures: u8,
    /// How often a host turns to another one for no reason that is seen here.
    turns: u8,
    /// Whether the evidence can be wrong: a guest counts as stopped that is not.
    evidence: bool,
    /// Whether hosts can lock the origin.
    locks: bool,
    /// Whether the record is replaced only if it is the one that is expected.
    compares: bool,
}

/// A host with its daemon.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Host {
    ownership: Ownership,
    partners: Partners<usize>,
    /// What is under way.
    doing: Option<Action>,
    serves: bool,
    /// Has the origin open for writing.
    is_open: bool,
    has_lock: bool,
    /// The last decision, on this host's disk.
    decision: Option<(Decision, usize)>,
    /// Has changes that the origin lacks.
    is_dirty: bool,
    guest: Guest,
}

/// The client of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Guest {
    waits: bool,
    /// Was served.
    is_known: bool,
    /// A guest of another host has changed the unit since it was served.
    is_overtaken: bool,
    /// Gets errors for ever.
    has_ended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    hosts: Vec<Host>,
    /// The owner's records of the unit's disks: whose, and since which epoch.
    records: [(usize, u64); 2],
    /// Of each pair of hosts, if a session stands: what is on its way to the first and to the second of them.
    sessions: Vec<Option<[VecDeque<Message>; 2]>>,
    left: Budget,
    /// What is not as it must be.
    wrong: Option<&'static str>,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Ask(usize),
    NewClient(usize),
    PatienceEnds(usize),
    Retry(usize),
    Arrive {
        to: usize,
        from: usize,
        has_stopped: bool,
    },
    /// Who does not have the unit looks who has.
    LookUp(usize),
    Turn {
        host: usize,
        to: usize,
    },
    Work(usize),
    Fail {
        host: usize,
        stands: usize,
    },
    Kill {
        host: usize,
        stands: usize,
    },
    Cut(usize),
    Link(usize),
}

/// How many orders of the events of three hosts are walked through.
const WALKS: u64 = 20_000;
/// How many steps each has.
const STEPS: usize = 450;

/// The pairs of hosts.
const PAIRS: [(usize, usize); 3] = [(0, 1), (0, 2), (1, 2)];

fn pair(one: usize, other: usize) -> usize {
    one + other - 1
}

impl Step {
    /// Whether it goes on happening as long as it can: no fault, and nothing that a guest decides.
    fn must_happen_at_last(self) -> bool {
        match self {
            Self::Retry(_) | Self::Work(_) | Self::Link(_) | Self::LookUp(_) => true,
            Self::Arrive { has_stopped, .. } => has_stopped,
            _ => false,
        }
    }
}

impl World {
    fn new(left: Budget) -> Self {
        let host = |at: usize| Host {
            partners: Partners::new((at + 1) % left.hosts),
            ownership: Ownership::found(Found {
                record: None,
                decision: None,
            })
            .0,
            doing: None,
            serves: false,
            is_open: false,
            has_lock: false,
            decision: None,
            is_dirty: false,
            guest: Guest::default(),
        };
        let mut world = Self {
            hosts: (0..left.hosts).map(host).collect(),
            records: [(0, 1); 2],
            sessions: vec![None; left.hosts * (left.hosts - 1) / 2],
            left,
            wrong: None,
        };
        (0..left.hosts).for_each(|host| world.start(host));
        world
    }

    fn start(&mut self, host: usize) {
        let record = Record::of_unit(self.records_for(host));
        let noted = self.hosts[host].decision;
        let partner = first(noted, record.zip(Some(self.owner())));
        let partner = partner.unwrap_or((host + 1) % self.hosts.len());
        let decision = noted.map(|(decision, _)| decision);
        let (ownership, actions) = Ownership::found(Found { record, decision });
        self.hosts[host].ownership = ownership;
        self.hosts[host].partners = Partners::new(partner);
        self.carry_out(host, actions);
    }

    /// Whom the latest record names.
    fn owner(&self) -> usize {
        let [first, second] = self.records;
        if second.1 > first.1 {
            second.0
        } else {
            first.0
        }
    }

    /// The records as a host reads them.
    fn records_for(&self, host: usize) -> [Record; 2] {
        self.records.map(|(owner, epoch)| Record {
            owner: if owner == host {
                Holder::Here
            } else {
                Holder::Peer
            },
            epoch,
        })
    }

    fn tell(&mut self, host: usize, event: Event) {
        let actions = self.hosts[host].ownership.take_event(event);
        self.carry_out(host, actions);
    }

    fn carry_out(&mut self, host: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(message) => {
                    self.send(host, *self.hosts[host].partners.partner(), message);
                }
                Action::Serve => {
                    self.hosts[host].serves = true;
                    if self.hosts[host].doing == Some(Action::Settle) {
                        self.hosts[host].doing = None;
                    }
                    self.serve_guest(host);
                }
                Action::Fail => self.hosts[host].guest.waits = false,
                Action::EndOldClients => {
                    let guest = &mut self.hosts[host].guest;
                    if guest.is_known {
                        guest.waits = false;
                        guest.has_ended = true;
                    }
                }
                Action::Settle
                | Action::Close
                | Action::Decide(_)
                | Action::Record { .. }
                | Action::Unlock
                | Action::Take { .. } => {
                    self.must(
                        self.hosts[host].doing.is_none(),
                        "two things are done at a time",
                    );
                    self.hosts[host].serves = false;
                    self.hosts[host].doing = Some(action);
                }
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        if let Some(wires) = &mut self.sessions[pair(from, to)] {
            wires[usize::from(to > from)].push_back(message);
        }
    }

    /// The record names a host that was not told so.
    fn finds_its_name(&mut self, host: usize) {
        let epoch = self.records.iter().map(|(_, epoch)| *epoch).max();
        let message = Message::Grant {
            epoch: epoch.unwrap_or(0),
        };
        self.tell(
            host,
            Event::Said {
                message,
                guest_has_stopped: false,
            },
        );
    }

    fn turn(&mut self, host: usize, to: usize) {
        let this = &mut self.hosts[host];
        let has_turned = this.partners.turn(to, &mut this.ownership);
        if has_turned && self.sessions[pair(host, to)].is_some() {
            self.tell(host, Event::Linked);
        }
    }

    /// Tells the hosts of a pair that are partners what happens to their session.
    fn tell_pair(&mut self, (one, other): (usize, usize), event: Event) {
        for (host, partner) in [(one, other), (other, one)] {
            if *self.hosts[host].partners.partner() == partner {
                self.tell(host, event);
            }
        }
    }

    /// Whether what has arrived is heard: it is the partner's.
    fn hears(&mut self, to: usize, from: usize, message: Message) -> bool {
        let this = &self.hosts[to];
        if *this.partners.partner() == from {
            return true;
        }
        let word = match message {
            Message::Claim { .. } => Word::Claim,
            Message::Grant { .. } => Word::Grant,
            Message::Refuse { .. } => return false,
        };
        let role = this.ownership.role();
        match this.partners.hear(&from, word, role, false) {
            Heard::Turn => self.turn(to, from),
            Heard::Refuse(why) => self.send(to, from, Message::Refuse { why }),
            Heard::Nothing => {}
        }
        *self.hosts[to].partners.partner() == from
    }

    /// A guest's change is carried out, if one waits and the host serves.
    fn serve_guest(&mut self, host: usize) {
        let this = &mut self.hosts[host];
        if !this.serves || !this.guest.waits {
            return;
        }
        let (is_open, is_overtaken) = (this.is_open, this.guest.is_overtaken);
        this.guest.waits = false;
        this.guest.is_known = true;
        this.is_dirty = true;
        for (_, other) in self
            .hosts
            .iter_mut()
            .enumerate()
            .filter(|(at, _)| *at != host)
        {
            other.guest.is_overtaken |= other.guest.is_known;
        }
        self.must(is_open, "a change is carried out without the origin");
        self.must(!is_overtaken, "a guest goes on over another one's changes");
        self.tell(host, Event::Changing);
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for host in 0..self.hosts.len() {
            let this = &self.hosts[host];
            if self.left.asks > 0 && !this.guest.waits && !this.guest.has_ended {
                steps.push(Step::Ask(host));
            }
            if self.left.clients > 0 && this.guest.is_known {
                steps.push(Step::NewClient(host));
            }
            if self.left.asks > 0 && this.guest.waits {
                steps.push(Step::PatienceEnds(host));
            }
            for from in (0..self.hosts.len()).filter(|from| *from != host) {
                if self.left.turns > 0 {
                    steps.push(Step::Turn { host, to: from });
                }
                let wires = self.sessions[pair(host, from)].as_ref();
                if wires.is_none_or(|wires| wires[usize::from(host > from)].is_empty()) {
                    continue;
                }
                for has_stopped in [false, true] {
                    if !has_stopped || self.left.evidence {
                        steps.push(Step::Arrive {
                            to: host,
                            from,
                            has_stopped,
                        });
                    }
                }
            }
            if self.hosts.len() > 2 {
                steps.push(Step::LookUp(host));
            }
            if this.doing.is_some() {
                steps.push(Step::Work(host));
            } else {
                steps.push(Step::Retry(host));
            }
            for stands in 0..=2 {
                if self.left.failures > 0 && this.can_fail(stands) {
                    steps.push(Step::Fail { host, stands });
                }
                if self.left.kills > 0 && (stands == 0 || this.can_fail(stands)) {
                    steps.push(Step::Kill { host, stands });
                }
            }
        }
        for (at, session) in self.sessions.iter().enumerate() {
            if session.is_none() {
                steps.push(Step::Link(at));
            } else if self.left.cuts > 0 {
                steps.push(Step::Cut(at));
            }
        }
        steps
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Ask(host) => self.ask(host),
            Step::NewClient(host) => {
                self.left.clients -= 1;
                if self.hosts[host].guest.waits {
                    self.tell(host, Event::PatienceEnded);
                }
                self.hosts[host].guest = Guest::default();
            }
            Step::PatienceEnds(host) => {
                self.left.asks -= 1;
                self.tell(host, Event::PatienceEnded);
            }
            Step::Retry(host) => self.tell(host, Event::Retry),
            Step::LookUp(host) => self.look_up(host),
            Step::Turn { host, to } => {
                self.left.turns -= 1;
                self.turn(host, to);
            }
            Step::Arrive {
                to,
                from,
                has_stopped,
            } => self.arrive((to, from), has_stopped),
            Step::Work(host) => {
                let event = self.end(host, true, 2);
                self.tell(host, event);
            }
            Step::Fail { host, stands } => {
                self.left.failures -= 1;
                let event = self.end(host, false, stands);
                self.tell(host, event);
            }
            Step::Kill { host, stands } => {
                self.left.kills -= 1;
                if stands > 0 {
                    self.end(host, false, stands);
                }
                self.kill(host);
            }
            Step::Cut(at) => {
                self.left.cuts -= 1;
                self.cut(at);
            }
            Step::Link(at) => {
                self.sessions[at] = Some([VecDeque::new(), VecDeque::new()]);
                self.tell_pair(PAIRS[at], Event::Linked);
            }
        }
    }

    /// Who does not have the unit looks who has.
    fn look_up(&mut self, host: usize) {
        let role = self.hosts[host].ownership.role();
        if !matches!(role, Role::Standby | Role::Claiming) {
            return;
        }
        let owner = self.owner();
        if owner == host {
            self.finds_its_name(host);
        } else {
            self.turn(host, owner);
        }
    }

    /// What is on its way between two hosts arrives.
    fn arrive(&mut self, (to, from): (usize, usize), has_stopped: bool) {
        let wires = self.sessions[pair(to, from)].as_mut();
        let wires = wires.expect("a session stands");
        let message = wires[usize::from(to > from)].pop_front();
        let message = message.expect("one is there");
        if !self.hears(to, from, message) {
            return;
        }
        let may_stop = has_stopped || message != Message::Claim { is_return: false };
        let was_served = self.hosts[to].serves;
        let guest_has_stopped = has_stopped;
        self.tell(
            to,
            Event::Said {
                message,
                guest_has_stopped,
            },
        );
        let is_stopped = was_served && !self.hosts[to].serves;
        self.must(may_stop || !is_stopped, "a guest that runs is stopped");
    }

    fn ask(&mut self, host: usize) {
        self.left.asks -= 1;
        let guest = &mut self.hosts[host].guest;
        guest.waits = true;
        let client = if guest.is_known {
            Client::Old
        } else {
            Client::New
        };
        if self.hosts[host].serves {
            self.serve_guest(host);
        } else {
            self.tell(host, Event::Asked(client));
        }
    }

    /// What is on the host's disk stays: its decision, and what is dirty.
    fn kill(&mut self, host: usize) {
        for other in (0..self.hosts.len()).filter(|other| *other != host) {
            self.cut(pair(host, other));
        }
        let this = &mut self.hosts[host];
        this.doing = None;
        this.serves = false;
        this.is_open = false;
        this.has_lock = false;
        // Its client connects again, and is not known.
        this.guest = Guest::default();
        self.start(host);
    }

    fn cut(&mut self, at: usize) {
        if self.sessions[at].take().is_some() {
            self.tell_pair(PAIRS[at], Event::LinkLost);
        }
    }

    /// What is under way ends: with success or not, and with this much of its effect.
    fn end(&mut self, host: usize, ok: bool, stands: usize) -> Event {
        let mut others = self.hosts.iter().enumerate().filter(|(at, _)| *at != host);
        let other_has_lock = others.any(|(_, other)| other.has_lock) && self.left.locks;
        let records = self.records_for(host);
        let this = &mut self.hosts[host];
        let doing = this.doing.take().expect("something is under way");
        match doing {
            Action::Settle => {
                this.is_dirty &= stands == 0;
                Event::Settled(ok)
            }
            Action::Close => {
                this.is_open = false;
                Event::Closed
            }
            Action::Decide(decision) => {
                if stands > 0 {
                    this.decision = Some((decision, *this.partners.partner()));
                }
                Event::Decided(ok)
            }
            Action::Record { epoch } => {
                let partner = *this.partners.partner();
                for record in &mut self.records[..stands] {
                    if *record == (host, epoch - 1) || !self.left.compares {
                        *record = (partner, epoch);
                    }
                }
                Event::Recorded(ok)
            }
            Action::Unlock => {
                this.has_lock = false;
                Event::Unlocked
            }
            Action::Take { epoch } => {
                if other_has_lock {
                    return Event::Taken(Err(TakeError::Failed));
                }
                if !Record::may_take(records, epoch) {
                    return Event::Taken(Err(TakeError::NotOurs));
                }
                this.has_lock = true;
                // Each is compared once more when it is written.
                let ours = self.records[..stands].iter_mut();
                ours.filter(|record| record.0 == host)
                    .for_each(|record| *record = (host, epoch));
                if !ok {
                    return Event::Taken(Err(TakeError::Failed));
                }
                this.is_open = true;
                Event::Taken(Ok(()))
            }
            Action::Send(_) | Action::Serve | Action::Fail | Action::EndOldClients => {
                unreachable!()
            }
        }
    }

    fn must(&mut self, holds: bool, what: &'static str) {
        if !holds {
            self.wrong = self.wrong.or(Some(what));
        }
    }

    fn check(&mut self, before: [(usize, u64); 2]) {
        let open = self.hosts.iter().filter(|host| host.is_open).count();
        self.must(open <= 1, "both have the origin open");
        for ((_, before), (_, after)) in before.into_iter().zip(self.records) {
            self.must(after >= before, "a record falls");
        }
        for host in 0..self.hosts.len() {
            let this = &self.hosts[host];
            let (serves, is_open) = (this.serves, this.is_open);
            let mut others = self.hosts.iter().enumerate().filter(|(at, _)| *at != host);
            let is_dirty = others.any(|(_, other)| other.is_dirty);
            self.must(!serves || is_open, "a host serves without the origin");
            self.must(
                !is_open || self.records.iter().all(|(owner, _)| *owner == host),
                "a host has the origin open that the record does not name",
            );
            self.must(
                !(is_open && is_dirty),
                "a host has the origin open while another one has changes",
            );
        }
    }

    fn nobody_waits(&self) -> bool {
        self.hosts.iter().all(|host| !host.guest.waits)
    }
}

impl Host {
    fn can_fail(&self, stands: usize) -> bool {
        match self.doing {
            Some(Action::Decide(_)) => stands <= 1,
            Some(Action::Record { .. } | Action::Take { .. }) => true,
            Some(Action::Settle) => stands == 0,
            _ => false,
        }
    }
}

/// Walks through all states; gives their number, or the steps to one that must not be.
fn search(left: Budget) -> Result<usize, String> {
    let first = World::new(left);
    let mut numbers = Map::from_iter([(first.clone(), 0_usize)]);
    let mut worlds = vec![first];
    let mut reached: Vec<(usize, Option<Step>)> = vec![(0, None)];
    // Who leads to whom, by steps that happen at last.
    let mut from: Vec<Vec<usize>> = vec![Vec::new()];
    let mut at = 0;
    while at < worlds.len() {
        for step in worlds[at].steps() {
            let mut next = worlds[at].clone();
            next.take(step);
            next.check(worlds[at].records);
            let wrong = next.wrong;
            let number = *numbers.entry(next).or_insert_with_key(|next| {
                worlds.push(next.clone());
                reached.push((at, Some(step)));
                from.push(Vec::new());
                worlds.len() - 1
            });
            if let Some(wrong) = wrong {
                return Err(told(wrong, &worlds, &reached, number));
            }
            if step.must_happen_at_last() {
                from[number].push(at);
            }
        }
        at += 1;
    }
    let mut ends: Vec<bool> = worlds.iter().map(World::nobody_waits).collect();
    let mut queue: Vec<usize> = (0..worlds.len()).filter(|at| ends[*at]).collect();
    while let Some(at) = queue.pop() {
        for earlier in &from[at] {
            if !ends[*earlier] {
                ends[*earlier] = true;
                queue.push(*earlier);
            }
        }
    }
    match ends.iter().position(|ends| !ends) {
        Some(stuck) => Err(told("a guest waits for ever", &worlds, &reached, stuck)),
        None => Ok(worlds.len()),
    }
}

fn told(wrong: &str, worlds: &[World], reached: &[(usize, Option<Step>)], mut at: usize) -> String {
    let mut steps = Vec::new();
    let end = &worlds[at];
    while let (before, Some(step)) = reached[at] {
        steps.push(format!("{step:?}"));
        at = before;
    }
    steps.reverse();
    format!("{wrong}:\n{}\n{end:#?}", steps.join("\n"))
}

const FAULTS: Budget = Budget {
    hosts: 2,
    asks: 3,
    clients: 0,
    kills: 1,
    cuts: 1,
    failures: 1,
    turns: 0,
    evidence: true,
    locks: false,
    compares: true,
};

#[test]
fn one_host_has_the_origin_whatever_happens() {
    for locks in [false, true] {
        let states = search(Budget {
            clients: 1,
            kills: 2,
            locks,
            ..FAULTS
        });
        assert!(states.unwrap_or_else(|wrong| panic!("{wrong}")) > 400_000);
    }
}

/// Three hosts, which turn to each other now and then.
const OF_THREE: Budget = Budget {
    hosts: 3,
    asks: 6,
    clients: 2,
    kills: 2,
    cuts: 2,
    failures: 2,
    turns: 3,
    ..FAULTS
};

/// There are too many orders of the events of three hosts: a seed draws each, and at the end what happens at last. The hosts
/// that had the unit, or what was wrong.
fn walk(left: Budget, seed: u64) -> Result<BTreeSet<usize>, &'static str> {
    let mut dice = Prng::new(seed);
    let mut world = World::new(left);
    let mut owners = BTreeSet::new();
    for at in 0..STEPS {
        let mut steps = world.steps();
        if at > STEPS / 3 {
            steps.retain(|step| step.must_happen_at_last());
        }
        let step = steps[usize::try_from(dice.below(steps.len() as u64)).unwrap_or(0)];
        let records = world.records;
        world.take(step);
        world.check(records);
        world.wrong.map_or(Ok(()), Err)?;
        owners.insert(world.owner());
    }
    if world.nobody_waits() {
        Ok(owners)
    } else {
        Err("a guest waits for ever")
    }
}

#[test]
fn one_host_of_three_has_the_origin_whatever_happens() {
    let mut all = 0;
    for seed in 0..WALKS {
        let owners = walk(OF_THREE, seed).unwrap_or_else(|wrong| panic!("{seed}: {wrong}"));
        all += u64::from(owners.len() == 3);
    }
    assert!(all > WALKS / 10, "each host had it in {all} walks");
}

#[test]
fn a_record_that_is_written_blindly_falls() {
    let compares = false;
    let found = search(Budget { compares, ..FAULTS });
    assert!(found.is_err_and(|wrong| wrong.starts_with("a record falls")));
}

#[test]
fn without_a_rule_something_goes_wrong() {
    // Of evidence and of requests the model knows only what comes of them.
    let elsewhere = [
        Guard::LooksIncoming,
        Guard::ClaimBehindSign,
        Guard::RingsSayWhenTheyStop,
        Guard::SilentEverywhere,
        Guard::HeldRequestsWait,
        Guard::OldClientsWait,
        Guard::OldClientsEnd,
        // To the model a unit is settled or not: the worlds of two hosts ship.
        Guard::ShippedToThisCopy,
        Guard::ShippedSinceHeld,
        Guard::ShippedToTheEnd,
        Guard::SettledIsShipped,
        Guard::DecisionGivesOnce,
        Guard::ImageIdentity,
        // Two hosts do not need it.
        Guard::TurnedIsChanged,
    ];
    for guard in Guard::ALL.iter().filter(|guard| !elsewhere.contains(guard)) {
        remove(Some(*guard));
        let is_missed = search(FAULTS).is_err();
        remove(None);
        assert!(is_missed, "{guard:?} is not missed");
    }
}
