//! The size at a curve's knee.

use policy::demand::knee;
use units::number::real;

impl crate::Curve {
    /// The size at the knee of the hit ratio, on the convex hull; `None` if the curve has none.
    pub fn knee_blocks(&self) -> Option<u64> {
        let hull = self.hull();
        let points: Vec<(f64, f64)> = hull
            .points()
            .iter()
            .map(|point| (real(point.blocks), 1.0 - point.miss_ratio))
            .collect();
        knee(&points).map(|knee| hull.points()[knee.at].blocks)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Between, Curve, Point};

    #[test]
    fn the_cliff_of_a_loop_is_the_knee_of_a_curve_with_a_tail() {
        let points = [(100, 0.2), (1000, 0.1)];
        let points = points.map(|(blocks, miss_ratio)| Point { blocks, miss_ratio });
        let curve = Curve::new(points.to_vec(), Between::Stairs);
        assert_eq!(curve.knee_blocks(), Some(100));
    }
}
