//! What part of a VM's reads a share of the flash would answer: a curve of at most 16 points.

use crate::limits::{CURVE_POINTS_MAX, SIZE_MAX};
use mrc::{Between, Point};
use units::{BLOCK_BYTES, Bytes};

/// The hit ratio of a VM's reads by its share of the flash. Straight lines join its points; nothing hits at size
/// zero, and beyond the last point nothing changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve(mrc::Curve);

/// Why points are not a curve.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum CurveError {
    /// Too many points.
    #[error("a curve of {0} points: at most {CURVE_POINTS_MAX}")]
    TooManyPoints(usize),
    /// A ratio that is no ratio.
    #[error("a miss ratio of {0} on a curve: it is a number from 0 to 1")]
    Ratio(f64),
    /// Sizes that do not grow by a block or more, or a size beyond any flash.
    #[error(
        "a size of {0} bytes on a curve: sizes are above zero, grow by a block (4096 bytes) or more, and end at 1PiB"
    )]
    Size(u64),
}

impl Curve {
    /// The curve through these points: sizes in bytes with their miss ratios. No points are a VM that reads nothing
    /// twice.
    ///
    /// # Errors
    /// If there are too many points, sizes do not grow by a block, or a ratio is not between 0 and 1.
    pub fn new(points: &[(u64, f64)]) -> Result<Self, CurveError> {
        if points.len() > CURVE_POINTS_MAX {
            return Err(CurveError::TooManyPoints(points.len()));
        }
        let mut taken: Vec<Point> = Vec::with_capacity(points.len() + 1);
        for &(bytes, miss_ratio) in points {
            if !(0.0..=1.0).contains(&miss_ratio) {
                return Err(CurveError::Ratio(miss_ratio));
            }
            let blocks = bytes / BLOCK_BYTES;
            let before = taken.last().map_or(0, |point| point.blocks);
            if blocks <= before || bytes > SIZE_MAX.get() {
                return Err(CurveError::Size(bytes));
            }
            taken.push(Point { blocks, miss_ratio });
        }
        Ok(Self(mrc::Curve::new(taken, Between::Line)))
    }

    /// The part of the reads that a share of this size answers, 0 to 1.
    pub fn hits(&self, share: Bytes) -> f64 {
        self.0.hit_ratio(share.get() / BLOCK_BYTES)
    }

    /// The points, as they were given: sizes in bytes, miss ratios.
    pub fn points(&self) -> Vec<(u64, f64)> {
        let points = self.0.points().iter().filter(|point| point.blocks > 0);
        points
            .map(|point| (point.blocks * BLOCK_BYTES, point.miss_ratio))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_between_two_points_hits_between_them() {
        let curve = Curve::new(&[(1 << 20, 0.5), (3 << 20, 0.3)]).unwrap();
        let near = |share, hits: f64| (curve.hits(share) - hits).abs() < 1e-9;
        assert!(near(Bytes::ZERO, 0.0));
        assert!(near(Bytes::mib(2), 0.6));
        assert!(near(Bytes::mib(9), 0.7));
        assert_eq!(curve.points(), [(1 << 20, 0.5), (3 << 20, 0.3)]);
    }

    #[test]
    fn points_that_are_no_curve_are_refused() {
        let nan = Curve::new(&[(4096, f64::NAN)]).unwrap_err();
        assert!(matches!(nan, CurveError::Ratio(_)));
        assert_eq!(Curve::new(&[(4096, 1.5)]), Err(CurveError::Ratio(1.5)));
        assert_eq!(
            Curve::new(&[(8192, 0.5), (8192, 0.4)]),
            Err(CurveError::Size(8192))
        );
        assert_eq!(Curve::new(&[(100, 0.5)]), Err(CurveError::Size(100)));
        let many: Vec<_> = (1..=17).map(|n| (n * 4096, 0.5)).collect();
        assert_eq!(Curve::new(&many), Err(CurveError::TooManyPoints(17)));
    }
}
