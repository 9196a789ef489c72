//! Every order of events of a move with two hosts that may drive it, up to some faults.
//!
//! A state of the model is the record in the store, two drivers, what is on its way from them, and the VM's two hosts
//! with their hypervisors, as one. From each state every step is taken: commits land, are refused, or have an outcome
//! that nobody knows and land later; actions are carried out, late or never; drivers crash, are restarted, or are
//! taken for dead; migrations fail; hosts stop answering. Nothing is random.

#![allow(
    clippy::unwrap_used,
    clippy::struct_excessive_bools,
    reason = "a test fails by panicking, and a state of the model is what its parts are, each by itself"
)]

use placement::moving::{
    Action, Answer, Driver, Effect, Event, Fence, Migration, Move, Stage, Status, Timeouts,
};
use placement::{Guard, Name, remove};
use units::{Duration, Instant, Map};

/// How often what may go wrong does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Budget {
    crashes: u8,
    /// Commits of unknown outcome.
    doubts: u8,
    /// Answers that do not come.
    silences: u8,
    /// Drivers taken for dead that are not.
    suspicions: u8,
    /// Migrations that the hypervisor ends.
    aborts: u8,
    refusals: u8,
    cancels: u8,
    /// VMs that are at the target some time before their disks are.
    leaves: u8,
    /// Hosts that answer nothing any more.
    deaths: u8,
}

/// The VM's two hosts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Hosts {
    fence: Fence,
    has_standby: bool,
    is_warm: bool,
    migration: Migration,
    starts: u8,
    is_granted: bool,
    is_drained: bool,
    is_dead: bool,
}

/// What a driver has sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sent {
    by: usize,
    /// The driver still waits for the answer.
    is_awaited: bool,
    /// The process that sent it lives.
    is_of_living: bool,
    what: Effect,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: Instant,
    revision: u64,
    record: Move,
    drivers: [Option<Driver>; 2],
    /// Whether a driver that has committed its name is still the same process.
    leases: [bool; 2],
    sent: Vec<Sent>,
    hosts: Hosts,
    left: Budget,
    wrong: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Tick(usize),
    Approve(usize),
    Cancel(usize),
    Lost(usize),
    Suspect(usize),
    Crash(usize),
    /// What was sent arrives.
    Arrive(usize),
    /// Its driver does not hear of it; it may arrive later.
    Doubt(usize),
    Warm,
    Grant,
    Leave,
    End,
    Abort,
    Drain,
    Die,
    /// A tick after the stage's time is over. Time passes for nobody else, so that states do not differ by it alone.
    Late(usize),
}

impl Step {
    /// Whether it happens at last, as long as it can.
    const fn must_happen(self) -> bool {
        matches!(
            self,
            Self::Tick(_)
                | Self::Approve(_)
                | Self::Lost(_)
                | Self::Arrive(_)
                | Self::Warm
                | Self::Grant
                | Self::End
                | Self::Drain
                | Self::Late(_)
        )
    }
}

const HOUR: Duration = Duration::from_secs(3600);

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn timeouts() -> Timeouts {
    Timeouts {
        warm: HOUR,
        migrate: HOUR,
        drain: HOUR,
        withdraw: HOUR,
    }
}

impl World {
    fn new(left: Budget) -> Self {
        let mut world = Self {
            now: Instant::ZERO,
            revision: 1,
            record: Move::planned(name("v"), name("a"), name("b"), Instant::ZERO),
            drivers: [None, None],
            leases: [false; 2],
            sent: Vec::new(),
            hosts: Hosts {
                fence: Fence::default(),
                has_standby: false,
                is_warm: false,
                migration: Migration::None,
                starts: 0,
                is_granted: false,
                is_drained: false,
                is_dead: false,
            },
            left,
            wrong: None,
        };
        world.start(0);
        world.start(1);
        world
    }

    fn start(&mut self, of: usize) {
        let (driver, effect) = Driver::new(name(["a", "c"][of]), timeouts());
        self.drivers[of] = Some(driver);
        self.send(of, Some(effect));
    }

    /// Sends what a driver wants. It reads the record at once: a driver that knows an older one is one that has read
    /// it earlier.
    fn send(&mut self, by: usize, effect: Option<Effect>) {
        match effect {
            Some(Effect::Read) => return self.show(by),
            // What the hosts say is old by the time that a commit has followed from it, so it may as well come at once.
            Some(Effect::Act {
                action: Action::Ask,
                step,
            }) => {
                let answer = self.act(Action::Ask, step);
                return self.tell(by, Event::Answered(answer));
            }
            _ => {}
        }
        self.sent.extend(effect.map(|what| Sent {
            by,
            is_awaited: true,
            is_of_living: true,
            what,
        }));
    }

