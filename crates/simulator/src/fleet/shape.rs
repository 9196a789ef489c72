//! The shape of a VM's curve: miss ratios at sizes that are parts of its working set.
//!
//! Straight lines join the points; a share of nothing hits nothing, and beyond the last point nothing changes. A VM's
//! working set changes from window to window and its shape does not, so a curve follows the working set.

use units::number::{count_near, real};
use units::{BLOCK_BYTES, Bytes};

/// Sizes of the points, as parts of the working set: as many as a host may publish.
const SIZES: [f64; placement::limits::CURVE_POINTS_MAX] = [
    0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0,
];

/// The smallest working set that a curve is drawn of. Below 20 blocks the first points would be one.
const LEAST: Bytes = Bytes::new(256 * BLOCK_BYTES);

/// A curve by parts of a working set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    /// Miss ratios at [`SIZES`].
    misses: [f64; SIZES.len()],
}

impl Shape {
    /// Of a VM that hits so much when its working set fits: concave up to it, and nearly flat beyond. `bend` is how
    /// concave; 1 is a straight line.
    pub(super) fn concave(hits: f64, bend: f64) -> Self {
        Self {
            misses: SIZES.map(|size| {
                let inner = 1.0 - libm::pow(1.0 - size.min(1.0), bend);
                let beyond = 0.25 * (1.0 - hits) * ((size - 1.0).max(0.0) / 3.0);
                (1.0 - hits * inner - beyond).clamp(0.0, 1.0)
            }),
        }
    }

    /// A straight line up to the working set, and flat beyond.
    pub(super) fn straight(hits: f64) -> Self {
        Self {
            misses: SIZES.map(|size| 1.0 - hits * size.min(1.0)),
        }
    }

    /// What `miss_ratio` says of caches of so many blocks, with a working set of `blocks`.
    pub(super) fn of(blocks: f64, miss_ratio: impl Fn(u64) -> f64) -> Self {
        Self {
            misses: SIZES.map(|size| miss_ratio(count_near(size * blocks))),
        }
    }

    /// The part of the reads that a share of this part of the working set answers.
    pub(super) fn hits(&self, part: f64) -> f64 {
        let above = SIZES.partition_point(|known| *known <= part);
        let (low, low_miss) = match above.checked_sub(1) {
            Some(at) => (SIZES[at], self.misses[at]),
            None => (0.0, 1.0),
        };
        let Some(high) = SIZES.get(above) else {
            return 1.0 - low_miss;
        };
        let along = (part - low) / (high - low);
        1.0 - (low_miss + along * (self.misses[above] - low_miss))
    }

    /// The curve with a working set of this size: sizes in bytes with their miss ratios.
    pub(super) fn points(&self, working_set: Bytes) -> Vec<(u64, f64)> {
        let working_set = real(working_set.max(LEAST).get());
        let points = SIZES.iter().zip(self.misses);
        points
            .map(|(size, miss)| (count_near(size * working_set), miss))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_points_are_a_curve_that_hits_as_the_shape_does() {
        let shape = Shape::concave(0.8, 2.0);
        let set = Bytes::gib(7);
        let curve = placement::Curve::new(&shape.points(set)).unwrap();
        for part in [0.03, 0.3, 0.77, 1.0, 1.7, 6.0] {
            let share = Bytes::new(count_near(part * real(set.get())));
            let far = (curve.hits(share) - shape.hits(part)).abs();
            assert!(far < 1e-4, "{far} at {part}");
        }
        assert!(placement::Curve::new(&shape.points(Bytes::ZERO)).is_ok());
    }

    #[test]
    fn a_step_of_a_trace_is_a_step_of_the_shape() {
        // Everything hits from 100 blocks on, a half of the working set.
        let shape = Shape::of(200.0, |blocks| if blocks < 100 { 1.0 } else { 0.1 });
        let near = |part, hits: f64| (shape.hits(part) - hits).abs() < 1e-9;
        assert!(near(0.0, 0.0));
        assert!(near(0.4, 0.0));
        assert!(near(0.45, 0.45));
        assert!(near(0.5, 0.9));
        assert!(near(9.0, 0.9));
    }

    #[test]
    fn a_straight_line_ends_at_the_working_set() {
        let shape = Shape::straight(0.6);
        let near = |part, hits: f64| (shape.hits(part) - hits).abs() < 1e-9;
        assert!(near(0.25, 0.15));
        assert!(near(1.0, 0.6));
        assert!(near(3.5, 0.6));
    }
}
