//! Moves under way: their records in the store, their drivers, and whose turn it is to drive.

use super::hosts::Hosts;
use super::hypervisor::{Happened, Pair, Reached};
use super::records::MoveStore;
use super::settings::Faults;
use placement::moving::{Driver, Effect, Event, Move, Stage, Timeouts};
use placement::{Name, Proposed, UnderWay};
use store::{Key, Memory};
use units::{Instant, Prng};

/// A move under way.
#[derive(Debug)]
pub(super) struct Going {
    planned: Proposed,
    vm: usize,
    from: usize,
    to: usize,
    began_s: u64,
    pair: Pair,
    key: Key,
    /// The process that drives it, none between two.
    driver: Option<Driver>,
}

/// A move that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) planned: Proposed,
    pub(super) under_way: UnderWay,
    pub(super) stage: Stage,
}

/// All moves under way.
#[derive(Debug)]
pub(super) struct Moves {
    store: Memory,
    dice: Prng,
    going: Vec<Going>,
    count: usize,
    /// The host that drives.
    leader: usize,
    replaced: usize,
}

impl Moves {
    pub(super) fn new(seed: u64, faults: &Faults) -> Self {
        let of = faults.store_per_thousand;
        let faults = store::Faults {
            lost_answers: of,
            lost_questions: of,
            away: of,
            compactions: of,
        };
        Self {
            store: Memory::new(seed, faults),
            dice: Prng::new(seed ^ 0x3071),
            going: Vec::new(),
            count: 0,
            leader: 0,
            replaced: 0,
        }
    }

    pub(super) fn going(&self) -> &[Going] {
        &self.going
    }

    pub(super) const fn leader(&self) -> usize {
        self.leader
    }

    /// How often a move got another driver.
    pub(super) const fn replaced(&self) -> usize {
        self.replaced
    }

    /// What plans have to know of.
    pub(super) fn under_way(&self) -> Vec<UnderWay> {
        self.going.iter().map(Going::under_way).collect()
    }

    /// Begins a move: its record, planned.
    pub(super) fn begin(&mut self, planned: Proposed, hosts: &Hosts, faults: &Faults, now_s: u64) {
        let place = |name: &Name| hosts.host(name.as_str()).expect("plans name known hosts");
        let (from, to) = (place(&planned.from), place(&planned.to));
        let vm = hosts.vm(planned.vm.as_str()).expect("plans name known VMs");
        self.count += 1;
        let key = store::keys::moving(&format!("move-{}", self.count));
        let key = key.expect("letters and digits are a name");
        let (of, source, target) = (&planned.vm, &planned.from, &planned.to);
        let record = Move::planned(of.clone(), source.clone(), target.clone(), at(now_s));
        let name = hosts.name(self.leader);
        // Nobody else writes this key, so a refusal says that an earlier try was done.
        while matches!(
            self.store.commit(name, &key, None, &record),
            Event::Unknown | Event::Away
        ) {}
        let aborts = self.dice.one_in(faults.aborts);
        self.going.push(Going {
            pair: Pair::new(&planned, aborts),
            began_s: now_s,
            driver: None,
            planned,
            vm,
            from,
            to,
            key,
        });
    }

    /// Another host drives from now on; the processes of the one before are gone.
    pub(super) fn elect(&mut self, leader: usize) {
        self.leader = leader;
        for going in &mut self.going {
            self.replaced += usize::from(going.driver.is_some());
            going.driver = None;
        }
    }

    /// Lets a tick pass for every move. Returns those that have ended, and tells `grants` of VMs that have moved.
    pub(super) fn tick(
        &mut self,
        hosts: &Hosts,
        now_s: u64,
        grants: &mut Vec<(usize, usize, usize)>,
    ) -> Vec<Ended> {
        let name = hosts.name(self.leader).to_owned();
        let mut ended = Vec::new();
        for mut going in std::mem::take(&mut self.going) {
            let reached = Reached {
                source: !hosts.is_lost(going.from, now_s),
                target: !hosts.is_lost(going.to, now_s),
            };
            if going.pair.pass(now_s, reached) == Happened::Granted {
                grants.push((going.vm, going.from, going.to));
            }
            match going.drive(&self.store, &name, reached, now_s) {
                Some(stage) => ended.push(Ended {
                    under_way: going.under_way(),
                    planned: going.planned,
                    stage,
                }),
                None => self.going.push(going),
            }
        }
        ended
    }
}

impl Going {
    pub(super) const fn vm_name(&self) -> &Name {
        &self.planned.vm
    }

    /// From which host to which.
    pub(super) const fn way(&self) -> (usize, usize) {
        (self.from, self.to)
    }

    pub(super) const fn began_s(&self) -> u64 {
        self.began_s
    }

    fn under_way(&self) -> UnderWay {
        UnderWay {
            vm: self.planned.vm.clone(),
            from: self.planned.from.clone(),
            to: self.planned.to.clone(),
            has_failed: false,
        }
    }

    /// How often a migration has begun.
    pub(super) const fn starts(&self) -> usize {
        self.pair.starts()
    }

    /// Gives the driver its tick. Returns the stage that the move has ended in.
    fn drive(
        &mut self,
        store: &impl MoveStore,
        host: &str,
        reached: Reached,
        now_s: u64,
    ) -> Option<Stage> {
        let mut driver = self.driver.take().unwrap_or_else(|| {
            let me = Name::new(host).expect("a simulated host has a name");
            let (mut driver, first) = Driver::new(me, Timeouts::default());
            self.carry_out(&mut driver, Some(first), store, host, reached, now_s);
            driver
        });
        let named = driver.record().and_then(|record| record.driver.as_ref());
        // One host drives at a time, so whoever else is named is gone. The store may be away when a driver is told.
        let lost = named.is_some_and(|named| named.as_str() != host);
        for event in [Event::Tick, Event::Approve]
            .into_iter()
            .chain(lost.then_some(Event::DriverLost))
        {
            let effect = driver.take(event, at(now_s));
            self.carry_out(&mut driver, effect, store, host, reached, now_s);
        }
        let stage = driver.record().map(|record| record.stage);
        self.driver = Some(driver);
        stage.filter(|stage| stage.is_final())
    }

    fn carry_out(
        &mut self,
        driver: &mut Driver,
        mut effect: Option<Effect>,
        store: &impl MoveStore,
        host: &str,
        reached: Reached,
        now_s: u64,
    ) {
        while let Some(asked) = effect {
            let event = match asked {
                Effect::Read => store.read(host, &self.key),
                Effect::Commit { expected, then } => store.commit(host, &self.key, expected, &then),
                Effect::Act { action, step } => {
                    Event::Answered(self.pair.act(action, step, now_s, reached))
                }
            };
            effect = driver.take(event, at(now_s));
        }
    }
}

/// A point in time of the simulation.
pub(super) const fn at(now_s: u64) -> Instant {
    placement::instant_of_seconds(now_s)
}
