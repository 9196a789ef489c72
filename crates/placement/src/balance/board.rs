//! The fleet while it is planned: loads with what is under way and with what the plan sends so far.

use super::variance::Loads;
use super::{trust, worth};
use crate::fleet::Fleet;
use crate::guard::{Guard, holds};
use crate::load::{HostLoad, Resources, VmLoad};
use crate::name::Name;
use crate::plan::{Outlook, Reason, Rejected};
use crate::rules::Rules;
use std::collections::BTreeSet;
use units::{Bytes, Instant};

/// The fleet while it is planned. Hosts are places in the order of their names.
pub(super) struct Board<'a> {
    rules: &'a Rules,
    now: Instant,
    fleet: &'a Fleet,
    places: Vec<Place<'a>>,
    loads: Loads,
    /// VMs on their way, and those whose move has failed.
    moving: BTreeSet<&'a Name>,
    /// Moves that count for the cluster's limit.
    moves: usize,
}

/// A host while it is planned.
struct Place<'a> {
    host: &'a HostLoad,
    demand: Bytes,
    load: f64,
    arriving: usize,
    leaving: usize,
    cpu_left: u64,
    memory_left: u64,
    groups: BTreeSet<&'a Name>,
    is_distrusted: bool,
    /// VMs that the plan sends away.
    goes: BTreeSet<usize>,
    /// VMs that come.
    comes: Vec<&'a VmLoad>,
}

impl<'a> Place<'a> {
    fn new(host: &'a HostLoad) -> Self {
        Self {
            host,
            demand: host.demand(),
            load: host.load(),
            arriving: 0,
            leaving: 0,
            cpu_left: host.free.cpu_millis,
            memory_left: host.free.memory_bytes,
            groups: host.vms.iter().filter_map(|vm| vm.group.as_ref()).collect(),
            is_distrusted: false,
            goes: BTreeSet::new(),
            comes: Vec::new(),
        }
    }

    fn take(&mut self, vm: &'a VmLoad) {
        self.arriving += 1;
        self.cpu_left = self.cpu_left.saturating_sub(vm.needs.cpu_millis);
        self.memory_left = self.memory_left.saturating_sub(vm.needs.memory_bytes);
        self.groups.extend(vm.group.as_ref());
        self.comes.push(vm);
        self.set_demand(Bytes::new(self.demand.get().saturating_add(vm.rwss.get())));
    }

    fn set_demand(&mut self, demand: Bytes) {
        self.demand = demand;
        self.load = self.host.load_of(demand);
    }
}

impl<'a> Board<'a> {
    pub(super) fn new(fleet: &'a Fleet, rules: &'a Rules, now: Instant) -> Self {
        let mut board = Self {
            rules,
            now,
            fleet,
            places: fleet.hosts.iter().map(Place::new).collect(),
            loads: Loads::default(),
            moving: BTreeSet::new(),
            moves: 0,
        };
        let distrusted = trust::distrusted(&fleet.findings, rules, now);
        for place in &mut board.places {
            place.is_distrusted = distrusted.contains(&place.host.host);
        }
        board.count_under_way();
        board.loads = Loads::of(board.places.iter().map(|place| place.load));
        board
    }

    fn count_under_way(&mut self) {
        for going in &self.fleet.under_way {
            self.moving.insert(&going.vm);
            if going.has_failed {
                continue;
            }
            self.moves += 1;
            let from = self.fleet.place(&going.from);
            if let Some(from) = from {
                self.places[from].leaving += 1;
            }
            let Some(to) = self.fleet.place(&going.to) else {
                continue;
            };
            let is_there = self.places[to].host.vm(&going.vm).is_some();
            let vm = from.and_then(|from| self.fleet.hosts[from].vm(&going.vm));
            match vm {
                // The target does not publish the demand of a VM that is on its way.
                Some(vm) if !is_there && holds(Guard::ArrivalsCount) => self.places[to].take(vm),
                _ => self.places[to].arriving += 1,
            }
        }
    }

    /// Puts a chosen move on the board.
    pub(super) fn carry_out(&mut self, source: usize, vm: usize, target: usize) {
        let load = self.vm(source, vm);
        self.moving.insert(&load.vm);
        self.moves += 1;
        let from = &mut self.places[source];
        from.leaving += 1;
        from.goes.insert(vm);
        from.set_demand(from.demand.saturating_sub(load.rwss));
        self.places[target].take(load);
        self.loads = Loads::of(self.places.iter().map(|place| place.load));
    }

