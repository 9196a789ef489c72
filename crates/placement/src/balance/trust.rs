//! Against hosts whose reports are false, by mistake or not: what moves found there decides whether they take part.
//!
//! A host that publishes less than it has is the emptiest target for ever, and every VM that comes is worse off. Two
//! misfits among the latest three findings about a host suffice; one may be the VM's own change of demand.

use super::board::Board;
use crate::found::Finding;
use crate::guard::{Guard, holds};
use crate::limits::FINDINGS_COUNTED;
use crate::name::Name;
use crate::plan::Reason;
use crate::rules::Rules;
use units::{Duration, Instant};

/// Misfits among the latest findings that make a host distrusted.
const MISFITS: usize = 2;

/// Whether a host's reports are not believed at this time.
pub fn is_distrusted(findings: &[Finding], host: &Name, rules: &Rules, now: Instant) -> bool {
    if rules.distrust == Duration::ZERO || !holds(Guard::Trust) {
        return false;
    }
    let mut about: Vec<&Finding> = findings.iter().filter(|one| one.host == *host).collect();
    about.sort_by(|one, other| (other.at, &other.vm).cmp(&(one.at, &one.vm)));
    about.truncate(FINDINGS_COUNTED);
    about.retain(|one| one.compared.is_misfit());
    let latest = about.first().map(|one| one.at);
    about.len() >= MISFITS && latest.is_some_and(|at| now.since(at) < rules.distrust)
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
    use crate::found::Compared;
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

    #[test]
    fn two_misfits_of_the_latest_three_cost_a_week() {
        let rules = Rules::hearth();
        let distrusts = |all: &[Finding], now| {
            let now = Instant::ZERO + Duration::from_secs(now);
            is_distrusted(all, &name("b"), &rules, now)
        };
        assert!(!distrusts(&[finding(1, 30)], 2));
        let twice = [finding(1, 30), finding(9, 30)];
        assert!(distrusts(&twice, 10));
        assert!(!is_distrusted(&twice, &name("c"), &rules, Instant::ZERO));
        // Two good ones later it is believed again; so it is after a week.
        let mended = [twice.clone(), [finding(20, 99), finding(21, 101)]].concat();
        assert!(!distrusts(&mended, 22));
        assert!(!distrusts(&twice, 9 + 7 * 24 * 3600));
        remove(Some(Guard::Trust));
        assert!(!distrusts(&twice, 10));
        remove(None);
    }
}
