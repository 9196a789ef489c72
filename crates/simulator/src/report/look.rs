//! How series of a picture look, so that no two are alike: by hue, by the shape of their marks and by the
//! dash of their lines.
//!
//! ```text
//!   series        0 … 7             8 … 15            16 … 23
//!   hue           0 … 7             0 … 7             0 … 7
//!   marks         filled 0 … 7      hollow 3 … 2      filled 6 … 5
//!   lines         solid             dashed            dotted
//! ```
//!
//! The hues are told apart by people with any one kind of cones missing; where two are near each other, marks and
//! dashes differ. After 24 series the looks begin again.

use std::fmt::{self, Write};

/// Hues that the page's style names `c0`, `c1` and so on.
pub(super) const HUES: usize = 8;
/// Dashes that it names `d0`, `d1` and so on.
const DASHES: usize = 3;
/// Looks that differ.
pub(super) const LOOKS: usize = HUES * DASHES;
/// From the middle of a mark to its edge, about.
const REACH: f64 = 4.2;

/// How one series looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    hue: usize,
    mark: usize,
    dash: usize,
}

impl Look {
    /// The look of the series with this place.
    pub(super) const fn of(place: usize) -> Self {
        let place = place % LOOKS;
        let dash = place / HUES;
        Self {
            hue: place % HUES,
            mark: (place + dash * 3) % HUES,
            dash,
        }
    }

    /// The hue and the marks of the series with this place, with another dash: a line that belongs to it.
    pub(super) const fn dashed(place: usize, dash: usize) -> Self {
        let mut look = Self::of(place);
        look.dash = dash % DASHES;
        look
    }

    /// The classes of its elements.
    pub(super) fn class(self) -> String {
        format!("c{} d{}", self.hue, self.dash)
    }

    /// Writes one of its marks, without its end: a title may follow.
    pub(super) fn begin_mark(self, out: &mut String, x: f64, y: f64) -> fmt::Result {
        let class = if self.dash.is_multiple_of(2) {
            "mark"
        } else {
            "mark hollow"
        };
        write!(out, "<path class=\"{class}\" d=\"{}\">", self.outline(x, y))
    }

    fn outline(self, x: f64, y: f64) -> String {
        let r = REACH;
        let corners: &[(f64, f64)] = match self.mark {
            0 => {
                return format!(
                    "M{:.1} {y:.1}a{r} {r} 0 1 0 {:.1} 0a{r} {r} 0 1 0 -{:.1} 0z",
                    x - r,
                    2.0 * r,
                    2.0 * r
                );
            }
            1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => &[(0.0, -1.25), (1.15, 0.85), (-1.15, 0.85)],
            3 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
            4 => &[(0.0, 1.25), (1.15, -0.85), (-1.15, -0.85)],
            // A plus, a cross and a star of four points.
            5 => &[
                (-0.4, -1.3),
                (0.4, -1.3),
                (0.4, -0.4),
                (1.3, -0.4),
                (1.3, 0.4),
                (0.4, 0.4),
                (0.4, 1.3),
                (-0.4, 1.3),
                (-0.4, 0.4),
                (-1.3, 0.4),
                (-1.3, -0.4),
                (-0.4, -0.4),
            ],
            6 => &[
                (-1.2, -0.65),
                (-0.65, -1.2),
                (0.0, -0.55),
                (0.65, -1.2),
                (1.2, -0.65),
                (0.55, 0.0),
                (1.2, 0.65),
                (0.65, 1.2),
                (0.0, 0.55),
                (-0.65, 1.2),
                (-1.2, 0.65),
                (-0.55, 0.0),
            ],
            _ => &[
                (0.0, -1.5),
                (0.4, -0.4),
                (1.5, 0.0),
                (0.4, 0.4),
                (0.0, 1.5),
                (-0.4, 0.4),
                (-1.5, 0.0),
                (-0.4, -0.4),
            ],
        };
        let points: Vec<String> = corners
            .iter()
            .map(|(across, down)| format!("{:.1} {:.1}", across.mul_add(r, x), down.mul_add(r, y)))
            .collect();
        format!("M{}z", points.join("L"))
    }

    /// A piece of its line with a mark, as a legend shows it.
    pub(super) fn sample(self) -> Result<String, fmt::Error> {
        let mut out = format!(
            "<svg class=\"{}\" viewBox=\"0 0 40 14\"><path class=\"line\" d=\"M1 7H39\"/>",
            self.class()
        );
        self.begin_mark(&mut out, 20.0, 7.0)?;
        out.push_str("</path></svg>");
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_twenty_four_series_look_alike() {
        for one in 0..LOOKS {
            for other in 0..one {
                let (a, b) = (Look::of(one), Look::of(other));
                let equal = [a.hue == b.hue, a.mark == b.mark, a.dash == b.dash];
                let equal = equal.into_iter().filter(|equal| *equal).count();
                // Two that share their dash differ in hue and mark; two of one hue in mark and dash.
                assert!(equal <= 1, "{one} and {other}");
                assert_ne!(a.sample().unwrap(), b.sample().unwrap());
            }
        }
    }

    #[test]
    fn a_mark_lies_around_its_point() {
        let mut out = String::new();
        Look::of(1).begin_mark(&mut out, 100.0, 50.0).unwrap();
        assert_eq!(
            out,
            "<path class=\"mark\" d=\"M96.2 46.2L103.8 46.2L103.8 53.8L96.2 53.8z\">"
        );
    }
}
