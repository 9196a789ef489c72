//! The points themselves: a ring of rows, without a clock.

use std::collections::VecDeque;

/// The most points that are kept: 24 hours at 30 s. With [`SERIES`] they take 320 KiB.
pub(super) const POINTS_MAX: usize = 2880;

/// Every series, in the order of a point's values. The unit is the last word.
pub(crate) const SERIES: [&str; 13] = [
    "hit_ratio",
    "guest_read_bytes_per_second",
    "origin_read_bytes_per_second",
    "guest_read_p50_seconds",
    "guest_read_p99_seconds",
    "origin_read_p50_seconds",
    "origin_read_p99_seconds",
    "flash_read_p99_seconds",
    "flash_written_bytes_per_second",
    "cached_bytes",
    "dirty_bytes",
    "dirty_oldest_seconds",
    "load_ratio",
];

/// A value of each series; not a number where there is none.
pub(super) type Values = [f64; SERIES.len()];

/// The last points.
#[derive(Debug, Default)]
pub(crate) struct Points {
    rows: VecDeque<(f64, Values)>,
}

impl Points {
    /// Adds a point that was taken at `at` seconds since 1970, in place of the oldest if there are too many.
    pub(super) fn push(&mut self, at: f64, values: Values) {
        if self.rows.len() == POINTS_MAX {
            self.rows.pop_front();
        }
        self.rows.push_back((at, values));
    }

    /// When each point after `since` was taken.
    pub(crate) fn times(&self, since: f64) -> Vec<f64> {
        self.after(since).map(|(at, _)| *at).collect()
    }

    /// What a series was at each point after `since`; none if there is no such series.
    pub(crate) fn series(&self, name: &str, since: f64) -> Option<Vec<Option<f64>>> {
        let index = SERIES.iter().position(|series| *series == name)?;
        let values = self.after(since).map(|(_, values)| values[index]);
        Some(
            values
                .map(|value| value.is_finite().then_some(value))
                .collect(),
        )
    }

    fn after(&self, since: f64) -> impl Iterator<Item = &(f64, Values)> {
        self.rows.iter().filter(move |(at, _)| *at > since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_point_leaves_for_the_next() {
        let mut points = Points::default();
        for (at, second) in (0..=POINTS_MAX).zip(0_u32..) {
            assert_eq!(points.times(-1.0).len(), at.min(POINTS_MAX));
            points.push(f64::from(second), [f64::from(second); SERIES.len()]);
        }
        let times = points.times(-1.0);
        assert_eq!((times.len(), times[0]), (POINTS_MAX, 1.0));
    }

    #[test]
    fn a_series_begins_after_the_time_that_was_asked_for() {
        let mut points = Points::default();
        let mut values = [1.0; SERIES.len()];
        points.push(10.0, values);
        values[0] = f64::NAN;
        points.push(20.0, values);
        assert_eq!(points.series("hit_ratio", 0.0), Some(vec![Some(1.0), None]));
        assert_eq!(points.series("load_ratio", 10.0), Some(vec![Some(1.0)]));
        assert_eq!(points.series("loads", 0.0), None);
    }
}