    fn tell(&mut self, of: usize, event: Event) {
        let now = self.now;
        let effect = self.drivers[of]
            .as_mut()
            .and_then(|driver| driver.take(event, now));
        self.send(of, effect);
    }

    fn must(&mut self, holds: bool, otherwise: &'static str) {
        if !holds && self.wrong.is_none() {
            self.wrong = Some(otherwise);
        }
    }

    /// Whether the record names a driver whose process is gone.
    fn is_orphan(&self) -> bool {
        self.named().is_some_and(|at| !self.leases[at])
    }

    /// The driver that the record names.
    fn named(&self) -> Option<usize> {
        let names = [name("a"), name("c")];
        let named = self.record.driver.as_ref()?;
        names.iter().position(|one| one == named)
    }

    fn steps(&self) -> Vec<Step> {
        let mut all = Vec::new();
        if self.record.stage.is_final() {
            // What is still on its way may do harm, and nothing else is of interest.
            all.extend((0..self.sent.len()).map(Step::Arrive));
            return all;
        }
        for of in 0..2 {
            let Some(driver) = &self.drivers[of] else {
                continue;
            };
            let is_named = self.leases[of] && self.named() == Some(of);
            if !driver.is_waiting() {
                all.push(Step::Tick(of));
                all.push(Step::Late(of));
                if self.is_orphan() {
                    all.push(Step::Lost(of));
                } else if self.left.suspicions > 0 {
                    all.push(Step::Suspect(of));
                }
                if self.record.stage == Stage::Planned && of == 0 {
                    all.push(Step::Approve(of));
                }
                if self.left.cancels > 0 {
                    all.push(Step::Cancel(of));
                }
            }
            // The crash of a process that does nothing changes nothing.
            if self.left.crashes > 0 && (is_named || driver.is_waiting()) {
                all.push(Step::Crash(of));
            }
        }
        for (at, sent) in self.sent.iter().enumerate() {
            all.push(Step::Arrive(at));
            let faults = match sent.what {
                Effect::Read => unreachable!("it is carried out at once"),
                Effect::Commit { .. } => self.left.doubts,
                Effect::Act { .. } => self.left.silences,
            };
            if sent.is_awaited && faults > 0 {
                all.push(Step::Doubt(at));
            }
        }
        all.extend(self.steps_of_hosts());
        all
    }

