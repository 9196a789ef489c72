//! What forbids a move whatever the flash gains: processors, memory, anti-affinity, pins, reach of the origin. Never
//! objectives: those who balance processors and memory have schedulers for that.

use super::board::Board;
use crate::guard::{Guard, holds};
use crate::load::VmLoad;
use crate::plan::Reason;

/// Refuses a VM that is pinned.
pub(super) fn of_vm(vm: &VmLoad) -> Option<Reason> {
    (holds(Guard::Pins) && vm.pinned).then_some(Reason::Pinned)
}

/// Refuses a target that could not run the VM.
pub(super) fn of_target(board: &Board<'_>, target: usize, vm: &VmLoad) -> Option<Reason> {
    let left = board.left(target);
    if holds(Guard::Cpu) && vm.needs.cpu_millis > left.cpu_millis {
        return Some(Reason::NoCpu);
    }
    if holds(Guard::Memory) && vm.needs.memory_bytes > left.memory_bytes {
        return Some(Reason::NoMemory);
    }
    if holds(Guard::AntiAffinity)
        && vm
            .group
            .as_ref()
            .is_some_and(|group| board.has_group(target, group))
    {
        return Some(Reason::SameGroup);
    }
    let reached = &board.host(target).origins;
    let reaches = |origin| reached.binary_search(origin).is_ok();
    (holds(Guard::Reach) && !vm.origins.iter().all(reaches)).then_some(Reason::OriginOutOfReach)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::remove;
    use crate::testkit::{fleet, host, vm};
    use crate::{HostReport, Rules, plan};
    use units::Instant;

    /// A full host whose small VM could go to an empty one.
    fn hosts() -> [HostReport; 2] {
        let mut stays = vm("w", 85);
        stays.pinned = true;
        [
            host("a", 100, &[vm("v", 10), stays]),
            host("b", 100, &[vm("x", 1)]),
        ]
    }

    /// Whether the small VM stays with the change, and goes without it and without the guard.
    fn keeps(guard: Guard, reason: Reason, change: impl FnOnce(&mut [HostReport; 2])) {
        let planned = |hosts: &[HostReport]| plan(&fleet(hosts), &Rules::hearth(), Instant::ZERO);
        let mut hosts = hosts();
        assert_eq!(planned(&hosts).moves.len(), 1);
        change(&mut hosts);
        let plan = planned(&hosts);
        assert!(plan.moves.is_empty());
        assert!(plan.rejected.iter().any(|one| one.reason == reason));
        assert_eq!(plan.short.len(), 1, "{reason:?} leaves no plan");
        remove(Some(guard));
        let without = planned(&hosts);
        remove(None);
        assert_eq!(without.moves.len(), 1, "without {guard:?}");
    }

    #[test]
    fn a_target_without_processors_is_none() {
        keeps(Guard::Cpu, Reason::NoCpu, |hosts| {
            hosts[1].free.cpu_millis = 999;
        });
    }

    #[test]
    fn a_target_without_memory_is_none() {
        keeps(Guard::Memory, Reason::NoMemory, |hosts| {
            hosts[1].free.memory_bytes = (1 << 30) - 1;
        });
    }

    #[test]
    fn vms_of_one_group_stay_apart() {
        keeps(Guard::AntiAffinity, Reason::SameGroup, |hosts| {
            hosts[0].vms[0].group = Some("web".to_owned());
            hosts[1].vms[0].group = Some("web".to_owned());
        });
    }

    #[test]
    fn a_pinned_vm_stays() {
        keeps(Guard::Pins, Reason::Pinned, |hosts| {
            hosts[0].vms[0].pinned = true;
        });
    }

    #[test]
    fn a_target_that_does_not_reach_the_origin_is_none() {
        keeps(Guard::Reach, Reason::OriginOutOfReach, |hosts| {
            hosts[0].vms[0].origins = vec!["san-1".to_owned()];
            hosts[1].origins = vec!["san-2".to_owned()];
        });
    }
}
