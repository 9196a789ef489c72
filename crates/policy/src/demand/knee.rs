//! Where a curve that rises less and less stops being worth following: its knee.
//!
//! Paper: V. Satopää, J. Albrecht, D. Irwin and B. Raghavan, *Finding a "Kneedle" in a Haystack:
//! Detecting Knee Points in System Behavior*, ICDCS workshops 2011.
//!
//! Both axes are scaled to 0..1; the knee is the point farthest above the diagonal, that is, where the
//! part of the gain that has been had exceeds the part of the cost that has been paid by most:
//!
//! ```text
//!   1 |            _____-----     the difference of a straight line is 0 everywhere,
//!     |      knee /    .          of a curve that jumps at once nearly 1
//!     |      /     .
//!   0 | /  .
//!     +---------------------
//! ```
//!
//! The paper smooths measurements with a spline and looks for local maxima online. Here curves are
//! complete and the caller hands in one that is concave already (a hull), so there is one maximum and
//! nothing to smooth.

/// The most distinguished point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// Its place in the list of points.
    pub at: usize,
    /// How far it is above the diagonal, 0 to 1, both axes scaled to 0..1.
    pub height: f64,
}

/// Below this height a curve is called straight: nothing distinguishes one of its points. A parabola
/// (`y = 2x - x^2`), which nobody would say has a knee, reaches 0.25.
pub const HEIGHT_MIN: f64 = 0.3;

/// The knee of a curve through `(cost, gain)` points by rising cost. `None` if there are fewer than
/// three points, if nothing is gained, or if no point reaches [`HEIGHT_MIN`].
pub fn knee(points: &[(f64, f64)]) -> Option<Knee> {
    let (&first, &last) = (points.first()?, points.last()?);
    let (width, rise) = (last.0 - first.0, last.1 - first.1);
    if points.len() < 3 || width <= 0.0 || rise <= 0.0 {
        return None;
    }
    let mut best = Knee { at: 0, height: 0.0 };
    for (at, &(cost, gain)) in points.iter().enumerate() {
        let height = (gain - first.1) / rise - (cost - first.0) / width;
        if height > best.height {
            best = Knee { at, height };
        }
    }
    (best.height >= HEIGHT_MIN).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bend_is_a_knee() {
        let points = [(0.0, 0.0), (1.0, 4.0), (2.0, 8.0), (6.0, 9.0), (10.0, 10.0)];
        let knee = knee(&points).unwrap();
        assert_eq!(knee.at, 2);
        assert!((knee.height - 0.6).abs() < 1e-12);
    }

    #[test]
    fn a_straight_line_and_a_parabola_have_none() {
        let line: Vec<_> = (0..10).map(|x| (f64::from(x), f64::from(x))).collect();
        assert_eq!(knee(&line), None);
        let parabola = |x: f64| (x, 2.0 * x - x * x);
        let parabola: Vec<_> = (0..=10).map(|x| parabola(f64::from(x) / 10.0)).collect();
        assert_eq!(knee(&parabola), None);
    }

    #[test]
    fn what_gains_nothing_has_none() {
        assert_eq!(knee(&[(0.0, 0.0), (1.0, 0.0), (2.0, 0.0)]), None);
        assert_eq!(knee(&[]), None);
    }
}