    fn steps_of_hosts(&self) -> Vec<Step> {
        let hosts = &self.hosts;
        let runs = hosts.migration == Migration::Running;
        let has_left = hosts.migration == Migration::Ended;
        let steps = [
            (hosts.has_standby && !hosts.is_warm, Step::Warm),
            (
                (runs || has_left) && hosts.has_standby && !hosts.is_granted,
                Step::Grant,
            ),
            (
                runs && !hosts.is_granted && self.left.leaves > 0,
                Step::Leave,
            ),
            (runs && hosts.is_granted, Step::End),
            (
                runs && !hosts.is_granted && self.left.aborts > 0,
                Step::Abort,
            ),
            (hosts.is_granted && !hosts.is_drained, Step::Drain),
            (!hosts.is_dead && self.left.deaths > 0, Step::Die),
        ];
        let possible = steps.into_iter().filter(|(is_possible, _)| *is_possible);
        possible.map(|(_, step)| step).collect()
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Tick(of) => self.tell(of, Event::Tick),
            Step::Approve(of) => self.tell(of, Event::Approve),
            Step::Cancel(of) => {
                self.left.cancels -= 1;
                self.tell(of, Event::Cancel);
            }
            Step::Lost(of) => {
                // The watch tells of the latest record first.
                self.show(of);
                self.tell(of, Event::DriverLost);
            }
            Step::Suspect(of) => {
                self.left.suspicions -= 1;
                self.show(of);
                self.tell(of, Event::DriverLost);
            }
            Step::Crash(of) => {
                self.left.crashes -= 1;
                self.leases[of] = false;
                for sent in self.sent.iter_mut().filter(|sent| sent.by == of) {
                    sent.is_awaited = false;
                    sent.is_of_living = false;
                }
                // A process that stays away is one that is restarted and does nothing.
                self.start(of);
                self.sent
                    .retain(|sent| sent.is_awaited || sent.what != Effect::Read);
            }
            Step::Arrive(at) => self.arrive(at),
            Step::Doubt(at) => self.doubt(at),
            Step::Warm => self.hosts.is_warm = true,
            Step::Grant => self.hosts.is_granted = true,
            Step::Leave => {
                self.left.leaves -= 1;
                self.hosts.migration = Migration::Ended;
            }
            Step::End => self.hosts.migration = Migration::Ended,
            Step::Abort => {
                self.left.aborts -= 1;
                self.hosts.migration = Migration::Failed;
            }
            Step::Drain => self.hosts.is_drained = true,
            Step::Die => {
                self.left.deaths -= 1;
                self.hosts.is_dead = true;
            }
            Step::Late(of) => {
                self.now = self.record.since + HOUR;
                self.tell(of, Event::Tick);
                self.now = Instant::ZERO;
            }
        }
        self.watch();
        self.check();
    }

    /// Who does not drive the move learns of each commit at once. Whoever believes to drive it does not look.
    fn watch(&mut self) {
        for of in 0..2 {
            let me = name(["a", "c"][of]);
            let idles = |driver: &Driver| {
                let named = driver.record().and_then(|record| record.driver.as_ref());
                !driver.is_waiting() && named != Some(&me)
            };
            if self.drivers[of].as_ref().is_some_and(idles) {
                self.show(of);
            }
        }
    }

    fn show(&mut self, of: usize) {
        let (revision, record) = (self.revision, self.record.clone());
        self.tell(of, Event::Record { revision, record });
    }

    fn doubt(&mut self, at: usize) {
        self.sent[at].is_awaited = false;
        let by = self.sent[at].by;
        if matches!(self.sent[at].what, Effect::Commit { .. }) {
            self.left.doubts -= 1;
            self.tell(by, Event::Unknown);
        } else {
            self.left.silences -= 1;
            self.tell(by, Event::Answered(Answer::Silence));
        }
    }

    fn arrive(&mut self, at: usize) {
        let Sent {
            by,
            is_awaited,
            is_of_living,
            what,
        } = self.sent.remove(at);
        let event = match what {
            Effect::Read => unreachable!("it is carried out at once"),
            Effect::Commit { expected, then } => self.commit(by, is_of_living, expected, then),
            Effect::Act { action, step } => Event::Answered(self.act(action, step)),
        };
        if is_awaited {
            self.tell(by, event);
        }
    }

    fn commit(
        &mut self,
        by: usize,
        is_of_living: bool,
        expected: Option<u64>,
        then: Move,
    ) -> Event {
        if expected.is_some_and(|expected| expected != self.revision) {
            return Event::Refused;
        }
        self.must(
            !self.record.stage.is_final(),
            "a move that has ended goes on",
        );
        self.revision += 1;
        self.record = then;
        // A dead process's commit may still land; its lease does not come back.
        self.leases[by] = is_of_living;
        Event::Committed(self.revision)
    }

    /// The hosts' side, as the daemons carry it out.
    fn act(&mut self, action: Action, step: u64) -> Answer {
        let refuses = self.left.refusals > 0 && action == Action::Prepare;
        let hosts = &mut self.hosts;
        if hosts.is_dead {
            return Answer::Silence;
        }
        if action == Action::Ask {
            return Answer::Status(Status {
                warm_percent: if hosts.is_warm { 95 } else { 40 },
                migration: hosts.migration,
                is_granted: hosts.is_granted,
                is_drained: hosts.is_drained,
            });
        }
        if !hosts.fence.admits(step) {
            return Answer::Silence;
        }
        if hosts.is_granted {
            return Answer::Granted;
        }
        match action {
            Action::Prepare if refuses => {
                self.left.refusals -= 1;
                return Answer::Refused;
            }
            Action::Prepare => hosts.has_standby = true,
            Action::Migrate if hosts.migration == Migration::None => {
                hosts.migration = Migration::Running;
                hosts.starts += 1;
            }
            Action::Migrate if hosts.migration == Migration::Ended => hosts.has_standby = true,
            Action::Withdraw => {
                hosts.has_standby = false;
                match hosts.migration {
                    Migration::Running => hosts.migration = Migration::Failed,
                    Migration::Ended => return Answer::Gone,
                    Migration::None | Migration::Failed => {}
                }
            }
            Action::Migrate | Action::Ask => {}
        }
        Answer::Done
    }

    fn check(&mut self) {
        let Hosts {
            has_standby,
            migration,
            starts,
            is_granted,
            is_drained,
            is_dead,
            ..
        } = self.hosts;
        self.must(starts <= 1, "the VM is migrated twice");
        if is_dead {
            return;
        }
        match self.record.stage {
            Stage::RolledBack(_) => {
                self.must(migration != Migration::Running, "it migrates after the end");
                self.must(!has_standby, "a standby is left open");
                self.must(!is_granted, "rolled back, but the target has the disks");
                self.must(
                    migration != Migration::Ended,
                    "rolled back, but the VM is at the target",
                );
            }
            Stage::Done => self.must(is_granted && is_drained, "done, but not all is there"),
            _ => {}
        }
    }
}

