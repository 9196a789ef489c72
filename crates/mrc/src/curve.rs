//! The miss-ratio curve: what part of the accesses a cache of each size would miss.
//!
//! A curve is a list of points that begins at (0 blocks, 1.0) and never rises for a stack algorithm;
//! for others (FIFO, miniature simulations of anything) it may. Between its points an exact curve is
//! a staircase, because each access needs a whole number of blocks; a sampled or simulated one is
//! interpolated, because its points are estimates of a few sizes out of many. Beyond the last point
//! it is flat.
//!
//! Units: sizes in blocks, ratios between 0 and 1.

use units::number::{count_up, real};

/// One size and its miss ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Size of the cache.
    pub blocks: u64,
    /// Misses by accesses, 0 to 1.
    pub miss_ratio: f64,
}

/// What is true between two points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// The ratio of the smaller size.
    Stairs,
    /// The straight line.
    Line,
}

/// A miss-ratio curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    points: Vec<Point>,
    between: Between,
}

impl Curve {
    /// A curve through these points. A point at 0 blocks is added if there is none: a cache of
    /// nothing misses everything.
    ///
    /// # Panics
    /// If sizes do not grow, or a ratio is not between 0 and 1.
    pub fn new(mut points: Vec<Point>, between: Between) -> Self {
        if points.first().is_none_or(|point| point.blocks > 0) {
            let nothing = Point {
                blocks: 0,
                miss_ratio: 1.0,
            };
            points.insert(0, nothing);
        }
        for pair in points.windows(2) {
            assert!(pair[0].blocks < pair[1].blocks, "sizes grow along a curve");
        }
        for point in &points {
            assert!(
                (0.0..=1.0).contains(&point.miss_ratio),
                "a ratio is between 0 and 1"
            );
        }
        Self { points, between }
    }

    /// A stack algorithm's curve from its hits: `(size, hits that need exactly this size)` by
    /// rising size, out of `accesses`. Estimates may begin below zero or end above `accesses`;
    /// ratios are cut to 0 and 1.
    pub(crate) fn from_hits(
        hits: impl IntoIterator<Item = (u64, f64)>,
        accesses: f64,
        between: Between,
    ) -> Self {
        let mut points: Vec<Point> = vec![Point {
            blocks: 0,
            miss_ratio: 1.0,
        }];
        if accesses <= 0.0 {
            return Self { points, between };
        }
        let mut reached = 0.0;
        for (blocks, more) in hits {
            reached += more;
            let miss_ratio = ((accesses - reached) / accesses).clamp(0.0, 1.0);
            let last = points[points.len() - 1];
            if between == Between::Stairs && more == 0.0 {
                continue;
            }
            if blocks == last.blocks {
                let at = points.len() - 1;
                points[at].miss_ratio = if at == 0 { 1.0 } else { miss_ratio };
            } else {
                // An estimate that was too high before it was cut may not make the curve rise.
                let miss_ratio = miss_ratio.min(last.miss_ratio);
                points.push(Point { blocks, miss_ratio });
            }
        }
        Self { points, between }
    }

    /// The points, by rising size; the first is at 0 blocks.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// What is true between the points.
    pub const fn between(&self) -> Between {
        self.between
    }

    /// The miss ratio of a cache of this size.
    pub fn miss_ratio(&self, blocks: u64) -> f64 {
        let above = self.points.partition_point(|point| point.blocks <= blocks);
        let low = self.points[above - 1];
        match (self.between, self.points.get(above)) {
            (Between::Line, Some(high)) => {
                let along = real(blocks - low.blocks) / real(high.blocks - low.blocks);
                low.miss_ratio + along * (high.miss_ratio - low.miss_ratio)
            }
            _ => low.miss_ratio,
        }
    }

    /// The hit ratio of a cache of this size.
    pub fn hit_ratio(&self, blocks: u64) -> f64 {
        1.0 - self.miss_ratio(blocks)
    }

    /// The miss ratio that no size on the curve goes below: first accesses, mostly.
    pub fn floor(&self) -> f64 {
        let ratios = self.points.iter().map(|point| point.miss_ratio);
        ratios.fold(1.0, f64::min)
    }

    /// The largest size on the curve; beyond it nothing changes.
    pub fn blocks_max(&self) -> u64 {
        self.points[self.points.len() - 1].blocks
    }

    /// The smallest size whose miss ratio is at most this; `None` if there is none.
    pub fn blocks_for(&self, miss_ratio: f64) -> Option<u64> {
        let at = self
            .points
            .iter()
            .position(|point| point.miss_ratio <= miss_ratio)?;
        let high = self.points[at];
        let low = match (self.between, at.checked_sub(1)) {
            (Between::Line, Some(before)) => self.points[before],
            _ => return Some(high.blocks),
        };
        let along = (low.miss_ratio - miss_ratio) / (low.miss_ratio - high.miss_ratio);
        let blocks = count_up(along * real(high.blocks - low.blocks));
        Some((low.blocks + blocks).min(high.blocks))
    }

    /// The mean over `sizes` of the distance between two curves (MAE), as the papers of SHARDS and
    /// its successors compare an estimate with the exact curve. Zero for no sizes.
    pub fn mean_absolute_error(&self, other: &Self, sizes: &[u64]) -> f64 {
        let distances = sizes
            .iter()
            .map(|&blocks| (self.miss_ratio(blocks) - other.miss_ratio(blocks)).abs());
        distances.sum::<f64>() / real(sizes.len() as u64).max(1.0)
    }

