//! The lower convex hull of a curve: what a mix of sizes can reach, and what each further block buys
//! at best.
//!
//! On the hull the gain of a further block never grows with size, so a greedy division of flash among
//! VMs is optimal, and a knee is where the gain drops most (cliffs, such as a loop's, become the line
//! that a cache split in two could follow). Algorithm: A. M. Andrew, *Another efficient algorithm for
//! convex hulls in two dimensions*, 1979, lower half.

use crate::curve::{Between, Curve, Point};
use units::number::real;

impl Curve {
    /// The lower convex hull, with straight lines between its corners.
    pub fn hull(&self) -> Self {
        let mut corners: Vec<Point> = Vec::new();
        for &point in self.points() {
            while let [.., before, last] = corners[..]
                && !turns_up(before, last, point)
            {
                corners.pop();
            }
            corners.push(point);
        }
        Self::new(corners, Between::Line)
    }
}

/// True if the way from `a` over `b` to `c` bends upwards, so that `b` is a corner from below.
fn turns_up(a: Point, b: Point, c: Point) -> bool {
    let slope =
        |from: Point, to: Point| (to.miss_ratio - from.miss_ratio) / real(to.blocks - from.blocks);
    slope(a, b) < slope(b, c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(ratios: &[(u64, f64)]) -> Curve {
        let points = ratios
            .iter()
            .map(|&(blocks, miss_ratio)| Point { blocks, miss_ratio });
        Curve::new(points.collect(), Between::Stairs)
    }

    #[test]
    fn a_cliff_becomes_a_line() {
        let hull = curve(&[(10, 0.9), (99, 0.9), (100, 0.2), (200, 0.1)]).hull();
        let corners: Vec<u64> = hull.points().iter().map(|point| point.blocks).collect();
        assert_eq!(corners, [0, 10, 100, 200]);
        assert!((hull.miss_ratio(55) - 0.55).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn a_hull_is_below_its_curve_and_convex(
            steps in proptest::collection::vec((1..50_u64, 0.0..1.0_f64), 1..40),
        ) {
            let mut points = Vec::new();
            let (mut blocks, mut miss_ratio) = (0, 1.0);
            for (width, factor) in steps {
                blocks += width;
                miss_ratio *= factor;
                points.push((blocks, miss_ratio));
            }
            let curve = curve(&points);
            let hull = curve.hull();
            for size in 0..=blocks {
                prop_assert!(hull.miss_ratio(size) <= curve.miss_ratio(size) + 1e-12);
            }
            for three in hull.points().windows(3) {
                prop_assert!(turns_up(three[0], three[1], three[2]));
            }
        }
    }
}