/// Far more than any of the budgets has. A driver that commits for ever has more.
const STATES_MAX: usize = 400_000;

/// Walks all states. Says what is wrong, if anything is, and how many states there are.
fn walk(left: Budget) -> Result<usize, String> {
    let mut places: Map<World, usize> = Map::default();
    let mut open = vec![World::new(left)];
    places.insert(open[0].clone(), 0);
    // Which states lead to a state by what happens at last, and how each was first reached.
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut from: Vec<(usize, Option<Step>)> = vec![(0, None)];
    let mut ended: Vec<usize> = Vec::new();
    while let Some(world) = open.pop() {
        let place = places[&world];
        if let Some(wrong) = world.wrong {
            return Err(told(wrong, &from, place));
        }
        if world.record.stage.is_final() {
            ended.push(place);
        }
        if before.len() > STATES_MAX {
            return Err("more states than a move can have".to_owned());
        }
        for step in world.steps() {
            let mut next = world.clone();
            next.take(step);
            let at = places.get(&next).copied().unwrap_or_else(|| {
                before.push(Vec::new());
                from.push((place, Some(step)));
                places.insert(next.clone(), before.len() - 1);
                open.push(next);
                before.len() - 1
            });
            if step.must_happen() {
                before[at].push(place);
            }
        }
    }
    let mut ends = vec![false; before.len()];
    while let Some(place) = ended.pop() {
        if !std::mem::replace(&mut ends[place], true) {
            ended.extend(&before[place]);
        }
    }
    match ends.iter().position(|ends| !ends) {
        None => Ok(before.len()),
        Some(stuck) => Err(told("a move that nobody ends", &from, stuck)),
    }
}

/// What went wrong, and the steps to it.
fn told(wrong: &str, from: &[(usize, Option<Step>)], mut place: usize) -> String {
    let mut steps = Vec::new();
    while let (before, Some(step)) = from[place] {
        steps.push(step);
        place = before;
    }
    steps.reverse();
    format!("{wrong} after {steps:?}")
}

/// Budgets that together have every fault, small enough to be walked in seconds.
fn budgets() -> Vec<Budget> {
    let none = Budget::default();
    vec![
        none,
        Budget { crashes: 1, ..none },
        Budget {
            crashes: 1,
            doubts: 1,
            ..none
        },
        Budget {
            suspicions: 1,
            silences: 1,
            ..none
        },
        Budget {
            doubts: 1,
            cancels: 1,
            ..none
        },
        Budget {
            suspicions: 1,
            doubts: 1,
            ..none
        },
        Budget {
            aborts: 1,
            crashes: 1,
            silences: 1,
            ..none
        },
        Budget {
            refusals: 1,
            silences: 1,
            cancels: 1,
            ..none
        },
        Budget {
            deaths: 1,
            crashes: 1,
            ..none
        },
        Budget {
            leaves: 1,
            cancels: 1,
            crashes: 1,
            ..none
        },
    ]
}

#[test]
fn every_move_is_ended_and_nothing_is_done_twice() {
    for budget in budgets() {
        match walk(budget) {
            Ok(states) => println!("{states} states: {budget:?}"),
            Err(wrong) => panic!("{wrong}: {budget:?}"),
        }
    }
}

#[test]
fn each_rule_of_the_driver_is_needed() {
    for (guard, expected) in [
        (Guard::CommitFirst, "a standby is left open"),
        (Guard::CompareRevision, "a move that has ended goes on"),
        (Guard::UnknownIsRead, "a move that has ended goes on"),
        (Guard::Fenced, "a standby is left open"),
        (Guard::WithdrawFirst, "a standby is left open"),
        (
            Guard::FollowTheVm,
            "rolled back, but the VM is at the target",
        ),
        (Guard::LostDriverReplaced, "a move that nobody ends"),
    ] {
        remove(Some(guard));
        let found = budgets().into_iter().find_map(|budget| walk(budget).err());
        remove(None);
        let found = found.unwrap_or_else(|| panic!("nothing goes wrong without {guard:?}"));
        println!("without {guard:?}: {found}");
        assert!(found.starts_with(expected), "without {guard:?}: {found}");
    }
}