    /// The curve at these sizes only, with straight lines between them.
    ///
    /// # Panics
    /// If sizes do not grow.
    pub fn at(&self, sizes: &[u64]) -> Self {
        let points = sizes.iter().map(|&blocks| Point {
            blocks,
            miss_ratio: self.miss_ratio(blocks),
        });
        Self::new(points.collect(), Between::Line)
    }
}

/// `count` sizes at even distances up to `blocks_max`, without zero: where [`Curve::mean_absolute_error`]
/// is usually taken. Fewer if `blocks_max` is smaller than `count`.
///
/// # Panics
/// Never: a part of `blocks_max` fits where `blocks_max` does.
pub fn even_sizes(blocks_max: u64, count: u64) -> Vec<u64> {
    let count = count.min(blocks_max);
    let size = |step: u64| {
        u64::try_from(u128::from(blocks_max) * u128::from(step) / u128::from(count))
            .expect("at most blocks_max")
    };
    (1..=count).map(size).collect()
}

/// Sizes to print and to plot: up to 1,000 blocks by doubling in `1/per_octave` steps, and so on to
/// `blocks_max`, together with 100 even ones; so both ends of a curve are seen on either axis.
pub fn plot_sizes(blocks_max: u64, per_octave: u32) -> Vec<u64> {
    let mut sizes = even_sizes(blocks_max, 100);
    let factor = f64::from(per_octave.max(1)).recip().exp2();
    let mut size = 1.0;
    while size < real(blocks_max) {
        sizes.push(count_up(size));
        size *= factor;
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, f64)], between: Between) -> Curve {
        let points = points
            .iter()
            .map(|&(blocks, miss_ratio)| Point { blocks, miss_ratio });
        Curve::new(points.collect(), between)
    }

    #[test]
    fn stairs_keep_the_ratio_of_the_smaller_size() {
        let curve = curve(&[(10, 0.5), (20, 0.25)], Between::Stairs);
        assert_eq!(curve.miss_ratio(0), 1.0);
        assert_eq!(curve.miss_ratio(9), 1.0);
        assert_eq!(curve.miss_ratio(10), 0.5);
        assert_eq!(curve.miss_ratio(19), 0.5);
        assert_eq!(curve.miss_ratio(1000), 0.25);
        assert_eq!(curve.blocks_for(0.5), Some(10));
        assert_eq!(curve.blocks_for(0.3), Some(20));
        assert_eq!(curve.blocks_for(0.2), None);
    }

    #[test]
    fn lines_go_straight_between_points() {
        let curve = curve(&[(16, 0.5), (32, 0.25)], Between::Line);
        assert_eq!(curve.miss_ratio(8), 0.75);
        assert_eq!(curve.miss_ratio(24), 0.375);
        assert_eq!(curve.miss_ratio(40), 0.25);
        assert_eq!(curve.blocks_for(0.375), Some(24));
        assert_eq!(curve.blocks_for(1.0), Some(0));
    }

    #[test]
    fn the_error_is_the_mean_distance() {
        let one = curve(&[(10, 0.5)], Between::Stairs);
        let other = curve(&[(20, 0.5)], Between::Stairs);
        assert_eq!(one.mean_absolute_error(&other, &[5, 10, 15, 20]), 0.25);
        assert_eq!(one.mean_absolute_error(&one, &[5, 10, 15, 20]), 0.0);
        assert_eq!(one.mean_absolute_error(&other, &[]), 0.0);
    }

    #[test]
    fn hits_add_up_to_a_falling_curve() {
        let hits = [(1, 2.0), (3, 0.0), (4, 1.0)];
        let curve = Curve::from_hits(hits, 4.0, Between::Stairs);
        assert_eq!(curve.points().len(), 3);
        assert_eq!(curve.miss_ratio(1), 0.5);
        assert_eq!(curve.miss_ratio(4), 0.25);
        assert_eq!(curve.floor(), 0.25);
        assert_eq!(curve.blocks_max(), 4);
    }

    #[test]
    fn a_corrected_estimate_never_leaves_zero_to_one_or_rises() {
        let hits = [(1, -3.0), (2, 1.0), (3, 4.0), (4, 40.0)];
        let curve = Curve::from_hits(hits, 10.0, Between::Line);
        let ratios: Vec<f64> = curve
            .points()
            .iter()
            .map(|point| point.miss_ratio)
            .collect();
        assert_eq!(ratios, [1.0, 1.0, 1.0, 0.8, 0.0]);
    }

    #[test]
    fn nothing_accessed_is_a_curve_that_misses() {
        let curve = Curve::from_hits([], 0.0, Between::Stairs);
        assert_eq!(curve.miss_ratio(7), 1.0);
        assert_eq!(curve.blocks_max(), 0);
    }

    #[test]
    fn even_sizes_end_at_the_largest() {
        assert_eq!(even_sizes(10, 4), [2, 5, 7, 10]);
        assert_eq!(even_sizes(3, 100), [1, 2, 3]);
        assert!(even_sizes(0, 100).is_empty());
    }

    #[test]
    fn sizes_of_a_plot_grow_and_reach_both_ends() {
        let sizes = plot_sizes(100_000, 4);
        assert_eq!(sizes[0], 1);
        assert_eq!(sizes.last(), Some(&100_000));
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(sizes.len() < 180);
    }
}
