//! A fleet through its windows: faults, rounds of planning, moves, samples, checks.

use super::checks::{self, Violation};
use super::hosts::Hosts;
use super::latency::Percentiles;
use super::moves::{Ended, Moves, at};
use super::outcome::{Outcome, Sample};
use super::settings::{FAILS_WITHIN_S, LOST_S, Settings, SettingsError, TICK_S, WINDOW_S};
use placement::balance::{Loads, distrusted};
use placement::moving::Stage;
use placement::{Finding, Fleet, Name, Plan, Proposed, Rules, UnderWay, plan};
use units::Prng;

/// Runs a fleet. `progress` is told how many windows are done.
///
/// # Errors
/// If the settings make no fleet.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(u64)) -> Result<Outcome, SettingsError> {
    let mut run = Run::new(settings)?;
    while run.next_window() {
        progress(run.windows_done() as u64);
    }
    Ok(run.end())
}

/// A move that is done and was not compared yet.
struct Uncompared {
    planned: Proposed,
    window: usize,
}

/// A fleet on its way through its windows, for those who may end it early.
pub struct Run<'a> {
    settings: &'a Settings,
    rules: Option<Rules>,
    hosts: Hosts,
    moves: Moves,
    dice: Prng,
    percentiles: Percentiles,
    findings: Vec<Finding>,
    uncompared: Vec<Uncompared>,
    /// Moves that have failed, until an operator has cleared them: a window after both hosts are there.
    failed: Vec<UnderWay>,
    /// When the planner's process ends in this window.
    away_at_s: Option<u64>,
    sample: Sample,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    /// A fleet before its first window.
    ///
    /// # Errors
    /// If the settings make no fleet.
    pub fn new(settings: &'a Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self {
            settings,
            rules: settings.rule.rules(),
            hosts: Hosts::new(settings),
            moves: Moves::new(settings.seed, &settings.faults),
            dice: Prng::new(settings.seed ^ 0xfa17),
            percentiles: Percentiles::new(),
            findings: Vec::new(),
            uncompared: Vec::new(),
            failed: Vec::new(),
            away_at_s: None,
            sample: Sample::default(),
            outcome: Outcome::new(settings.rule),
        })
    }

    /// Windows that are past.
    pub const fn windows_done(&self) -> usize {
        self.outcome.samples.len()
    }

    /// Lets the next window pass; false if there is none.
    pub fn next_window(&mut self) -> bool {
        let window = self.windows_done();
        if window == self.settings.windows {
            return false;
        }
        self.window(window);
        true
    }

    fn window(&mut self, window: usize) {
        self.fail(window);
        self.sample = self.measure(window);
        self.clear_failed(window);
        if let Some(rules) = self.rules {
            self.compare(window);
            self.balance(window, &rules);
        }
        let now_s = (window as u64 + 1) * WINDOW_S;
        let wrong = checks::after_window(&self.hosts, &self.moves, self.rules.as_ref(), now_s);
        self.violate(window, wrong);
        self.hosts.end_window(window);
        self.outcome.samples.push(self.sample);
    }

    fn violate(&mut self, window: usize, wrong: impl IntoIterator<Item = String>) {
        let wrong = wrong.into_iter();
        let wrong = wrong.map(|what| Violation { window, what });
        self.outcome.violations.extend(wrong);
    }

    /// Decides what fails in this window.
    fn fail(&mut self, window: usize) {
        let faults = self.settings.faults;
        let begins_s = window as u64 * WINDOW_S;
        for host in 0..self.hosts.count() {
            if self.dice.one_in(faults.host_lost) && !self.hosts.will_be_lost(host, begins_s) {
                let from_s = begins_s + self.dice.below(FAILS_WITHIN_S);
                self.hosts.lose(host, from_s, from_s + LOST_S);
            }
        }
        let is_away = self.dice.one_in(faults.planner_away);
        self.away_at_s =
            is_away.then(|| begins_s + self.dice.below(FAILS_WITHIN_S / TICK_S) * TICK_S);
    }

    /// Another host drives and plans, if the one that did so is gone.
    fn elect(&mut self, now_s: u64) {
        let leader = self.moves.leader();
        if self.away_at_s != Some(now_s) && !self.hosts.is_lost(leader, now_s) {
            return;
        }
        let hosts = self.hosts.count();
        let others = (1..hosts).map(|next| (leader + next) % hosts);
        let next = { others }.find(|host| !self.hosts.is_lost(*host, now_s));
        self.moves.elect(next.unwrap_or(leader));
    }

    /// What the window is like, by real demand. What moves change in it shows in the next one.
    fn measure(&self, window: usize) -> Sample {
        let begins_s = window as u64 * WINDOW_S;
        let there = (0..self.hosts.count()).filter(|host| !self.hosts.is_lost(*host, begins_s));
        let there: Vec<usize> = there.collect();
        let loads = there.iter().map(|host| self.hosts.load(*host, window));
        let loads: Vec<f64> = loads.collect();
        let sums = Loads::of(loads.iter().copied());
        let (mut reads, mut hits, mut p90) = (0.0, 0.0, 0.0);
        for host in &there {
            for (_, rate, ratio) in self.hosts.reads(*host, window) {
                reads += rate;
                hits += rate * ratio;
                p90 += rate * self.percentiles.p90_ms(ratio);
            }
        }
        Sample {
            window,
            hosts: there.len(),
            overloaded: loads.iter().filter(|load| **load > 0.9).count(),
            load_mean: sums.mean(),
            load_stddev: sums.stddev(0.0),
            hits: (reads > 0.0).then(|| hits / reads),
            p90_ms: (reads > 0.0).then(|| p90 / reads),
            ..Sample::default()
        }
    }

    /// An operator clears failed moves once both hosts are there.
    fn clear_failed(&mut self, window: usize) {
        let hosts = &self.hosts;
        let begins_s = window as u64 * WINDOW_S;
        let is_there = |name: &Name| {
            let host = hosts.host(name.as_str());
            host.is_some_and(|host| !hosts.is_lost(host, begins_s))
        };
        self.failed
            .retain(|one| !(is_there(&one.from) && is_there(&one.to)));
    }

    /// Compares moves of earlier windows with what their targets publish now.
    fn compare(&mut self, window: usize) {
        if self.uncompared.is_empty() {
            return;
        }
        let begins_s = window as u64 * WINDOW_S;
        let loads = self.hosts.publish(window, begins_s);
        let now = at(begins_s);
        let (ripe, rest) = std::mem::take(&mut self.uncompared)
            .into_iter()
            .partition(|one| one.window < window);
        self.uncompared = rest;
        let ripe: Vec<Uncompared> = ripe;
        for one in ripe {
            let target = loads.iter().find(|load| *load.host() == one.planned.to);
            let found = target.and_then(|target| Finding::of(&one.planned, target, now));
            self.findings.extend(found);
        }
    }

    /// Rounds of planning, and the moves of a window, tick by tick.
    fn balance(&mut self, window: usize, rules: &Rules) {
        let mut asks = true;
        let begins_s = window as u64 * WINDOW_S;
        for tick in 0..WINDOW_S / TICK_S {
            let now_s = begins_s + tick * TICK_S;
            self.elect(now_s);
            if std::mem::take(&mut asks) {
                let planned = self.plan(window, rules, now_s);
                self.begin(planned, window, rules, now_s);
            }
            if self.moves.going().is_empty() {
                break;
            }
            let ended = self.tick(window, now_s);
            asks = !ended.is_empty() && self.settings.rule.plans_again();
            for one in ended {
                self.count(one, window);
            }
        }
    }

    fn plan(&mut self, window: usize, rules: &Rules, now_s: u64) -> Plan {
        let mut under_way = self.moves.under_way();
        under_way.extend(self.failed.iter().cloned());
        let fleet = Fleet::new(
            self.hosts.publish(window, now_s),
            under_way,
            self.findings.clone(),
        );
        let fleet = fleet.expect("simulated hosts have different names");
        let plan = plan(&fleet, rules, at(now_s));
        let missing = plan.short.iter().map(|one| one.missing.get()).sum();
        self.sample.missing_bytes = self.sample.missing_bytes.max(missing);
        plan
    }

    fn begin(&mut self, plan: Plan, window: usize, rules: &Rules, now_s: u64) {
        for planned in plan.moves {
            let vm = self.hosts.vm(planned.vm.as_str());
            let wrong = vm.and_then(|vm| checks::rest(&self.hosts, vm, now_s, rules));
            self.violate(window, wrong);
            self.moves
                .begin(planned, &self.hosts, &self.settings.faults, now_s);
        }
        let wrong = checks::limits(&self.moves, rules);
        self.violate(window, wrong);
    }

    fn tick(&mut self, window: usize, now_s: u64) -> Vec<Ended> {
        let mut grants = Vec::new();
        let ended = self.moves.tick(&self.hosts, now_s, &mut grants);
        for (vm, from, to) in grants {
            if !self.hosts.leaves(vm, from) {
                self.violate(window, [format!("VM {vm} left a host where it was not")]);
            }
            self.hosts.arrives(vm, to, now_s);
        }
        ended
    }

    fn count(&mut self, ended: Ended, window: usize) {
        let Ended {
            planned,
            under_way,
            stage,
        } = ended;
        match stage {
            Stage::Done => {
                self.sample.done += 1;
                self.sample.moved_bytes += planned.demand.get() + planned.dirty.get();
                self.uncompared.push(Uncompared { planned, window });
            }
            Stage::RolledBack(_) => self.sample.rolled_back += 1,
            _ => {
                self.sample.failed += 1;
                self.failed.push(UnderWay {
                    has_failed: true,
                    ..under_way
                });
            }
        }
    }

    /// What came of the windows that are past.
    ///
    /// # Panics
    /// Never: a simulated host has a name.
    pub fn end(mut self) -> Outcome {
        let now = at(self.windows_done() as u64 * WINDOW_S);
        self.outcome.liars = self.hosts.liars();
        self.outcome.drivers_replaced = self.moves.replaced();
        if let Some(rules) = self.rules {
            for name in distrusted(&self.findings, &rules, now) {
                let host = self.hosts.host(name.as_str());
                if host.is_some_and(|host| self.hosts.is_liar(host)) {
                    self.outcome.liars_found += 1;
                } else {
                    self.outcome.honest_distrusted += 1;
                }
            }
        }
        self.outcome
    }
}
