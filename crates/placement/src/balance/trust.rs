//! Against hosts whose reports are false, by mistake or not: what moves found there decides whether they take part.
//!
//! A host that publishes less than it has is the emptiest target for ever, and every VM that comes is worse off. Two
//! misfits among the latest three findings about a host suffice; one may be the VM's own change of demand.
//!
//! A finding is a misfit if it lies far from the fleet's others. Where demand comes in bursts every finding is off, and off to
//! one side: a VM is moved when it wants most. So the middle is the median of all findings, and far is three standard deviations
//! by the median deviation from it (Hampel's identifier, "The Influence Curve", 1974), which hosts that lie do not move as long
//! as they are few. Where hardly anything differs, far is a bound of its own.

use super::board::Board;
use crate::found::{Compared, Finding};
use crate::guard::{Guard, holds};
use crate::limits::FINDINGS_COUNTED;
use crate::name::Name;
use crate::plan::Reason;
use crate::rules::Rules;
use std::collections::{BTreeMap, BTreeSet};
use units::{Duration, Instant};

/// Misfits among the latest findings that make a host distrusted.
const MISFITS: usize = 2;
/// By what factor a demand may differ from the fleet's usual one in any fleet. A demand that follows the hours of the day
/// changes by less in a window or two.
const DEMAND_FACTOR: f64 = 1.5;
/// By how much a hit ratio may fall short beyond the usual in any fleet.
const HITS_SHORT: f64 = 0.10;
/// How many standard deviations are far.
const FAR: f64 = 3.0;
/// The standard deviation by the median deviation, of normal numbers.
const BY_MEDIAN_DEVIATION: f64 = 1.4826;
/// With fewer findings nothing is known of what is usual, and exact reports are expected.
const USUAL_LEAST: usize = 8;

/// What is usual in a fleet, and from where on something is far from it.
#[derive(Clone, Copy, Debug)]
struct Usual {
    middle: f64,
    far: f64,
}

impl Usual {
    /// Of these figures; `least` is far in any fleet.
    fn of(mut figures: Vec<f64>, least: f64) -> Self {
        if figures.len() < USUAL_LEAST {
            return Self {
                middle: 0.0,
                far: least,
            };
        }
        let middle = median(&mut figures);
        let mut deviations: Vec<f64> = figures.iter().map(|one| (one - middle).abs()).collect();
        let spread = BY_MEDIAN_DEVIATION * median(&mut deviations);
        Self {
            middle,
            far: least.max(FAR * spread),
        }
    }
}

/// The middle one of some figures, the upper one of two.
fn median(figures: &mut [f64]) -> f64 {
    let half = figures.len() / 2;
    *figures.select_nth_unstable_by(half, f64::total_cmp).1
}

/// The hosts whose reports are not believed at this time.
pub fn distrusted(findings: &[Finding], rules: &Rules, now: Instant) -> BTreeSet<Name> {
    if rules.distrust == Duration::ZERO || !holds(Guard::Trust) {
        return BTreeSet::new();
    }
    let figures = findings.iter().map(|one| &one.compared);
    let demand = figures.clone().map(Compared::drift).collect();
    let demand = Usual::of(demand, DEMAND_FACTOR.ln());
    let hits = Usual::of(figures.filter_map(Compared::short).collect(), HITS_SHORT);
    let is_misfit = |of: &Compared| {
        let short = of.short();
        (of.drift() - demand.middle).abs() > demand.far
            || short.is_some_and(|short| short - hits.middle > hits.far)
    };
    let mut about: BTreeMap<&Name, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        about.entry(&finding.host).or_default().push(finding);
    }
    let is_distrusted = |all: &mut Vec<&Finding>| {
        all.sort_by(|one, other| (other.at, &other.vm).cmp(&(one.at, &one.vm)));
        all.truncate(FINDINGS_COUNTED);
        all.retain(|one| is_misfit(&one.compared));
        let latest = all.first().map(|one| one.at);
        all.len() >= MISFITS && latest.is_some_and(|at| now.since(at) < rules.distrust)
    };
    about.retain(|_, all| is_distrusted(all));
    about.into_keys().cloned().collect()
}

/// Refuses to send a VM away from a host that may only claim to be full.
pub(super) fn of_source(board: &Board<'_>, source: usize) -> Option<Reason> {
    board
        .is_distrusted(source)
        .then_some(Reason::SourceDistrusted)
}

/// Refuses to send a VM to a host that may only claim to be empty.
pub(super) fn of_target(board: &Board<'_>, target: usize) -> Option<Reason> {
    board
        .is_distrusted(target)
        .then_some(Reason::TargetDistrusted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::remove;
    use crate::testkit::name;

    fn finding(at: u64, found: u64) -> Finding {
        Finding {
            host: name("b"),
            vm: name("v"),
            at: Instant::ZERO + Duration::from_secs(at),
            compared: Compared {
                demand_expected_bytes: 100,
                demand_found_bytes: found,
                hits_expected: 0.8,
                hits_found: None,
            },
        }
    }

    fn distrusts(all: &[Finding], now_s: u64) -> bool {
        let now = Instant::ZERO + Duration::from_secs(now_s);
        distrusted(all, &Rules::hearth(), now).contains(&name("b"))
    }

    #[test]
    fn two_misfits_of_the_latest_three_cost_a_week() {
        assert!(!distrusts(&[finding(1, 30)], 2));
        let twice = [finding(1, 30), finding(9, 30)];
        assert!(distrusts(&twice, 10));
        let others = twice.clone().map(|one| Finding {
            host: name("c"),
            ..one
        });
        assert!(!distrusts(&others, 10));
        // Two good ones later it is believed again; so it is after a week.
        let mended = [twice.clone(), [finding(20, 99), finding(21, 101)]].concat();
        assert!(!distrusts(&mended, 22));
        assert!(!distrusts(&twice, 9 + 7 * 24 * 3600));
        remove(Some(Guard::Trust));
        assert!(!distrusts(&twice, 10));
        remove(None);
    }

    #[test]
    fn hits_that_fall_short_twice_are_misfits() {
        let short = |at, hits| {
            let mut one = finding(at, 100);
            one.compared.hits_found = Some(hits);
            one
        };
        assert!(distrusts(&[short(1, 0.6), short(2, 0.65)], 3));
        assert!(!distrusts(&[short(1, 0.75), short(2, 0.95)], 3));
    }

    /// What other hosts' moves have found: these parts of what was expected, in turn.
    fn fleet(parts: &[u64]) -> Vec<Finding> {
        let found = parts.iter().cycle().take(40).enumerate();
        found
            .map(|(at, found)| Finding {
                host: name(&format!("other-{at}")),
                ..finding(at as u64, *found)
            })
            .collect()
    }

    #[test]
    fn a_host_is_judged_by_what_is_usual_in_its_fleet() {
        let liar = [finding(50, 38), finding(51, 42)];
        let calm = [fleet(&[90, 100, 110]), liar.to_vec()].concat();
        assert!(distrusts(&calm, 52));
        // Where demand comes in bursts, half of it is nothing unusual.
        let bursts = [fleet(&[20, 40, 70, 100, 250]), liar.to_vec()].concat();
        assert!(!distrusts(&bursts, 52));
        // A VM is moved when it wants most: less than that is usual, and exact reports are not what is far off.
        let honest = [finding(50, 60), finding(51, 55)];
        let after_peaks = [fleet(&[55, 60, 65]), honest.to_vec()].concat();
        assert!(!distrusts(&after_peaks, 52));
    }
}
