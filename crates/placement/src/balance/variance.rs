//! The paper's objective: the least variance of load across hosts (`CloudCache`, section 6).
//!
//! With `L` the loads of n hosts, `n Var = sum L^2 - (sum L)^2 / n`. A VM's demand is `a` of the source's flash and `b`
//! of the target's. Moving it changes `n Var` by
//!
//! ```text
//!   a^2 - 2 a L_s  +  b^2 + 2 b L_t  -  (2 S (b - a) + (b - a)^2) / n        S = sum L
//! ```
//!
//! With equal capacities `a = b = d` the sum stays, and `2 d (d - (L_s - L_t))` remains: no move helps unless d is
//! smaller than the distance of the two loads.

use crate::guard::{Guard, holds};
use crate::plan::Reason;

/// Sums over the loads of all hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loads {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Loads {
    /// The sums of these loads.
    pub fn of(loads: impl Iterator<Item = f64>) -> Self {
        loads.fold(Self::default(), |sums, load| Self {
            count: sums.count + 1.0,
            sum: sums.sum + load,
            squares: sums.squares + load * load,
        })
    }

    /// The mean load; zero for no hosts.
    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    /// The standard deviation of the loads, once `n Var` has changed by this.
    pub fn stddev(&self, change: f64) -> f64 {
        let count = self.count.max(1.0);
        let varies = self.squares - self.sum * self.sum / count + change;
        (varies / count).max(0.0).sqrt()
    }

    /// What a move changes of `n Var`. `source` is the source's load and the VM's part of its flash, `target` the same
    /// of the target.
    pub fn change(&self, source: (f64, f64), target: (f64, f64)) -> f64 {
        let ((from, out), (to, into)) = (source, target);
        let more = into - out;
        let of_squares = out * out - 2.0 * out * from + into * into + 2.0 * into * to;
        of_squares - (2.0 * self.sum * more + more * more) / self.count.max(1.0)
    }
}

/// Refuses a move that would raise the variance, which with unequal capacities the paper's bound alone allows.
pub(super) fn refusal(change: f64) -> Option<Reason> {
    (holds(Guard::VarianceFalls) && change >= 0.0).then_some(Reason::VarianceRises)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::remove;
    use crate::testkit::{fleet, host, vm};
    use crate::{Rules, plan};
    use units::Instant;
    use units::number::real;

    fn variance(loads: &[f64]) -> f64 {
        let count = real(loads.len() as u64);
        let mean = loads.iter().sum::<f64>() / count;
        let squares = loads.iter().map(|load| (load - mean) * (load - mean));
        squares.sum::<f64>() / count
    }

    #[test]
    fn the_change_is_that_of_the_definition() {
        let before = [0.95, 0.4, 0.7];
        // A quarter of the source's flash is half of the target's.
        let after = [0.70, 0.9, 0.7];
        let loads = Loads::of(before.into_iter());
        let change = loads.change((0.95, 0.25), (0.4, 0.5));
        let expected = 3.0 * (variance(&after) - variance(&before));
        assert!((change - expected).abs() < 1e-12);
        assert!((loads.stddev(change) - variance(&after).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn with_equal_capacities_it_is_the_short_form() {
        let loads = Loads::of([0.95, 0.4, 0.7].into_iter());
        let change = loads.change((0.95, 0.1), (0.4, 0.1));
        assert!((change - 2.0 * 0.1 * (0.1 - 0.55)).abs() < 1e-12);
    }

    #[test]
    fn a_move_to_a_small_host_that_raises_the_variance_is_refused() {
        // 39 GiB are 4 % of the source and 39 % of any target: two loads near 0.9 replace one.
        let mut stays = vm("w", 881);
        stays.pinned = true;
        let small = |name: &str| host(name, 100, &[vm(&format!("x-{name}"), 50)]);
        let large = host("large", 1000, &[vm("v", 39), stays]);
        let hosts = [large, small("b"), small("c"), small("d")];
        let planned = || plan(&fleet(&hosts), &Rules::paper(), Instant::ZERO);
        let kept = planned();
        assert!(kept.moves.is_empty());
        let rises = |one: &crate::Rejected| one.reason == Reason::VarianceRises && one.targets == 3;
        assert!(kept.rejected.iter().any(rises));
        remove(Some(Guard::VarianceFalls));
        let free = planned();
        remove(None);
        assert!(free.after.load_stddev > free.before.load_stddev);
    }
}
