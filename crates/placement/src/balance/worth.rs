//! Whether a move pays, by the curves of both hosts over the next hour.
//!
//! ```text
//!   gain = horizon x sum over VMs of both hosts: reads/s x (hits with the move - hits without) x (miss - hit latency)
//!   cost = (working set + dirty) / bandwidth x sum over both hosts' VMs: reads/s x mean latency x slowdown
//! ```
//!
//! Both are seconds of latency that reads are spared or made to wait. A VM's share with and without the move is the
//! allocation's (`shares`). `CloudCache` limits a transfer's rate for the neighbours' sake and measured their slowdown,
//! 16 % at 40 MB/s and 21 % at 100 (section 5.3); `VMware`'s DRS weighs a move's cost against its gain likewise.

use super::board::Board;
use crate::load::{Costs, VmLoad, seconds, transfer_s};
use crate::plan::{Change, Expected, Reason};
use crate::shares::share;
use units::Bytes;

/// Reads in a second of a host's VMs, and how many of them hit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reads {
    all: f64,
    hits: f64,
}

impl Reads {
    pub(super) fn of<'a>(
        vms: impl Iterator<Item = &'a VmLoad>,
        capacity: Bytes,
        demand: Bytes,
    ) -> Self {
        vms.fold(Self::default(), |reads, vm| {
            reads.and(&Self::of_vm(vm, capacity, demand))
        })
    }

    fn of_vm(vm: &VmLoad, capacity: Bytes, demand: Bytes) -> Self {
        let hits = vm.hits(share(capacity, vm.rwss, demand));
        Self {
            all: vm.reads_per_second,
            hits: vm.reads_per_second * hits,
        }
    }

    fn and(&self, other: &Self) -> Self {
        Self {
            all: self.all + other.all,
            hits: self.hits + other.hits,
        }
    }

    fn less(&self, other: &Self) -> Self {
        Self {
            all: self.all - other.all,
            hits: self.hits - other.hits,
        }
    }

    fn ratio(&self) -> f64 {
        if self.all > 0.0 {
            (self.hits / self.all).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// Seconds that these reads wait for in each second.
    fn waits_s(&self, costs: &Costs) -> f64 {
        let missed = self.all - self.hits;
        (self.hits * costs.hit_us + missed * costs.miss_us) / 1e6
    }
}

/// Both hosts without and with a move, and what it is worth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    source: Change,
    target: Change,
    vm_hits: f64,
    transfer_s: f64,
    gain_s: f64,
    cost_s: f64,
}

/// What moving a VM is worth.
pub(super) fn of(board: &Board<'_>, source: usize, vm: usize, target: usize) -> Worth {
    let load = board.vm(source, vm);
    let (from, to) = (board.host(source), board.host(target));
    let demands = (board.demand(source), board.demand(target));
    let left = demands.0.saturating_sub(load.rwss);
    let joined = Bytes::new(demands.1.get().saturating_add(load.rwss.get()));
    let before = (
        board.reads(source, demands.0),
        board.reads(target, demands.1),
    );
    // The VM's own reads are among those of the source, at the share that all others have once it is gone.
    let leaves = Reads::of_vm(load, from.capacity, left);
    let arrives = Reads::of_vm(load, to.capacity, joined);
    let after = (
        board.reads(source, left).less(&leaves),
        board.reads(target, joined).and(&arrives),
    );
    let saved = before.0.waits_s(&from.costs) + before.1.waits_s(&to.costs)
        - after.0.waits_s(&from.costs)
        - after.1.waits_s(&to.costs);
    let moved = Bytes::new(load.rwss.get().saturating_add(load.dirty.get()));
    let transfer_s = transfer_s(moved, &from.costs, &to.costs);
    let slowed = before.0.waits_s(&from.costs) * from.costs.slowdown
        + before.1.waits_s(&to.costs) * to.costs.slowdown;
    let change = |place: usize, demand, reads: (&Reads, &Reads)| Change {
        load_before: board.load(place),
        load_after: board.host(place).load_of(demand),
        hits_before: reads.0.ratio(),
        hits_after: reads.1.ratio(),
    };
    Worth {
        source: change(source, left, (&before.0, &after.0)),
        target: change(target, joined, (&before.1, &after.1)),
        vm_hits: arrives.ratio(),
        transfer_s,
        gain_s: seconds(board.rules().horizon) * saved,
        cost_s: transfer_s * slowed,
    }
}

impl Worth {
    /// Whether it gains so many times what it costs. A factor of zero asks for nothing, not even a gain.
    pub(super) fn pays(&self, factor: f64) -> bool {
        factor <= 0.0 || (self.gain_s > 0.0 && self.gain_s >= factor * self.cost_s)
    }

    pub(super) const fn net_s(&self) -> f64 {
        self.gain_s - self.cost_s
    }

