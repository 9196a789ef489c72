//! Against herds: one arrival a host and round, one VM that leaves a host, a few moves of the cluster. Moves under way
//! count.
//!
//! Hosts that plan alone all choose the emptiest target, which is then the fullest. `OpenShift` Virtualization allows
//! two moves that leave a host and five of a cluster; ours are one and five.

use super::board::Board;
use crate::guard::{Guard, holds};
use crate::plan::Reason;

/// Refuses a host that sends already, and any host while the cluster is busy.
pub(super) fn of_source(board: &Board<'_>, source: usize) -> Option<Reason> {
    if holds(Guard::OneOutbound) && board.leaving(source) >= board.rules().outbound {
        return Some(Reason::SendsAlready);
    }
    (holds(Guard::ClusterLimit) && board.moves() >= board.rules().cluster)
        .then_some(Reason::ClusterBusy)
}

/// Refuses a VM that is on its way, whose move has failed, or that two hosts name.
pub(super) fn of_vm(board: &Board<'_>, source: usize, vm: usize) -> Option<Reason> {
    let name = &board.vm(source, vm).vm;
    if board.is_moving(name) {
        return Some(Reason::Moving);
    }
    (holds(Guard::NamedTwice) && board.is_named_twice(name)).then_some(Reason::NamedTwice)
}

/// Refuses a host that takes as many as it may.
pub(super) fn of_target(board: &Board<'_>, target: usize) -> Option<Reason> {
    (holds(Guard::OneArrival) && board.arriving(target) >= board.rules().arrivals)
        .then_some(Reason::TakesAlready)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{Fleet, UnderWay};
    use crate::guard::remove;
    use crate::load::HostLoad;
    use crate::testkit::{fleet, host, name, vm};
    use crate::{HostReport, Plan, Rules, plan};
    use units::Instant;

    /// So many hosts above their bound, each with ten VMs, and two that are empty, of which one is larger.
    fn hosts(overloaded: usize) -> Vec<HostReport> {
        let mut all: Vec<_> = (0..overloaded)
            .map(|at| {
                let vms: Vec<_> = (0..10).map(|of| vm(&format!("v{at}-{of}"), 10)).collect();
                host(&format!("a{at:02}"), 105, &vms)
            })
            .collect();
        all.push(host("empty-large", 1000, &[]));
        all.push(host("empty-small", 100, &[]));
        all
    }

    fn planned(fleet: &Fleet) -> Plan {
        plan(fleet, &Rules::hearth(), Instant::ZERO)
    }

    #[test]
    fn two_hosts_do_not_choose_the_same_target() {
        let targets = || {
            let plan = planned(&fleet(&hosts(2)));
            let mut targets: Vec<_> = plan.moves.iter().map(|one| one.to.clone()).collect();
            targets.sort();
            targets.dedup();
            (plan.moves.len(), targets.len())
        };
        assert_eq!(targets(), (2, 2));
        remove(Some(Guard::OneArrival));
        let without = targets();
        remove(None);
        assert_eq!(without, (2, 1));
    }

    #[test]
    fn the_cluster_carries_out_five_moves_at_a_time() {
        let mut hosts = hosts(8);
        hosts.extend((0..8).map(|at| host(&format!("free{at}"), 100, &[])));
        let plan = planned(&fleet(&hosts));
        assert_eq!(plan.moves.len(), 5);
        let waits = |rejected: &&crate::Rejected| rejected.reason == Reason::ClusterBusy;
        assert_eq!(plan.rejected.iter().filter(waits).count(), 3);
        // They wait for their turn, so nothing is missing.
        assert!(plan.short.is_empty());
        remove(Some(Guard::ClusterLimit));
        let without = planned(&fleet(&hosts));
        remove(None);
        assert_eq!(without.moves.len(), 8);
    }

    #[test]
    fn a_move_under_way_takes_its_place_at_both_hosts() {
        let reports = hosts(1);
        let loads = reports
            .iter()
            .map(|report| HostLoad::try_from(report.clone()).unwrap());
        let going = UnderWay {
            vm: name("v0-3"),
            from: name("a00"),
            to: name("empty-large"),
            has_failed: false,
        };
        let fleet = |has_failed| {
            let going = UnderWay {
                has_failed,
                ..going.clone()
            };
            Fleet::new(loads.clone().collect(), vec![going], Vec::new()).unwrap()
        };
        assert!(planned(&fleet(false)).moves.is_empty());
        // A failed move blocks its own VM only.
        let failed = planned(&fleet(true));
        assert_eq!(failed.moves.len(), 1);
        assert_ne!(failed.moves[0].vm, name("v0-3"));
        remove(Some(Guard::OneOutbound));
        let without = planned(&fleet(false));
        remove(None);
        assert_eq!(without.moves.len(), 1);
    }

    #[test]
    fn the_demand_on_its_way_counts_at_its_target() {
        // 70 % of the target are on their way: another 20 % would be too much.
        let reports = [
            host("a", 100, &[vm("going", 70), vm("w", 25)]),
            host("b", 100, &[vm("v", 20), vm("x", 75)]),
            host("c", 100, &[]),
        ];
        let loads: Vec<_> = reports
            .iter()
            .map(|report| HostLoad::try_from(report.clone()).unwrap())
            .collect();
        let going = UnderWay {
            vm: name("going"),
            from: name("a"),
            to: name("c"),
            has_failed: false,
        };
        let fleet = Fleet::new(loads, vec![going], Vec::new()).unwrap();
        let mut rules = Rules::hearth();
        rules.arrivals = 2;
        let to_c = || {
            let plan = plan(&fleet, &rules, Instant::ZERO);
            plan.moves.iter().any(|one| one.to == name("c"))
        };
        assert!(!to_c());
        remove(Some(Guard::ArrivalsCount));
        let without = to_c();
        remove(None);
        assert!(without);
    }

    #[test]
    fn a_vm_that_two_hosts_name_stays() {
        let reports = [
            host("a", 100, &[vm("v", 95)]),
            host("b", 100, &[vm("v", 5)]),
            host("c", 1000, &[]),
        ];
        assert!(planned(&fleet(&reports)).moves.is_empty());
        remove(Some(Guard::NamedTwice));
        let without = planned(&fleet(&reports));
        remove(None);
        assert_eq!(without.moves.len(), 1);
    }
}
