//! The least volume, by dynamic programming over the sets of VMs that are across (after Held and Karp 1962; for linear
//! arrangements Koren and Harel, "A Multi-Scale Algorithm for the Linear Arrangement Problem", 2002).
//!
//! ```text
//!   least(S) = min over waves g within S, of the size that is due, of least(S \ g) + cut(S \ g) x time(g)
//! ```
//! Sets are bits. For waves of size s there are as many steps as pairs of a set and a wave within the rest: at most
//! a million for sixteen VMs, at s = 2 and 4.

use super::annealed;
use crate::cost::Judged;
use crate::error::PlanError;
use crate::limits::EXACT_VMS_MAX;
use crate::problem::Problem;
use crate::sizes::Sizes;
use units::Prng;

/// Waves of these sizes; under [`Sizes::Auto`] those that the annealed plan has.
pub(super) fn waves(
    problem: &Problem,
    sizes: &Sizes,
    dice: &mut Prng,
) -> Result<Vec<Vec<usize>>, PlanError> {
    let vms = problem.vms();
    if vms > EXACT_VMS_MAX {
        return Err(PlanError::TooManyForExact(vms));
    }
    let sizes = match sizes {
        Sizes::Auto { .. } => annealed::waves(problem, sizes, dice)
            .iter()
            .map(Vec::len)
            .collect(),
        Sizes::Each(_) | Sizes::Given(_) => {
            let any: Vec<usize> = (0..vms).collect();
            sizes.of_order(problem, &any)
        }
    };
    Ok(least(problem, &sizes))
}

fn least(problem: &Problem, sizes: &[usize]) -> Vec<Vec<usize>> {
    let vms = problem.vms();
    let all = (1_usize << vms) - 1;
    let tables = Tables::of(problem);
    let mut best: Vec<Option<Judged>> = vec![None; all + 1];
    let mut last_waves = vec![0_usize; all + 1];
    best[0] = Some((0, 0.0));
    // Sets of one count hold whole waves, so a wave's sets are done before the next one's.
    let mut reached = vec![0_usize];
    for size in sizes {
        let mut next = Vec::new();
        for across in reached {
            let (excess, volume) = best[across].unwrap_or_default();
            for wave in subsets(all & !across, *size) {
                let judged = (
                    excess + tables.excesses_ppm[wave],
                    volume + tables.cuts[across] * tables.times_s[wave],
                );
                let set = across | wave;
                if best[set].is_none() {
                    next.push(set);
                }
                if best[set].is_none_or(|known| judged < known) {
                    best[set] = Some(judged);
                    last_waves[set] = wave;
                }
            }
        }
        reached = next;
    }
    let mut waves = Vec::with_capacity(sizes.len());
    let mut set = all;
    while set != 0 {
        waves.push(members(last_waves[set]));
        set &= !last_waves[set];
    }
    waves.reverse();
    waves
}

/// For each set of VMs the traffic that it cuts, and its time and excess as a wave.
struct Tables {
    cuts: Vec<f64>,
    times_s: Vec<f64>,
    excesses_ppm: Vec<u64>,
}

impl Tables {
    fn of(problem: &Problem) -> Self {
        let sets = 1_usize << problem.vms();
        let mut cuts = vec![0.0; sets];
        for set in 1..sets {
            // The set without its first VM is a smaller number, and known.
            let vm = set.trailing_zeros() as usize;
            let rest = set & (set - 1);
            let row = problem.traffic().row(vm).iter().enumerate();
            let changes =
                row.map(|(other, rate)| if rest >> other & 1 == 1 { -rate } else { *rate });
            cuts[set] = cuts[rest] + changes.sum::<f64>();
        }
        Self {
            cuts,
            times_s: (0..sets).map(|set| problem.span_s(&members(set))).collect(),
            excesses_ppm: (0..sets)
                .map(|set| problem.excess_ppm(&members(set)))
                .collect(),
        }
    }
}

fn members(set: usize) -> Vec<usize> {
    (0..EXACT_VMS_MAX).filter(|vm| set >> vm & 1 == 1).collect()
}

/// Every subset of `count` members of a set: Gosper's hack on the places of its members.
fn subsets(set: usize, count: usize) -> impl Iterator<Item = usize> {
    let members = members(set);
    let end = 1_usize << members.len();
    let first = (1_usize << count) - 1;
    let following = |chosen: &usize| {
        let lowest = chosen & chosen.wrapping_neg();
        let carried = chosen + lowest;
        Some(carried | (((chosen ^ carried) / lowest) >> 2))
    };
    std::iter::successors(Some(first), following)
        .take_while(move |chosen| *chosen < end)
        .map(move |chosen| {
            let members = members.iter().enumerate();
            let taken = members.filter(|(place, _)| chosen >> place & 1 == 1);
            taken.fold(0, |set, (_, member)| set | 1 << member)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost;
    use crate::problem::samples::of_pairs;
    use crate::standin;
    use crate::{Method, Split};

    #[test]
    fn each_subset_comes_once() {
        let mut found: Vec<usize> = subsets(0b1_1011, 2).collect();
        found.sort_unstable();
        assert_eq!(found, [0b11, 0b1001, 0b1010, 0b1_0001, 0b1_0010, 0b1_1000]);
        assert_eq!(subsets(0b111, 3).collect::<Vec<_>>(), [0b111]);
    }

    /// A chain of four with one strong pair: worked by hand.
    #[test]
    fn the_least_of_a_chain_is_found() {
        let problem = of_pairs(&[("a", "b", 1.0), ("b", "c", 9.0), ("c", "d", 1.0)]);
        let plan = Method::Exact.plan(&problem, &Sizes::Each(2), 1).unwrap();
        // b and c together: each of the weak pairs is cut for two seconds.
        assert_eq!(plan.volume(), Some(4.0));
        let serial = Method::Exact.plan(&problem, &Sizes::Each(1), 1).unwrap();
        assert_eq!(serial.volume(), Some(11.0));
    }

    /// Against all orders of seven.
    #[test]
    fn no_order_is_better() {
        fn all_orders(order: &mut Vec<usize>, from: usize, see: &mut impl FnMut(&[usize])) {
            if from == order.len() {
                return see(order);
            }
            for other in from..order.len() {
                order.swap(from, other);
                all_orders(order, from + 1, see);
                order.swap(from, other);
            }
        }
        for (seed, sizes) in [
            (1, vec![3, 4]),
            (2, vec![2, 2, 3]),
            (3, vec![1; 7]),
            (4, vec![4, 1, 2]),
        ] {
            for split in [Split::Equal, Split::Dealt] {
                let problem = standin::problem(7, seed, split);
                let sizes = Sizes::Given(sizes.clone());
                let mut least = f64::INFINITY;
                all_orders(&mut (0..7).collect(), 0, &mut |order| {
                    least = least.min(cost::volume(&problem, &sizes.cut(&problem, order)));
                });
                let found = Method::Exact.plan(&problem, &sizes, 1).unwrap();
                let found = found.volume().unwrap();
                assert!(
                    (found / least - 1.0).abs() < 1e-9,
                    "{seed} {split:?}: {found} {least}"
                );
            }
        }
    }

    #[test]
    fn more_vms_than_the_tables_hold_are_refused() {
        let problem = standin::problem(17, 1, Split::Dealt);
        let refused = Method::Exact.plan(&problem, &Sizes::Each(2), 1);
        assert_eq!(refused, Err(PlanError::TooManyForExact(17)));
    }
}
