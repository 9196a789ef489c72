//! A tenant's forecast: filter, predictor, and how wrong it was.

use super::{Filter, Predictor, Spec};

/// Filter and predictor on one series.
pub struct Forecast {
    filter: Filter,
    predictor: Box<dyn Predictor>,
    errors: f64,
    compared: u32,
}

/// The distance between predicted and observed, by observed; `None` if nothing was observed.
pub fn error(predicted: f64, observed: f64) -> Option<f64> {
    (observed > 0.0).then(|| (predicted - observed).abs() / observed)
}

impl Forecast {
    /// Nothing observed yet.
    pub fn new(spec: &Spec, filter: Filter) -> Self {
        Self {
            filter,
            predictor: spec.build(),
            errors: 0.0,
            compared: 0,
        }
    }

    /// A window is over, and this was its value. Returns what the next one's will be.
    ///
    /// # Panics
    /// If the value is negative or not finite.
    pub fn observe(&mut self, observed: f64) -> f64 {
        assert!(
            observed >= 0.0 && observed.is_finite(),
            "a demand is a finite number, zero or more"
        );
        let before = self.predictor.predicted();
        if let Some(error) = before.and_then(|predicted| error(predicted, observed)) {
            self.errors += error;
            self.compared = self.compared.saturating_add(1);
        }
        self.predictor.observe(self.filter.pass(observed));
        self.predictor
            .predicted()
            .expect("a value has been observed")
    }

    /// What the next window's value will be; `None` before the first observation.
    pub fn predicted(&self) -> Option<f64> {
        self.predictor.predicted()
    }

    /// The mean prediction error so far, 0 and up; `None` before there is one.
    pub fn error_mean(&self) -> Option<f64> {
        (self.compared > 0).then(|| self.errors / f64::from(self.compared))
    }
}

impl std::fmt::Debug for Forecast {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forecast")
            .field("predicted", &self.predicted())
            .field("error_mean", &self.error_mean())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_what_was_observed() {
        let mut forecast = Forecast::new(&"last".parse().unwrap(), Filter::default());
        assert_eq!(forecast.predicted(), None);
        assert!((forecast.observe(100.0) - 100.0).abs() < 1e-9);
        assert_eq!(forecast.error_mean(), None);
        forecast.observe(200.0);
        forecast.observe(100.0);
        // |100 - 200| / 200 = .5 and |200 - 100| / 100 = 1.
        assert!((forecast.error_mean().unwrap() - 0.75).abs() < 1e-9);
        forecast.observe(0.0);
        assert!((forecast.error_mean().unwrap() - 0.75).abs() < 1e-9);
        assert_eq!(error(1.0, 0.0), None);
    }
}
