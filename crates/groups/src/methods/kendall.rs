//! Kendall's tau-b of two vectors: how much they agree on which of any two places is the larger.
//!
//! Knight, "A Computer Method for Calculating Kendall's Tau with Ungrouped Data" (JASA 61, 1966): the pairs that disagree
//! are the exchanges that merge sort makes of the second vector in the order of the first. O(n log n), and the sort of
//! each vector is done once, by [`Ranking`], however many it is compared with.

use units::number::real;

/// A vector, as its ranks.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    /// The rank of each place; equal values have one rank.
    ranks: Vec<u32>,
    /// Places by rank.
    order: Vec<u32>,
    /// Pairs of places with equal values.
    ties: u64,
}

impl Ranking {
    /// The ranks of these values.
    pub(super) fn of(values: &[f64]) -> Self {
        let at = |place: &u32| values[*place as usize];
        let mut order: Vec<u32> = (0_u32..).take(values.len()).collect();
        order.sort_by(|one, other| at(one).total_cmp(&at(other)));
        let mut ranks = vec![0; values.len()];
        let mut ties = 0;
        let runs = order.chunk_by(|one, other| at(one).total_cmp(&at(other)).is_eq());
        for (rank, run) in (0..).zip(runs) {
            for place in run {
                ranks[*place as usize] = rank;
            }
            ties += pairs(run.len());
        }
        Self { ranks, order, ties }
    }
}

/// Room for comparisons, used again and again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    ranks: Vec<u32>,
    merged: Vec<u32>,
}

/// Tau-b from -1 to 1. Two constant vectors agree (1); a constant one and another say nothing of each other (0).
pub(super) fn tau(one: &Ranking, other: &Ranking, scratch: &mut Scratch) -> f64 {
    let all = pairs(one.ranks.len());
    let (ordered_one, ordered_other) = (all - one.ties, all - other.ties);
    if ordered_one == 0 || ordered_other == 0 {
        return if ordered_one == ordered_other {
            1.0
        } else {
            0.0
        };
    }
    scratch.ranks.clear();
    let mut ties_both = 0;
    let rank = |place: &u32| one.ranks[*place as usize];
    for run in one.order.chunk_by(|left, right| rank(left) == rank(right)) {
        let from = scratch.ranks.len();
        scratch
            .ranks
            .extend(run.iter().map(|place| other.ranks[*place as usize]));
        if run.len() > 1 {
            let run = &mut scratch.ranks[from..];
            run.sort_unstable();
            ties_both += run
                .chunk_by(|left, right| left == right)
                .map(|run| pairs(run.len()))
                .sum::<u64>();
        }
    }
    let exchanges = sort_counting(&mut scratch.ranks, &mut scratch.merged);
    let agree_less_disagree =
        real(all + ties_both) - real(one.ties) - real(other.ties) - 2.0 * real(exchanges);
    agree_less_disagree / (real(ordered_one) * real(ordered_other)).sqrt()
}

const fn pairs(count: usize) -> u64 {
    let count = count as u64;
    count * count.saturating_sub(1) / 2
}

/// Runs of this length are sorted by insertion, which counts its exchanges as well and is faster on so few.
const RUN: usize = 16;

/// Sorts, and returns by how many exchanges of neighbours.
fn sort_counting(ranks: &mut Vec<u32>, merged: &mut Vec<u32>) -> u64 {
    let mut exchanges = 0;
    for run in ranks.chunks_mut(RUN) {
        for end in 1..run.len() {
            let mut at = end;
            while at > 0 && run[at - 1] > run[at] {
                run.swap(at - 1, at);
                exchanges += 1;
                at -= 1;
            }
        }
    }
    let mut width = RUN;
    while width < ranks.len() {
        merged.clear();
        for both in ranks.chunks(2 * width) {
            let (left, right) = both.split_at(width.min(both.len()));
            exchanges += merge(left, right, merged);
        }
        std::mem::swap(ranks, merged);
        width *= 2;
    }
    exchanges
}

fn merge(mut left: &[u32], mut right: &[u32], merged: &mut Vec<u32>) -> u64 {
    let mut exchanges = 0;
    while let ([first, rest @ ..], [second, others @ ..]) = (left, right) {
        if second < first {
            merged.push(*second);
            exchanges += left.len() as u64;
            right = others;
        } else {
            merged.push(*first);
            left = rest;
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
    exchanges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fast(one: &[f64], other: &[f64]) -> f64 {
        tau(
            &Ranking::of(one),
            &Ranking::of(other),
            &mut Scratch::default(),
        )
    }

    /// By its definition, pair by pair.
    fn slow(one: &[f64], other: &[f64]) -> f64 {
        let sign = |values: &[f64], left: usize, right: usize| match values[left]
            .total_cmp(&values[right])
        {
            std::cmp::Ordering::Less => -1.0,
            std::cmp::Ordering::Equal => 0.0,
            std::cmp::Ordering::Greater => 1.0,
        };
        let (mut agree, mut of_one, mut of_other) = (0.0, 0.0_f64, 0.0_f64);
        for left in 0..one.len() {
            for right in 0..left {
                let (first, second) = (sign(one, left, right), sign(other, left, right));
                agree += first * second;
                of_one += first * first;
                of_other += second * second;
            }
        }
        if of_one == 0.0 || of_other == 0.0 {
            return if of_one + of_other == 0.0 { 1.0 } else { 0.0 };
        }
        agree / (of_one * of_other).sqrt()
    }

    #[test]
    fn vectors_in_one_order_agree_and_in_the_other_disagree() {
        assert!((fast(&[1.0, 2.0, 3.0], &[10.0, 20.0, 21.0]) - 1.0).abs() < 1e-12);
        assert!((fast(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        // Worked by hand: five pairs agree and one does not.
        assert!((fast(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 4.0]) - 4.0 / 6.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn merging_counts_what_the_definition_says(
            both in prop::collection::vec((0_u8..6, 0_u8..40), 2..90),
        ) {
            let one: Vec<f64> = both.iter().map(|(one, _)| f64::from(*one)).collect();
            let other: Vec<f64> = both.iter().map(|(_, other)| f64::from(*other)).collect();
            prop_assert!((fast(&one, &other) - slow(&one, &other)).abs() < 1e-9);
            prop_assert!((fast(&other, &one) - slow(&one, &other)).abs() < 1e-9);
        }
    }
}
