//! Which sizes an advice is about, and where the curve through them is level.

use super::limits;
use super::outlook::Behaviour;
use units::number::real;

/// The sizes, in blocks, that an advice is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Those that may be advised, growing. The knee is one of them.
    pub candidates: Vec<u64>,
    /// Those that are compared with the one advised because somebody asked.
    pub asked: Vec<u64>,
}

/// Sizes from a 64th of the footprint to a quarter more than it, in steps of the root of two through
/// `anchor`. For each that is not too large, twice the size is among them.
pub fn candidates(anchor: u64, footprint_blocks: u64) -> Vec<u64> {
    let (least, most) = (
        footprint_blocks / 64,
        footprint_blocks + footprint_blocks / 4,
    );
    let mut sizes = Vec::new();
    for start in [anchor, root_of_two(anchor)] {
        let halves = (0..u64::BITS).map(|times| start >> times);
        let doubles = (0..u64::BITS).map_while(|times| start.checked_mul(1 << times));
        let is_between = |size: &u64| *size >= least.max(1) && *size <= most;
        sizes.extend(halves.chain(doubles).filter(is_between));
    }
    sizes.push(most.max(1));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn root_of_two(size: u64) -> u64 {
    units::number::count_near(real(size) * std::f64::consts::SQRT_2)
}

/// Halves and doubles of the size advised; of all candidates if none is.
pub(super) fn shown(advised: Option<u64>, candidates: &[u64]) -> impl Iterator<Item = u64> {
    let anchor = match (advised, candidates) {
        // The largest candidate is no step of the others.
        (advised, [.., below, last]) if advised.is_none_or(|advised| advised == *last) => *below,
        (advised, _) => advised.unwrap_or(0),
    };
    candidates
        .iter()
        .copied()
        .filter(move |blocks| are_octaves(anchor, *blocks))
}

/// Whether one of two sizes is about a power of two of the other.
fn are_octaves(one: u64, other: u64) -> bool {
    let octaves = (real(one.max(1)) / real(other.max(1))).log2();
    (octaves - octaves.round()).abs() < 0.1
}

/// Twice and four times a size, as far as candidates reach.
pub(super) fn larger(blocks: u64, candidates: &[u64]) -> Vec<u64> {
    let most = candidates.last().copied().unwrap_or(0);
    let sizes = [2, 4].map(|times| blocks.saturating_mul(times).min(most));
    let mut sizes: Vec<u64> = sizes.into_iter().filter(|size| *size > blocks).collect();
    sizes.dedup();
    sizes
}

/// The smallest candidate that has enough hits and of which twice as much gains little, and makes no write a tenth faster
/// where writes wait for room; the largest if none has.
pub(super) fn level(behaviour: &Behaviour, candidates: &[u64]) -> Option<u64> {
    let last = *candidates.last()?;
    let hits = |blocks: u64| behaviour.reads.hit_ratio(blocks);
    let enough = limits::KNEE_HITS_MIN * hits(last);
    // A longer log makes fewer writes wait, whatever reads do.
    let writes_wait = |blocks: u64| {
        let times = behaviour.times.as_ref();
        times.is_some_and(|times| {
            let twice = times.write_us.at(blocks.saturating_mul(2));
            twice < (1.0 - limits::LATENCY_GAIN_MIN) * times.write_us.at(blocks)
        })
    };
    let is_level = |blocks: &&u64| {
        let gain = hits(blocks.saturating_mul(2)) - hits(**blocks);
        hits(**blocks) >= enough && gain < limits::DOUBLING_GAIN_MIN && !writes_wait(**blocks)
    };
    candidates.iter().find(is_level).copied().or(Some(last))
}

/// That size if something twice as large could be had, so that a reader sees that it gains little.
pub(super) fn knee(behaviour: &Behaviour, candidates: &[u64]) -> Option<u64> {
    let last = *candidates.last()?;
    level(behaviour, candidates).filter(|blocks| blocks.saturating_mul(2) <= last)
}

#[cfg(test)]
mod tests {
    use super::super::outlook::tests::behaviour;
    use super::super::{BySize, Times};
    use super::*;
    use crate::{Between, Curve, Point};

    #[test]
    fn where_twice_the_size_still_gains_there_is_no_knee() {
        let points = [(100, 0.40), (200, 0.28), (400, 0.25), (800, 0.24)];
        let points = points.map(|(blocks, miss_ratio)| Point { blocks, miss_ratio });
        let of = |most: usize| Behaviour {
            reads: Curve::new(points[..most].to_vec(), Between::Line),
            ..behaviour()
        };
        let candidates = [100, 200, 400, 800];
        assert_eq!(knee(&of(4), &candidates), Some(400));
        assert_eq!(
            knee(&of(3), &candidates[..3]),
            None,
            "200 gains 3 of 100 reads"
        );
        assert_eq!(larger(400, &candidates), [800]);
    }

    #[test]
    fn a_loop_that_does_not_fit_yet_is_no_knee() {
        let points = [(100, 1.0), (200, 1.0), (400, 0.1)];
        let points = points.map(|(blocks, miss_ratio)| Point { blocks, miss_ratio });
        let of = Behaviour {
            reads: Curve::new(points.to_vec(), Between::Line),
            ..behaviour()
        };
        assert_eq!(knee(&of, &[100, 200, 400, 800]), Some(400));
    }

    #[test]
    fn a_size_whose_double_makes_writes_faster_is_not_level() {
        let points = [(100, 0.5), (200, 0.49), (400, 0.49), (800, 0.49)];
        let points = points.map(|(blocks, miss_ratio)| Point { blocks, miss_ratio });
        let write_us = [(100, 900.0), (200, 500.0), (400, 20.0), (800, 20.0)];
        let waits = |write_us: &[(u64, f64)]| Behaviour {
            reads: Curve::new(points.to_vec(), Between::Line),
            times: Some(Times {
                read_us: BySize::new(vec![(100, 80.0)]),
                write_us: BySize::new(write_us.to_vec()),
            }),
            ..behaviour()
        };
        let candidates = [100, 200, 400, 800];
        assert_eq!(level(&waits(&write_us), &candidates), Some(400));
        assert_eq!(level(&waits(&write_us[2..]), &candidates), Some(100));
    }

    #[test]
    fn candidates_are_the_anchor_and_what_it_is_doubled_and_halved() {
        let sizes = candidates(1_000, 10_000);
        assert!(sizes.contains(&1_000) && sizes.contains(&2_000) && sizes.contains(&1_414));
        assert!(sizes.first() == Some(&176) && sizes.last() == Some(&12_500));
        assert_eq!(candidates(0, 0), [1]);
        assert_eq!(candidates(1, 1), [1]);
    }
}