    pub(super) const fn hosts(&self) -> usize {
        self.places.len()
    }

    pub(super) fn host(&self, place: usize) -> &'a HostLoad {
        self.places[place].host
    }

    pub(super) const fn rules(&self) -> &'a Rules {
        self.rules
    }

    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    /// VMs that a host is about to get, or that are on their way to it.
    pub(super) fn arriving(&self, place: usize) -> usize {
        self.places[place].arriving
    }

    /// VMs that a host is about to send, or that are on their way from it.
    pub(super) fn leaving(&self, place: usize) -> usize {
        self.places[place].leaving
    }

    pub(super) fn is_distrusted(&self, place: usize) -> bool {
        self.places[place].is_distrusted
    }

    /// What a host has left for VMs, less what those take that come.
    pub(super) fn left(&self, place: usize) -> Resources {
        let place = &self.places[place];
        Resources {
            cpu_millis: place.cpu_left,
            memory_bytes: place.memory_left,
        }
    }

    pub(super) fn has_group(&self, place: usize, group: &Name) -> bool {
        self.places[place].groups.contains(group)
    }

    pub(super) fn vm(&self, place: usize, vm: usize) -> &'a VmLoad {
        &self.places[place].host.vms[vm]
    }

    pub(super) fn demand(&self, place: usize) -> Bytes {
        self.places[place].demand
    }

    pub(super) fn load(&self, place: usize) -> f64 {
        self.places[place].load
    }

    pub(super) const fn moves(&self) -> usize {
        self.moves
    }

    pub(super) fn is_moving(&self, vm: &Name) -> bool {
        self.moving.contains(vm)
    }

    pub(super) fn is_named_twice(&self, vm: &Name) -> bool {
        self.fleet.named_twice.contains(vm)
    }

    /// The VMs that a host could send.
    pub(super) fn members(&self, place: usize) -> std::ops::Range<usize> {
        0..self.places[place].host.vms.len()
    }

    /// The VMs that share a host's flash as the plan has it.
    pub(super) fn sharing(&self, place: usize) -> impl Iterator<Item = &'a VmLoad> {
        let Place {
            host, goes, comes, ..
        } = &self.places[place];
        let stay = host.vms.iter().enumerate();
        let stay = stay.filter(|(at, _)| !goes.contains(at));
        stay.map(|(_, vm)| vm).chain(comes.iter().copied())
    }

    /// Hosts that have been above their bound for long enough, the heaviest first.
    pub(super) fn overloaded(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.hosts())
            .filter(|place| self.host(*place).windows_above() >= self.rules.windows)
            .collect();
        all.sort_by(|one, other| {
            let heavier = self.load(*other).total_cmp(&self.load(*one));
            heavier.then(one.cmp(other))
        });
        all
    }

    /// What a move changes of the number of hosts times the variance.
    pub(super) fn change(&self, source: usize, vm: usize, target: usize) -> f64 {
        let rwss = self.vm(source, vm).rwss;
        self.loads.change(
            (self.load(source), self.host(source).load_of(rwss)),
            (self.load(target), self.host(target).load_of(rwss)),
        )
    }

    pub(super) const fn loads(&self) -> &Loads {
        &self.loads
    }

    pub(super) fn outlook(&self) -> Outlook {
        let is_above = |place: &&Place<'_>| place.load > place.host.load_max();
        let loads = self.places.iter().map(|place| place.load);
        Outlook {
            hosts_above: self.places.iter().filter(is_above).count(),
            load_mean: self.loads.mean(),
            load_stddev: self.loads.stddev(0.0),
            load_max: loads.fold(0.0, f64::max),
        }
    }

    pub(super) fn refusal(
        &self,
        source: usize,
        vm: Option<usize>,
        target: Option<usize>,
        reason: Reason,
    ) -> Rejected {
        Rejected {
            from: self.host(source).host.clone(),
            vm: vm.map(|vm| self.vm(source, vm).vm.clone()),
            to: target.map(|target| self.host(target).host.clone()),
            targets: usize::from(target.is_some()),
            reason,
        }
    }

    /// Reads and hits of the VMs at a host, if its demand were so.
    pub(super) fn reads(&self, place: usize, demand: Bytes) -> worth::Reads {
        let capacity = self.host(place).capacity;
        worth::Reads::of(self.sharing(place), capacity, demand)
    }
}
