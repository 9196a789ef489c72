//! What is known of the cluster, and what changes of it.

use events::EventKind;
use executor::Recorded;
use placement::moving::Move;
use placement::{HostReport, Name, Plan, Proposed, Short};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use units::Bytes;

/// How a move ends.
pub(crate) const OUTCOMES: [&str; 3] = ["done", "rolled-back", "failed"];
/// The stages in which a move is not over, or an operator has to look.
pub(crate) const STAGES: [&str; 8] = [
    "planned",
    "approved",
    "prepared",
    "migrating",
    "granted",
    "draining",
    "withdrawing",
    "failed",
];
/// What a host is to a move.
pub(crate) const ROLES: [&str; 3] = ["source", "target", "driver"];
/// How many hosts that are not heard of are remembered: hosts that are taken out of a cluster are no news for ever.
const MISSING_MAX: usize = 1024;

/// Something that an operator is told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    HostLost(String),
    HostBack(String),
    Short(Short),
    Enough(Name),
    Planned(Vec<Proposed>),
    Moved(EventKind, Move),
}

/// What metrics tell of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClusterNumbers {
    /// Whether the store answered when it was asked last.
    pub(crate) store_answers: bool,
    /// How long ago it answered; none if never.
    pub(crate) view_age: Option<Duration>,
    /// Hosts that are heard of.
    pub(crate) hosts_heard: usize,
    /// Hosts that were heard of in this run and are not now.
    pub(crate) hosts_missing: usize,
    /// Moves of which this host is a part, by its role and by stage.
    pub(crate) moves: BTreeMap<(&'static str, &'static str), u64>,
    /// Moves that this host drove to their end, by outcome.
    pub(crate) ended: BTreeMap<&'static str, Ended>,
    /// Plans that this host made.
    pub(crate) plans: u64,
    /// Whether this host plans.
    pub(crate) plans_now: bool,
    /// How long ago it made its last plan, if it plans.
    pub(crate) plan_age: Option<Duration>,
    /// Hosts that lack flash by the last plan, if this host plans.
    pub(crate) hosts_short: Option<usize>,
    /// What they lack.
    pub(crate) flash_missing: Option<Bytes>,
    /// What the working sets of this host's VMs take, and the flash that there is for them, as it said last.
    pub(crate) load: Option<(Bytes, Bytes)>,
}

/// Moves that have ended one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// How many.
    pub(crate) count: u64,
    /// How long they took together, from when this host saw them first.
    pub(crate) time: Duration,
}

/// What is known.
#[derive(Debug, Default)]
pub(super) struct State {
    answers: bool,
    /// When the store answered last.
    seen_at: Option<Instant>,
    heard: BTreeSet<String>,
    missing: BTreeSet<String>,
    moves: BTreeMap<Name, Seen>,
    ended: BTreeMap<&'static str, Ended>,
    load: Option<(Bytes, Bytes)>,
    plans: u64,
    /// While this host plans.
    planning: Option<Planning>,
}

/// What was planned last.
#[derive(Debug, Default)]
struct Planning {
    at: Option<Instant>,
    moves: BTreeSet<(Name, Name, Name)>,
    short: BTreeMap<Name, Bytes>,
}

/// A VM's last move.
#[derive(Debug)]
struct Seen {
    record: Move,
    /// When this host saw it first.
    since: Instant,
}

impl State {
    /// The store has these hosts and moves now.
    pub(super) fn saw(
        &mut self,
        me: &Name,
        heard: &BTreeSet<String>,
        moves: &[Recorded],
        now: Instant,
    ) -> Vec<Change> {
        let is_first = self.seen_at.is_none();
        (self.answers, self.seen_at) = (true, Some(now));
        let mut changes = self.hear(me, heard, is_first);
        self.moves
            .retain(|vm, _| moves.iter().any(|one| one.record.vm == *vm));
        for one in moves {
            changes.extend(self.follow(me, &one.record, is_first, now));
        }
        changes
    }

    pub(super) fn saw_nothing(&mut self) {
        self.answers = false;
    }

    /// Hears of hosts. Of this one its own store's answers tell.
    fn hear(&mut self, me: &Name, heard: &BTreeSet<String>, is_first: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        if !is_first {
            let is_other = |host: &&String| host.as_str() != me.as_str();
            let lost = self.heard.difference(heard).filter(is_other).cloned();
            changes.extend(lost.map(Change::HostLost));
            let back = heard.difference(&self.heard).filter(is_other).cloned();
            changes.extend(back.map(Change::HostBack));
        }
        let lost = self.heard.difference(heard).cloned();
        self.missing.extend(lost);
        self.missing.retain(|host| !heard.contains(host));
        while self.missing.len() > MISSING_MAX {
            self.missing.pop_first();
        }
        self.heard.clone_from(heard);
        changes
    }

