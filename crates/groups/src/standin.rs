//! Matrices and loads that stand in for those of real data centres, which are not public.
//!
//! - [`gravity`]: `rate = a_u x a_v x noise`, all lognormal with one sigma, dense. Of the matrix of 68 VMs in Clique's
//!   evaluation it is known that totals of VMs vary widely and a few pairs carry most traffic (Meng et al., INFOCOM
//!   2010). Gravity models are the usual stand-in for traffic matrices (Roughan, "Simplifying the Synthesis of Internet
//!   Traffic Matrices", CCR 35, 2005).
//! - [`clustered`]: VMs belong to clusters; within one, rates are lognormal; across, a fraction of that.
//!
//! The median rate is [`MEDIAN_RATE_BYTES`]. Dice that a seed decides draw everything, with functions from `libm`: a seed
//! gives the same matrix on every machine.

use crate::dice::{below, lognormal, permutation};
use crate::latency::Load;
use crate::rate::Rate;
use crate::traffic::TrafficMatrix;
#[cfg(test)]
use crate::{Problem, Split};
use units::number::{count_near, real};
use units::{Bytes, Prng};

/// The median rate of a pair, in bytes a second.
pub const MEDIAN_RATE_BYTES: f64 = 1e6;

/// A dense matrix of `vms` VMs, `vm000` and so on.
///
/// # Panics
/// If the VMs are more than [`VMS_MAX`](crate::limits::VMS_MAX), or `sigma` is no number.
pub fn gravity(vms: usize, sigma: f64, dice: &mut Prng) -> TrafficMatrix {
    let weights: Vec<f64> = (0..vms).map(|_| lognormal(dice, sigma)).collect();
    fill(vms, |one, other| {
        MEDIAN_RATE_BYTES * weights[one] * weights[other] * lognormal(dice, sigma)
    })
}

/// What a clustered matrix is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clustered {
    /// How many clusters; VMs belong to them at random, and each has one at least.
    pub clusters: usize,
    /// The deviation of a rate's logarithm.
    pub sigma: f64,
    /// Rates between clusters, as a part of rates within.
    pub across: f64,
    /// The part of the pairs between clusters that talk at all.
    pub linked: f64,
}

impl Clustered {
    /// So many clusters, with the usual spread and traffic across.
    pub const fn of(clusters: usize) -> Self {
        Self {
            clusters,
            sigma: 0.7,
            across: 0.1,
            linked: 0.1,
        }
    }
}

/// A matrix of `vms` VMs in clusters, and the cluster of each.
///
/// # Panics
/// If the VMs are more than [`VMS_MAX`](crate::limits::VMS_MAX), there is no cluster, or a number is none.
pub fn clustered(vms: usize, kind: &Clustered, dice: &mut Prng) -> (TrafficMatrix, Vec<usize>) {
    let mut of_vm = vec![0; vms];
    for (place, vm) in permutation(dice, vms).into_iter().enumerate() {
        of_vm[vm] = if place < kind.clusters {
            place
        } else {
            below(dice, kind.clusters)
        };
    }
    let matrix = fill(vms, |one, other| {
        let part = if of_vm[one] == of_vm[other] {
            1.0
        } else if dice.unit() < kind.linked {
            kind.across
        } else {
            0.0
        };
        MEDIAN_RATE_BYTES * part * lognormal(dice, kind.sigma)
    });
    (matrix, of_vm)
}

fn fill(vms: usize, mut rate: impl FnMut(usize, usize) -> f64) -> TrafficMatrix {
    let names: Vec<String> = (0..vms).map(|vm| format!("vm{vm:03}")).collect();
    let names = names.iter().map(String::as_str);
    let mut matrix = TrafficMatrix::of_vms(names).expect("as many VMs as a group may have");
    for one in 0..vms {
        for other in one + 1..vms {
            // A lognormal number of a large sigma may be endless.
            let rate = rate(one, other).min(f64::MAX);
            matrix.add(one, other, rate).expect("a rate is a number");
        }
    }
    matrix
}

/// Loads that write nothing, with a median of `size` and that deviation of their logarithm; zero makes them equal.
pub fn loads(vms: usize, size: Bytes, sigma: f64, dice: &mut Prng) -> Vec<Load> {
    let load = |_| Load {
        size: Bytes::new(count_near(real(size.get()) * lognormal(dice, sigma)).max(1)),
        dirty: Rate::ZERO,
    };
    (0..vms).map(load).collect()
}

/// A group for tests: gravity, unequal loads, and dirty rates.
#[cfg(test)]
pub(crate) fn problem(vms: usize, seed: u64, split: Split) -> Problem {
    let mut dice = Prng::new(seed);
    let traffic = gravity(vms, 0.7, &mut dice);
    let mut loads = loads(vms, Bytes::gib(4), 0.7, &mut dice);
    for load in &mut loads {
        load.dirty = Rate::new(1e6 * lognormal(&mut dice, 0.7)).expect("a rate");
    }
    let link = Rate::new(1.25e9).expect("a rate");
    Problem::new(traffic, loads, link, split).expect("a group")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_matrix() {
        let total = |seed| gravity(20, 0.5, &mut Prng::new(seed)).total();
        assert!((total(1) - total(1)).abs() < 1e-9);
        assert!((total(1) - total(2)).abs() > 1.0);
    }

    #[test]
    fn a_few_pairs_of_a_gravity_matrix_carry_much_of_its_traffic() {
        let matrix = gravity(68, 0.7, &mut Prng::new(7));
        let mut rates: Vec<f64> = (0..68)
            .flat_map(|one| (0..one).map(move |other| (one, other)))
            .map(|(one, other)| matrix.rate(one, other))
            .collect();
        rates.sort_by(f64::total_cmp);
        let top: f64 = rates.iter().rev().take(rates.len() / 10).sum();
        assert!(top / matrix.total() > 0.4, "{}", top / matrix.total());
    }

    #[test]
    fn each_cluster_has_a_vm_and_talks_within() {
        let kind = Clustered::of(5);
        let (matrix, of_vm) = clustered(30, &kind, &mut Prng::new(1));
        assert!((0..5).all(|cluster| of_vm.contains(&cluster)));
        let within = |vm: usize| -> f64 {
            let row = matrix.row(vm).iter().zip(&of_vm);
            row.filter(|(_, of)| **of == of_vm[vm])
                .map(|(rate, _)| rate)
                .sum()
        };
        let all: f64 = (0..30).map(within).sum();
        assert!(all / (2.0 * matrix.total()) > 0.6);
    }

    #[test]
    fn extreme_spreads_stay_rates() {
        let matrix = gravity(10, 1e6, &mut Prng::new(1));
        assert!(matrix.total().is_finite());
    }
}