    pub(super) const fn refusal(&self) -> Reason {
        Reason::NotWorth {
            gain_s: self.gain_s,
            cost_s: self.cost_s,
        }
    }

    pub(super) fn expected(&self, board: &Board<'_>, change: f64) -> Expected {
        Expected {
            source: self.source,
            target: self.target,
            stddev_before: board.loads().stddev(0.0),
            stddev_after: board.loads().stddev(change),
            vm_hits: self.vm_hits,
            transfer_s: self.transfer_s,
            gain_s: self.gain_s,
            cost_s: self.cost_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::guard::{Guard, remove};
    use crate::testkit::{fleet, host, vm};
    use crate::{HostReport, Objective, Reason, Rules, plan};
    use units::Instant;

    /// Rules under which moves have to pay.
    fn rules() -> Rules {
        Rules {
            objective: Objective::Variance,
            ..Rules::gain()
        }
    }

    /// An overloaded host, and an empty one that a slow network joins.
    fn hosts(bandwidth: u64) -> Vec<HostReport> {
        let vms: Vec<_> = (0..10).map(|at| vm(&format!("v{at}"), 12)).collect();
        let mut all = vec![host("a", 100, &vms), host("b", 100, &[])];
        all[1].bandwidth_bytes = bandwidth;
        all
    }

    #[test]
    fn a_move_that_costs_more_than_half_its_gain_is_listed_and_not_proposed() {
        let planned = |bandwidth| plan(&fleet(&hosts(bandwidth)), &rules(), Instant::ZERO);
        let fast = planned(1 << 30);
        assert_eq!(fast.moves.len(), 1);
        let expected = fast.moves[0].expected;
        assert!(expected.gain_s > 2.0 * expected.cost_s);
        let slow = planned(1 << 19);
        assert!(slow.moves.is_empty());
        let not_worth = slow.rejected.iter().filter(|one| {
            matches!(one.reason, Reason::NotWorth { gain_s, cost_s } if gain_s < 2.0 * cost_s)
        });
        assert_eq!(not_worth.count(), 4);
        // A move exists, so the host is not short of flash.
        assert!(slow.short.is_empty());
        remove(Some(Guard::Worth));
        let without = planned(1 << 19);
        remove(None);
        assert_eq!(without.moves.len(), 1);
    }

    #[test]
    fn what_is_expected_follows_from_the_curves() {
        let plan = plan(&fleet(&hosts(1 << 30)), &Rules::hearth(), Instant::ZERO);
        let expected = plan.moves[0].expected;
        // 100 GiB for ten VMs of 12 are shares of 10: between 6 GiB (0.5) and 12 GiB (0.8).
        assert!((expected.source.hits_before - 0.7).abs() < 1e-6);
        // For nine of them, 11.11 GiB.
        assert!(
            (expected.source.hits_after - (0.5 + 0.3 * (100.0 / 9.0 - 6.0) / 6.0)).abs() < 1e-6
        );
        assert!((expected.target.load_after - 0.12).abs() < 1e-12);
        // The VM alone has all of the target: beyond its curve's end.
        assert!((expected.vm_hits - 0.85).abs() < 1e-6);
    }

    #[test]
    fn gain_takes_the_vm_whose_move_saves_most() {
        // The small VM reads much and is cold at its share; the large one reads nothing.
        let mut busy = vm("busy", 10);
        busy.reads_per_second = 50_000.0;
        busy.curve = vec![(20 << 30, 0.9), (90 << 30, 0.1)];
        let mut idle = vm("idle", 40);
        idle.reads_per_second = 0.0;
        let mut stays = vm("stays", 50);
        stays.pinned = true;
        let hosts = [host("a", 100, &[busy, idle, stays]), host("b", 100, &[])];
        let chosen = |objective| {
            let rules = Rules {
                objective,
                ..Rules::hearth()
            };
            let plan = plan(&fleet(&hosts), &rules, Instant::ZERO);
            plan.moves[0].vm.to_string()
        };
        assert_eq!(chosen(Objective::Variance), "idle");
        assert_eq!(chosen(Objective::Gain), "busy");
    }

    #[test]
    fn gain_sends_one_vm_that_suffices_and_no_small_ones() {
        // The small one would be the cheapest.
        let mut small = vm("small", 2);
        small.reads_per_second = 20_000.0;
        let hosts = [
            host(
                "a",
                100,
                &[small, vm("middle", 20), vm("x", 40), vm("y", 42)],
            ),
            host("b", 100, &[]),
        ];
        let plan = plan(&fleet(&hosts), &Rules::gain(), Instant::ZERO);
        assert_eq!(plan.moves.len(), 1);
        assert_ne!(plan.moves[0].vm.as_str(), "small");
        assert!(plan.after.hosts_above == 0);
    }
}
