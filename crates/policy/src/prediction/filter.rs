//! Outliers: one window far above the rest says nothing of the next one.
//!
//! Paper: CloudCache (see [`crate::demand`]), section 4.2: an observation greater than `lambda` times the
//! mean of the last `n`, itself included, is replaced by that mean. The mean is of what was observed, not
//! of what it was replaced by, so that a lasting rise is believed after a few windows.

use std::collections::VecDeque;

/// Replaces outliers.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    lambda: f64,
    values: usize,
    observed: VecDeque<f64>,
}

/// Settings that filter nothing, or everything.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum FilterError {
    /// A value is never below the mean by that.
    #[error("an outlier is more than {0} times the mean: give a finite number above 1")]
    Lambda(f64),
    /// The mean would be of too few or too many values.
    #[error("a mean of {0} values: give from 2 to {VALUES_MAX}")]
    Values(usize),
}

/// Values that the mean may be of: a year of days.
const VALUES_MAX: usize = 366;

impl Default for Filter {
    /// The paper's: five times the mean of twenty.
    fn default() -> Self {
        Self {
            lambda: 5.0,
            values: 20,
            observed: VecDeque::new(),
        }
    }
}

impl Filter {
    /// Replaces what is more than `lambda` times the mean of the last `values`.
    ///
    /// # Errors
    /// If `lambda` is not above 1, or `values` not from 2 to 366.
    pub fn new(lambda: f64, values: usize) -> Result<Self, FilterError> {
        if !(lambda > 1.0 && lambda.is_finite()) {
            return Err(FilterError::Lambda(lambda));
        }
        if !(2..=VALUES_MAX).contains(&values) {
            return Err(FilterError::Values(values));
        }
        Ok(Self {
            lambda,
            values,
            observed: VecDeque::new(),
        })
    }

    /// The value, or what stands for it.
    ///
    /// # Panics
    /// Never: the values of a mean are few.
    pub fn pass(&mut self, value: f64) -> f64 {
        if self.observed.len() == self.values {
            self.observed.pop_front();
        }
        self.observed.push_back(value);
        let count = u32::try_from(self.observed.len()).expect("a few values");
        let mean = self.observed.iter().sum::<f64>() / f64::from(count);
        if value > self.lambda * mean {
            mean
        } else {
            value
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_far_above_the_mean_is_replaced_by_it() {
        let mut filter = Filter::default();
        for _ in 0..19 {
            assert!((filter.pass(100.0) - 100.0).abs() < 1e-9);
        }
        // (19 x 100 + 1000) / 20 = 145, and 1000 > 5 x 145.
        assert!((filter.pass(1000.0) - 145.0).abs() < 1e-9);
        // (18 x 100 + 1000 + 100) / 20 = 145: not an outlier.
        assert!((filter.pass(100.0) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_lasting_rise_is_believed_after_a_few_windows() {
        let mut filter = Filter::default();
        for _ in 0..19 {
            filter.pass(100.0);
        }
        let passed: Vec<f64> = (0..4).map(|_| filter.pass(1000.0)).collect();
        // Means of 145, 190 and 235: 1000 is more than five times the first two.
        assert_eq!(passed[2..], [1000.0, 1000.0]);
        assert!(passed[..2].iter().all(|value| *value < 200.0));
    }

    #[test]
    fn settings_that_filter_everything_are_refused() {
        assert_eq!(Filter::new(1.0, 20).unwrap_err(), FilterError::Lambda(1.0));
        assert_eq!(Filter::new(5.0, 1).unwrap_err(), FilterError::Values(1));
        assert!(Filter::new(f64::NAN, 20).is_err());
        assert!(Filter::new(2.0, 5).is_ok());
    }
}
