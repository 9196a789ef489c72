//! What a chart shows once more, enlarged: the points that lie together, where a few others stretch the axes so
//! far that nobody can tell them apart.
//!
//! A point lies far off if it is outside of the middle half of all by more than that half's length, along or up
//! (Tukey's fences, 1977, with 1 instead of 1.5).

use super::chart::Line;

/// How far outside of the middle half a point may lie, in lengths of it.
const FENCE: f64 = 1.0;
/// A close-up is worth its room if it shows at most this part of an axis.
const PART_MAX: f64 = 0.6;
/// Fewer points make no crowd.
const POINTS_MIN: usize = 12;

/// The points of each line that lie together, and the names of lines that have others; `None` if all do, or too
/// little would be gained.
pub(super) struct Closeup {
    /// By line.
    pub(super) points: Vec<Vec<usize>>,
    /// Lines of which a part is left out.
    pub(super) far: Vec<String>,
}

/// From the least to the largest value that is kept.
#[derive(Clone, Copy)]
struct Fence {
    low: f64,
    high: f64,
}

impl Fence {
    fn around(values: &mut [f64]) -> Self {
        values.sort_by(f64::total_cmp);
        let (first, third) = (values[values.len() / 4], values[values.len() * 3 / 4]);
        let free = (third - first) * FENCE;
        Self {
            low: first - free,
            high: third + free,
        }
    }

    fn has(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The close-up of these lines.
pub(super) fn of(lines: &[Line]) -> Option<Closeup> {
    let all: Vec<(f64, f64)> = lines.iter().flat_map(|line| line.points.clone()).collect();
    if all.len() < POINTS_MIN {
        return None;
    }
    let fence_of = |pick: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = all.iter().map(pick).collect();
        Fence::around(&mut values)
    };
    let (along, up) = (fence_of(|point| point.0), fence_of(|point| point.1));
    let is_kept = |point: &(f64, f64)| along.has(point.0) && up.has(point.1);
    let kept: Vec<(f64, f64)> = all.iter().copied().filter(is_kept).collect();
    let part = |pick: fn(&(f64, f64)) -> f64| {
        let whole = span(all.iter().map(pick));
        if whole > 0.0 {
            span(kept.iter().map(pick)) / whole
        } else {
            1.0
        }
    };
    let gains = part(|point| point.0) <= PART_MAX || part(|point| point.1) <= PART_MAX;
    if !gains || kept.len() < POINTS_MIN / 2 {
        return None;
    }
    let places = |line: &Line| {
        let points = line.points.iter().enumerate();
        points
            .filter(|(_, point)| is_kept(point))
            .map(|(place, _)| place)
            .collect()
    };
    let points: Vec<Vec<usize>> = lines.iter().map(places).collect();
    let far = lines
        .iter()
        .zip(&points)
        .filter(|(line, kept)| kept.len() < line.points.len())
        .map(|(line, _)| line.name.clone())
        .collect();
    Some(Closeup { points, far })
}

fn span(values: impl Iterator<Item = f64>) -> f64 {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        low = low.min(value);
        high = high.max(value);
    }
    high - low
}

#[cfg(test)]
mod tests {
    use super::super::look::Look;
    use super::*;

    fn line(name: &str, points: Vec<(f64, f64)>) -> Line {
        Line {
            name: name.to_owned(),
            look: Look::of(0),
            notes: Vec::new(),
            points,
        }
    }

    #[test]
    fn what_lies_far_off_is_left_out_and_named() {
        let near = |at: u32| {
            let points = (0..4).map(|n| (f64::from(n), 0.5 + 0.01 * f64::from(at + n)));
            line("near", points.collect())
        };
        let far = line("far", vec![(0.0, 0.02), (1.0, 0.03)]);
        let lines = [near(0), near(2), near(4), far];
        let closeup = of(&lines).unwrap();
        assert_eq!(closeup.far, ["far"]);
        let kept: Vec<usize> = closeup.points.iter().map(Vec::len).collect();
        assert_eq!(kept, [4, 4, 4, 0]);
        assert!(of(&lines[..3]).is_none(), "they lie together");
        assert!(of(&lines[2..]).is_none(), "they are few");
    }
}
