//! R-Min-Cut (Clique, chapter 2.2.1): the minimum cut of the traffic graph, then one VM after another from the larger
//! side, and from the smaller one, each the one that leaves the least traffic across the link.
//!
//! The cut is Stoer and Wagner's ("A Simple Min-Cut Algorithm", JACM 44, 1997): n - 1 phases, each of which orders the
//! vertices by their adjacency to those before, notes the cut around the last one, and merges the last two. O(n^3) on
//! a matrix, which is what dense traffic is.

use crate::problem::Problem;
use crate::traffic::TrafficMatrix;

/// The VMs in the order in which they cross.
pub(super) fn order(problem: &Problem) -> Vec<usize> {
    let traffic = problem.traffic();
    let is_within = minimum_cut(traffic);
    let (within, without): (Vec<usize>, Vec<usize>) =
        (0..traffic.vms()).partition(|vm| is_within[*vm]);
    let sides = if within.len() >= without.len() {
        [within, without]
    } else {
        [without, within]
    };
    let totals: Vec<f64> = (0..traffic.vms()).map(|vm| traffic.of_vm(vm)).collect();
    let mut order = Vec::with_capacity(traffic.vms());
    // Traffic of each VM with those that have been chosen.
    let mut toward = vec![0.0; traffic.vms()];
    for mut side in sides {
        while !side.is_empty() {
            // What moving the VM adds to the traffic across the link: less is better.
            let added = |vm: usize| totals[vm] - 2.0 * toward[vm];
            let best = (0..side.len())
                .min_by(|one, other| added(side[*one]).total_cmp(&added(side[*other])))
                .unwrap_or_default();
            let vm = side.remove(best);
            order.push(vm);
            for (sum, rate) in toward.iter_mut().zip(traffic.row(vm)) {
                *sum += rate;
            }
        }
    }
    order
}

/// One side of a minimum cut, as a mark on each VM. One VM alone is a side of nothing.
fn minimum_cut(traffic: &TrafficMatrix) -> Vec<bool> {
    let vms = traffic.vms();
    let mut weights: Vec<Vec<f64>> = (0..vms).map(|vm| traffic.row(vm).to_vec()).collect();
    // The VMs that a vertex stands for, and the vertices that are left.
    let mut merged: Vec<Vec<usize>> = (0..vms).map(|vm| vec![vm]).collect();
    let mut left: Vec<usize> = (0..vms).collect();
    let mut least = f64::INFINITY;
    let mut side = vec![false; vms];
    while left.len() > 1 {
        let (before, last, cut) = phase(&weights, &left);
        if cut < least {
            least = cut;
            side.fill(false);
            for vm in &merged[last] {
                side[*vm] = true;
            }
        }
        let taken = std::mem::take(&mut merged[last]);
        merged[before].extend(taken);
        left.retain(|vertex| *vertex != last);
        for vertex in &left {
            if *vertex != before {
                let sum = weights[before][*vertex] + weights[last][*vertex];
                weights[before][*vertex] = sum;
                weights[*vertex][before] = sum;
            }
        }
    }
    side
}

/// The last two vertices of a phase, and the cut around the last one.
fn phase(weights: &[Vec<f64>], left: &[usize]) -> (usize, usize, f64) {
    let mut outside = left.to_vec();
    let mut toward = vec![0.0_f64; weights.len()];
    let mut before = left[0];
    let mut last = left[0];
    let mut cut = 0.0;
    while !outside.is_empty() {
        let next = (0..outside.len())
            .max_by(|one, other| toward[outside[*one]].total_cmp(&toward[outside[*other]]))
            .unwrap_or_default();
        let vertex = outside.swap_remove(next);
        before = last;
        last = vertex;
        cut = toward[vertex];
        for other in &outside {
            toward[*other] += weights[vertex][*other];
        }
    }
    (before, last, cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::samples::of_pairs;
    use crate::standin;
    use crate::{Load, Rate, Split};
    use units::{Bytes, Prng};

    fn cut_weight(traffic: &TrafficMatrix, side: &[bool]) -> f64 {
        let pairs = (0..side.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
        pairs
            .filter(|(one, other)| side[*one] != side[*other])
            .map(|(one, other)| traffic.rate(one, other))
            .sum()
    }

    /// The example of Stoer and Wagner's paper: eight vertices, and the least cut is 4, around 3, 4, 7 and 8.
    #[test]
    fn the_cut_of_the_papers_example_is_found() {
        let problem = of_pairs(&[
            ("1", "2", 2.0),
            ("1", "5", 3.0),
            ("2", "5", 2.0),
            ("2", "6", 2.0),
            ("2", "3", 3.0),
            ("3", "4", 4.0),
            ("3", "7", 2.0),
            ("4", "7", 2.0),
            ("4", "8", 2.0),
            ("5", "6", 3.0),
            ("6", "7", 1.0),
            ("7", "8", 3.0),
        ]);
        let traffic = problem.traffic();
        let side = minimum_cut(traffic);
        assert!((cut_weight(traffic, &side) - 4.0).abs() < 1e-9);
        let names = (0..8)
            .filter(|vm| side[*vm])
            .map(|vm| traffic.names()[vm].as_str());
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        assert!(
            names == ["3", "4", "7", "8"] || names == ["1", "2", "5", "6"],
            "{names:?}"
        );
    }

    #[test]
    fn no_other_cut_is_smaller() {
        for seed in 0..20 {
            let traffic = standin::gravity(9, 1.0, &mut Prng::new(seed));
            let found = cut_weight(&traffic, &minimum_cut(&traffic));
            let cuts = (1..255_u32).map(|mask| {
                let side: Vec<bool> = (0..9).map(|vm| mask >> vm & 1 == 1).collect();
                cut_weight(&traffic, &side)
            });
            let least = cuts.fold(f64::INFINITY, f64::min);
            assert!(
                (found / least - 1.0).abs() < 1e-9,
                "{seed}: {found} {least}"
            );
        }
    }

    #[test]
    fn pairs_that_talk_are_neighbours() {
        let problem = of_pairs(&[
            ("a", "b", 100.0),
            ("c", "d", 90.0),
            ("e", "f", 80.0),
            ("a", "c", 1.0),
            ("d", "e", 1.0),
        ]);
        let order = order(&problem);
        for pair in [[0, 1], [2, 3], [4, 5]] {
            let place = |vm: usize| order.iter().position(|other| *other == vm).unwrap();
            assert_eq!(place(pair[0]).abs_diff(place(pair[1])), 1, "{order:?}");
        }
    }

    #[test]
    fn one_vm_and_silent_vms_have_an_order() {
        let traffic = TrafficMatrix::of_vms(["a", "b", "c"]).unwrap();
        let load = Load {
            size: Bytes::ZERO,
            dirty: Rate::ZERO,
        };
        let link = Rate::new(1.0).unwrap();
        let problem = Problem::new(traffic, vec![load; 3], link, Split::Dealt).unwrap();
        let mut order = order(&problem);
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2]);
        assert_eq!(minimum_cut(&TrafficMatrix::of_vms(["a"]).unwrap()), [false]);
    }
}
