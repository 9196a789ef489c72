//! Against moves back and forth: a target stays a margin below the bound that would make it send, and a VM that has
//! moved rests.

use super::board::Board;
use crate::guard::{Guard, holds};
use crate::load::{VmLoad, seconds};
use crate::plan::Reason;
use units::Bytes;

/// Refuses a VM that moved less than a rest ago.
pub(super) fn of_vm(board: &Board<'_>, vm: &VmLoad) -> Option<Reason> {
    let rested = board.now().since(vm.moved?);
    let rest = board.rules().rest();
    if !holds(Guard::Rest) || rested >= rest {
        return None;
    }
    Some(Reason::Rests {
        seconds: seconds(rest) - seconds(rested),
    })
}

/// Refuses a target that would not stay below its bound, by the margin, with the VM.
pub(super) fn of_target(board: &Board<'_>, target: usize, vm: &VmLoad) -> Option<Reason> {
    let host = board.host(target);
    let margin = if holds(Guard::TargetMargin) {
        board.rules().margin
    } else {
        0.0
    };
    let demand = board.demand(target).get().saturating_add(vm.rwss.get());
    // Stays *under* the bound: the paper's words.
    (host.load_of(Bytes::new(demand)) >= host.load_max() - margin).then_some(Reason::NoRoom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::remove;
    use crate::load::instant_of_seconds;
    use crate::testkit::{fleet, host, vm};
    use crate::{Rules, plan};

    #[test]
    fn a_target_stays_under_its_margin() {
        // With it the target would be at 87 %.
        let hosts = [
            host("a", 100, &[vm("v", 7), vm("w", 88)]),
            host("b", 100, &[vm("x", 80)]),
        ];
        let plan = || plan(&fleet(&hosts), &Rules::hearth(), instant_of_seconds(0));
        let kept = plan();
        assert!(kept.moves.is_empty());
        assert_eq!(kept.short.len(), 1);
        remove(Some(Guard::TargetMargin));
        let free = plan();
        remove(None);
        assert_eq!(free.moves.len(), 1);
    }

    #[test]
    fn a_vm_that_has_moved_rests_twelve_windows() {
        let moved = |at| {
            let mut came = vm("v", 10);
            came.moved_at_s = Some(at);
            let mut stays = vm("w", 85);
            stays.pinned = true;
            [host("a", 100, &[came, stays]), host("b", 100, &[])]
        };
        let day = 24 * 3600;
        let planned = |now| {
            let plan = plan(
                &fleet(&moved(1000)),
                &Rules::hearth(),
                instant_of_seconds(now),
            );
            plan.moves.len()
        };
        assert_eq!(planned(1000 + day - 1), 0);
        assert_eq!(planned(1000 + day), 1);
        remove(Some(Guard::Rest));
        assert_eq!(planned(1000 + day - 1), 1);
        remove(None);
    }
}
