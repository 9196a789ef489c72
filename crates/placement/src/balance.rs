//! Which VM moves where: `CloudCache`'s rule (Arteaga et al., FAST 2016, section 6) with ours around it.
//!
//! A host's load is the sum of its VMs' predicted working sets by its flash. A host that was above its bound for three
//! windows sends one of its VMs to a host that stays below its bound with it; of all such moves that one is taken
//! after which the loads vary least across hosts. Hosts are planned for one after the other, the heaviest first, and
//! each sees what the ones before it send.
//!
//! | file | rule |
//! |---|---|
//! | `variance` | the paper's objective, and what a move changes of it |
//! | `hysteresis` | a margin at targets, a rest of VMs |
//! | `turns` | one arrival, one departure a host; a few moves of the cluster |
//! | `worth` | what a move gains and costs by the curves of both hosts |
//! | `constraints` | processors, memory, groups, pins, reach of the origin |
//! | `trust` | hosts whose reports did not fit what moves found |
//! | `shortage` | no move: how much flash is missing |

mod board;
mod constraints;
mod hysteresis;
mod shortage;
mod trust;
mod turns;
mod variance;
mod worth;

pub use trust::distrusted;
pub use variance::Loads;

use crate::fleet::Fleet;
use crate::guard::{Guard, holds};
use crate::limits::{TARGETS_WEIGHED, UNWORTHY_LISTED};
use crate::plan::{Plan, Proposed, Reason, Rejected, Why};
use crate::rules::{Objective, Rules};
use board::Board;
use units::Instant;
use worth::Worth;

/// Plans one round for the fleet.
///
/// The outcome does not depend on the order in which hosts and VMs were given. A move of the plan is carried out, or
/// not, before the next round: what is under way is part of the [`Fleet`].
pub fn plan(fleet: &Fleet, rules: &Rules, now: Instant) -> Plan {
    let mut board = Board::new(fleet, rules, now);
    let before = board.outlook();
    let mut moves = Vec::new();
    let mut rejected = Vec::new();
    let mut short = Vec::new();
    for source in board.overloaded() {
        let mut refused = Vec::new();
        let chosen = choose(&board, source, &mut refused);
        if let Some(candidate) = chosen {
            moves.push(proposed(&board, &candidate));
            board.carry_out(candidate.source, candidate.vm, candidate.target);
        } else if !refused.iter().any(has_a_plan) {
            short.push(shortage::of(board.host(source), board.demand(source)));
        }
        rejected.append(&mut refused);
    }
    Plan {
        moves,
        rejected,
        short,
        before,
        after: board.outlook(),
    }
}

/// A possible move.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    source: usize,
    vm: usize,
    target: usize,
    /// What it changes of the number of hosts times the variance.
    change: f64,
    worth: Worth,
}

/// Whether a refusal shows that a move exists, which only waits or does not pay.
fn has_a_plan(rejected: &Rejected) -> bool {
    rejected.reason.is_passing() || matches!(rejected.reason, Reason::NotWorth { .. })
}

/// The best move of one of the source's VMs, by the objective in force. Says in `refused` what was looked at in vain.
fn choose(board: &Board<'_>, source: usize, refused: &mut Vec<Rejected>) -> Option<Candidate> {
    if let Some(reason) = turns::of_source(board, source).or(trust::of_source(board, source)) {
        refused.push(board.refusal(source, None, None, reason));
        return None;
    }
    let mut possible = possible(board, source, refused);
    // Ties go to the first by name, since places are in the order of names.
    possible.sort_by(|one, other| {
        let places = (one.0.vm, one.0.target).cmp(&(other.0.vm, other.0.target));
        one.1.total_cmp(&other.1).then(places)
    });
    if board.rules().objective == Objective::Gain {
        keep_sufficient(board, source, &mut possible);
    }
    let mut best: Option<Candidate> = None;
    let mut unworthy = 0;
    for (at, change) in possible {
        let worth = worth::of(board, source, at.vm, at.target);
        if holds(Guard::Worth) && !worth.pays(board.rules().worth) {
            if unworthy < UNWORTHY_LISTED {
                let reason = worth.refusal();
                refused.push(board.refusal(source, Some(at.vm), Some(at.target), reason));
            }
            unworthy += 1;
            continue;
        }
        let candidate = Candidate {
            source,
            vm: at.vm,
            target: at.target,
            change,
            worth,
        };
        match board.rules().objective {
            Objective::Variance => return Some(candidate),
            Objective::Gain => {
                let is_better = best.is_none_or(|best| worth.net_s() > best.worth.net_s());
                best = if is_better { Some(candidate) } else { best };
            }
        }
    }
    best
}

