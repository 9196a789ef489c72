//! Kmeans-SF (Clique, chapter 2.2.1 and 2.2.2): clusters of k-means, *shuffled*: the first is the one with the least
//! traffic with all others for its time; after it always the one with the most traffic with those across for its time.
//!
//! k-means decides the sizes of its clusters. Where sizes are given, the clusters stand one behind another in the
//! shuffled order, which is then cut like any other.

use super::{k_means, r_min_cut};
use crate::plan::Plan;
use crate::problem::Problem;
use crate::sizes::Sizes;
use units::Prng;

/// Waves of these sizes: as many clusters as waves are looked for.
pub(super) fn waves(problem: &Problem, sizes: &Sizes, dice: &mut Prng) -> Vec<Vec<usize>> {
    let count = match sizes {
        Sizes::Each(size) => problem.vms().div_ceil(*size),
        Sizes::Given(sizes) => sizes.len(),
        // Nothing but an order says how many waves converge.
        Sizes::Auto { .. } => sizes.of_order(problem, &r_min_cut::order(problem)).len(),
    };
    sizes.cut(problem, &order(problem, count, dice))
}

/// The VMs of `count` clusters, one cluster behind another.
pub(super) fn order(problem: &Problem, count: usize, dice: &mut Prng) -> Vec<usize> {
    shuffle(problem, k_means::clusters(problem.traffic(), count, dice)).concat()
}

/// Clusters as waves, with the sizes that k-means gave them; with and without the shuffle.
///
/// `count` is at most as many as VMs. The seed decides the first centres.
pub fn of_own_sizes(problem: &Problem, count: usize, seed: u64) -> (Plan, Plan) {
    let clusters = k_means::clusters(problem.traffic(), count, &mut Prng::new(seed));
    let shuffled = shuffle(problem, clusters.clone());
    (Plan::new(problem, shuffled), Plan::new(problem, clusters))
}

fn shuffle(problem: &Problem, mut clusters: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let mut is_across = vec![false; problem.vms()];
    let mut shuffled: Vec<Vec<usize>> = Vec::with_capacity(clusters.len());
    while !clusters.is_empty() {
        let quotients: Vec<f64> = clusters
            .iter()
            .map(|cluster| {
                let with = |vm: usize| {
                    if shuffled.is_empty() {
                        !cluster.contains(&vm)
                    } else {
                        is_across[vm]
                    }
                };
                for_its_time(
                    traffic_with(problem, cluster, with),
                    problem.span_s(cluster),
                )
            })
            .collect();
        let places = 0..clusters.len();
        let by = |one: &usize, other: &usize| quotients[*one].total_cmp(&quotients[*other]);
        // Of equal ones the first, so that clusters that do not talk keep their order.
        let next = if shuffled.is_empty() {
            places.min_by(by)
        } else {
            places.rev().max_by(by)
        };
        let cluster = clusters.remove(next.unwrap_or_default());
        for vm in &cluster {
            is_across[*vm] = true;
        }
        shuffled.push(cluster);
    }
    shuffled
}

fn traffic_with(problem: &Problem, cluster: &[usize], with: impl Fn(usize) -> bool) -> f64 {
    let of_vm = |vm: &usize| -> f64 {
        let row = problem.traffic().row(*vm).iter().enumerate();
        row.filter(|(other, _)| with(*other))
            .map(|(_, rate)| rate)
            .sum()
    };
    cluster.iter().map(of_vm).sum()
}

/// A cluster that takes no time comes before all that do, unless it talks to nobody.
fn for_its_time(rate: f64, time_s: f64) -> f64 {
    match (rate > 0.0, time_s > 0.0) {
        (false, _) => 0.0,
        (true, false) => f64::INFINITY,
        (true, true) => rate / time_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::samples::of_pairs;

    #[test]
    fn the_most_isolated_cluster_is_first_and_its_partners_follow() {
        let problem = of_pairs(&[("a", "b", 1.0), ("b", "c", 50.0), ("c", "d", 3.0)]);
        let alone = |vms: [usize; 4]| vms.map(|vm| vec![vm]).to_vec();
        // `a` has the least traffic; `b` talks to it, `c` to b, `d` to c.
        assert_eq!(shuffle(&problem, alone([2, 1, 3, 0])), alone([0, 1, 2, 3]));
    }

    #[test]
    fn a_large_cluster_is_first_of_two() {
        let problem = of_pairs(&[("a", "b", 1.0), ("b", "c", 5.0), ("c", "d", 3.0)]);
        let shuffled = shuffle(&problem, vec![vec![0], vec![1, 2, 3]]);
        // One unit of traffic for one second, or for three.
        assert_eq!(shuffled, [vec![1, 2, 3], vec![0]]);
    }
}