    /// Follows a move. What has ended before this run is no news.
    fn follow(&mut self, me: &Name, record: &Move, is_first: bool, now: Instant) -> Option<Change> {
        let known = self.moves.get(&record.vm);
        if known.is_some_and(|known| known.record.step >= record.step) {
            return None;
        }
        let is_next =
            known.is_none_or(|known| known.record.stage.is_final() && !record.stage.is_final());
        let since = match known {
            Some(known) if !is_next => known.since,
            _ => now,
        };
        // Another driver commits the stage that it goes on with.
        let is_same = known.is_some_and(|known| known.record.stage == record.stage);
        let seen = Seen {
            record: record.clone(),
            since,
        };
        self.moves.insert(record.vm.clone(), seen);
        if is_first || (is_same && !is_next) {
            return None;
        }
        let is_mine = record.driver.as_ref() == Some(me);
        if record.stage.is_final() && is_mine {
            let ended = self.ended.entry(record.stage.word()).or_default();
            ended.count += 1;
            ended.time += now.saturating_duration_since(since);
        }
        let kind = match (record.stage.is_final(), is_next) {
            (true, _) => EventKind::MoveEnded,
            (false, true) => EventKind::MoveBegun,
            (false, false) => EventKind::MoveState,
        };
        let takes_part = is_mine || record.from == *me || record.to == *me;
        let is_told = takes_part || self.planning.is_some();
        is_told.then(|| Change::Moved(kind, record.clone()))
    }

    pub(super) fn leads(&mut self, leads: bool) {
        self.planning = leads.then(Planning::default);
    }

    /// This host has made a plan.
    pub(super) fn planned(&mut self, plan: &Plan, now: Instant) -> Vec<Change> {
        self.plans += 1;
        let last = self.planning.get_or_insert_default();
        last.at = Some(now);
        let short = plan.short.iter();
        let short: BTreeMap<_, _> = short.map(|one| (one.host.clone(), one.missing)).collect();
        let begins = |one: &&Short| !last.short.contains_key(&one.host);
        let mut changes: Vec<_> = plan
            .short
            .iter()
            .filter(begins)
            .cloned()
            .map(Change::Short)
            .collect();
        let ends = last.short.keys().filter(|host| !short.contains_key(*host));
        changes.extend(ends.cloned().map(Change::Enough));
        last.short = short;
        let way = |of: &Proposed| (of.vm.clone(), of.from.clone(), of.to.clone());
        let moves: BTreeSet<_> = plan.moves.iter().map(way).collect();
        if !moves.is_empty() && moves != last.moves {
            changes.push(Change::Planned(plan.moves.clone()));
        }
        last.moves = moves;
        changes
    }

    pub(super) fn says(&mut self, report: &HostReport) {
        let wanted: u64 = report.vms.iter().map(|vm| vm.rwss_bytes).sum();
        self.load = Some((Bytes::new(wanted), Bytes::new(report.capacity_bytes)));
    }

    pub(super) fn numbers(&self, me: &Name, now: Instant) -> ClusterNumbers {
        let mut moves = BTreeMap::new();
        for Seen { record, .. } in self.moves.values() {
            let is_role = [
                record.from == *me,
                record.to == *me,
                record.driver.as_ref() == Some(me),
            ];
            for (role, _) in ROLES.into_iter().zip(is_role).filter(|(_, is)| *is) {
                *moves.entry((role, record.stage.word())).or_default() += 1;
            }
        }
        let age = |at: Instant| now.saturating_duration_since(at);
        let planning = self.planning.as_ref();
        ClusterNumbers {
            store_answers: self.answers,
            view_age: self.seen_at.map(age),
            hosts_heard: self.heard.len(),
            hosts_missing: self.missing.len(),
            moves,
            ended: self.ended.clone(),
            plans: self.plans,
            plans_now: planning.is_some(),
            plan_age: planning.and_then(|planning| planning.at).map(age),
            hosts_short: planning.map(|planning| planning.short.len()),
            flash_missing: planning.map(|planning| {
                let missing = planning.short.values().map(|missing| missing.get());
                Bytes::new(missing.sum())
            }),
            load: self.load,
        }
    }
}

