//! Simulated annealing (Kirkpatrick et al. 1983) of the order, as Petit does for minimum linear arrangement
//! ("Experiments on the Minimum Linear Arrangement Problem", JEA 8, 2003): from a good order and not from a random one.
//!
//! The start is the best of R-Min-Cut, Kmeans-SF and the Fiedler order, each in both directions. Then
//! [`ANNEALING_STEPS`] random changes (swaps, moves, reversals): one that makes the volume grow by g is made with the
//! probability e^(-g/t). The temperature t falls by equal factors, from what random changes cost at the start to
//! a hundredth of that. A change that would put more dirty rates together than the link bears is not made. The best
//! order on the way is the answer, so that it is never worse than the start.

use super::exchange::{Change, Exchange};
use super::{fiedler, kmeans_sf, r_min_cut};
use crate::cost;
use crate::dice::below;
use crate::limits::ANNEALING_STEPS;
use crate::problem::Problem;
use crate::sizes::Sizes;
use units::Prng;
use units::number::real;

/// Changes that are weighed to find the temperature to begin with.
const SAMPLES: usize = 200;
/// The first temperature, as a part of what a random change costs: warm enough to leave the start's valley, not so
/// warm that the start is forgotten. At 0.2 one of 160 groups of 14 VMs ended 80 % above its optimum, at 2 plans of 200
/// VMs saved 0.6 points less.
const WARMTH: f64 = 0.5;
/// The last temperature, as a part of the first.
const COLD: f64 = 1e-2;

/// Places that a reversal turns around at most. Its cost grows with their cube for small waves, and long ones are hardly
/// ever made: 200 VMs one at a time took 1.95 s without this limit, take 0.16 s with it, and save as much.
const REVERSED_MAX: usize = 48;

/// Waves of these sizes. Under [`Sizes::Auto`] those of the start are tried, and waves of equal sizes: as many of them,
/// and half as large, down to one VM. VMs that write much cross faster in small waves, so that the largest that
/// converge are not always the best.
pub(super) fn waves(problem: &Problem, sizes: &Sizes, dice: &mut Prng) -> Vec<Vec<usize>> {
    let starts = starts(problem, sizes, dice);
    let of_start = |sizes: &Sizes| {
        best(
            problem,
            starts.iter().map(|order| sizes.cut(problem, order)),
        )
    };
    let mut found = anneal_from(problem, of_start(sizes), dice);
    if let Sizes::Auto { largest } = sizes {
        let mut size = problem.vms().div_ceil(found.len()).min(*largest);
        while size > 0 {
            let other = anneal_from(problem, of_start(&Sizes::Each(size)), dice);
            found = best(problem, [found, other].into_iter());
            size /= 2;
        }
    }
    found
}

fn anneal_from(problem: &Problem, start: Vec<Vec<usize>>, dice: &mut Prng) -> Vec<Vec<usize>> {
    let sizes: Vec<usize> = start.iter().map(Vec::len).collect();
    let order = anneal(Exchange::new(problem, start.concat(), &sizes), dice);
    let annealed = Sizes::Given(sizes).cut(problem, &order);
    // Sums that were kept over thousands of changes are rounded; the comparison is not.
    best(problem, [start, annealed].into_iter())
}

/// The first of the best.
fn best(problem: &Problem, plans: impl Iterator<Item = Vec<Vec<usize>>>) -> Vec<Vec<usize>> {
    let judged = plans.map(|waves| (cost::judged(problem, &waves), waves));
    let least = judged.reduce(|one, other| if other.0 < one.0 { other } else { one });
    least.map(|(_, waves)| waves).unwrap_or_default()
}

/// The orders of the other methods, each in both directions; R-Min-Cut's is first.
fn starts(problem: &Problem, sizes: &Sizes, dice: &mut Prng) -> Vec<Vec<usize>> {
    let orders = [
        r_min_cut::order(problem),
        kmeans_sf::waves(problem, sizes, dice).concat(),
        fiedler::order(problem),
    ];
    let both = orders.into_iter().flat_map(|order| {
        let reversed = order.iter().rev().copied().collect();
        [order, reversed]
    });
    both.collect()
}

/// The best order that was seen.
fn anneal(mut exchange: Exchange<'_>, dice: &mut Prng) -> Vec<usize> {
    let mut best = (exchange.judged(), exchange.order().to_vec());
    let vms = best.1.len();
    if vms < 2 || exchange.is_within_a_wave(0, vms - 1) {
        return best.1;
    }
    let mut weigh = |_| {
        let change = draw(&exchange, dice);
        (exchange.weigh(change).1 - exchange.judged().1).abs()
    };
    let mut costs: Vec<f64> = (0..SAMPLES).map(&mut weigh).collect();
    costs.sort_by(f64::total_cmp);
    let mut temperature = costs[SAMPLES / 2] * WARMTH;
    let fall = libm::pow(COLD, 1.0 / real(ANNEALING_STEPS as u64));
    for _ in 0..ANNEALING_STEPS {
        let change = draw(&exchange, dice);
        let (now, next) = (exchange.judged(), exchange.weigh(change));
        let is_taken = next <= now
            || next.0 == now.0 && dice.unit() < libm::exp((now.1 - next.1) / temperature);
        if is_taken {
            exchange.apply(change, next);
            if next < best.0 {
                best.0 = next;
                best.1.copy_from_slice(exchange.order());
            }
        }
        temperature *= fall;
    }
    best.1
}

/// A random change that touches more than one wave.
fn draw(exchange: &Exchange<'_>, dice: &mut Prng) -> Change {
    let vms = exchange.order().len();
    let (one, other) = loop {
        let (one, other) = (below(dice, vms), below(dice, vms));
        if !exchange.is_within_a_wave(one, other) {
            break (one, other);
        }
    };
    let (low, high) = (one.min(other), one.max(other));
    match below(dice, 3) {
        0 => Change::Move(one, other),
        1 if high - low < REVERSED_MAX => Change::Reverse(low, high),
        _ => Change::Swap(low, high),
    }
}