/// Keeps the moves that bring the source below its bound, if there are any. Small VMs are cheap to move and gain little,
/// so that by gain alone an overloaded host would send one after the other.
fn keep_sufficient(board: &Board<'_>, source: usize, possible: &mut Vec<(At, f64)>) {
    let host = board.host(source);
    let is_sufficient = |at: &At| {
        let left = board
            .demand(source)
            .saturating_sub(board.vm(source, at.vm).rwss);
        host.load_of(left) <= host.load_max()
    };
    if possible.iter().any(|(at, _)| is_sufficient(at)) {
        possible.retain(|(at, _)| is_sufficient(at));
    }
}

/// Which VM goes where.
#[derive(Clone, Copy)]
struct At {
    vm: usize,
    target: usize,
}

/// The moves of a source's VMs that no rule forbids, with what each changes of the variance: for each VM the best
/// [`TARGETS_WEIGHED`] targets.
fn possible(board: &Board<'_>, source: usize, refused: &mut Vec<Rejected>) -> Vec<(At, f64)> {
    let mut all = Vec::new();
    for vm in board.members(source) {
        if let Some(reason) = reason_of_vm(board, source, vm) {
            refused.push(board.refusal(source, Some(vm), None, reason));
            continue;
        }
        let mut best: Vec<(At, f64)> = Vec::with_capacity(TARGETS_WEIGHED + 1);
        let mut reasons: Vec<(Reason, usize, usize)> = Vec::new();
        for target in (0..board.hosts()).filter(|target| *target != source) {
            let change = board.change(source, vm, target);
            match reason_of_target(board, source, vm, target, change) {
                None => {
                    let at = best.partition_point(|(_, before)| *before <= change);
                    if at < TARGETS_WEIGHED {
                        best.insert(at, (At { vm, target }, change));
                        best.truncate(TARGETS_WEIGHED);
                    }
                }
                Some(reason) => match reasons.iter_mut().find(|(known, ..)| *known == reason) {
                    Some((_, _, count)) => *count += 1,
                    None => reasons.push((reason, target, 1)),
                },
            }
        }
        for (reason, target, count) in reasons {
            let mut refusal = board.refusal(source, Some(vm), Some(target), reason);
            refusal.targets = count;
            refused.push(refusal);
        }
        all.append(&mut best);
    }
    all
}

fn reason_of_vm(board: &Board<'_>, source: usize, vm: usize) -> Option<Reason> {
    turns::of_vm(board, source, vm)
        .or_else(|| constraints::of_vm(board.vm(source, vm)))
        .or_else(|| hysteresis::of_vm(board, board.vm(source, vm)))
}

/// The most frequent reasons come first: a plan asks this for every VM of an overloaded host and every target.
fn reason_of_target(
    board: &Board<'_>,
    source: usize,
    vm: usize,
    target: usize,
    change: f64,
) -> Option<Reason> {
    let load = board.vm(source, vm);
    hysteresis::of_target(board, target, load)
        .or_else(|| turns::of_target(board, target))
        .or_else(|| constraints::of_target(board, target, load))
        .or_else(|| trust::of_target(board, target))
        .or_else(|| variance::refusal(change))
}

fn proposed(board: &Board<'_>, candidate: &Candidate) -> Proposed {
    let source = board.host(candidate.source);
    let vm = board.vm(candidate.source, candidate.vm);
    Proposed {
        vm: vm.vm.clone(),
        from: source.host.clone(),
        to: board.host(candidate.target).host.clone(),
        demand: vm.rwss,
        dirty: vm.dirty,
        why: Why {
            load: board.load(candidate.source),
            load_max: source.load_max(),
            windows: source.windows_above(),
        },
        expected: candidate.worth.expected(board, candidate.change),
    }
}