#[cfg(test)]
impl ClusterNumbers {
    /// Those of a host that plans and is the target of a move.
    pub(crate) fn sample() -> Self {
        let ended = Ended {
            count: 4,
            time: Duration::from_secs(90),
        };
        Self {
            store_answers: true,
            view_age: Some(Duration::from_secs(1)),
            hosts_heard: 3,
            hosts_missing: 1,
            moves: BTreeMap::from([(("target", "migrating"), 1)]),
            ended: BTreeMap::from([("done", ended)]),
            plans: 7,
            plans_now: true,
            plan_age: Some(Duration::from_secs(5)),
            hosts_short: Some(1),
            flash_missing: Some(Bytes::new(1 << 30)),
            load: Some((Bytes::new(3 << 30), Bytes::new(4 << 30))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use placement::moving::{Cause, Stage};
    use units::Instant as Time;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn record(stage: Stage, step: u64) -> Recorded {
        let planned = Move::planned(name("v"), name("a"), name("b"), Time::ZERO);
        Recorded {
            revision: store::Revision(step),
            record: Move {
                stage,
                step,
                driver: Some(name("a")),
                ..planned
            },
        }
    }

    fn heard(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    /// The kinds of events at a host that sees these looks, the first of which is what there was.
    fn kinds(state: &mut State, me: &str, looks: &[Option<Recorded>]) -> Vec<EventKind> {
        let hosts = heard(&["a", "b"]);
        let mut kinds = Vec::new();
        for look in looks {
            let changes = state.saw(&name(me), &hosts, look.as_slice(), Instant::now());
            kinds.extend(changes.into_iter().map(|change| match change {
                Change::Moved(kind, _) => kind,
                other => panic!("{other:?}"),
            }));
        }
        kinds
    }

    #[test]
    fn a_move_begins_goes_on_and_ends_once_at_its_hosts() {
        use EventKind::{MoveBegun, MoveEnded, MoveState};
        let looks = [
            None,
            Some(record(Stage::Approved, 1)),
            Some(record(Stage::Approved, 1)),
            Some(record(Stage::Approved, 2)),
            Some(record(Stage::Migrating, 3)),
            Some(record(Stage::Done, 6)),
            Some(record(Stage::Done, 6)),
        ];
        for (me, count) in [("a", 1), ("b", 0)] {
            let mut state = State::default();
            assert_eq!(
                kinds(&mut state, me, &looks),
                [MoveBegun, MoveState, MoveEnded]
            );
            let ended = state.numbers(&name(me), Instant::now()).ended;
            assert_eq!(ended.get("done").map_or(0, |ended| ended.count), count);
        }
        let mut other = State::default();
        assert!(kinds(&mut other, "c", &looks).is_empty());
        other.leads(true);
        let next = [
            Some(record(Stage::Planned, 7)),
            Some(record(Stage::RolledBack(Cause::Late), 8)),
        ];
        assert_eq!(kinds(&mut other, "c", &next), [MoveBegun, MoveEnded]);
    }

    #[test]
    fn what_was_there_before_this_run_is_no_news() {
        let mut state = State::default();
        assert!(kinds(&mut state, "a", &[Some(record(Stage::Migrating, 3))]).is_empty());
        let numbers = state.numbers(&name("a"), Instant::now());
        assert_eq!(numbers.moves[&("source", "migrating")], 1);
        assert_eq!(numbers.moves[&("driver", "migrating")], 1);
    }

    #[test]
    fn a_host_is_lost_and_back_once() {
        let mut state = State::default();
        let mut see = |names: &[&str]| state.saw(&name("a"), &heard(names), &[], Instant::now());
        assert!(see(&["b"]).is_empty());
        assert!(see(&["a", "b"]).is_empty(), "this host itself");
        assert_eq!(see(&["a"]), [Change::HostLost("b".to_owned())]);
        assert!(see(&["a"]).is_empty());
        assert_eq!(see(&["a", "b"]), [Change::HostBack("b".to_owned())]);
        let numbers = state.numbers(&name("a"), Instant::now());
        assert_eq!((numbers.hosts_heard, numbers.hosts_missing), (2, 0));
    }

    #[test]
    fn a_host_that_lacks_flash_is_told_of_when_that_begins_and_ends() {
        let short = Short {
            host: name("b"),
            load: 1.2,
            missing: Bytes::new(4096),
            scale: 0.8,
        };
        let plan = |short: Vec<Short>| Plan {
            moves: Vec::new(),
            rejected: Vec::new(),
            short,
            before: placement::Outlook::default(),
            after: placement::Outlook::default(),
        };
        let mut state = State::default();
        state.leads(true);
        let mut make = |short: Vec<Short>| state.planned(&plan(short), Instant::now());
        assert_eq!(make(vec![short.clone()]), [Change::Short(short.clone())]);
        assert!(make(vec![short.clone()]).is_empty());
        assert_eq!(make(Vec::new()), [Change::Enough(name("b"))]);
        make(vec![short]);
        let numbers = state.numbers(&name("a"), Instant::now());
        assert_eq!(
            (numbers.plans, numbers.flash_missing),
            (4, Some(Bytes::new(4096)))
        );
        state.leads(false);
        assert_eq!(
            state.numbers(&name("a"), Instant::now()).flash_missing,
            None
        );
    }
}
